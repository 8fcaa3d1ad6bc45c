package eventqueue_test

import (
	"cmp"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/cascade-run/cascade/internal/eventqueue"
)

// TestOrder holds an agenda against a list that is sorted by time each time, stably.
func TestOrder(t *testing.T) {
	type step struct {
		at time.Duration
		n  int
	}
	rapid.Check(t, func(t *rapid.T) {
		var a eventqueue.Agenda[int]
		var want []step
		for n := range rapid.IntRange(1, 60).Draw(t, "operations") {
			if len(want) > 0 && rapid.Bool().Draw(t, "take") {
				if due, ok := a.Due(); !ok || due != want[0].at {
					t.Fatalf("due at %v, %v; want %v", due, ok, want[0].at)
				}
				if at, got := a.Take(); at != want[0].at || got != want[0].n {
					t.Fatalf("took step %d of %v, want %d of %v", got, at, want[0].n, want[0].at)
				}
				want = want[1:]
			} else {
				at := time.Duration(rapid.IntRange(0, 5).Draw(t, "at"))
				a.Add(at, n)
				want = append(want, step{at, n})
				slices.SortStableFunc(want, func(x, y step) int { return cmp.Compare(x.at, y.at) })
			}
			var left, all []int
			for _, s := range want {
				left = append(left, s.n)
			}
			all = slices.Collect(a.All())
			slices.Sort(left)
			slices.Sort(all)
			if a.Len() != len(want) || !slices.Equal(all, left) {
				t.Fatalf("%d planned %v, want %v", a.Len(), all, left)
			}
		}
	})
	var empty eventqueue.Agenda[int]
	if _, ok := empty.Due(); ok {
		t.Error("an empty agenda has something due")
	}
}
