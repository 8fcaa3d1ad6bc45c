//go:build linux

package chaos

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/cascade-run/cascade"
	"github.com/cascade-run/cascade/comms"
)

var _ = cascade.Func1("chaos_slow", slow, "with -> part")

type slowSettings struct {
	N    int
	Work int // microseconds for each of a hundred pieces
}

// slow writes an array, in its first attempt piece by piece. When it is half through it says
// so and, in its first attempt, stops its process: a signal from outside could come when it has ended.
func slow(ctx context.Context, s slowSettings) (cascade.Array[float64], error) {
	a, err := begin(ctx, s.N)
	if err != nil {
		return a, err
	}
	for i := range a.Data {
		if a.Data[i] = float64(i) + 0.25; i%(s.N/100) == 0 && cascade.Task(ctx).Attempt == 1 {
			work(s.Work)
		}
		if i == s.N/2 {
			err := Say(ctx, "half", "")
			if err == nil && cascade.Task(ctx).Attempt == 1 {
				err = syscall.Kill(os.Getpid(), syscall.SIGSTOP)
			}
			if err != nil {
				return a, err
			}
		}
	}
	return a, Say(ctx, "end", sumOf(a.Data))
}

// An executor is stopped while it writes, others use all memory meanwhile, and it is
// told to go on: before anybody has lost patience with it, after the time-out of its
// task, and after that of the agent, which are the two that there are. Nobody's data has
// changed: neither that of others nor, when it was given up and done again, its own.
func TestStoppedInMidWrite(t *testing.T) {
	t.Parallel()
	want := undisturbed(t)
	const arrays, numbers = 12, 1 << 19 // all of the store, also when nothing else is in it
	sums := crowdSums(arrays, numbers)
	for _, c := range []struct {
		name, timeout string
		given         bool // up, before it is told to go on
	}{
		{"before any time-out", "", false},
		{"after that of its task", "timeout: 2s, retries: 100, ", true}, // a host may be too busy for the next attempt, too
		{"after that of the agent", "", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := New(t)
			h.Controller()
			h.Agent("--store", "48MiB", "--cpu", "4")
			client := h.Client()
			frozen := make(chan int, 1)
			var once sync.Once
			h.Journal.On(func(_ int, l Line) {
				if l.Event == "half" {
					once.Do(func() { frozen <- l.PID })
				}
			})
			j := h.Submit(client, fmt.Sprintf(`job: slow
tasks:
  large: {%srun: chaos_slow, with: {n: 500000, work: 200}, out: [part]}
outputs: [large.part]
`, c.timeout), nil)
			pid := <-frozen
			h.Journal.On(nil)
			begun := time.Now()
			for waiting := true; waiting; { // in all of that time others work
				h.Submit(client, mix, nil).Done().Same(t, want)
				waiting = c.given && !slices.ContainsFunc(h.Journal.Lines(0), Started("large", 2))
				if waiting && time.Since(begun) > patience {
					t.Fatalf("the task did not start again\n%s", j.Story(""))
				}
			}
			pipe := h.Pipe("crowd")
			others := h.crowded(client, arrays, numbers, pipe)
			_ = syscall.Kill(pid, syscall.SIGCONT) // unless the agent has given it up and killed it
			got := j.Done()
			h.open(pipe)
			others.Done().Intact(t, sums)
			h.Submit(client, mix, nil).Done().Same(t, want)
			t.Logf("it ended in attempt %d", got.Tasks["large"].Attempt)
			if n := got.Tasks["large"].Attempt; c.given && n < 2 { // a second attempt may take its time, too, on a host that is busy
				t.Errorf("it ended in attempt %d\n%s", n, j.Story(""))
			}
			var written []byte
			for i := range 500000 {
				written = binary.LittleEndian.AppendUint64(written, math.Float64bits(float64(i)+0.25))
			}
			if at := difference(got.Data["large.part"], written); at >= 0 {
				t.Errorf("its own output of %d bytes is wrong from byte %d on", len(got.Data["large.part"]), at)
			}
		})
	}
}

// crowdSums are those of the arrays of a crowd.
func crowdSums(arrays, n int) (sums []string) {
	for i := range arrays {
		a := make([]float64, n+512*i)
		fillWith(a)
		sums = append(sums, sumOf(a))
	}
	return sums
}

// Intact checks that a crowd's arrays were read as they had been made, at first and at last.
func (o Outcome) Intact(t *testing.T, sums []string) {
	t.Helper()
	ends := 0
	for _, l := range o.Lines {
		task, index, _ := strings.Cut(strings.TrimSuffix(l.Task, "]"), "[")
		if l.Event != "end" || task != "seen" && task != "read" {
			continue
		}
		ends++
		if i, err := strconv.Atoi(index); err != nil || l.Note != sums[i] {
			t.Errorf("%s has read %s, want %s", l.Task, l.Note, sums)
		}
	}
	if ends < 2*len(sums) {
		t.Errorf("%d tasks have read %d arrays", ends, len(sums))
	}
}

// crowd is a job of so many arrays of n numbers that are all there before the
// test opens the gate, and are read then.
func crowd(arrays, n int, pipe string) string {
	return fmt.Sprintf(`job: crowd
tasks:
  fill: {for: {i: "0..%d"}, run: chaos_fill, with: {n: "${%d + 512 * i}"}, out: [part]}
  seen: {for: {i: "0..%d"}, run: chaos_sum, in: {part: "fill[${i}].part"}, out: [sum]}
  gate: {run: chaos_gate, with: {pipe: %s}, out: [sum]}
  read: {for: {i: "0..%d"}, run: chaos_after, in: {part: "fill[${i}].part", gate: gate}, out: [sum]}
outputs: ["read[*].sum"]
`, arrays-1, n, arrays-1, pipe, arrays-1)
}

var (
	_ = cascade.Func1("chaos_sum", sumOfPart, "part -> sum")
	_ = cascade.Func2("chaos_after", sumAfter, "part, gate -> sum")
)

func sumOfPart(ctx context.Context, in cascade.Array[float64]) (string, error) {
	return sumOf(in.Data), Say(ctx, "end", sumOf(in.Data))
}

func sumAfter(ctx context.Context, in cascade.Array[float64], _ float64) (string, error) {
	return sumOf(in.Data), Say(ctx, "end", sumOf(in.Data))
}

// crowded submits a crowd and returns when all of its arrays have been made and
// seen; before that nothing reads them twice.
func (h *Host) crowded(c *cascade.Client, arrays, n int, pipe string) *Job {
	h.tb.Helper()
	j := h.Submit(c, crowd(arrays, n, pipe), nil)
	late := time.NewTimer(patience)
	defer late.Stop()
	look := time.NewTicker(100 * time.Millisecond) // events tell nothing of what ended before the test listened
	defer look.Stop()
	for {
		done := j.done()
		if done == 2*arrays {
			return j
		}
		select {
		case <-look.C:
		case <-late.C:
			h.tb.Fatalf("finished are only %d\n%s", done, j.Story(""))
		}
	}
}

// Live data of three times the store goes through spill files, and back. Files
// that rot meanwhile are noticed, and what was in them is made again.
func TestThreeTimesTheStore(t *testing.T) {
	t.Parallel()
	h := New(t)
	h.Controller()
	h.Agent("--store", "64MiB")
	c := h.Client()
	pipe := h.Pipe("gate")
	j := h.crowded(c, 24, 1<<20, pipe)
	h.open(pipe)
	want := j.Done()
	if len(want.Data) != 24 || want.Starts("fill[3]") != 1 {
		t.Fatalf("%d outputs, %d starts of one of them\n%s", len(want.Data), want.Starts("fill[3]"), j.Story(""))
	}

	j = h.crowded(c, 24, 1<<20, pipe)
	files, err := filepath.Glob(filepath.Join(h.State, "agent", "spill", "*.spill"))
	if err != nil || len(files) < 12 {
		t.Fatalf("%d spill files, %v", len(files), err)
	}
	for i, name := range files {
		if i%4 > 0 {
			continue
		}
		f, err := os.OpenFile(name, os.O_RDWR, 0)
		if err == nil {
			_, err = f.WriteAt([]byte{0x55}, 5_000_000)
			f.Close()
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	h.open(pipe)
	got := j.Done()
	again := 0
	for i := range 24 {
		if got.Starts(fmt.Sprintf("fill[%d]", i)) > 1 {
			again++
		}
	}
	if again == 0 {
		t.Error("no array was made again")
	}
	for name, b := range want.Data {
		if string(got.Data[name]) != string(b) {
			t.Errorf("%s is %s, want %s", name, got.Data[name], b)
		}
	}
}

// Others have taken most of shared memory: fallocate fails, the
// rest goes through spill files, and what can never fit is refused with the reason.
func TestSharedMemoryTooSmall(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root can mount a small /dev/shm")
	}
	h := New(t)
	h.Controller()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	agent := h.start("cascade-agent", "unshare", "-m", "/bin/sh", "-c", `mount -t tmpfs -o size=304m tmpfs /dev/shm && fallocate -l 256M /dev/shm/other && exec "$0" "$@"`,
		Program(t, "cascade-agent"), "--state", filepath.Join(h.State, "agent"), "--controller", h.Address(), "--name", "a1", "--runtime", h.Sockets,
		"--executor", self, "--cpu", "2", "--memory", "1GiB", "--store", "256MiB")
	agent.Await("controller is there")
	c := h.Client()
	pipe := h.Pipe("gate")
	j := h.crowded(c, 12, 1<<20, pipe)
	h.open(pipe)
	if got := j.Done(); len(got.Data) != 12 {
		t.Errorf("%d outputs", len(got.Data))
	}
	got := h.Submit(c, "job: large\ntasks:\n  large: {run: chaos_fill, with: {n: 12000000}, out: [part]}\noutputs: [large.part]\n", nil).End()
	if e := got.Progress.Error; got.Progress.Phase != comms.JobFailed || e == nil || !strings.Contains(e.Message, "no space left on device") {
		t.Errorf("an output of 96 MB: %v, %v", got.Progress.Phase, e)
	}
	// The agent goes on.
	j = h.crowded(c, 3, 1000, pipe)
	h.open(pipe)
	j.Done()
}

var _ = cascade.Func2("chaos_hold", hold, "part, with -> sum")

// hold keeps its input in memory until the test lets it go on.
func hold(ctx context.Context, in cascade.Array[float64], s gateSettings) (string, error) {
	if _, err := gate(ctx, s); err != nil {
		return "", err
	}
	return sumOf(in.Data), nil
}

// Two tasks that run hold most of the memory, so that nothing can be moved out:
// one that wants more waits, fails in no way, and runs when they are done.
func TestNothingEvictable(t *testing.T) {
	t.Parallel()
	h := New(t)
	h.Controller()
	h.Agent("--store", "64MiB", "--cpu", "4")
	c := h.Client()
	pipes := []string{h.Pipe("first"), h.Pipe("second"), h.Pipe("third")}
	j := h.Submit(c, fmt.Sprintf(`job: full
tasks:
  fill: {for: {i: "0..1"}, run: chaos_fill, with: {n: 3000000}, out: [part]}
  hold0: {run: chaos_hold, in: {part: "fill[0].part"}, with: {pipe: %s}, out: [sum]}
  hold1: {run: chaos_hold, in: {part: "fill[1].part"}, with: {pipe: %s}, out: [sum]}
  start: {run: chaos_gate, with: {pipe: %s}, out: [sum]}
  more: {for: {i: "0..2"}, command: "cat ${in.start}; head -c 24000000 /dev/zero > ${out.y}", in: {start: start}, out: [y]}
  read: {for: {i: "0..2"}, command: "wc -c < ${in.y} > ${out.n}", in: {y: "more[${i}].y"}, out: [n]}
outputs: [hold0.sum, hold1.sum, "read[*].n"]
`, pipes[0], pipes[1], pipes[2]), nil)
	for _, task := range []string{"hold0", "hold1", "start"} {
		h.Journal.Await(Started(task, 1))
	}
	h.open(pipes[2])
	h.Submit(c, mix, nil).Done() // small jobs go on meanwhile
	h.open(pipes[0])
	h.open(pipes[1])
	got := j.Done()
	for i := range 3 {
		if n := strings.TrimSpace(string(got.Data[fmt.Sprintf("read[%d].n", i)])); n != "24000000" {
			t.Errorf("read[%d] says %q", i, n)
		}
	}
}
