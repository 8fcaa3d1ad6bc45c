package sim

import (
	"slices"

	agentcore "github.com/cascade-run/cascade/agent/core"
	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/controller/core"
	"github.com/cascade-run/cascade/controller/records"
	"github.com/cascade-run/cascade/dag"
)

// smallest looks at a decision that makes tasks start over because something was
// lost. A task that is done may be among them only when a dataset of its is gone
// that is an output of the job, or that a task reads which runs. As graphs have no
// cycles, that each task has such a cause makes the set the smallest one. And what
// an agent has that goes on stays with it.
func (o *oracle) smallest(k *core.Kept, r *records.Job, b *records.Batch) {
	if b.Agent != "" || len(b.Reset)+len(b.Moved) == 0 || b.Why == steerReason || o.facts[r.ID].varies {
		return
	}
	past := k.Past()
	again := func(t dag.TaskIndex) bool {
		in := func(r comms.Range) bool { return r.First <= t && t <= r.Last }
		return slices.ContainsFunc(b.Reset, in) || slices.ContainsFunc(b.Moved, in)
	}
	data := map[comms.DatasetRef]records.Dataset{}
	for _, d := range past.Data {
		data[d.Desc.Ref] = d
	}
	stays := func(agent string) bool {
		same := func(f records.Assignment) bool { return f.Agent == agent }
		was, is := slices.IndexFunc(workers(&k.Row), same), slices.IndexFunc(workers(r), same)
		return was >= 0 && is >= 0 && workers(&k.Row)[was].Incarnation == workers(r)[is].Incarnation
	}
	there := func(ref comms.DatasetRef) bool {
		d, ok := data[ref]
		return ok && (d.Desc.Place.Kind == comms.PlaceInline || stays(d.Agent) && o.w.has(d.Agent, r.ID, &d.Desc))
	}
	// cause finds datasets that make their tasks run: those that are not there.
	cause := map[dag.TaskIndex]bool{}
	reads := func(t dag.TaskIndex) {
		ins, err := k.Graph.Inputs(t)
		if err != nil {
			return
		}
		for i := range ins {
			for _, src := range ins[i].Sources {
				refs, whole := past.States.Expand(src)
				if !whole {
					cause[o.facts[r.ID].producer(src)] = true
				}
				for _, ref := range refs {
					if !there(ref) {
						cause[ref.Task] = true
					}
				}
			}
		}
	}
	past.States.Each(func(t dag.TaskIndex, s core.TaskState) {
		if s.Over() && !again(t) {
			return
		}
		reads(t)
		for out := range k.Graph.Group(t).Outputs { // what all that follow it read
			for _, slot := range k.Graph.StreamSlots(t, uint32(out)) {
				if first, err := k.Graph.Instance(slot, 0); err == nil {
					reads(first)
				}
			}
		}
	})
	for i := range k.Graph.Exports {
		for _, src := range k.Graph.Exports[i].Sources {
			refs, _ := past.States.Expand(src)
			for _, ref := range refs {
				if !there(ref) {
					cause[ref.Task] = true
				}
			}
		}
	}
	past.States.Each(func(t dag.TaskIndex, s core.TaskState) {
		if again(t) && s == core.TaskDone && !cause[t] && !o.facts[r.ID].freed(past, t) && !o.facts[r.ID].withOthers(past, t, cause) {
			o.w.fail(r.ID, "task %d is made to start over (%s): it is done, and nothing that is needed of it is gone", t, b.Why)
		}
	})
	o.handedOn(k, r, b, past, stays)
}

// withOthers tells whether a task starts over because another of its gang does,
// that has not ended or of which something is needed and gone.
func (f *facts) withOthers(past *core.Past, t dag.TaskIndex, cause map[dag.TaskIndex]bool) bool {
	return slices.ContainsFunc(f.members(t), func(m dag.TaskIndex) bool {
		s, _ := past.States.Get(m)
		return m != t && (s != core.TaskDone || cause[m] || f.freed(past, m))
	})
}

// has tells whether an agent has the bytes of a dataset. The news of one that was published may
// come when its readers have released it.
func (w *world) has(name string, job comms.JobID, d *comms.Desc) bool {
	i := slices.IndexFunc(w.agents, func(a *agent) bool { return a.name == name })
	return i >= 0 && w.agents[i].mem.has(agentcore.Key(job, d))
}

// freed tells whether something that a task made was needed no more, and may have been freed.
func (f *facts) freed(past *core.Past, t dag.TaskIndex) bool {
	for _, d := range past.Data {
		if d.Desc.Ref.Task != t || d.Desc.Place.Kind == comms.PlaceInline {
			continue
		}
		wanted := false
		past.States.Each(func(c dag.TaskIndex, s core.TaskState) {
			if wanted || s.Over() {
				return
			}
			ins, err := f.g.Inputs(c)
			for i := range ins {
				for _, src := range ins[i].Sources {
					refs, _ := past.States.Expand(src)
					wanted = wanted || err == nil && slices.Contains(refs, d.Desc.Ref)
				}
			}
		})
		if !wanted {
			return true
		}
	}
	return false
}

// producer is the task that says how many datasets a source stands for.
func (f *facts) producer(src dag.Source) dag.TaskIndex {
	if st := f.g.Group(src.Task).Stream; src.Kind == dag.SourceGroup && st != nil {
		return st.Generator
	}
	return src.Task
}

// handedOn looks at tasks that change hands: the agent that had one is gone or has
// set it aside, or the task is done, or has to do with a generator.
func (o *oracle) handedOn(k *core.Kept, r *records.Job, b *records.Batch, past *core.Past, stays func(string) bool) {
	before := past.Given
	on := k.Row.Assignments
	alone := len(on) == 0 || len(on) == 1 && len(on[0].Run) == 0
	if alone && k.Row.Homeless {
		return // it was on one, which did not have all: which is not known
	}
	if alone { // what was given before that is past
		before = workers(&k.Row)
		for i := range before {
			before[i].Run = []comms.Range{{Last: ^dag.TaskIndex(0)}}
		}
	}
	for _, m := range b.Moved {
		for t := m.First; t <= m.Last; t++ {
			if s, _ := past.States.Get(t); s.Over() || k.Graph.Group(t).Stream != nil ||
				slices.ContainsFunc(k.Graph.Group(t).Outputs, func(o dag.OutputDecl) bool { return o.Generate != dag.GenerateNone }) ||
				o.facts[k.Row.ID].uprooted(t, past, before, func(f records.Assignment) bool { return stays(f.Agent) && !o.w.leaves(f) }) {
				continue
			}
			for _, f := range before {
				if !has(b.Given, r, f.Agent, t) && stays(f.Agent) && !o.w.leaves(f) && !o.facts[k.Row.ID].gave(t, f, b.Epoch) && !o.outgrew(o.facts[k.Row.ID], t, f.Agent) && slices.ContainsFunc(f.Run, func(r comms.Range) bool { return r.First <= t && t <= r.Last }) {
					o.w.fail(k.Row.ID, "task %d is taken from %s, which goes on", t, f.Agent)
				}
			}
		}
	}
}

// uprooted tells whether a task goes elsewhere with its gang, of which another member
// has no agent any more: also one that has ended, as the gang restarts whole.
func (f *facts) uprooted(t dag.TaskIndex, past *core.Past, before []records.Assignment, stays func(records.Assignment) bool) bool {
	return slices.ContainsFunc(f.members(t), func(m dag.TaskIndex) bool {
		s, _ := past.States.Get(m)
		return m != t && s.Over() || m != t && !slices.ContainsFunc(before, func(at records.Assignment) bool {
			return stays(at) && slices.ContainsFunc(at.Run, func(r comms.Range) bool { return r.First <= m && m <= r.Last })
		})
	})
}

// has tells whether an agent is given a task. One that has lost it, as an Assign
// that never came, starts it over.
func has(given []records.Assignment, r *records.Job, agent string, t dag.TaskIndex) bool {
	if given == nil {
		return r.Agent == agent
	}
	return slices.ContainsFunc(given, func(f records.Assignment) bool {
		return f.Agent == agent && slices.ContainsFunc(f.Run, func(r comms.Range) bool { return r.First <= t && t <= r.Last })
	})
}
