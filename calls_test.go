package cascade_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/cascade-run/cascade"
	"github.com/cascade-run/cascade/cascadetest"
)

type fibOf struct{ N int }

type fibIn struct {
	N    int
	Once string `with:",optional"` // a file: who makes it ends its process
}

// fib calls itself for both numbers before, and waits for them.
func fib(ctx context.Context, p fibOf) (int, error) {
	if p.N < 2 {
		return p.N, nil
	}
	a, b := fibTask.Go(ctx, cascade.Val(fibOf{p.N - 1})), fibTask.Go(ctx, cascade.Val(fibOf{p.N - 2}))
	x, err := a.Get(ctx)
	if err != nil {
		return 0, err
	}
	y, err := b.Get(ctx)
	return x + y, err
}

// fibOnce is fib whose process is killed once, when its calls have returned.
func fibOnce(ctx context.Context, p fibIn) (int, error) {
	n, err := fibTask.Go(ctx, cascade.Val(fibOf{p.N})).Get(ctx)
	if file, first := os.OpenFile(p.Once, os.O_CREATE|os.O_EXCL, 0o600); first == nil {
		return 0, errors.Join(file.Close(), syscall.Kill(os.Getpid(), syscall.SIGKILL))
	}
	return n, err
}

// scaled multiplies an array, large enough for shared memory.
func scaled(ctx context.Context, a cascade.Array[float64], with float64) (cascade.Array[float64], error) {
	out, err := cascade.Alloc[float64](ctx, len(a.Data))
	for i := range out.Data {
		out.Data[i] = a.Data[i] * with
	}
	return out, err
}

// passes hands its input on by reference, and what a call returns to the next.
func passes(ctx context.Context, a cascade.Array[float64]) (float64, error) {
	in, err := cascade.InputFuture[cascade.Array[float64]](ctx, "a")
	if err != nil {
		return 0, err
	}
	twice := scaledTask.Go(ctx, in, cascade.Val(2.0))
	six := scaledTask.Go(ctx, twice, cascade.Val(3.0))
	b, err := scaledTask.Go(ctx, six, cascade.Val(0.5)).Get(ctx)
	if err != nil {
		return 0, err
	}
	return b.Data[len(b.Data)-1] / a.Data[len(a.Data)-1], nil
}

func complains(context.Context, int) (int, error) { return 0, errNoData }

// callsBadly gets the error of what it calls, and those of calls that cannot be.
func callsBadly(ctx context.Context) (string, error) {
	_, err := complainsTask.Go(ctx, cascade.Val(1)).Get(ctx)
	_, err1 := complainsTask.Go(ctx, complainsTask.Go(ctx, cascade.Val(1))).Get(ctx)
	_, err2 := complainsTask.Go(ctx, cascade.Val(1), cascade.GPUMemory(1)).Get(ctx)
	_, err3 := complainsTask.Go(ctx, cascade.Future[int]{}).Get(ctx)
	_, err4 := complainsTask.Go(ctx, cascade.Val(1), cascade.MayFail()).Get(ctx)
	var texts []string
	for _, e := range []error{err, err1, err2, err3, err4} {
		if e == nil {
			return "", errors.New("a bad call succeeded")
		}
		texts = append(texts, e.Error())
	}
	if !errors.Is(err, errNoData) {
		texts = append(texts, "the error of the function is lost")
	}
	return strings.Join(texts, "\n"), nil
}

var (
	fibTask cascade.Function1x1[fibOf, int] // calls itself: see init

	fibOnceTask   = cascade.Func1("fibOnce", fibOnce, "with -> n")
	scaledTask    = cascade.Func2("scaled", scaled, "a, by -> b")
	passesTask    = cascade.Func1("passes", passes, "a -> ratio")
	complainsTask = cascade.Func1("complains", complains, "n -> n")
	callsBadTask  = cascade.Func0("callsBadly", callsBadly, "-> text")
)

func init() { fibTask = cascade.Func1("fib", fib, "with -> n") } //nolint:gochecknoinits // Go has no other place for a function that calls itself

// TestCalls runs tasks that call others, on one core: who waits gives it up.
func TestCalls(t *testing.T) {
	c := cascadetest.Start(t, cascade.WithCPU(1))
	g := cascade.NewGraph("calls")
	n := fibTask.Add(g, "fib", cascade.With(fibOf{7}))
	killed := fibOnceTask.Add(g, "killed", cascade.With(fibIn{5, filepath.Join(t.TempDir(), "once")}))
	ratio := passesTask.Add(g, "passes", ramp.Add(g, "ramp", cascade.With(size{large})))
	text := callsBadTask.Add(g, "bad")
	g.Output(n, "")
	g.Output(killed, "")
	g.Output(ratio, "")
	g.Output(text, "")
	j := cascadetest.Submit(t, c, g)
	if got, err := cascade.Result(t.Context(), j, n); err != nil || got != 13 {
		t.Errorf("fib(7) is %d, %v", got, err)
	}
	if got, err := cascade.Result(t.Context(), j, killed); err != nil || got != 5 {
		t.Errorf("fib(5) by a task that was killed is %d, %v", got, err)
	}
	if got, err := cascade.Result(t.Context(), j, ratio); err != nil || got != 3 {
		t.Errorf("the array was multiplied by %v, %v; want 3", got, err)
	}
	got, err := cascade.Result(t.Context(), j, text)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"no data", "future that failed", "memory of devices", "zero Future", "an option is of tasks in a graph only"} {
		if !strings.Contains(got, want) {
			t.Errorf("the errors of bad calls do not say %q:\n%s", want, got)
		}
	}
	if strings.Contains(got, "is lost") {
		t.Error(got)
	}
}

// TestCallOutside calls functions as a test of a user's does, without a cluster.
func TestCallOutside(t *testing.T) {
	if n, err := fib(t.Context(), fibOf{10}); err != nil || n != 55 {
		t.Errorf("fib(10) is %d, %v", n, err)
	}
}

// keepsView reads what a call returned, loses the future, and has others return as much as
// the store holds, several times. What it has read must stay.
func keepsView(ctx context.Context, p fibOf) (int, error) {
	ones := cascade.Array[float64]{Shape: []int{p.N}, Data: make([]float64, p.N)}
	for i := range ones.Data {
		ones.Data[i] = float64(i)
	}
	kept, err := scaledTask.Go(ctx, cascade.Val(ones), cascade.Val(1.0)).Get(ctx)
	if err != nil {
		return 0, err
	}
	for n := range 300 {
		f := scaledTask.Go(ctx, cascade.Val(ones), cascade.Val(float64(n+2)))
		if _, err := f.Get(ctx); err != nil {
			return 0, fmt.Errorf("call %d: %w", n, err)
		}
		if f.Release(); n%10 == 0 {
			runtime.GC()
		}
	}
	wrong := 0
	for i, v := range kept.Data {
		if v != float64(i) {
			wrong++
		}
	}
	return wrong, nil
}

var keepsViewTask = cascade.Func1("keepsView", keepsView, "with -> wrong")

func TestViewOutlivesFuture(t *testing.T) {
	c := cascadetest.Start(t, cascade.WithCPU(2), cascade.WithStore(16<<20))
	g := cascade.NewGraph("views")
	n := keepsViewTask.Add(g, "views", cascade.With(fibOf{12_000}))
	g.Output(n, "")
	if wrong, err := cascade.Result(t.Context(), cascadetest.Submit(t, c, g), n); err != nil || wrong != 0 {
		t.Errorf("%d values have changed, %v", wrong, err)
	}
}

// A call with the context of no session, while one is open, is not run at once in the program; an
// option that is below 0, or that is of graphs only, is refused.
func TestCallsThatAreRefused(t *testing.T) {
	c := cascadetest.Start(t)
	s := open(t, c.Client)
	for _, call := range []struct {
		what, want string
		ctx        context.Context
		opts       []cascade.CallOption
	}{
		{"stray", "use the session's Context()", t.Context(), nil},
		{"fewer than no retries", "option Retries is below 0", s.Context(), []cascade.CallOption{cascade.Retries(-1)}},
		{"fewer than no cores", "option CPU is below 0", s.Context(), []cascade.CallOption{cascade.CPU(-1)}},
		{"a custom resource", `option Resource("disk") is below 0`, s.Context(), []cascade.CallOption{cascade.Resource("disk", -1)}},
		{"of graphs", "of tasks in a graph only", s.Context(), []cascade.CallOption{cascade.Count(4)}},
	} {
		if _, err := doubledTask.Go(call.ctx, cascade.Val(1), call.opts...).Get(call.ctx); err == nil || !strings.Contains(err.Error(), call.want) {
			t.Errorf("%s: %v", call.what, err)
		}
	}
	if _, err := cascade.Put(t.Context(), 1); err == nil || !strings.Contains(err.Error(), "use the session's Context()") {
		t.Errorf("a stray value: %v", err)
	}
	if err := s.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if v, err := doubledTask.Go(t.Context(), cascade.Val(1)).Get(t.Context()); err != nil || v != 2 {
		t.Errorf("without a session: %d, %v", v, err)
	}
}
