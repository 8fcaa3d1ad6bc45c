package planner

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/cascade-run/cascade/dag"
	"github.com/cascade-run/cascade/profiles"
)

// Plans for hosts that have an amount for tasks and one for datasets: never above either,
// spills and transfers counted, and each task is placed that is placed without stores.
func TestStoreProperties(t *testing.T) {
	counted := 0
	rapid.Check(t, func(t *rapid.T) {
		g := layered(t)
		c := Cluster{Bandwidth: 100, Latency: rapid.SampledFrom([]float64{0, 0.1}).Draw(t, "latency")}
		for h := range rapid.IntRange(1, 3).Draw(t, "hosts") {
			c.Hosts = append(c.Hosts, Host{Name: fmt.Sprint(h), CPU: 6000, Memory: rapid.SampledFrom([]int64{0, 100, 150, 300}).Draw(t, "memory"),
				Store: rapid.SampledFrom([]int64{0, 200, 400, 900}).Draw(t, "store"), Custom: map[string]int64{"disk": 3000}})
		}
		s := known(t, g, func(most int, of string) float64 { return rapid.Float64Range(0, float64(most)).Draw(t, of) })
		p := twice(t, g, s, c)
		for i := range p.Tasks {
			if p.Tasks[i].Host < 0 {
				t.Fatalf("task %d is nowhere: %s", i, p.Reason(g, dag.TaskIndex(i)))
			}
		}
		if p.Memory != nil {
			counted++
			withinStores(t, g, s, c, p)
			return
		}
		all, most := 0.0, 0.0
		for i := range p.Tasks {
			bytes, needs := outputOf(g, s, dag.TaskIndex(i)), 0.0
			for _, in := range inputsOf(t, g, dag.TaskIndex(i)) {
				needs += outputOf(g, s, in)
			}
			all, most = all+bytes, max(most, needs+bytes)
		}
		for h := range c.Hosts {
			if has := float64(c.Hosts[h].Store); has > 0 && all > has && most <= has {
				t.Fatalf("%g bytes are made, a task needs %g at most, and nothing of host %d, which has %g, is counted", all, most, h, has)
			}
		}
	})
	if counted == 0 {
		t.Error("no plan had to count")
	}
}

// outputOf returns the bytes of the one output of a task, which counts when it is taken.
func outputOf(g *dag.Graph, s profiles.Snapshot, i dag.TaskIndex) float64 {
	if len(g.Consumers(i)) == 0 {
		return 0
	}
	return s.Predict(SignatureOf(g, g.GroupIndex(i))).Bytes
}

// inputsOf returns the tasks whose outputs a task takes, each once.
func inputsOf(t *rapid.T, g *dag.Graph, i dag.TaskIndex) (from []dag.TaskIndex) {
	ins, err := g.Inputs(i)
	if err != nil {
		t.Fatal(err)
	}
	for _, in := range ins {
		for _, src := range in.Sources {
			if !slices.Contains(from, src.Task) {
				from = append(from, src.Task)
			}
		}
	}
	return from
}

// withinStores plays a plan once more and adds up, whenever a task or a transfer begins,
// what cannot be spilled: peaks of tasks that run, what they read and write, and what is
// on its way.
func withinStores(t *rapid.T, g *dag.Graph, s profiles.Snapshot, c Cluster, p *Plan) {
	_, n, err := list(g, s, &c)
	if err != nil {
		t.Fatal(err)
	}
	homes := p.Homes
	if homes == nil {
		homes = make([]int32, len(p.Tasks))
	}
	run := newContention(newModel(n, &c))
	run.mem = newMemory(run.m)
	run.mem.record = true
	if took := run.play(decision{homes, p.Turns}, math.Inf(1)); took != p.Makespan || run.ended != len(p.Tasks) {
		t.Fatalf("played again %d of %d tasks take %g s, and the plan says %g", run.ended, len(p.Tasks), took, p.Makespan)
	}
	for h := range c.Hosts {
		var times []float64
		for i := range p.Tasks {
			times = append(times, p.Tasks[i].Start)
		}
		for _, x := range run.transfers {
			times = append(times, x.began)
		}
		for _, now := range times {
			withinStore(t, g, s, &c.Hosts[h], h, now, p, run)
		}
		m := &p.Memory[h]
		if store := float64(c.Hosts[h].Store); store > 0 && m.Peak > store*(1+1e-9) {
			t.Fatalf("host %d holds %g bytes of %g", h, m.Peak, store)
		}
		high := 0.0
		for _, u := range run.mem.hosts[h].Over {
			high = max(high, u.Bytes)
		}
		if high > m.Peak*(1+1e-9) {
			t.Fatalf("host %d: %g over time, and a peak of %g", h, high, m.Peak)
		}
	}
}

func withinStore(t *rapid.T, g *dag.Graph, s profiles.Snapshot, host *Host, h int, now float64, p *Plan, run *contention) {
	data, peaks, in := 0.0, 0.0, []dag.TaskIndex{}
	for k := range p.Tasks {
		o, i := &p.Tasks[k], dag.TaskIndex(k)
		if o.Host != h || o.Start > now || now >= o.Finish-1e-6 {
			continue
		}
		peak := max(float64(g.Group(i).Resources.Memory), s.Predict(SignatureOf(g, g.GroupIndex(i))).Peak)
		if host.Memory > 0 {
			peak = min(peak, float64(host.Memory)) // more than all of it is all of it
		}
		peaks += peak
		data += outputOf(g, s, i)
		for _, from := range inputsOf(t, g, i) {
			if !slices.Contains(in, from) {
				in = append(in, from)
				data += outputOf(g, s, from)
			}
		}
	}
	for _, x := range run.transfers {
		if int(x.to) == h && x.began <= now && now < x.ended-1e-6 {
			data += run.m.data[x.datum].bytes
		}
	}
	if host.Store > 0 && host.Memory > 0 && peaks > float64(host.Memory)*(1+1e-9) {
		t.Fatalf("at %g tasks on host %d take %g bytes of %d", now, h, peaks, host.Memory)
	}
	if host.Store > 0 && data > float64(host.Store)*(1+1e-9) {
		t.Fatalf("at %g host %d needs %g bytes of its store of %d", now, h, data, host.Store)
	}
}

// storeJob makes eight datasets of a gibibyte, all of which are read after the last is there.
const storeJob = `
job: j
tasks:
  make: {run: F, for: {i: "0..7"}, out: [x, small]}
  all: {run: G, in: {x: "make[*].small"}, out: [y]}
  use: {run: H, for: {i: "0..7"}, in: {x: "make[${i}].x", y: all.y}, out: [z]}
outputs: ["use[0].z"]
`

func storeProfile() profiles.Snapshot {
	f := profiles.File{Profiles: []profiles.Entry{
		{Job: "j", Task: "make", Function: "F", Runs: 1, Seconds: 0.2, Outputs: map[string]float64{"x": 1 << 30, "small": 0}},
		{Job: "j", Task: "all", Function: "G", Runs: 1, Seconds: 1},
		{Job: "j", Task: "use", Function: "H", Runs: 1, Seconds: 0.2},
	}}
	return f.Snapshot()
}

// What is made goes where there is room for it, and not where a core is free first: then
// nothing is spilled, and it takes less time.
func TestStoresSpread(t *testing.T) {
	g, s := parse(t, storeJob), storeProfile()
	plan := func(stores ...int64) *Plan {
		c := Cluster{Bandwidth: 1e8}
		for h, size := range stores {
			c.Hosts = append(c.Hosts, Host{Name: fmt.Sprint(h), CPU: 2000, Memory: 1 << 30, Store: size << 30})
		}
		p, err := Best(g, s, c, Effort{Evaluations: 300})
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	on := func(p *Plan) (n [2]int) {
		for i := range 8 {
			n[p.Homes[i]]++
		}
		return n
	}
	for _, c := range []struct {
		stores []int64
		want   [2]int // how many are made on each
	}{
		{[]int64{0, 0}, [2]int{4, 4}},
		{[]int64{64, 64}, [2]int{4, 4}},
		{[]int64{2, 16}, [2]int{2, 6}},
		{[]int64{16, 2}, [2]int{6, 2}},
	} {
		p := plan(c.stores...)
		if got := on(p); got != c.want {
			t.Errorf("stores of %d GiB: %d are made on each, want %d", c.stores, got, c.want)
		}
		for h, m := range p.Memory {
			if len(m.Spills) > 0 {
				t.Errorf("stores of %d GiB: host %d spills %d", c.stores, h, len(m.Spills))
			}
		}
	}
	p := plan(2, 2) // there is no room for all
	for h, m := range p.Memory {
		if len(m.Spills) < 2 || m.Peak > 2<<30 {
			t.Errorf("host %d spills %d datasets, and holds %g bytes at once", h, len(m.Spills), m.Peak)
		}
	}
}

// Sizes are predictions: no task is left out for what a store has. What cannot be kept
// within any is not counted; a host on which it can is chosen.
func TestStoresTooSmall(t *testing.T) {
	g := parse(t, "job: j\ntasks:\n  a: {run: F, for: {i: \"0..3\"}, out: [x]}\n  b: {run: G, in: {x: \"a[*].x\"}, out: [y]}\noutputs: [b.y]\n")
	f := profiles.File{Profiles: []profiles.Entry{
		{Job: "j", Task: "a", Function: "F", Runs: 1, Seconds: 1, Bytes: 1 << 30}, {Job: "j", Task: "b", Function: "G", Runs: 1, Seconds: 1, Bytes: 10}}}
	s := f.Snapshot()
	two := func(a, b int64) Cluster {
		return Cluster{Bandwidth: 1e9, Hosts: []Host{{Name: "a", CPU: 2000, Store: a << 30}, {Name: "b", CPU: 2000, Store: b << 30}}}
	}
	for _, c := range []struct {
		a, b    int64
		counted bool
		home    int // of b; -1: any
	}{{2, 2, false, -1}, {2, 7, true, 1}, {7, 2, true, 0}, {2, 0, true, 1}} {
		on := two(c.a, c.b)
		first, err := Make(g, s, on)
		if err != nil {
			t.Fatal(err)
		}
		p, err := Better(g, first, on, Effort{Evaluations: 50})
		if err != nil {
			t.Fatal(err)
		}
		last := p.Tasks[len(p.Tasks)-1]
		if got := p.Memory != nil; got != c.counted {
			t.Errorf("stores of %d and %d GiB: counted %v", c.a, c.b, got)
		}
		if c.home >= 0 && p.Hosts[last.Host] != on.Hosts[c.home].Name {
			t.Errorf("stores of %d and %d GiB: the last is on %s", c.a, c.b, p.Hosts[last.Host])
		}
		for i := range p.Tasks {
			if p.Tasks[i].Host < 0 {
				t.Errorf("stores of %d and %d GiB: task %d is nowhere: %s", c.a, c.b, i, p.Reason(g, dag.TaskIndex(i)))
			}
		}
	}
}

// BenchmarkStores100k is BenchmarkContended100k with stores that hold a hundredth of what is made.
func BenchmarkStores100k(b *testing.B) {
	g := parse(b, hundredThousand)
	s := seen("d", map[string][2]float64{"a": {1, 1e6}, "b": {2, 1e5}, "c": {math.Pi, 1e5}, "d": {1, 10}})
	c := hosts(16, 16, 16, 16)
	for h := range c.Hosts {
		c.Hosts[h].Store = 256 << 20
	}
	m := modelOf(b, g, s, &c)
	p, sim := newPortfolio(m), newContention(m)
	sim.mem = newMemory(m)
	d := decision{p.listed(false), m.n.rank}
	b.ReportAllocs()
	b.ResetTimer()
	for range b.N {
		sim.play(d, math.Inf(1))
	}
	b.ReportMetric(sim.mem.spilled, "spilled-bytes")
}
