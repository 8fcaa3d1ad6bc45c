package core

import (
	"iter"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/dag"
)

// This file asks a job's graph about its tasks. The rest of the core asks here, so that a
// task may come from elsewhere than a graph that was known before the start.

// spec is what the tasks of t's group share.
func (j *job) spec(t taskIndex) *dag.Group {
	if j.dyn != nil {
		return j.sharedGroup(t).group
	}
	return j.graph.Group(t)
}

// sharedGroup is the state of t's group, without what is t's own (ownGroup).
func (j *job) sharedGroup(t taskIndex) *groupState {
	if j.dyn != nil {
		return j.dyn.group(t)
	}
	return &j.groups[j.graph.GroupIndex(t)]
}

// inputs are the sources of a task's inputs, in order.
func (j *job) inputs(t taskIndex) ([]dag.Input, error) {
	if j.dyn != nil {
		return j.rowInputs(t), nil
	}
	return j.graph.Inputs(t)
}

// consumers are the edges from a task to those that are named one by one.
func (j *job) consumers(t taskIndex) []dag.Edge {
	if j.dyn != nil {
		return nil // rows wait as readers
	}
	return j.graph.Consumers(t)
}

// mayFail tells whether the failure of a task leaves the job going.
func (j *job) mayFail(t taskIndex) bool {
	return j.dyn != nil || j.graph.MayFail(j.graph.GroupIndex(t))
}

// hasWanted tells whether a dataset is kept with its job.
func (j *job) hasWanted(ref comms.DatasetRef) bool {
	if j.dyn != nil {
		return j.rowWanted(ref)
	}
	return j.wanted.has(j.graph, ref)
}

// outputWanted tells whether a dataset is an output of its job.
func (j *job) outputWanted(ref comms.DatasetRef) bool {
	return j.dyn == nil && j.wanted.output(j.graph, ref)
}

// instances yields the tasks that read one element of a stream each, and this one.
func (j *job) instances(ref comms.DatasetRef) iter.Seq[taskIndex] {
	return func(yield func(taskIndex) bool) {
		for _, s := range j.graph.StreamSlots(ref.Task, ref.Output) {
			if i, err := j.graph.Instance(s, ref.Element); err == nil && !yield(i) {
				return
			}
		}
	}
}
