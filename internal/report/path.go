package report

import (
	"slices"

	"github.com/cascade-run/cascade/dag"
)

// Step is a task on the path that a run's end waited for, in seconds.
type Step struct {
	Task   *Task
	Waited float64 // from the moment its last input was there until it started
	Ran    float64 // until the next step's inputs were there: less than it took when that needed an element only
}

// Path returns what the end of the run waited for: the task that ended last, before
// it the producer that was the last to give it an input, and so on. Its waits and
// times add up to the run's, but for what lay before its first task.
func (r *Run) Path() ([]Step, error) {
	var last *Task
	for i := range r.Tasks {
		if t := &r.Tasks[i]; last == nil || t.Finish > last.Finish {
			last = t
		}
	}
	var path []Step
	until := r.End()
	for t := last; t != nil; {
		var from *Task
		ready := 0.0
		err := r.waits(dag.TaskIndex(t.Index), func(p *Task, _ bool) {
			// Of a producer that still ran an element was enough: it came at some time
			// before the start, which is the latest that is known.
			if at := min(p.Finish, t.Start); from == nil || at > ready {
				from, ready = p, at
			}
		})
		if err != nil {
			return nil, err
		}
		path = append(path, Step{Task: t, Waited: t.Start - ready, Ran: until - t.Start})
		if len(path) > len(r.Tasks) {
			break // a run whose clocks contradict each other
		}
		t, until = from, ready
	}
	slices.Reverse(path)
	return path, nil
}
