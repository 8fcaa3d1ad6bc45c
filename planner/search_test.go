package planner

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/cascade-run/cascade/dag"
	"github.com/cascade-run/cascade/profiles"
)

// What holds of each plan that a search returns.
func TestSearchProperties(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		g, c := layered(rt), drawn(rt)
		s := cost(rt, g)
		effort := Effort{Evaluations: rapid.IntRange(0, 60).Draw(rt, "evaluations"), Seed: rapid.Uint64().Draw(rt, "seed")}
		plans, err := Improve(g, s, c, effort)
		if err != nil {
			rt.Fatal(err)
		}
		first, err := Make(g, s, c)
		if err != nil {
			rt.Fatal(err)
		}
		var all []*Plan
		for p := range plans {
			all = append(all, p)
			properties(rt, g, &c, rounded(p))
			moves(rt, g, s, &c, p)
			for i := range p.Tasks {
				if (p.Tasks[i].Host < 0) != (first.Tasks[i].Host < 0) {
					rt.Fatalf("task %d is on host %d of one plan and on %d of another", i, p.Tasks[i].Host, first.Tasks[i].Host)
				}
			}
			if n := len(all) - 1; n > 1 && all[n].Makespan >= all[n-1].Makespan {
				rt.Fatalf("plan %d ends at %g, the one before at %g", n, all[n].Makespan, all[n-1].Makespan)
			}
		}
		if !reflect.DeepEqual(all[0], first) {
			rt.Fatal("the first plan is not that of Make")
		}
		again, err := Best(g, s, c, effort)
		if err != nil || !reflect.DeepEqual(again, all[len(all)-1]) {
			rt.Fatalf("the same input gives another plan, %v", err)
		}
	})
}

// rounded returns a plan in which what ended within an instant of a start ended
// then: a simulation takes both for one event.
func rounded(p *Plan) *Plan {
	if !p.Contended {
		return p
	}
	q := *p
	q.Tasks = slices.Clone(p.Tasks)
	for i := range q.Tasks {
		q.Tasks[i].Finish = max(q.Tasks[i].Finish-2*instant*(1+q.Tasks[i].Finish), q.Tasks[i].Start)
	}
	q.Makespan += 1e-6
	return &q
}

// moves checks that a task starts no earlier than its inputs could be there if
// nothing else moved.
func moves(t *rapid.T, g *dag.Graph, s profiles.Snapshot, c *Cluster, p *Plan) {
	if !p.Contended {
		return
	}
	for i := range p.Tasks {
		ins, err := g.Inputs(dag.TaskIndex(i))
		if err != nil {
			t.Fatal(err)
		}
		for _, in := range ins {
			for _, src := range in.Sources {
				from := &p.Tasks[src.Task]
				if p.Tasks[i].Host < 0 || from.Host == p.Tasks[i].Host {
					continue
				}
				group := g.Group(src.Task)
				bytes := s.Output(SignatureOf(g, g.GroupIndex(src.Task)), group.Outputs[src.Output].Name, len(group.Outputs))
				if at := from.Finish + c.Latency + bytes/c.Bandwidth; p.Tasks[i].Start < at-1e-6 {
					t.Fatalf("task %d starts at %g, its input is there at %g", i, p.Tasks[i].Start, at)
				}
			}
		}
	}
}

// The best plan is never worse than what any single method finds.
func TestNeverWorseThanAMethod(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		g, c := layered(rt), drawn(rt)
		s := cost(rt, g)
		best, err := Best(g, s, c, Effort{Evaluations: 10})
		if err != nil {
			rt.Fatal(err)
		}
		m := modelOf(t, g, s, &c)
		p, sim := newPortfolio(m), newContention(m)
		for _, way := range methods() {
			host := way.make(p)
			if host == nil {
				continue
			}
			for i := range host {
				if (host[i] >= 0) != p.can[i] || host[i] >= 0 && !m.mayRun(int32(i), int(host[i])) {
					rt.Fatalf("%s puts task %d on host %d", way.name, i, host[i])
				}
			}
			if got := sim.play(decision{host, m.n.rank}, math.Inf(1)); best.Makespan > got*(1+2*instant) && len(c.Hosts) > 1 {
				rt.Fatalf("%s alone gives %g, the best plan %g", way.name, got, best.Makespan)
			}
		}
	})
}

// oracle returns the least makespan of all decisions: each host for each task, and
// each order that has producers first. No other order of turns gives more: the
// order in which a run starts its tasks gives that run again.
func oracle(t testing.TB, g *dag.Graph, s profiles.Snapshot, c *Cluster) float64 {
	m := modelOf(t, g, s, c)
	sim, size := newContention(m), len(m.seconds)
	d := decision{host: make([]int32, size), first: make([]float64, size)}
	least := math.Inf(1)
	var orders func(turn int, done uint)
	orders = func(turn int, done uint) {
		if turn == size {
			least = min(least, sim.play(d, least))
			return
		}
	next:
		for i := range size {
			if done>>i&1 == 1 {
				continue
			}
			for _, k := range m.takes[i] {
				if done>>m.data[k].producer&1 == 0 {
					continue next
				}
			}
			d.first[i] = float64(-turn)
			orders(turn+1, done|1<<i)
		}
	}
	var hosts func(i int)
	hosts = func(i int) {
		if i == size {
			orders(0, 0)
			return
		}
		for h := range m.room {
			if m.mayRun(int32(i), h) {
				d.host[i] = int32(h)
				hosts(i + 1)
			}
		}
	}
	hosts(0)
	return least
}

// small are graphs of up to eight tasks on which methods differ; each line is a
// task with its seconds, megabytes and cores, and the tasks that it waits for.
var small = map[string]string{
	"forks":   "a 1 8 1\nb 3 4 1 a\nc 2 6 1 a\nd 4 1 1 a\ne 2 2 1 b c\nf 1 1 1 e d",
	"wide":    "a 1 1 1\nb 2 3 1 a\nc 3 3 1 a\nd 4 3 1 a\ne 5 3 1 a\nf 1 1 2 b c d e",
	"pairs":   "a 2 9 1\nb 3 9 1\nc 1 9 1 a\nd 2 9 1 b\ne 3 9 1 c\nf 1 9 1 d\ng 2 1 1 e f",
	"uneven":  "a 6 1 1\nb 1 5 2\nc 2 5 1 b\nd 3 2 1 b\ne 2 1 2 c d\nf 1 1 1 a e",
	"crossed": "a 2 4 1\nb 2 4 1\nc 3 2 1 a b\nd 1 2 1 a b\ne 2 3 1 c\nf 4 3 1 d\ng 1 1 2 e f\nh 1 1 1 g",
}

func smallGraph(t testing.TB, text string) (*dag.Graph, profiles.Snapshot) {
	b := dag.NewBuilder("small")
	costs := map[string][2]float64{}
	for line := range strings.Lines(text) {
		w := strings.Fields(line)
		var seconds, megabytes float64
		var cores int64
		if _, err := fmt.Sscan(strings.Join(w[1:4], " "), &seconds, &megabytes, &cores); err != nil {
			t.Fatal(err)
		}
		grp := dag.Group{Name: w[0], Run: dag.Run{Function: "F" + w[0]}, Outputs: []dag.OutputDecl{{Name: "x"}}, Resources: dag.Resources{CPU: cores * 1000}}
		for _, from := range w[4:] {
			grp.Inputs = append(grp.Inputs, dag.One(from, dag.From{Text: from + ".x"}))
		}
		b.Add(grp)
		costs[w[0]] = [2]float64{seconds, megabytes * 1e6}
	}
	g, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	return g, seen("small", costs)
}

// Of graphs of up to eight tasks the search finds the best plan there is.
func TestOracle(t *testing.T) {
	for name, text := range small {
		t.Run(name, func(t *testing.T) {
			g, s := smallGraph(t, text)
			for _, c := range []Cluster{hosts(1, 1), hosts(2, 2), hosts(1, 2)} {
				c.Bandwidth = 4e6
				if !slices.ContainsFunc(c.Hosts, func(h Host) bool { return h.Runs(g) }) || testing.Short() && g.NumTasks() > 6 {
					continue
				}
				want := oracle(t, g, s, &c)
				p, err := Best(g, s, c, Effort{Evaluations: 5000})
				if err != nil {
					t.Fatal(err)
				}
				if math.Abs(p.Makespan-want) > 1e-6 {
					t.Errorf("on %d hosts the plan of %q ends at %g, the best at %g", len(c.Hosts), p.Method, p.Makespan, want)
				}
			}
		})
	}
}

// No plan is better than the best there is: the search and the simulation it
// trusts invent nothing.
func TestNotBelowOracle(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		g := layered(rt)
		c := drawn(rt)
		c.Hosts = c.Hosts[:min(len(c.Hosts), 2)]
		if g.NumTasks() > 5 {
			rt.Skip()
		}
		if Homeless(g, c.Hosts) != "" {
			rt.Skip()
		}
		s := cost(rt, g)
		p, err := Best(g, s, c, Effort{Evaluations: 200, Seed: rapid.Uint64().Draw(rt, "seed")})
		if err != nil {
			rt.Fatal(err)
		}
		if want := oracle(t, g, s, &c); p.Makespan < want-1e-6 {
			rt.Fatalf("the plan ends at %g, the best at %g", p.Makespan, want)
		}
	})
}

// gpu has tasks without a device whose outputs a task with one needs, and others
// that would be in its way.
const gpu = `
job: gpu
environments: {e: {go: ./e}}
tasks:
  read: {run: "e:Fread", out: [x]}
  decode: {run: "e:Fdecode", for: {i: "0..1"}, in: {x: read.x}, out: [x]}
  model: {run: "e:Fmodel", in: {a: "decode[0].x", b: "decode[1].x"}, out: [x], resources: {gpu: 1}}
  other: {run: "e:Fother", for: {i: "0..3"}, out: [x]}
  plot: {run: "e:Fplot", in: {m: model.x, o: "other[*].x"}, out: [x]}
outputs: [plot.x]
`

// Improved plans as text.
func TestImprovedPlans(t *testing.T) {
	device := hosts(4, 2)
	device.Hosts[1].GPU = 1000
	for _, c := range []struct {
		name, src string
		s         profiles.Snapshot
		c         Cluster
	}{
		{"diamond-improved", diamond, seen("d", map[string][2]float64{"a": {1, 5e6}, "b": {3, 1e6}, "c": {2, 1e6}, "d": {1, 10}}), hosts(1, 1)},
		{"gpu-improved", gpu, seen("gpu", map[string][2]float64{"read": {1, 4e6}, "decode": {2, 8e6}, "model": {5, 1e5}, "other": {3, 1e5}, "plot": {1, 10}}), device},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := parse(t, c.src)
			p, err := Best(g, c.s, c.c, Effort{Evaluations: 300})
			if err != nil {
				t.Fatal(err)
			}
			got := fmt.Sprintf("found by %s, moves %.0f bytes\n%s", p.Method, p.Moved, text(g, p))
			file := filepath.Join("testdata", c.name+".txt")
			if *update {
				if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if got != string(want) {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
		})
	}
}

func BenchmarkContended100k(b *testing.B) {
	g := parse(b, hundredThousand)
	s := seen("d", map[string][2]float64{"a": {1, 1e6}, "b": {2, 1e5}, "c": {math.Pi, 1e5}, "d": {1, 10}})
	c := hosts(16, 16, 16, 16)
	m := modelOf(b, g, s, &c)
	p, sim := newPortfolio(m), newContention(m)
	d := decision{p.listed(false), m.n.rank}
	b.ReportAllocs()
	b.ResetTimer()
	for range b.N {
		sim.play(d, math.Inf(1))
	}
}

// A method that is left out finds no plan, and one that found the best is missed.
func TestWithout(t *testing.T) {
	missed := 0
	for name, text := range small {
		g, s := smallGraph(t, text)
		c := hosts(2, 2)
		c.Bandwidth = 4e6
		all, err := Best(g, s, c, Effort{Evaluations: len(methods())})
		if err != nil {
			t.Fatal(err)
		}
		for _, way := range methods()[1:] { // the first plan is by the first in any case
			p, err := Best(g, s, c, Effort{Evaluations: len(methods()), Without: way.name})
			if err != nil {
				t.Fatal(err)
			}
			if p.Method == way.name {
				t.Errorf("%s: without %s the plan is by it", name, way.name)
			}
			if all.Method == way.name {
				missed++
			}
		}
	}
	if missed == 0 {
		t.Error("no graph is planned best by a method that can be left out")
	}
}
