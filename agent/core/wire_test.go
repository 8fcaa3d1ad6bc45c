package core

import (
	"math"
	"testing"
	"time"

	"github.com/cascade-run/cascade/comms"
)

// A range of elements that ends with the last number there is does not go on for ever.
func TestReleasedToTheLastElement(t *testing.T) {
	g := graph(t, "job: x\ntasks:\n  a: {run: A, out: [x]}\n  b: {run: A, in: {x: a.x}, out: [x]}\noutputs: [b.x]\n")
	c := New(Config{Agent: "a"})
	id := comms.JobID{1}
	c.Step(time.Unix(1, 0), FromController{Graph: g, Msg: &comms.Assign{Job: id, Epoch: 1, Run: []comms.Range{{First: 0, Last: 0}},
		Peers: []comms.Assignment{{Agent: "b", Run: []comms.Range{{First: 1, Last: 1}}}}}})
	j := c.byJob[id]
	j.peers.out[comms.DatasetRef{}] = j.peers.list
	over := make(chan struct{})
	go func() {
		defer close(over)
		c.releasedBy("b", &comms.Released{Job: id, Epoch: 1, Data: []comms.ReleasedRange{{First: math.MaxUint64, Last: math.MaxUint64}}})
	}()
	select {
	case <-over:
	case <-time.After(5 * time.Second):
		t.Fatal("it does not end")
	}
}

// An offer that the driver could not serve is made again for who asks next: else
// nobody would answer.
func TestOfferThatFailedIsMadeAgain(t *testing.T) {
	c := New(Config{Agent: "a"})
	id, ref := comms.JobID{1}, comms.DatasetRef{}
	c.byJob[id] = &job{id: id, data: map[comms.DatasetRef]*dataset{ref: {desc: comms.Desc{Ref: ref, Attempt: 1, Size: 1, Place: comms.Place{Kind: comms.PlaceInline, Bytes: []byte{1}}}}}}
	offers := func(ev Event) (n int) {
		for _, a := range c.Step(time.Unix(1, 0), ev) {
			if _, ok := a.(Offer); ok {
				n++
			}
		}
		return n
	}
	data := comms.DatasetID{Job: id, DatasetRef: ref}
	if n := offers(Wanted{Data: data, Attempt: 1}); n != 1 {
		t.Fatalf("%d offers", n)
	}
	if offers(NotOffered{Data: data, Attempt: 1}); len(c.offers) > 0 {
		t.Error("it is offered still")
	}
	if n := offers(Wanted{Data: data, Attempt: 1}); n != 1 {
		t.Errorf("%d offers when it is asked for again", n)
	}
}
