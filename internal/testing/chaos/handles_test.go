//go:build linux

package chaos

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cascade-run/cascade"
	"github.com/cascade-run/cascade/internal/testing/tier"
)

// counted is an actor whose handles go from host to host.
type counted struct{ n int }

func newCounted(context.Context) (*counted, error) { return &counted{}, nil }

func (c *counted) add(_ context.Context, by int) (int, error) {
	c.n += by
	return c.n, nil
}

var (
	counteds   = cascade.Actor0("chaos_counted", newCounted)
	countedAdd = cascade.Method1(counteds, "add", (*counted).add, "by -> n")

	countedCallsTask  = cascade.Func1("chaos_handle_calls", countedCalls, "a -> text")
	countedMakesTask  = cascade.Func0("chaos_handle_makes", countedMakes, "-> a")
	countedPassesTask = cascade.Func1("chaos_handle_passes", countedPasses, "a -> a")
)

// countedCalls calls an actor, and says how that went and on which host.
func countedCalls(ctx context.Context, a cascade.Actor[counted]) (string, error) {
	n, err := countedAdd.Go(ctx, a, cascade.Val(1)).Get(ctx)
	return fmt.Sprintf("%s: %d, %v", os.Getenv(agentVar), n, err), nil
}

func countedMakes(ctx context.Context) (cascade.Actor[counted], error) {
	return counteds.Spawn(ctx), nil
}

func countedPasses(_ context.Context, a cascade.Actor[counted]) (cascade.Actor[counted], error) {
	return a, nil
}

// handAround is of a session at a1. It tells what was not as it should be.
func handAround(ctx context.Context) error {
	a2, a3 := cascade.Resource("at_a2", 1), cascade.Resource("at_a3", 1)
	var wrong []error
	want := func(what string, f cascade.Future[string], texts ...string) {
		got, err := f.Get(ctx)
		for _, text := range texts {
			if err != nil || !strings.Contains(got, text) {
				wrong = append(wrong, fmt.Errorf("%s: %q, %w; want %q", what, got, err, text))
			}
		}
	}
	a := counteds.Spawn(ctx)
	want("at home", countedCallsTask.Go(ctx, cascade.Val(a), cascade.Here()), "a1: 1")
	want("at another host", countedCallsTask.Go(ctx, cascade.Val(a), a2), "a2: 2, <nil>")
	back, err := countedPassesTask.Go(ctx, cascade.Val(a), a2).Get(ctx)
	if err != nil {
		return err
	}
	want("back from there", countedCallsTask.Go(ctx, cascade.Val(back), cascade.Here()), "a1: 3")

	b, err := countedMakesTask.Go(ctx, a2).Get(ctx)
	if err != nil {
		return err
	}
	if n, err := countedAdd.Go(ctx, b, cascade.Val(1)).Get(ctx); err != nil || n != 1 {
		wrong = append(wrong, fmt.Errorf("one that was made there comes to %d, %w", n, err))
	}
	want("that at its own host", countedCallsTask.Go(ctx, cascade.Val(b), a2), "a2: 2")
	want("at a third", countedCallsTask.Go(ctx, cascade.Val(b), a3), "a3: 3")
	var all []cascade.Future[string]
	for range 40 {
		all = append(all, countedCallsTask.Go(ctx, cascade.Val(a), a2), countedCallsTask.Go(ctx, cascade.Val(b), a3))
	}
	for _, f := range all {
		want("one of many", f, "<nil>")
	}
	want("behind many", countedCallsTask.Go(ctx, cascade.Val(a), cascade.Here()), "a1: 44")
	want("behind many, at the maker of the other", countedCallsTask.Go(ctx, cascade.Val(b), cascade.Here()), "a1: 44")
	b.Kill("enough")
	for err = nil; err == nil; { // the kill comes by another way
		_, err = countedAdd.Go(ctx, b, cascade.Val(1)).Get(ctx)
	}
	if !errors.Is(err, cascade.ErrActorDead) || !strings.Contains(err.Error(), "enough") {
		wrong = append(wrong, fmt.Errorf("behind a kill it fails with %w", err))
	}
	want("behind a kill, at a third", countedCallsTask.Go(ctx, cascade.Val(b), a3), "a3: 0, ", "enough")
	return errors.Join(wrong...)
}

// TestHandlesGoFromHostToHost passes handles of actors between three hosts, each of which calls them. Then a host dies: the
// calls of its actors fail.
func TestHandlesGoFromHostToHost(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("starts many processes")
	}
	h := New(t)
	h.Controller()
	h.Env = []string{agentVar + "=a1"}
	h.Agent("--cpu", "1")
	session, err := h.ReadyClient(1).Session(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	h.Env = []string{agentVar + "=a2"}
	a2 := h.SecondAgent("--cpu", "1", "--resource", "at_a2=1")
	h.Env = []string{agentVar + "=a3"}
	h.ThirdAgent("--cpu", "1", "--resource", "at_a3=1")
	h.ReadyClient(3)
	ctx := session.Context()
	if err := handAround(ctx); err != nil {
		t.Error(err)
	}
	lost, err := countedMakesTask.Go(ctx, cascade.Resource("at_a2", 1)).Get(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if n, err := countedAdd.Go(ctx, lost, cascade.Val(1)).Get(ctx); err != nil || n != 1 {
		t.Errorf("before its host dies it comes to %d, %v", n, err)
	}
	a2.Kill()
	for err == nil {
		_, err = countedAdd.Go(ctx, lost, cascade.Val(1)).Get(ctx)
	}
	if !errors.Is(err, cascade.ErrActorDead) {
		t.Errorf("behind the death of its host it fails with %v", err)
	}
	if err := session.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestActorOverAFreeze freezes the agent of an actor's host for longer than it may be silent, while an actor of another host is
// called: each call runs once, in order.
func TestActorOverAFreeze(t *testing.T) {
	tier.Nightly(t, "depends on how long agents wait for each other")
	h := New(t)
	h.Controller()
	h.Env = []string{agentVar + "=a1"}
	a1 := h.Agent("--cpu", "1", "--silence", "1s")
	session, err := h.ReadyClient(1).Session(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	h.Env = []string{agentVar + "=a2"}
	a2 := h.SecondAgent("--cpu", "1", "--resource", "at_a2=1", "--silence", "1s")
	h.ReadyClient(2)
	ctx := session.Context()
	far, err := countedMakesTask.Go(ctx, cascade.Resource("at_a2", 1)).Get(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if n, err := countedAdd.Go(ctx, far, cascade.Val(1)).Get(ctx); err != nil || n != 1 {
		t.Fatalf("it comes to %d, %v", n, err)
	}
	a2.Signal(syscall.SIGSTOP)
	var all []cascade.Future[int]
	for range 1000 {
		all = append(all, countedAdd.Go(ctx, far, cascade.Val(1)))
	}
	a1.Await("agent is away")
	time.Sleep(1500 * time.Millisecond) // the freeze: longer than one search for a way takes, shorter than agents wait for each other
	a2.Signal(syscall.SIGCONT)
	for i, f := range all {
		if n, err := f.Get(ctx); err != nil || n != i+2 {
			t.Fatalf("call %d comes to %d, %v", i, n, err)
		}
	}
	if err := session.Close(t.Context()); err != nil {
		t.Error(err)
	}
}
