package core

import (
	"cmp"
	"slices"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/dag"
	"github.com/cascade-run/cascade/internal/pq"
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
	ins, err := j.inputs(e.task)
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
// the same environment and the same resources. Its rows are ordered by priority,
// upward rank, index.
type class struct {
	job       *job
	env       *environment
	need      amounts
	generator bool
	door      bool // of doors: see submits
	rows      pq.Queue[row, rowOrder]
	size      int    // tasks in rows
	queue     *queue // where it stands in its line; nil when it does not
	at        int    // its place there
	offered   bool
	kinds     map[string]*comms.Kind // that groups share, by what tells them apart
}

func (c *Core) classFor(j *job, gs *groupState) *class {
	return c.classIn(j, gs, c.environment(j, &gs.group.Run))
}

// classIn is classFor with an environment, which may be another job's.
func (c *Core) classIn(j *job, gs *groupState, env *environment) *class {
	for _, cl := range j.classes {
		if cl.env == env && cl.generator == gs.generator && slices.Equal(cl.need, gs.need) {
			return cl
		}
	}
	cl := &class{job: j, env: env, need: gs.need, generator: gs.generator, door: gs.group.IsDoor()}
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

// row is ready tasks that follow each other in the graph and in rank: all of a
// group that nothing held back are one. It carries what orders it.
type row struct {
	entry    // of the first
	n        uint32
	priority int
	rank     float64
}

func (j *job) rowOf(e entry, n uint32) row {
	return row{e, n, j.groupOf(e.task).group.Priority, j.rank(e.task)}
}

func (a *row) before(b *row) bool {
	switch {
	case a.priority != b.priority:
		return a.priority > b.priority
	case a.rank != b.rank:
		return a.rank > b.rank
	}
	return a.task < b.task
}

type rowOrder struct{ pq.Unplaced[row] }

func (rowOrder) Before(a, b row) bool { return a.before(&b) }

func (cl *class) push(r row) {
	cl.size += int(r.n)
	cl.rows.Push(r)
}

// pop takes the first task of the first row.
func (cl *class) pop() entry {
	cl.size--
	r := cl.rows.Ref(0)
	if r.n == 1 {
		return cl.rows.Pop().entry
	}
	first := r.entry
	r.task++
	r.n--
	cl.rows.Fix(0)
	return first
}

// clear empties a class, which is in no line, and returns what was in it.
func (cl *class) clear() []row {
	cl.size = 0
	return cl.rows.Clear()
}

// rerank orders tasks that have not started by other ranks. Runs that are queued on
// an executor stay there: that is a fraction of a millisecond's work.
func (c *Core) rerank(j *job, ranks []float64) {
	c.leaveAll(j)
	j.ranks = ranks
	c.recountNeeds(j)
	for _, cl := range j.classes {
		old := cl.clear()
		slices.SortFunc(old, func(a, b row) int { return cmp.Compare(a.task, b.task) })
		for _, r := range old {
			for r.n > 0 {
				n := uint32(1)
				for n < r.n && j.rank(r.task+taskIndex(n)) == j.rank(r.task) {
					n++
				}
				cl.push(j.rowOf(r.entry, n))
				r.task, r.n = r.task+taskIndex(n), r.n-n
			}
		}
	}
	c.offerAll(j)
}

// hold starts nothing more of a job until it is released: runs that are queued
// behind running tasks or wait for an executor come back. Running tasks go on, and so
// does a path that has begun: its values are nowhere but in its executor.
func (c *Core) hold(j *job) {
	j.held = true
	c.leaveAll(j)
	var unplaced []*run
	for _, r := range c.runs {
		if r.job == j && r.ex == nil && !r.orphan {
			unplaced = append(unplaced, r)
		}
	}
	slices.SortFunc(unplaced, func(a, b *run) int { return cmp.Compare(a.id, b.id) })
	c.dropUnplaced(j, noTask)
	for _, r := range unplaced {
		if t := j.at(r.task); t.state == tPinning {
			t.state = tWaiting
			c.reassess(j, r.task, r.cause)
		}
	}
	for _, ex := range c.execs {
		if ex.state != exKilled {
			c.recall(ex, j, true)
		}
	}
}
