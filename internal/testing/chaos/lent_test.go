//go:build linux

package chaos

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"testing"

	"github.com/cascade-run/cascade"
)

var _ = cascade.Func2("chaos_lender", lender, "part, with -> sum")

type lenderSettings struct {
	Gate   string // named pipe: it waits for its calls when a process has it open for writing
	Values int    // of 4 MiB that it puts, and passes, too
}

const (
	lenderCalls = 6
	lenderSize  = 60_000
)

// lender passes its input by reference to calls that wait for its core.
func lender(ctx context.Context, _ cascade.Array[float64], s lenderSettings) (float64, error) {
	if err := Say(ctx, "start", ""); err != nil {
		return 0, err
	}
	part, err := cascade.InputFuture[cascade.Array[float64]](ctx, "part")
	if err != nil {
		return 0, err
	}
	all := lend(ctx, part)
	for i := range s.Values {
		value := cascade.Array[float64]{Shape: []int{512 << 10}, Data: make([]float64, 512<<10)}
		value.Data[0] = float64(i)
		v, err := cascade.Put(ctx, value)
		if err != nil {
			return 0, err
		}
		all = append(all, leafTask.Go(ctx, v, cascade.Val(leafSettings{N: i}), cascade.Here()))
	}
	if err := errors.Join(Say(ctx, "lent", ""), pass(s.Gate)); err != nil {
		return 0, err
	}
	return addUp(ctx, all)
}

// lend passes an array to calls, which stay on the host of their caller.
func lend(ctx context.Context, part cascade.Future[cascade.Array[float64]]) (all []cascade.Future[cascade.Array[float64]]) {
	for n := range lenderCalls {
		all = append(all, leafTask.Go(ctx, part, cascade.Val(leafSettings{N: n}), cascade.Here()))
	}
	return all
}

func addUp(ctx context.Context, all []cascade.Future[cascade.Array[float64]]) (sum float64, err error) {
	for n, f := range all {
		a, err := f.Get(ctx)
		if err != nil {
			return 0, fmt.Errorf("call %d: %w", n, err)
		}
		for i, v := range a.Data {
			sum += v * float64(i%7+1)
		}
		cascade.Release(f)
	}
	return sum, nil
}

const lenderJob = `job: lends
params: {gate: "", values: 0}
tasks:
  far: {run: chaos_part, with: {size: 60000}, out: [part], resources: {at_a2: 1}}
  lender: {run: chaos_lender, in: {part: far.part}, with: {gate: "${params.gate}", values: "${params.values}"}, out: [sum], resources: {at_a1: 1}}
outputs: [lender.sum]
`

// A task passes its input, which was made on another host, by reference to calls that wait for its core. That host
// dies: the bytes stay for the calls, whether it comes back or not, and whatever the disk must hold meanwhile.
func TestInputsOfCallsOutliveTheirHost(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("starts many processes")
	}
	var want Outcome
	for _, c := range []struct {
		name  string
		dies  bool
		back  string // the name under which it comes back; "": it does not
		flags []string
		job   []string
	}{
		{name: "undisturbed"},
		{name: "it comes back", dies: true, back: "a2"},
		{name: "another takes its place", dies: true, back: "a3"},
		{name: "values are on disk", dies: true, back: "a2", flags: []string{"--store", "32MiB"}, job: []string{"values=12"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := New(t)
			controller := h.Controller("--grace", "500ms")
			h.Agent(append([]string{"--cpu", "1", "--resource", "at_a1=1"}, c.flags...)...)
			second := []string{"--cpu", "1", "--resource", "at_a2=1"}
			other := h.SecondAgent(second...)
			gate, open := held(h)
			j := h.Submit(h.ReadyClient(2), lenderJob, nil, append([]string{gate}, c.job...)...)
			h.Journal.AwaitFrom(j.Begun, func(l Line) bool { return l.Event == "lent" })
			if c.dies {
				other.Kill()
				controller.Await(`"peer":"a2","error"`)
			}
			if c.back != "" {
				h.SecondAgent(append(second, "--name", c.back, "--state", filepath.Join(h.State, "agent"+c.back[1:]), "--runtime", filepath.Join(h.Sockets, c.back))...)
				h.ReadyClient(2)
			}
			open()
			switch got := j.Done(); {
			case !c.dies:
				want = got
			case c.job == nil && !slices.Equal(got.Data["lender.sum"], want.Data["lender.sum"]):
				t.Errorf("the sum is %q and not %q", got.Data["lender.sum"], want.Data["lender.sum"])
			}
		})
	}
}

// The same of a session, whose program passes the output of a graph that has run there.
func TestInputsOfSessionsOutliveTheirHost(t *testing.T) {
	t.Parallel()
	h := New(t)
	controller := h.Controller("--grace", "500ms")
	h.Agent("--cpu", "1")
	c := h.ReadyClient(1)
	s, err := c.Session(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	second := []string{"--cpu", "1", "--resource", "at_a2=1"}
	other := h.SecondAgent(second...)
	h.ReadyClient(2)
	g := cascade.NewGraph("far")
	far := partTask.Add(g, "far", cascade.With(partSettings{lenderSize}), cascade.Resource("at_a2", 1))
	g.Output(far, "")
	run := g.Go(s.Context())
	part := cascade.OutputOf(run, far)
	if err := run.Wait(s.Context()); err != nil { // it has come to this agent
		t.Fatal(err)
	}
	pipe := h.Pipe("shut")
	from := h.Journal.Len()
	shut := gateTask.Go(s.Context(), cascade.Val(gateSettings{pipe}), cascade.Here())
	h.Journal.AwaitLen(from + 1) // it has the core
	all := lend(s.Context(), part)
	for _, back := range []bool{false, true} {
		if back {
			other = h.SecondAgent(second...)
			h.ReadyClient(2)
		}
		other.Kill()
		controller.AwaitTimes(`"peer":"a2","error"`, map[bool]int{false: 1, true: 2}[back])
	}
	openGate(t, pipe)
	if _, err := shut.Get(s.Context()); err != nil {
		t.Error(err)
	}
	if sum, err := addUp(s.Context(), all); err != nil || sum == 0 {
		t.Errorf("the calls returned %v: %v", sum, err)
	}
	if err := s.Close(t.Context()); err != nil {
		t.Error(err)
	}
}
