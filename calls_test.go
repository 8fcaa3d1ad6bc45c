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
	a, err := cascade.Call[int](ctx, "fib", fibOf{p.N - 1})
	if err != nil {
		return 0, err
	}
	b, err := cascade.Call[int](ctx, "fib", fibOf{p.N - 2})
	if err != nil {
		return 0, err
	}
	x, err := a.Get(ctx)
	if err != nil {
		return 0, err
	}
	y, err := b.Get(ctx)
	return x + y, err
}

// fibOnce is fib whose process is killed once, when its calls have returned.
func fibOnce(ctx context.Context, p fibIn) (int, error) {
	f, err := cascade.Call[int](ctx, "fib", fibOf{p.N})
	if err != nil {
		return 0, err
	}
	n, err := f.Get(ctx)
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
	twice, err := cascade.Call[cascade.Array[float64]](ctx, "scaled", in, 2.0)
	if err != nil {
		return 0, err
	}
	six, err := cascade.Call[cascade.Array[float64]](ctx, "scaled", twice, 3.0)
	if err != nil {
		return 0, err
	}
	own, err := cascade.Call[cascade.Array[float64]](ctx, "scaled", six, 0.5)
	if err != nil {
		return 0, err
	}
	b, err := own.Get(ctx)
	if err != nil {
		return 0, err
	}
	return b.Data[len(b.Data)-1] / a.Data[len(a.Data)-1], nil
}

func complains(context.Context, int) (int, error) { return 0, errNoData }

// callsBadly gets the error of what it calls, and those of calls that cannot be.
func callsBadly(ctx context.Context) (string, error) {
	f, err := cascade.Call[int](ctx, "complains", 1)
	if err != nil {
		return "", err
	}
	_, err = f.Get(ctx)
	_, err1 := cascade.Call[int](ctx, "complains", "one")
	_, err2 := cascade.Call[string](ctx, "complains", 1)
	_, err3 := cascade.Call[int](ctx, "nobody")
	var texts []string
	for _, e := range []error{err, err1, err2, err3} {
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
	fibTask      = cascade.Func1("fib", fib, "with -> n")
	fibOnceTask  = cascade.Func1("fibOnce", fibOnce, "with -> n")
	_            = cascade.Func2("scaled", scaled, "a, by -> b")
	passesTask   = cascade.Func1("passes", passes, "a -> ratio")
	_            = cascade.Func1("complains", complains, "n -> n")
	callsBadTask = cascade.Func0("callsBadly", callsBadly, "-> text")
)

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
	for _, want := range []string{"no data", "argument n is of type string", "it returns int, not string", `call nobody: it is not registered`} {
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
