//go:build linux

package chaos

import (
	"fmt"
	"strings"
	"syscall"
	"testing"

	"github.com/cascade-run/cascade/admin"
)

// An agent that is told to end lets its tasks end first, and starts none; what
// has not ended in time is for the next agent, and what has does not run again.
func TestAgentDrains(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		drain  string
		starts int // of the task that does not end in time
	}{
		{"in time", "1m", 1},
		{"too late", "1ms", 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := New(t)
			h.Controller()
			agent := h.Agent("--drain", c.drain)
			one := h.Pipe("one")
			job := h.Submit(h.Client(), `job: gate
params: {one: ""}
tasks:
  one: {run: chaos_gate, with: {pipe: "${params.one}"}, out: [sum]}
  two: {run: chaos_scale, in: {x: one.sum}, out: [sum]}
outputs: [two.sum]
`, nil, fmt.Sprintf("one=%s", one))
			h.Journal.Await(Started("one", 1))
			agent.Signal(syscall.SIGTERM)
			if c.drain != "1ms" {
				openGate(t, one)
			}
			if code := agent.Wait(); code != 0 {
				t.Errorf("the agent ended with %d", code)
			}
			h.Journal.Sync()
			lines := h.Journal.Len()
			h.Agent()
			if c.drain == "1ms" {
				h.Journal.AwaitFrom(lines, Started("one", 0))
				openGate(t, one)
			}
			got := job.Done()
			if n := got.Starts("one"); n != c.starts {
				t.Errorf("it started %d times, want %d\n%s", n, c.starts, text(got.Lines))
			}
			if n := got.Starts("two"); n != 1 {
				t.Errorf("its consumer started %d times", n)
			}
		})
	}
}

// An agent that leaves hands on what it has not begun at once, and what only it has
// before it ends: nothing that has ended runs again. It is told to by its host, or
// by an admin.
func TestAgentHandsOn(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("starts many processes")
	}
	for _, by := range []string{"signal", "admin"} {
		t.Run(by, func(t *testing.T) {
			h := New(t)
			h.Controller()
			first := h.Agent("--cpu", "1", "--drain", patience.String())
			one := h.Pipe("one")
			client := h.ReadyClient(1)
			job := h.Submit(client, `job: hands
params: {one: ""}
tasks:
  big: {run: chaos_part, with: {size: 1000000}, out: [part]}
  mid: {run: chaos_step, in: {part: big.part}, with: {work: 0}, out: [part]}
  one: {run: chaos_gate, with: {pipe: "${params.one}"}, out: [sum]}
  last: {run: chaos_plus, in: {x: one.sum, part: mid.part}, out: [sum]}
  small: {run: chaos_scale, in: {x: number.sum}, out: [sum]}
  number: {run: chaos_number, with: {n: 2, work: 0}, out: [sum]}
outputs: [last.sum, small.sum, big.part]
`, nil, fmt.Sprintf("one=%s", one))
			h.Journal.Await(Ended("mid", 1))
			h.Journal.Await(Started("one", 1))
			h.SecondAgent()
			h.ReadyClient(2)
			if by == "signal" {
				first.Signal(syscall.SIGTERM)
			} else if err := admin.Drain(t.Context(), client, "a1", 0, "for a test"); err != nil {
				t.Fatal(err)
			}
			h.Journal.Await(Ended("small", 0)) // while the other still runs
			openGate(t, one)
			if code := first.Wait(); code != 0 {
				t.Errorf("the agent ended with %d", code)
			}
			if strings.Contains(first.Output(), "the grace is over") {
				t.Errorf("the agent waited until its grace was over:\n%s", first.Output())
			}
			got := job.Done()
			for _, name := range []string{"big", "mid", "one", "last", "small", "number"} {
				if n := got.Starts(name); n != 1 {
					t.Errorf("%s started %d times\n%s", name, n, text(got.Lines))
				}
			}
			for name, want := range map[string]string{"one": "a1", "last": "a2", "small": "a2"} {
				if on := got.Tasks[name].Agent; on != want {
					t.Errorf("%s ran on %q, want %s", name, on, want)
				}
			}
		})
	}
}
