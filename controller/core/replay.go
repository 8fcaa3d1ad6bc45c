package core

import (
	"maps"
	"slices"
	"sort"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/controller/records"
	"github.com/cascade-run/cascade/dag"
)

// Replay rebuilds what is known of a job from its batches: call Add for each in order.
type Replay struct {
	States  *States
	Batches uint64               // number of the next batch
	Given   []records.Assignment // who has which tasks, as decided last
	data    map[comms.DatasetRef]records.Dataset
}

// NewReplay returns an empty Replay; with data it also collects the datasets.
func NewReplay(g *dag.Graph, data bool) *Replay {
	r := &Replay{States: NewStates(g)}
	if data {
		r.data = map[comms.DatasetRef]records.Dataset{}
	}
	return r
}

// Add takes one batch in.
func (r *Replay) Add(b *records.Batch) {
	r.Batches = max(r.Batches, b.Number+1)
	r.States.StartOver(b)
	forget(r.data, b.Reset)
	forget(r.data, b.Moved)
	r.States.At(b)
	if b.Given != nil {
		r.Given = b.Given
	}
	for i := range b.Events {
		e := &b.Events[i]
		if r.States.Apply(e) && r.data != nil {
			collect(r.data, e, b.Agent)
		}
	}
	r.States.Cancel(b.Cancelled)
}

// forget removes what tasks have made that start over.
func forget(data map[comms.DatasetRef]records.Dataset, tasks []comms.Range) {
	if len(tasks) == 0 {
		return
	}
	for ref := range data {
		if i := sort.Search(len(tasks), func(i int) bool { return tasks[i].Last >= ref.Task }); i < len(tasks) && tasks[i].First <= ref.Task {
			delete(data, ref)
		}
	}
}

// Data returns the datasets that were published and not lost since, sorted.
func (r *Replay) Data() []records.Dataset {
	return sortedData(r.data)
}

func sortedData(m map[comms.DatasetRef]records.Dataset) []records.Dataset {
	out := slices.Collect(maps.Values(m))
	slices.SortFunc(out, func(a, b records.Dataset) int { return a.Desc.Ref.Compare(b.Desc.Ref) })
	return out
}

// collect notes in m what an event says of datasets.
func collect(m map[comms.DatasetRef]records.Dataset, e *comms.Event, agent string) {
	if e.Kind == comms.EventLost {
		delete(m, e.Cause.Ref)
		return
	}
	for i := range e.Outputs {
		m[e.Outputs[i].Ref] = records.Dataset{Desc: e.Outputs[i], Agent: agent}
	}
}
