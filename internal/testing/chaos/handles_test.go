//go:build linux

package chaos

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/cascade-run/cascade"
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
	far := cascade.Resource("at_a2", 1)
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
	want("at home", countedCallsTask.Go(ctx, cascade.Val(a)), "a1: 1")
	want("at the other host", countedCallsTask.Go(ctx, cascade.Val(a), far), "a2: ", "lives on the host of agent a1", "the caller runs on that of agent a2")
	back, err := countedPassesTask.Go(ctx, cascade.Val(a), far).Get(ctx)
	if err != nil {
		return err
	}
	want("back from there", countedCallsTask.Go(ctx, cascade.Val(back)), "a1: 2")

	b, err := countedMakesTask.Go(ctx, far).Get(ctx)
	if err != nil {
		return err
	}
	if _, err := countedAdd.Go(ctx, b, cascade.Val(1)).Get(ctx); err == nil || !strings.Contains(err.Error(), "lives on the host of agent a2, and the caller runs on that of agent a1") {
		wrong = append(wrong, fmt.Errorf("one that was made there fails with %w", err))
	}
	want("that at its own host", countedCallsTask.Go(ctx, cascade.Val(b), far), "a2: 1")
	want("and again", countedCallsTask.Go(ctx, cascade.Val(b), far), "a2: 2")
	var all []cascade.Future[string] // many wait, and the other host is idle: they stay
	for range 40 {
		all = append(all, countedCallsTask.Go(ctx, cascade.Val(a)))
	}
	for _, f := range all {
		want("one of many", f, "a1: ")
	}
	return errors.Join(wrong...)
}

// TestHandlesGoFromHostToHost passes handles of actors between two hosts: they are called on the actor's own, and each other one says so.
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
	h.SecondAgent("--cpu", "1", "--resource", "at_a2=1")
	h.ReadyClient(2)
	if err := handAround(session.Context()); err != nil {
		t.Error(err)
	}
	if err := session.Close(t.Context()); err != nil {
		t.Error(err)
	}
}
