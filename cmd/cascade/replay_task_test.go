package main

import (
	"fmt"
	"testing"

	"github.com/cascade-run/cascade/dag"
)

// What is lost is gone, wherever it stands in a list, and no list ends with it.
func TestReadings(t *testing.T) {
	g, err := dag.ParseYAML("job.yaml", []byte(`
job: j
retain: true
tasks:
  gen: {run: f, generates: {part: "*"}}
  sizes: {for: {p: "gen.part[*]"}, run: f, in: {x: "gen.part[${p}]"}, out: [n]}
  all: {run: f, in: {n: {from: "sizes[*].n", min: 1}, parts: "gen.part[*]"}, out: [y]}
`), dag.Override{}, dag.Options{})
	if err != nil {
		t.Fatal(err)
	}
	all, _ := g.Lookup("all")
	for _, tt := range []struct {
		name, without string // a dataset that is not there
		row           bool   // and lost, rather than never made
		failed        string
		want          string
	}{
		{"all is there", "", false, "", "[[sizes[0].n sizes[1].n sizes[2].n] [gen.part[0] gen.part[1] gen.part[2]]] []"},
		{"an element is lost", "gen.part[1]", true, "", "[[sizes[0].n sizes[1].n sizes[2].n] [gen.part[0] gen.part[2]]] [gen.part[1]]"},
		{"the first is lost", "gen.part[0]", true, "", "[[sizes[0].n sizes[1].n sizes[2].n] [gen.part[1] gen.part[2]]] [gen.part[0]]"},
		{"the last is lost", "gen.part[2]", true, "", "[[sizes[0].n sizes[1].n sizes[2].n] [gen.part[0] gen.part[1]]] [gen.part[2]]"},
		{"what follows one is lost", "sizes[1].n", true, "", "[[sizes[0].n sizes[2].n] [gen.part[0] gen.part[1] gen.part[2]]] [sizes[1].n]"},
		{"what follows one failed", "sizes[1].n", false, "sizes[1]", "[[sizes[0].n  sizes[2].n] [gen.part[0] gen.part[1] gen.part[2]]] []"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			k := kept{there: map[string]bool{}, all: true}
			for e := range 3 {
				k.there[fmt.Sprintf("gen.part[%d]", e)], k.there[fmt.Sprintf("sizes[%d].n", e)] = true, true
			}
			if k.there[tt.without] = false; !tt.row {
				delete(k.there, tt.without)
			}
			r, err := readingsOf(g, all, k, map[string]bool{tt.failed: true})
			if err != nil {
				t.Fatal(err)
			}
			if got := fmt.Sprint(r.names, " ", r.gone); got != tt.want {
				t.Errorf("reads %s, want %s", got, tt.want)
			}
		})
	}
}
