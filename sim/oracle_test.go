package sim

import (
	"testing"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/controller/core"
)

// A task that is lost is given to another agent, while the one that had it makes it
// again by itself. What that one notes before it hears of the decision is void, however
// high its attempt; what is noted since is not.
func TestWhatWasNotedBeforeATaskWasGivenOutAnewIsVoid(t *testing.T) {
	for name, c := range map[string]struct {
		agent    int
		epoch    uint64
		attempts []uint32 // that end, one after the other, when the other agent has finished the try that it was given
		fails    bool
	}{
		"the try that the decision knew":    {0, 1, []uint32{1}, false},
		"tries of which it had not heard":   {0, 1, []uint32{2, 3}, false},
		"another try where it was given":    {1, 2, []uint32{1<<16 | 3}, true},
		"another try of who had it before":  {0, 2, []uint32{1<<16 | 3}, true},
		"a try of a grant that nobody made": {1, 2, []uint32{2<<16 | 3}, true},
	} {
		t.Run(name, func(t *testing.T) {
			g := layered(t, 1, 1, false)
			w := calm(t, 2, g)
			job := w.client.jobs[0].id
			for _, a := range w.agents {
				a.running, a.incarn = true, 1
			}
			k := core.NewKept(core.Create{Row: core.JobRecord{ID: job, Epoch: 1}}, g)
			commit := func(b core.Batch) {
				b.Number, b.Incarnation = uint64(len(k.Batches)), 1
				c := &core.Commit{Job: job, Batch: &b}
				w.oracle.committed(k, c)
				k.Apply(c)
			}
			number, ref := uint64(0), comms.DatasetRef{}
			finish := func(agent int, epoch uint64, attempt uint32) {
				number++
				d := comms.Desc{Ref: ref, Attempt: attempt, Place: comms.Place{Kind: comms.PlaceInline, Bytes: []byte(wordOf(job, ref))}}
				w.oracle.facts[job].begun[0] = attempt
				commit(core.Batch{Agent: w.agents[agent].name, Epoch: epoch, First: number,
					Events: []comms.Event{{Kind: comms.EventFinished, Attempt: attempt, Outputs: []comms.Desc{d}}}})
			}
			finish(0, 1, 1)
			w.oracle.facts[job].lost(0)
			commit(core.Batch{Epoch: 1, Reset: []comms.Range{{First: 0, Last: 0}}, Why: steerReason, Granting: core.GrantBegun})
			finish(1, 2, 1<<16|2)
			if w.failed != nil {
				t.Fatal(w.failed)
			}
			for _, attempt := range c.attempts {
				finish(c.agent, c.epoch, attempt)
			}
			if (w.failed != nil) != c.fails {
				t.Errorf("the oracle says %v", w.failed)
			}
		})
	}
}
