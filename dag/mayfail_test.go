package dag

import (
	"testing"
)

// Which tasks may fail, and which have nothing behind them.
func TestMayFailAndSinks(t *testing.T) {
	g, err := ParseYAML("m.yaml", []byte(`
job: m
tasks:
  gen: {run: F, generates: {e: {count: "*"}}}
  each: {for: {i: "gen.e[*]"}, run: F, in: {x: "gen.e[${i}]"}, out: [x]}
  spared: {for: {i: "0..2"}, run: F, out: [x]}
  both: {for: {i: "0..2"}, run: F, out: [x]}
  own: {run: F, keep_going: true}
  last:
    run: F
    in:
      a: {from: "each[*].x", min: 1}
      b: {from: ["spared[*].x", "both[*].x"], min: 1}
      c: "both[*].x"
outputs: ["spared[0].x"]
`), Override{}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	mayFail := map[string]bool{"each": true, "spared": true, "own": true}
	sinks := map[string]bool{"own": true, "last": true}
	for i := range g.Groups {
		name := g.Groups[i].Name
		if got := g.MayFail(i); got != mayFail[name] {
			t.Errorf("%s may fail: %v", name, got)
		}
		first, _ := g.GroupTasks(i)
		at := TaskIndex(first)
		if name == "each" {
			if at, err = g.Instance(0, 5); err != nil {
				t.Fatal(err)
			}
		}
		if got := g.Sink(at); got != sinks[name] {
			t.Errorf("%s has nothing behind it: %v", name, got)
		}
	}
}
