package sim

import (
	"fmt"
	"slices"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/controller/core"
	"github.com/cascade-run/cascade/controller/records"
	"github.com/cascade-run/cascade/dag"
)

// badEnd is why a task was skipped or cancelled.
type badEnd struct {
	attempt uint32
	cause   comms.Cause
	stays   bool // a client had the task run again for which it was, alone
}

// endsBadly takes in the end of a task that did not run, or was cancelled while it did,
// unless it had ended in that attempt; what comes of a later attempt makes it void.
func (f *facts) endsBadly(e *comms.Event) {
	end, is := f.badly[e.Task]
	switch {
	case is && e.Attempt <= end.attempt:
	case e.Kind == comms.EventSkipped || e.Kind == comms.EventCancelled:
		f.badly[e.Task] = badEnd{attempt: e.Attempt, cause: e.Cause}
	default:
		delete(f.badly, e.Task)
	}
}

// cutOff tells whether a task was skipped or cancelled for another: it may have another chance.
func (f *facts) cutOff(t dag.TaskIndex) bool { return f.badly[t].cause.Kind == comms.CauseTask }

// another gives a task another chance. If it was skipped or cancelled for another, what it had
// published counts no more, and what it reads may have been let go by those who made it.
func (f *facts) another(t dag.TaskIndex) {
	if f.cutOff(t) {
		f.startsOver(comms.Range{First: t, Last: t})
		f.lost(t)
	}
	delete(f.badly, t)
}

// stay takes in that a client has tasks run again, whose failure was known: what was
// skipped or cancelled for one of those, and does not run with it, keeps that end.
func (f *facts) stay(s *core.States, b *records.Batch) {
	for t, end := range f.badly {
		if by := end.cause.Ref.Task; f.cutOff(t) && startsOver(b, by) && !startsOver(b, t) && f.bad(s, by) {
			end.stays = true
			f.badly[t] = end
		}
	}
}

func startsOver(b *records.Batch, t dag.TaskIndex) bool {
	in := func(r comms.Range) bool { return r.First <= t && t <= r.Last }
	return slices.ContainsFunc(b.Reset, in) || slices.ContainsFunc(b.Moved, in)
}

// settled looks at a job whose end has just been stored: what did not come to be has a
// cause that counts, however late the news of it came and whoever died with them.
func (o *oracle) settled(k *core.Kept, c *records.Commit) {
	f := o.facts[c.Job]
	if f.fails = f.fails || k.Row.Fails; c.Row == nil || !c.Row.Phase.Final() || f.cancel {
		return
	}
	s, failed, stops := k.Past().States, false, false
	s.Each(func(t dag.TaskIndex, state core.TaskState) {
		stops = stops || state == core.TaskFailed && !f.g.MayFail(f.g.GroupIndex(t))
	})
	s.Each(func(t dag.TaskIndex, state core.TaskState) {
		failed = failed || state == core.TaskFailed || f.badly[t].stays
		if state != core.TaskSkipped && state != core.TaskCancelled || f.fails { // the controller has stopped it
			return
		}
		if stops && state == core.TaskCancelled && !f.cutOff(t) {
			return // by a controller that had stopped the job for that, and died before that was stored
		}
		if why := f.groundless(s, t); why != "" {
			o.w.fail(c.Job, "the job is %s with task %s %s, and %s", k.Row.Phase, k.Graph.TaskName(t), state, why)
		}
	})
	stopped := k.Row.Fails && f.g.Rebuilt != dag.RebuiltFail // for a failure, not for what differs
	if k.Row.Phase == comms.JobFailed && !failed && (stopped || !f.fails) {
		o.w.fail(c.Job, "the job has failed although none of its tasks did: %v", k.Row.Error)
	}
}

// unskip takes in that tasks start over which had ended badly: what they were to read, and those that
// follow the elements that they make, may have been let go for that.
func (f *facts) unskip(k *core.Kept, b *records.Batch) {
	if len(b.Reset) == 0 {
		return
	}
	before := k.Past().States
	for _, r := range b.Reset {
		for t := r.First; t <= r.Last; t++ {
			if state, _ := before.Get(t); state.Over() && state != core.TaskDone {
				f.mayAgain(f.withFollowers(f.needs(t)))
			}
		}
	}
}

// groundless says, of a task that was skipped or cancelled in a job that is over, that it should
// not have been; "" when it should. Its cause must have ended badly itself: it has stopped the job,
// or is of the same gang, or the task lacks something.
func (f *facts) groundless(s *core.States, t dag.TaskIndex) string {
	end := f.badly[t]
	by, has := end.cause.Ref.Task, f.cutOff(t)
	if end.stays {
		return ""
	}
	if has && !f.bad(s, by) && f.late[by] > f.done[by] { // it had to run again, and failed: the job had ended when that came
		return ""
	}
	if has && !f.bad(s, by) {
		state, _ := s.Get(by)
		return fmt.Sprintf("%s, for which it is, is %s", f.g.TaskName(by), state)
	}
	if state, _ := s.Get(by); has && state == core.TaskFailed && !f.g.MayFail(f.g.GroupIndex(by)) {
		return ""
	}
	if slices.ContainsFunc(f.members(t), func(m dag.TaskIndex) bool { return m != t && f.bad(s, m) }) || f.lacks(s, t) {
		return ""
	}
	return "all that it reads is there"
}

// bad tells whether a task has ended, and not well; of an instance that never was, whether its generator has.
func (f *facts) bad(s *core.States, t dag.TaskIndex) bool {
	state, _ := s.Get(t)
	if st := f.g.Group(t).Stream; st != nil && state == core.TaskAbsent {
		return f.bad(s, st.Generator)
	}
	return state.Over() && state != core.TaskDone
}

// lacks tells whether something does not come that a task cannot do without.
func (f *facts) lacks(s *core.States, t dag.TaskIndex) bool {
	ins, err := f.g.Inputs(t)
	return err != nil || slices.ContainsFunc(ins, func(in dag.Input) bool {
		there, all := 0, true
		for _, src := range in.Sources {
			refs, complete := s.Expand(src)
			all = all && complete && !f.bad(s, f.producer(src))
			for _, ref := range refs {
				if state, _ := s.Get(ref.Task); state == core.TaskDone && f.listed(s, ref.Task) {
					there++
				} else {
					all = false
				}
			}
		}
		return !all && (in.Min == 0 || there < in.Min)
	})
}

// listed tells whether a list of what follows a generator has a task. When the generator has run again and failed, its
// stream is as long as it was then: what was made for elements before is still there, and is not listed.
func (f *facts) listed(s *core.States, t dag.TaskIndex) bool {
	st := f.g.Group(t).Stream
	if st == nil || !f.bad(s, st.Generator) {
		return true
	}
	_, element, _ := f.g.Slot(t)
	made := f.made[comms.DatasetRef{Task: st.Generator, Output: st.Output, Element: element}]
	return made.attempt > f.fence[st.Generator] && !made.lost
}
