package core

import (
	"testing"

	"github.com/cascade-run/cascade/comms"
)

// Who asks for a copy while it leaves the memory of its holder gets it when it has
// left, and is not told that it is nowhere.
func TestAskedForWhileItLeaves(t *testing.T) {
	n := pair(t)
	n.worlds[0].segment = 1000
	n.worlds[1].hold = true // so that the maker keeps it
	g := graph(t, chainJob)
	of := []int{0, 1}
	job := n.spread(1, g, comms.Assign{}, of)
	n.run()
	c := n.worlds[0].c
	k := offerKey{comms.DatasetID{Job: job}, 1}
	step := func(ev Event) (offers, refusals, withdrawals int) {
		for _, a := range c.Step(c.now, ev) {
			switch a.(type) {
			case Offer:
				offers++
			case NotHere:
				refusals++
			case Withdraw:
				withdrawals++
			}
		}
		return
	}
	if c.offers[k] == nil {
		step(Wanted{Data: k.data, Attempt: k.attempt})
	}
	o := c.offers[k]
	if o == nil || !o.offered {
		t.Fatalf("the maker offers nothing: %+v", o)
	}
	if !o.withdrawn {
		c.withdraw(o)
	}
	if offers, refusals, _ := step(Wanted{Data: k.data, Attempt: k.attempt}); offers+refusals != 0 {
		t.Errorf("while it leaves there are %d offers and %d refusals", offers, refusals)
	}
	if offers, refusals, _ := step(Withdrawn{Data: k.data, Attempt: k.attempt}); offers != 1 || refusals != 0 {
		t.Errorf("when it has left there are %d offers and %d refusals, want one offer", offers, refusals)
	}
	n.worlds[1].hold = false
	n.worlds[1].commitAll()
	n.run()
	n.allEnded(job, of)
}
