package sim

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"
)

// TestFairly: what flows get of what hosts carry.
func TestFairly(t *testing.T) {
	hosts := map[string]rate{"a": {10, 10}, "b": {10, 4}, "c": {30, 30}, "d": {2, 30}}
	for _, c := range []struct{ flows, speeds string }{
		{"", ""},
		{"a>b", "4"},
		{"a>c a>c", "5 5"},
		{"a>b a>c", "4 6"}, // what b cannot take goes to c
		{"a>b c>b d>b", "1.333 1.333 1.333"},
		{"a>b c>b d>c", "2 2 2"},
		{"c>a c>b c>d", "10 4 16"},
		{"a>c b>c c>a c>a", "10 10 5 5"}, // up and down are apart
		{"d>a d>b c>b c>a", "1 1 3 9"},
	} {
		var flows []*flow
		for _, f := range strings.Fields(c.flows) {
			from, to, _ := strings.Cut(f, ">")
			flows = append(flows, &flow{from: from, to: to})
		}
		fairly(flows, hosts)
		var got []string
		for _, f := range flows {
			got = append(got, fmt.Sprint(math.Round(f.speed*1000)/1000))
		}
		if s := strings.Join(got, " "); s != c.speeds {
			t.Errorf("%s get %s, want %s", c.flows, s, c.speeds)
		}
	}
}

// TestWireTellsTimeFromBytes: a transfer takes as long as its bytes do at what its
// share is, which changes as others come and go.
func TestWireTellsTimeFromBytes(t *testing.T) {
	w := &world{}
	n := &wire{w: w, hosts: map[string]rate{"a": {100, 100}, "b": {100, 100}, "c": {100, 100}}}
	var got []string
	arrive := func(name string) func() {
		return func() { got = append(got, fmt.Sprintf("%s at %v", name, w.now.Round(time.Millisecond))) }
	}
	n.carry("a", "b", 200, arrive("first")) // alone for 1 s, half for 2 s
	w.at(time.Second, func() { n.carry("a", "c", 300, arrive("second")) })
	w.at(1500*time.Millisecond, func() { n.carry("b", "a", 50, arrive("the other way")) })
	var given *flow
	w.at(4*time.Second, func() { given = n.carry("b", "c", 1000, arrive("given up")) })
	w.at(5*time.Second, func() { n.stop(given); n.stop(given) })
	for {
		if _, more := w.agenda.Due(); !more {
			break
		}
		at, do := w.agenda.Take()
		w.now = max(w.now, at)
		do()
	}
	// the second: 2 s half, 1 s alone, 1 s half of c, then alone
	want := "the other way at 2s, first at 3s, second at 5.5s"
	if s := strings.Join(got, ", "); s != want {
		t.Errorf("%s; want %s", s, want)
	}
	if len(n.flows) > 0 {
		t.Errorf("%d flows are left", len(n.flows))
	}
}
