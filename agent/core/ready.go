package core

import (
	"cmp"
	"slices"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/dag"
)

// noTask is the cause of what the assignment itself made ready.
const noTask = ^taskIndex(0)

// entry is a ready task, and the dataset whose publication made it so.
type entry struct {
	task, by taskIndex
	output   uint32
}

// cause is an entry's cause, for its events.
func (j *job) cause(e entry) comms.Cause {
	switch e.by {
	case noTask:
		return comms.Cause{Kind: comms.CauseSubmit}
	case e.task:
		return comms.Cause{Kind: comms.CauseTask, Ref: comms.DatasetRef{Task: e.task}}
	}
	ref := comms.DatasetRef{Task: e.by, Output: e.output}
	if _, element, ok := j.graph.Slot(e.task); ok && int(e.by) < j.static {
		ref.Element = element
	} else if !ok && j.groupOf(e.by).group.Outputs[e.output].Generate != dag.GenerateNone {
		ref.Element = j.elementOf(e)
	}
	return comms.Cause{Kind: comms.CauseDataset, Ref: ref}
}

// elementOf finds which element of a generator an entry's task reads; 0 when it reads all.
func (j *job) elementOf(e entry) uint64 {
	ins, err := j.graph.Inputs(e.task)
	if err != nil {
		return 0
	}
	for _, in := range ins {
		for _, s := range in.Sources {
			if s.Task == e.by && s.Output == e.output && s.Kind == dag.SourceElement {
				return s.Element
			}
		}
	}
	return 0
}

// class is the ready tasks of a job that can take each other's place: they need
// the same environment and the same resources. Its heap is ordered by priority,
// upward rank, index.
type class struct {
	job       *job
	env       *environment
	need      amounts
	generator bool
	heap      []entry
	queue     *queue // where it stands in its line; nil when it does not
	at        int    // its place there
	offered   bool
}

func (c *Core) classFor(j *job, gs *groupState) *class {
	env := c.environment(j, gs.group.Run.Environment)
	for _, cl := range j.classes {
		if cl.env == env && cl.generator == gs.generator && slices.Equal(cl.need, gs.need) {
			return cl
		}
	}
	cl := &class{job: j, env: env, need: gs.need, generator: gs.generator}
	j.classes = append(j.classes, cl)
	return cl
}

// before orders the ready tasks of one job.
func (j *job) before(a, b taskIndex) int {
	if len(j.groups) > 1 {
		if d := cmp.Compare(j.groupOf(b).group.Priority, j.groupOf(a).group.Priority); d != 0 {
			return d
		}
	}
	if j.ranks != nil {
		if d := cmp.Compare(j.rank(b), j.rank(a)); d != 0 {
			return d
		}
	}
	return cmp.Compare(a, b)
}

func (cl *class) push(e entry) {
	h := append(cl.heap, e)
	i := len(h) - 1
	for i > 0 {
		up := (i - 1) / 2
		if cl.job.before(h[i].task, h[up].task) >= 0 {
			break
		}
		h[i], h[up] = h[up], h[i]
		i = up
	}
	cl.heap = h
}

func (cl *class) pop() entry {
	h := cl.heap
	top := h[0]
	n := len(h) - 1
	h[0] = h[n]
	h = h[:n]
	i := 0
	for {
		down := 2*i + 1
		if down >= n {
			break
		}
		if down+1 < n && cl.job.before(h[down+1].task, h[down].task) < 0 {
			down++
		}
		if cl.job.before(h[down].task, h[i].task) >= 0 {
			break
		}
		h[i], h[down] = h[down], h[i]
		i = down
	}
	cl.heap = h
	return top
}
