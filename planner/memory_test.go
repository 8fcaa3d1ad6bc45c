package planner

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/cascade-run/cascade/dag"
	"github.com/cascade-run/cascade/profiles"
)

// Plans with little memory: never above what a host has, each task placed or
// explained, equal inputs give equal plans.
func TestMemoryProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := layered(t)
		c := Cluster{Bandwidth: 100, Latency: rapid.SampledFrom([]float64{0, 0.1}).Draw(t, "latency"), Whole: true}
		for h := range rapid.IntRange(1, 3).Draw(t, "hosts") {
			c.Hosts = append(c.Hosts, Host{Name: fmt.Sprint(h), CPU: 6000, Memory: rapid.Int64Range(50, 900).Draw(t, "memory"), Custom: map[string]int64{"disk": 3000}})
		}
		s := known(t, g, func(most int, of string) float64 { return float64(rapid.IntRange(0, most).Draw(t, of)) })
		p := twice(t, g, s, c)
		withinMemory(t, g, s, &c, p)
		sumOfTransfers(t, p)
	})
}

// known is what is known of a graph's tasks, by random numbers.
func known(t *rapid.T, g *dag.Graph, number func(most int, of string) float64) profiles.Snapshot {
	f := profiles.File{}
	for i := range g.Groups {
		sig := SignatureOf(g, i)
		peak := number(150, "peak")
		f.Profiles = append(f.Profiles, profiles.Entry{Job: sig.Job, Task: sig.Group, Function: sig.Function, Runs: 1, Memory: peak, MemoryPeak: peak, MemoryRuns: 1,
			Seconds: number(9, "seconds"), Bytes: number(200, "bytes")})
	}
	return f.Snapshot()
}

// twice makes the best plan of a random number of evaluations, and sees that the same input gives it again.
func twice(t *rapid.T, g *dag.Graph, s profiles.Snapshot, c Cluster) *Plan {
	effort := Effort{Evaluations: rapid.IntRange(1, 40).Draw(t, "evaluations")}
	p, err := Best(g, s, c, effort)
	if err != nil {
		t.Fatal(err)
	}
	again, err := Best(g, s, c, effort)
	if err != nil || !reflect.DeepEqual(p, again) {
		t.Fatalf("the same input gives another plan (%v)", err)
	}
	return p
}

// sumOfTransfers checks that a plan's transfers are all that it moves: each begins
// where its producer ran, after that has ended, and no faster than the network is.
func sumOfTransfers(t *rapid.T, p *Plan) {
	sum := 0.0
	for _, x := range p.Transfers {
		sum += x.Bytes
		from := &p.Tasks[x.Task]
		if x.From == x.To || from.Host != x.From || x.Start < from.Finish-1e-6 || x.Finish-x.Start < x.Bytes/100*(1-1e-6)-1e-6 {
			t.Errorf("%+v of a task that is %+v", x, *from)
		}
	}
	if math.Abs(sum-p.Moved) > 1e-6*(1+sum) {
		t.Errorf("transfers of %g bytes, and %g are said to move", sum, p.Moved)
	}
}

// withinMemory adds up what tasks that run hold at each start: peaks, outputs, and
// inputs, each once.
func withinMemory(t *rapid.T, g *dag.Graph, s profiles.Snapshot, c *Cluster, p *Plan) {
	peak := func(i dag.TaskIndex) float64 {
		return max(float64(g.Group(i).Resources.Memory), s.Predict(SignatureOf(g, g.GroupIndex(i))).Peak)
	}
	for i := range p.Tasks {
		if p.Tasks[i].Host < 0 {
			if text := p.Reason(g, dag.TaskIndex(i)); !strings.Contains(text, "memory") && !strings.Contains(text, "cannot be placed") && !strings.Contains(text, "no host has enough") {
				t.Fatalf("task %d is nowhere: %s", i, text)
			}
			continue
		}
		h, now, sum := p.Tasks[i].Host, p.Tasks[i].Start, 0.0
		var in []dag.TaskIndex
		for k := range p.Tasks {
			o := &p.Tasks[k]
			if o.Host != h || o.Start > now || now >= o.Finish-1e-6 {
				continue
			}
			sum += peak(dag.TaskIndex(k)) + outputOf(g, s, dag.TaskIndex(k))
			for _, from := range inputsOf(t, g, dag.TaskIndex(k)) {
				if !slices.Contains(in, from) {
					in = append(in, from)
					sum += outputOf(g, s, from)
				}
			}
		}
		if sum > float64(c.Hosts[h].Memory)*(1+1e-9) {
			t.Fatalf("at %g tasks on host %d hold %g bytes of %d", now, h, sum, c.Hosts[h].Memory)
		}
	}
	for h, m := range p.Memory {
		if m.Peak > float64(c.Hosts[h].Memory)*(1+1e-9) {
			t.Fatalf("host %d holds %g bytes of %d", h, m.Peak, c.Hosts[h].Memory)
		}
		high := 0.0
		for _, u := range m.Over {
			high = max(high, u.Bytes)
		}
		if math.Abs(high-m.Peak) > 1e-6*(1+m.Peak) && high > m.Peak {
			t.Fatalf("host %d: %g over time, and a peak of %g", h, high, m.Peak)
		}
		for _, x := range m.Spills {
			if x.Back >= 0 && x.Back < x.At {
				t.Fatalf("spilled at %g and back at %g", x.At, x.Back)
			}
		}
	}
}

// A live set three times the memory completes, by spilling what is read last.
func TestPlannedSpill(t *testing.T) {
	const gib = 1 << 30
	g := parse(t, `
job: j
tasks:
  make: {run: F, for: {i: "0..11"}, out: [x, small]}
  all: {run: G, in: {x: "make[*].small"}, out: [y]}
  use: {run: H, for: {i: "0..11"}, in: {x: "make[${i}].x", y: all.y}, out: [z]}
outputs: ["use[0].z"]
`)
	f := profiles.File{Profiles: []profiles.Entry{
		{Job: "j", Task: "make", Function: "F", Runs: 1, Seconds: 1, Outputs: map[string]float64{"x": gib, "small": 0}},
		{Job: "j", Task: "all", Function: "G", Runs: 1, Seconds: 1},
		{Job: "j", Task: "use", Function: "H", Runs: 1, Seconds: 1},
	}}
	c := Cluster{Hosts: []Host{{Name: "a", CPU: 2000, Memory: 4 * gib}}, Whole: true}
	p, err := Best(g, f.Snapshot(), c, Effort{Evaluations: 20})
	if err != nil {
		t.Fatal(err)
	}
	for i := range p.Tasks {
		if p.Tasks[i].Host != 0 {
			t.Fatalf("task %d: %s", i, p.Reason(g, dag.TaskIndex(i)))
		}
	}
	m := p.Memory[0]
	if m.Peak > 4*gib || len(m.Spills) < 8 || m.Using(6.5) > 4*gib || m.Using(6.5) < 3*gib {
		t.Errorf("peak %g GiB, %d spills, %g GiB before the first is read", m.Peak/gib, len(m.Spills), m.Using(6.5)/gib)
	}
	for _, x := range m.Spills {
		if x.Back < 7 || x.Bytes != gib {
			t.Errorf("%+v", x)
		}
	}
	if p.Makespan < 13+8*gib/spillRate/2 {
		t.Errorf("%g s: reading back takes no time", p.Makespan)
	}
	c.Hosts[0].Memory = gib / 2
	if p, err = Best(g, f.Snapshot(), c, Effort{Evaluations: 20}); err != nil {
		t.Fatal(err)
	}
	if text := p.Reason(g, 0); text != "it needs 1 GiB of memory with its inputs and outputs, more than any host that could run it has" {
		t.Errorf("%s", text)
	}
}
