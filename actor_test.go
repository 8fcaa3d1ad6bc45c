//go:build linux

package cascade_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/cascade-run/cascade"
	"github.com/cascade-run/cascade/cascadetest"
)

// tally is an actor that tests call.
type tally struct{ n int }

var errNoTally = cascade.RegisterError("notally", errors.New("no such tally"))

var (
	tallies     = cascade.Actor1("Tally", newTally, "start")
	tallyAdd    = cascade.Method1(tallies, "Add", (*tally).add, "by -> n")
	tallyReset  = cascade.Method0x0(tallies, "Reset", (*tally).reset, "->")
	tallyDo     = cascade.Method1(tallies, "Do", (*tally).do, "what -> said")
	tallySum    = cascade.Method1(tallies, "Sum", (*tally).sum, "v -> s")
	tallyFill   = cascade.Method2(tallies, "Fill", (*tally).fill, "n, x -> v")
	tallyNested = cascade.Method1(tallies, "Nested", (*tally).nested, "n -> x")
	tallyRead   = cascade.Method1(tallies, "Read", (*tally).read, "all -> x")
	tallyTakes  = cascade.Method1(tallies, "Takes", (*tally).takes, "v -> n")
	tallyLend   = cascade.Method0(tallies, "Lend", (*tally).lend, "-> all")
)

func newTally(_ context.Context, start int) (*tally, error) {
	if start < 0 {
		return nil, fmt.Errorf("start at %d: %w", start, errNoTally)
	}
	return &tally{start}, nil
}

func (t *tally) add(_ context.Context, by int) (int, error) {
	t.n += by
	return t.n, nil
}

func (t *tally) reset(context.Context) error {
	t.n = 0
	return nil
}

// do does what goes wrong.
func (t *tally) do(ctx context.Context, what string) (string, error) {
	switch what {
	case "fail":
		return "", fmt.Errorf("asked to: %w", errNoTally)
	case "panic":
		panic("boom")
	case "exit":
		return "bye", cascade.ExitActor(ctx)
	case "wait":
		<-ctx.Done()
		return "", context.Cause(ctx)
	case "die":
		return "", syscall.Kill(os.Getpid(), syscall.SIGKILL)
	case "pid":
		return fmt.Sprint(os.Getpid()), nil
	}
	return what, nil
}

func (t *tally) sum(_ context.Context, v []float64) (float64, error) {
	s := 0.0
	for _, x := range v {
		s += x
	}
	return s, nil
}

func (t *tally) fill(_ context.Context, n int, x float64) ([]float64, error) {
	v := make([]float64, n)
	for i := range v {
		v[i] = x
	}
	return v, nil
}

// read takes futures in a value.
func (t *tally) read(ctx context.Context, all map[string]cascade.Future[[]float64]) (int, error) {
	return len(all), nil
}

// takes takes handles of actors.
func (t *tally) takes(_ context.Context, v handlesOf) (int, error) { return len(v.Named), nil }

// lend returns a future in a value.
func (t *tally) lend(ctx context.Context) (map[string]cascade.Future[[]float64], error) {
	return map[string]cascade.Future[[]float64]{"double": doubleTask.Go(ctx, cascade.Val([]float64{1}))}, nil
}

// nested calls a function.
func (t *tally) nested(ctx context.Context, n int) (int, error) {
	return fibTask.Go(ctx, cascade.Val(fibOf{n})).Get(ctx)
}

// TestActors has a session on one core make actors, call them, and pass on what they return.
func TestActors(t *testing.T) {
	c := cascadetest.Start(t, cascade.WithCPU(1))
	s := open(t, c.Client)
	ctx := s.Context()
	a, b := tallies.Spawn(ctx, cascade.Val(10)), tallies.Spawn(ctx, cascade.Val(0))

	var adds []cascade.Future[int]
	for i := range 1000 {
		adds = append(adds, tallyAdd.Go(ctx, a, cascade.Val(i)))
	}
	n := 10
	for i, f := range adds {
		n += i
		if got, err := f.Get(ctx); err != nil || got != n {
			t.Fatalf("call %d returned %d, %v, want %d: calls of a handle run in order", i, got, err, n)
		}
	}
	if _, err := tallyReset.Go(ctx, a).Get(ctx); err != nil {
		t.Errorf("a method that returns nothing: %v", err)
	}

	one := tallyAdd.Go(ctx, a, cascade.Val(1))
	two := tallyAdd.Go(ctx, b, one) // what one actor returns goes to another
	if got, err := tallyAdd.Go(ctx, b, fibTask.Go(ctx, cascade.Val(fibOf{7}))).Get(ctx); err != nil || got != 14 {
		t.Errorf("after a call of an actor and of a function the sum is %d, %v, want 14", got, err)
	}
	if got, err := cascade.GetAll(ctx, []cascade.Future[int]{one, two}); err != nil || got[0] != 1 || got[1] != 1 {
		t.Errorf("GetAll returned %v, %v", got, err)
	}
	if got, err := tallyNested.Go(ctx, b, cascade.Val(7)).Get(ctx); err != nil || got != 13 {
		t.Errorf("a method that calls a function returned %d, %v", got, err)
	}
	large := tallyFill.Go(ctx, a, cascade.Val(300_000), cascade.Val(0.5))
	if got, err := tallySum.Go(ctx, b, large).Get(ctx); err != nil || got != 150_000 {
		t.Errorf("the sum of what another actor made is %g, %v", got, err)
	}
	doubled := doubleTask.Go(ctx, large) // and to a function, by shared memory
	if got, err := tallySum.Go(ctx, a, doubled).Get(ctx); err != nil || got != 300_000 {
		t.Errorf("the sum of what a function made of it is %g, %v", got, err)
	}

	mixed := []cascade.Future[int]{tallyAdd.Go(ctx, a, cascade.Val(0)), fibTask.Go(ctx, cascade.Val(fibOf{5})), tallyAdd.Go(ctx, b, cascade.Val(0))}
	if ready, err := cascade.Wait(ctx, mixed, 3); err != nil || len(ready) != 3 {
		t.Errorf("Wait returned %v, %v", ready, err)
	}
	seen := 0
	for _, err := range cascade.Completed(ctx, mixed) {
		if err != nil {
			t.Error(err)
		}
		seen++
	}
	if seen != 3 {
		t.Errorf("Completed yielded %d of 3", seen)
	}
	if err := s.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if _, err := tallyAdd.Go(ctx, a, cascade.Val(1)).Get(ctx); !errors.Is(err, cascade.ErrSessionClosed) {
		t.Errorf("a call of a closed session fails with %v", err)
	}
}

var doubleTask = cascade.Func1("double", double, "v -> w")

func double(_ context.Context, v []float64) ([]float64, error) {
	w := make([]float64, len(v))
	for i := range v {
		w[i] = 2 * v[i]
	}
	return w, nil
}

// TestActorEnds lists how calls of an actor fail, and whether the actor goes on.
func TestActorEnds(t *testing.T) {
	c := cascadetest.Start(t, cascade.WithCPU(2))
	s := open(t, c.Client)
	ctx := s.Context()
	do := func(what string) func(a cascade.Actor[tally]) error {
		return func(a cascade.Actor[tally]) error {
			_, err := tallyDo.Go(ctx, a, cascade.Val(what)).Get(ctx)
			return err
		}
	}
	for _, row := range []struct {
		name  string
		start int
		do    func(a cascade.Actor[tally]) error
		is    error    // the call fails with
		says  []string // and its text has
		then  error    // a later call fails with
	}{
		{name: "an error", do: do("fail"), is: errNoTally, says: []string{"asked to", ".Do"}},
		{name: "a panic", do: do("panic"), says: []string{"panic: boom"}},
		{name: "the constructor", start: -1, do: do("pid"), is: errNoTally, says: []string{"the constructor failed", "start at -1"}, then: errNoTally},
		{name: "exit", do: do("exit"), then: cascade.ErrActorDead},
		{name: "a signal", do: do("die"), is: cascade.ErrActorDead, says: []string{"Do", "its process died: ended by SIGKILL"}, then: cascade.ErrActorDead},
		{name: "kill", do: func(a cascade.Actor[tally]) error {
			f := tallyDo.Go(ctx, a, cascade.Val("wait"))
			a.Kill("enough")
			_, err := f.Get(ctx)
			return err
		}, is: cascade.ErrActorDead, says: []string{"killed: enough"}, then: cascade.ErrActorDead},
		{name: "a future in an argument", do: func(a cascade.Actor[tally]) error {
			all := map[string]cascade.Future[[]float64]{"double": doubleTask.Go(ctx, cascade.Val([]float64{1}))}
			_, err := tallyRead.Go(ctx, a, cascade.Val(all)).Get(ctx)
			return err
		}, says: []string{"argument all", "which actors neither take nor return"}},
		{name: "a future in a result", do: func(a cascade.Actor[tally]) error {
			_, err := tallyLend.Go(ctx, a).Get(ctx)
			return err
		}, says: []string{`output "all"`, "which actors neither take nor return"}},
		{name: "cancel", do: func(a cascade.Actor[tally]) error {
			f := tallyDo.Go(ctx, a, cascade.Val("wait"))
			f.Cancel("not needed")
			_, err := f.Get(ctx)
			return err
		}, is: cascade.ErrCancelled, says: []string{"not needed"}},
		{name: "a failed argument", do: func(a cascade.Actor[tally]) error {
			bad := tallyDo.Go(ctx, a, cascade.Val("fail"))
			_, err := tallyDo.Go(ctx, a, bad).Get(ctx)
			return err
		}, is: errNoTally, says: []string{"argument what"}},
	} {
		t.Run(row.name, func(t *testing.T) {
			a := tallies.Spawn(ctx, cascade.Val(row.start))
			err := row.do(a)
			if row.is != nil && !errors.Is(err, row.is) {
				t.Errorf("the call fails with %v, want %v", err, row.is)
			}
			for _, text := range row.says {
				if err == nil || !strings.Contains(err.Error(), text) {
					t.Errorf("the error does not say %q: %v", text, err)
				}
			}
			if _, err := tallyAdd.Go(ctx, a, cascade.Val(1)).Get(ctx); !errors.Is(err, row.then) {
				t.Errorf("the next call fails with %v, want %v", err, row.then)
			}
		})
	}
	if err := s.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestActorsOfOneProcessEndTogether has the process of two actors die: each call that was open, and each later one, fails;
// one with a process of its own goes on, and a new actor gets a new process.
func TestActorsOfOneProcessEndTogether(t *testing.T) {
	c := cascadetest.Start(t, cascade.WithCPU(2))
	s := open(t, c.Client)
	ctx := s.Context()
	a, b := tallies.Spawn(ctx, cascade.Val(0)), tallies.Spawn(ctx, cascade.Val(0))
	own := tallies.Spawn(ctx, cascade.Val(5), cascade.OwnProcess())
	pid := func(a cascade.Actor[tally]) string {
		t.Helper()
		pid, err := tallyDo.Go(ctx, a, cascade.Val("pid")).Get(ctx)
		if err != nil {
			t.Fatal(err)
		}
		return pid
	}
	if shared := pid(a); shared != pid(b) || shared == pid(own) || shared == fmt.Sprint(os.Getpid()) {
		t.Errorf("the processes of three actors are %s, %s and %s", pid(a), pid(b), pid(own))
	}
	open := tallyDo.Go(ctx, b, cascade.Val("wait"))
	for _, f := range []cascade.Future[string]{tallyDo.Go(ctx, a, cascade.Val("die")), open, tallyDo.Go(ctx, b, cascade.Val("pid"))} {
		if _, err := f.Get(ctx); !errors.Is(err, cascade.ErrActorDead) {
			t.Errorf("a call of an actor whose process was killed fails with %v", err)
		}
	}
	if n, err := tallyAdd.Go(ctx, own, cascade.Val(1)).Get(ctx); err != nil || n != 6 {
		t.Errorf("the actor of another process answers %d, %v", n, err)
	}
	if n, err := tallyAdd.Go(ctx, tallies.Spawn(ctx, cascade.Val(1)), cascade.Val(1)).Get(ctx); err != nil || n != 2 {
		t.Errorf("a new actor answers %d, %v", n, err)
	}
	if err := s.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

var summarise = cascade.Func1("summarise", summary, "n -> x")

// summary has a task make an actor and call it from several goroutines.
func summary(ctx context.Context, n int) (int, error) {
	a := tallies.Spawn(ctx, cascade.Val(0))
	var all sync.WaitGroup
	errs := make([]error, 4)
	for i := range errs {
		all.Go(func() {
			last := 0
			for range n {
				got, err := tallyAdd.Go(ctx, a, cascade.Val(1)).Get(ctx)
				if err != nil || got <= last {
					errs[i] = fmt.Errorf("%d behind %d: %w", got, last, err)
					return
				}
				last = got
			}
		})
	}
	all.Wait()
	if err := errors.Join(errs...); err != nil {
		return 0, err
	}
	wait := tallyNested.Go(ctx, a, cascade.Val(4)) // it needs the core that this task has
	if x, err := wait.Get(ctx); err != nil || x != 3 {
		return 0, fmt.Errorf("nested: %d, %w", x, err)
	}
	return tallyAdd.Go(ctx, a, cascade.Val(0)).Get(ctx)
}

// TestActorsInATask has a task on one core make an actor: while it waits its core is for what the actor calls.
func TestActorsInATask(t *testing.T) {
	c := cascadetest.Start(t, cascade.WithCPU(1))
	s := open(t, c.Client)
	if n, err := summarise.Go(s.Context(), cascade.Val(50)).Get(s.Context()); err != nil || n != 200 {
		t.Errorf("the task returned %d, %v, want 200", n, err)
	}
	if err := s.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestActorInPlace calls an actor where there is no agent, as a test of a user's does.
func TestActorInPlace(t *testing.T) {
	ctx := t.Context()
	a := tallies.Spawn(ctx, cascade.Val(1))
	if n, err := tallyAdd.Go(ctx, a, tallyAdd.Go(ctx, a, cascade.Val(1))).Get(ctx); err != nil || n != 4 {
		t.Errorf("it answers %d, %v, want 4", n, err)
	}
	if _, err := tallyReset.Go(ctx, a).Get(ctx); err != nil {
		t.Error(err)
	}
	if _, err := tallyAdd.Go(ctx, tallies.Spawn(ctx, cascade.Val(-1)), cascade.Val(1)).Get(ctx); !errors.Is(err, errNoTally) {
		t.Errorf("the constructor's error is %v", err)
	}
	a.Kill("enough")
	if _, err := tallyAdd.Go(ctx, a, cascade.Val(1)).Get(ctx); !errors.Is(err, cascade.ErrActorDead) {
		t.Errorf("a call of a killed actor fails with %v", err)
	}
	if _, err := tallyAdd.Go(ctx, cascade.Actor[tally]{}, cascade.Val(1)).Get(ctx); err == nil || !strings.Contains(err.Error(), "zero Actor") {
		t.Errorf("a call of the zero Actor fails with %v", err)
	}
}

// BenchmarkActorCall is one call at a time, and many at once.
func BenchmarkActorCall(b *testing.B) {
	c := cascadetest.Start(b, cascade.WithCPU(2))
	s, err := c.Session(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	ctx := s.Context()
	a := tallies.Spawn(ctx, cascade.Val(0))
	if _, err := tallyAdd.Go(ctx, a, cascade.Val(1)).Get(ctx); err != nil {
		b.Fatal(err)
	}
	b.Run("sync", func(b *testing.B) {
		for range b.N {
			if _, err := tallyAdd.Go(ctx, a, cascade.Val(1)).Get(ctx); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("async", func(b *testing.B) {
		fs := make([]cascade.Future[int], b.N)
		start := time.Now()
		for i := range fs {
			fs[i] = tallyAdd.Go(ctx, a, cascade.Val(1))
		}
		if _, err := cascade.GetAll(ctx, fs); err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(float64(b.N)/time.Since(start).Seconds(), "calls/s")
	})
	b.Run("create", func(b *testing.B) {
		fs := make([]cascade.Future[int], b.N)
		for i := range fs {
			fs[i] = tallyAdd.Go(ctx, tallies.Spawn(ctx, cascade.Val(0)), cascade.Val(1))
		}
		if _, err := cascade.GetAll(ctx, fs); err != nil {
			b.Fatal(err)
		}
	})
	if err := s.Close(b.Context()); err != nil {
		b.Fatal(err)
	}
}

// TestActorsEndWithTheirHandles drops the handle of an actor that keeps the only core: its calls end well, and then
// another gets the core.
func TestActorsEndWithTheirHandles(t *testing.T) {
	c := cascadetest.Start(t, cascade.WithCPU(1))
	s := open(t, c.Client)
	ctx := s.Context()
	var adds []cascade.Future[int]
	func() {
		a := tallies.Spawn(ctx, cascade.Val(0), cascade.CPU(1))
		for range 100 {
			adds = append(adds, tallyAdd.Go(ctx, a, cascade.Val(1)))
		}
	}()
	runtime.GC()
	if got, err := cascade.GetAll(ctx, adds); err != nil || got[99] != 100 {
		t.Errorf("the calls of an actor without a handle: %v", err)
	}
	next := tallies.Spawn(ctx, cascade.Val(0), cascade.CPU(1))
	first := tallyAdd.Go(ctx, next, cascade.Val(1))
	for !first.Done() && ctx.Err() == nil {
		runtime.GC()
	}
	if n, err := first.Get(ctx); err != nil || n != 1 {
		t.Errorf("the next actor answers %d, %v", n, err)
	}
	next.Kill("enough") // and the core is free for tasks
	if n, err := fibTask.Go(ctx, cascade.Val(fibOf{5})).Get(ctx); err != nil || n != 5 {
		t.Errorf("fib(5) is %d, %v", n, err)
	}
	if err := s.Close(t.Context()); err != nil {
		t.Error(err)
	}
}
