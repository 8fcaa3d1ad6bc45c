package profiles

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func TestPredict(t *testing.T) {
	b := NewBook()
	for _, s := range []float64{1, 2, 3} {
		b.Record(Signature{"j", "g", "f"}, Sample{Seconds: s, Bytes: 10 * s, Memory: 100 * s})
	}
	b.Record(Signature{"j", "c", ""}, Sample{Seconds: 7})
	s := b.Snapshot()
	spread := math.Sqrt(2.0 / 3)
	for _, c := range []struct {
		sig  Signature
		want Prediction
	}{
		{Signature{"j", "g", "f"}, Prediction{Seconds: 2, Spread: spread, Bytes: 20, Memory: 200, Basis: BasisTask}},
		{Signature{"other", "x", "f"}, Prediction{Seconds: 2, Spread: spread, Bytes: 20, Memory: 200, Basis: BasisFunction}},
		{Signature{"j", "c", ""}, Prediction{Seconds: 7, Basis: BasisTask}},
		{Signature{"other", "c", ""}, Default()}, // commands share nothing but their group
		{Signature{"j", "g", "other"}, Default()},
	} {
		got := s.Predict(c.sig)
		if math.Abs(got.Seconds-c.want.Seconds) > 1e-9 || math.Abs(got.Spread-c.want.Spread) > 1e-9 ||
			math.Abs(got.Bytes-c.want.Bytes) > 1e-9 || math.Abs(got.Memory-c.want.Memory) > 1e-9 || got.Basis != c.want.Basis {
			t.Errorf("%+v: %+v, want %+v", c.sig, got, c.want)
		}
	}
}

// Of an attempt that was ended for its memory only that counts, and nothing when no
// other run is known.
func TestCutSamples(t *testing.T) {
	b := NewBook()
	known, unknown := Signature{"j", "g", "f"}, Signature{"j", "h", "f2"}
	b.Record(known, Sample{Seconds: 2, Bytes: 8, Memory: 100})
	for _, sig := range []Signature{known, unknown} {
		b.Record(sig, Sample{Memory: 500, Cut: true})
	}
	for _, sig := range []Signature{known, {Function: "f"}} {
		if p := b.Predict(sig); p.Seconds != 2 || p.Bytes != 8 || p.Memory != 300 || p.Peak < 475 {
			t.Errorf("%v: %+v", sig, p)
		}
	}
	if p := b.Predict(unknown); p != Default() {
		t.Errorf("of a task that never ended: %+v", p)
	}
}

// The job of a night is not known, those of the nights before are: what its tasks took
// counts. A job that ran counts before its series, and that before the function alone.
func TestSeries(t *testing.T) {
	for name, want := range map[string]string{"night-2026-01-31": "night-#-#-#", "night20260131": "night#", "x": "x", "": "", "é7": "é#"} {
		if got := Series(name); got != want {
			t.Errorf("series of %q: %q, want %q", name, got, want)
		}
	}
	b := NewBook()
	b.Record(Signature{"night-30", "g", ""}, Sample{Seconds: 2, Bytes: 10, Version: 1})
	b.Record(Signature{"night-31", "g", ""}, Sample{Seconds: 4, Bytes: 30, Version: 1})
	b.Record(Signature{"night-30", "h", "f"}, Sample{Seconds: 5})
	b.Record(Signature{"day-30", "h", "f"}, Sample{Seconds: 15})
	for _, s := range []Snapshot{b.Snapshot(), b.SnapshotOf(slices.Values([]Signature{{"night-32", "g", ""}, {"night-31", "g", ""}, {"night-32", "h", "f"}, {"x-32", "h", "f"}}))} {
		for _, c := range []struct {
			sig     Signature
			seconds float64
			basis   Basis
		}{
			{Signature{"night-31", "g", ""}, 4, BasisTask},
			{Signature{"night-32", "g", ""}, 3, BasisSeries},
			{Signature{"night-32", "h", "f"}, 5, BasisSeries},
			{Signature{"x-32", "h", "f"}, 10, BasisFunction},
			{Signature{"other-32", "g", ""}, 1, BasisDefault},
		} {
			if p := s.Predict(c.sig); p.Seconds != c.seconds || p.Basis != c.basis {
				t.Errorf("%v: %v s by %v, want %v by %v", c.sig, p.Seconds, p.Basis, c.seconds, c.basis)
			}
		}
		now := s.Corrected(map[Signature]float64{{"night-32", "g", ""}: 7}).Predict(Signature{"night-32", "g", ""})
		if now.Seconds != 7 || now.Bytes != 20 {
			t.Errorf("corrected: %+v", now)
		}
	}
}

// A job that has another name each night does not make the book larger each night,
// also when that is read again.
func TestSeriesIsBounded(t *testing.T) {
	b := NewBook()
	night := func(n int) Signature { return Signature{fmt.Sprintf("night-%d", n), "g", ""} }
	for n := range 100 {
		if n == 50 {
			again := NewBook()
			for sig, p := range b.All() {
				if err := again.Load(sig.Key(), p.Encode()); err != nil {
					t.Fatal(err)
				}
			}
			b = again
		}
		b.Record(night(n), Sample{Seconds: 1})
	}
	b.Record(night(3), Sample{Seconds: 1}) // it has a profile of its own
	s := b.Snapshot()
	if s.Len() != maxNames+1 || s.m[night(0).series()].Count != 101 || s.m[night(3)].Count != 2 || s.Predict(night(99)).Basis != BasisSeries {
		t.Errorf("%d profiles: %+v", s.Len(), s.m)
	}
}

// What most tasks of a job needed counts for that job and its series, and not for the
// function in other jobs, until it is no more so.
func TestHold(t *testing.T) {
	b := NewBook()
	sig := Signature{"night-1", "g", "f"}
	if b.Hold(sig, 100); b.Snapshot().Len() > 0 {
		t.Error("what never ran has a profile")
	}
	b.Record(sig, Sample{Seconds: 1})
	b.Hold(sig, 70)
	next := Signature{"night-3", "g", "f"}
	if b.Record(next, Sample{Seconds: 1}); b.Predict(next).Held != 70 || b.Predict(next).Basis != BasisTask {
		t.Errorf("of the night after, which began with 70: %+v", b.Predict(next))
	}
	for _, want := range []float64{100, 100, 50, 0} {
		clear(b.dirty)
		before := b.Snapshot()
		was := before.Predict(sig).Held
		b.Hold(sig, want)
		b.Hold(sig, -1)
		for of, want := range map[Signature]float64{sig: want, {"night-2", "g", "f"}: want, {"x", "g", "f"}: 0} {
			if got := b.Predict(of).Held; got != want {
				t.Errorf("%v: %g, want %g", of, got, want)
			}
		}
		if before.Predict(sig).Held != was || (len(b.dirty) == 2) != (want != was) {
			t.Errorf("from %g to %g: %d are to be stored, and the snapshot says %g", was, want, len(b.dirty), before.Predict(sig).Held)
		}
	}
}

func TestSnapshotDoesNotChange(t *testing.T) {
	b := NewBook()
	sig := Signature{"j", "g", "f"}
	b.Record(sig, Sample{Seconds: 1})
	s := b.Snapshot()
	b.Record(sig, Sample{Seconds: 100})
	b.Record(Signature{"j", "h", "f"}, Sample{Seconds: 5})
	if p := s.Predict(sig); p.Seconds != 1 || s.Len() != 2 {
		t.Errorf("the snapshot changed: %+v, %d signatures", p, s.Len())
	}
	b.Record(sig, Sample{Seconds: math.NaN()})
	if p := b.Snapshot().Predict(sig); math.IsNaN(p.Seconds) {
		t.Error("NaN was recorded")
	}
}

func TestSnapshotOfSome(t *testing.T) {
	b := NewBook()
	mine, other := Signature{"j", "g", "f"}, Signature{"j", "h", "f2"}
	b.Record(mine, Sample{Seconds: 1})
	b.Record(other, Sample{Seconds: 2})
	s := b.SnapshotOf(slices.Values([]Signature{mine, {"new", "x", "f2"}}))
	b.Record(mine, Sample{Seconds: 100})
	if p := s.Predict(mine); p.Seconds != 1 || p.Basis != BasisTask {
		t.Errorf("the snapshot changed: %+v", p)
	}
	if p := s.Predict(Signature{"new", "x", "f2"}); p.Seconds != 2 || p.Basis != BasisFunction {
		t.Errorf("what is known of the function is missing: %+v", p)
	}
	if s.Len() != 3 { // mine, and both functions
		t.Errorf("%d signatures, want 3", s.Len())
	}
}

func TestProfileFollowsChange(t *testing.T) {
	var p Profile
	for range 1000 {
		p = p.Add(Sample{Seconds: 1})
	}
	for range 200 {
		p = p.Add(Sample{Seconds: 2})
	}
	if p.Seconds < 1.9 || p.Count != 1200 {
		t.Errorf("after 200 runs of 2 s the mean is %g of %d", p.Seconds, p.Count)
	}
}

func TestStoredAndLoaded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := NewBook()
		name := rapid.StringMatching(`[a-z]{0,3}`)
		cost := rapid.OneOf(rapid.Float64Range(0, 1e12), rapid.Float64(), rapid.Just(math.Inf(1)))
		for range rapid.IntRange(0, 20).Draw(t, "runs") {
			b.Record(Signature{name.Draw(t, "job"), name.Draw(t, "group"), name.Draw(t, "function")},
				Sample{Seconds: cost.Draw(t, "s"), Bytes: cost.Draw(t, "b"), Memory: cost.Draw(t, "m"), CPU: cost.Draw(t, "c"), In: cost.Draw(t, "i"), Version: rapid.Uint64Range(0, 2).Draw(t, "v")})
		}
		again := NewBook()
		for k, v := range b.Dirty() {
			if err := again.Load(k, v); err != nil {
				t.Fatal(err)
			}
		}
		if len(b.Dirty()) != 0 {
			t.Fatal("Dirty returns a profile twice")
		}
		for sig, p := range b.m {
			if !reflect.DeepEqual(again.m[sig], p) {
				t.Fatalf("%+v: loaded %+v, want %+v", sig, again.m[sig], p)
			}
		}
	})
}

func FuzzDecode(f *testing.F) {
	f.Add(Profile{Count: 3, Seconds: 1.5, MemoryPeak: 9}.Encode())
	f.Add([]byte{1})
	f.Fuzz(func(t *testing.T, b []byte) {
		p, err := Decode(b)
		if err != nil {
			return
		}
		if again, err := Decode(p.Encode()); err != nil || !reflect.DeepEqual(again, p) {
			t.Fatalf("%+v reads back as %+v, %v", p, again, err)
		}
	})
}
