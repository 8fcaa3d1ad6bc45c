package executor

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/dag"
)

// pathOf makes a run with steps behind it, each of which reads the output of the
// one before and leaves its own to the next alone. The last publishes its output.
func (a *fakeAgent) pathOf(head comms.Run, kinds ...uint32) comms.Run {
	steps := make([]comms.Step, len(kinds))
	for i, k := range kinds {
		a.runs++
		steps[i] = comms.Step{Kind: k, Task: dag.TaskIndex(a.runs), Attempt: 1, Reads: 1, Keeps: 1, Only: 1}
	}
	steps[len(steps)-1].Keeps, steps[len(steps)-1].Only = 0, 0
	head.Live, head.Private = []uint32{0}, []uint32{0}
	head.Steps = comms.AppendSteps(nil, steps)
	return head
}

// outcomes gathers the ends of n runs, in the order in which they are reported:
// each as an item of its own.
func (a *fakeAgent) outcomes(n int) (out []comms.ReportItem) {
	a.t.Helper()
	for len(out) < n {
		for _, it := range a.gather(1) {
			if it.Kind != comms.ReportSteps {
				out = append(out, it)
				continue
			}
			u, err := comms.ReadUsages(it.Steps, nil)
			if err != nil {
				a.t.Fatal(err)
			}
			for i := range u {
				if u[i].Start == 0 || u[i].Duration <= 0 || u[i].CPU < 0 {
					a.t.Errorf("run %d cost %+v", it.Run+comms.RunID(i), u[i])
				}
				out = append(out, comms.ReportItem{Kind: comms.ReportFinished, Run: it.Run + comms.RunID(i), Usage: &u[i]})
			}
		}
	}
	return out
}

// reclaimed gathers the runs of the next Reclaimed. That a run has begun may be said before it.
func (a *fakeAgent) reclaimed() []comms.RunID {
	a.t.Helper()
	for {
		switch m := receive[comms.Message](a).(type) {
		case *comms.Reclaimed:
			return m.Runs
		case *comms.Report:
			if len(m.Items) == 1 && m.Items[0].Kind == comms.ReportStarted {
				continue
			}
			a.t.Fatalf("executor sent %+v, want Reclaimed", m)
		default:
			a.t.Fatalf("executor sent %T, want Reclaimed", m)
		}
	}
}

// told prints outcomes: the numbers of the runs from base on, with - those that failed.
func told(items []comms.ReportItem, base comms.RunID) (out []int) {
	for _, it := range items {
		n := int(it.Run-base) + 1
		if it.Kind == comms.ReportFailed {
			n = -n
		}
		out = append(out, n)
	}
	return out
}

func TestPathOfSteps(t *testing.T) {
	reg := testRegistry()
	a := startExecutor(t, reg, comms.Welcome{})
	double := a.kind("double", []string{"n"}, []string{"n2"})
	half := a.kind("half", []string{"n"}, []string{"h"})
	wait := a.kind("wait", []string{"how"}, []string{"n"})
	expect := func(t *testing.T, base comms.RunID, want ...int) []comms.ReportItem {
		t.Helper()
		items := a.outcomes(len(want))
		if got := told(items, base); !slices.Equal(got, want) {
			t.Fatalf("the runs ended %v, want %v", got, want)
		}
		return items
	}
	cancel := func(id comms.RunID) {
		a.tell(&comms.Cancel{Run: id, Why: comms.ErrorCancelled, Text: "enough", Grace: int64(time.Second)})
	}

	t.Run("all succeed", func(t *testing.T) {
		r := a.pathOf(a.run(double, inline(t, reg, 1)), double, double, double, double)
		a.dispatch(r)
		items := expect(t, r.ID, 1, 2, 3, 4, 5)
		if n := decoded[int](t, reg, items[4].Outputs[0]); n != 32 {
			t.Errorf("the last of the path gives %d", n)
		}
	})
	t.Run("one in the middle fails", func(t *testing.T) {
		r := a.pathOf(a.run(half, inline(t, reg, 12)), half, half, double, double) // 6, 3, and 3 is odd
		a.dispatch(r)
		items := expect(t, r.ID, 1, 2, -3)
		if e := items[2].Error; e.Task != "half" || e.Kind != comms.ErrorTask {
			t.Errorf("it failed with %+v", e)
		}
		if got := a.reclaimed(); !slices.Equal(got, []comms.RunID{r.ID + 3, r.ID + 4}) {
			t.Errorf("taken back %v, want those behind it", got)
		}
	})
	t.Run("a step is taken back", func(t *testing.T) {
		first := a.run(wait, inline(t, reg, ""))
		r := a.pathOf(a.run(double, inline(t, reg, 3)), double, double, double)
		a.dispatch(first, r)
		a.tell(&comms.Reclaim{Runs: []comms.RunID{r.ID + 2}})
		if got := a.reclaimed(); !slices.Equal(got, []comms.RunID{r.ID + 2}) {
			t.Errorf("taken back %v", got)
		}
		cancel(first.ID)
		expect(t, first.ID, -1, 2, 3)
		if got := a.reclaimed(); !slices.Equal(got, []comms.RunID{r.ID + 3}) {
			t.Errorf("taken back %v: it cannot run without the one before it", got)
		}
	})
	t.Run("what lives on a run that goes on stays", func(t *testing.T) {
		private := func(r comms.Run) comms.Run {
			r.Live, r.Private = []uint32{0}, []uint32{0}
			return r
		}
		r1 := private(a.run(double, inline(t, reg, 3)))
		stop := a.run(wait, inline(t, reg, ""))
		r2 := private(a.run(double, live(r1.ID)))
		r3 := a.pathOf(a.run(double, live(r2.ID)), double)
		a.dispatch(r1, stop, r2, r3)
		expect(t, r1.ID, 1)
		reclaim := func(ids, want []comms.RunID) {
			t.Helper()
			a.tell(&comms.Reclaim{Runs: ids})
			if got := a.reclaimed(); !slices.Equal(got, want) {
				t.Errorf("taken back of %v: %v, want %v", ids, got, want)
			}
		}
		reclaim([]comms.RunID{r1.ID, r2.ID, r3.ID, r3.ID + 1}, nil)
		reclaim([]comms.RunID{r3.ID + 1}, []comms.RunID{r3.ID + 1})
		reclaim([]comms.RunID{r2.ID, r3.ID}, []comms.RunID{r2.ID, r3.ID})
		cancel(stop.ID)
		expect(t, r1.ID, -2)
	})
	t.Run("a queued step is cancelled", func(t *testing.T) {
		first := a.run(wait, inline(t, reg, ""))
		r := a.pathOf(a.run(double, inline(t, reg, 3)), double)
		a.dispatch(first, r)
		cancel(r.ID + 1)
		cancel(first.ID)
		expect(t, first.ID, -3, -1, 2)
	})
	t.Run("nobody waits for a value", func(t *testing.T) {
		a.exec.mu.Lock()
		defer a.exec.mu.Unlock()
		for k, v := range a.exec.live.entries {
			if v.wants > 0 {
				t.Errorf("live value %v is waited for", k)
			}
		}
	})
}

func named(ctx context.Context) (string, error) {
	name := TaskOf(ctx).Name
	if name != "named[10]" && name != "named[11]" && name != "named[12]" {
		return "", errors.New("the task is called " + name)
	}
	return name, nil
}

// TestRowOfSteps: tasks that read nothing do not need each other.
func TestRowOfSteps(t *testing.T) {
	reg := testRegistry()
	reg.Register(&Func{Name: "named", Call: func(ctx context.Context, _, out []any) (err error) {
		out[0], err = named(ctx)
		return err
	}}, named, "-> name")
	a := startExecutor(t, reg, comms.Welcome{})
	k := a.kind("named", nil, nil, func(k *comms.Kind) { k.First, k.Axes = 2, []comms.KindAxis{{First: 10, N: 5}} })
	bad := a.kind("unknown", nil, nil)
	head := a.run(k)
	head.Task, head.Name = 2, ""
	head.Steps = comms.AppendSteps(nil, []comms.Step{{Kind: k, Task: 3, Attempt: 1}, {Kind: bad, Task: 9, Attempt: 1}, {Kind: k, Task: 4, Attempt: 1}})
	a.runs += 3
	a.dispatch(head)
	if got := told(a.outcomes(4), head.ID); !slices.Equal(got, []int{1, 2, -3, 4}) {
		t.Errorf("the runs ended %v", got)
	}
}

// TestContextOfStep: a function that keeps its context beyond its end finds its own
// task there, whatever runs in its place then, and nothing more can be had of it.
func TestContextOfStep(t *testing.T) {
	var kept []context.Context
	before, after := []string{}, []string{}
	reg := testRegistry()
	reg.Register(&Func{Name: "keeps", Call: func(ctx context.Context, _, out []any) error {
		for _, old := range kept {
			after = append(after, TaskOf(old).Name)
			if old.Err() == nil {
				t.Error("the context of a task that has ended goes on")
			}
			if _, err := TaskOf(old).Log.Write([]byte("x")); err == nil {
				t.Error("a task that has ended can log")
			}
			if _, err := Alloc[float64](old, 1<<20); err == nil {
				t.Error("a task that has ended can allocate")
			}
		}
		if kept = append(kept, ctx); len(kept)%2 == 0 { // of the others nobody has asked anything yet
			before = append(before, TaskOf(ctx).Name)
		}
		out[0] = ""
		return nil
	}}, named, "-> n")
	a := startExecutor(t, reg, comms.Welcome{})
	k := a.kind("keeps", nil, nil, func(k *comms.Kind) { k.First, k.Axes = 1, []comms.KindAxis{{First: 1, N: 4}} })
	head := a.run(k)
	head.Task, head.Name, head.Private = 1, "", []uint32{0}
	head.Steps = comms.AppendSteps(nil, []comms.Step{{Kind: k, Task: 2, Attempt: 1, Only: 1}, {Kind: k, Task: 3, Attempt: 1, Only: 1}, {Kind: k, Task: 4, Attempt: 1, Only: 1}})
	a.runs += 3
	a.dispatch(head)
	for _, it := range a.outcomes(4) {
		if it.Error != nil {
			t.Errorf("run %d: %s", it.Run, it.Error.Message)
		}
	}
	if want := []string{"keeps[2]", "keeps[4]"}; !slices.Equal(before, want) {
		t.Errorf("running tasks are %q, want %q", before, want)
	}
	if want := []string{"keeps[1]", "keeps[1]", "keeps[2]", "keeps[1]", "keeps[2]", "keeps[3]"}; !slices.Equal(after, want) {
		t.Errorf("tasks that have ended are %q, want %q", after, want)
	}
}

// TestKindOfSeveralGroups: a run of a kind that groups share, and a step behind it, know
// their own group.
func TestKindOfSeveralGroups(t *testing.T) {
	var got []string
	reg := testRegistry()
	reg.Register(&Func{Name: "tells", Call: func(ctx context.Context, _, out []any) error {
		task := TaskOf(ctx)
		got = append(got, task.Group+" "+task.Name)
		out[0] = ""
		return nil
	}}, named, "-> n")
	a := startExecutor(t, reg, comms.Welcome{})
	k := a.kind("tells", nil, nil, func(k *comms.Kind) { k.Group = "" })
	head := a.run(k)
	head.Name, head.Private = "one", []uint32{0}
	head.Steps = comms.AppendSteps(nil, []comms.Step{{Kind: k, Task: 2, Attempt: 1, Only: 1, Name: "two[7]"}})
	a.runs++
	a.dispatch(head)
	for _, it := range a.outcomes(2) {
		if it.Error != nil {
			t.Errorf("run %d: %s", it.Run, it.Error.Message)
		}
	}
	if want := []string{"one one", "two two[7]"}; !slices.Equal(got, want) {
		t.Errorf("tasks are %q, want %q", got, want)
	}
}

// TestEndedTaskCannotLog: not even if its context is asked for the log for the first time then.
func TestEndedTaskCannotLog(t *testing.T) {
	var kept context.Context
	reg := testRegistry()
	reg.Register(&Func{Name: "keeps", Call: func(ctx context.Context, _, out []any) error {
		if kept != nil {
			if _, err := TaskOf(kept).Log.Write([]byte("x")); err == nil {
				t.Error("a task that has ended can log")
			}
		}
		kept, out[0] = ctx, ""
		return nil
	}}, named, "-> n")
	a := startExecutor(t, reg, comms.Welcome{})
	k := a.kind("keeps", nil, []string{"n"})
	a.dispatch(a.run(k), a.run(k))
	for _, it := range a.outcomes(2) {
		if it.Error != nil {
			t.Errorf("run %d: %s", it.Run, it.Error.Message)
		}
	}
}

// TestKindsAlike: a kind is made after another of the same function only where
// it wants the same of it.
func TestKindsAlike(t *testing.T) {
	e := New(Config{Registry: testRegistry()})
	of := func(group string, in, out string, list bool) *kind {
		return e.newKind(&comms.Kind{Group: group, Function: "double", Inputs: []comms.KindIn{{Name: in, List: list}}, Outputs: []comms.KindOut{{Name: out}}})
	}
	first := of("a", "n", "n2", false)
	if first.problem != nil {
		t.Fatal(first.problem)
	}
	if like := of("b", "n", "n2", false); like.problem != nil || like.Group != "b" || like.fn != first.fn || like.args != first.args || len(like.inputs) != 1 || len(like.outputs) != 1 {
		t.Errorf("another is %+v", like)
	}
	for _, wrong := range []*kind{of("c", "m", "n2", false), of("d", "n", "m2", false), of("e", "n", "n2", true)} {
		if wrong.problem == nil {
			t.Errorf("group %s has no problem", wrong.Group)
		}
	}
	if again := of("f", "n", "n2", false); again.problem != nil {
		t.Errorf("after others that had problems: %v", again.problem)
	}
}
