//go:build linux

package agent

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"
	osexec "os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/cascade-run/cascade/comms"
)

func TestOutputsOutliveTheAgent(t *testing.T) {
	state := t.TempDir()
	h := startHost(t, func(c *Config) { c.State = state })
	j := h.submit(`
job: keep
tasks:
  fill: {run: fill, with: {n: 100000}, out: [v]}
  lost: {run: fill, with: {n: 100000}, out: [v]}
  add: {run: add, in: {v: lost.v}, out: [sum]}
outputs: [fill.v]
`)
	if got := j.ended(); strings.Count(got, "finished 1") != 3 {
		t.Fatalf("got %s", got)
	}
	d := j.output("fill")
	before := h.bytes(j.id, d)
	if err := h.stop(); err != nil {
		t.Fatal(err)
	}
	h = startHost(t, func(c *Config) { c.State = state })
	c := h.ctrl
	c.await("a snapshot", func() bool { return c.known.Done })
	if len(c.known.Jobs) != 1 || c.known.Jobs[0].Job != j.id || len(c.known.Jobs[0].Datasets) != 1 || c.known.Jobs[0].Datasets[0].Ref != d.Ref {
		t.Fatalf("the next agent has %+v", c.known.Jobs)
	}
	if after := h.bytes(j.id, d); !bytes.Equal(before, after) {
		t.Errorf("%d bytes became %d other bytes", len(before), len(after))
	}
}

func TestAgentKilled(t *testing.T) {
	dir, state := t.TempDir(), t.TempDir()
	fifo := filepath.Join(dir, "fifo")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	ctrl := newFakeController(t)
	child := osexec.Command(os.Args[0])
	child.Env = append(os.Environ(), "CASCADE_TEST_AGENT="+state, "CASCADE_TEST_CONTROLLER="+ctrl.ln.Addr(), "NEST_FIFO="+fifo)
	child.Stderr = os.Stderr
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	h := &host{t: t, ctrl: ctrl, dir: dir}
	j := h.submit(`
job: nest
tasks:
  fill: {run: fill, with: {n: 10000}, out: [v]}
  large: {run: fill, with: {n: 2000000}, out: [v]}
  nest: {run: nest, with: {n: 1}, out: [n]}
outputs: [fill.v, large.v]
`)
	var small, big []byte
	for i := range 10000 {
		small = binary.LittleEndian.AppendUint64(small, math.Float64bits(float64(i)))
	}
	for i := range 2000000 {
		big = binary.LittleEndian.AppendUint64(big, math.Float64bits(float64(i)))
	}
	j.output("fill")
	j.output("large")
	text, err := os.ReadFile(fifo)
	if err != nil {
		t.Fatal(err)
	}
	watch := &deathWatch{t: t}
	for _, word := range strings.Fields(string(text)) {
		pid, err := strconv.Atoi(word)
		if err != nil {
			t.Fatalf("ids %q", text)
		}
		watch.add(pid)
	}
	if len(watch.fds) != 2 {
		t.Fatalf("ids %q", text)
	}
	if err := child.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	child.Wait()
	watch.await()

	named := Agent{cfg: Config{Name: "host", State: state}}
	dir = filepath.Join(shmFolder, fmt.Sprintf("cascade-%d-%s", os.Getuid(), named.storeName()))
	for _, unsealed := range []string{"a77", "f78", "o79"} {
		if err := os.WriteFile(filepath.Join(dir, unsealed), make([]byte, 4096), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	beside := filepath.Join(dir, "o79.d") // of a command that was killed with the agent
	if err := errors.Join(os.Mkdir(beside, 0o700), os.WriteFile(filepath.Join(beside, "x.tmp"), nil, 0o400)); err != nil {
		t.Fatal(err)
	}
	// The next agent of the same state folder takes over what was sealed, and clears away all else.
	h = startHost(t, func(c *Config) { c.State = state })
	c := h.ctrl
	c.await("a snapshot", func() bool { return c.known.Done })
	if len(c.known.Jobs) != 1 || c.known.Jobs[0].Job != j.id || len(c.known.Jobs[0].Datasets) != 2 {
		t.Fatalf("the next agent has %+v", c.known.Jobs)
	}
	for i, want := range [][]byte{small, big} {
		if got := h.bytes(j.id, c.known.Jobs[0].Datasets[i]); !bytes.Equal(got, want) {
			t.Errorf("dataset %d has %d bytes and had %d others", i, len(got), len(want))
		}
	}
	c.send(&comms.Steer{Job: j.id, Action: comms.SteerForget})
	if got := h.submit("job: between\ntasks:\n  one: {run: one, with: {n: 1}, out: [n]}\n").ended(); got != "one finished 1" {
		t.Errorf("got %s", got)
	}
	left, err := os.ReadDir(h.agent.store.Dir())
	for _, e := range left {
		// Memory is kept for the next dataset. The warm executor of the new agent has the next number.
		if name := e.Name(); err != nil || (!strings.HasPrefix(name, "f") || name == "f78") && !slices.Contains([]string{"lock", "index", "alive", "a1", fmt.Sprintf("c%d", h.agent.started.Executor+1)}, name) {
			t.Errorf("left behind: %s, %v", name, err)
		}
	}
	if got := h.submit("job: again\ntasks:\n  one: {run: one, with: {n: 1}, out: [n]}\n").ended(); got != "one finished 1" {
		t.Errorf("got %s", got)
	}
}

// runAgent is the life of the agent that TestAgentKilled kills.
func runAgent(state string) error {
	a, err := New(Config{Name: "host", Controller: os.Getenv("CASCADE_TEST_CONTROLLER"), State: state, Cache: state,
		CPU: 2000, Memory: 1 << 30, Store: 64 << 20})
	if err != nil {
		return err
	}
	return errors.Join(a.Run(context.Background()), a.Close())
}

// deathWatch waits for the ends of processes that are not our children.
type deathWatch struct {
	t   *testing.T
	fds []int
}

func (w *deathWatch) add(pid int) {
	w.t.Helper()
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		w.t.Fatalf("process %d: %v", pid, err)
	}
	w.fds = append(w.fds, fd)
}

// await fails when a process lives on; the limit only keeps a failing test from hanging.
func (w *deathWatch) await() {
	w.t.Helper()
	for _, fd := range w.fds {
		for {
			n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, int(testPatience.Milliseconds()))
			if errors.Is(err, unix.EINTR) {
				continue
			}
			if n != 1 {
				w.t.Error("a process outlives the agent")
			}
			break
		}
		unix.Close(fd)
	}
}
