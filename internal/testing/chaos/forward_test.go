//go:build linux

package chaos

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/cascade-run/cascade"
)

var (
	_        = cascade.Func2("chaos_fan", fan, "part, with -> sum")
	leafTask = cascade.Func2("chaos_leaf", leaf, "part, with -> part")
)

// agentVar tells executors whose they are.
const agentVar = "CHAOS_AGENT"

type fanSettings struct {
	Calls int
	Work  int // microseconds of each
}

type leafSettings struct{ N, Work int }

// fan has each of its calls make an array of its input, and adds up what they return.
func fan(ctx context.Context, _ cascade.Array[float64], s fanSettings) (float64, error) {
	if err := errors.Join(Say(ctx, "start", ""), Say(ctx, "on", os.Getenv(agentVar))); err != nil {
		return 0, err
	}
	part, err := cascade.InputFuture[cascade.Array[float64]](ctx, "part")
	if err != nil {
		return 0, err
	}
	all := make([]cascade.Future[cascade.Array[float64]], s.Calls)
	for n := range all {
		all[n] = leafTask.Go(ctx, part, cascade.Val(leafSettings{n, s.Work}))
	}
	sum := 0.0
	for n, f := range all {
		a, err := f.Get(ctx)
		if err != nil {
			return 0, fmt.Errorf("call %d: %w", n, err)
		}
		for i, v := range a.Data {
			sum += v * float64(i%7+1)
		}
	}
	return sum, Say(ctx, "end", "")
}

func leaf(ctx context.Context, in cascade.Array[float64], s leafSettings) (cascade.Array[float64], error) {
	if err := errors.Join(Say(ctx, "start", ""), Say(ctx, "on", os.Getenv(agentVar))); err != nil {
		return in, err
	}
	out, err := cascade.Alloc[float64](ctx, len(in.Data))
	if err != nil {
		return out, err
	}
	work(s.Work)
	for i, v := range in.Data {
		out.Data[i] = v/float64(s.N+2) + float64(i%(s.N+1))
	}
	return out, Say(ctx, "end", sumOf(out.Data))
}

const fanCalls = 60

const fanJob = `job: fan
tasks:
  one: {run: chaos_part, with: {size: 60000}, out: [part]}
  fan: {run: chaos_fan, in: {part: one.part}, with: {calls: 60, work: 20000}, out: [sum]}
outputs: [fan.sum]
`

// The calls of a task go to another agent, too, when there is one. Whoever of the three
// is killed then: the result is that of one agent. Where nobody is, each call runs once.
func TestCallsGoToOtherAgents(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("starts many processes")
	}
	for _, c := range []string{"nobody", "owner", "host", "controller"} {
		t.Run(c+" is killed", func(t *testing.T) {
			h := New(t)
			var grace []string
			if c == "owner" {
				grace = []string{"--grace", "500ms"}
			}
			controller := h.Controller(grace...)
			h.Env = []string{agentVar + "=a1"}
			agents := map[string]*Process{"a1": h.Agent("--cpu", "1")}
			client := h.ReadyClient(1)
			want := h.Submit(client, fanJob, nil).Done()
			want.once(t)

			h.Env = []string{agentVar + "=a2"}
			agents["a2"] = h.SecondAgent("--cpu", "1")
			client = h.ReadyClient(2)
			h.Env = nil
			job, owner, other := h.forwarded(t, client)
			switch c {
			case "owner":
				agents[owner].Kill()
			case "host":
				agents[other].Kill()
			case "controller":
				controller.Kill()
				h.Controller()
			}
			got := job.Done()
			got.anywhere().Same(t, want.anywhere())
			if c == "nobody" || c == "controller" {
				got.once(t)
			}
		})
	}
}

// forwarded submits the job until a call of it has gone to the other agent, and returns
// the two: on a host that is busy all of them may be over before the agents have met.
func (h *Host) forwarded(t *testing.T, client *cascade.Client) (job *Job, owner, other string) {
	h.tb.Helper()
	for range 20 {
		begun := h.Journal.Len()
		job = h.Submit(client, fanJob, nil)
		owner = h.Journal.AwaitFrom(begun, func(l Line) bool { return l.Event == "on" && l.Task == "fan" }).Note
		other = map[string]string{"a1": "a2", "a2": "a1"}[owner]
		l := h.Journal.AwaitFrom(begun, func(l Line) bool {
			return l.Event == "on" && isCall(l) && l.Note == other || l.Event == "end" && l.Task == "fan"
		})
		if l.Event == "on" {
			return job, owner, other
		}
		job.Done().once(t)
	}
	t.Fatalf("no call of 20 jobs went to agent %s", other)
	return nil, "", ""
}

// anywhere leaves out where calls ran.
func (o Outcome) anywhere() Outcome {
	o.Lines = slices.DeleteFunc(slices.Clone(o.Lines), func(l Line) bool { return l.Event == "on" })
	return o
}

func isCall(l Line) bool { return strings.HasPrefix(l.Task, "fan/") }

// once checks that each call of fan has run once.
func (o Outcome) once(t *testing.T) {
	t.Helper()
	for n := range fanCalls {
		name := fmt.Sprintf("fan/%d", n)
		if starts := o.Starts(name); starts != 1 {
			t.Errorf("%s started %d times\n%s", name, starts, text(o.Lines))
		}
	}
}
