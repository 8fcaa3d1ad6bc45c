package core

import (
	"testing"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/dag"
)

// TestReaderComesLate: a task comes to an agent after what it reads has been made
// there, while it was known to have ended elsewhere. The controller, which did not
// know of that end yet, does not ask for it: the agent makes it again by itself.
func TestReaderComesLate(t *testing.T) {
	n := pair(t)
	w := n.worlds[0]
	g := graph(t, `
job: late
tasks:
  gen: {run: F, generates: {o: {count: "*"}}}
  all: {run: F, in: {x: "gen.o[*]"}, out: [y]}
outputs: [all.y]
`)
	other := []comms.Assignment{{Agent: "b"}}
	job := w.assign(1, g, comms.Assign{Run: []comms.Range{{First: 0, Last: 0}}, Ended: []comms.Ended{{First: 1, Last: 1, How: comms.OutcomeDone}}, Peers: other})
	w.run()
	made := func(i dag.TaskIndex) int { return w.done[comms.TaskID{Job: job, Index: i}] }
	if made(0) != 1 || len(w.c.byJob[job].data) != 0 {
		t.Fatalf("the generator has ended %d times, and %d datasets are kept that nobody reads", made(0), len(w.c.byJob[job].data))
	}
	w.step(FromController{Msg: &comms.Assign{Job: job, Epoch: 2, Run: []comms.Range{{First: 0, Last: 1}}, Attempts: []uint32{1, 65538}, Peers: other}})
	w.run()
	if made(0) != 1 || made(1) != 1 { // a retry takes back the first end
		t.Errorf("the generator has ended %d times and its reader %d times", made(0), made(1))
	}
}
