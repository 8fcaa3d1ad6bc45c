package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"syscall"

	"github.com/cascade-run/cascade"
)

// counter is an actor.
type counter struct{ calls int64 }

var (
	counters    = cascade.Actor0("Counter", newCounter)
	counterEcho = cascade.Method1(counters, "Echo", (*counter).echo, "x -> out")
	counterPID  = cascade.Method0(counters, "PID", (*counter).pid, "-> pid")
)

func newCounter(context.Context) (*counter, error) { return &counter{}, nil }

func (c *counter) echo(_ context.Context, x int64) (int64, error) {
	c.calls++
	return x, nil
}

func (c *counter) pid(context.Context) (int64, error) { return int64(os.Getpid()), nil }

// actorsSync makes one call of an actor after another.
func (r *runner) actorsSync(ctx context.Context, a args) (values, error) {
	return r.inSession(ctx, a.int("n"), func(ctx context.Context, n int) (seen int, err error) {
		c := counters.Spawn(ctx)
		for range n {
			x, err := counterEcho.Go(ctx, c, cascade.Val(int64(1))).Get(ctx)
			if err != nil {
				return seen, err
			}
			seen += int(x)
		}
		return seen, nil
	})
}

// actorsAsync makes calls of an actor in a burst.
func (r *runner) actorsAsync(ctx context.Context, a args) (values, error) {
	return r.inSession(ctx, a.int("n"), func(ctx context.Context, n int) (int, error) {
		c := counters.Spawn(ctx)
		sum, err := sumOf(ctx, n, func() cascade.Future[int64] { return counterEcho.Go(ctx, c, cascade.Val(int64(1))) })
		return int(sum), err
	})
}

// actorsCreate makes actors and calls each once.
func (r *runner) actorsCreate(ctx context.Context, a args) (values, error) {
	return r.inSession(ctx, a.int("n"), func(ctx context.Context, n int) (int, error) {
		sum, err := sumOf(ctx, n, func() cascade.Future[int64] {
			return counterEcho.Go(ctx, counters.Spawn(ctx), cascade.Val(int64(1)))
		})
		return int(sum), err
	})
}

// actorsRestart kills the process of an actor, and calls it.
func (r *runner) actorsRestart(ctx context.Context, a args) (values, error) {
	var took []float64
	err := r.withSession(ctx, func(ctx context.Context) error {
		for range a.int("times") + 1 {
			t, err := restart(ctx)
			if err != nil {
				return err
			}
			took = append(took, t)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	took = took[1:] // the first warms up
	slices.Sort(took)
	return values{"last": took[len(took)/2]}, nil
}

// restart is how long a call takes of an actor whose process has just been killed.
func restart(ctx context.Context) (float64, error) {
	c := counters.Spawn(ctx, cascade.AtLeastOnce(), cascade.OwnProcess())
	pid, err := counterPID.Go(ctx, c).Get(ctx)
	if err != nil {
		return 0, err
	}
	return timed(func() error {
		if err := syscall.Kill(int(pid), syscall.SIGKILL); err != nil {
			return err
		}
		x, err := counterEcho.Go(ctx, c, cascade.Val(int64(1))).Get(ctx)
		if err == nil && x != 1 {
			err = fmt.Errorf("%w: the actor answers %d", errSum, x)
		}
		return err
	})
}
