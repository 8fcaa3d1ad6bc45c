package core

import (
	"maps"
	"slices"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/controller/records"
	"github.com/cascade-run/cascade/dag"
)

// StartOver takes in what a decision makes start over.
func (s *States) StartOver(b *records.Batch) {
	s.reset(b.Reset, b.Epoch+1, b.Granting)
	s.move(b.Moved, b.Epoch+1, b.Granting)
}

// grant gives a task its next attempt.
func (s *States) grant(t dag.TaskIndex, how records.Granting) {
	_, attempt := s.Get(t)
	if how == records.GrantCounts {
		s.attempt[t] = attempt + 1
		return
	}
	s.attempt[t] = comms.NextGrant(max(attempt, s.first[t]), how == records.GrantTries || s.begun(t))
}

// Reset makes tasks start over from an epoch on, with a new attempt unless the first
// has not begun. The streams of generators among them keep their elements: what is
// published again has the same names. An element that an agent tells of at an epoch
// before is none of them: see void.
func (s *States) Reset(tasks []comms.Range, epoch uint64) { s.reset(tasks, epoch, records.GrantBegun) }

func (s *States) reset(tasks []comms.Range, epoch uint64, how records.Granting) {
	s.over(tasks, func(t dag.TaskIndex) (anew bool) {
		state, attempt := s.Get(t)
		if !state.Over() && state != TaskRunning && attempt <= 1 && s.g.Group(t).Gang == dag.GangNone && !s.missed[t] {
			return false // an agent may begin it meanwhile: that counts; a gang begins as a whole
		}
		s.grant(t, how)
		if how != records.GrantCounts { // a store of an older build took events of before in
			s.fence(t, epoch)
		}
		return how != records.GrantCounts
	})
}

// move gives tasks to another agent from an epoch on: they start over there, with
// an attempt of their own. Later events of the agent before about them are void.
func (s *States) move(tasks []comms.Range, epoch uint64, how records.Granting) {
	s.over(tasks, func(t dag.TaskIndex) (anew bool) {
		s.grant(t, how)
		s.fence(t, epoch)
		return how != records.GrantCounts
	})
}

// cancel ends the tasks that are there and have not ended, and returns them.
func (s *States) cancel() []comms.Range {
	var open []dag.TaskIndex
	s.Each(func(t dag.TaskIndex, st TaskState) {
		if !st.Over() {
			open = append(open, t)
		}
	})
	all := comms.Ranges(open)
	s.Cancel(all)
	return all
}

// Cancel takes in that tasks ended with their job: see Batch.Cancelled.
func (s *States) Cancel(tasks []comms.Range) {
	for _, r := range tasks {
		for i := uint64(r.First); i <= uint64(r.Last); i++ {
			if t := dag.TaskIndex(i); s.get(t) != TaskAbsent && !s.get(t).Over() {
				s.put(t, TaskCancelled)
				delete(s.missed, t)
			}
		}
	}
	if len(tasks) > 0 {
		s.early, s.behind, s.lists = nil, nil, nil
	}
}

// over calls f for each task, which then waits. f tells whether what was said of it before is void.
func (s *States) over(tasks []comms.Range, f func(dag.TaskIndex) (anew bool)) {
	for _, r := range tasks {
		for i := uint64(r.First); i <= uint64(r.Last); i++ {
			t := dag.TaskIndex(i)
			if !s.exists(t) {
				break
			}
			anew := f(t)
			s.put(t, TaskWaiting)
			delete(s.outgrown, t)
			delete(s.missed, t)
			delete(s.cut, t)
			s.fatal = nil
			s.lineage.startsOver(t)
			if len(s.torn) > 0 {
				first, _ := s.g.GangOf(t)
				delete(s.torn, first)
			}
			if anew {
				s.missBehind(t)
			}
		}
	}
}

// fence makes void what was noted of a task before an epoch.
func (s *States) fence(t dag.TaskIndex, epoch uint64) {
	if s.since == nil {
		s.since = map[dag.TaskIndex]uint64{}
	}
	s.since[t] = epoch
}

// void tells whether an event was noted by an agent that had lost its task since.
// An instance of which nothing is known yet went where its generator went.
func (s *States) void(t dag.TaskIndex) bool {
	if s.since == nil {
		return false
	}
	return s.epoch < s.since[s.goesWith(t)]
}

// goesWith returns the task with which another goes to an agent: itself, or the
// generator of an instance of which nothing is known yet.
func (s *States) goesWith(t dag.TaskIndex) dag.TaskIndex {
	if s.get(t) == TaskAbsent {
		if st := s.g.Group(t).Stream; st != nil {
			return st.Generator
		}
	}
	return t
}

// inVain tells whether a task was skipped or cancelled for the failure of one that was
// given out anew since, or for another that was skipped for that. Its agent did not know.
// A reader of a list may have been skipped for several, and names one.
func (s *States) inVain(e *comms.Event) bool {
	anew := func(t dag.TaskIndex) bool { return s.missed[t] || s.void(t) }
	by := e.Cause.Ref.Task
	if e.Cause.Kind != comms.CauseTask || !s.exists(by) {
		return false
	}
	return anew(by) || e.Kind == comms.EventSkipped && len(s.missed)+len(s.since) > 0 && slices.ContainsFunc(s.inDoubt(e.Task), anew)
}

// miss takes in that a task waits for the controller: for its agent it has ended
// until it gets another attempt.
func (s *States) miss(t dag.TaskIndex) {
	if s.missed == nil {
		s.missed = map[dag.TaskIndex]bool{}
	}
	s.missed[t] = true
	begun := s.get(t) == TaskRunning || s.cut[t]
	if s.put(t, TaskWaiting); begun {
		s.cuts(t)
	}
}

// noteEnd takes in that a task comes to run, whose end before counts no more, or ends by
// itself: what ended for it before that was known counts now.
func (s *States) noteEnd(t dag.TaskIndex, to TaskState) {
	if s.early == nil || to == TaskAbsent || to == TaskSkipped || to == TaskCancelled {
		return
	}
	if s.notEarly(t); to.Over() {
		s.countsBehind(t)
	}
}

// notEarly takes a task from those that ended early.
func (s *States) notEarly(t dag.TaskIndex) {
	delete(s.lists, t)
	if delete(s.early, t); len(s.early) == 0 {
		s.early, s.behind, s.lists = nil, nil, nil // maps keep the size that they had
	}
}

// endsFor takes in that a task was skipped or cancelled. Tasks that ended for it before that
// was known count now, unless it is early itself: agents announce an end to each other before
// the controller knows of it, and it never does when that agent dies.
func (s *States) endsFor(e *comms.Event) {
	s.notEarly(e.Task)
	by := e.Cause.Ref.Task
	if e.Cause.Kind == comms.CauseTask && s.exists(by) {
		if s.unsure(by) {
			s.endsEarly(e.Task, by)
			if e.Kind == comms.EventSkipped {
				s.doubt(e.Task)
			}
			return
		}
		if other, is := s.otherCause(e.Task, by); is {
			s.endsEarly(e.Task, other)
			return
		}
	}
	s.countsBehind(e.Task)
}

// endsEarly takes in that a task ended for one whose end is not known.
func (s *States) endsEarly(t, by dag.TaskIndex) {
	if s.early == nil {
		s.early, s.behind = map[dag.TaskIndex]dag.TaskIndex{}, map[dag.TaskIndex][]dag.TaskIndex{}
	}
	s.early[t] = by
	s.behind[by] = append(s.behind[by], t)
	if g := s.goesWith(by); g != by {
		s.behind[g] = append(s.behind[g], t)
	}
}

// unsure tells whether the end of a task is not known, or was for another of which that is so.
func (s *States) unsure(t dag.TaskIndex) bool {
	_, early := s.early[t]
	return early || !s.get(t).Over()
}

// endedWith lists what had been skipped or cancelled for those of some tasks that have ended badly,
// sorted: they start over, for what they had published or with their gang, and their end counts
// no more, be it a failure or itself for another. A task that comes back brings back all that was
// skipped for it. Tasks that had ended for others, too, end so again. The search goes on behind cut,
// the tasks that had ended so and have started over already.
func (s *States) endedWith(tasks []dag.TaskIndex, cut map[dag.TaskIndex]bool) (all []dag.TaskIndex) {
	var badly []dag.TaskIndex
	stops := false
	for _, t := range tasks {
		switch s.get(t) {
		case TaskFailed:
			badly, stops = append(badly, t), stops || !s.g.MayFail(s.g.GroupIndex(t))
		case TaskSkipped, TaskCancelled:
			badly = append(badly, t)
		}
	}
	take := func(t dag.TaskIndex, state TaskState) {
		if (state == TaskSkipped || state == TaskCancelled) && !contains(tasks, t) {
			all = append(all, t)
		}
	}
	switch {
	case stops: // the whole job was
		s.Each(take)
	case len(badly) > 0:
		for _, t := range descendants(s, badly, func(t dag.TaskIndex) bool { return cut[t] || s.endedForOthers(t) }) { // who reads what failed by itself was skipped for that
			take(t, s.get(t))
		}
	}
	slices.Sort(all)
	return all
}

// endedForOthers tells whether a task has ended for another, or would have if it had come to be.
func (s *States) endedForOthers(t dag.TaskIndex) bool {
	st := s.get(t)
	return st == TaskAbsent || st == TaskSkipped || st == TaskCancelled
}

// endedFor tells whether a task ended early for another: that one has failed, as far as
// another agent knows.
func (s *States) endedFor(t dag.TaskIndex) bool {
	return slices.ContainsFunc(s.behind[t], func(e dag.TaskIndex) bool { by, early := s.early[e]; return early && by == t })
}

// takeBehind returns the tasks that ended early for one, or for one of those, and forgets that.
func (s *States) takeBehind(t dag.TaskIndex) (all []dag.TaskIndex) {
	if len(s.early) == 0 {
		return nil
	}
	for i := 0; ; i++ {
		for _, e := range s.behind[t] {
			if by, early := s.early[e]; early && (by == t || s.goesWith(by) == t) {
				s.notEarly(e)
				all = append(all, e)
			}
		}
		for _, e := range s.doubting(t) {
			s.notEarly(e)
			all = append(all, e)
		}
		if delete(s.behind, t); i == len(all) {
			return all
		}
		t = all[i]
	}
}

// missBehind takes in that the tasks that ended early for a task did so wrongly: they start over.
func (s *States) missBehind(t dag.TaskIndex) {
	for _, e := range s.takeBehind(t) {
		s.miss(e)
	}
}

// missWith returns, sorted, what starts over with tasks that do: what ended early for them.
func (s *States) missWith(lists ...[]dag.TaskIndex) []dag.TaskIndex {
	if len(s.early) == 0 {
		return nil
	}
	for _, tasks := range lists {
		for _, t := range tasks {
			s.missBehind(t)
		}
	}
	return s.missedTasks()
}

// missedTasks lists those tasks, sorted.
func (s *States) missedTasks() []dag.TaskIndex {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(s.missed)), func(t dag.TaskIndex) bool { return s.get(t).Over() })
}
