package cascade_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/cascade-run/cascade"
	"github.com/cascade-run/cascade/cascadetest"
	"github.com/cascade-run/cascade/comms"
)

func TestMain(m *testing.M) { cascade.RunTests(checked{m}) }

type checked struct{ m *testing.M }

// Run looks for goroutines that the tests left.
func (c checked) Run() int {
	code := c.m.Run()
	if err := goleak.Find(); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

var errNoData = cascade.RegisterError("nodata", errors.New("no data for this date"))

var (
	ramp     = cascade.Func1("t_ramp", rampOf, "with -> values")
	sum      = cascade.Func1("t_sum", sumOf, "values -> sum")
	join     = cascade.Func1("t_join", joinOf, "sums -> text")
	bad      = cascade.Func1("t_bad", badOf, "with -> sum")
	scribble = cascade.Func2("t_scribble", scribbleOf, "values, with -> sum")
	stream   = cascade.Gen1("t_stream", streamOf, "with -> field")
	forever  = cascade.Func1("t_forever", foreverOf, "with -> sum")
)

type size struct{ N int }

func rampOf(ctx context.Context, s size) (cascade.Array[float64], error) {
	a, err := cascade.Alloc[float64](ctx, s.N)
	for i := range a.Data {
		a.Data[i] = float64(i)
	}
	return a, err
}

func sumOf(_ context.Context, a cascade.Array[float64]) (total float64, err error) {
	for _, v := range a.Data {
		total += v
	}
	return total, nil
}

func joinOf(_ context.Context, sums cascade.List[float64]) (string, error) {
	var words []string
	for i, v := range sums.All() {
		words = append(words, fmt.Sprintf("%d:%g", i, v))
	}
	return strings.Join(words, " "), nil
}

type how struct {
	How  string `with:",optional"`
	Step int    `with:",optional"`
}

func badOf(_ context.Context, h how) (float64, error) {
	switch {
	case h.How == "error":
		return 0, fmt.Errorf("2026-02-30: %w", errNoData)
	case h.How == "panic":
		panic("at the disco")
	case h.How == "odd" && h.Step%2 == 1:
		return 0, errors.New("odd")
	}
	return float64(h.Step), nil
}

func scribbleOf(_ context.Context, a cascade.Array[float64], h how) (float64, error) {
	done := make(chan struct{})
	write := func() {
		defer close(done)
		a.Data[0] = 1
	}
	if h.How == "elsewhere" {
		go write()
	} else {
		write()
	}
	<-done
	return 0, nil
}

func streamOf(ctx context.Context, s size) iter.Seq2[cascade.Array[float64], error] {
	return func(yield func(cascade.Array[float64], error) bool) {
		for i := range s.N {
			a, err := cascade.Alloc[float64](ctx, 10_000)
			for k := range a.Data {
				a.Data[k] = float64(i)
			}
			if !yield(a, err) {
				return
			}
		}
	}
}

type where struct{ Pipe string }

// foreverOf tells that it runs, and ends with its context.
func foreverOf(ctx context.Context, w where) (float64, error) {
	if err := os.WriteFile(w.Pipe, nil, 0o600); err != nil {
		return 0, err
	}
	<-ctx.Done()
	return 0, context.Cause(ctx)
}

// large is a number of values that are not stored in the message.
const large = 100_000

func TestResults(t *testing.T) {
	c := cascadetest.Start(t)
	g := cascade.NewGraph("results")
	values := ramp.Add(g, "ramp", cascade.With(size{large}))
	total := sum.Add(g, "sum", values)
	g.Output(values, "")
	g.Output(total, "")
	j := cascadetest.Submit(t, c, g)

	got, err := cascade.Result(t.Context(), j, total)
	if want := float64(large) * (large - 1) / 2; err != nil || got != want {
		t.Errorf("the sum is %v, %v; want %v", got, err, want)
	}
	a, err := cascade.Result(t.Context(), j, values)
	if err != nil || len(a.Data) != large || a.Data[large-1] != large-1 {
		t.Errorf("the values are %d, %v", len(a.Data), err)
	}
	p := cascadetest.Wait(t, c, j)
	if p.Copied != 0 || p.BytesOut < 8*large {
		t.Errorf("%d bytes were published and %d copied: Alloc is for none", p.BytesOut, p.Copied)
	}
	if _, err := cascade.Result(t.Context(), j, cascade.Ref[string]{}); err == nil {
		t.Error("a reference to nothing has a result")
	}

	var phases []comms.JobPhase
	err = j.Watch(t.Context(), time.Millisecond, func(p *cascade.Progress) bool {
		phases = append(phases, p.Phase)
		return true
	})
	if err != nil || len(phases) != 1 || phases[0] != comms.JobDone {
		t.Errorf("a job that has ended is watched as %v, %v", phases, err)
	}
	if err := j.Forget(t.Context()); err != nil {
		t.Error(err)
	}
	if _, err := j.Wait(t.Context()); !errors.Is(err, cascade.ErrNotFound) {
		t.Errorf("a forgotten job is %v", err)
	}
}

func TestGenerators(t *testing.T) {
	c := cascadetest.Start(t)
	for _, tt := range []struct {
		name string
		n    int
		opts []cascade.TaskOption
	}{
		{"fixed", 4, []cascade.TaskOption{cascade.Count(4)}},
		{"open", 5, nil},
		{"held back", 6, []cascade.TaskOption{cascade.Buffer(1)}},
		{"empty", 0, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			g := cascade.NewGraph(tt.name)
			fields := stream.Add(g, "stream", cascade.With(size{tt.n}), tt.opts...)
			i := fields.Each("i")
			each := sum.Map(g, "sum", cascade.Over(i), fields.At(i))
			text := join.Add(g, "join", each.All())
			g.Output(text, "")
			var want []string
			for i := range tt.n {
				want = append(want, fmt.Sprintf("%d:%d", i, 10_000*i))
			}
			if got := cascadetest.Result(t, c, g, text); got != strings.Join(want, " ") {
				t.Errorf("the sums are %q, want %q", got, want)
			}
		})
	}
	t.Run("too few", func(t *testing.T) {
		g := cascade.NewGraph("few")
		stream.Add(g, "stream", cascade.With(size{2}), cascade.Count(3))
		failure(t, cascadetest.Submit(t, c, g), comms.ErrorTask, "3")
	})
}

// failure waits for a job to fail with a kind of error.
func failure(t *testing.T, j *cascade.Job, kind comms.ErrorKind, text string) error {
	t.Helper()
	_, err := j.Wait(t.Context())
	var job *cascade.JobError
	var task *cascade.TaskError
	switch {
	case !errors.As(err, &job) || !errors.As(err, &task):
		t.Fatalf("the job ended with %v", err)
	case task.Kind != kind || !strings.Contains(task.Message, text) || task.Agent != "local" || task.Attempt == 0 || task.Task == "":
		t.Errorf("the cause is %s: %+v", task.Kind, task)
	}
	return err
}

func TestFailures(t *testing.T) {
	c := cascadetest.Start(t)
	values := func(g *cascade.Graph) cascade.Ref[cascade.Array[float64]] {
		return ramp.Add(g, "ramp", cascade.With(size{large}))
	}
	for _, tt := range []struct {
		name string
		add  func(g *cascade.Graph)
		kind comms.ErrorKind
		text string
	}{
		{"error", func(g *cascade.Graph) { bad.Add(g, "t", cascade.With(how{How: "error"})) }, comms.ErrorTask, "2026-02-30: no data for this date"},
		{"panic", func(g *cascade.Graph) { bad.Add(g, "t", cascade.With(how{How: "panic"})) }, comms.ErrorPanic, "at the disco"},
		{"writes", func(g *cascade.Graph) { scribble.Add(g, "t", values(g), cascade.With(how{})) }, comms.ErrorReadOnly, `input "values"`},
		{"writes elsewhere", func(g *cascade.Graph) { scribble.Add(g, "t", values(g), cascade.With(how{How: "elsewhere"})) }, comms.ErrorReadOnly, "wrote to"},
		{"time-out", func(g *cascade.Graph) {
			forever.Add(g, "t", cascade.With(where{os.DevNull}), cascade.Timeout(50*time.Millisecond))
		}, comms.ErrorTimeout, "50ms"},
		{"command", func(g *cascade.Graph) {
			g.Command("t", nil, cascade.CommandSpec{Args: []string{"/bin/sh", "-c", "exit 7"}})
		}, comms.ErrorExit, "status 7"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			g := cascade.NewGraph(tt.name)
			tt.add(g)
			err := failure(t, cascadetest.Submit(t, c, g), tt.kind, tt.text)
			if errors.Is(err, errNoData) != (tt.name == "error") {
				t.Errorf("errors.Is finds the registered error: %v", err)
			}
		})
	}
}

func TestRetries(t *testing.T) {
	c := cascadetest.Start(t)
	g := cascade.NewGraph("retries")
	bad.Add(g, "t", cascade.With(how{How: "error"}), cascade.Retries(2))
	p, err := cascadetest.Submit(t, c, g).Wait(t.Context())
	if err == nil || p.Error.Attempt != 3 || p.Groups[0].Retries != 2 {
		t.Errorf("it ended with %v after %+v", err, p.Groups)
	}
}

func TestSomeMayFail(t *testing.T) {
	c := cascadetest.Start(t)
	step := cascade.Range("step", 0, 4)
	add := func(name string) (*cascade.Graph, cascade.Family[float64]) {
		g := cascade.NewGraph(name)
		return g, bad.Map(g, "t", cascade.Over(step), cascade.With(how{How: "odd"}).Set("step", step), cascade.MayFail())
	}
	g, each := add("enough")
	text := join.Add(g, "join", each.All().Min(3))
	g.Output(text, "")
	if got := cascadetest.Result(t, c, g, text); got != "0:0 2:2 4:4" {
		t.Errorf("the list is %q", got)
	}

	g, each = add("too few")
	g.Output(join.Add(g, "join", each.All().Min(4)), "")
	if _, err := cascadetest.Submit(t, c, g).Wait(t.Context()); err == nil {
		t.Error("the job succeeded without its output")
	}

	g = cascade.NewGraph("keep going")
	g.KeepGoing()
	bad.Add(g, "bad", cascade.With(how{How: "error"}))
	g.Output(sum.Add(g, "sum", ramp.Add(g, "ramp", cascade.With(size{10}))), "")
	p, err := cascadetest.Submit(t, c, g).Wait(t.Context())
	if done := p.Groups[1].Done + p.Groups[2].Done; done != 2 {
		t.Errorf("%d tasks of the other branch are done: %+v, %v", done, p.Groups, err)
	}
}

// begun starts a job whose task runs until it is cancelled, and waits until it runs.
func begun(t *testing.T, c *cascade.Cluster) *cascade.Job {
	pipe := filepath.Join(t.TempDir(), "up")
	mkfifo(t, pipe)
	g := cascade.NewGraph("forever")
	forever.Add(g, "t", cascade.With(where{pipe}))
	j := cascadetest.Submit(t, c, g)
	if _, err := os.ReadFile(pipe); err != nil {
		t.Fatal(err)
	}
	return j
}

func TestCancel(t *testing.T) {
	c := cascadetest.Start(t)
	j := begun(t, c)
	if err := j.Cancel(t.Context(), "enough"); err != nil {
		t.Fatal(err)
	}
	p, err := j.Wait(t.Context())
	var failed *cascade.JobError
	if !errors.Is(err, cascade.ErrCancelled) || !errors.As(err, &failed) || failed.Cause != nil || failed.Reason != "enough" || p.Groups[0].Cancelled != 1 {
		t.Errorf("the job ended with %v: %+v", err, p.Groups)
	}
	if err := j.Cancel(t.Context(), "again"); !errors.Is(err, cascade.ErrConflict) {
		t.Errorf("cancelling twice: %v", err)
	}
}

// The end of a context ends the waiting, never the job.
func TestContexts(t *testing.T) {
	c := cascadetest.Start(t)
	j := begun(t, c)
	ctx, cancel := context.WithCancelCause(t.Context())
	enough := errors.New("enough")
	cancel(enough)
	if _, err := j.Wait(ctx); !errors.Is(err, enough) {
		t.Errorf("waiting ended with %v", err)
	}
	if _, err := c.Submit(ctx, mustBuild(t, "never")); !errors.Is(err, enough) {
		t.Errorf("submitting ended with %v", err)
	}
	if err := j.Watch(t.Context(), time.Millisecond, func(p *cascade.Progress) bool {
		if p.Phase != comms.JobRunning {
			t.Errorf("the job is %s", p.Phase)
		}
		return false
	}); err != nil {
		t.Error(err)
	}
}

func mustBuild(t *testing.T, name string) *cascadeGraph {
	g := cascade.NewGraph(name)
	ramp.Add(g, "ramp", cascade.With(size{1}))
	d, err := g.Build()
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestHoldReleaseRerun(t *testing.T) {
	c := cascadetest.Start(t)
	g := cascade.NewGraph("steered")
	values := ramp.Add(g, "ramp", cascade.With(size{10}))
	first := sum.Add(g, "first", values)
	text := join.Add(g, "join", cascade.Refs(first, sum.Add(g, "second", values)))
	g.Output(text, "")
	j := cascadetest.Submit(t, c, g, cascade.WithHold())
	if err := j.Watch(t.Context(), time.Millisecond, func(p *cascade.Progress) bool {
		if p.Phase != comms.JobHeld {
			t.Errorf("the job is %s", p.Phase)
		}
		return false
	}); err != nil {
		t.Fatal(err)
	}
	if err := j.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	cascadetest.Wait(t, c, j)
	if err := j.Rerun(t.Context(), "first"); err != nil {
		t.Fatal(err)
	}
	cascadetest.Wait(t, c, j)
	attempts := map[string]uint32{}
	rows, err := cascade.Rows[comms.TaskRow](t.Context(), c.Client, comms.QueryTasks, j.ID(), "")
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range rows {
		attempts[r.Name] = r.Attempt
	}
	if attempts["first"] != 2 || attempts["join"] != 2 || attempts["second"] != 1 {
		t.Errorf("attempts are %v: want first and what depends on it again, second once", attempts)
	}
	if v, err := cascade.Result(t.Context(), j, text); err != nil || v != "0:45 1:45" {
		t.Errorf("the text is %q, %v", v, err)
	}
	if err := j.Rerun(t.Context(), "nobody"); err == nil {
		t.Error("a task that does not exist was run again")
	}
}

// The same job ID is the same job.
func TestSubmitTwice(t *testing.T) {
	c := cascadetest.Start(t)
	id, err := comms.NewJobID()
	if err != nil {
		t.Fatal(err)
	}
	d := mustBuild(t, "twice")
	a := cascadetest.SubmitGraph(t, c, d, cascade.WithJobID(id))
	b := cascadetest.SubmitGraph(t, c, d, cascade.WithJobID(id))
	cascadetest.Wait(t, c, b)
	rows, err := cascade.Rows[comms.JobRow](t.Context(), c.Client, comms.QueryJobs, comms.JobID{}, "")
	if err != nil || len(rows) != 1 || a.ID() != b.ID() {
		t.Errorf("jobs are %v, %v", rows, err)
	}
}

// Jobs of one graph that are submitted side by side go together, and each is a job
// of its own; two of them have one ID.
func TestSubmitsTogether(t *testing.T) {
	c := cascadetest.Start(t)
	g := mustBuild(t, "together")
	const n = 300
	ids := make([]comms.JobID, n)
	for i := range ids {
		var err error
		if ids[i], err = comms.NewJobID(); err != nil {
			t.Fatal(err)
		}
	}
	ids[n-1] = ids[n/2]
	var wg sync.WaitGroup
	for _, id := range ids {
		wg.Go(func() {
			j, err := c.Submit(t.Context(), g, cascade.WithJobID(id))
			if err != nil || j.ID() != id {
				t.Errorf("submit of %s: %v", id, err)
				return
			}
			if p, err := j.Wait(t.Context()); err != nil || p.Job != id || p.Phase != comms.JobDone || p.Started == 0 || p.Ended < p.Started {
				t.Errorf("job %s ended as %+v, %v", id, p, err)
			}
		})
	}
	wg.Wait()
	rows, err := cascade.Rows[comms.JobRow](t.Context(), c.Client, comms.QueryJobs, comms.JobID{}, "")
	if err != nil || len(rows) != n-1 {
		t.Errorf("%d jobs are listed, %v, want %d", len(rows), err, n-1)
	}
	for _, r := range rows {
		if r.Phase != "done" || r.Done != r.Tasks {
			t.Errorf("row %+v", r)
		}
	}
}

// What is no output is refused at once, also while the job goes on.
func TestResultOfNoOutput(t *testing.T) {
	c := cascadetest.Start(t)
	g := cascade.NewGraph("none")
	values := ramp.Add(g, "ramp", cascade.With(size{1}))
	other := ramp.Add(g, "other", cascade.With(size{2}))
	g.Output(other, "")
	j := cascadetest.Submit(t, c, g, cascade.WithHold())
	const want = `ramp.values is not an output of the job: call g.Output(ref, "")`
	if _, err := cascade.Result(t.Context(), j, values); !errors.Is(err, cascade.ErrBadRequest) || !strings.Contains(err.Error(), want) {
		t.Errorf("the result ended with %v", err)
	}
	if err := j.Cancel(t.Context(), "test"); err != nil {
		t.Error(err)
	}
}

func TestTooLarge(t *testing.T) {
	c := cascadetest.Start(t)
	g := cascade.NewGraph("large")
	ramp.Add(g, "ramp", cascade.With(size{1}), cascade.CPU(float64(runtime.NumCPU()+1)))
	d, err := g.Build()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Submit(t.Context(), d); !errors.Is(err, cascade.ErrBadRequest) || !strings.Contains(err.Error(), "task ramp: no host has enough") {
		t.Errorf("submitting ended with %v", err)
	}
}

// A second Local on the same state is a client of the first; what was exported
// is there for the next one.
func TestStateIsShared(t *testing.T) {
	state := cascade.WithState(t.TempDir())
	var id comms.JobID
	g := cascade.NewGraph("kept")
	values := ramp.Add(g, "ramp", cascade.With(size{large}))
	g.Output(values, "")
	t.Run("two at once", func(t *testing.T) {
		a, b := cascadetest.Start(t, state), cascadetest.Start(t, state)
		if !a.Owned() || b.Owned() {
			t.Errorf("owned: %t, %t", a.Owned(), b.Owned())
		}
		j := cascadetest.Submit(t, b, g)
		cascadetest.Wait(t, b, j)
		id = j.ID()
	})
	t.Run("later", func(t *testing.T) {
		c := cascadetest.Start(t, state, cascade.WithoutExecutors())
		a, err := cascade.Result(t.Context(), c.Job(id), values)
		if err != nil || len(a.Data) != large {
			t.Errorf("%d values, %v", len(a.Data), err)
		}
	})
}

// The owner of a state folder can wait for those that joined it, so that their
// last requests do not meet a cluster that is gone.
func TestOwnerAwaitsJoined(t *testing.T) {
	state := cascade.WithState(t.TempDir())
	owner, guest := cascadetest.Start(t, state), cascadetest.Start(t, state)
	if err := guest.AwaitJoined(t.Context(), func() { t.Error("who joined waits for nobody") }); err != nil {
		t.Error(err)
	}
	gone, cancel := context.WithCancelCause(t.Context())
	impatient := errors.New("impatient")
	if err := owner.AwaitJoined(gone, func() { cancel(impatient) }); !errors.Is(err, impatient) {
		t.Errorf("given up while another one is here: %v", err)
	}
	waited := false
	if err := owner.AwaitJoined(t.Context(), func() {
		waited = true
		if err := guest.Close(); err != nil {
			t.Error(err)
		}
	}); err != nil || !waited {
		t.Errorf("waited %t, %v", waited, err)
	}
	late, cancel2 := context.WithTimeout(t.Context(), time.Nanosecond)
	defer cancel2()
	if _, err := cascade.Local(late, state); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("joining an owner that is about to leave: %v", err)
	}
}

// The error of Result tells both why and what, on one line, and nothing that follows from it.
func TestResultOfFailedJob(t *testing.T) {
	c := cascadetest.Start(t)
	g := cascade.NewGraph("bad")
	r := bad.Add(g, "decode", cascade.With(how{How: "error"}))
	g.Output(r, "")
	_, err := cascade.Result(t.Context(), cascadetest.Submit(t, c, g), r)
	var job *cascade.JobError
	if !errors.Is(err, errNoData) || !errors.As(err, &job) || strings.Contains(err.Error(), "\n") || !strings.Contains(err.Error(), "decode.sum") ||
		errors.Is(err, cascade.ErrNotFound) || strings.Contains(err.Error(), "locate") {
		t.Errorf("got %v", err)
	}
}

// A result is there for the client when its own task has ended, whatever else the job does.
func TestResultBeforeOthers(t *testing.T) {
	c := cascadetest.Start(t)
	pipe := filepath.Join(t.TempDir(), "up")
	mkfifo(t, pipe)
	g := cascade.NewGraph("early")
	early := bad.Add(g, "early", cascade.With(how{Step: 7}))
	late := forever.Add(g, "late", cascade.With(where{pipe})) // it waits for a reader of the pipe, and then to be cancelled
	g.Output(early, "")
	g.Output(late, "")
	j := cascadetest.Submit(t, c, g)
	if v, err := cascade.Result(t.Context(), j, early); err != nil || v != 7 {
		t.Errorf("the result is %v, %v", v, err)
	}
	if _, err := os.ReadFile(pipe); err != nil {
		t.Fatal(err)
	}
	if err := j.Cancel(t.Context(), "enough"); err != nil {
		t.Fatal(err)
	}
	if _, err := cascade.Result(t.Context(), j, late); !errors.Is(err, cascade.ErrCancelled) {
		t.Errorf("the result of a cancelled task: %v", err)
	}
}
