package main

import (
	"reflect"
	"testing"

	"github.com/cascade-run/cascade/comms"
)

// Calls that have not ended are told once each, by the agent that runs them, those called first before others.
func TestOpenCalls(t *testing.T) {
	at := func(agent, name, kind, state, on, waits string, age, ran float64) *comms.ReferenceRow {
		return &comms.ReferenceRow{Agent: agent, Name: name, Kind: kind, Function: "F", State: state, Host: on, Waits: waits, Age: age, Ran: ran}
	}
	calls := openOf([]*comms.ReferenceRow{
		at("b", "root/3", "call", "running", "b", "", 1, 0.5), // before the row of its owner
		at("a", "root/0", "call", "done", "", "", 9, 0),
		at("a", "root/1", "value", "done", "", "", 9, 0),
		at("a", "root/2", "call", "away", "c", "", 4, 0), // whose agent has no row yet
		at("a", "root/3", "call", "away", "b", "", 5, 0),
		at("a", "root/4", "call", "away", "b", "", 3, 0),
		at("a", "root/5", "call", "waiting", "", "the result of root/4", 2, 0),
		at("a", "root/6", "call", "waiting", "", "", 1, 0), // of an agent that does not tell more
		at("b", "root/4", "call", "ready", "b", "its turn in executor 1", 2, 0),
		at("b", "root/1", "remote", "waiting", "", "", 2, 0),
	})
	want := []openCall{
		{"root/3", "F", "running", "b", "", 5, 0.5},
		{"root/2", "F", "away", "c", "", 4, 0},
		{"root/4", "F", "ready", "b", "its turn in executor 1", 3, 0},
		{"root/5", "F", "waiting", "", "the result of root/4", 2, 0},
		{"root/6", "F", "waiting", "", "", 1, 0},
	}
	if !reflect.DeepEqual(calls, want) {
		t.Errorf("found are\n%+v, want\n%+v", calls, want)
	}
	does := []string{"runs on b", "was given to c", "on b, waits for its turn in executor 1", "waits for the result of root/4", "waiting"}
	for i := range calls {
		if got := calls[i].does(); got != does[i] {
			t.Errorf("%s %s, want %s", calls[i].Name, got, does[i])
		}
	}
}
