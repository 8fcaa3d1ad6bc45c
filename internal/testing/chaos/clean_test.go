//go:build linux

package chaos

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// leaving is a job whose command starts a daemon and then waits for ever.
const leaving = `job: leaving
tasks:
  a:
    command: "setsid sh -c 'echo daemon a 1 $$ > $CHAOS_JOURNAL; exec sleep 1000' & echo start a 1 > $CHAOS_JOURNAL; sleep 1000 & wait; : > ${out.y}"
    out: [y]
  b: {run: chaos_part, with: {size: 100000}, out: [part]}
  c: {run: chaos_step, in: {part: b.part}, with: {work: 0}, out: [part]}
outputs: [c.part]
`

// The agent is killed while its reapers and executors are frozen, so that nobody
// ends what it had started. `cascade clean` does, and removes memory and sockets.
func TestCleanAfterKill(t *testing.T) {
	t.Parallel()
	h := New(t)
	controller, agent := h.Controller(), h.Agent()
	h.Submit(h.Client(), leaving, nil)
	daemon := h.Journal.Await(func(l Line) bool { return l.Event == "daemon" }).PID
	h.Journal.Await(func(l Line) bool { return l.Event == "end" && l.Task == "c" })
	for _, pid := range append(h.Reapers(), h.Executors()...) {
		if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil && !errors.Is(err, syscall.ESRCH) { // one that was spare may have ended
			t.Fatal(err)
		}
	}
	agent.Kill()
	controller.Kill()
	if len(h.Left()) < 4 || ended(daemon) {
		t.Fatalf("only this is left by the kills: %v", h.Left())
	}
	said := h.Clean()
	// What ends with another that clean ends is not always said by its number; nothing is left in either case.
	for _, want := range []string{"ended its processes: ", "of shared memory in /dev/shm/cascade-", "removed 1 socket", "removed 2 sockets"} {
		if !strings.Contains(said, want) {
			t.Errorf("cascade clean does not say %q: %s", want, said)
		}
	}
	if left := h.Left(); len(left) > 0 || !ended(daemon) {
		t.Errorf("left: %v", left)
	}
	if said := h.Clean(); strings.Count(said, "nothing was left") != 2 {
		t.Errorf("the second time: %s", said)
	}
}

// A living owner is left alone, unless it is to be ended.
func TestCleanRefusesTheLiving(t *testing.T) {
	t.Parallel()
	h := New(t)
	gate := h.Pipe("gate")
	h.Write("job.yaml", "job: living\ntasks:\n  a: {command: \"echo start a 1 > $CHAOS_JOURNAL; read x < "+gate+"\"}\n")
	run := h.Run("job.yaml")
	h.Journal.Await(Started("a", 0))
	for _, dir := range []string{h.State, filepath.Join(h.State, "agent"), filepath.Join(h.State, "controller")} {
		c := h.Command("clean", "--state", dir)
		if code := c.Wait(); code != 2 || !strings.Contains(c.Output(), fmt.Sprintf("process %d serves %s", run.PID(), dir)) {
			t.Errorf("exit code %d: %s", code, c.Output())
		}
	}
	if run.Ended() || len(h.Executors()) == 0 {
		t.Fatal("the run is disturbed")
	}
	if c := h.Command("clean", "--force", "--all", "--yes"); c.Wait() != 0 || !strings.Contains(c.Output(), fmt.Sprintf("ended process %d, which served it", run.PID())) {
		t.Error(c.Output())
	}
	if code := run.Wait(); code >= 0 {
		t.Errorf("the run ended with %d", code)
	}
	if left := h.Left(); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
	if _, err := os.Stat(h.State); !os.IsNotExist(err) {
		files, _ := filepath.Glob(h.State + "/*")
		t.Errorf("the state is still there: %v", files)
	}
	if c := h.Command("clean"); c.Wait() != 2 || !strings.Contains(c.Output(), "no state folder") {
		t.Error(c.Output())
	}
}
