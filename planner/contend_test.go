package planner

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/cascade-run/cascade/dag"
	"github.com/cascade-run/cascade/profiles"
)

// naive plays a decision as contention does, by other means: it asks the graph for
// what each task takes, looks at everything at each step, and shares bandwidth by
// raising the rate of each single transfer until a host is full.
type naive struct {
	g      *dag.Graph
	s      profiles.Snapshot
	c      *Cluster
	d      decision
	now    float64
	there  map[naiveDatum][]int // hosts that have it
	flows  []*naiveFlow
	start  []float64
	finish []float64
	ended  []bool
}

type naiveDatum struct {
	task   dag.TaskIndex
	output uint32
}

type naiveFlow struct {
	datum    naiveDatum
	from, to int
	left     float64
	begins   float64
	rate     float64
}

func (n *naive) play(t testing.TB) float64 {
	size := n.g.NumTasks()
	n.there, n.start, n.finish = map[naiveDatum][]int{}, slices.Repeat([]float64{-1}, size), slices.Repeat([]float64{-1}, size)
	n.ended = make([]bool, size)
	for {
		n.startAll(t)
		n.share()
		next := math.Inf(1)
		for i := range size {
			if built := n.built(i); n.start[i] < 0 && built > n.now+instant {
				next = min(next, built)
			}
			if n.start[i] >= 0 && !n.ended[i] {
				next = min(next, n.finish[i])
			}
		}
		for _, f := range n.flows {
			if f.begins > n.now+instant {
				next = min(next, f.begins)
			} else if f.rate > 0 {
				next = min(next, n.now+f.left/f.rate)
			} else if f.left == 0 {
				next = n.now
			}
		}
		if math.IsInf(next, 1) {
			return slices.Max(n.finish)
		}
		for _, f := range n.flows {
			if f.begins <= n.now+instant {
				f.left -= f.rate * (next - n.now)
			}
		}
		n.now = next
		n.flows = slices.DeleteFunc(n.flows, func(f *naiveFlow) bool {
			if f.begins > n.now+instant || f.left > f.rate*instant+1e-9 {
				return false
			}
			n.there[f.datum] = append(n.there[f.datum], f.to)
			return true
		})
		for i := range size {
			if n.start[i] >= 0 && !n.ended[i] && n.finish[i] <= n.now+instant {
				n.ended[i] = true
				n.publish(t, dag.TaskIndex(i))
			}
		}
	}
}

func (n *naive) sources(t testing.TB, i dag.TaskIndex) (all []naiveDatum) {
	ins, err := n.g.Inputs(i)
	if err != nil {
		t.Fatal(err)
	}
	for _, in := range ins {
		for _, src := range in.Sources {
			all = append(all, naiveDatum{src.Task, src.Output})
		}
	}
	return all
}

func (n *naive) publish(t testing.TB, i dag.TaskIndex) {
	home := int(n.d.host[i])
	sig := SignatureOf(n.g, n.g.GroupIndex(i))
	outputs := n.g.Group(i).Outputs
	for o := range outputs {
		d := naiveDatum{i, uint32(o)}
		n.there[d] = append(n.there[d], home)
		to := map[int]bool{home: true}
		for c := range n.g.NumTasks() {
			h := int(n.d.host[c])
			if h >= 0 && !to[h] && slices.Contains(n.sources(t, dag.TaskIndex(c)), d) {
				to[h] = true
				n.flows = append(n.flows, &naiveFlow{datum: d, from: home, to: h, begins: n.now + n.latency(home, h), left: n.s.Output(sig, outputs[o].Name, len(outputs))})
			}
		}
	}
}

func (n *naive) startAll(t testing.TB) {
	for {
		best := -1
		for i := range n.start {
			if n.start[i] < 0 && n.d.host[i] >= 0 && n.canStart(t, i) && (best < 0 || n.d.first[i] > n.d.first[best]) {
				best = i
			}
		}
		if best < 0 {
			return
		}
		n.start[best] = n.now
		n.finish[best] = n.now + n.s.Predict(SignatureOf(n.g, n.g.GroupIndex(dag.TaskIndex(best)))).Seconds
	}
}

// built is when a task's environment is on its host.
func (n *naive) built(i int) float64 {
	has := func(h Host) bool { return slices.Contains(h.Built, layeredEnvironment) }
	if h := n.d.host[i]; h < 0 || has(n.c.Hosts[h]) || !slices.ContainsFunc(n.c.Hosts, has) {
		return 0
	}
	return n.c.Builds[layeredEnvironment]
}

func (n *naive) canStart(t testing.TB, i int) bool {
	h := int(n.d.host[i])
	if n.built(i) > n.now+instant {
		return false
	}
	for _, d := range n.sources(t, dag.TaskIndex(i)) {
		if !slices.Contains(n.there[d], h) {
			return false
		}
	}
	room := n.c.Hosts[h]
	room.Custom = map[string]int64{"disk": room.Custom["disk"]}
	bounded := room.Memory > 0
	for k := range n.start {
		if n.start[k] >= 0 && !n.ended[k] && int(n.d.host[k]) == h {
			r := &n.g.Group(dag.TaskIndex(k)).Resources
			room.CPU -= cpuOf(r)
			room.Memory -= r.Memory
			room.Custom["disk"] -= r.Custom["disk"]
		}
	}
	r := &n.g.Group(dag.TaskIndex(i)).Resources
	return cpuOf(r) <= room.CPU && (!bounded || r.Memory <= room.Memory) && r.Custom["disk"] <= room.Custom["disk"]
}

// link is what was measured between two hosts, nil when nothing was. From -1 is several.
func (n *naive) link(from, to int) *profiles.Link {
	name := ""
	if from >= 0 {
		name = n.c.Hosts[from].Name
	}
	for pair, l := range n.s.Links() {
		if pair.From == name && pair.To == n.c.Hosts[to].Name {
			return l
		}
	}
	return nil
}

func (n *naive) latency(from, to int) float64 {
	if l := n.link(from, to); l.Latency() > 0 {
		return l.Latency()
	}
	return n.c.Latency
}

// capacity is what a way (2, from, to) carries, or a port: all that a host (0, host) sends, or (1, host) receives.
func (n *naive) capacity(p [3]int) (most float64) {
	if p[0] == 2 {
		if l := n.link(p[1], p[2]); l.Bandwidth() > 0 {
			return l.Bandwidth()
		}
		return n.c.Bandwidth
	}
	for h := range n.c.Hosts {
		switch {
		case h == p[1]:
		case p[0] == 0:
			most = max(most, n.capacity([3]int{2, p[1], h}))
		default:
			most = max(most, n.capacity([3]int{2, h, p[1]}))
		}
	}
	if p[0] == 1 {
		most = max(most, n.link(-1, p[1]).Bandwidth())
	}
	return most
}

// share raises all rates together until a host or a way is full, fixes those of its
// transfers, and goes on.
func (n *naive) share() {
	var free []*naiveFlow
	for _, f := range n.flows {
		f.rate = 0
		if f.begins <= n.now+instant && f.left > 0 {
			free = append(free, f)
		}
	}
	through := func(f *naiveFlow) [3][3]int { return [3][3]int{{0, f.from}, {1, f.to}, {2, f.from, f.to}} }
	used := map[[3]int]float64{}
	for len(free) > 0 {
		count := map[[3]int]int{}
		for _, f := range free {
			for _, p := range through(f) {
				count[p]++
			}
		}
		step := math.Inf(1)
		for p, k := range count {
			step = min(step, (n.capacity(p)-used[p])/float64(k))
		}
		for _, f := range free {
			f.rate += step
			for _, p := range through(f) {
				used[p] += step
			}
		}
		full := func(p [3]int) bool { return used[p] >= n.capacity(p)*(1-1e-9) }
		free = slices.DeleteFunc(free, func(f *naiveFlow) bool {
			p := through(f)
			return slices.ContainsFunc(p[:], full)
		})
	}
}

// cost draws profiles: durations of whole milliseconds, so that two events are at
// one time or clearly apart.
func cost(t *rapid.T, g *dag.Graph) profiles.Snapshot { return costOver(t, g, nil) }

// costOver is cost with what was measured between hosts.
func costOver(t *rapid.T, g *dag.Graph, links []profiles.LinkEntry) profiles.Snapshot {
	f := profiles.File{Version: profiles.FileVersion, Links: links}
	for i := range g.Groups {
		sig := SignatureOf(g, i)
		e := profiles.Entry{Job: sig.Job, Task: sig.Group, Function: sig.Function, Runs: 1,
			Seconds: float64(rapid.IntRange(0, 10000).Draw(t, "ms")) / 1000, Bytes: rapid.SampledFrom([]float64{0, 1e3, 777777, 5e6}).Draw(t, "bytes")}
		f.Profiles = append(f.Profiles, e)
	}
	return f.Snapshot()
}

// drawnLinks draws what was measured between hosts: of some pairs much, of some little.
func drawnLinks(t *rapid.T, c *Cluster) (all []profiles.LinkEntry) {
	for _, from := range append([]Host{{}}, c.Hosts...) {
		for _, to := range c.Hosts {
			if from.Name == to.Name || rapid.Bool().Draw(t, "unknown") {
				continue
			}
			all = append(all, profiles.LinkEntry{From: from.Name, To: to.Name, Flows: rapid.Uint64Range(2, 4).Draw(t, "flows"),
				Rate: rapid.SampledFrom([]float64{1e5, 3e5, 1e6, 2e6, 9e6}).Draw(t, "rate"), Delays: rapid.Uint64Range(2, 4).Draw(t, "delays"), Delay: 0.5})
		}
	}
	return all
}

// drawn draws a cluster of one to three hosts.
func drawn(t *rapid.T) Cluster {
	c := Cluster{Bandwidth: 1e6, Latency: rapid.SampledFrom([]float64{0, 0.25}).Draw(t, "latency")}
	for h := range rapid.IntRange(1, 3).Draw(t, "hosts") {
		c.Hosts = append(c.Hosts, Host{Name: string(rune('a' + h)), CPU: rapid.Int64Range(2000, 6000).Draw(t, "cpu"), Memory: rapid.SampledFrom([]int64{0, 99, 150}).Draw(t, "memory"),
			Custom: map[string]int64{"disk": rapid.Int64Range(0, 3000).Draw(t, "disk")}})
		if rapid.Bool().Draw(t, "has the environment") {
			c.Hosts[h].Built = []uint64{layeredEnvironment}
		}
	}
	c.Builds = map[uint64]float64{layeredEnvironment: rapid.Float64Range(0, 20).Draw(t, "build")}
	return c
}

// layeredEnvironment is that of all tasks of layered.
var layeredEnvironment = EnvironmentID(&dag.Environment{Name: "e", Go: "./e"})

func modelOf(t testing.TB, g *dag.Graph, s profiles.Snapshot, c *Cluster) *model {
	t.Helper()
	_, n, err := order(g, s, c)
	if err != nil {
		t.Fatal(err)
	}
	return newModel(n, c)
}

// The simulation and one that was written for clearness alone agree about every
// start and end.
func TestContentionEqualsNaive(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		g, c := layered(rt), drawn(rt)
		var links []profiles.LinkEntry
		if rapid.Bool().Draw(rt, "measured") {
			links = drawnLinks(rt, &c)
		}
		s := costOver(rt, g, links)
		m := modelOf(t, g, s, &c)
		p := newPortfolio(m)
		d := decision{host: p.nowhere(), first: make([]float64, len(m.seconds))}
		for _, i := range p.order {
			d.first[i] = rapid.Float64Range(0, 1).Draw(rt, "first")
			for d.host[i] < 0 {
				if h := rapid.IntRange(0, len(c.Hosts)-1).Draw(rt, "host"); m.mayRun(i, h) {
					d.host[i] = int32(h)
				}
			}
		}
		other := &naive{g: g, s: s, c: &c, d: d}
		sim := newContention(m)
		for range 2 { // the second time with memory of the first
			sim.play(d, math.Inf(1))
		}
		other.play(t)
		for i := range d.host {
			if d.host[i] < 0 {
				continue
			}
			if x := sim.run[i]; math.Abs(x.start-other.start[i]) > 1e-6 || math.Abs(x.finish-other.finish[i]) > 1e-6 {
				rt.Fatalf("task %d runs from %g to %g, want %g to %g", i, x.start, x.finish, other.start[i], other.finish[i])
			}
		}
		if half := sim.makespan / 2; half > 0 && !math.IsInf(sim.play(d, half), 1) {
			rt.Fatal("a run beyond its limit has a makespan")
		}
	})
}

// Rates of transfers that share hosts, worked out by hand. A route is source, destination.
func TestFairShares(t *testing.T) {
	for _, c := range []struct {
		name   string
		routes [][2]int32
		want   []float64
	}{
		{"alone", [][2]int32{{0, 1}}, []float64{12}},
		{"two from one host", [][2]int32{{0, 1}, {0, 2}}, []float64{6, 6}},
		{"two to one host", [][2]int32{{0, 2}, {1, 2}}, []float64{6, 6}},
		{"there and back", [][2]int32{{0, 1}, {1, 0}}, []float64{12, 12}},
		{"one takes what the others cannot", [][2]int32{{0, 1}, {0, 1}, {0, 1}, {2, 1}, {2, 0}}, []float64{3, 3, 3, 3, 9}},
		{"three levels", [][2]int32{{0, 1}, {0, 2}, {0, 3}, {1, 3}, {1, 2}}, []float64{4, 4, 4, 6, 6}},
	} {
		n := newNetwork(&Cluster{Hosts: make([]Host, 4), Bandwidth: 12})
		for k, r := range c.routes {
			n.begin(int32(k), r[0], r[1], 1000)
		}
		n.next()
		for k, r := range c.routes {
			if got := n.routes[r[0]*4+r[1]].rate; math.Abs(got-c.want[k]) > 1e-9 {
				t.Errorf("%s: transfer %d has %g, want %g", c.name, k, got, c.want[k])
			}
		}
	}
}

// A gap that is found is the first in which the need fits at each of its times.
func TestTimeline(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const most = 4
		l := newTimeline([]int64{most})
		type job struct{ start, end, need int64 }
		var jobs []job
		used := func(at int64) (n int64) {
			for _, j := range jobs {
				if j.start <= at && at < j.end {
					n += j.need
				}
			}
			return n
		}
		for range rapid.IntRange(1, 20).Draw(t, "jobs") {
			ready, seconds, need := rapid.Int64Range(0, 20).Draw(t, "ready"), rapid.Int64Range(1, 6).Draw(t, "seconds"), rapid.Int64Range(1, most).Draw(t, "need")
			want := ready
			for at := ready; at < want+seconds; at++ {
				if used(at)+need > most {
					want = at + 1
				}
			}
			got := l.earliest(float64(ready), float64(seconds), []int64{need})
			if got != float64(want) {
				t.Fatalf("%d for %d s from %d on: %g, want %d", need, seconds, ready, got, want)
			}
			l.take(got, float64(seconds), []int64{need})
			jobs = append(jobs, job{want, want + seconds, need})
		}
	})
}
