package planner

import (
	"testing"

	"github.com/cascade-run/cascade/dag"
)

// What an environment installs is its identity; by what name and with which variables is not.
func TestEnvironmentID(t *testing.T) {
	python := func(pip ...string) *dag.Python { return &dag.Python{Pip: pip} }
	base := dag.Environment{Name: "e", Python: python("numpy")}
	for _, c := range []struct {
		name string
		env  dag.Environment
		same bool
	}{
		{"equal", dag.Environment{Name: "e", Python: python("numpy")}, true},
		{"other name", dag.Environment{Name: "f", Python: python("numpy")}, true},
		{"variables", dag.Environment{Name: "e", Python: python("numpy"), Vars: map[string]string{"A": "b"}}, true},
		{"other requirements", dag.Environment{Name: "e", Python: python("numpy<2")}, false},
		{"files", dag.Environment{Name: "e", Python: python("numpy"), PyModules: []string{"m.py"}}, false},
		{"container", dag.Environment{Name: "e", Container: &dag.Container{Image: "i"}}, false},
		{"plugin", dag.Environment{Name: "e", Python: python("numpy"), Plugins: []dag.Field{{Name: "p", Value: int64(1)}}}, false},
	} {
		if same := EnvironmentID(&c.env) == EnvironmentID(&base); same != c.same {
			t.Errorf("%s: the same is %v", c.name, same)
		}
	}
	one, other := dag.Environment{Container: &dag.Container{Image: "i"}}, dag.Environment{Container: &dag.Container{Image: "i"}}
	if EnvironmentID(&one) != EnvironmentID(&other) { // at two addresses
		t.Error("the same image has two identities")
	}
	for _, nothing := range []dag.Environment{{}, {Name: "v", Vars: map[string]string{"A": "b"}}} {
		if EnvironmentID(&nothing) != 0 {
			t.Errorf("%+v installs something", nothing)
		}
	}
}

// two is a job of two tasks in one environment.
const two = `
job: d
environments: {e: {go: ./e}}
tasks:
  a: {run: "e:Fa", for: {i: "0..1"}, out: [x]}
`

// Of equal hosts a job goes to that which has its environment, and is not cut for one
// which has to build it for longer than that saves.
func TestSpreadKnowsEnvironments(t *testing.T) {
	g := parse(t, two)
	costs := seen("d", map[string][2]float64{"a": {2, 10}})
	for _, c := range []struct {
		seconds float64
		want    string
	}{{0.1, "a[0]=1 a[1]=0"}, {3, "one host"}} {
		cl := built(two, c.seconds, hosts(1, 1), 1)
		p, err := Spread(g, costs, cl)
		if err != nil {
			t.Fatal(err)
		}
		if got := homes(g, p); got != c.want {
			t.Errorf("a build of %g s: %s, want %s", c.seconds, got, c.want)
		}
		if one := largest(g, &cl); one.Name != "h1" {
			t.Errorf("a build of %g s: the largest is %s", c.seconds, one.Name)
		}
	}
}

// The largest host does not get a job whole when it has to build its environment for longer
// than a smaller one, which has it, takes for all: neither at first nor after a search.
func TestLargestHasToBuild(t *testing.T) {
	g := parse(t, two)
	costs := seen("d", map[string][2]float64{"a": {2, 10}})
	for _, c := range []struct {
		seconds float64
		want    string
	}{{0.1, "one host"}, {10, "a[0]=1 a[1]=1"}} {
		cl := built(two, c.seconds, hosts(2, 1), 1)
		first, err := Spread(g, costs, cl)
		if err != nil {
			t.Fatal(err)
		}
		better, err := Better(g, first, cl, Effort{Evaluations: 20})
		if err != nil {
			t.Fatal(err)
		}
		if got, after := homes(g, first), homes(g, better); got != c.want || after != c.want {
			t.Errorf("a build of %g s: %s at first and %s after a search, want %s", c.seconds, got, after, c.want)
		}
	}
}
