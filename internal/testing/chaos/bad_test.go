//go:build linux

package chaos

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/internal/testing/tier"
)

// Each task ends in its own bad way, with the error that says so, and the good
// task beside it is none the worse. Nothing that it started is left.
func TestBadTasks(t *testing.T) {
	t.Parallel()
	h := New(t)
	h.Controller()
	h.Agent()
	c := h.Client()
	for _, bad := range []struct{ name, task, want string }{
		{"error", `{run: chaos_bad, with: {how: error}, out: [sum]}`, "it is bad on purpose"},
		{"retries", `{run: chaos_bad, with: {how: error}, retries: 2, out: [sum]}`, "it is bad on purpose"},
		{"panic", `{run: chaos_bad, with: {how: panic}, out: [sum]}`, "a panic on purpose"},
		{"panic elsewhere", `{run: chaos_bad, with: {how: elsewhere}, out: [sum]}`, "a panic of another goroutine"},
		{"exit", `{run: chaos_bad, with: {how: exit}, out: [sum]}`, "ended with status 7"},
		{"time-out", `{run: chaos_bad, with: {how: forever}, timeout: 50ms, out: [sum]}`, "50ms"},
		{"status", `{command: "echo to stderr >&2; exit 5"}`, "status 5"},
		{"no output", `{command: "true # ${out.y}", out: [y]}`, "y"},
		{"no program", `{command: [/does/not/exist]}`, "/does/not/exist"},
		{"command time-out", `{command: "trap '' TERM; sleep 300 & wait; wait", timeout: 50ms}`, "50ms"},
		{"signal", `{command: "kill -SEGV $PPID; kill -KILL $BASHPID; exit 3"}`, ""},
	} {
		t.Run(bad.name, func(t *testing.T) {
			j := h.Submit(c, fmt.Sprintf(`job: bad
keep_going: true
tasks:
  bad: %s
  good: {for: {i: "0..3"}, run: chaos_number, with: {n: 1, work: 100}, out: [sum]}
outputs: ["good[*].sum"]
`, bad.task), nil)
			got := j.End()
			if task := got.Tasks["bad"]; task.State != "failed" || !strings.Contains(task.Error, bad.want) {
				t.Errorf("the bad task is %s: %q, want an error with %q\n%s", task.State, task.Error, bad.want, j.Story(""))
			}
			for i := range 4 {
				if task := got.Tasks[fmt.Sprintf("good[%d]", i)]; task.State != "done" {
					t.Errorf("%s is %s: %s", task.Name, task.State, task.Error)
				}
			}
		})
	}
}

// What a command leaves running ends with it, also a daemon that has left its
// session; a closed standard output is no error.
func TestCommandsThatLeaveSomething(t *testing.T) {
	t.Parallel()
	h := New(t)
	h.Controller()
	h.Agent()
	c := h.Client()
	for _, cmd := range []struct{ name, command string }{
		{"a child", `sleep 1000 & echo $! > ${out.y}`},
		{"a daemon", `setsid sh -c 'setsid sleep 1000 & echo $! > ${out.y}'`},
		{"a child that ignores signals", `sh -c 'trap "" TERM INT HUP; sleep 1000 & sleep 1000' & echo $! > ${out.y}`},
		{"closed output", `echo 1 > ${out.y}; exec >&- 2>&-; sleep 0.01`},
	} {
		t.Run(cmd.name, func(t *testing.T) {
			h.Submit(c, fmt.Sprintf("job: leaves\ntasks:\n  a: {command: %q, out: [y]}\noutputs: [a.y]\n", cmd.command), nil).Done()
			h.Submit(c, fmt.Sprintf("job: leaves\ntasks:\n  a: {command: %q, out: [y]}\noutputs: [a.y]\n", cmd.command), nil).Done()
		})
	}
	for _, pid := range h.living() {
		cmdline, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		if bytes.HasPrefix(cmdline, []byte("sleep")) {
			t.Errorf("process %d is left by a command that has ended", pid)
		}
	}
}

// A task writes much to standard error: its log is bounded, the agent's memory too.
func TestFlood(t *testing.T) {
	t.Parallel()
	h := New(t)
	h.Controller()
	agent := h.Agent()
	c := h.Client()
	mib := tier.Rounds(128, 1024)
	h.Submit(c, fmt.Sprintf(`job: flood
tasks:
  function: {run: chaos_flood, with: {lines: %d}, out: [sum]}
  command: {command: "head -c %dM /dev/zero | tr '\\0' x >&2"}
outputs: [function.sum]
`, mib<<10, mib), nil).Done()
	if peak := peakMemory(t, agent.PID()); peak > 256<<20 { // the race detector's is in it: up to 156 MiB were seen
		t.Errorf("the agent's memory grew to %d MiB", peak>>20)
	}
}

// peakMemory is the most private memory that a process had, in bytes.
func peakMemory(t *testing.T, pid int) int64 {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range strings.Split(string(b), "\n") {
		var kib int64
		if n, _ := fmt.Sscanf(line, "VmHWM: %d kB", &kib); n == 1 {
			return kib << 10
		}
	}
	t.Fatal("no VmHWM")
	return 0
}

// A generator that never ends goes on within its bounds until its job is cancelled.
func TestEndlessGenerator(t *testing.T) {
	t.Parallel()
	h := New(t)
	h.Controller()
	h.Agent("--store", "32MiB")
	c := h.Client()
	j := h.Submit(c, `job: endless
tasks:
  source: {run: chaos_endless, with: {size: 100000}, generates: {part: "*"}}
  step: {for: {p: "source.part[*]"}, run: chaos_step, in: {part: "source.part[${p}]"}, with: {work: 0}, out: [part]}
`, nil)
	ended := 0
	h.Journal.Await(func(l Line) bool {
		if l.Event == "end" {
			ended++
		}
		return ended == 300
	})
	if err := j.Cancel(t.Context(), "enough"); err != nil {
		t.Fatal(err)
	}
	if got := j.End(); got.Progress.Phase != comms.JobCancelled || got.Tasks["source"].State != "cancelled" {
		t.Errorf("the job is %v, the generator %s", got.Progress.Phase, got.Tasks["source"].State)
	}
}
