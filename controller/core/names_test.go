package core

import (
	"testing"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/dag"
)

// Meets is what looking at each task of the range says, and does so when a range has all numbers.
func TestChoiceMeets(t *testing.T) {
	g := mustParse(t, `
job: s
tasks:
  one: {run: F, out: [x]}
  grid: {for: {a: "0..3", b: "0..2"}, run: F, out: [x]}
  gen: {run: F, generates: {x: "*"}}
  each: {for: {e: "gen.x[*]"}, run: F, in: {x: "gen.x[${e}]"}, out: [y]}
  more: {for: {e: "gen.x[*]"}, run: F, in: {x: "gen.x[${e}]"}, out: [y]}
outputs: [one.x]
`)
	last := dag.TaskIndex(g.NumTasks()) + 7
	for _, name := range []string{"one", "grid", "grid[2,1]", "grid[*,1]", "grid[3,*]", "grid[*,9]", "gen", "each", "more", "more[2]", "each[*]"} {
		c, ok := Choose(g, name)
		if !ok {
			t.Fatalf("%s is no name", name)
		}
		for from := dag.TaskIndex(0); from <= last; from++ {
			want := false
			for to := from; to <= last; to++ {
				want = want || c.Has(to)
				if got := c.Meets(comms.Range{First: from, Last: to}); got != want {
					t.Errorf("%s, %d to %d: %v", name, from, to, got)
				}
			}
		}
		if name != "grid[*,9]" && !c.Meets(comms.Range{Last: ^dag.TaskIndex(0)}) {
			t.Errorf("%s is not in a range of all", name)
		}
	}
}
