package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"syscall"
	"time"

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
		return sumOf(ctx, n, func() cascade.Future[int64] { return counterEcho.Go(ctx, c, cascade.Val(int64(1))) })
	})
}

// actorsCreate makes actors and calls each once.
func (r *runner) actorsCreate(ctx context.Context, a args) (values, error) {
	return r.inSession(ctx, a.int("n"), func(ctx context.Context, n int) (int, error) {
		return sumOf(ctx, n, func() cascade.Future[int64] {
			return counterEcho.Go(ctx, counters.Spawn(ctx), cascade.Val(int64(1)))
		})
	})
}

// sumOf makes n calls at once and adds up what they return.
func sumOf(ctx context.Context, n int, call func() cascade.Future[int64]) (sum int, err error) {
	all := make([]cascade.Future[int64], n)
	for i := range all {
		all[i] = call()
	}
	got, err := cascade.GetAll(ctx, all)
	for _, x := range got {
		sum += int(x)
	}
	return sum, err
}

// actorsRestart kills the process of an actor, and calls it.
func (r *runner) actorsRestart(ctx context.Context, a args) (v values, err error) {
	s, err := r.client.Session(ctx, cascade.WithSessionName("peers"))
	if err != nil {
		return nil, err
	}
	defer func() {
		end, cancel := context.WithTimeout(ctx, 10*time.Second)
		defer cancel()
		err = errors.Join(err, s.Close(end))
	}()
	var took []float64
	for range a.int("times") + 1 {
		c := counters.Spawn(s.Context(), cascade.AtLeastOnce(), cascade.OwnProcess())
		pid, err := counterPID.Go(s.Context(), c).Get(s.Context())
		if err != nil {
			return nil, err
		}
		t, err := timed(func() error {
			if err := syscall.Kill(int(pid), syscall.SIGKILL); err != nil {
				return err
			}
			x, err := counterEcho.Go(s.Context(), c, cascade.Val(int64(1))).Get(s.Context())
			if err == nil && x != 1 {
				err = fmt.Errorf("%w: the actor answers %d", errSum, x)
			}
			return err
		})
		if err != nil {
			return nil, err
		}
		took = append(took, t)
	}
	took = took[1:] // the first warms up
	slices.Sort(took)
	return values{"last": took[len(took)/2]}, nil
}
