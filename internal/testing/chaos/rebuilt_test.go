//go:build linux

package chaos

import (
	"bytes"
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cascade-run/cascade"
	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/internal/testing/pyenv"
)

var (
	_ = cascade.Func1("chaos_now", now, "with -> part")
	_ = cascade.Func2("chaos_first", first, "x, part -> sum")
)

type nowSettings struct{ N int }

// now makes numbers of the time of day: other ones in each attempt.
func now(ctx context.Context, s nowSettings) (cascade.Array[float64], error) {
	a, err := begin(ctx, s.N)
	if err != nil {
		return a, err
	}
	for i := range a.Data {
		a.Data[i] = float64(time.Now().UnixNano())
	}
	return a, Say(ctx, "end", "")
}

// first returns the first number of an array.
func first(ctx context.Context, _ float64, a cascade.Array[float64]) (float64, error) {
	if err := Say(ctx, "start", ""); err != nil {
		return 0, err
	}
	return a.Data[0], Say(ctx, "end", "")
}

// rebuiltJob has two tasks that read what now makes: one is done when the agent that
// has it is lost, the other has not begun.
const rebuiltJob = `job: rebuilt
params: {gate: ""}
POLICY
tasks:
  now: {run: NOW, with: {n: 4000}, out: [part]}
  zero: {run: chaos_number, with: {n: 0, work: 1}, out: [sum]}
  early: {run: chaos_first, in: {x: zero.sum, part: now.part}, out: [sum]}
  gate: {run: chaos_gate, with: {pipe: "${params.gate}"}, out: [sum]}
  late: {run: chaos_first, in: {x: gate.sum, part: now.part}, out: [sum]}
outputs: [early.sum, late.sum]
`

// clock is now in Python.
const clock = `import array, time

def now(n: int) -> memoryview:
    return memoryview(array.array("d", [time.time_ns()] * n))
`

const inPython = "environments: {py: {python: {}, py_modules: [./clock.py]}}"

// The agent that alone has a dataset is killed, and its task makes another one: the job
// does what its policy says, and reports it.
func TestRebuilt(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("starts many processes")
	}
	for _, c := range []struct {
		name, policy, now string
		phase             comms.JobPhase
		equal             bool // both have read the same
		early             int  // how often it starts
	}{
		{"nothing said", "", "chaos_now", comms.JobDone, true, 2},
		{"rerun", "rebuilt: rerun", "chaos_now", comms.JobDone, true, 2},
		{"accept", "rebuilt: accept", "chaos_now", comms.JobDone, false, 1},
		{"fail", "rebuilt: fail", "chaos_now", comms.JobFailed, false, 1},
		{"python, nothing said", inPython, "py:clock.now", comms.JobDone, true, 2},
		{"python, fail", "rebuilt: fail\n" + inPython, "py:clock.now", comms.JobFailed, false, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			if strings.HasPrefix(c.now, "py:") {
				pyenv.Python(t)
			}
			h := New(t)
			h.Write("clock.py", clock)
			h.Controller("--grace", "500ms")
			victim := h.Agent("--cpu", "2")
			client := h.ReadyClient(1)
			pipe := h.Pipe("gate")
			done, once := make(chan struct{}), sync.Once{}
			j := h.SubmitWatched(client, strings.NewReplacer("POLICY", c.policy, "NOW", c.now).Replace(rebuiltJob), func(p *cascade.Progress) {
				for _, g := range p.Groups {
					if g.Group == "early" && g.Done == 1 {
						once.Do(func() { close(done) })
					}
				}
			}, "gate="+pipe)
			<-done
			gate := processOf(t, h.Journal.Await(Started("gate", 1)))
			h.SecondAgent("--cpu", "2")
			h.ReadyClient(2)
			victim.Kill()
			awaitEnd(t, gate) // else it may take what opens the gate
			if c.phase == comms.JobDone {
				h.Journal.Await(Started("gate", 2))
				openGate(t, pipe)
			}
			got := j.End()
			if got.Progress.Phase != c.phase {
				t.Fatalf("the job is %s: %v\n%s", got.Progress.Phase, cascade.JobResult(got.Progress), text(got.Lines))
			}
			if n := got.Starts("early"); n != c.early {
				t.Errorf("early started %d times\n%s", n, text(got.Lines))
			}
			if story := j.Story("now"); !strings.Contains(story, "differs") {
				t.Errorf("the story of the task does not say that what it made differs:\n%s", story)
			}
			if c.phase == comms.JobFailed {
				if !strings.Contains(cascade.JobResult(got.Progress).Error(), "dataset now.part was recomputed and differs") {
					t.Errorf("the job failed with: %v", cascade.JobResult(got.Progress))
				}
				return
			}
			if equal := bytes.Equal(got.Data["early.sum"], got.Data["late.sum"]); equal != c.equal {
				t.Errorf("early %x, late %x", got.Data["early.sum"], got.Data["late.sum"])
			}
		})
	}
}
