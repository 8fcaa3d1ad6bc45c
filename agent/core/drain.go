package core

import (
	"slices"
	"time"

	"github.com/cascade-run/cascade/comms"
)

// leaving is an agent's way out of the cluster.
type leaving struct {
	since     time.Time
	told      map[*job][]taskIndex // what the controller was told is in hand, sorted; nil before it was
	dismissed bool                 // the controller said that nothing keeps the agent
}

// answerWithin is how long executors may take to say what of their queues they
// have begun, before the controller is told that they have all of it.
const answerWithin = time.Second

// drain starts nothing more and takes back what is queued, except a run that waits
// for a value of the run before it: only this executor will have that.
func (c *Core) drain() {
	if c.leaving != nil {
		return
	}
	c.leaving = &leaving{since: c.now}
	for _, ex := range c.execs {
		if ex.state != exUp {
			continue
		}
		c.unfoldAll(ex, nil)
		var runs []*run
		begun := false // the run before is one that goes on
		for i, r := range ex.queue {
			// The first may have begun and not said so yet. Were what lives on its value taken
			// back then, the value would be lost with it.
			follows := i == 0 && len(ex.queue) > 1 && ex.queue[1].live
			begun = i == 0 && (r.started || follows || r.gang != nil) || begun && r.live
			if !r.asked && !begun {
				runs = append(runs, r)
			}
		}
		c.askBack(ex, runs)
	}
}

// tellInHand tells the controller, once it is known, what an agent that leaves has
// begun, so that others may have the rest; and again when something of it will not
// end here after all.
func (c *Core) tellInHand() {
	l := c.leaving
	if !c.ctl.open || l.told != nil && !c.outOfHand() {
		return
	}
	if l.told == nil && slices.ContainsFunc(c.execs, func(ex *executor) bool { return ex.state != exKilled && slices.ContainsFunc(ex.queue, waitsBack) }) {
		if due := l.since.Add(answerWithin); due.After(c.now) {
			c.wakeAt(due)
			return
		}
	}
	c.flush()
	if c.ctl.unsent > 0 {
		return // the controller knows first what has ended: else others would run that again
	}
	l.told = c.inHand()
	m := &comms.DrainStatus{Leaving: true}
	for _, j := range c.jobs {
		if tasks := l.told[j]; len(tasks) > 0 {
			m.Jobs = append(m.Jobs, comms.JobInHand{Job: j.id, JobIncarnation: j.life, Held: rangesOf(tasks)})
		}
	}
	c.emit(ToController{m})
}

// waitsBack tells whether a run was asked back and the answer is still to come.
func waitsBack(r *run) bool { return r.asked && !r.started }

// inHand lists the tasks that executors have and that go on, sorted. A generator
// that waits for consumers does not, nor does what waits for a call: they start
// nowhere before it is somewhere else.
func (c *Core) inHand() map[*job][]taskIndex {
	all := map[*job][]taskIndex{}
	for _, ex := range c.execs {
		if ex.state == exKilled {
			continue
		}
		for _, r := range ex.queue {
			if r.orphan || r.back || r.job.dynamic() {
				continue
			}
			all[r.job] = append(all[r.job], r.task)
			for _, s := range r.rest {
				all[r.job] = append(all[r.job], s.task)
			}
		}
	}
	for _, tasks := range all {
		slices.Sort(tasks)
	}
	return all
}

// outOfHand tells whether something that was told to be in hand is not any more
// and has not ended.
func (c *Core) outOfHand() bool {
	now := c.inHand()
	for j, tasks := range c.leaving.told {
		if c.byJob[j.id] != j {
			continue
		}
		for _, t := range tasks {
			if s := j.tasks[t].state; s == tAbsent || s.over() {
				continue
			}
			if _, has := slices.BinarySearch(now[j], t); !has {
				return true
			}
		}
	}
	return false
}

// dismiss takes the controller's word to leave, or that nothing keeps the agent.
func (c *Core) dismiss(m *comms.DrainAgent) {
	switch {
	case !m.Done:
		c.drain()
		c.emit(Leave{Grace: time.Duration(m.Grace), Why: m.Reason})
	case c.leaving != nil:
		c.leaving.dismissed = true
	}
}

// quit says what an agent that leaves has begun and will not end: its time is up.
// The controller need not wait for it.
func (c *Core) quit() {
	if c.leaving == nil || !c.ctl.open {
		return
	}
	if c.flush(); c.ctl.unsent > 0 {
		return // else the controller would give away what has ended; the end of the link says the rest
	}
	c.emit(ToController{&comms.DrainStatus{Leaving: true, Gone: true}})
}

// Drained tells whether an agent that drains has nothing more to wait for: what
// ran has ended, but for generators that wait for consumers, and the controller
// has committed it and seen to it that others have the rest, as have the owners of
// calls that were forwarded here. One that is away may
// come back while the grace lasts: without it only an agent may go that has nothing of
// jobs that go on. Its driver may end it then.
func (c *Core) Drained() bool {
	for _, ex := range c.execs {
		if ex.state != exKilled && len(ex.queue) > 0 && !ex.held() {
			return false
		}
	}
	if c.ctl.pending > 0 || len(c.ctl.batches) > 0 || len(c.hosts) > 0 {
		return false
	}
	if c.leaving != nil && c.leaving.dismissed {
		return true
	}
	return !c.ctl.open && !slices.ContainsFunc(c.jobs, func(j *job) bool { return !j.over || j.peers != nil })
}

// rangesOf packs sorted tasks.
func rangesOf(tasks []taskIndex) (out []comms.Range) {
	for _, t := range tasks {
		if n := len(out); n > 0 && t <= out[n-1].Last+1 {
			out[n-1].Last = t
			continue
		}
		out = append(out, comms.Range{First: t, Last: t})
	}
	return out
}
