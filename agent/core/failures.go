package core

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/dag"
	"github.com/cascade-run/cascade/internal/pq"
	"github.com/cascade-run/cascade/shm/ledger"
)

// cancel asks an executor to end a run. When the run outlives the steps of the
// cancellation, its executor is killed.
func (c *Core) cancel(r *run, text string) {
	if r.abort != nil || r.ex == nil {
		return
	}
	c.unfold(r)
	r.abort = &comms.TaskError{Kind: comms.ErrorCancelled, Message: text}
	r.halted = r.job.stopped != nil
	r.deadline = c.now.Add(r.patience())
	c.emit(ToExecutor{r.ex.id, &comms.Cancel{Run: r.id, Why: comms.ErrorCancelled, Text: text, Grace: int64(grace)}})
}

// timeouts kills executors whose run has outlived its time-out or its
// cancellation: the executor should have ended it long before.
func (c *Core) timeouts() {
	for _, ex := range c.execs {
		c.checkLife(ex)
		if len(ex.queue) == 0 || ex.state == exKilled {
			continue
		}
		r := ex.queue[0]
		if t := r.gs.group.Timeout; t > 0 && r.deadline.IsZero() { // it may have begun without a word
			r.deadline = c.now.Add(t + 3*grace)
		}
		if r.deadline.IsZero() || r.deadline.After(c.now) {
			continue
		}
		if r.abort == nil {
			r.abort = &comms.TaskError{Kind: comms.ErrorTimeout, Message: fmt.Sprintf("it ran longer than its time-out of %v and could not be ended", r.gs.group.Timeout)}
		}
		c.kill(ex, "a run did not end when told to: "+r.abort.Message)
	}
}

// checkLife kills executors that do not say hello or do not end in time.
func (c *Core) checkLife(ex *executor) {
	patience := helloWithin
	switch {
	case ex.state == exStarting:
	case ex.state == exStopping && len(ex.queue) == 0:
		patience = 3 * grace
	default:
		return
	}
	if due := ex.heard.Add(patience); due.After(c.now) {
		c.wakeAt(due)
		return
	}
	c.kill(ex, fmt.Sprintf("nothing was heard of it for %v while it should start or end", patience))
}

// failedRun takes the executor's word that a run failed.
func (c *Core) failedRun(r *run, it *comms.ReportItem) {
	j := r.job
	c.discardAll(r.ex, it.Outputs)
	c.endRun(r, it.Usage)
	if r.orphan || j.tasks[r.task].state.over() {
		return
	}
	if j.stopped != nil && it.Usage == nil && it.Error != nil && it.Error.Kind == comms.ErrorCancelled { // the executor had not begun it
		c.endUnrun(j, r.task)
		return
	}
	if r.revoked() {
		c.anew(r, it.Usage, comms.Cause{Kind: comms.CauseSubmit, Text: "what it was cancelled for counts no more"})
		return
	}
	if r.lacks != "" && j.stopped == nil {
		c.anew(r, it.Usage, comms.Cause{Kind: comms.CauseMemory, Text: r.lacks})
		return
	}
	e := it.Error
	if e == nil {
		e = &comms.TaskError{Kind: comms.ErrorTask, Message: "it failed without saying why"}
	}
	if r.abort != nil {
		e.Kind, e.Message = r.abort.Kind, r.abort.Message
	}
	e.Executor = r.ex.id
	r.usage = it.Usage
	c.fail(j, r.task, r, e, r.endCause(), false)
}

// endedBy is what made a run end, if there is one, that was cancelled because its job was
// stopped, or for another member of its gang; nil when neither is so.
func (j *job) endedBy(r *run) *comms.Cause {
	switch {
	case j.stopped != nil:
		return &j.stopped.cause
	case r != nil:
		return r.endedBy
	}
	return nil
}

// revoked tells whether a run was cancelled because its job was stopped, and the job
// goes on: an Assign has come since with which what had stopped it counts no more.
func (r *run) revoked() bool { return r.halted && r.job.stopped == nil }

// costOf is what a failed attempt cost: the executor's word, or the time that
// passed when it died; nil when there was no run.
func (c *Core) costOf(r *run) *comms.Usage {
	switch {
	case r == nil:
		return nil
	case r.usage != nil:
		return r.usage
	case r.started:
		return &comms.Usage{Start: r.startedAt.UnixNano(), Duration: int64(c.now.Sub(r.startedAt)), PeakRSS: uint64(r.used)}
	}
	return nil
}

// fail ends an attempt badly. r is the run, nil when it came to none. The task
// is tried again unless final is set, its retries are used up or its job was
// stopped; crashes do not count against retries but make it poison in the end, nor
// does what took more memory than was held for it, while more can be.
func (c *Core) fail(j *job, t taskIndex, r *run, e *comms.TaskError, cause comms.Cause, final bool) {
	if e.Kind == comms.ErrorSetup && j.hosted() != nil && !j.dyn.rows.at(t).left() { // another host may have what it needs
		c.sendBack(rowRef{j, t}, e.Message)
		return
	}
	s := j.at(t)
	e.Task, e.Function, e.Attempt, e.Agent = j.taskName(t), j.calledFunction(t), comms.Try(s.attempt), c.cfg.Agent
	gs := j.groupOf(t)
	if e.Kind == comms.ErrorCancelled {
		if r != nil {
			c.noteStarted(r) // its end does not say what made it start
			cause = r.endCause()
		}
		if by := j.endedBy(r); by != nil { // who reads it must know what it counts with
			cause = *by
		}
		c.noteEnd(j, comms.Event{Kind: comms.EventCancelled, Task: t, Attempt: s.attempt, Executor: e.Executor, Cause: cause, Usage: c.costOf(r), Error: e})
		c.end(j, t, tCancelled)
		c.todo = append(c.todo, ended{j, t})
		return
	}
	tr := j.troubleOf(t)
	if gs.ganged() { // it is tried as one
		tr = j.troubleOf(j.gangOf(t).first)
	}
	tr.story = append(tr.story, fmt.Sprintf("attempt %d: %s", comms.Try(s.attempt), e.Text()))
	again, more := !final && j.stopped == nil, growth{}
	switch {
	case j.stateful(t): // another attempt would be without what its process had
		again = false
	case e.Kind.Retryable():
		if tr.crashes++; tr.crashes >= poisonAfter {
			again = false
			e = &comms.TaskError{Kind: comms.ErrorPoison, Task: e.Task, Function: e.Function, Attempt: e.Attempt, Agent: e.Agent, Executor: e.Executor, Signal: e.Signal, LogTail: e.LogTail,
				Message: fmt.Sprintf("it ended its executor %d times: %s", tr.crashes, strings.Join(tr.story, "; "))}
		}
	default:
		if more = c.enlarge(j, t, r, e); more.memory == 0 {
			tr.fails++
			again = again && tr.fails <= gs.group.Retries && j.retriesOn(t, e)
		}
	}
	switch {
	case again && gs.ganged() && j.gangOf(t).spans():
		c.noteRetry(j, t, r, e, cause, more)
		if more.memory > 0 {
			e = nil // it does not count
		}
		c.tear(j.gangOf(t), t, e)
		return
	case more.away:
		c.sendAway(j, t, r, e, cause, more)
		return
	case again:
		c.retry(j, t, r, e, cause, tr, more)
		if gs.ganged() {
			c.redoAll(j, c.regroup(j, t))
		}
		return
	}
	c.noteEnd(j, comms.Event{Kind: comms.EventFailed, Task: t, Attempt: s.attempt, Executor: e.Executor, Cause: cause, Usage: c.costOf(r), Error: e})
	c.end(j, t, tFailed)
	c.todo = append(c.todo, ended{j, t})
	if j.stopped == nil && !j.mayFail(t) {
		c.stop(j, &comms.TaskError{Kind: comms.ErrorSkipped, Message: fmt.Sprintf("the job stopped because %s failed", e.Task)},
			comms.Cause{Kind: comms.CauseTask, Ref: comms.DatasetRef{Task: t}})
	}
}

// stateful tells whether a task is a call whose process had what no other attempt would have.
func (j *job) stateful(t taskIndex) bool {
	return j.dyn != nil && j.dyn.rows.at(t).shape != nil && j.dyn.rows.at(t).shape.kind.Stateful
}

// retriesOn tells whether a task is tried again after an error: a call may name the errors.
func (j *job) retriesOn(t taskIndex, e *comms.TaskError) bool {
	if j.dyn == nil || j.dyn.rows.at(t).shape == nil || len(j.dyn.rows.at(t).shape.kind.RetryOn) == 0 {
		return true
	}
	return slices.ContainsFunc(e.AllCodes(), func(code string) bool { return slices.Contains(j.dyn.rows.at(t).shape.kind.RetryOn, code) })
}

// retry prepares the next attempt. After an error of the task itself it waits,
// longer each time; after a crash, and with more memory, it starts at once.
func (c *Core) retry(j *job, t taskIndex, r *run, e *comms.TaskError, cause comms.Cause, tr *trouble, more growth) {
	s := j.at(t)
	c.noteRetry(j, t, r, e, cause, more)
	if e.Kind.Retryable() || more.memory > 0 {
		s.state = tWaiting
		c.reassess(j, t, comms.Cause{Kind: comms.CauseTask})
		return
	}
	s.state = tDelayed
	c.delays++
	c.delayed.Push(delay{c.now.Add(pauseAfter(tr.fails)), j, t, s.attempt, c.delays})
}

// noteRetry ends an attempt that another follows.
func (c *Core) noteRetry(j *job, t taskIndex, r *run, e *comms.TaskError, cause comms.Cause, more growth) {
	s := j.at(t)
	c.note(j, comms.Event{Kind: comms.EventRetry, Task: t, Attempt: s.attempt, Executor: e.Executor, Cause: cause, Usage: c.costOf(r), Error: e, Count: uint64(more.memory)})
	s.attempt = comms.NextTry(s.attempt)
	s.flags |= fUnfused
}

// pauseAfter is how long a task waits that has failed so often.
func pauseAfter(fails int) time.Duration {
	return min(retryDelay<<min(fails-1, 7), 100*retryDelay)
}

// delay is a task that waits for its next attempt.
type delay struct {
	at      time.Time
	job     *job
	task    taskIndex
	attempt uint32
	arrival uint64 // its number
}

// delayOrder is by time, then by arrival.
type delayOrder struct{ pq.Unplaced[delay] }

// Before tells whether a is due before b.
func (delayOrder) Before(a, b delay) bool {
	return a.at.Before(b.at) || a.at.Equal(b.at) && a.arrival < b.arrival
}

func (c *Core) retryDelayed() {
	for c.delayed.Len() > 0 {
		d := c.delayed.First()
		if d.at.After(c.now) {
			c.wakeAt(d.at)
			return
		}
		c.delayed.Pop()
		if s := d.job.at(d.task); s.state == tDelayed && s.attempt == d.attempt {
			s.state = tWaiting
			c.reassess(d.job, d.task, comms.Cause{Kind: comms.CauseTask})
		}
	}
}

// setTimer asks for a tick at the earliest time at which something is due.
func (c *Core) setTimer() {
	at := c.wake
	if c.ctl.flushAt.After(c.now) && (at.IsZero() || c.ctl.flushAt.Before(at)) { // else the next Idle flushes
		at = c.ctl.flushAt
	}
	for _, ex := range c.execs {
		if len(ex.queue) == 0 || ex.state == exKilled {
			continue
		}
		if d := ex.queue[0].deadline; !d.IsZero() && (at.IsZero() || d.Before(at)) {
			at = d
		}
	}
	if at.IsZero() || at.Equal(c.timer) || !c.timer.IsZero() && c.timer.After(c.now) && c.timer.Before(at) {
		return // an earlier tick comes anyway and sets the next
	}
	c.timer = at
	c.emit(SetTimer{at})
}

// executorDead ends what an executor held and decides about each of its runs: the
// one it was in is to blame, those behind it never started, those before it had
// ended but could not say so.
func (c *Core) executorDead(ev ExecutorDead) {
	ex := c.byExec[ev.Executor]
	if c.lingering[ev.Executor] != nil || ex != nil && ex.session != nil {
		c.programDead(ev)
		return
	}
	if ex == nil {
		return
	}
	quiet := ex.state == exStopping && len(ex.queue) == 0
	c.unfoldAll(ex, nil)
	queue := ex.queue
	ex.queue, ex.batch = nil, nil
	c.regrant(ex)
	ex.state = exKilled
	c.removeExecutor(ex)
	c.endLeases(ex, queue)
	if !ex.greeted {
		c.startFailed(ex.pool, fmt.Sprintf("it ended before it said hello: %s %s %s", ex.why, ev.Why, ev.Tail))
	}
	blamed := slices.IndexFunc(queue, func(r *run) bool { return r.id == ev.Run })
	if blamed < 0 && len(queue) > 0 && queue[0].started && !quiet {
		blamed = 0
	}
	for _, r := range queue {
		c.dropRun(r)
	}
	for i, r := range queue {
		if r.orphan || r.job.at(r.task).state.over() {
			continue
		}
		switch {
		case i == blamed:
			c.crashed(r, ex, ev)
		case i < blamed:
			r.job.at(r.task).state = tRunning
			c.lostRun(r, ex)
		default:
			r.job.at(r.task).state = tQueued
			c.returned(r)
		}
	}
}

// lostRun gives a task a new attempt whose run had ended, or almost, when its executor died of another's.
func (c *Core) lostRun(r *run, ex *executor) {
	if r.job.stopped != nil {
		c.endUnrun(r.job, r.task)
		return
	}
	c.anew(r, nil, comms.Cause{Kind: comms.CauseExecutor, Number: uint64(ex.id), Text: "its executor died before it could report"})
}

// anew gives a task another attempt whose run was lost for no fault of the task.
func (c *Core) anew(r *run, usage *comms.Usage, cause comms.Cause) {
	j, s := r.job, r.job.at(r.task)
	c.note(j, comms.Event{Kind: comms.EventRetry, Task: r.task, Attempt: s.attempt, Executor: r.ex.id, Cause: cause, Usage: usage})
	s.attempt = comms.NextTry(s.attempt)
	s.flags |= fUnfused
	if r.gs.ganged() && j.gangOf(r.task).spans() {
		c.tear(j.gangOf(r.task), r.task, nil)
		return
	}
	s.state = tWaiting
	c.reassess(j, r.task, cause)
	if r.gs.ganged() {
		c.redoAll(j, c.regroup(j, r.task))
	}
}

// crashed ends the attempt that an executor died of. It had begun, if without a word
// then when the executor came to it.
func (c *Core) crashed(r *run, ex *executor, ev ExecutorDead) {
	if !r.started {
		r.started, r.startedAt = true, ex.turn
	}
	c.noteStarted(r) // its end does not say what made it start
	if r.revoked() {
		c.anew(r, c.costOf(r), comms.Cause{Kind: comms.CauseExecutor, Number: uint64(ex.id), Text: "it died when it was to end this run, for what counts no more"})
		return
	}
	if r.lacks != "" && r.job.stopped == nil {
		c.anew(r, c.costOf(r), comms.Cause{Kind: comms.CauseMemory, Text: r.lacks})
		return
	}
	e := &comms.TaskError{Kind: comms.ErrorCrash, Message: "its executor died: " + ev.Why, Executor: ex.id, Signal: ev.Signal, LogTail: ev.Tail}
	switch {
	case r.abort != nil:
		e.Kind, e.Message = r.abort.Kind, r.abort.Message
	case ev.ReadOnly:
		e.Kind, e.Message = comms.ErrorReadOnly, ev.Why
	case ev.Memory:
		e.Kind, e.Message = comms.ErrorMemory, ev.Why
		r.used = max(ev.Used, r.gs.need[resMemory])
	case ev.Panic != "": // it would end so again
		e.Kind, e.Message, e.Stack = comms.ErrorPanic, ev.Panic, ev.Stack
	case ex.why != "":
		e.Message = "its executor was ended: " + ex.why
	}
	if r.job.stopped != nil {
		e.Kind = comms.ErrorCancelled
	}
	c.fail(r.job, r.task, r, e, comms.Cause{Kind: comms.CauseExecutor, Number: uint64(ex.id)}, false)
}

// pinFailed ends a run whose inputs could not be brought into memory. When one
// of them is lost it is recomputed; else the task fails.
func (c *Core) pinFailed(r *run) {
	j := r.job
	c.dropRun(r)
	s := j.at(r.task)
	if r.orphan || s.state.over() {
		return
	}
	s.state = tWaiting
	missing, failed := c.countMissing(j, r.task)
	if !j.dynamic() && (missing > 0 || failed && !c.tolerates(j, r.task) || errors.Is(r.pinErr, ledger.ErrLost)) {
		c.reassess(j, r.task, r.cause)
		return
	}
	if j.hosted() != nil && !j.dyn.rows.at(r.task).left() {
		c.sendBack(rowRef{j, r.task}, r.pinErr.Error())
		return
	}
	c.fail(j, r.task, r, &comms.TaskError{Kind: comms.ErrorMemory, Message: r.pinErr.Error()}, comms.Cause{Kind: comms.CauseMemory}, true)
}

// lost takes the news that a dataset's last copy is gone, and has it recomputed
// while it is needed.
func (c *Core) lost(k ledger.Key, why error) {
	j, d := c.dataset(k)
	if d != nil && j.dyn != nil && d.desc.Ref.Output < argBase {
		delete(j.data, d.desc.Ref)
	}
	if l := c.loans[k]; l != nil {
		l.lost = true
		for _, o := range c.jobs {
			for _, ref := range o.sortedData() {
				switch lent := o.data[ref]; {
				case lent.lent != l:
				case o.dyn != nil:
					c.loseArg(o, ref)
				default:
					c.lostStatic(o, lent, why)
					c.endLoan(l)
				}
			}
		}
	}
	if d == nil {
		return
	}
	ref := d.desc.Ref
	if j.dyn != nil {
		c.lostOfRow(j, ref, why)
		return
	}
	c.lostStatic(j, d, why)
}

// lostStatic is lost for a dataset of a graph.
func (c *Core) lostStatic(j *job, d *dataset, why error) {
	ref := d.desc.Ref
	if j.peers != nil && c.lostAway(j, d) {
		return
	}
	c.note(j, comms.Event{Kind: comms.EventLost, Task: ref.Task, Attempt: d.desc.Attempt, Output: ref.Output,
		Cause: comms.Cause{Kind: comms.CauseMemory, Ref: ref, Text: why.Error()}})
	needed := d.refs > 0 || j.outputWanted(ref)
	delete(j.data, ref)
	c.goneWhileRead(j, &d.desc)
	c.withdrawData(j, ref)
	if !needed || j.stopped != nil || j.adopted {
		return
	}
	c.redo(j, ref)
	c.lostJobs = append(c.lostJobs, j)
}

// rebuild has the lost inputs of a task recomputed. It tells whether there were any.
func (c *Core) rebuild(j *job, t taskIndex) bool {
	refs := j.gone(t, false)
	for _, ref := range refs {
		c.redo(j, ref)
	}
	return len(refs) > 0
}

// redo runs the producer of a dataset again, and those of its inputs that are
// gone too: the smallest set that brings it back.
func (c *Core) redo(j *job, ref comms.DatasetRef) { c.redoAll(j, []comms.DatasetRef{ref}) }

// redoAll is redo for several.
func (c *Core) redoAll(j *job, work []comms.DatasetRef) {
	for len(work) > 0 {
		ref := work[len(work)-1]
		work = work[:len(work)-1]
		t := ref.Task
		if j.groupOf(t).group.Outputs[ref.Output].Generate != dag.GenerateNone {
			if st := j.stream(t, ref.Output); ref.Element < st.next {
				st.lost[ref.Element] = true
				st.torn = st.torn || j.overAt(t) && j.tasks[t].state != tFinished // it is not recomputed
			}
		}
		if !j.overAt(t) || j.tasks[t].state != tFinished {
			continue
		}
		if j.tasks[t].flags&fElsewhere != 0 || j.groupOf(t).ganged() && j.gangOf(t).asks() {
			c.askFor(j, ref)
			continue
		}
		attempt := j.tasks[t].attempt
		c.note(j, comms.Event{Kind: comms.EventRetry, Task: t, Attempt: attempt,
			Cause: comms.Cause{Kind: comms.CauseDataset, Ref: ref, Text: "this dataset is gone and is needed again"}})
		c.again(j, t, comms.NextTry(attempt))
		j.tasks[t].flags |= fUnfused
		work = append(work, j.gone(t, true)...)
		if j.groupOf(t).ganged() {
			work = append(work, c.regroup(j, t)...)
		}
	}
}

// gone lists the inputs of a task that were made and are not here any more; those
// of tasks that ended before the job came here when elsewhere is set.
func (j *job) gone(t taskIndex, elsewhere bool) []comms.DatasetRef {
	var refs []comms.DatasetRef
	ins, err := j.inputs(t)
	if err != nil {
		return nil
	}
	for _, in := range ins {
		refs = append(refs, j.goneOf(in.Sources, elsewhere)...)
	}
	return refs
}

func (j *job) goneOf(sources []dag.Source, elsewhere bool) []comms.DatasetRef {
	var refs []comms.DatasetRef
	for _, s := range sources {
		for _, ref := range j.expand(s) {
			st := j.streams[outputKey{ref.Task, ref.Output}]
			published := st != nil && ref.Element < st.next && !st.lost[ref.Element]
			if !elsewhere && int(ref.Task) < len(j.tasks) && j.tasks[ref.Task].flags&fElsewhere != 0 || j.peers != nil && j.peers.heard[ref] != nil {
				continue
			}
			if j.data[ref] == nil && (published || j.overAt(ref.Task) && j.tasks[ref.Task].state == tFinished) {
				refs = append(refs, ref)
			}
		}
	}
	return refs
}

// skipCount is how many elements of an output a new attempt at a generator must
// not publish again: those before the first that is gone.
func (c *Core) skipCount(j *job, t taskIndex, output uint32) uint64 {
	st := j.stream(t, output)
	n := st.next
	for e := range st.lost {
		n = min(n, e)
	}
	return n
}
