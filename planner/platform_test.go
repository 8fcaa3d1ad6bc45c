package planner

import (
	"slices"
	"strings"
	"testing"

	"github.com/cascade-run/cascade/profiles"
)

const twoPlatforms = `
job: j
environments:
  amd: {binary: {linux/amd64: ./a}}
  both: {binary: {linux/amd64: ./a, linux/arm64: ./b}}
  any: {binary: ./script}
tasks:
  x: {run: "amd:F", out: [x]}
  y: {run: "both:F", out: [x]}
  z: {run: "any:F", out: [x]}
  c: {command: "true"}
`

func TestHostsServePlatforms(t *testing.T) {
	g := parse(t, twoPlatforms)
	for platform, want := range map[string]string{
		"linux/amd64": "x y z c", "linux/arm64": "y z c", "linux/s390x": "z c", "": "x y z c",
		UntoldPlatform: "", // it could not read the graph
	} {
		h := Host{Name: "h", CPU: 4000, Platform: platform}
		var got []string
		for _, name := range []string{"x", "y", "z", "c"} {
			if i, _ := g.Lookup(name); h.Suits(g, i) {
				got = append(got, name)
			}
		}
		if text := strings.Join(got, " "); text != want {
			t.Errorf("a host of platform %q runs %q, want %q", platform, text, want)
		}
		if h.Runs(g) != (want == "x y z c") {
			t.Errorf("a host of platform %q: %t for all", platform, h.Runs(g))
		}
	}
	plain := parse(t, "job: j\nenvironments: {any: {binary: ./script}}\ntasks: {z: {run: \"any:F\"}}\n")
	if h := (Host{Name: "h", CPU: 1000, Platform: UntoldPlatform}); !h.Runs(plain) {
		t.Error("an agent that tells no platform gets no task of a job that names none")
	}
}

func TestNoHostOfThePlatform(t *testing.T) {
	g := parse(t, twoPlatforms)
	arm, old := Host{Name: "a", CPU: 4000, Platform: "linux/arm64"}, Host{Name: "o", CPU: 4000, Platform: UntoldPlatform}
	slim := Host{Name: "s", CPU: 500, Platform: "linux/amd64"}
	for _, c := range []struct {
		hosts []Host
		want  string
	}{
		{[]Host{arm}, "task x: no host has the platform of its binaries: environment amd has linux/amd64, the hosts are linux/arm64"},
		{[]Host{arm, old, arm}, "the hosts are linux/arm64, unknown (an older version of the agent)"},
		{[]Host{old}, "task c: the agents of all hosts are of an older version, which cannot read a job with binaries for platforms"},
		{[]Host{slim, arm}, "task x: no host has enough: it needs cpu 1 (the largest host has 0.5); environment amd has no binary for linux/arm64, the platform of a, which has enough"},
		{[]Host{arm, {Name: "b", CPU: 1000, Platform: "linux/amd64"}}, ""},
	} {
		for _, got := range []string{Unfit(g, c.hosts, false), Homeless(g, c.hosts)} {
			if c.want == "" && got != "" || !strings.Contains(got, c.want) {
				t.Errorf("%v: %q, want %q", c.hosts, got, c.want)
			}
		}
	}
	want := []string{"environment amd has no binary for linux/arm64: a"}
	if got := Unserved(g, []Host{arm, slim}); !slices.Equal(got, want) {
		t.Errorf("unserved: %q, want %q", got, want)
	}
}

// Plans place each task where it can run, also when the other host is free.
func TestPlanKeepsToPlatforms(t *testing.T) {
	g := parse(t, `
job: j
environments: {amd: {binary: {linux/amd64: ./a}}, arm: {binary: {linux/arm64: ./b}}}
tasks:
  a: {run: "amd:F", for: {i: "0..7"}, out: [x]}
  b: {run: "arm:F", for: {i: "0..7"}, in: {x: "a[${i}].x"}, out: [x]}
`)
	c := Cluster{Hosts: []Host{{Name: "a", CPU: 4000, Platform: "linux/amd64"}, {Name: "b", CPU: 1000, Platform: "linux/arm64"}}}
	for name, make := range map[string]func() (*Plan, error){
		"list":     func() (*Plan, error) { return Make(g, profiles.Snapshot{}, c) },
		"improved": func() (*Plan, error) { return Best(g, profiles.Snapshot{}, c, Effort{Evaluations: 200}) },
		"spread":   func() (*Plan, error) { return Spread(g, profiles.Snapshot{}, c) },
	} {
		p, err := make()
		if err != nil {
			t.Fatal(err)
		}
		for i := range g.NumTasks() {
			want := 0
			if i >= g.NumTasks()/2 {
				want = 1
			}
			at := -1
			if p.Homes != nil {
				at = int(p.Homes[i])
			} else if p.Tasks != nil {
				at = p.Tasks[i].Host
			}
			if at != want {
				t.Errorf("%s: task %d is on host %d, want %d", name, i, at, want)
			}
		}
	}
}
