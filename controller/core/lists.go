package core

import (
	"slices"

	"github.com/cascade-run/cascade/dag"
)

// A task that reads a list (InputDecl.Min) is skipped when too much of that has failed, and
// names one task that has. Others may have failed on an agent that dies before the controller
// hears of it: they are given out anew, and so is what was skipped for them.

// doubts are the tasks for which a reader of lists may have been skipped, as an agent has received,
// and whose ends were not known then.
type doubts struct {
	tasks []dag.TaskIndex // sorted
	next  int             // ends of those before it were known when it was asked for last
}

// countsBehind takes in that the end of a task counts: so does what ended early for it, except a
// reader of lists that may have been skipped for a task whose end is not known: it is behind that one now.
func (s *States) countsBehind(t dag.TaskIndex) {
	for todo := []dag.TaskIndex{t}; len(todo) > 0 && len(s.early) > 0; {
		t, todo = todo[len(todo)-1], todo[:len(todo)-1]
		tasks := s.behind[t]
		delete(s.behind, t)
		for _, e := range tasks {
			by, early := s.early[e]
			if !early || by != t && s.goesWith(by) != t {
				continue
			}
			if other, is := s.otherCause(e, by); is {
				s.endsEarly(e, other)
				continue
			}
			s.notEarly(e)
			todo = append(todo, e)
		}
	}
}

// doubt keeps for what tasks one may have been skipped, if it reads lists.
func (s *States) doubt(t dag.TaskIndex) *doubts {
	d := s.lists[t]
	if d != nil {
		return d
	}
	d = &doubts{tasks: s.inDoubt(t)}
	if len(d.tasks) > 0 {
		if s.lists == nil {
			s.lists = map[dag.TaskIndex]*doubts{}
		}
		s.lists[t] = d
	}
	return d
}

// doubting lists the readers that may have been skipped for a task, sorted.
func (s *States) doubting(t dag.TaskIndex) (readers []dag.TaskIndex) {
	for r, d := range s.lists {
		if _, is := slices.BinarySearch(d.tasks, t); is {
			readers = append(readers, r)
		}
	}
	slices.Sort(readers)
	return readers
}

// otherCause finds a task whose end is not known, and for which one may have been skipped that
// was so for another: they are of a list.
func (s *States) otherCause(t, by dag.TaskIndex) (other dag.TaskIndex, is bool) {
	if s.get(t) != TaskSkipped || s.get(by) == TaskFailed && !s.g.MayFail(s.g.GroupIndex(by)) { // the job was stopped
		return 0, false
	}
	d := s.doubt(t)
	for ; d.next < len(d.tasks); d.next++ {
		if other = d.tasks[d.next]; s.unsure(other) {
			return other, true
		}
	}
	return 0, false
}

// inDoubt lists, sorted, the tasks without which a list of a task may have too little, and whose end
// is not known, or whose end does not count that the present events speak of; none when the
// task lacks something for certain.
func (s *States) inDoubt(t dag.TaskIndex) (tasks []dag.TaskIndex) {
	lists := func(in dag.InputDecl) bool { return in.Min > 0 }
	if !slices.ContainsFunc(s.g.Group(t).Inputs, lists) {
		return nil
	}
	inputs, err := s.g.Inputs(t)
	if err != nil {
		return nil
	}
	for i := range inputs {
		there, all := 0, true // as far as is known
		for _, src := range inputs[i].Sources {
			refs, complete := s.Expand(src)
			if p := producer(s.g, src); !complete && s.unsure(p) {
				tasks, there = append(tasks, p), inputs[i].Min // how many there will be is not known
			} else if !complete {
				all = false
			}
			for _, ref := range refs {
				switch {
				case s.unsure(ref.Task) || s.void(ref.Task):
					tasks = append(tasks, ref.Task)
					there++
				case s.get(ref.Task) == TaskDone, s.lineage.heard(ref) != 0: // what a task published that failed then counts
					there++
				default:
					all = false
				}
			}
		}
		if !all && (inputs[i].Min == 0 || there < inputs[i].Min) {
			return nil
		}
	}
	slices.Sort(tasks)
	return slices.Compact(tasks)
}
