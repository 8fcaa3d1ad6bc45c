package core

import (
	"slices"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/dag"
)

// Lineage answers what must run again. Its functions say what is so now.
type Lineage struct {
	Graph     *dag.Graph
	State     func(dag.TaskIndex) TaskState
	Expand    func(dag.Source) (refs []comms.DatasetRef, complete bool) // see States.Expand
	Available func(comms.DatasetRef) bool
	Strict    bool // producers that failed run again even where their absence is tolerated
}

// Needed returns the smallest set of tasks that must run so that every target
// ends and every wanted dataset is available, sorted. A target that is done does
// not run for its own sake. A task that runs needs the datasets of its inputs;
// the producers of those that are not available run too, and so on: the set is
// the least fixed point of that rule, so no smaller one will do. A producer that
// has failed runs again only where its absence is not tolerated (InputDecl.Min);
// with Strict, which is for an agent that does not know of the failure, always.
// Time and memory are in proportion to the tasks that run and their inputs.
func (l *Lineage) Needed(targets []dag.TaskIndex, wanted []comms.DatasetRef) ([]dag.TaskIndex, error) {
	run := map[dag.TaskIndex]struct{}{}
	var todo []dag.TaskIndex
	add := func(t dag.TaskIndex) {
		if _, ok := run[t]; !ok {
			run[t] = struct{}{}
			todo = append(todo, t)
		}
	}
	for _, t := range targets {
		if l.State(t) != TaskDone {
			add(t)
		}
	}
	for _, r := range wanted {
		if !l.Available(r) {
			add(r.Task)
		}
	}
	for len(todo) > 0 {
		t := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		inputs, err := l.Graph.Inputs(t)
		if err != nil {
			return nil, err
		}
		for i := range inputs {
			for _, src := range inputs[i].Sources {
				l.require(src, inputs[i].Min > 0 && !l.Strict, add)
			}
		}
	}
	out := make([]dag.TaskIndex, 0, len(run))
	for t := range run {
		out = append(out, t)
	}
	slices.Sort(out)
	return out, nil
}

// require adds the producers that must run for a source. tolerant: those that
// failed, were skipped or cancelled need not.
func (l *Lineage) require(src dag.Source, tolerant bool, add func(dag.TaskIndex)) {
	refs, complete := l.Expand(src)
	if !complete {
		producer := src.Task
		if src.Kind == dag.SourceGroup {
			producer = l.Graph.Group(src.Task).Stream.Generator
		}
		if state := l.State(producer); !(tolerant && state.Over() && state != TaskDone) {
			add(producer)
		}
	}
	for _, r := range refs {
		if l.Available(r) {
			continue
		}
		if state := l.State(r.Task); tolerant && state.Over() && state != TaskDone {
			continue
		}
		add(r.Task)
	}
}

// descendants returns roots and every task that depends on them, sorted. Of
// streamed groups it lists the instances that exist.
func descendants(s *States, roots []dag.TaskIndex) []dag.TaskIndex {
	seen := map[dag.TaskIndex]struct{}{}
	todo := slices.Clone(roots)
	for _, t := range roots {
		seen[t] = struct{}{}
	}
	add := func(t dag.TaskIndex) {
		if _, ok := seen[t]; !ok && s.get(t) != TaskAbsent {
			seen[t] = struct{}{}
			todo = append(todo, t)
		}
	}
	instances := func(slot int) {
		first, err := s.g.Instance(slot, 0)
		if err != nil {
			return
		}
		stream := s.g.Group(first).Stream
		if stream == nil {
			return
		}
		n, _ := s.Elements(stream.Generator, stream.Output)
		for e := range n {
			if i, err := s.g.Instance(slot, e); err == nil {
				add(i)
			}
		}
	}
	for len(todo) > 0 {
		t := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		for _, e := range s.g.Consumers(t) {
			add(e.Consumer)
		}
		for o := range s.g.Group(t).Outputs {
			for _, slot := range s.g.StreamSlots(t, uint32(o)) {
				instances(slot)
			}
			for _, slot := range s.g.SlotConsumers(t, uint32(o)) {
				instances(slot)
			}
		}
	}
	out := make([]dag.TaskIndex, 0, len(seen))
	for t := range seen {
		out = append(out, t)
	}
	slices.Sort(out)
	return out
}

// ranges packs sorted tasks.
func ranges(tasks []dag.TaskIndex) (out []comms.Range) {
	for _, t := range tasks {
		if n := len(out); n > 0 && out[n-1].Last+1 == t {
			out[n-1].Last = t
		} else {
			out = append(out, comms.Range{First: t, Last: t})
		}
	}
	return out
}
