package core

import (
	"slices"

	"github.com/cascade-run/cascade/dag"
)

// A task that reads a list (InputDecl.Min) is skipped when too much of that has failed, and
// names one task that has. Others may have failed on an agent that dies before the controller
// hears of it: they are given out anew, and so is what was skipped for them.

// countsBehind takes in that the end of a task counts: so does what ended early for it, but
// for what may have ended for others, too, whose end is not known.
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

// otherCause finds a task whose end is not known, and for which one may have been skipped that
// was so for another: they are of a list.
func (s *States) otherCause(t, by dag.TaskIndex) (other dag.TaskIndex, is bool) {
	list, known := s.lists[t]
	switch {
	case s.get(t) != TaskSkipped, s.get(by) == TaskFailed && !s.g.MayFail(s.g.GroupIndex(by)): // the job was stopped
		return 0, false
	case !known:
		list = s.inDoubt(t)
	}
	for len(list) > 0 && !s.unsure(list[0]) {
		list = list[1:]
	}
	if len(list) == 0 {
		return 0, false
	}
	if s.lists == nil {
		s.lists = map[dag.TaskIndex][]dag.TaskIndex{}
	}
	s.lists[t] = list[1:]
	return list[0], true
}

// inDoubt lists the tasks without which a list of a task may have too little, and of whose end
// nobody knows, or whose end does not count that the present events speak of; none when the
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
				tasks, there = append(tasks, p), inputs[i].Min // nobody knows how many there will be
			} else if !complete {
				all = false
			}
			for _, ref := range refs {
				doubt := s.unsure(ref.Task) || s.void(ref.Task)
				if doubt {
					tasks = append(tasks, ref.Task)
				}
				if doubt || s.get(ref.Task) == TaskDone {
					there++
				} else {
					all = false
				}
			}
		}
		if !all && (inputs[i].Min == 0 || there < inputs[i].Min) {
			return nil
		}
	}
	return tasks
}
