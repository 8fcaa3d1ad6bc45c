//go:build linux

package cascade_test

import (
	"context"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/cascade-run/cascade"
	"github.com/cascade-run/cascade/cascadetest"
	"github.com/cascade-run/cascade/internal/testing/tier"
)

// A program at its limits: many calls outstanding, many futures in one wait, cancels at random, more
// values than memory. What lies beyond a limit is an error that names it, and is tested with the limit.

// gate runs until it is cancelled. What asks for its core waits.
func gate(ctx context.Context) (int, error) {
	<-ctx.Done()
	return 0, context.Cause(ctx)
}

// stamped is a value of n bytes that ends with its number.
func stamped(_ context.Context, n, bytes int) (cascade.Array[byte], error) {
	a := cascade.Array[byte]{Shape: []int{bytes}, Data: make([]byte, bytes)}
	binary.LittleEndian.PutUint64(a.Data[bytes-8:], uint64(n))
	return a, nil
}

// stamps reads the numbers of two values.
func stamps(_ context.Context, a, b cascade.Array[byte]) (int, int, error) {
	read := func(a cascade.Array[byte]) int { return int(binary.LittleEndian.Uint64(a.Data[len(a.Data)-8:])) }
	return read(a), read(b), nil
}

var (
	gateTask    = cascade.Func0("limitsGate", gate, "-> n")
	stampedTask = cascade.Func2("limitsStamped", stamped, "n, bytes -> a")
	stampsTask  = cascade.Func2x2("limitsStamps", stamps, "a, b -> m, n")
)

// TestOutstanding has a program with many calls that wait for one core. It waits for all in one
// Wait, and gets the value of each.
func TestOutstanding(t *testing.T) {
	n := tier.Rounds(20_000, 1_000_000)
	if raced { // with the invariants of the core, which are checked over all calls
		n = 20_000
	}
	c := cascadetest.Start(t, cascade.WithCPU(1))
	s := open(t, c.Client)
	ctx := s.Context()
	closed := gateTask.Go(ctx)
	all := make([]cascade.Future[int], n)
	for i := range all {
		all[i] = doubledTask.Go(ctx, cascade.Val(i))
	}
	closed.Cancel("all are made")
	if _, err := closed.Get(ctx); err == nil {
		t.Error("what holds the core ended without an error")
	}
	if ready, err := cascade.Wait(ctx, all, n); err != nil || len(ready) != n {
		t.Fatalf("%d of %d calls have ended: %v", len(ready), n, err)
	}
	for i := range all {
		if v, err := all[i].Get(ctx); err != nil || v != 2*i {
			t.Fatalf("call %d returned %d, %v", i, v, err)
		}
	}
	if err := s.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestCancelAtRandom cancels half of many calls while they run: each has its value, or is cancelled
// for the reason that was given. Afterwards the agent runs calls as before.
func TestCancelAtRandom(t *testing.T) {
	n := tier.Rounds(2000, 10_000)
	c := cascadetest.Start(t, cascade.WithCPU(2))
	s := open(t, c.Client)
	ctx, random := s.Context(), rand.New(rand.NewPCG(1, 1))
	all := make([]cascade.Future[int], n)
	for i := range all {
		if i%10 == 9 { // it reads one that may be cancelled
			all[i] = doubledTask.Go(ctx, all[i-1])
		} else {
			all[i] = doubledTask.Go(ctx, cascade.Val(i))
		}
		if k := random.IntN(i + 1); random.IntN(2) == 0 {
			all[k].Cancel("by lot")
		}
	}
	var values, cancelled int
	for i := range all {
		want := 2 * i
		if i%10 == 9 {
			want = 4 * (i - 1)
		}
		switch v, err := all[i].Get(ctx); {
		case errors.Is(err, cascade.ErrCancelled): // it was, or what it reads
			cancelled++
		case err != nil || v != want:
			t.Fatalf("call %d returned %d, %v", i, v, err)
		default:
			values++
		}
	}
	if values == 0 || cancelled == 0 {
		t.Errorf("%d calls have a value and %d were cancelled", values, cancelled)
	}
	if v, err := doubledTask.Go(ctx, cascade.Val(4)).Get(ctx); err != nil || v != 8 {
		t.Errorf("a call behind them returned %d, %v", v, err)
	}
}

// TestMoreValuesThanMemory has a program with ten times as many bytes of results, and of values that
// it has put, as the store has memory. Calls read them in another order.
func TestMoreValuesThanMemory(t *testing.T) {
	const n, bytes = 100, 750_000
	c := cascadetest.Start(t, cascade.WithCPU(2), cascade.WithStore(7_500_000))
	s := open(t, c.Client)
	ctx := s.Context()
	all := make([]cascade.Future[cascade.Array[byte]], n)
	for i := range all {
		if i%2 == 0 {
			all[i] = stampedTask.Go(ctx, cascade.Val(i), cascade.Val(bytes))
			continue
		}
		a, err := stamped(ctx, i, bytes)
		if err == nil {
			all[i], err = cascade.Put(ctx, a)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	order := rand.New(rand.NewPCG(1, 2)).Perm(n)
	for k := 0; k < n; k += 2 {
		a, b := stampsTask.Go(ctx, all[order[k]], all[order[k+1]])
		got1, err1 := a.Get(ctx)
		got2, err2 := b.Get(ctx)
		if err := errors.Join(err1, err2); err != nil || got1 != order[k] || got2 != order[k+1] {
			t.Fatalf("values %d and %d were read as %d and %d: %v", order[k], order[k+1], got1, got2, err)
		}
	}
}
