package core

import (
	"math/bits"
	"slices"
	"time"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/dag"
)

// A run may carry others behind it: the steps of a path, each of which reads
// nothing but an output of the one before, or tasks of one group that read
// nothing at all. They are one run in every table, with the number, the task and
// the state of the one that comes next; the numbers of the others follow. The ends of
// silent tasks, which have no outputs that others read, move it on by many at once.
// Everything else (a failure, a death, a take-back, an output to publish) makes
// them runs of their own first.

// step is a task that waits behind the one before it in a run.
type step struct {
	task    taskIndex
	attempt uint32
	reads   uint32 // one above the output of the task before that it reads; 0: it has no inputs
	keeps   uint64 // bit o: output o is wanted by the run behind as a live value
	only    uint64 // bit o: and by no other
	with    []byte // parameters, where they differ within the group
}

// tasks tells how many tasks a run stands for.
func (r *run) tasks() int { return 1 + len(r.rest) }

// taskAt returns the task of a run's number, which may be one behind it.
func (r *run) taskAt(id comms.RunID) (taskIndex, uint32, bool) {
	switch k := id - r.id; {
	case id < r.id || k > comms.RunID(len(r.rest)):
		return 0, 0, false
	case k == 0:
		return r.task, r.attempt, true
	default:
		return r.rest[k-1].task, r.rest[k-1].attempt, true
	}
}

// depth is how many tasks an executor has in its queue.
func (ex *executor) depth() (n int) {
	for _, r := range ex.queue {
		n += r.tasks()
	}
	return n
}

// holder finds the run of an executor that has a number, its own or that of one behind it.
func (c *Core) holder(ex *executor, id comms.RunID) *run {
	if r := c.runs[id]; r != nil {
		if r.ex != ex {
			return nil
		}
		return r
	}
	for _, r := range ex.queue {
		if _, _, ok := r.taskAt(id); ok {
			return r
		}
	}
	return nil
}

// runAt finds the run of an executor with a number, as a run of its own.
func (c *Core) runAt(ex *executor, id comms.RunID) *run {
	r := c.holder(ex, id)
	if r != nil && r.id != id {
		c.unfold(r)
		r = c.runs[id]
	}
	return r
}

// unfold makes runs of their own of the tasks behind a run.
func (c *Core) unfold(r *run) {
	if len(r.rest) == 0 {
		return
	}
	rest, mean := r.rest, r.mean/float64(r.tasks())
	r.rest, r.mean = nil, mean
	c.behind -= len(rest)
	before, attempt, gs := r.task, r.attempt, r.gs
	runs := make([]*run, len(rest))
	for i := range rest {
		s := &rest[i]
		gs = r.job.groupBehind(gs, s.task)
		q := &run{id: r.id + comms.RunID(i) + 1, job: r.job, task: s.task, attempt: s.attempt, gs: gs, ex: r.ex, cause: r.cause,
			mean: mean, live: s.reads > 0, private: outputsIn(s.only), granted: true, asked: r.asked}
		if s.reads > 0 {
			q.cause = causeOf(before, s.reads)
			q.givenBy(before, attempt, s.reads-1)
		}
		c.runs[q.id] = q
		r.job.inflight++
		before, attempt, runs[i] = s.task, s.attempt, q
	}
	r.ex.queue = slices.Insert(r.ex.queue, slices.Index(r.ex.queue, r)+1, runs...)
}

// unfoldAll is unfold for the runs of an executor, of one job or of all (nil).
func (c *Core) unfoldAll(ex *executor, j *job) {
	for _, r := range slices.Clone(ex.queue) {
		if j == nil || r.job == j {
			c.unfold(r)
		}
	}
}

func causeOf(before taskIndex, reads uint32) comms.Cause {
	return comms.Cause{Kind: comms.CauseDataset, Ref: comms.DatasetRef{Task: before, Output: reads - 1}}
}

func outputsIn(set uint64) (out []uint32) {
	for ; set != 0; set &= set - 1 {
		out = append(out, uint32(bits.TrailingZeros64(set)))
	}
	return out
}

// setOf is the inverse of outputsIn; ok is false when an output has no bit.
func setOf(outputs []uint32) (set uint64, ok bool) {
	for _, o := range outputs {
		if o >= 64 {
			return 0, false
		}
		set |= 1 << o
	}
	return set, true
}

// isRow tells whether tasks wait behind a run that need nothing of it.
func (r *run) isRow() bool { return len(r.rest) > 0 && r.rest[0].reads == 0 }

// lengthen puts a task behind the last one of a run, when it can be a step. It
// tells whether it could. The caller charges for it.
func (c *Core) lengthen(r *run, next taskIndex, gs *groupState, reads uint32) bool {
	s := step{task: next, attempt: r.job.tasks[next].attempt, reads: reads}
	if !gs.step || gs.class != r.gs.class || r.tasks() >= comms.MaxSteps || comms.Try(s.attempt) == comms.LastTry {
		return false
	}
	with, err := gs.parameters(r.job.graph, next)
	if err != nil {
		return false // as a run of its own it fails with this error
	}
	if gs.varyWith {
		s.with = with
	}
	c.tellKind(r.ex, r.job, gs)
	if len(r.rest) == cap(r.rest) {
		// As many as a queue takes, or twice as many: little of it is copied.
		r.rest = append(make([]step, 0, max(min(supplyMax, 16+4*len(r.rest)), 2*len(r.rest))), r.rest...)
	}
	r.rest = append(r.rest, s)
	c.lastRun++
	c.behind++
	r.job.tasks[next].state = tQueued
	r.mean += gs.mean
	r.ex.load += gs.mean
	return true
}

// keep notes which outputs of the last task of a run stay in the executor for the
// next, and which of them have no other reader. m is the run's message.
func (r *run) keep(m *comms.Run, outputs, private []uint32) bool {
	if len(r.rest) == 0 {
		m.Live, m.Private, r.private = outputs, private, private
		return true
	}
	s := &r.rest[len(r.rest)-1]
	keeps, ok1 := setOf(outputs)
	only, ok2 := setOf(private)
	if ok1 && ok2 {
		s.keeps, s.only = keeps, only
	}
	return ok1 && ok2
}

// writeSteps puts the tasks behind a run into its message.
func (c *Core) writeSteps(r *run, m *comms.Run) {
	if len(r.rest) == 0 {
		return
	}
	steps := c.steps[:0]
	gs := r.gs
	for i := range r.rest {
		s := &r.rest[i]
		gs = r.job.groupBehind(gs, s.task)
		to := comms.Step{Kind: gs.kind.ID, Task: s.task, Attempt: s.attempt, Reads: s.reads, Keeps: s.keeps, Only: s.only, With: s.with}
		if gs.named {
			to.Name = r.job.taskName(s.task)
		}
		steps = append(steps, to)
	}
	m.Steps = comms.AppendSteps(nil, steps)
	clear(steps)
	c.steps = steps
}

// silent tells how many tasks of a run, from the first, leave nothing that
// anybody but the task behind them hears of.
func (r *run) silent() int {
	if r.orphan || r.abort != nil || r.gs.generator {
		return 0
	}
	n, gs, only := 0, r.gs, uint64(0)
	if set, ok := setOf(r.private); ok {
		only = set
	}
	for ; ; n++ {
		outputs := len(gs.group.Outputs)
		if outputs >= 64 || only != 1<<outputs-1 || n == len(r.rest) && outputs > 0 {
			return n
		}
		if n == len(r.rest) {
			return n + 1
		}
		only = r.rest[n].only
		gs = r.job.groupBehind(gs, r.rest[n].task)
	}
}

// succeeded takes the word that runs with consecutive numbers have succeeded one
// after another, without outputs to tell.
func (c *Core) succeeded(ex *executor, it *comms.ReportItem) error {
	usages, err := comms.ReadUsages(it.Steps, c.usages[:0])
	c.usages = usages
	if err != nil {
		return err
	}
	for k := 0; k < len(usages) && ex.state != exKilled; {
		r := c.runAt(ex, it.Run+comms.RunID(k))
		if r == nil { // a late answer
			k++
			continue
		}
		c.startedRun(r)
		n := min(r.silent(), len(usages)-k)
		if n == 0 {
			u := usages[k]
			c.finished(r, &comms.ReportItem{Kind: comms.ReportFinished, Run: r.id, At: u.Start + u.Duration, Usage: &u})
			k++
			continue
		}
		block := it.Steps
		if n < len(usages) {
			block = comms.AppendUsages(nil, usages[k:k+n])
		}
		c.advance(r, usages[k:k+n], block)
		k += n
	}
	return nil
}

// advance ends the first tasks of a run, which were silent, as one event. block is
// usages encoded.
func (c *Core) advance(r *run, usages []comms.Usage, block []byte) {
	j, n := r.job, len(usages)
	e := comms.Event{Kind: comms.EventSteps, Task: r.task, Attempt: r.attempt, Executor: r.ex.id, Cause: r.readCause()}
	gone := r.rest[: n-1 : n-1]
	e.Steps = comms.AppendEnds(make([]byte, 0, len(block)+32), n, func(i int) comms.End {
		if i == 0 {
			return comms.End{Task: r.task, Attempt: r.attempt}
		}
		return comms.End{Task: gone[i-1].task, Attempt: gone[i-1].attempt, Reads: gone[i-1].reads}
	}, block)
	c.noteEnds(j, e, gone)
	j.lend(r.task, len(r.private) > 0)
	for i := range gone {
		j.lend(gone[i].task, gone[i].only != 0)
	}
	seconds, gs := 0.0, r.gs
	for i := range n {
		if i > 0 {
			gs = j.groupBehind(gs, gone[i-1].task)
			j.tasks[gone[i-1].task].missing = 0
			j.tasks[gone[i-1].task].state = tFinished
		}
		if d := usages[i].Duration; d > 0 { // as endRun: an executor says what it likes
			s := float64(d) / 1e9
			gs.learn(s)
			c.seconds.add(s)
			seconds += s
		}
	}
	j.unended -= n - 1
	head := r.task
	part := r.mean * float64(n) / float64(r.tasks())
	c.charge(j, (seconds-part)*float64(gs.need[resCPU])/1000)
	if n == r.tasks() {
		c.behind -= n - 1
		r.rest = nil
		c.endRun(r, nil)
	} else {
		c.moveOn(r, n, part)
	}
	c.end(j, head, tFinished)
}

// lend notes that a task left a value in its executor that was not published.
func (j *job) lend(t taskIndex, private bool) {
	if private {
		j.tasks[t].flags |= fLent
	}
}

// moveOn makes a run that of its n-th task behind the first.
func (c *Core) moveOn(r *run, n int, mean float64) {
	s := r.rest[n-1]
	before := r.task
	if n > 1 {
		before = r.rest[n-2].task
	}
	delete(c.runs, r.id)
	c.unpin(r)
	c.endCaller(r)
	r.id += comms.RunID(n)
	c.runs[r.id] = r
	r.task, r.attempt, r.gs, r.rest = s.task, s.attempt, r.job.groupOf(s.task), r.rest[n:]
	r.live, r.private = s.reads > 0, outputsIn(s.only)
	if s.reads > 0 {
		r.cause = causeOf(before, s.reads)
		r.job.tasks[s.task].missing = 0
	}
	r.inputs, r.read = nil, 0 // it reads an unannounced value, or nothing
	r.started, r.told, r.deadline, r.ex.turn = false, false, time.Time{}, c.now
	c.behind -= n
	r.mean -= mean
	r.ex.load -= mean
}

// oneEdge returns the one output of a task that is read, by one consumer alone.
func (j *job) oneEdge(t taskIndex) (dag.Edge, bool) {
	e, ok := j.graph.OnlyConsumer(t)
	return e, ok && e.Kind == dag.SourceWhole && int(e.Consumer) < j.static
}
