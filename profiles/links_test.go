package profiles

import (
	"math"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

var ab = Pair{"a", "b"}

func flowOf(bytes, seconds float64) Flow {
	return Flow{Pair: ab, Bytes: bytes, Pieces: 1, Seconds: seconds, At: 100}
}

// What a flow says, and of which link.
func TestRecordFlow(t *testing.T) {
	const mb = 1e6
	several := Pair{"", "b"}
	for _, c := range []struct {
		name string
		flow Flow
		of   Pair // zero: nothing is taken
		rate float64
		wait float64
	}{
		{"a large one alone", Flow{Pair: ab, Bytes: 100 * mb, Pieces: 25, Seconds: 1}, ab, 100 * mb, 0},
		{"a small one alone", Flow{Pair: ab, Bytes: 1000, Pieces: 1, Seconds: 0.002}, ab, 0, 0.002},
		{"many small ones", Flow{Pair: ab, Bytes: 1 * mb, Pieces: 1000, Seconds: 1}, Pair{}, 0, 0},
		{"a small one beside others", Flow{Pair: ab, Bytes: 1000, Pieces: 1, Seconds: 1, Beside: 1e9, Others: 1}, Pair{}, 0, 0},
		{"as fast as another: the port may bound both", Flow{Pair: ab, Bytes: 50 * mb, Pieces: 12, Seconds: 1, Beside: 50 * mb, Others: 1}, several, 100 * mb, 0},
		{"faster than others", Flow{Pair: ab, Bytes: 60 * mb, Pieces: 12, Seconds: 1, Beside: 40 * mb, Others: 2}, several, 100 * mb, 0},
		{"much slower than another: held back elsewhere", Flow{Pair: ab, Bytes: 10 * mb, Pieces: 3, Seconds: 1, Beside: 90 * mb, Others: 1}, ab, 10 * mb, 0},
		{"another for a moment", Flow{Pair: ab, Bytes: 100 * mb, Pieces: 25, Seconds: 1, Beside: 1 * mb, Others: 0.05}, ab, 100 * mb, 0},
		{"no bytes", Flow{Pair: ab, Pieces: 1, Seconds: 1}, Pair{}, 0, 0},
		{"no time", Flow{Pair: ab, Bytes: mb, Pieces: 1}, Pair{}, 0, 0},
		{"no number", Flow{Pair: ab, Bytes: mb, Pieces: 1, Seconds: 1, Others: math.NaN()}, Pair{}, 0, 0},
		{"from itself", Flow{Pair: Pair{"a", "a"}, Bytes: mb, Pieces: 1, Seconds: 1}, Pair{}, 0, 0},
	} {
		b := NewBook()
		for range linkLeast {
			b.RecordFlow(c.flow)
		}
		for p, l := range b.Links() {
			if p != c.of {
				t.Errorf("%s: it is taken for %v", c.name, p)
			}
			if got := l.Bandwidth(); math.Abs(got-c.rate) > 0.05*c.rate {
				t.Errorf("%s: bandwidth %g, want %g", c.name, got, c.rate)
			}
			if got := l.Latency(); math.Abs(got-c.wait) > 0.05*c.wait {
				t.Errorf("%s: latency %g, want %g", c.name, got, c.wait)
			}
		}
		if want := map[bool]int{true: 0, false: 1}[c.of == Pair{}]; len(b.links) != want {
			t.Errorf("%s: %d links", c.name, len(b.links))
		}
	}
}

// A link is believed from some flows on; the wait for the first byte is no part of
// its bandwidth; flows that others slow down do not count much.
func TestLinkBandwidth(t *testing.T) {
	b := NewBook()
	b.RecordFlow(flowOf(1e6, 0.01))
	b.RecordFlow(flowOf(1e6, 0.01))
	if got := b.links[ab].Bandwidth(); got != 0 {
		t.Errorf("after two flows the bandwidth is %g", got)
	}
	for i := range 60 {
		b.RecordFlow(flowOf(1e6, []float64{0.01, 0.02, 0.04, 0.02}[i%4]))
	}
	if got := b.links[ab].Bandwidth(); math.Abs(got-1e8) > 5e6 {
		t.Errorf("bandwidth %g, want that of the fastest", got)
	}
	late := NewBook()
	for range linkLeast {
		late.RecordFlow(flowOf(1000, 0.004))
	}
	for range linkLeast {
		late.RecordFlow(flowOf(1e6, 0.014))
	}
	if got := late.links[ab].Bandwidth(); math.Abs(got-1e8) > 1e7 {
		t.Errorf("bandwidth %g, want 1e8 without the wait", got)
	}
	if unknown := (*Link)(nil); unknown.Bandwidth() != 0 || unknown.Latency() != 0 {
		t.Error("something is known of no link")
	}
}

// Whatever a link carried before, it is as fast as it was of late; its mean and its
// count are those of all flows that it was told.
func TestRecentFlowsWeighMore(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b, rate := NewBook(), rapid.Float64Range(1e5, 1e9)
		before := rapid.SliceOfN(rate, 0, 100).Draw(t, "before")
		for _, x := range before {
			b.RecordFlow(flowOf(x, 1))
		}
		now, n := rate.Draw(t, "now"), rapid.IntRange(3*linkWindow, 5*linkWindow).Draw(t, "n")
		for range n {
			b.RecordFlow(flowOf(now, 1))
		}
		l := b.links[ab]
		if got := l.Bandwidth(); got < now/ratio || got > now*ratio {
			t.Fatalf("after %d flows of %g the bandwidth is %g", n, now, got)
		}
		if l.Flows != uint64(len(before)+n) || l.At != 100 {
			t.Fatalf("%d flows at %d", l.Flows, l.At)
		}
	})
}

func drawLink(t *rapid.T) *Link {
	b := NewBook()
	for range rapid.IntRange(1, 40).Draw(t, "flows") {
		b.RecordFlow(Flow{Pair: ab, Bytes: rapid.Float64Range(1, 1e12).Draw(t, "bytes"), Pieces: 1, Seconds: rapid.Float64Range(1e-6, 1e3).Draw(t, "seconds"),
			At: rapid.Int64Range(0, 1e10).Draw(t, "at")})
	}
	return b.links[ab]
}

// A link is stored, and carried in a file, as it is.
func TestLinkIsWhole(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := drawLink(t)
		stored, err := DecodeLink(l.Encode())
		if err != nil || !reflect.DeepEqual(stored, l) {
			t.Fatalf("stored as %+v, %v; want %+v", stored, err, l)
		}
		f := File{Version: FileVersion, Links: []LinkEntry{LinkEntryOf(ab, l), LinkEntryOf(Pair{"", "b"}, l)}}
		got := readBack(t, &f).Links[0].Link()
		if math.Abs(got.Var-l.Var) > 1e-9*l.Var {
			t.Fatalf("variance %g, want %g", got.Var, l.Var)
		}
		got.Var = l.Var
		if !reflect.DeepEqual(got, l) {
			t.Fatalf("%+v\nwant %+v", got, l)
		}
	})
}

// Somebody may write a link by hand: what he says is what counts.
func TestLinkByHand(t *testing.T) {
	f, err := ParseFile("p", []byte(`{"cascade_profiles": 1, "profiles": [], "links": [{"from":"a","to":"b","flows":3,"rate":1e8,"delays":3,"delay":0.01}]}`))
	if err != nil {
		t.Fatal(err)
	}
	l := f.Links[0].Link()
	if got := l.Bandwidth(); math.Abs(got-1e8) > 5e6 {
		t.Errorf("bandwidth %g", got)
	}
	if got := l.Latency(); math.Abs(got-0.01) > 5e-4 {
		t.Errorf("latency %g", got)
	}
}

func TestLinkMistakes(t *testing.T) {
	for _, c := range [][2]string{
		{`{"from":"a","to":"b"}`, `links[0] (from "a" to "b"): flows and delays are 0`},
		{`{"from":"a","to":"a","flows":1}`, "want two hosts"},
		{`{"from":"a","flows":1}`, "want two hosts"},
		{`{"from":"a\u0000","to":"b","flows":1}`, "NUL"},
		{`{"from":"a","to":"b","flows":1,"rate":-1}`, "rate is -1"},
		{`{"from":"a","to":"b","flows":1,"at":-1}`, "at is -1"},
		{`{"from":"a","to":"b","flows":1,"rate_histogram":[[2,1],[1,1]]}`, "rate_histogram[1] is [1 1]"},
		{`{"from":"a","to":"b","flows":1,"delay_histogram":[[2,0]]}`, "delay_histogram[0]"},
		{`{"from":"a","to":"b","flows":1},{"from":"a","to":"b","flows":2}`, "links[1] is about the same hosts as links[0]"},
	} {
		if _, err := ParseFile("p", []byte(`{"cascade_profiles": 1, "links": [`+c[0]+`]}`)); err == nil || !strings.Contains(err.Error(), c[1]) {
			t.Errorf("%s: %v, want %s", c[0], err, c[1])
		}
	}
}

// A book with all that it may keep forgets the links that were measured longest ago,
// and says so to the store; a snapshot stays as it was.
func TestLinksAreBounded(t *testing.T) {
	b := NewBook()
	for i := range maxLinks {
		b.PutLink(Pair{From: string(rune('a' + i%26)), To: string(rune(0x4e00 + i/26))}, &Link{Flows: 1, At: int64(i)})
	}
	b.DirtyLinks()
	was := b.Snapshot()
	b.RecordFlow(Flow{Pair: ab, Bytes: 1e6, Pieces: 1, Seconds: 1, At: maxLinks})
	gone := 0
	for _, v := range b.DirtyLinks() {
		if v == nil {
			gone++
		}
	}
	if gone != maxLinks/8 || len(b.links) != maxLinks-gone+1 || b.links[ab] == nil {
		t.Errorf("%d are gone, %d left", gone, len(b.links))
	}
	if len(was.links) != maxLinks || was.links[ab] != nil {
		t.Errorf("the snapshot changed: %d links", len(was.links))
	}
}

func TestDiffLinks(t *testing.T) {
	a := []LinkEntry{{From: "a", To: "b", Flows: 3, Rate: 100, Delays: 3, Delay: 1}, {From: "b", To: "a", Flows: 3, Rate: 5}, {From: "c", To: "a", Flows: 3, Rate: 1}}
	b := []LinkEntry{{From: "a", To: "b", Flows: 3, Rate: 90, Delays: 3, Delay: 2}, {From: "b", To: "a", Flows: 3, Rate: 50}, {To: "a", Flows: 2, Rate: 7}}
	want := []LinkDrift{
		{From: "b", To: "a", Change: "drift", Before: 5, After: 50, Bandwidth: 10},
		{From: "a", To: "b", Change: "drift", Before: 100, After: 90, Bandwidth: 0.9, Latency: 2},
		{From: "c", To: "a", Change: "gone", Before: 1},
		{To: "a", Change: "new"}, // of two flows nothing is believed
	}
	got := DiffLinks(a, b)
	for i := range got { // off by no more than a bucket
		x, y := &got[i], &want[min(i, len(want)-1)]
		for _, v := range [][2]*float64{{&x.Before, &y.Before}, {&x.After, &y.After}, {&x.Bandwidth, &y.Bandwidth}, {&x.Latency, &y.Latency}} {
			if *v[0] >= *v[1]/ratio && *v[0] <= *v[1]*ratio {
				*v[0] = *v[1]
			}
		}
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%+v\nwant %+v", got, want)
	}
}

func FuzzDecodeLink(f *testing.F) {
	b := NewBook()
	b.RecordFlow(flowOf(1e6, 1))
	f.Add(b.links[ab].Encode())
	f.Add([]byte{1})
	f.Fuzz(func(t *testing.T, b []byte) {
		l, err := DecodeLink(b)
		if err != nil {
			return
		}
		if again, err := DecodeLink(l.Encode()); err != nil || !reflect.DeepEqual(again, l) {
			t.Fatalf("%+v reads back as %+v, %v", l, again, err)
		}
	})
}
