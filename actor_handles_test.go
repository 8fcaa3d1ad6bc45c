//go:build linux

package cascade_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/cascade-run/cascade"
	"github.com/cascade-run/cascade/cascadetest"
)

// Handles of actors in arguments, results and values.

// handlesOf is a value with handles.
type handlesOf struct {
	Main  cascade.Actor[tally]
	Named map[string][]cascade.Actor[tally]
	None  cascade.Actor[tally]
}

// handleAdds calls an actor n times, each call behind the one before.
func handleAdds(ctx context.Context, a cascade.Actor[tally], n int) (last int, err error) {
	for range n {
		now, err := tallyAdd.Go(ctx, a, cascade.Val(1)).Get(ctx)
		if err != nil {
			return 0, err
		}
		if now <= last {
			return 0, fmt.Errorf("the tally went from %d to %d", last, now)
		}
		last = now
	}
	return last, nil
}

// handleAddsAll calls all actors of a value.
func handleAddsAll(ctx context.Context, v handlesOf) (sum int, err error) {
	all := []cascade.Actor[tally]{v.Main}
	for _, l := range v.Named {
		all = append(all, l...)
	}
	for _, a := range all {
		n, err := tallyAdd.Go(ctx, a, cascade.Val(1)).Get(ctx)
		if err != nil {
			return 0, err
		}
		sum += n
	}
	return sum, nil
}

// handleMakes makes an actor and returns its handle at once.
func handleMakes(ctx context.Context, start int) (handlesOf, error) {
	a := tallies.Spawn(ctx, cascade.Val(start))
	tallyAdd.Go(ctx, a, cascade.Val(1))
	return handlesOf{Main: a}, nil
}

// handleReturns does what the task of a graph may not.
func handleReturns(ctx context.Context) (handlesOf, error) { return handleMakes(ctx, 1) }

// handleKeeps makes an actor that has a core, and returns its handle.
func handleKeeps(ctx context.Context, start int) (cascade.Actor[tally], error) {
	a := tallies.Spawn(ctx, cascade.Val(start), cascade.CPU(1))
	return a, nil
}

// handlePasses returns the handle that it was given, through calls of itself.
func handlePasses(ctx context.Context, a cascade.Actor[tally], depth int) (cascade.Actor[tally], error) {
	if depth == 0 {
		_, err := tallyAdd.Go(ctx, a, cascade.Val(1)).Get(ctx)
		return a, err
	}
	return handlePassesTask.Go(ctx, cascade.Val(a), cascade.Val(depth-1)).Get(ctx)
}

// handleKills ends an actor that another task has made.
func handleKills(ctx context.Context, a cascade.Actor[tally]) (int, error) {
	n, err := tallyAdd.Go(ctx, a, cascade.Val(1)).Get(ctx)
	a.Kill("a task wants it")
	return n, err
}

// handleLeaves calls an actor and waits for nothing.
func handleLeaves(ctx context.Context, a cascade.Actor[tally]) (int, error) {
	for range 3 {
		tallyAdd.Go(ctx, a, cascade.Val(1))
	}
	return 0, nil
}

// handleKillsOnly does nothing else.
func handleKillsOnly(_ context.Context, a cascade.Actor[tally]) (int, error) {
	a.Kill("nothing but a kill")
	return 0, nil
}

// handleDies ends the process of an actor that another task has made.
func handleDies(ctx context.Context, a cascade.Actor[tally]) (string, error) {
	return tallyDo.Go(ctx, a, cascade.Val("die")).Get(ctx)
}

var (
	handleAddsTask    = cascade.Func2("handleAdds", handleAdds, "a, n -> last")
	handleAddsAllTask = cascade.Func1("handleAddsAll", handleAddsAll, "v -> sum")
	handleMakesTask   = cascade.Func1("handleMakes", handleMakes, "start -> v")
	handleKeepsTask   = cascade.Func1("handleKeeps", handleKeeps, "start -> a")
	handleReturnsTask = cascade.Func0("handleReturns", handleReturns, "-> v")
	handleDiesTask    = cascade.Func1("handleDies", handleDies, "a -> said")
	handleOnlyTask    = cascade.Func1("handleKillsOnly", handleKillsOnly, "a -> n")
	handleLeavesTask  = cascade.Func1("handleLeaves", handleLeaves, "a -> n")
	handleKillsTask   = cascade.Func1("handleKills", handleKills, "a -> n")

	handlePassesTask cascade.Function2x1[cascade.Actor[tally], int, cascade.Actor[tally]]
	handleRunsTask   cascade.Function1x1[int, string]
)

func init() { //nolint:gochecknoinits // Go has no other place for functions that call themselves
	handlePassesTask = cascade.Func2("handlePasses", handlePasses, "a, depth -> a")
	handleRunsTask = cascade.Func1("handleRuns", handleRuns, "n -> text")
}

// tallyIs fails unless an actor has come to n.
func tallyIs(ctx context.Context, a cascade.Actor[tally], n int) error {
	if got, err := tallyAdd.Go(ctx, a, cascade.Val(0)).Get(ctx); err != nil || got != n {
		return fmt.Errorf("the tally is %d, %w; want %d", got, err, n)
	}
	return nil
}

// scenariosOfHandles run in the program of a session, and in a task.
var scenariosOfHandles = []struct {
	name string
	run  func(ctx context.Context) error
}{
	{"an argument", func(ctx context.Context) error {
		a := tallies.Spawn(ctx, cascade.Val(10))
		if n, err := handleAddsTask.Go(ctx, cascade.Val(a), cascade.Val(3)).Get(ctx); err != nil || n != 13 {
			return fmt.Errorf("the task comes to %d, %w", n, err)
		}
		return tallyIs(ctx, a, 13)
	}},
	{"a struct with several", func(ctx context.Context) error {
		a, b := tallies.Spawn(ctx, cascade.Val(1)), tallies.Spawn(ctx, cascade.Val(2), cascade.OwnProcess())
		v := handlesOf{Main: a, Named: map[string][]cascade.Actor[tally]{"x": {b, a}, "y": {b}}}
		if n, err := handleAddsAllTask.Go(ctx, cascade.Val(v)).Get(ctx); err != nil || n != 2+3+3+4 {
			return fmt.Errorf("the sum is %d, %w", n, err)
		}
		return errors.Join(tallyIs(ctx, a, 3), tallyIs(ctx, b, 4))
	}},
	{"a value that was put", func(ctx context.Context) error {
		put, err := cascade.Put(ctx, handlesOf{Main: tallies.Spawn(ctx, cascade.Val(0))})
		if err != nil {
			return err
		}
		runtime.GC()
		for n := range 3 {
			if got, err := handleAddsAllTask.Go(ctx, put).Get(ctx); err != nil || got != n+1 {
				return fmt.Errorf("the sum is %d, %w; want %d", got, err, n+1)
			}
		}
		return nil
	}},
	{"a result, of a task that has ended", func(ctx context.Context) error {
		v, err := handleMakesTask.Go(ctx, cascade.Val(5)).Get(ctx)
		if err != nil {
			return err
		}
		if err := tallyIs(ctx, v.Main, 6); err != nil {
			return err
		}
		if n, err := handleAddsTask.Go(ctx, cascade.Val(v.Main), cascade.Val(2)).Get(ctx); err != nil || n != 8 {
			return fmt.Errorf("another task comes to %d, %w", n, err)
		}
		return nil
	}},
	{"a result that goes on as an argument", func(ctx context.Context) error {
		if n, err := handleAddsAllTask.Go(ctx, handleMakesTask.Go(ctx, cascade.Val(5))).Get(ctx); err != nil || n != 7 {
			return fmt.Errorf("the sum is %d, %w", n, err)
		}
		return nil
	}},
	{"a handle that comes back", func(ctx context.Context) error {
		a := tallies.Spawn(ctx, cascade.Val(0))
		b, err := handlePassesTask.Go(ctx, cascade.Val(a), cascade.Val(3)).Get(ctx)
		if err != nil {
			return err
		}
		if n, err := tallyAdd.Go(ctx, b, cascade.Val(1)).Get(ctx); err != nil || n != 2 {
			return fmt.Errorf("it is at %d, %w", n, err)
		}
		return tallyIs(ctx, a, 2)
	}},
	{"many tasks", func(ctx context.Context) error {
		a := tallies.Spawn(ctx, cascade.Val(0))
		var all []cascade.Future[int]
		for range 10 {
			all = append(all, handleAddsTask.Go(ctx, cascade.Val(a), cascade.Val(20)))
		}
		if _, err := cascade.GetAll(ctx, all); err != nil {
			return err
		}
		return tallyIs(ctx, a, 200)
	}},
	{"a task kills it", func(ctx context.Context) error {
		a := tallies.Spawn(ctx, cascade.Val(0))
		if n, err := handleKillsTask.Go(ctx, cascade.Val(a)).Get(ctx); err != nil || n != 1 {
			return fmt.Errorf("the task gets %d, %w", n, err)
		}
		if _, err := tallyAdd.Go(ctx, a, cascade.Val(1)).Get(ctx); !errors.Is(err, cascade.ErrActorDead) || !strings.Contains(err.Error(), "a task wants it") {
			return fmt.Errorf("a later call fails with %w", err)
		}
		_, err := handleAddsTask.Go(ctx, cascade.Val(a), cascade.Val(1)).Get(ctx)
		if !errors.Is(err, cascade.ErrActorDead) {
			return fmt.Errorf("a later task fails with %w", err)
		}
		return nil
	}},
	{"a task that does nothing but kill it", func(ctx context.Context) error {
		a := tallies.Spawn(ctx, cascade.Val(0))
		if _, err := handleOnlyTask.Go(ctx, cascade.Val(a)).Get(ctx); err != nil {
			return err
		}
		var err error
		for err == nil { // the kill comes by another way
			_, err = tallyAdd.Go(ctx, a, cascade.Val(1)).Get(ctx)
		}
		return failsWith(err, "nothing but a kill")
	}},
	{"a task that does not wait for its calls", func(ctx context.Context) error {
		a := tallies.Spawn(ctx, cascade.Val(0))
		for range 10 {
			if _, err := handleLeavesTask.Go(ctx, cascade.Val(a)).Get(ctx); err != nil {
				return err
			}
		}
		for n := 0; n < 30; { // lines of other tasks have no order with this one
			var err error
			if n, err = tallyAdd.Go(ctx, a, cascade.Val(0)).Get(ctx); err != nil || n > 30 {
				return fmt.Errorf("the tally is %d, %w", n, err)
			}
		}
		return nil
	}},
	{"its process dies", func(ctx context.Context) error {
		a := tallies.Spawn(ctx, cascade.Val(0), cascade.OwnProcess())
		if _, err := handleDiesTask.Go(ctx, cascade.Val(a)).Get(ctx); !errors.Is(err, cascade.ErrActorDead) {
			return fmt.Errorf("the task that ends it fails with %w", err)
		}
		if _, err := tallyAdd.Go(ctx, a, cascade.Val(1)).Get(ctx); !errors.Is(err, cascade.ErrActorDead) {
			return fmt.Errorf("a later call fails with %w", err)
		}
		if _, err := handleAddsTask.Go(ctx, cascade.Val(a), cascade.Val(1)).Get(ctx); !errors.Is(err, cascade.ErrActorDead) {
			return fmt.Errorf("a later task fails with %w", err)
		}
		return nil
	}},
	{"methods take and return none", func(ctx context.Context) error {
		a := tallies.Spawn(ctx, cascade.Val(0))
		_, err := tallyTakes.Go(ctx, a, cascade.Val(handlesOf{Main: a})).Get(ctx)
		return failsWith(err, "which actors neither take nor return")
	}},
	{"an actor that is restarted cannot be given away", func(ctx context.Context) error {
		a := tallies.Spawn(ctx, cascade.Val(0), cascade.Restarts(1))
		_, err := handleAddsTask.Go(ctx, cascade.Val(a), cascade.Val(1)).Get(ctx)
		return failsWith(err, "which is restarted when its process dies")
	}},
	{"an actor that could not be made", func(ctx context.Context) error {
		_, err := cascade.Put(ctx, handlesOf{Main: tallies.Spawn(ctx, cascade.Val(0), cascade.Retries(1))})
		return failsWith(err, "could not be made")
	}},
}

// failsWith fails unless an error has a text.
func failsWith(err error, text string) error {
	if err == nil || !strings.Contains(err.Error(), text) {
		return fmt.Errorf("it fails with %v, want %q", err, text) //nolint:errorlint // it is not what it should be
	}
	return nil
}

// handleRuns runs one of the scenarios as a task.
func handleRuns(ctx context.Context, n int) (string, error) {
	if err := scenariosOfHandles[n].run(ctx); err != nil {
		return err.Error(), nil
	}
	return "", nil
}

func TestActorHandles(t *testing.T) {
	c := cascadetest.Start(t, cascade.WithCPU(2))
	s := open(t, c.Client)
	for i, sc := range scenariosOfHandles {
		t.Run(sc.name+", in a session", func(t *testing.T) {
			if err := sc.run(s.Context()); err != nil {
				t.Error(err)
			}
		})
		t.Run(sc.name+", in a task", func(t *testing.T) {
			if text, err := handleRunsTask.Go(s.Context(), cascade.Val(i)).Get(s.Context()); err != nil || text != "" {
				t.Error(text, err)
			}
		})
	}
	t.Run("returned by the task of a graph", func(t *testing.T) {
		g := cascade.NewGraph("handles")
		p := handleReturnsTask.Add(g, "returns")
		g.Output(p, "")
		if _, err := cascade.Result(t.Context(), cascadetest.Submit(t, c, g), p); err == nil || !strings.Contains(err.Error(), "it returned a future or the handle of an actor, which only a task may") {
			t.Errorf("it fails with %v", err)
		}
	})
	if err := s.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestSharedActorsEnd drops the last handle of an actor that another task has made and that keeps one of two cores: its
// process ends, and another actor has both.
func TestSharedActorsEnd(t *testing.T) {
	c := cascadetest.Start(t, cascade.WithCPU(2))
	s := open(t, c.Client)
	ctx := s.Context()
	func() {
		a, err := handleKeepsTask.Go(ctx, cascade.Val(1)).Get(ctx)
		if err == nil {
			err = tallyIs(ctx, a, 1)
		}
		if err != nil {
			t.Error(err)
		}
	}()
	both := tallyAdd.Go(ctx, tallies.Spawn(ctx, cascade.Val(0), cascade.CPU(2)), cascade.Val(1))
	for !both.Done() && ctx.Err() == nil {
		runtime.GC()
	}
	if n, err := both.Get(ctx); err != nil || n != 1 {
		t.Errorf("the actor behind it answers %d, %v", n, err)
	}
	if err := s.Close(t.Context()); err != nil {
		t.Error(err)
	}
}
