package main

import (
	"slices"
	"testing"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/dag"
)

// The heaviest path goes through tasks that came to be while the job ran.
func TestCriticalPath(t *testing.T) {
	g, err := dag.ParseYAML("job.yaml", []byte(`
job: j
tasks:
  read: {run: R, generates: {x: "*"}}
  each: {for: {i: "read.x[*]"}, run: E, in: {x: "read.x[${i}]"}, out: [y]}
  join: {run: J, in: {all: "each[*].y"}, out: [z]}
  other: {run: O, out: [z]}
`), dag.Override{}, dag.Options{})
	if err != nil {
		t.Fatal(err)
	}
	index := func(name string) uint32 {
		i, ok := g.Lookup(name)
		if !ok {
			t.Fatalf("no task %s", name)
		}
		return uint32(i)
	}
	rows := []comms.TaskRow{
		{Index: index("read"), Group: "read", State: "done", Seconds: 1},
		{Index: index("join"), Group: "join", State: "done", Seconds: 3},
		{Index: index("other"), Group: "other", State: "done", Seconds: 5},
		{Index: index("each[0]"), Group: "each", State: "done", Seconds: 1},
		{Index: index("each[1]"), Group: "each", State: "done", Seconds: 2},
		{Index: index("each[2]"), Group: "each", State: "failed", Seconds: 9},
	}
	seconds, path, err := criticalPath(g, rows)
	if err != nil || seconds != 6 || !slices.Equal(path, []string{"read", "each[1]", "join"}) {
		t.Errorf("got %v, %v, %v", seconds, path, err)
	}
	if seconds, path, err = criticalPath(g, nil); err != nil || seconds != 0 || path != nil {
		t.Errorf("of no rows: %v, %v, %v", seconds, path, err)
	}
}
