package main

import (
	"strings"
	"testing"

	"github.com/cascade-run/cascade/dag"
	"github.com/cascade-run/cascade/planner"
)

// The model of the synthetic forecast runs on the host with the device, and only that must.
func TestForecast(t *testing.T) {
	im, err := forecast()
	if err != nil {
		t.Fatal(err)
	}
	c := cluster{"2x4", []int{4, 4}, 1.25e9}
	p, err := planner.Best(im.Graph, im.Profile.Snapshot(), c.planned(), planner.Effort{Evaluations: 20})
	if err != nil {
		t.Fatal(err)
	}
	on := map[string][2]int{}
	for i := range p.Tasks {
		stage := strings.TrimRight(im.Graph.TaskName(dag.TaskIndex(i)), "0123456789_")
		n := on[stage]
		n[p.Tasks[i].Host]++
		on[stage] = n
	}
	if on["model"] != [2]int{steps, 0} || on["regrid"][0]+on["regrid"][1] != members*steps || on["regrid"][1] == 0 {
		t.Errorf("tasks by host: %v", on)
	}
	got, err := c.ablated(im, 20)
	if err != nil {
		t.Fatal(err)
	}
	if got[0] < 1 || len(got) != 1+len(ablations) {
		t.Errorf("makespan over the lower bound, and without each part: %v", got)
	}
}

// The forecast runs for real, with tasks fused and without.
func TestFusion(t *testing.T) {
	if testing.Short() {
		t.Skip("runs jobs of a thousand tasks")
	}
	var table strings.Builder
	if err := fusion(&table, 2, 1, []work{{0, 1 << 10}}); err != nil {
		t.Fatal(err)
	}
	if lines := strings.Count(table.String(), "\n"); lines != 3 {
		t.Errorf("the table has %d lines:\n%s", lines, table.String())
	}
}
