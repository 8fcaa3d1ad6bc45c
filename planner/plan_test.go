package planner

import (
	"bytes"
	"flag"
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

var update = flag.Bool("update", false, "rewrite the golden files")

// text prints a plan as sorted lines.
func text(g *dag.Graph, p *Plan) string {
	var b bytes.Buffer
	fmt.Fprintf(&b, "makespan %.2f, lower bound %.2f, critical path %.2f, work %.2f, %d guessed\n", p.Makespan, p.LowerBound, p.CriticalPath, p.Work, p.Guessed)
	for i, t := range p.Tasks {
		host := "-"
		if t.Host >= 0 {
			host = p.Hosts[t.Host]
		}
		fmt.Fprintf(&b, "%-12s %-4s rank %6.2f  %6.2f..%-6.2f %s\n", g.TaskName(dag.TaskIndex(i)), host, p.Ranks[i], t.Start, t.Finish, p.Reason(g, dag.TaskIndex(i)))
	}
	for _, path := range p.Fuse {
		var names []string
		for _, t := range path {
			names = append(names, g.TaskName(t))
		}
		fmt.Fprintf(&b, "fuse %s\n", strings.Join(names, " -> "))
	}
	return b.String()
}

func parse(t testing.TB, src string) *dag.Graph {
	t.Helper()
	g, err := dag.ParseYAML("job.yaml", []byte(src), dag.Override{}, dag.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// seen returns profiles in which each group took its seconds and wrote its bytes.
func seen(job string, costs map[string][2]float64) profiles.Snapshot {
	b := profiles.NewBook()
	for group, c := range costs {
		b.Record(profiles.Signature{Job: job, Group: group, Function: "F" + group}, profiles.Sample{Seconds: c[0], Bytes: c[1]})
	}
	return b.Snapshot()
}

func hosts(cpus ...int64) Cluster {
	c := Cluster{Bandwidth: 1e6}
	for i, n := range cpus {
		c.Hosts = append(c.Hosts, Host{Name: fmt.Sprintf("h%d", i), CPU: n * 1000, Memory: 8 << 30})
	}
	return c
}

// built is a cluster of which one host has the environment of a job, which takes seconds to build.
func built(job string, seconds float64, c Cluster, host int) Cluster {
	g, err := dag.ParseYAML("job.yaml", []byte(job), dag.Override{}, dag.Options{})
	if err != nil {
		panic(err)
	}
	id := EnvironmentID(&g.Environments[0])
	c.Hosts[host].Built, c.Builds = []uint64{id}, map[uint64]float64{id: seconds}
	return c
}

const diamond = `
job: d
environments: {e: {go: ./e}}
tasks:
  a: {run: "e:Fa", out: [x]}
  b: {run: "e:Fb", in: {x: a.x}, out: [x]}
  c: {run: "e:Fc", in: {x: a.x}, out: [x]}
  d: {run: "e:Fd", in: {b: b.x, c: c.x}, out: [x]}
outputs: [d.x]
`

const chains = `
job: d
environments: {e: {go: ./e}}
tasks:
  a: {run: "e:Fa", for: {i: "0..2"}, out: [x]}
  b: {run: "e:Fb", for: {i: "0..2"}, in: {x: "a[${i}].x"}, out: [x]}
  c: {run: "e:Fc", for: {i: "0..2"}, in: {x: "b[${i}].x"}, out: [x]}
  d: {run: "e:Fd", in: {x: "c[*].x"}, out: [x]}
outputs: [d.x]
`

const stream = `
job: d
environments: {e: {go: ./e}}
tasks:
  a: {run: "e:Fa", generates: {x: "*"}}
  b: {run: "e:Fb", for: {i: "a.x[*]"}, in: {x: "a.x[${i}]"}, out: [y]}
  c: {run: "e:Fc", in: {y: "b[*].y"}, out: [z]}
outputs: [c.z]
`

const big = `
job: d
environments: {e: {go: ./e}}
tasks:
  a: {run: "e:Fa", out: [x], resources: {cpu: 3, memory: 1GiB}}
  b: {run: "e:Fb", in: {x: a.x}, out: [x]}
  c: {run: "e:Fc", out: [x]}
outputs: [b.x]
`

func TestGoldenPlans(t *testing.T) {
	costs := map[string][2]float64{"a": {1, 1e6}, "b": {2, 1e5}, "c": {4, 1e5}, "d": {1, 10}}
	for _, c := range []struct {
		name, job string
		costs     map[string][2]float64
		cluster   Cluster
	}{
		{"diamond-one-core", diamond, costs, hosts(1)},
		{"diamond-two-cores", diamond, costs, hosts(2)},
		{"diamond-two-hosts", diamond, costs, hosts(1, 1)},
		{"diamond-unknown", diamond, nil, hosts(2)},
		{"diamond-no-host", diamond, costs, Cluster{}},
		{"chains", chains, costs, hosts(2)},
		{"stream", stream, costs, hosts(2)},
		{"too-big", big, costs, hosts(2)},
		{"environment-far", diamond, costs, built(diamond, 3, hosts(1, 1), 1)},
		{"environment-near", diamond, costs, built(diamond, 1.5, hosts(1, 1), 1)},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := parse(t, c.job)
			p, err := Make(g, seen("d", c.costs), c.cluster)
			if err != nil {
				t.Fatal(err)
			}
			got, file := text(g, p), filepath.Join("testdata", c.name+".txt")
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

// layered draws a graph in layers, with random needs.
func layered(t *rapid.T) *dag.Graph {
	b := dag.NewBuilder("r")
	b.Environment(dag.Environment{Name: "e", Go: "./e"})
	var before []dag.Handle
	n := 0
	for range rapid.IntRange(1, 5).Draw(t, "layers") {
		var layer []dag.Handle
		for range rapid.IntRange(1, 5).Draw(t, "width") {
			grp := dag.Group{Name: fmt.Sprintf("t%d", n), Run: dag.Run{Environment: "e", Function: "F"}, Outputs: []dag.OutputDecl{{Name: "x"}},
				Resources: dag.Resources{CPU: rapid.Int64Range(1, 4000).Draw(t, "cpu"), Memory: rapid.Int64Range(0, 100).Draw(t, "memory")}}
			if rapid.IntRange(0, 4).Draw(t, "custom") == 0 {
				grp.Resources.Custom = map[string]int64{"disk": rapid.Int64Range(1, 2000).Draw(t, "disk")}
			}
			for k, h := range before {
				if rapid.Bool().Draw(t, "edge") {
					grp.Inputs = append(grp.Inputs, dag.One(fmt.Sprintf("i%d", k), h.Out("x")))
				}
			}
			layer = append(layer, b.Add(grp))
			n++
		}
		before = layer
	}
	g, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func TestProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := layered(t)
		c := Cluster{Bandwidth: 1e6, Latency: rapid.Float64Range(0, 1).Draw(t, "latency")}
		for h := range rapid.IntRange(0, 3).Draw(t, "hosts") {
			c.Hosts = append(c.Hosts, Host{Name: fmt.Sprint(h), CPU: rapid.Int64Range(1, 6000).Draw(t, "cpu"), Memory: rapid.Int64Range(0, 200).Draw(t, "memory"),
				Custom: map[string]int64{"disk": rapid.Int64Range(0, 3000).Draw(t, "disk")}})
			if rapid.Bool().Draw(t, "has the environment") {
				c.Hosts[h].Built = []uint64{layeredEnvironment}
			}
		}
		book := profiles.NewBook()
		for i := range g.Groups {
			if rapid.Bool().Draw(t, "known") {
				book.Record(SignatureOf(g, i), profiles.Sample{Seconds: rapid.Float64Range(0, 10).Draw(t, "s"), Bytes: rapid.Float64Range(0, 1e7).Draw(t, "b")})
			}
		}
		s := book.Snapshot()
		p, err := Make(g, s, c)
		if err != nil {
			t.Fatal(err)
		}
		again, err := Make(g, s, c)
		if err != nil || !reflect.DeepEqual(p, again) {
			t.Fatalf("the same input gives another plan (%v)", err)
		}
		properties(t, g, &c, p)
		for i := range p.Tasks { // the duration of the build is the default
			if h := p.Tasks[i].Host; h >= 0 && c.BuildsOn(g, h) > p.Tasks[i].Start+1e-9 {
				t.Fatalf("task %d starts at %g on host %d, which has its environment at %g", i, p.Tasks[i].Start, h, c.BuildsOn(g, h))
			}
		}
	})
}

func properties(t *rapid.T, g *dag.Graph, c *Cluster, p *Plan) {
	all := true
	for i := range p.Tasks {
		task, id := &p.Tasks[i], dag.TaskIndex(i)
		if p.Reason(g, id) == "" {
			t.Fatalf("task %d has no reason", i)
		}
		if task.Host < 0 {
			all = false
			if task.why != whyNoHosts && task.why != whyTooBig && task.why != whyBlocked {
				t.Fatalf("task %d is not placed: %s", i, p.Reason(g, id))
			}
			continue
		}
		ins, err := g.Inputs(id)
		if err != nil {
			t.Fatal(err)
		}
		for _, in := range ins {
			for _, src := range in.Sources {
				if before := &p.Tasks[src.Task]; before.Host < 0 || before.Finish > task.Start {
					t.Fatalf("task %d starts at %g, its producer %d ends at %g on host %d", i, task.Start, src.Task, before.Finish, before.Host)
				}
				if p.Ranks[src.Task] < p.Ranks[i] {
					t.Fatalf("rank of %d is below that of its consumer %d", src.Task, i)
				}
			}
		}
	}
	if all && p.Makespan < p.LowerBound-1e-9 {
		t.Fatalf("makespan %g is below the bound %g", p.Makespan, p.LowerBound)
	}
	capacity(t, g, c, p)
}

// capacity adds up, at each start, what runs then on each host. A duration that
// vanishes beside its start takes nothing.
func capacity(t *rapid.T, g *dag.Graph, c *Cluster, p *Plan) {
	for i := range p.Tasks {
		if p.Tasks[i].Host < 0 || p.Tasks[i].Finish <= p.Tasks[i].Start {
			continue
		}
		h, now := p.Tasks[i].Host, p.Tasks[i].Start
		var cpu, memory, disk int64
		for k := range p.Tasks {
			o := &p.Tasks[k]
			if o.Host == h && o.Start <= now && now < o.Finish {
				r := &g.Group(dag.TaskIndex(k)).Resources
				cpu, memory, disk = cpu+cpuOf(r), memory+r.Memory, disk+r.Custom["disk"]
			}
		}
		host := &c.Hosts[h]
		if cpu > host.CPU || host.Memory > 0 && memory > host.Memory || disk > host.Custom["disk"] {
			t.Fatalf("at %g host %d has cpu %d of %d, memory %d of %d, disk %d of %d", now, h, cpu, host.CPU, memory, host.Memory, disk, host.Custom["disk"])
		}
	}
}

func TestFusedPathsAreLinear(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := layered(t)
		p, err := Make(g, profiles.Snapshot{}, hosts(2))
		if err != nil {
			t.Fatal(err)
		}
		var used []dag.TaskIndex
		for _, path := range p.Fuse {
			for k, at := range path {
				if slices.Contains(used, at) {
					t.Fatalf("task %d is on two paths", at)
				}
				used = append(used, at)
				if k == len(path)-1 {
					break
				}
				for _, e := range g.Consumers(at) {
					if e.Consumer != path[k+1] {
						t.Fatalf("task %d of a path has another consumer %d", at, e.Consumer)
					}
				}
				ins, err := g.Inputs(path[k+1])
				if err != nil {
					t.Fatal(err)
				}
				for _, in := range ins {
					for _, src := range in.Sources {
						if src.Task != at {
							t.Fatalf("task %d of a path has another producer %d", path[k+1], src.Task)
						}
					}
				}
			}
		}
	})
}

func TestBadHost(t *testing.T) {
	if _, err := Make(parse(t, diamond), profiles.Snapshot{}, Cluster{Hosts: []Host{{Name: "h"}}}); err == nil || !strings.Contains(err.Error(), `host "h"`) {
		t.Errorf("got %v", err)
	}
}

const hundredThousand = `
job: d
environments: {e: {go: ./e}}
tasks:
  a: {run: "e:Fa", for: {i: "0..24999"}, out: [x]}
  b: {run: "e:Fb", for: {i: "0..24999"}, in: {x: "a[${i}].x"}, out: [x]}
  c: {run: "e:Fc", for: {i: "0..24999"}, in: {x: "b[${i}].x", y: "a[${(i*7+1) % 25000}].x"}, out: [x]}
  d: {run: "e:Fd", for: {i: "0..24999"}, in: {x: "c[${i}].x", y: "b[${(i*3+2) % 25000}].x"}, out: [x]}
outputs: ["d[0].x"]
`

func BenchmarkPlan100k(b *testing.B) {
	g := parse(b, hundredThousand)
	if g.NumTasks() != 100_000 {
		b.Fatal(g.NumTasks())
	}
	s := seen("d", map[string][2]float64{"a": {1, 1e6}, "b": {2, 1e5}, "c": {math.Pi, 1e5}, "d": {1, 10}})
	c := hosts(16, 16, 16, 16)
	b.ResetTimer()
	for range b.N {
		if _, err := Make(g, s, c); err != nil {
			b.Fatal(err)
		}
	}
}

// All tasks that fit nowhere are told in one error.
func TestUnfit(t *testing.T) {
	g := parse(t, `
job: large
tasks:
  a: {command: "true", resources: {cpu: 8}}
  fits: {command: "true"}
  b: {for: {i: "0..9"}, command: "true", resources: {licence: 1}}
inputs: {x: {file: x, resources: {host-0a: 1}}}
`)
	const want = "task x: no host has enough: it needs the host that has its files, and no agent of that is here; " +
		"task a: no host has enough: it needs cpu 8 (the largest host has 4); task b: no host has enough: it needs licence 1 (no host has any; --resource says how much one has)"
	if got := Unfit(g, []Host{{Name: "h", CPU: 4000}}, false); got != want {
		t.Errorf("it says %s", got)
	}
	for i := range unfitNames + 3 {
		g.Groups = append(g.Groups, dag.Group{Name: fmt.Sprint("t", i), Resources: dag.Resources{CPU: 5000}})
	}
	if got := Unfit(g, []Host{{Name: "h", CPU: 4000}}, false); !strings.HasSuffix(got, "; and 6 more tasks that do not fit") {
		t.Errorf("of many it says %s", got)
	}
}
