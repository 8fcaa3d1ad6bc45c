package core

import (
	"fmt"
	"slices"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/dag"
)

// fromExecutor takes a message of an executor. Messages of a killed one do not
// count: its runs go to others when it is known dead.
func (c *Core) fromExecutor(ev FromExecutor) {
	ex := c.byExec[ev.Executor]
	if ex == nil || ex.state == exKilled {
		return
	}
	ex.heard = c.now
	switch m := ev.Msg.(type) {
	case *comms.Hello:
		c.helloExecutor(ex, m)
	case *comms.Report:
		for i := range m.Items {
			it := &m.Items[i]
			if it.Kind != comms.ReportSteps {
				c.item(ex, it)
			} else if err := c.succeeded(ex, it); err != nil {
				c.kill(ex, fmt.Sprintf("it broke the protocol: its report on the runs from %d on: %v", it.Run, err))
			}
			if ex.state == exKilled {
				return
			}
		}
	case *comms.Reclaimed:
		c.takenBack(ex, m.Runs)
	case *comms.LeaseReq:
		c.leaseReq(ex, m)
	case *comms.Calls:
		c.called(ex, m)
	case *comms.Listed:
		c.listed(ex, m)
	case *comms.CallRead:
		c.reads(ex, m)
	case *comms.CallWait:
		c.waits(ex, m)
	case *comms.CallDrop:
		c.dropCalls(ex, m)
	case *comms.Log:
		if r := c.holder(ex, m.Run); r != nil {
			if r.job.dynamic() { // the log of a call is its root's
				c.log(rowRef{r.job, r.task}, m.Stream, m.Text)
				return
			}
			t, attempt, _ := r.taskAt(m.Run)
			c.emit(AppendLog{Job: r.job.id, Task: r.job.taskName(t), Attempt: comms.Try(attempt), Stream: m.Stream, Text: m.Text})
		}
	}
}

// printed takes text that the process of an executor wrote beside its messages.
func (c *Core) printed(ev Printed) {
	if ex := c.byExec[ev.Executor]; ex != nil {
		if r := c.holder(ex, ev.Run); r != nil && r.job.dynamic() {
			c.log(rowRef{r.job, r.task}, 2, ev.Text)
			return
		}
	}
	c.emit(AppendLog{Job: ev.Job, Task: ev.Task, Stream: 2, Text: ev.Text})
}

// item takes one item of a report. A run that is not (or no more) this executor's is a late answer.
func (c *Core) item(ex *executor, it *comms.ReportItem) {
	if it.Kind == comms.ReportLeaseReturn {
		if it.Lease != nil {
			c.leaseReturn(ex, it.Lease)
		}
		return
	}
	r := c.runAt(ex, it.Run)
	if r == nil {
		c.discardAll(ex, it.Outputs)
		return
	}
	switch it.Kind {
	case comms.ReportStarted:
		c.startedRun(r)
	case comms.ReportPublished:
		c.startedRun(r)
		for _, d := range it.Outputs {
			if err := c.element(r, d); err != nil {
				c.misbehaved(r, err)
				return
			}
		}
	case comms.ReportFinished:
		c.startedRun(r)
		c.finished(r, it)
	case comms.ReportFailed:
		c.startedRun(r)
		c.failedRun(r, it)
	case comms.ReportThrottled:
		c.heldBack(r)
	case comms.ReportResumed:
		c.resumed(r)
	}
}

// discardAll frees the memory of outputs that come too late.
func (c *Core) discardAll(ex *executor, outputs []comms.Desc) {
	for _, d := range outputs {
		if l, i := ex.leaseAt(d.Place.Segment, d.Place.Offset); d.Place.Kind == comms.PlaceSegment && l != nil && l.kind != 0 {
			c.must(c.led.CloseLease(l.id, 0))
			c.forgetLease(ex, i)
			c.effects()
		}
	}
}

// startedRun notes that a run has begun. Times are the core's own: hosts and
// processes agree on no clock.
func (c *Core) startedRun(r *run) {
	if r.started {
		return
	}
	r.started, r.startedAt = true, c.now
	if t := r.job.at(r.task); t.state == tQueued && !r.orphan {
		t.state = tRunning
	}
	if t := r.gs.group.Timeout; t > 0 {
		r.deadline = c.now.Add(t + 3*grace)
	}
	if r.job.stopped != nil && r.abort == nil {
		c.cancel(r, r.job.stopped.why.Message)
	}
}

// misbehaved ends an executor that broke the protocol, and with it the run.
func (c *Core) misbehaved(r *run, err error) {
	c.kill(r.ex, fmt.Sprintf("it broke the protocol in a run of %s: %v", r.job.taskName(r.task), err))
}

// finished ends a run that succeeded: its outputs become final, its consumers
// ready, and the executor free.
func (c *Core) finished(r *run, it *comms.ReportItem) {
	j := r.job
	if r.orphan || j.tasks[r.task].state.over() {
		c.discardAll(r.ex, it.Outputs)
		c.endRun(r, it.Usage)
		return
	}
	if why := c.incomplete(r, it); why != "" {
		c.discardAll(r.ex, it.Outputs)
		c.endRun(r, it.Usage)
		r.usage = it.Usage
		c.fail(j, r.task, r, &comms.TaskError{Kind: comms.ErrorTask, Message: why, Executor: r.ex.id}, comms.Cause{Kind: comms.CauseRun}, false)
		return
	}
	var edges []dag.Edge
	if len(r.gs.group.Outputs) > 0 {
		edges = j.edgesOf(r.task)
	}
	var outputs []comms.Desc
	there := make([]comms.DatasetRef, 0, 4) // most tasks have fewer, and then it is not on the heap
	for i := range it.Outputs {
		d := it.Outputs[i]
		d.Ref.Task, d.Attempt = r.task, r.attempt
		if k := int(d.Ref.Output); k < len(r.gs.group.Outputs) && r.gs.group.Outputs[k].Generate != dag.GenerateNone {
			if err := c.element(r, d); err != nil {
				c.misbehaved(r, err)
				return
			}
			continue
		}
		fresh, err := c.publish(r, d)
		if err != nil {
			c.misbehaved(r, err)
			return
		}
		if fresh {
			there = append(there, d.Ref)
		}
		outputs = append(outputs, c.told(j, d.Ref, d))
	}
	cause := r.readCause()
	c.endRun(r, it.Usage)
	c.noteEnd(j, comms.Event{Kind: comms.EventFinished, Task: r.task, Attempt: r.attempt, Executor: r.ex.id, Cause: cause, Outputs: outputs, Usage: it.Usage})
	c.end(j, r.task, tFinished)
	for _, ref := range there {
		c.resolve(j, ofOutput(edges, ref.Output), dag.SourceWhole, ref, true)
		c.resolveGates(j, dag.SourceWhole, ref, true)
	}
	c.handOver(r, edges, it)
	c.generatorEnded(r)
}

// handOver announces the values that a run left in its executor for the run behind it.
// When that one was taken back meanwhile the values are lost: they are recomputed, and
// published.
func (c *Core) handOver(r *run, edges []dag.Edge, it *comms.ReportItem) {
	j := r.job
	for _, o := range r.private {
		if slices.ContainsFunc(it.Outputs, func(d comms.Desc) bool { return d.Ref.Output == o }) {
			continue
		}
		ref, out := comms.DatasetRef{Task: r.task, Output: o}, ofOutput(edges, o)
		if j.stopped == nil && len(out) > 0 && !j.overAt(out[0].Consumer) && !slices.ContainsFunc(r.ex.queue, func(q *run) bool {
			return q.live && !q.orphan && q.job == j && q.task == out[0].Consumer
		}) {
			c.redo(j, ref)
			c.lostJobs = append(c.lostJobs, j)
			return
		}
		j.tasks[r.task].flags |= fLent
		c.resolve(j, out, dag.SourceWhole, ref, true)
	}
}

// incomplete tells what a finished run failed to deliver; "" when nothing.
func (c *Core) incomplete(r *run, it *comms.ReportItem) string {
	if r.lists {
		return "it returned a future or the handle of an actor, which only a task may that another task or a session has called"
	}
	for o, out := range r.gs.group.Outputs {
		has := slices.Contains(r.private, uint32(o))
		for i := range it.Outputs {
			if int(it.Outputs[i].Ref.Output) >= len(r.gs.group.Outputs) {
				return fmt.Sprintf("it delivered output %d of %d", it.Outputs[i].Ref.Output, len(r.gs.group.Outputs))
			}
			if it.Outputs[i].Ref.Output == uint32(o) {
				has = true
			}
		}
		if r.job.dyn != nil && out.Generate == dag.GenerateOpen {
			if n := r.job.stream(r.task, uint32(o)).unmade(it, uint32(o)); n > 0 {
				return fmt.Sprintf("%d elements of %s of its run before are lost, and it made fewer this time", n, out.Name)
			}
		}
		if out.Generate == dag.GenerateNone && !has {
			return fmt.Sprintf("it ended without output %s", out.Name)
		}
		if out.Generate == dag.GenerateFixed {
			there := r.job.stream(r.task, uint32(o)).next
			for i := range it.Outputs { // a second copy of an element is none
				if d := &it.Outputs[i].Ref; d.Output == uint32(o) && d.Element >= there {
					there++
				}
			}
			if there < out.Count {
				return fmt.Sprintf("it published %d of %d elements of %s", there, out.Count, out.Name)
			}
		}
	}
	return ""
}

// told is a dataset as an event names it: the final copy. A dataset that will not be
// read is not kept, neither here nor, as bytes of an event, in the store.
func (c *Core) told(j *job, ref comms.DatasetRef, d comms.Desc) comms.Desc {
	if have := j.data[ref]; have != nil {
		return have.desc
	}
	d.Place = comms.Place{}
	return d
}

// endRun takes a run out of its executor's queue and learns what it cost.
func (c *Core) endRun(r *run, u *comms.Usage) {
	ex := r.ex
	c.unfold(r)
	if i := slices.Index(ex.queue, r); i == 0 {
		ex.queue[0] = nil
		ex.queue, ex.turn = ex.queue[1:], c.now
	} else if i > 0 {
		ex.queue = slices.Delete(ex.queue, i, i+1)
	}
	ex.load -= r.mean
	if len(ex.queue) == 0 {
		ex.load, ex.idle, ex.queue = 0, c.now, nil
	}
	if len(ex.queue) == 0 || ex.queue[0].gs.class != r.gs.class || r.back {
		c.regrant(ex)
	}
	cpu := float64(r.gs.need[resCPU]) / 1000
	if u != nil && u.Duration > 0 {
		s := float64(u.Duration) / 1e9
		c.charge(r.job, (s-r.mean)*cpu)
		r.gs.learn(s)
		c.seconds.add(s)
		if r.job.dynamic() {
			c.callSeconds.add(s)
		}
	}
	c.dropRun(r)
}

// takenBack takes runs that did not start and will not. Those asked for and not
// in the answer have started.
func (c *Core) takenBack(ex *executor, runs []comms.RunID) {
	ex.asked = false
	for _, id := range runs {
		r := c.runAt(ex, id)
		if r == nil || r.started {
			continue
		}
		c.endRun(r, nil)
		c.charge(r.job, -r.mean*float64(r.gs.need[resCPU])/1000)
		c.returned(r)
	}
	for _, r := range slices.Clone(ex.queue) {
		if r.asked && r.job.stopped != nil && r.abort == nil {
			c.cancel(r, r.job.stopped.why.Message)
		}
		r.asked = false
	}
}

// returned puts the task of a run that never started back, as the same attempt.
func (c *Core) returned(r *run) {
	j, t := r.job, r.job.at(r.task)
	if r.orphan || t.state != tQueued {
		return
	}
	if j.stopped != nil {
		c.endUnrun(j, r.task)
		return
	}
	if (r.gang != nil || j.dyn != nil) && r.abort != nil { // another of its gang has failed, or its parent has cancelled it
		c.fail(j, r.task, r, &comms.TaskError{Kind: r.abort.Kind, Message: r.abort.Message, Executor: r.ex.id}, r.cause, true)
		return
	}
	c.note(j, comms.Event{Kind: comms.EventReclaimed, Task: r.task, Attempt: r.attempt, Executor: r.ex.id,
		Cause: comms.Cause{Kind: comms.CauseExecutor, Number: uint64(r.ex.id)}})
	if r.gang != nil && j.gangOf(r.task).spans() {
		c.tear(j.gangOf(r.task), r.task, nil)
		return
	}
	t.state = tWaiting
	c.reassess(j, r.task, r.cause)
	if r.gang != nil { // others of its gang may have begun
		c.redoAll(j, c.regroup(j, r.task))
	}
}

// reassess finds out anew what a task waits for that was thought to be on its
// way. Inputs that are not being made any more are recomputed.
func (c *Core) reassess(j *job, t taskIndex, cause comms.Cause) {
	if c.rebuild(j, t) {
		c.recount(j)
		return
	}
	missing, failed := c.countMissing(j, t)
	j.at(t).missing = missing
	switch {
	case failed && !c.tolerates(j, t):
		c.skip(j, t)
	case missing == 0:
		e := entry{t, noTask, 0}
		if cause.Kind == comms.CauseDataset {
			e.by, e.output = cause.Ref.Task, cause.Ref.Output
		}
		c.ready(j, e)
	default:
		c.nearer(j, t)
	}
}
