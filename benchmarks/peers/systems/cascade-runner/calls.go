package main

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/cascade-run/cascade"
)

var (
	echo    = cascade.Func1("Echo", giveBack, "x -> out")
	many    = cascade.Func1("Many", callMany, "n -> out")
	numbers = cascade.Gen1("Numbers", count, "n -> x")
	length  = cascade.Func1("Length", lengthOf, "x -> n")
)

func giveBack(_ context.Context, x int64) (int64, error) { return x, nil }

func lengthOf(_ context.Context, x []byte) (int64, error) { return int64(len(x)), nil }

// callMany calls so many tasks and adds up what they return.
func callMany(ctx context.Context, n int64) (int64, error) { return echoes(ctx, int(n)) }

// count yields the numbers below n.
func count(_ context.Context, n int64) iter.Seq2[int64, error] {
	return func(yield func(int64, error) bool) {
		for i := range n {
			if !yield(i, nil) {
				return
			}
		}
	}
}

// echoes calls n tasks at once and adds up what they return, which is one each.
func echoes(ctx context.Context, n int) (sum int64, err error) {
	return sumOf(ctx, n, func() cascade.Future[int64] { return echo.Go(ctx, cascade.Val(int64(1))) })
}

// sumOf makes n calls at once and adds up what they return.
func sumOf(ctx context.Context, n int, call func() cascade.Future[int64]) (sum int64, err error) {
	all := make([]cascade.Future[int64], n)
	for i := range all {
		all[i] = call()
	}
	got, err := cascade.GetAll(ctx, all)
	for _, x := range got {
		sum += x
	}
	return sum, err
}

// withSession does something in a session of its own.
func (r *runner) withSession(ctx context.Context, do func(ctx context.Context) error) (err error) {
	s, err := r.client.Session(ctx, cascade.WithSessionName("peers"))
	if err != nil {
		return err
	}
	defer func() {
		end, cancel := context.WithTimeout(ctx, 10*time.Second)
		defer cancel()
		err = errors.Join(err, s.Close(end))
	}()
	return do(s.Context())
}

var errSum = errors.New("what the calls return does not add up")

// inSession times what a session does, after a tenth of it as warming up; n is the number of what is
// done, and do returns how many results it saw.
func (r *runner) inSession(ctx context.Context, n int, do func(ctx context.Context, n int) (int, error)) (v values, err error) {
	err = r.withSession(ctx, func(ctx context.Context) error {
		if _, err := do(ctx, max(n/10, 1)); err != nil {
			return err
		}
		var seen int
		took, err := timed(func() (err error) {
			seen, err = do(ctx, n)
			return err
		})
		if err == nil && seen != n {
			err = fmt.Errorf("%w: %d of %d", errSum, seen, n)
		}
		v = values{"seconds": took, "tasks": float64(n)}
		return err
	})
	return v, err
}

// callsSync makes one call after another.
func (r *runner) callsSync(ctx context.Context, a args) (values, error) {
	return r.inSession(ctx, a.int("n"), func(ctx context.Context, n int) (seen int, err error) {
		for range n {
			x, err := echo.Go(ctx, cascade.Val(int64(1))).Get(ctx)
			if err != nil {
				return seen, err
			}
			seen += int(x)
		}
		return seen, nil
	})
}

// callsAsync makes calls in a burst.
func (r *runner) callsAsync(ctx context.Context, a args) (values, error) {
	return r.inSession(ctx, a.int("n"), func(ctx context.Context, n int) (int, error) {
		sum, err := echoes(ctx, n)
		return int(sum), err
	})
}

// callsNested has tasks call others, 100 each.
func (r *runner) callsNested(ctx context.Context, a args) (values, error) {
	const each = 100
	return r.inSession(ctx, a.int("n"), func(ctx context.Context, n int) (seen int, err error) {
		callers := make([]cascade.Future[int64], max(n/each, 1))
		for i := range callers {
			callers[i] = many.Go(ctx, cascade.Val(int64(min(n, each))))
		}
		got, err := cascade.GetAll(ctx, callers)
		for _, x := range got {
			seen += int(x)
		}
		return seen, err
	})
}

// waits waits for one end at a time of many calls.
func (r *runner) waits(ctx context.Context, a args) (values, error) {
	return r.inSession(ctx, a.int("n"), func(ctx context.Context, n int) (seen int, err error) {
		all := make([]cascade.Future[int64], n)
		for i := range all {
			all[i] = echo.Go(ctx, cascade.Val(int64(1)))
		}
		for i, err := range cascade.Completed(ctx, all) {
			if err != nil {
				return seen, err
			}
			x, err := all[i].Get(ctx)
			if err != nil {
				return seen, err
			}
			seen += int(x)
		}
		return seen, nil
	})
}

// puts puts values of some size, until a task has read the last of them.
func (r *runner) puts(ctx context.Context, a args) (values, error) {
	value := make([]byte, a.int("size"))
	return r.inSession(ctx, a.int("n"), func(ctx context.Context, n int) (_ int, err error) {
		var last cascade.Future[[]byte]
		for i := range n {
			if last, err = cascade.Put(ctx, value); err != nil {
				return i, err
			}
		}
		got, err := length.Go(ctx, last).Get(ctx)
		if err == nil && int(got) != len(value) {
			err = fmt.Errorf("%w: the last value has %d bytes of %d", errSum, got, len(value))
		}
		return n, err
	})
}

// streams reads the elements of a generator as they come.
func (r *runner) streams(ctx context.Context, a args) (values, error) {
	return r.inSession(ctx, a.int("n"), func(ctx context.Context, n int) (seen int, err error) {
		for _, err := range numbers.Go(ctx, cascade.Val(int64(n))).All(ctx) {
			if err != nil {
				return seen, err
			}
			seen++
		}
		return seen, nil
	})
}
