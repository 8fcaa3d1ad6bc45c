package core

import (
	"cmp"
	"time"

	"github.com/cascade-run/cascade/comms"
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
	}
	return comms.Cause{Kind: comms.CauseDataset, Ref: ref}
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
	pass      uint64    // the scheduling pass in which it was found blocked
	short     time.Time // since when it lacks resources; zero when it does not
}

func (c *Core) classFor(j *job, gs *groupState) *class {
	env := c.environment(j, gs.group.Run.Environment)
	for _, cl := range j.classes {
		if cl.env == env && cl.generator == gs.generator && equalAmounts(cl.need, gs.need) {
			return cl
		}
	}
	cl := &class{job: j, env: env, need: gs.need, generator: gs.generator}
	j.classes = append(j.classes, cl)
	return cl
}

func equalAmounts(a, b amounts) bool {
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
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

// head returns the first entry that still is ready; entries of tasks that left
// this state on another way are dropped when they come to the top.
func (cl *class) head() (entry, bool) {
	for len(cl.heap) > 0 {
		e := cl.heap[0]
		if cl.job.tasks[e.task].state == tReady {
			return e, true
		}
		cl.pop()
	}
	return entry{}, false
}

// pick returns the class whose head should run next among those not found
// blocked in this pass: jobs by priority, then the owner and the job that had
// the smallest share, then the task's own order.
func (c *Core) pick() (best *class) {
	var head entry
	for _, j := range c.jobs {
		if j.held || j.stopped != nil {
			continue
		}
		for _, cl := range j.classes {
			if cl.pass == c.pass {
				continue
			}
			e, ok := cl.head()
			if ok && (best == nil || c.sooner(cl, e, best, head)) {
				best, head = cl, e
			}
		}
	}
	return best
}

func (c *Core) sooner(a *class, ea entry, b *class, eb entry) bool {
	if a.job == b.job {
		return a.job.before(ea.task, eb.task) < 0
	}
	x, y := a.job, b.job
	d := cmp.Or(cmp.Compare(y.priority, x.priority), cmp.Compare(x.owner.used, y.owner.used), cmp.Compare(x.used, y.used),
		cmp.Compare(x.seq, y.seq))
	return d < 0
}

// charge books cpu seconds, predicted at dispatch and corrected at the end, to a job and its owner.
func (c *Core) charge(j *job, seconds float64) {
	j.owner.used += seconds / j.owner.weight
	j.used += seconds
}

// leastUsed is the share of the busy owner that has had least: where a new one
// begins, so that it neither waits for the others' past nor pays for it.
func (c *Core) leastUsed() float64 {
	least, first := 0.0, true
	for _, j := range c.jobs {
		if j.owner.busy > 0 && (first || j.owner.used < least) {
			least, first = j.owner.used, false
		}
	}
	return least
}
