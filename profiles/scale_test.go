package profiles

import (
	"math"
	"reflect"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// Quantiles are off by no more than a bucket, as long as nothing has faded.
func TestQuantiles(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		values := rapid.SliceOfN(rapid.Float64Range(1e-6, 1e6), 1, window).Draw(t, "values")
		var s Sketch
		for i, x := range values {
			s.add(x, float64(i+1))
		}
		slices.Sort(values)
		for _, q := range []float64{0.1, 0.5, 0.9, 1} {
			want := values[max(int(math.Ceil(q*float64(len(values))))-1, 0)]
			if got := s.Quantile(q); got < want/ratio || got > want*ratio {
				t.Fatalf("%g of %v: %g, want %g", q, values, got, want)
			}
		}
	})
}

func TestSketchIsBounded(t *testing.T) {
	var s Sketch
	for i := range 10_000 {
		s.add(math.Pow(1.05, float64(i%2000)), float64(min(i+1, window)))
	}
	s.add(0, window)
	if len(s.bins) > maxBins || s.total() > window+1 {
		t.Errorf("%d buckets of weight %g", len(s.bins), s.total())
	}
}

// What grows with its inputs is predicted by them: by a line where there is one,
// else by what runs of that size took.
func TestPredictBySize(t *testing.T) {
	sig := Signature{"j", "g", "f"}
	line, steps, flat := NewBook(), NewBook(), NewBook()
	for i := range 20 {
		in := float64(1+i%10) * 1e6
		line.Record(sig, Sample{Seconds: 0.5 + in*2e-6, Bytes: in / 2, In: in})
		flat.Record(sig, Sample{Seconds: 1 + 0.1*float64(i%2), In: in})
		big, took := in, 1.0
		if i%2 == 1 {
			big, took = in*1e6, 1.5+float64(i%3)*9
		}
		steps.Record(sig, Sample{Seconds: took, In: big})
	}
	for _, c := range []struct {
		name string
		book *Book
		in   float64
		want float64
		fit  bool
	}{
		{"on the line", line, 5.5e6, 11.5, true},
		{"beyond what was seen", line, 20e6, 40.5, true},
		{"far beyond: no further than four times", line, 1e12, 80.5, true},
		{"of unknown size", line, 0, 11.5, false},
		{"no line", flat, 5e6, 1.05, false},
		{"small ones", steps, 5e6, 1, false},
	} {
		p := c.book.Snapshot().PredictFor(sig, c.in)
		if math.Abs(p.Seconds-c.want) > 0.06*c.want || (p.Fit > 0) != c.fit {
			t.Errorf("%s: %+v, want %g s", c.name, p, c.want)
		}
	}
	if p := line.Snapshot().PredictFor(sig, 4e6); math.Abs(p.Bytes-2e6) > 1 {
		t.Errorf("%g bytes, want half of the inputs", p.Bytes)
	}
}

// A new version of the code begins with the old one's costs, which five runs outweigh.
func TestNewVersion(t *testing.T) {
	var p Profile
	for range 100 {
		p = p.Add(Sample{Seconds: 10, Bytes: 100, Version: 1})
	}
	p = p.Add(Sample{Seconds: 1, Bytes: 100, Version: 2})
	if p.Count != priorRuns+1 || p.Prior != priorRuns || p.Seconds != (10*5+1)/6.0 || p.Before != (Before{1, 100, 10, 100, 0}) {
		t.Errorf("after one run: %+v", p)
	}
	for range 20 {
		p = p.Add(Sample{Seconds: 1, Bytes: 100, Version: 2})
	}
	if p.Seconds > 3 || p.Times.Quantile(0.5) > 1.1 {
		t.Errorf("after 21 runs the mean is %g and the median %g", p.Seconds, p.Times.Quantile(0.5))
	}
	d := DiffVersions([]Entry{EntryOf(Signature{"j", "g", ""}, p)})
	if len(d) != 1 || d[0].Before != 10 || d[0].Time > 0.3 {
		t.Errorf("%+v", d)
	}
}

// What an earlier program stored is read, and what is stored now an earlier one reads.
func TestStoredVersions(t *testing.T) {
	p := Profile{Count: 3, MemoryCount: 2, Seconds: 1.5, SecondsVar: 0.25, Bytes: 7, BytesVar: 1, Memory: 5, MemoryPeak: 9}
	b := p.Add(Sample{Seconds: 1.5, Bytes: 7, In: 8, CPU: 0.5}).Encode()
	if b[0] != 3 {
		t.Fatalf("version %d", b[0])
	}
	old := append([]byte{1}, p.Encode()[1:encodedSize]...)
	if got, err := Decode(old); err != nil || !reflect.DeepEqual(got, p) {
		t.Errorf("%+v, %v; want %+v", got, err, p)
	}
	p = p.Add(Sample{Seconds: 1.5, Bytes: 7, In: 8, CPU: 0.5})
	p.Held = 1 << 30
	b = p.Encode()
	if got, err := Decode(b); err != nil || !reflect.DeepEqual(got, p) {
		t.Errorf("%+v, %v; want %+v", got, err, p)
	}
	old = append([]byte{2}, b[1:len(b)-8]...)
	p.Held = 0
	if got, err := Decode(old); err != nil || !reflect.DeepEqual(got, p) {
		t.Errorf("version 2: %+v, %v; want %+v", got, err, p)
	}
	if _, err := Decode(b[:len(b)-1]); err == nil {
		t.Error("a profile that is cut off was read")
	}
}

// An entry of a file is all that is known.
func TestEntryIsWhole(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var p Profile
		cost := rapid.Float64Range(0, 1e6)
		for range rapid.IntRange(1, 80).Draw(t, "runs") {
			p = p.Add(Sample{cost.Draw(t, "s"), cost.Draw(t, "b"), cost.Draw(t, "m"), cost.Draw(t, "c"), cost.Draw(t, "i"), rapid.Uint64Range(0, 3).Draw(t, "v"), false})
		}
		p.Held = cost.Draw(t, "held")
		f := File{Version: FileVersion, Profiles: []Entry{EntryOf(Signature{"j", "g", "f"}, p)}}
		got := readBack(t, &f).Profiles[0].Profile()
		for _, x := range [][2]float64{{got.SecondsVar, p.SecondsVar}, {got.BytesVar, p.BytesVar}} {
			if math.Abs(x[0]-x[1]) > 1e-9*x[1] {
				t.Fatalf("variance %g, want %g", x[0], x[1])
			}
		}
		got.SecondsVar, got.BytesVar = p.SecondsVar, p.BytesVar
		if !reflect.DeepEqual(got, p) {
			t.Fatalf("%+v\nwant %+v", got, p)
		}
	})
}

func TestDiff(t *testing.T) {
	a := []Entry{{Job: "j", Task: "same", Seconds: 2, SecondsDeviation: 1, Bytes: 10}, {Job: "j", Task: "slow", Seconds: 1}, {Job: "j", Task: "gone", Seconds: 1}, {Job: "j", Task: "equal", Seconds: 2, Bytes: 3, Memory: 4}}
	b := []Entry{{Job: "j", Task: "equal", Seconds: 2 + 1e-12, Bytes: 3, Memory: 4, SecondsDeviation: 1}, {Job: "j", Task: "same", Seconds: 3, Bytes: 10}, {Job: "j", Task: "slow", Seconds: 10}, {Job: "j", Task: "new", Seconds: 1}}
	want := []Drift{
		{Job: "j", Task: "slow", Change: "drift", Before: 1, After: 10, Time: 10},
		{Job: "j", Task: "same", Change: "drift", Before: 2, After: 3, Time: 1.5, Bytes: 1, Spreads: 1},
		{Job: "j", Task: "gone", Change: "gone", Before: 1},
		{Job: "j", Task: "new", Change: "new", After: 1},
	}
	if got := Diff(a, b); !reflect.DeepEqual(got, want) {
		t.Errorf("%+v\nwant %+v", got, want)
	}
}

// Durations that were measured meanwhile replace what was known, and nothing else.
func TestCorrected(t *testing.T) {
	b := NewBook()
	known, other := Signature{"j", "g", "f"}, Signature{"j", "h", "f"}
	b.Record(known, Sample{Seconds: 1, Bytes: 7})
	s := b.SnapshotOf(slices.Values([]Signature{known, other}))
	c := s.Corrected(map[Signature]float64{known: 5, other: 6, {"j", "new", ""}: 9})
	for sig, want := range map[Signature][2]float64{known: {5, 7}, other: {6, 7}, {"j", "new", ""}: {9, 1 << 20}} {
		if p := c.Predict(sig); p.Seconds != want[0] || p.Bytes != want[1] || p.Basis != BasisTask {
			t.Errorf("%v: %+v, want %v", sig, p, want)
		}
	}
	if p := s.Predict(known); p.Seconds != 1 {
		t.Error("the snapshot changed")
	}
}
