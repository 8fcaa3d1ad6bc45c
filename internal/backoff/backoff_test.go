package backoff_test

import (
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/cascade-run/cascade/internal/backoff"
)

// TestBounds: a pause is at most its bound, which doubles up to the longest and begins
// anew after a success.
func TestBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := backoff.Backoff{
			First:   time.Duration(rapid.Int64Range(1, 1000).Draw(t, "first")),
			Longest: time.Duration(rapid.Int64Range(1000, 100_000).Draw(t, "longest")),
			Steady:  rapid.Bool().Draw(t, "steady"),
		}
		if rapid.Bool().Draw(t, "given a source") {
			b.Rand = rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		}
		bound := b.First
		for range rapid.IntRange(1, 40).Draw(t, "tries") {
			if rapid.IntRange(0, 9).Draw(t, "success") == 0 {
				b.Reset()
				bound = b.First
			}
			if d := b.Next(); d <= 0 || d > bound || b.Steady && d <= bound/2 {
				t.Fatalf("a pause of %d, its bound is %d", d, bound)
			}
			bound = min(2*bound, b.Longest)
		}
	})
}

// TestSource: pauses of one source are the same, of two they differ, and they come from
// all parts of their range.
func TestSource(t *testing.T) {
	pauses := func(seed uint64) (all []time.Duration) {
		b := backoff.Backoff{First: time.Second, Longest: time.Second, Rand: rand.New(rand.NewPCG(seed, 0))}
		for range 1000 {
			all = append(all, b.Next())
		}
		return all
	}
	a, same, other := pauses(1), pauses(1), pauses(2)
	if !slices.Equal(a, same) {
		t.Error("pauses of one seed differ")
	}
	if slices.Equal(a, other) {
		t.Error("pauses of two seeds are the same")
	}
	var tenths [10]int
	for _, d := range a {
		tenths[min(d*10/time.Second, 9)]++
	}
	if least := slices.Min(tenths[:]); least < 50 {
		t.Errorf("1000 pauses fall into the tenths of their range as %v", tenths)
	}
}

func TestJitter(t *testing.T) {
	if d := backoff.Jitter(0); d != 0 {
		t.Errorf("of no pause %v are left", d)
	}
	for range 100 {
		if d := backoff.Jitter(3); d < 1 || d > 3 {
			t.Fatalf("%d of at most 3", d)
		}
	}
}

func TestWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := backoff.Backoff{First: time.Second, Longest: time.Second}
		start := time.Now()
		if !b.Wait(nil) {
			t.Error("a wait that nothing ends is cut off")
		}
		if d := time.Since(start); d <= 0 || d > time.Second {
			t.Errorf("it took %v", d)
		}
		done := make(chan struct{})
		close(done)
		if backoff.Sleep(time.Hour, done) {
			t.Error("a wait that is cut off says that it was not")
		}
	})
}
