package main

import (
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/cascade-run/cascade/dag"
	"github.com/cascade-run/cascade/planner"
	"github.com/cascade-run/cascade/profiles"
)

// The picture is well-formed whatever the names, has a bar for each task that runs,
// and bars of one host never lie on each other.
func TestGantt(t *testing.T) {
	g, err := dag.ParseYAML("job.yaml", []byte(`
job: "<&\">"
tasks:
  a: {for: {i: "0..4"}, command: "true"}
  b: {command: "true", resources: {cpu: 2}}
  never: {command: "true", resources: {gpu: 1}}
`), dag.Override{}, dag.Options{})
	if err != nil {
		t.Fatal(err)
	}
	p, err := planner.Best(g, profiles.Snapshot{}, planner.Cluster{Hosts: []planner.Host{{Name: "x<y", CPU: 2000}, {Name: "z", CPU: 1000}}}, planner.Effort{Evaluations: 10})
	if err != nil {
		t.Fatal(err)
	}
	text := string(gantt(g, p))
	for d := xml.NewDecoder(strings.NewReader(text)); ; {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatalf("%v in\n%s", err, text)
		}
	}
	if n := strings.Count(text, "<title>"); n != 6 {
		t.Errorf("%d bars, want 6", n)
	}
	lane, rows := ganttLanes(p)
	for i := range p.Tasks {
		for k := range i {
			a, b := p.Tasks[i], p.Tasks[k]
			if a.Host >= 0 && a.Host == b.Host && lane[i] == lane[k] && a.Start < b.Finish-1e-9 && b.Start < a.Finish-1e-9 {
				t.Errorf("tasks %d and %d lie on each other", i, k)
			}
		}
	}
	if rows[0] > 2 || rows[1] > 1 {
		t.Errorf("hosts of 2 and 1 cores have %v lanes", rows)
	}
}
