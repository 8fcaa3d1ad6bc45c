package core

import (
	"math"
	"testing"
	"time"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/dag"
)

// A range of elements that ends with the last number there is does not go on for ever.
func TestReleasedToTheLastElement(t *testing.T) {
	g, err := dag.ParseYAML("job.yaml", []byte("job: x\ntasks:\n  a: {run: A, out: [x]}\n  b: {run: A, in: {x: a.x}, out: [x]}\noutputs: [b.x]\n"), dag.Override{}, dag.Options{})
	if err != nil {
		t.Fatal(err)
	}
	c := New(Config{Agent: "a"})
	id := comms.JobID{1}
	c.Step(time.Unix(1, 0), FromController{Graph: g, Msg: &comms.Assign{Job: id, Epoch: 1, Run: []comms.Range{{First: 0, Last: 0}},
		Peers: []comms.Fragment{{Agent: "b", Run: []comms.Range{{First: 1, Last: 1}}}}}})
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
