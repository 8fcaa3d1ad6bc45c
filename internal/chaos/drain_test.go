//go:build linux

package chaos

import (
	"fmt"
	"syscall"
	"testing"
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
