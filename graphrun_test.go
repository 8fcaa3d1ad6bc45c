//go:build linux

package cascade_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/cascade-run/cascade"
	"github.com/cascade-run/cascade/cascadetest"
	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/dag"
)

type graphTimes struct {
	By  float64
	Dir string `with:",optional"` // where each run of the task leaves a mark
}

func timesIn(ctx context.Context, a cascade.Array[float64], with graphTimes) (cascade.Array[float64], error) {
	if with.Dir != "" {
		if _, err := mark(with.Dir, "times"); err != nil {
			return cascade.Array[float64]{}, err
		}
	}
	return scaled(ctx, a, with.By)
}

func lastIn(_ context.Context, a cascade.Array[float64]) (float64, error) {
	return a.Data[len(a.Data)-1], nil
}

func failsIn(context.Context, cascade.Array[float64]) (float64, error) { return 0, errNoData }

// runsGraph runs a graph whose input and outputs are futures of the task. Its process is killed once, when the graph has run.
func runsGraph(ctx context.Context, dir string) (float64, error) {
	run, b, last := timesGraph(rampUpTask.Go(ctx, cascade.Val(fibOf{large})), dir).goes(ctx)
	if err := run.Wait(ctx); err != nil {
		return 0, err
	}
	if file, first := os.OpenFile(filepath.Join(dir, "once"), os.O_CREATE|os.O_EXCL, 0o600); first == nil {
		return 0, errors.Join(file.Close(), syscall.Kill(os.Getpid(), syscall.SIGKILL))
	}
	x, err := last.Get(ctx)
	if err != nil {
		return 0, err
	}
	c, err := scaledTask.Go(ctx, b, cascade.Val(2.0)).Get(ctx)
	if err != nil {
		return 0, err
	}
	return x + c.Data[large-1], nil
}

var (
	timesInTask   = cascade.Func2("timesIn", timesIn, "a, with -> b")
	lastInTask    = cascade.Func1("lastIn", lastIn, "a -> x")
	failsInTask   = cascade.Func1("failsIn", failsIn, "a -> x")
	runsGraphTask = cascade.Func1("runsGraph", runsGraph, "dir -> x")
)

// timesOf is a graph with an input and two outputs.
type timesOf struct {
	g    *cascade.Graph
	b    cascade.Ref[cascade.Array[float64]]
	last cascade.Ref[float64]
}

// timesGraph makes the graph in which an array is multiplied by 3.
func timesGraph(a cascade.Future[cascade.Array[float64]], dir string) timesOf {
	g := cascade.NewGraph("times")
	b := timesInTask.Add(g, "times", cascade.FutureInput(g, "a", a), cascade.With(graphTimes{3, dir}))
	last := lastInTask.Add(g, "last", b)
	g.Output(b, "")
	g.Output(last, "")
	return timesOf{g, b, last}
}

func (o timesOf) goes(ctx context.Context) (cascade.GraphRun, cascade.Future[cascade.Array[float64]], cascade.Future[float64]) {
	run := o.g.Go(ctx)
	return run, cascade.OutputOf(run, o.b), cascade.OutputOf(run, o.last)
}

// jobsNamed returns the jobs of a name.
func jobsNamed(t *testing.T, c *cascade.Client, name string) (named []comms.JobRow) {
	t.Helper()
	rows, err := cascade.Rows[comms.JobRow](t.Context(), c, comms.QueryJobs, comms.JobID{}, name)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range rows {
		if r.Name == name {
			named = append(named, r)
		}
	}
	return named
}

// TestSessionRunsGraph runs a graph from a session: it reads what a call returns, and calls read what it returns.
func TestSessionRunsGraph(t *testing.T) {
	c := cascadetest.Start(t, cascade.WithCPU(1))
	s := open(t, c.Client)
	ctx := s.Context()
	run, b, last := timesGraph(rampUpTask.Go(ctx, cascade.Val(fibOf{large})), "").goes(ctx)
	six := scaledTask.Go(ctx, b, cascade.Val(2.0))
	if x, err := last.Get(ctx); err != nil || x != 3*(large-1) {
		t.Errorf("the small output is %v, %v", x, err)
	}
	if err := run.Wait(ctx); err != nil {
		t.Error(err)
	}
	if v, err := six.Get(ctx); err != nil || v.Data[large-1] != 6*(large-1) {
		t.Errorf("what a call has made of the large output: %v", err)
	}
	if v, err := b.Get(ctx); err != nil || v.Data[large-1] != 3*(large-1) {
		t.Errorf("the large output itself: %v", err)
	}
	again, b2, _ := timesGraph(b, "").goes(ctx) // an output of one graph is an input of the next
	if v, err := b2.Get(ctx); err != nil || v.Data[large-1] != 9*(large-1) {
		t.Errorf("of the second graph: %v, %v", err, again.Wait(ctx))
	}
	if got := jobsNamed(t, c.Client, "times"); len(got) != 2 || got[0].Phase != "done" || got[1].Phase != "done" {
		t.Errorf("the jobs of the graphs are %+v", got)
	}
	if err := s.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestGraphOutputsAreFreed runs graphs one after the other whose outputs have no room together.
func TestGraphOutputsAreFreed(t *testing.T) {
	dir := t.TempDir()
	c := cascadetest.Start(t, cascade.WithCPU(1), cascade.WithStore(32<<20), cascade.WithState(dir))
	s := open(t, c.Client)
	ctx := s.Context()
	const n = 500_000 // 4 MB
	last := rampUpTask.Go(ctx, cascade.Val(fibOf{n}))
	for k := range 16 {
		run, next, _ := timesGraph(last, "").goes(ctx)
		if err := run.Wait(ctx); err != nil {
			t.Fatalf("graph %d: %v", k, err)
		}
		last.Release()
		last = next
	}
	err := filepath.WalkDir(dir, func(path string, e os.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(path, ".spill") {
			t.Errorf("for want of room %s was written", e.Name())
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
	if err := s.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestGraphOfSessionFails has graphs fail of which a session runs them.
func TestGraphOfSessionFails(t *testing.T) {
	c := cascadetest.Start(t, cascade.WithCPU(1))
	s := open(t, c.Client)
	ctx := s.Context()
	a := rampUpTask.Go(ctx, cascade.Val(fibOf{10}))
	failing := func(build func(g *cascade.Graph) cascade.Ref[float64]) error {
		g := cascade.NewGraph("fails")
		x := build(g)
		run := g.Go(ctx)
		_, err := cascade.OutputOf(run, x).Get(ctx)
		if err == nil {
			t.Error("a graph that fails has an output")
		}
		return err
	}
	for name, x := range map[string]struct {
		is   error
		want string
		get  func(g *cascade.Graph) cascade.Ref[float64]
	}{
		"a task fails": {errNoData, "broken", func(g *cascade.Graph) cascade.Ref[float64] {
			x := failsInTask.Add(g, "broken", cascade.FutureInput(g, "a", a))
			g.Output(x, "")
			return x
		}},
		"an input fails": {errNoData, "bad", func(g *cascade.Graph) cascade.Ref[float64] {
			bad := scaledTask.Go(ctx, a, failsInTask.Go(ctx, a), cascade.CallName("bad"))
			x := lastInTask.Add(g, "last", cascade.FutureInput(g, "a", bad))
			g.Output(x, "")
			return x
		}},
		"no output": {cascade.ErrBadRequest, "last.x is not an output", func(g *cascade.Graph) cascade.Ref[float64] {
			return lastInTask.Add(g, "last", cascade.FutureInput(g, "a", a))
		}},
		"a file": {nil, "reads no files", func(g *cascade.Graph) cascade.Ref[float64] {
			g.File("f", "some.txt")
			x := lastInTask.Add(g, "last", cascade.FutureInput(g, "a", a))
			g.Output(x, "")
			return x
		}},
		"an environment": {nil, `environment "other" is not one of the job`, func(g *cascade.Graph) cascade.Ref[float64] {
			g.Environment(dag.Environment{Name: "other"})
			x := lastInTask.Add(g, "last", cascade.FutureInput(g, "a", a), cascade.In("other"))
			g.Output(x, "")
			return x
		}},
	} {
		if err := failing(x.get); x.is != nil && !errors.Is(err, x.is) || err != nil && !strings.Contains(err.Error(), x.want) {
			t.Errorf("%s: the error is %v, want one with %q", name, err, x.want)
		}
	}
	g := cascade.NewGraph("given")
	g.Output(lastInTask.Add(g, "last", cascade.FutureInput(g, "a", a)), "")
	if _, err := g.Build(); err == nil || !strings.Contains(err.Error(), "run the graph with Go") {
		t.Errorf("a graph with a future is built: %v", err)
	}
	if err := s.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if err := cascade.NewGraph("stray").Go(t.Context()).Wait(t.Context()); err == nil || !strings.Contains(err.Error(), "Session.Context") {
		t.Errorf("a graph that runs in no task: %v", err)
	}
}

// TestGraphOfSessionCancelled ends graphs: by the run, and with their session.
func TestGraphOfSessionCancelled(t *testing.T) {
	c := cascadetest.Start(t, cascade.WithCPU(2))
	s := open(t, c.Client)
	ctx := s.Context()
	pipe := filepath.Join(t.TempDir(), "pipe")
	mkfifo(t, pipe)
	sleeps := func() cascade.GraphRun {
		g := cascade.NewGraph("sleeps")
		forever.Add(g, "asleep", cascade.With(where{pipe}))
		run := g.Go(ctx)
		if _, err := os.ReadFile(pipe); err != nil { // it runs
			t.Fatal(err)
		}
		return run
	}
	first := sleeps()
	first.Cancel("no more")
	if err := first.Wait(ctx); !errors.Is(err, cascade.ErrCancelled) || !strings.Contains(err.Error(), "no more") {
		t.Errorf("the end of a cancelled graph is %v", err)
	}
	second := sleeps()
	if err := s.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if err := second.Wait(t.Context()); !errors.Is(err, cascade.ErrSessionClosed) {
		t.Errorf("the end of a graph whose session is closed is %v", err)
	}
	rows := jobsNamed(t, c.Client, "sleeps")
	if len(rows) != 2 {
		t.Errorf("there are %d jobs", len(rows))
	}
	for _, r := range rows {
		id, err := comms.ParseJobID(r.ID)
		if err != nil {
			t.Fatal(err)
		}
		var failed *cascade.JobError
		if _, err := c.Job(id).Wait(t.Context()); !errors.As(err, &failed) || failed.Phase != comms.JobCancelled {
			t.Errorf("the job of a cancelled graph: %v", err)
		}
	}
}

// TestTaskRunsGraph has a task run a graph, whose process is then killed: the next meets the job.
func TestTaskRunsGraph(t *testing.T) {
	c := cascadetest.Start(t, cascade.WithCPU(1))
	s := open(t, c.Client)
	dir := t.TempDir()
	if x, err := runsGraphTask.Go(s.Context(), cascade.Val(dir)).Get(s.Context()); err != nil || x != (3+6)*(large-1) {
		t.Errorf("the task returned %v, %v", x, err)
	}
	if n := marks(t, dir, "times"); n != 1 {
		t.Errorf("the graph has run %d times", n)
	}
	if err := s.Close(t.Context()); err != nil {
		t.Error(err)
	}
}
