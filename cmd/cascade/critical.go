package main

import (
	"fmt"
	"slices"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/dag"
)

// paths finds the heaviest path to each task that it visits.
type paths struct {
	g       *dag.Graph
	took    map[dag.TaskIndex]float64       // seconds of the tasks that are done
	finish  map[dag.TaskIndex]float64       // seconds of the heaviest path to a task's end
	before  map[dag.TaskIndex]dag.TaskIndex // the task before it on that path
	members map[string][]dag.TaskIndex      // of families over elements: the graph has no members of them
	last    map[string]dag.TaskIndex        // of such a family, once it is known: which ends last
}

// criticalPath returns the heaviest path of the graph by the durations that the
// tasks that are done took, in seconds, and the names along it.
func criticalPath(g *dag.Graph, rows []comms.TaskRow) (float64, []string, error) {
	p := &paths{g: g, took: map[dag.TaskIndex]float64{}, finish: map[dag.TaskIndex]float64{}, before: map[dag.TaskIndex]dag.TaskIndex{},
		members: map[string][]dag.TaskIndex{}, last: map[string]dag.TaskIndex{}}
	indices := make([]dag.TaskIndex, 0, len(rows))
	for _, r := range rows {
		i := dag.TaskIndex(r.Index)
		if r.State == "done" {
			p.took[i] = r.Seconds
		}
		indices = append(indices, i)
		p.members[r.Group] = append(p.members[r.Group], i)
	}
	for _, i := range append(g.Order(), indices...) {
		if err := p.visit(i); err != nil {
			return 0, nil, err
		}
	}
	if len(indices) == 0 {
		return 0, nil, nil
	}
	slices.Sort(indices)
	end := p.latest(indices)
	names := []string{g.TaskName(end)}
	for i, ok := p.before[end]; ok; i, ok = p.before[i] {
		names = append(names, g.TaskName(i))
	}
	slices.Reverse(names)
	return p.finish[end], names, nil
}

func (p *paths) visit(i dag.TaskIndex) error {
	if _, done := p.finish[i]; done {
		return nil
	}
	inputs, err := p.g.Inputs(i)
	if err != nil {
		return fmt.Errorf("critical path: inputs of %s: %w", p.g.TaskName(i), err)
	}
	best, at := 0.0, i
	for _, in := range inputs {
		for _, s := range in.Sources {
			b, ok, err := p.producer(s)
			if err != nil {
				return err
			}
			if ok && p.finish[b] > best {
				best, at = p.finish[b], b
			}
		}
	}
	p.finish[i] = best + p.took[i]
	if at != i {
		p.before[i] = at
	}
	return nil
}

// producer visits the task that a source comes from; of a family over elements it
// is the one that ends last, if there is any.
func (p *paths) producer(s dag.Source) (task dag.TaskIndex, ok bool, err error) {
	if s.Kind != dag.SourceGroup {
		return s.Task, true, p.visit(s.Task)
	}
	family := p.g.Group(s.Task).Name
	if i, known := p.last[family]; known || len(p.members[family]) == 0 {
		return i, known, nil
	}
	for _, i := range p.members[family] {
		if err := p.visit(i); err != nil {
			return 0, false, err
		}
	}
	p.last[family] = p.latest(p.members[family])
	return p.last[family], true, nil
}

// latest returns the first of the tasks whose path is the heaviest.
func (p *paths) latest(tasks []dag.TaskIndex) dag.TaskIndex {
	end := tasks[0]
	for _, i := range tasks {
		if p.finish[i] > p.finish[end] {
			end = i
		}
	}
	return end
}
