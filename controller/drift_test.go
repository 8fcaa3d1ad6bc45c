package controller

import (
	"testing"

	"github.com/cascade-run/cascade/planner"
	"github.com/cascade-run/cascade/profiles"
)

// A job is planned again when its tasks take far other times than was thought and
// much is left, and then only when they do so again.
func TestDeparted(t *testing.T) {
	const job = "job: j\ntasks:\n  a: {run: F, for: {i: \"1..100\"}, out: [x]}\n  b: {run: G, in: {x: \"a[*].x\"}, out: [x]}\n"
	for _, c := range []struct {
		name    string
		thought float64
		takes   float64
		runs    int
		want    int // times, when it is asked after each run
	}{
		{"as was thought", 1, 1.5, 50, 0},
		{"ten times as long", 1, 10, 50, 1},
		{"a tenth", 1, 0.1, 50, 1},
		{"two runs tell nothing", 1, 10, 2, 0},
		{"nothing is left", 1e-3, 1e-2, 100, 0},
		{"no-ops of which nothing was known", 0, 1e-6, 50, 0},
		{"long ones of which nothing was known", 0, 30, 50, 1},
	} {
		g := parse(t, job)
		ctrl := &Controller{book: profiles.NewBook()}
		if c.thought > 0 {
			ctrl.book.Record(planner.SignatureOf(g, 0), profiles.Sample{Seconds: c.thought})
		}
		d, got := ctrl.newDrift(g), 0
		for range c.runs {
			d.add(0, c.takes)
			if d.departed(g) {
				got++
			}
		}
		if got != c.want {
			t.Errorf("%s: planned again %d times, want %d", c.name, got, c.want)
		}
	}
	if (&Controller{book: profiles.NewBook()}).newDrift(parse(t, "job: j\ntasks:\n  a: {run: F, out: [x]}\n")) != nil {
		t.Error("a small job is looked at")
	}
}

// A job that runs is planned again by what was known when it began and by what its tasks
// took, whatever is imported meanwhile.
func TestDriftIsPinned(t *testing.T) {
	g := parse(t, "job: j\ntasks:\n  a: {run: F, for: {i: \"1..100\"}, out: [x]}\n  b: {run: G, in: {x: \"a[*].x\"}, out: [x]}\n")
	a, b := planner.SignatureOf(g, 0), planner.SignatureOf(g, 1)
	ctrl := &Controller{book: profiles.NewBook()}
	ctrl.book.Record(a, profiles.Sample{Seconds: 1})
	ctrl.book.Record(b, profiles.Sample{Seconds: 2})
	d := ctrl.newDrift(g)
	var other profiles.Profile
	for _, sig := range []profiles.Signature{a, b} {
		ctrl.book.Put(sig, other.Add(profiles.Sample{Seconds: 1000}))
	}
	d.add(0, 10)
	if got := d.now(g); got.Predict(a).Seconds != 10 || got.Predict(b).Seconds != 2 {
		t.Errorf("a takes %g s and b %g, want what was measured, 10, and what was known, 2", got.Predict(a).Seconds, got.Predict(b).Seconds)
	}
}
