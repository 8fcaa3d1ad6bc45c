package dag

import (
	"fmt"
	"testing"
)

func TestDatasets(t *testing.T) {
	g, err := ParseYAML("job.yaml", []byte(`
job: j
tasks:
  gen: {run: f, generates: {part: "*"}}
  fixed: {run: f, generates: {x: 2}}
  each: {for: {p: "gen.part[*]"}, run: f, in: {x: "gen.part[${p}]"}, out: [a, b]}
  one: {run: f, in: {x: "fixed.x[1]"}, out: [y]}
  all: {run: f, in: {b: "each[*].b", parts: "gen.part[*]", x: "fixed.x[*]", y: one}, out: [z]}
`), Override{}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	gen, _ := g.Lookup("gen")
	elements := func(task TaskIndex, output uint32) uint64 {
		if task != gen || output != 0 {
			t.Errorf("elements of output %d of %s", output, g.TaskName(task))
		}
		return 2
	}
	read := func(name string) (all []string) {
		i, _ := g.Lookup(name)
		inputs, err := g.Inputs(i)
		if err != nil {
			t.Fatal(err)
		}
		for _, in := range inputs {
			for _, s := range in.Sources {
				for d := range g.Datasets(s, elements) {
					all = append(all, g.DatasetName(d))
				}
			}
		}
		return all
	}
	for task, want := range map[string]string{
		"one": "[fixed.x[1]]",
		"all": "[each[0].b each[1].b gen.part[0] gen.part[1] fixed.x[0] fixed.x[1] one.y]",
	} {
		if got := fmt.Sprint(read(task)); got != want {
			t.Errorf("%s reads %s, want %s", task, got, want)
		}
	}
	if got := g.DatasetName(Dataset{Task: gen, Output: 7}); got != "gen.7" {
		t.Errorf("an output that is not there is called %s", got)
	}
}
