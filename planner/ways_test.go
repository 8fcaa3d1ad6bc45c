package planner

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/cascade-run/cascade/profiles"
)

// linksOf reads lines of a sender ("-" is several), a receiver, MB/s and milliseconds.
func linksOf(t *testing.T, text string) (all []profiles.LinkEntry) {
	t.Helper()
	for line := range strings.Lines(strings.TrimSpace(text)) {
		var from, to string
		var mb, ms float64
		if _, err := fmt.Sscan(line, &from, &to, &mb, &ms); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		e := profiles.LinkEntry{From: strings.Trim(from, "-"), To: to, Flows: 3, Rate: mb * 1e6}
		if ms > 0 {
			e.Delays, e.Delay = 3, ms/1e3
		}
		all = append(all, e)
	}
	return all
}

// What a plan counts with, and why, by what was measured and what was said.
func TestWays(t *testing.T) {
	const links = `
		h0 h1 100 2
		h1 h0 50 0
		far away 10 8`
	for _, c := range []struct {
		name, links string
		given       float64
		want        string // of h0 to h1, to h2, and h1 to h0
	}{
		{"nothing is known", "", 0, "1250 MB/s 0 ms assumed; 1250 MB/s 0 ms assumed; 1250 MB/s 0 ms assumed"},
		{"something was said", "", 7e6, "7 MB/s 0 ms as was given; 7 MB/s 0 ms as was given; 7 MB/s 0 ms as was given"},
		{"some were measured", links, 0, "100 MB/s 2 ms measured; 48 MB/s 2 ms as between other hosts; 48 MB/s 2 ms measured"},
		{"and something was said", links, 7e6, "100 MB/s 2 ms measured; 7 MB/s 2 ms as was given; 48 MB/s 2 ms measured"},
		{"others were measured", "far away 10 8", 0, "10 MB/s 8 ms as between other hosts; 10 MB/s 8 ms as between other hosts; 10 MB/s 8 ms as between other hosts"},
	} {
		cluster := hosts(1, 1, 1)
		cluster.Bandwidth = c.given
		f := profiles.File{Links: linksOf(t, c.links)}
		p, err := Make(parse(t, diamond), f.Snapshot(), cluster)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, pair := range [][2]int{{0, 1}, {0, 2}, {1, 0}} {
			w := p.Way(pair[0], pair[1])
			got = append(got, fmt.Sprintf("%.2g MB/s %.1g ms %s", w.Bandwidth/1e6, w.Latency*1e3, w.Basis))
		}
		if text := strings.ReplaceAll(strings.Join(got, "; "), "1.2e+03", "1250"); strings.ReplaceAll(text, "1e+02", "100") != c.want {
			t.Errorf("%s: %s\nwant %s", c.name, text, c.want)
		}
	}
}

// A host sends and receives what the best of its ways carries; one that receives more
// from several together receives that.
func TestPorts(t *testing.T) {
	c := hosts(1, 1, 1)
	f := profiles.File{Links: linksOf(t, `
		h0 h1 4 0
		h0 h2 2 0
		h1 h2 3 0
		h2 h0 1 0
		h2 h1 1 0
		- h2 9 0`)}
	c.learn(f.Snapshot())
	near := func(what string, got, want float64) {
		t.Helper()
		if math.Abs(got-want*1e6) > 0.05*want*1e6 {
			t.Errorf("%s %.3g, want %.3g", what, got, want*1e6)
		}
	}
	near("h0 sends", c.ways.send[0], 4)
	near("h1 sends", c.ways.send[1], 3) // to h0 nothing is known: 1, as was given
	near("h2 sends", c.ways.send[2], 1)
	near("h0 receives", c.ways.receive[0], 1)
	near("h1 receives", c.ways.receive[1], 4)
	near("h2 receives", c.ways.receive[2], 9)
}

// Rates are max-min fair: each transfer goes through a port or a way that is full
// and in which none gets more. No other rates are (Bertsekas and Gallager, 6.5.2).
func TestMaxMin(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const hosts = 4
		rate := rapid.SampledFrom([]float64{1, 2, 3, 5, 10, 40})
		w := &ways{hosts: hosts, rate: make([]float64, hosts*hosts), send: make([]float64, hosts), receive: make([]float64, hosts)}
		for i := range w.rate {
			w.rate[i] = rate.Draw(t, "way")
		}
		for h := range hosts {
			w.send[h], w.receive[h] = rate.Draw(t, "send"), rate.Draw(t, "receive")
		}
		n := newNetwork(&Cluster{Hosts: make([]Host, hosts), ways: w})
		count := map[[2]int]int{}
		for k := range rapid.IntRange(1, 12).Draw(t, "transfers") {
			from, to := rapid.IntRange(0, hosts-1).Draw(t, "from"), rapid.IntRange(0, hosts-2).Draw(t, "to")
			if to >= from {
				to++
			}
			count[[2]int{from, to}]++
			n.begin(int32(k), int32(from), int32(to), 1000)
		}
		n.next()
		of := func(r [2]int) float64 { return n.routes[r[0]*hosts+r[1]].rate }
		// full tells whether what the routes through a bound get together is all of it.
		full := func(most float64, through func([2]int) bool) (bool, float64) {
			sum, best := 0.0, 0.0
			for r, k := range count {
				if through(r) {
					sum, best = sum+of(r)*float64(k), max(best, of(r))
				}
			}
			if sum > most*(1+1e-9) {
				t.Fatalf("%g goes through what carries %g", sum, most)
			}
			return sum >= most*(1-1e-9), best
		}
		for r := range count {
			held := false
			for _, bound := range []struct {
				most    float64
				through func([2]int) bool
			}{
				{w.send[r[0]], func(o [2]int) bool { return o[0] == r[0] }},
				{w.receive[r[1]], func(o [2]int) bool { return o[1] == r[1] }},
				{w.rate[r[0]*hosts+r[1]], func(o [2]int) bool { return o == r }},
			} {
				is, best := full(bound.most, bound.through)
				held = held || is && of(r) >= best*(1-1e-9)
			}
			if !held {
				t.Fatalf("transfers from %d to %d get %g each and could have more", r[0], r[1], of(r))
			}
		}
	})
}

const fan = `
job: d
environments: {e: {go: ./e}}
tasks:
  a: {run: "e:Fa", out: [x, y, z], resources: {store: 1}}
  b: {run: "e:Fb", in: {x: a.x}, out: [x]}
  c: {run: "e:Fc", in: {x: a.y}, out: [x]}
  d: {run: "e:Fd", in: {x: a.z}, out: [x]}
outputs: [b.x, c.x, d.x]
`

// fanOut plans three tasks that read 10 MB each from a host with one core, beside two
// others, when so much is known of the ways between them.
func fanOut(t *testing.T, links string) string {
	t.Helper()
	c := hosts(1, 1, 1)
	c.Bandwidth = 0
	c.Hosts[0].Custom = map[string]int64{"store": 1000}
	f := profiles.File{Links: linksOf(t, links)}
	for name, cost := range map[string][2]float64{"a": {1, 3e7}, "b": {2, 10}, "c": {2, 10}, "d": {2, 10}} {
		f.Profiles = append(f.Profiles, profiles.Entry{Job: "d", Task: name, Function: "F" + name, Runs: 1, Seconds: cost[0], Bytes: cost[1]})
	}
	p, err := Spread(parse(t, fan), f.Snapshot(), c)
	if err != nil {
		t.Fatal(err)
	}
	best, err := Best(parse(t, fan), f.Snapshot(), c, Effort{Evaluations: 50})
	if err != nil {
		t.Fatal(err)
	}
	where := func(homes []int32) (names []string) {
		for _, h := range homes {
			names = append(names, c.Hosts[h].Name)
		}
		return names
	}
	if p.Homes == nil {
		p.Homes = make([]int32, 4)
	}
	return fmt.Sprintf("first %v, best %v in %.2f s", where(p.Homes), where(best.Homes), best.Makespan)
}

// The same job on the same hosts is placed by what was measured between them.
func TestPlacedByLinks(t *testing.T) {
	for _, c := range []struct{ name, links, want string }{
		{"nothing is known", "", "first [h0 h0 h1 h2], best [h0 h0 h1 h2] in 3.02 s"},
		{"both are fast", "h0 h1 1000 0\nh0 h2 1000 0", "first [h0 h0 h1 h2], best [h0 h0 h1 h2] in 3.02 s"},
		{"one is slow", "h0 h1 1000 0\nh0 h2 1 0", "first [h0 h0 h1 h0], best [h0 h0 h1 h0] in 5.00 s"},
		{"the other is slow", "h0 h1 1 0\nh0 h2 1000 0", "first [h0 h0 h2 h0], best [h0 h0 h2 h0] in 5.00 s"},
		{"both are slow", "h0 h1 1 0\nh0 h2 1 0", "first [h0 h0 h0 h0], best [h0 h0 h0 h0] in 7.00 s"},
		{"the median is slow", "x y 1 0", "first [h0 h0 h0 h0], best [h0 h0 h0 h0] in 7.00 s"},
	} {
		if got := fanOut(t, c.links); got != c.want {
			t.Errorf("%s: %s\nwant %s", c.name, got, c.want)
		}
	}
}

// A reason says how long inputs move, from where that is known, and what would be quicker.
func TestReasonOfMoves(t *testing.T) {
	c := hosts(1, 1)
	f := profiles.File{Links: linksOf(t, "h0 h1 10 0")}
	for name, cost := range map[string][2]float64{"a": {1, 1e6}, "b": {2, 1e5}, "c": {4, 1e5}, "d": {1, 10}} {
		f.Profiles = append(f.Profiles, profiles.Entry{Job: "d", Task: name, Function: "F" + name, Runs: 1, Seconds: cost[0], Bytes: cost[1]})
	}
	g := parse(t, diamond)
	p, err := Make(g, f.Snapshot(), c)
	if err != nil {
		t.Fatal(err)
	}
	for task, want := range map[string]string{
		"b": "starts when a has ended, 1000000 bytes to move from h0: 0.0965 s at 82.9Mbit/s (measured), to h0 0 s",
		"d": "starts when c has ended, 100000 bytes to move from h0: 0.00965 s at 82.9Mbit/s (measured)",
	} {
		i, _ := g.Lookup(task)
		if got := p.Reason(g, i); got != want {
			t.Errorf("%s: %s\nwant %s", task, got, want)
		}
	}
}

// A plan for one host remembers among which it chose: it holds as long as their network does.
func TestSameWaysOfOneHost(t *testing.T) {
	c := hosts(1, 1)
	known := seen("d", map[string][2]float64{"a": {1, 1e9}, "b": {1, 1e9}, "c": {1, 1e9}, "d": {1, 1e9}})
	first, err := Spread(parse(t, diamond), known, c)
	if err != nil {
		t.Fatal(err)
	}
	better, err := Better(parse(t, diamond), first, c, Effort{Evaluations: 20})
	if err != nil || better.Homes != nil {
		t.Fatalf("it is planned on several: %v, %v", better.Homes, err)
	}
	if !better.SameWays(first, 0.2) {
		t.Error("it rests on another network than the first plan")
	}
}

// Plans for one network are known from those for another.
func TestSameWays(t *testing.T) {
	plan := func(links string, bandwidth float64) *Plan {
		c := hosts(1, 1)
		c.Bandwidth = bandwidth
		f := profiles.File{Links: linksOf(t, links)}
		p, err := Make(parse(t, diamond), f.Snapshot(), c)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	for _, c := range []struct {
		a, b *Plan
		want bool
	}{
		{plan("", 0), plan("", 0), true},
		{plan("", 1e6), plan("", 1.1e6), true},
		{plan("", 1e6), plan("", 2e6), false},
		{plan("", 1e6), plan("h0 h1 1 0", 1e6), true},
		{plan("", 1e6), plan("h0 h1 2 0", 1e6), false},
		{plan("h1 h0 2 0", 1e6), plan("h0 h1 2 0", 1e6), false},
		{plan("h0 h1 2 1", 1e6), plan("h0 h1 2 3", 1e6), false},
	} {
		if got := c.a.SameWays(c.b, 0.2); got != c.want {
			t.Errorf("same %v, want %v", got, c.want)
		}
	}
}
