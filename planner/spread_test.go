package planner

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/cascade-run/cascade/dag"
	"github.com/cascade-run/cascade/profiles"
)

// homes prints where the tasks of a spread plan are to run.
func homes(g *dag.Graph, p *Plan) string {
	if p.Homes == nil {
		return "one host"
	}
	var b strings.Builder
	for i, h := range p.Homes {
		fmt.Fprintf(&b, "%s=%d ", g.TaskName(dag.TaskIndex(i)), h)
	}
	return strings.TrimSpace(b.String())
}

func TestSpread(t *testing.T) {
	const env = "environments: {e: {go: ./e}}\n"
	for _, tt := range []struct {
		name, src string
		costs     map[string][2]float64
		hosts     []int64
		want      string
	}{
		{"a chain has nothing to share", "job: j\n" + env + `
tasks:
  a: {run: "e:Fa", out: [x]}
  b: {run: "e:Fb", in: {x: a.x}, out: [x]}
outputs: [b.x]
`, map[string][2]float64{"a": {5, 10}, "b": {5, 10}}, []int64{1, 1}, "one host"},
		{"two chains go to two hosts, whole", "job: j\n" + env + `
tasks:
  a: {run: "e:Fa", for: {i: "0..1"}, out: [x]}
  b: {run: "e:Fb", for: {i: "0..1"}, in: {x: "a[${i}].x"}, out: [x]}
outputs: ["b[*].x"]
`, map[string][2]float64{"a": {5, 10}, "b": {5, 10}}, []int64{1, 1}, "a[0]=0 a[1]=1 b[0]=0 b[1]=1"},
		{"what takes milliseconds stays", "job: j\n" + env + `
tasks:
  a: {run: "e:Fa", for: {i: "0..3"}, out: [x]}
outputs: ["a[*].x"]
`, map[string][2]float64{"a": {0.001, 10}}, []int64{1, 1}, "one host"},
		{"one host has the cores for all", "job: j\n" + env + `
tasks:
  a: {run: "e:Fa", for: {i: "0..3"}, out: [x]}
outputs: ["a[*].x"]
`, map[string][2]float64{"a": {1, 10}}, []int64{4, 4}, "one host"},
		{"only one host has the device", "job: j\n" + env + `
tasks:
  a: {run: "e:Fa", out: [x]}
  b: {run: "e:Fb", in: {x: a.x}, out: [x], resources: {cpu: 3}}
outputs: [b.x]
`, map[string][2]float64{"a": {1, 10}, "b": {1, 10}}, []int64{2, 4}, "one host"},
		{"a task waits for the host that has its gigabytes", "job: j\n" + env + `
tasks:
  a: {run: "e:Fa", for: {i: "0..1"}, out: [x]}
  b: {run: "e:Fb", for: {i: "0..2"}, in: {x: "a[0].x"}, out: [x]}
  c: {run: "e:Fc", in: {x: "a[1].x"}, out: [x]}
outputs: ["b[*].x", c.x]
`, map[string][2]float64{"a": {1, 1e9}, "b": {1, 1}, "c": {5, 1}}, []int64{1, 1}, "a[0]=1 a[1]=0 b[0]=1 b[1]=1 b[2]=1 c=0"},
		{"what follows a generator counts for its host", "job: j\n" + env + `
tasks:
  g: {run: "e:Fg", generates: {x: "*"}}
  s: {run: "e:Fs", for: {k: "g.x[*]"}, in: {x: "g.x[${k}]"}, out: [y], resources: {cpu: 3}}
  z: {run: "e:Fz", for: {i: "0..3"}, out: [y], resources: {cpu: 2}}
outputs: ["s[*].y", "z[*].y"]
`, map[string][2]float64{"g": {1, 10}, "s": {1, 10}, "z": {5, 10}}, []int64{2, 4}, "g=1 z[0]=0 z[1]=1 z[2]=1 z[3]=0"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			g := parse(t, tt.src)
			p, err := Spread(g, seen("j", tt.costs), hosts(tt.hosts...))
			if err != nil {
				t.Fatal(err)
			}
			if got := homes(g, p); got != tt.want {
				t.Errorf("homes %s, want %s", got, tt.want)
			}
		})
	}
}

func TestHomeless(t *testing.T) {
	g := parse(t, `
job: j
environments: {e: {go: ./e}}
tasks:
  g: {run: "e:Fg", generates: {x: "*"}, resources: {memory: 8GiB}}
  s: {run: "e:Fs", for: {k: "g.x[*]"}, in: {x: "g.x[${k}]"}, out: [y], resources: {cpu: 4}}
outputs: ["s[*].y"]
`)
	small, lean := Host{Name: "a", CPU: 2000, Memory: 16 << 30}, Host{Name: "b", CPU: 4000, Memory: 1 << 30}
	if got := Homeless(g, []Host{small, lean}); !strings.Contains(got, "task g: no host has enough for it and for the tasks that follow") {
		t.Errorf("%q", got)
	}
	if got := Homeless(g, []Host{small, lean, {Name: "c", CPU: 4000, Memory: 16 << 30}}); got != "" {
		t.Errorf("%q", got)
	}
	gen, _ := g.Lookup("g")
	if small.Suits(g, gen) || lean.Suits(g, gen) {
		t.Error("neither host suits the generator")
	}
}

// TestSpreadPlacesAll: whatever the hosts, each task that some host can run with
// its followers has a home, and one that has enough.
func TestSpreadPlacesAll(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		g := layered(rt)
		var c Cluster
		for i := range rapid.IntRange(1, 5).Draw(rt, "hosts") {
			c.Hosts = append(c.Hosts, Host{Name: fmt.Sprintf("h%d", i), CPU: rapid.Int64Range(1, 4).Draw(rt, "cpu") * 1000})
		}
		c.Bandwidth = rapid.SampledFrom([]float64{1e3, 1e6, 1e9}).Draw(rt, "bandwidth")
		p, err := Spread(g, profiles.Snapshot{}, c)
		if err != nil {
			rt.Fatal(err)
		}
		if Homeless(g, c.Hosts) != "" {
			return
		}
		if p.Homes == nil && largest(g, &c) == nil {
			rt.Fatal("no host has enough for all, and the job is not spread")
		}
		for i, h := range p.Homes {
			if h < 0 {
				rt.Fatalf("task %d has no home", i)
			}
			if !c.Hosts[h].Suits(g, dag.TaskIndex(i)) {
				rt.Fatalf("task %d goes to host %d, which has not enough", i, h)
			}
		}
		for _, path := range p.Fuse {
			for _, i := range path {
				if p.Homes != nil && p.Homes[i] != p.Homes[path[0]] {
					rt.Fatalf("path %v goes over two hosts", path)
				}
			}
		}
	})
}
