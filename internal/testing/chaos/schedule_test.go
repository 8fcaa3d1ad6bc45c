//go:build linux

package chaos

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/cascade-run/cascade"
)

// A long task occupies one executor. Short ones, ready before and after it, run on
// the other: none waits behind the long one.
func TestLongTaskDelaysNobody(t *testing.T) {
	t.Parallel()
	h := New(t)
	h.Controller()
	h.Agent()
	c := h.Client()
	gate := h.Pipe("gate")
	long := h.Submit(c, `job: long
tasks:
  long: {run: chaos_gate, with: {pipe: "${params.gate}"}, out: [sum]}
params: {gate: ""}
outputs: [long.sum]
`, nil, "gate="+gate)
	h.Journal.Await(Started("long", 1))
	// More than one executor's queue takes at once: what is queued behind the long
	// task by mistake would never end.
	for range rounds(1, 30) {
		h.Submit(c, `job: short
tasks:
  short: {for: {i: "0..299"}, run: chaos_number, with: {n: 1, work: 0}, out: [sum]}
  after: {for: {i: "0..299"}, run: chaos_step, in: {part: "short_part[${i}].part"}, with: {work: 0}, out: [part]}
  short_part: {for: {i: "0..299"}, run: chaos_part, with: {size: 10}, out: [part]}
`, nil).Done()
	}
	if len(long.Finished()) > 0 {
		t.Error("the long task has ended")
	}
	openGate(t, gate)
	long.Done()
}

// The short tasks are queued first and the long one among them: those queued
// behind it are taken back by the executor that idles.
func TestQueuedBehindLongTask(t *testing.T) {
	t.Parallel()
	h := New(t)
	h.Controller()
	h.Agent()
	c := h.Client()
	gate := h.Pipe("gate")
	long := h.Submit(c, `job: mixed
params: {gate: ""}
tasks:
  short: {for: {i: "0..199"}, run: chaos_number, with: {n: 1, work: 0}, out: [sum]}
  long: {run: chaos_gate, with: {pipe: "${params.gate}"}, priority: 1, out: [sum]}
  late: {for: {i: "0..199"}, run: chaos_number, with: {n: 1, work: 0}, out: [sum]}
`, nil, "gate="+gate)
	ended := 0
	h.Journal.Await(func(l Line) bool {
		if l.Event == "end" {
			ended++
		}
		return ended == 400
	})
	openGate(t, gate)
	long.Done()
}

func openGate(t *testing.T, pipe string) {
	t.Helper()
	if err := os.WriteFile(pipe, []byte("1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
}

// A task that ends its executor every time is given up after its limit, with its
// story, and does not take others with it.
func TestPoison(t *testing.T) {
	t.Parallel()
	h := New(t)
	h.Controller()
	h.Agent()
	j := h.Submit(h.Client(), `job: poison
keep_going: true
tasks:
  part: {for: {i: "0..9"}, run: chaos_part, with: {size: 100}, out: [part]}
  crash: {run: chaos_crash, in: {part: "part[3].part"}, with: {times: 100, gate: ""}, out: [part]}
  after: {run: chaos_step, in: {part: crash.part}, with: {work: 0}, out: [part]}
  step: {for: {i: "0..9"}, run: chaos_step, in: {part: "part[${i}].part"}, with: {work: 0}, out: [part]}
`, nil)
	got := j.End()
	for name, task := range got.Tasks {
		want := "done"
		switch name {
		case "crash":
			want = "failed"
		case "after":
			want = "skipped"
		}
		if task.State != want {
			t.Errorf("%s is %s, want %s: %s", name, task.State, want, task.Error)
		}
	}
	if e := got.Tasks["crash"].Error; strings.Count(e, "SIGKILL") < 3 {
		t.Errorf("the story of the crashes is missing: %q", e)
	}
	crashes := 0
	for _, l := range got.Lines {
		if l.Event == "crash" {
			crashes++
		}
	}
	if crashes != 3 {
		t.Errorf("it was tried %d times, want 3", crashes)
	}
}

// The middle of a fused path ends its executor. It alone is blamed. As nothing of the path
// was published it begins again from its start, unfused: when the same task ends another
// executor, it goes on from what was published, and the tasks before it do not run again.
func TestPathCrashes(t *testing.T) {
	t.Parallel()
	h := New(t)
	h.Controller()
	h.Agent()
	c := h.Client()
	path := `job: path
params: {times: 0, gate: ""}
tasks:
  part: {run: chaos_part, with: {size: 9000}, out: [part]}
  a: {run: chaos_step, in: {part: part.part}, with: {work: 100}, out: [part]}
  b: {run: chaos_step, in: {part: a.part}, with: {work: 100}, out: [part]}
  c: {run: chaos_crash, in: {part: b.part}, with: {times: "${params.times}", gate: "${params.gate}"}, out: [part]}
  d: {run: chaos_step, in: {part: c.part}, with: {work: 100}, out: [part]}
  e: {run: chaos_step, in: {part: d.part}, with: {work: 100}, out: [part]}
outputs: [e.part]
`
	whole := h.SubmitWatched(c, path, nil)
	want := whole.Done()
	if published := whole.Finished(); published["a"] || published["b"] || published["c"] || !published["e"] {
		t.Fatalf("the path is not fused: published are the outputs of %v", published)
	}
	for _, times := range []int{1, 2} {
		gate, open := heldAt(h, fmt.Sprint("gate", times))
		changed := make(chan struct{}, 1)
		j := h.SubmitWatched(c, path, func(*cascade.Progress) {
			select {
			case changed <- struct{}{}:
			default:
			}
		}, fmt.Sprint("times=", times), gate)
		for !j.Finished()["b"] { // what is not told yet is not published
			select {
			case <-changed:
			case <-time.After(patience):
				t.Fatalf("b is not published\n%s", j.Story(""))
			}
		}
		open()
		got := j.Done()
		got.Same(t, want)
		if published := j.Finished(); !published["a"] || !published["b"] || !published["c"] {
			t.Errorf("after the crash the path is still fused: published are the outputs of %v", published)
		}
		for name, starts := range map[string]int{"part": 2, "a": 2, "b": 2, "c": 1, "d": 1, "e": 1} { // c says it only when it does not crash
			if n := got.Starts(name); n != starts {
				t.Errorf("%s has started %d times, want %d", name, n, starts)
			}
		}
		for name, task := range got.Tasks {
			if name == "c" && !strings.Contains(j.Story("c"), "SIGKILL") || name != "c" && strings.Contains(j.Story(name), "SIGKILL") {
				t.Errorf("%s is blamed for the crash, or c is not: attempt %d\n%s", name, task.Attempt, j.Story(""))
			}
		}
		if t.Failed() {
			t.Log(j.Story(""))
		}
	}
}
