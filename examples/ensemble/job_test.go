package main

import (
	"os"
	"testing"

	"github.com/cascade-run/cascade/dag"
)

func TestZ(t *testing.T) {
	text, _ := os.ReadFile("job.yaml")
	g, err := dag.ParseYAML("job.yaml", text, dag.Override{Flags: []string{"field=z"}}, dag.Options{Dir: "."})
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range g.Order() {
		in, err := g.Inputs(i)
		w, err2 := g.With(i)
		t.Log(g.TaskName(i), in, w, err, err2)
	}
	for _, e := range g.Exports {
		t.Log(e)
	}
}
