package core

import (
	"testing"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/controller/records"
)

// An agent that holds what only others read is told that it does: its process may be
// a new one, which would free what it has found in memory.
func TestHolderIsToldWhatOthersRead(t *testing.T) {
	local := comms.Desc{Ref: comms.DatasetRef{Task: 3}, Place: comms.Place{Kind: comms.PlaceSegment, Segment: 7}}
	own := comms.Desc{Ref: comms.DatasetRef{Task: 1}, Place: comms.Place{Kind: comms.PlaceSegment, Segment: 2}}
	far := local
	far.Place = comms.Place{Kind: comms.PlaceAgent, Where: "a1"}
	to := []*comms.Assign{{Datasets: []comms.Desc{own}}, {Datasets: []comms.Desc{far}}, {Datasets: []comms.Desc{far}}}
	keepForOthers(to, []*part{{agent: "a1"}, {agent: "a2"}, {agent: "a3"}}, map[comms.DatasetRef]records.Dataset{local.Ref: {Desc: local, Agent: "a1"}})
	got := to[0].Datasets
	if len(got) != 2 || got[0].Ref != own.Ref || got[1].Ref != local.Ref || got[1].Place.Kind != comms.PlaceSegment {
		t.Errorf("the holder is told of %v", got)
	}
	if len(to[1].Datasets) != 1 || len(to[2].Datasets) != 1 {
		t.Errorf("the others are told of %v and %v", to[1].Datasets, to[2].Datasets)
	}
}
