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
	Published func(comms.DatasetRef) bool               // it was there once
	Begun     func(dag.TaskIndex) bool                  // it goes on with all that it reads; nil: none does
	LivesOn   func(reader, producer dag.TaskIndex) bool // its agent goes on with both: what was not published is there
	Again     bool                                      // what ended badly is tried again where something that runs needs it
}

// Needed returns the smallest set of tasks that must run so that every target
// ends and every wanted dataset is available, sorted. A target that is done does
// not run for its own sake. A task that runs needs the datasets of its inputs;
// the producers of those that are not available run too, and so on: the set is
// the least fixed point of that rule, so no smaller one will do. A producer that
// ended badly runs again only for what it had published and is gone, unless Again
// is set, and not where its absence is tolerated (InputDecl.Min): a task that
// needs what it never made is skipped. One that is done and never published what a
// task reads has left it to that one alone, which may be living on it (LivesOn).
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
		if l.Begun != nil && l.Begun(t) {
			continue
		}
		inputs, err := neededBy(l.Graph, t, l.State, l.Expand)
		if err != nil {
			return nil, err
		}
		for i := range inputs {
			tolerant := inputs[i].Min > 0 && l.enough(&inputs[i])
			for _, src := range inputs[i].Sources {
				l.require(t, src, tolerant, add)
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

// neededBy returns the inputs of a task that runs, and, of a generator, what all
// instances that will follow its elements have in common: their number is not known
// yet, but what they need must be there. None will be of a stream
// that had its end before, and whose instances are over.
func neededBy(g *dag.Graph, t dag.TaskIndex, state func(dag.TaskIndex) TaskState, expand func(dag.Source) ([]comms.DatasetRef, bool)) ([]dag.Input, error) {
	inputs, err := g.Inputs(t)
	if err != nil {
		return nil, err
	}
	for o := range g.Group(t).Outputs {
		for _, slot := range g.StreamSlots(t, uint32(o)) {
			zero, err0 := g.Instance(slot, 0)
			one, err1 := g.Instance(slot, 1)
			all, ended := expand(dag.Source{Kind: dag.SourceGroup, Task: zero})
			if err0 != nil || err1 != nil || ended && !slices.ContainsFunc(all, func(r comms.DatasetRef) bool { return !state(r.Task).Over() }) {
				continue
			}
			a, err := g.Inputs(zero)
			if err != nil {
				return nil, err
			}
			b, err := g.Inputs(one)
			if err != nil {
				return nil, err
			}
			for i := range a {
				shared := dag.Input{Min: a[i].Min}
				for k, src := range a[i].Sources {
					if k < len(b[i].Sources) && src == b[i].Sources[k] && src.Task != t {
						shared.Sources = append(shared.Sources, src)
					}
				}
				if len(shared.Sources) > 0 {
					inputs = append(inputs, shared)
				}
			}
		}
	}
	return inputs, nil
}

// enough tells whether an input can get its Min of datasets without those of
// producers that ended badly.
func (l *Lineage) enough(in *dag.Input) bool {
	n := 0
	for _, src := range in.Sources {
		refs, complete := l.Expand(src)
		if !complete && !l.bad(producer(l.Graph, src)) {
			return true // how many there will be is not known
		}
		for _, r := range refs {
			if l.Available(r) || !l.bad(r.Task) {
				n++
			}
		}
	}
	return n >= in.Min
}

// bad tells whether a task has ended, and not well.
func (l *Lineage) bad(t dag.TaskIndex) bool {
	s := l.State(t)
	return s.Over() && s != TaskDone
}

// producer is the task that says how many datasets a source stands for.
func producer(g *dag.Graph, src dag.Source) dag.TaskIndex {
	if src.Kind == dag.SourceGroup {
		return g.Group(src.Task).Stream.Generator
	}
	return src.Task
}

// require adds the producers that must run for a source of a task. tolerant: those
// that failed, were skipped or cancelled need not.
func (l *Lineage) require(reader dag.TaskIndex, src dag.Source, tolerant bool, add func(dag.TaskIndex)) {
	refs, complete := l.Expand(src)
	if p := producer(l.Graph, src); !complete && (!l.bad(p) || l.Again && !tolerant) {
		add(p)
	}
	for _, r := range refs {
		if l.Available(r) {
			continue
		}
		if l.bad(r.Task) && (tolerant || !l.Again && !l.Published(r)) {
			continue
		}
		if l.State(r.Task) == TaskDone && !l.Published(r) && l.LivesOn != nil && l.LivesOn(reader, r.Task) {
			continue
		}
		add(r.Task)
	}
}

// descendants returns roots and every task that depends on them, sorted: by others of which
// passes says that the way goes on behind them. Of streamed groups it lists the instances that
// exist.
func descendants(s *States, roots []dag.TaskIndex, passes func(dag.TaskIndex) bool) []dag.TaskIndex {
	seen := map[dag.TaskIndex]struct{}{}
	todo := slices.Clone(roots)
	for _, t := range roots {
		seen[t] = struct{}{}
	}
	add := func(t dag.TaskIndex) {
		if _, ok := seen[t]; !ok {
			if seen[t] = struct{}{}; passes(t) {
				todo = append(todo, t)
			}
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
		for e := range max(n, 1) { // who reads the list of all reads it also when there is none
			if i, err := s.g.Instance(slot, e); err == nil {
				add(i)
			}
		}
	}
	// Readers of the list of all instances depend on the generator, which says how many there are, however those ended.
	readers := func(slot int) {
		first, err := s.g.Instance(slot, 0)
		if err != nil {
			return
		}
		for _, e := range s.g.Consumers(first) {
			if e.Kind == dag.SourceGroup {
				add(e.Consumer)
			}
		}
		for o := range s.g.Group(first).Outputs {
			for _, slot := range s.g.SlotConsumers(first, uint32(o)) {
				instances(slot)
			}
		}
	}
	for len(todo) > 0 {
		t := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		for _, m := range gangOf(s.g, t) {
			add(m)
		}
		for _, e := range s.g.Consumers(t) {
			add(e.Consumer)
		}
		for o := range s.g.Group(t).Outputs {
			for _, slot := range s.g.StreamSlots(t, uint32(o)) {
				instances(slot)
				readers(slot)
			}
			for _, slot := range s.g.SlotConsumers(t, uint32(o)) {
				instances(slot)
			}
		}
	}
	out := make([]dag.TaskIndex, 0, len(seen))
	for t := range seen {
		if s.get(t) != TaskAbsent {
			out = append(out, t)
		}
	}
	slices.Sort(out)
	return out
}
