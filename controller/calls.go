package controller

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/controller/gcs"
	"github.com/cascade-run/cascade/dag"
	"github.com/cascade-run/cascade/profiles"
)

// A called task is one event, which its end is. It is stored as any other, and counts for the
// profile of its function; nothing else of it is kept here.

// outcome is how a called task has ended, in the words of the states of tasks.
func outcome(e *comms.Event) string {
	switch {
	case e.Error == nil:
		return "done"
	case e.Error.Kind == comms.ErrorCancelled:
		return "cancelled"
	}
	return "failed"
}

// callStory lists the ends of a called task, and of those that it called.
func (c *Controller) callStory(p *pager, q *comms.Query, g *dag.Graph) error {
	return c.eachCall(p, q, func(e *comms.Event, agent string) bool {
		return e.CallName() != q.Filter && string(e.Parent) != q.Filter || p.add(func() any { return storyRow(g, e, agent) })
	})
}

// callRows lists the called tasks of a job that have ended, in the order in which they did.
func (c *Controller) callRows(p *pager, q *comms.Query, g *dag.Graph) error {
	return c.eachCall(p, q, func(e *comms.Event, agent string) bool {
		var row *comms.CallRow
		if q.Filter != "" {
			if row = callRow(g, e, agent); !callMeets(row, q.Filter) {
				return true
			}
		}
		return p.add(func() any {
			if row == nil {
				row = callRow(g, e, agent)
			}
			return row
		})
	})
}

// recordRows lists the records of a called task, or of those that a task has called, in the order in which they ended.
func (c *Controller) recordRows(p *pager, q *comms.Query) error {
	parent, children := strings.CutSuffix(q.Filter, "/")
	return c.eachCall(p, q, func(e *comms.Event, agent string) bool {
		if e.Called == nil || children && string(e.Parent) != parent || !children && q.Filter != "" && !calledAs(e, q.Filter) {
			return true
		}
		return p.add(func() any { return comms.NewRecordRow(e, agent) })
	})
}

// calledAs tells whether a called task has a name, with or without the part of it that its parent chose.
func calledAs(e *comms.Event, name string) bool {
	if !strings.HasPrefix(name, string(e.Parent)) {
		return false
	}
	return e.CallName() == name || e.Called.Name != "" && string(comms.AppendCallName(nil, e.Parent, "", e.Called.Ref)) == name
}

// eachCall calls f with the end of each called task, until it returns false.
func (c *Controller) eachCall(p *pager, q *comms.Query, f func(e *comms.Event, agent string) bool) error {
	for b, err := range c.store.BatchesOf(q.Job, gcs.Part{From: p.batch, Last: math.MaxUint32}) {
		if err != nil {
			return err
		}
		p.next(b.Number, 0)
		for i := range b.Events {
			e := &b.Events[i]
			if e.Kind == comms.EventCall && !f(e, b.Agent) {
				return nil
			}
		}
	}
	return nil
}

// callMeets tells whether a called task is of a name, a function or a state, or was called by
// the task of the name.
func callMeets(r *comms.CallRow, filter string) bool {
	return filter == r.Name || filter == r.Function || filter == r.State || filter == r.Parent
}

func callRow(g *dag.Graph, e *comms.Event, agent string) *comms.CallRow {
	row := &comms.CallRow{Task: g.TaskName(e.Task), State: outcome(e), Tries: e.Count, Agent: agent, Executor: uint32(e.Executor), Ended: stamp(e.At)}
	t := e.Called
	if t == nil { // of an older agent
		t = &comms.Called{}
		row.Name, row.Function, _ = strings.Cut(e.Cause.Text, " ")
		row.Function, t.Host, _ = strings.Cut(row.Function, " on ")
	} else {
		row.Name, row.Function, row.Parent, row.Strand, row.Number = e.CallName(), t.Function, string(e.Parent), t.Ref.Strand, t.Ref.Number
	}
	if row.Called = stamp(t.Made); t.Host != "" {
		row.Agent = t.Host
	}
	edges, err := comms.ReadEdges(t.Reads)
	for _, x := range edges {
		row.Reads = append(row.Reads, comms.CallReads{Input: x.Port, OfParent: x.From == comms.FromInput, Strand: x.Ref.Strand, Number: x.Ref.Number, Output: x.Output, Element: x.Element})
	}
	if u := e.Usage; u != nil {
		row.Started, row.Seconds, row.CPU = stamp(u.Start), seconds(u.Duration), seconds(u.CPU)
		row.PeakRSS, row.BytesIn, row.BytesOut = u.PeakRSS, u.BytesIn, u.BytesOut
	}
	if e.Error != nil {
		row.Error = e.Error.Text()
	} else if err != nil {
		row.Error = fmt.Sprintf("its inputs are not known: %v", err)
	}
	return row
}

// callCosts are what called tasks of a graph cost, by function, that are not in the profiles yet.
type callCosts struct {
	seen    map[string]uint64
	samples map[string][]profiles.Sample
	n       int
}

// add takes in a called task that ended well: of a function that has been called often one in many.
func (cs *callCosts) add(function string, u *comms.Usage) {
	if cs.seen == nil {
		cs.seen, cs.samples = map[string]uint64{}, map[string][]profiles.Sample{}
	}
	n := cs.seen[function] + 1
	if cs.seen[function] = n; n <= manySamples || n%oneIn == 0 {
		cs.samples[function] = append(cs.samples[function], sampleOf(u))
		cs.n++
	}
}

// fold takes them into the profiles, where called tasks have no group.
func (cs *callCosts) fold(book *profiles.Book, job string) int {
	n := cs.n
	for _, function := range slices.Sorted(maps.Keys(cs.samples)) {
		book.RecordAll(profiles.Signature{Job: job, Function: function}, slices.Values(cs.samples[function]))
	}
	clear(cs.samples)
	cs.n = 0
	return n
}

// countCall counts the end of a called task, and notes what it cost.
func (n *counts) countCall(of *costs, e *comms.Event) {
	switch outcome(e) {
	case "done":
		n.calls[0].Add(1)
		if e.Called != nil && e.Usage != nil {
			of.calls.add(e.Called.Function, e.Usage)
		}
	case "failed":
		n.calls[1].Add(1)
	default:
		n.calls[2].Add(1)
	}
}
