package core

import (
	"maps"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/controller/records"
	"github.com/cascade-run/cascade/dag"
)

// Kept is what a store holds of one job, as a value in memory: it says what Create
// and the commits after it mean. The simulator and the tests of this package keep
// jobs so; controller/gcs keeps them on disk.
type Kept struct {
	Row     records.Job
	Request *comms.Submit
	Graph   *dag.Graph
	Bytes   []byte // encoded graph
	Batches []records.Batch
	Data    map[comms.DatasetRef]records.Dataset // rows, of datasets that outlive the run
	Seen    map[string]records.Seen              // by agent
}

// NewKept is the job that a Create stores. g is its graph, decoded.
func NewKept(c Create, g *dag.Graph) *Kept {
	return &Kept{Row: c.Row, Request: c.Request, Graph: g, Bytes: c.Graph, Data: map[comms.DatasetRef]records.Dataset{}, Seen: map[string]records.Seen{}}
}

// Apply changes the job as a commit asks.
func (k *Kept) Apply(c *records.Commit) {
	if c.Row != nil {
		k.Row = *c.Row
	}
	if c.Batch != nil {
		k.Batches = append(k.Batches, *c.Batch)
	}
	for _, d := range c.Datasets {
		k.Data[d.Desc.Ref] = d
	}
	for _, r := range c.Drop {
		delete(k.Data, r)
	}
	if c.Agent != "" {
		k.Seen[c.Agent] = c.Seen
	}
}

// Past is what the job's batches tell.
func (k *Kept) Past() *Past {
	r := NewReplay(k.Graph, true)
	for i := range k.Batches {
		r.Add(&k.Batches[i])
	}
	return &Past{Row: k.Row, Request: k.Request, States: r.States, Data: r.Data(), Seen: maps.Clone(k.Seen), Batches: r.Batches, Given: r.Given}
}

// Loaded is what the store tells of the job when a controller starts.
func (k *Kept) Loaded() Loaded {
	ev := Loaded{Row: k.Row, Past: &Past{Data: sortedData(k.Data)}}
	if !k.Row.Phase.Final() {
		ev.Request, ev.Graph, ev.Bytes, ev.Past = k.Request, k.Graph, k.Bytes, k.Past()
	}
	return ev
}
