package core

import (
	"reflect"
	"testing"
	"time"

	"github.com/cascade-run/cascade/comms"
)

// What an agent says of the ways to it is passed on once: not when it is told again,
// nor what it says of itself or of agents that nobody knows.
func TestMeasured(t *testing.T) {
	c := New(Config{Incarnation: 1})
	now := time.Unix(1000, 0)
	var got []Action
	step := func(ev Event) {
		for _, a := range c.Step(now, ev) {
			if m, ok := a.(Measured); ok {
				got = append(got, m)
			}
		}
	}
	step(Started{})
	for i, name := range []string{"a", "b"} {
		link := LinkID(i + 1)
		step(LinkUp{Link: link, Agent: true, Name: name, Incarnation: 7})
		step(Received{Link: link, Msg: &comms.Register{Agent: name, Incarnation: 7, Total: comms.Resources{CPU: 1000}}})
		step(Received{Link: link, Msg: &comms.Snapshot{Done: true}})
	}
	flow := comms.Flow{From: "a", Bytes: 1 << 20, Pieces: 1, Nanos: 1e6}
	stranger, self := flow, flow
	stranger.From, self.From = "x", "b"
	m := &comms.Events{First: 1, Flows: []comms.Flow{stranger, flow, self},
		Jobs: []comms.JobEvents{{Job: comms.JobID{1}, Events: []comms.Event{{Kind: comms.EventStarted}}}}}
	step(Received{Link: 2, Msg: m})
	step(Received{Link: 2, Msg: m})
	if want := []Action{Measured{Agent: "b", Flows: []comms.Flow{flow}}}; !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
	if len(m.Flows) != 3 || m.Flows[0].From != "x" {
		t.Error("the message was changed")
	}
}
