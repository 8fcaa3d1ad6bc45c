package core

import (
	"fmt"
	"strings"
)

// place gives a trial a worker.
func (c *Core) place(t *Trial) {
	t.Attempt++
	t.Seq, t.asked, t.done, t.want, t.saving = 0, -1, false, goOn, ""
	t.Started = c.now
	c.set(t, Pending, Placing)
	if t.cut() { // what came behind the checkpoint is trained again
		c.sched.Rewind(c.board, t, len(t.Scores))
	}
	credit := c.credit(t)
	c.do(Action{Kind: Start, Trial: t.ID, Attempt: t.Attempt, Config: t.Config, From: t.resume, Credit: &credit})
}

// credit is how far the trial may train before anything could be decided.
func (c *Core) credit(t *Trial) Credit {
	if c.opts.Strict || c.opts.Stopper != nil {
		return Credit{Reports: 1}
	}
	credit := Credit{Reports: 1}
	if f, ok := c.sched.(Forecaster); ok {
		credit = f.Credit(c.board, t)
	}
	credit = credit.With(Credit{Until: c.opts.Stop})
	if e := c.opts.Every; e > 0 && (t.CanSave || t.Phase == Placing) {
		done := int64(0)
		if t.resume != nil {
			done = t.resume.Iteration
		}
		if t.Last != nil && t.Seq > 0 {
			done = t.Last.Iteration
		}
		credit = credit.With(Credit{Reports: e - int(done)%e})
	}
	return credit
}

// worker handles what the worker of t says. It is of the current attempt.
func (c *Core) worker(t *Trial, e *Event) {
	switch e.Kind {
	case Reported:
		if t.Phase == Placing {
			c.set(t, Running, Stepping)
			t.CanSave = false
		}
		t.CanSave = t.CanSave || e.CanSave // the first batch may come before the object is made
		c.reported(t, e)
	case Saved:
		c.saved(t, e)
	case Exited:
		c.exited(t, e)
	}
}

// reported accepts results, decides on each, and then on how the worker goes on.
func (c *Core) reported(t *Trial, e *Event) {
	if len(e.Results) > 0 && e.Seq > t.Seq+1 {
		c.broken(t, fmt.Sprintf("its worker sent result %d behind result %d", e.Seq, t.Seq), true)
		return
	}
	skip := min(max(0, t.Seq+1-e.Seq), len(e.Results)) // that came before
	if t.want == pause {
		skip = len(e.Results) // it goes on from a checkpoint
	}
	before := t.want
	index, accepted := len(t.Scores), e.Results[skip:]
	save := false
	for i := range accepted {
		d, ok := c.accept(t, &accepted[i], e.Seq+skip+i)
		save = save || d.Save
		if !ok || t.want > before {
			accepted = accepted[:i+1]
			break
		}
	}
	if len(accepted) > 0 {
		c.notNow = false
		c.do(Action{Kind: Tell, Trial: t.ID, Attempt: t.Attempt, Index: index, N: len(accepted), Results: accepted})
	}
	if t.want < fail && c.opts.Stopper != nil && len(accepted) > 0 && c.halted == "" {
		if all, why := c.opts.Stopper.StopAll(); all {
			c.haltAll(why)
		}
	}
	t.done = t.done || e.Done
	if t.want == fail {
		c.broken(t, t.Error, false)
		return
	}
	c.next(t, e.Waiting || e.Done, save)
}

// accept takes one result into the history and asks the rules, then the scheduler.
func (c *Core) accept(t *Trial, r *Result, seq int) (Decision, bool) {
	t.Seq = seq
	t.Last = r
	score, ok := r.Value(c.opts.Metric)
	if !ok {
		score = nan
	}
	t.Scores = append(t.Scores, score)
	t.Iterations = append(t.Iterations, r.Iteration)
	if r.Checkpoint != "" {
		c.register(t, r.Checkpoint)
	}
	if t.want >= stop { // it came while its worker was told to stop
		return Decision{}, true
	}
	if c.opts.Metric != "" && !ok && !c.opts.Lenient {
		t.want, t.Error = fail, missing(c.opts.Metric, r)
		return Decision{}, false
	}
	first := len(t.Scores) == 1
	if first && c.opts.Strict {
		if why := c.wanted.lacking(r); why != "" {
			t.want, t.Error = fail, why
			return Decision{}, false
		}
	}
	if why := c.wanted.see(r, first); why != "" {
		c.do(Action{Kind: Warn, Trial: t.ID, Attempt: t.Attempt, Reason: why})
	}
	for _, s := range c.opts.Stop {
		if s.Holds(r) {
			c.wants(t, stop, EndDone, s.String())
			return Decision{}, true
		}
	}
	if s := c.opts.Stopper; s != nil {
		if yes, why := s.Stop(t.ID, r); yes {
			c.wants(t, stop, EndDone, why)
			return Decision{}, true
		}
	}
	d := c.sched.Result(c.board, t, r)
	switch d.Verdict {
	case Pause:
		t.clone = d.Clone
		c.wants(t, pause, "", d.Reason)
	case Terminate:
		c.wants(t, stop, EndScheduler, d.Reason)
	}
	return d, true
}

func missing(metric string, r *Result) string {
	if x, ok := r.Metrics[metric]; ok {
		return fmt.Sprintf("the metric %q of result %d is no number but %s", metric, r.Iteration, quoted(x))
	}
	names := make([]string, 0, len(r.Metrics))
	for k := range r.Metrics {
		names = append(names, k)
	}
	sortText(names)
	return fmt.Sprintf("result %d has no metric %q, it has: %s%s", r.Iteration, metric, strings.Join(names, ", "), meant(metric, names))
}

// wants raises what is to become of a trial.
func (c *Core) wants(t *Trial, g goal, end End, reason string) {
	if g > t.want {
		t.want, t.end, t.Reason = g, end, reason
		if g > pause {
			t.clone = nil
		}
	}
}

// next goes on with a trial whose worker is idle or is to be interrupted.
func (c *Core) next(t *Trial, idle, save bool) {
	if t.Phase != Stepping {
		return
	}
	last := t.want >= stop || t.done
	switch {
	case t.done && t.want < stop:
		c.wants(t, stop, EndDone, "its training has ended")
	}
	every := c.opts.Every > 0 && t.Last != nil && t.Seq > 0 && t.Last.Iteration%int64(c.opts.Every) == 0
	due := save || every || t.want == pause && t.clone == nil || last && c.opts.AtEnd && t.end != EndOrder
	switch {
	case due && idle && t.CanSave && t.asked != t.Seq:
		t.asked = t.Seq
		t.saving = checkpointName(t)
		c.set(t, Running, Saving)
		c.do(Action{Kind: Save, Trial: t.ID, Attempt: t.Attempt, Name: t.saving})
	case t.done && t.want >= stop: // the worker is free already
		c.finish(t, t.end)
	case t.want > goOn:
		c.set(t, Running, Draining)
		c.do(Action{Kind: Stop, Trial: t.ID, Attempt: t.Attempt, Reason: t.Reason})
	case idle:
		credit := c.credit(t)
		c.do(Action{Kind: Go, Trial: t.ID, Attempt: t.Attempt, Credit: &credit})
	}
}

// saved registers a checkpoint and goes on with what is wanted.
func (c *Core) saved(t *Trial, e *Event) {
	if t.Phase != Saving || e.Name != t.saving {
		return
	}
	t.saving = ""
	if e.Error == "" {
		c.register(t, e.Name)
	} else {
		t.Unsaved, t.SaveError = t.Unsaved+1, e.Error
		if t.Unsaved == 1 { // later ones are in its story
			c.do(Action{Kind: Warn, Trial: t.ID, Attempt: t.Attempt, Reason: fmt.Sprintf("%s could not save %s: %s", TrialName(t.ID), e.Name, e.Error)})
		}
		c.deliver(t)
		if len(t.Checkpoints) == 0 && t.want == pause { // paused without a checkpoint it would begin from its start
			t.want, t.Reason = goOn, ""
		}
	}
	c.set(t, Running, Stepping)
	c.next(t, true, false)
}

// exited has a worker's end decide where the trial goes.
func (c *Core) exited(t *Trial, e *Event) {
	c.notNow = false
	switch {
	case t.want >= stop: // that was decided before
		t.Error = e.Error
		c.finish(t, t.end)
	case e.Cause == CauseStopped && t.want == pause:
		c.paused(t)
	case e.Cause == CauseLost, e.Cause == CauseStopped:
		t.Losses++
		t.Error = e.Error
		c.retry(t)
	case e.Cause == CauseRestore && len(t.Checkpoints) > 1:
		t.Error = e.Error // the checkpoint before is tried
		c.discardNewest(t)
		c.retry(t)
	default:
		c.failed(t, e.Error)
	}
}

// broken fails a trial whose worker may still run.
func (c *Core) broken(t *Trial, why string, again bool) {
	c.do(Action{Kind: Stop, Trial: t.ID, Attempt: t.Attempt, Reason: why})
	if again {
		c.failed(t, why)
		return
	}
	t.Failures++
	t.Error = why
	c.errored(t)
}

// failed counts a failure, and has the trial run again or end.
func (c *Core) failed(t *Trial, why string) {
	t.Failures++
	t.Error = why
	if c.opts.MaxFailures >= 0 && t.Failures > c.opts.MaxFailures {
		c.errored(t)
		return
	}
	c.retry(t)
}

func (c *Core) errored(t *Trial) {
	c.finish(t, EndError)
	if c.opts.FailFast {
		c.haltAll(fmt.Sprintf("trial %d ended with an error", t.ID))
	}
}

func (c *Core) retry(t *Trial) {
	c.do(Action{Kind: Recover, Trial: t.ID, Attempt: t.Attempt, Reason: t.Error})
	c.requeue(t)
}

// requeue has a trial run again from its newest checkpoint.
func (c *Core) requeue(t *Trial) {
	c.deliver(t)
	t.saving, t.clone, t.want, t.done = "", nil, goOn, false
	t.rewind()
	c.enqueue(t, true)
}

// paused frees the slot of a trial: it waits for the scheduler, or for the trial that it takes over.
func (c *Core) paused(t *Trial) {
	c.deliver(t)
	t.want = goOn
	c.set(t, Paused, Waiting)
	if t.clone == nil {
		t.rewind()
		return
	}
	t.Phase = Awaiting
	c.await(t)
}

// halt stops a trial, wherever it is.
func (c *Core) halt(t *Trial, end End, reason string) {
	switch {
	case t.Status.Final():
	case !t.HasWorker():
		t.Reason = reason
		c.finish(t, end)
	case t.want >= stop:
	default:
		c.wants(t, stop, end, reason)
		if t.Phase == Placing || t.Phase == Stepping {
			c.set(t, Running, Draining)
			c.do(Action{Kind: Stop, Trial: t.ID, Attempt: t.Attempt, Reason: reason})
		}
	}
}

// finish ends a trial.
func (c *Core) finish(t *Trial, end End) {
	c.unpin(t)
	t.clone, t.want, t.saving = nil, goOn, ""
	t.End, t.Ended = end, c.now
	status := Terminated
	if end == EndError {
		status, t.Reason = Errored, t.Error
	}
	c.set(t, status, "")
	c.deliver(t)
	c.notNow = false
	c.sched.End(c.board, t, end)
	again := 0
	if t.told {
		again = 1
	}
	t.told = true
	c.do(Action{Kind: Complete, Trial: t.ID, Attempt: t.Attempt, N: again, End: end, Reason: t.Reason, Last: t.Last})
}
