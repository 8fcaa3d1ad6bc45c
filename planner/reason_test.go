package planner

import (
	"testing"

	"github.com/cascade-run/cascade/dag"
	"github.com/cascade-run/cascade/profiles"
)

// What takes elements alone of a generator, whether some or all of a fixed number, starts while that runs, and the plan, which
// counts it from the end, says so; what takes another output too waits for the end.
func TestReasonOfElements(t *testing.T) {
	g, err := dag.ParseYAML("job.yaml", []byte(`job: fields
tasks:
  members: {run: Members, generates: {field: 2}, out: [log]}
  one: {run: Mean, in: {x: "members.field[0]"}, out: [y]}
  all: {run: Mean, in: {x: "members.field[*]"}, out: [y]}
  both: {run: Mean, in: {x: "members.field[0]", log: members.log}, out: [y]}
`), dag.Override{}, dag.Options{})
	if err != nil {
		t.Fatal(err)
	}
	p, err := Make(g, profiles.Snapshot{}, Cluster{Hosts: []Host{{Name: "h", CPU: 8000}}})
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{
		"needs no task, starts at once",
		"starts as soon as its inputs from members are there, counted here from the end of members",
		"starts as soon as its inputs from members are there, counted here from the end of members",
		"starts when members has ended",
	} {
		if got := p.Reason(g, dag.TaskIndex(i)); got != want {
			t.Errorf("%s: %s, want %s", g.TaskName(dag.TaskIndex(i)), got, want)
		}
	}
}

// Where the inputs of a task lie is no place for it when it cannot run there.
func TestReasonNamesHostsThatCanRunIt(t *testing.T) {
	g := parse(t, `
job: far
tasks:
  make: {command: "true", out: [x], stdout: x, resources: {here: 1}}
  train: {command: "cat", stdin: x, in: {x: make}, resources: {gpu: 1}}
`)
	c := hosts(1, 1)
	c.Hosts[0].Custom = map[string]int64{"here": 1000}
	c.Hosts[1].GPU, c.Hosts[1].Devices = 1000, []Device{{}}
	p, err := Make(g, profiles.Snapshot{}, c)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := p.Reason(g, 1), "starts when make has ended, 1048576 bytes to move from h0: 1.05 s at 8Mbit/s (as was given)"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
