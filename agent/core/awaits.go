package core

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/shm/ledger"
)

// A run that waits for a call releases its cpu, and gets it again
// with the answer.

// maxWaiting is how many runs may wait for calls: each is a process.
const maxWaiting = 128

// awaits takes a run's word that it waits for a call.
func (c *Core) awaits(ex *executor, m *comms.Await) {
	r := c.runAt(ex, m.Run)
	if r == nil || r.orphan {
		return
	}
	c.startedRun(r)
	by := r.caller
	if by == nil || by.calls[m.Number] == nil {
		c.misbehaved(r, fmt.Errorf("it awaits call %d, which it has not made", m.Number))
		return
	}
	j := by.calls[m.Number]
	if j.call.awaited {
		return
	}
	if len(by.waits) == 0 {
		if c.waitingRuns() >= maxWaiting && !j.call.over {
			c.refuseWait(r, j)
			return
		}
		c.waiters = append(slices.DeleteFunc(c.waiters, func(o *caller) bool { return o == by }), by) // what was answered last stays until the next pass
	}
	j.call.awaited = true
	by.waits = append(by.waits, j)
}

// awaits tells whether a run waits for calls.
func (r *run) awaits() bool { return r.caller != nil && len(r.caller.waits) > 0 }

func (c *Core) waitingRuns() (n int) {
	for _, by := range c.waiters {
		if by.run != nil && len(by.waits) > 0 {
			n++
		}
	}
	return n
}

// lastWait returns since when the last of the runs waits that wait for calls.
func (c *Core) lastWait() (last time.Time) {
	for _, by := range c.waiters {
		if by.run != nil && by.run.back && by.run.backAt.After(last) {
			last = by.run.backAt
		}
	}
	return last
}

func (c *Core) refuseWait(r *run, j *job) {
	c.emit(ToExecutor{r.ex.id, &comms.Returned{Run: r.id, Number: j.call.number, Error: &comms.TaskError{Kind: comms.ErrorTask, Task: j.taskName(j.call.task(j)), Agent: c.cfg.Agent,
		Message: fmt.Sprintf("%d tasks wait for tasks that they called, each in a process of its own: call less deeply", maxWaiting)}}})
}

// answerCallers answers the runs that wait for calls, in each scheduling pass. One
// that waits for nothing more gets its cpu first.
func (c *Core) answerCallers() {
	c.waiters = slices.DeleteFunc(c.waiters, func(by *caller) bool { return by.run == nil || len(by.waits) == 0 })
	for _, by := range slices.Clone(c.waiters) {
		c.answerCaller(by)
	}
}

func (c *Core) answerCaller(by *caller) {
	r := by.run
	for _, j := range slices.Clone(by.waits) {
		if !c.returns(r, j) {
			continue
		}
		if len(by.waits) == 1 && r.back {
			if !c.fits(r.ex.grant, r.gs.need) {
				return
			}
			r.back = false
			c.cover(r.ex, r.gs.need)
		}
		c.unplaced = false
		by.waits = slices.DeleteFunc(by.waits, func(o *job) bool { return o == j })
		j.call.awaited = false
		c.emit(ToExecutor{r.ex.id, c.answer(r, j)})
	}
	if len(by.waits) == 0 {
		return
	}
	c.unfold(r)
	switch ex := r.ex; {
	case len(ex.queue) > 1: // it would wait as long, and needs the cpu then
		if !ex.asked {
			c.unfoldAll(ex, nil)
			c.askBack(ex, ex.queue[1:])
		}
	case !r.back:
		r.back, r.backAt = true, c.now
		c.regrant(ex)
	}
}

// returns tells whether a run can be told what a call returned, which must be in
// memory then and stays there until the run has ended.
func (c *Core) returns(r *run, j *job) bool {
	k := j.call
	d := j.result()
	if !k.over || d == nil || !d.sealed || k.held {
		return k.over
	}
	if k.pins == 0 {
		k.pins = c.lastReq + 1
		r.more = append(r.more, k.pins)
		c.ask(&request{call: j}, ledger.Request{Owner: r.owner(), Class: ledger.Start, Pins: []ledger.Key{j.key(d)}})
		c.effects()
	}
	return k.held
}

// answer is what a run is told of a call that has ended.
func (c *Core) answer(r *run, j *job) *comms.Returned {
	m := &comms.Returned{Run: r.id, Number: j.call.number, Error: j.call.failed}
	if d := j.result(); d != nil {
		m.Data = d.desc
		if info, ok := c.led.Dataset(j.key(d)); ok && d.sealed {
			m.Data.Place.Segment, m.Data.Place.Offset = uint32(info.Place.Segment), uint64(info.Place.Offset)
			c.announce(r.ex, info.Place.Segment)
		}
	}
	return m
}

// resultLost takes the word that what a call returned is gone.
func (c *Core) resultLost(j *job, why string) {
	j.call.failed = &comms.TaskError{Kind: comms.ErrorStore, Task: j.taskName(j.call.task(j)), Agent: c.cfg.Agent, Message: "what it returned is lost: " + why}
	j.call.held = true
	c.wakeAt(c.now)
}

// unplaceOthers takes back the tasks beside calls that wait for memory, or that have
// it and no executor. It tells whether there were any.
func (c *Core) unplaceOthers() bool {
	var runs []*run
	for _, r := range c.runs {
		if r.ex == nil && r.job.call == nil && !r.orphan {
			runs = append(runs, r)
		}
	}
	slices.SortFunc(runs, func(a, b *run) int { return cmp.Compare(a.id, b.id) })
	for _, r := range runs {
		if t := r.job.at(r.task); t.state == tPinning {
			c.dropUnplaced(r.job, r.task)
			t.state = tWaiting
			c.reassess(r.job, r.task, r.cause)
		}
	}
	return len(runs) > 0
}

// endCaller takes a run that has ended from its calls, which stay for the next try.
func (c *Core) endCaller(r *run) {
	if by := r.caller; by != nil {
		by.leave()
		c.reap = append(c.reap, by)
	}
	for _, id := range r.more {
		if c.requests[id] != nil {
			delete(c.requests, id)
			c.must(c.led.Release(id))
			c.effects() // another of them may have failed with it
		}
	}
	r.more = nil
}

// leave takes the calls of a task from its run: it waits for none. Data that was brought
// into memory for it stays there until it ends, and is not there for another run.
func (by *caller) leave() {
	if by.run == nil {
		return
	}
	by.run.caller = nil
	by.run, by.waits = nil, nil
	for _, j := range by.calls {
		j.call.awaited, j.call.held, j.call.pins = false, false, 0
	}
}

// endCalls looks at the calls of a task that has ended or is not this agent's any more.
func (c *Core) endCalls(j *job, t taskIndex) {
	if by := j.callers[t]; by != nil {
		c.reap = append(c.reap, by)
	}
}

// stuckCalls fails a call that needs more than the tasks that wait for it leave,
// when nothing else can move: a core, memory for its inputs, or for its result.
func (c *Core) stuckCalls() {
	if len(c.waiters) == 0 || slices.ContainsFunc(c.execs, func(ex *executor) bool { return ex.wants > 0 || ex.state == exKilled }) {
		return
	}
	if c.sendBackStuck() {
		return
	}
	if !c.unplaced && c.unplaceOthers() { // once, and then a call is to blame
		c.unplaced = true
		c.wakeAt(c.now)
		return
	}
	if c.refuseStuck() || c.goesOnAway() { // with what comes back others go on
		return
	}
	var first *run
	for _, r := range c.runs {
		if r.job.call != nil && r.ex == nil && r.job.at(r.task).state == tPinning && (first == nil || r.id < first.id) {
			first = r
		}
	}
	if first != nil {
		j, t := first.job, first.task
		c.dropUnplaced(j, t)
		c.fail(j, t, nil, &comms.TaskError{Kind: comms.ErrorMemory, Message: "there is no room for its inputs beside those of the tasks that wait for calls"}, comms.Cause{Kind: comms.CauseMemory}, true)
		return
	}
	if c.resultStuck() {
		return
	}
	for _, by := range c.waiters {
		for _, j := range by.waits {
			if j.call.pins != 0 && !j.call.held {
				c.resultLost(j, "there is no room for it beside the inputs of the tasks that wait for calls")
				return
			}
		}
	}
	for _, j := range c.jobs {
		if j.call == nil || j.at(j.call.task(j)).state != tReady || !c.unplaced && c.fits(make(amounts, len(c.total)), j.groupOf(j.call.task(j)).need) {
			continue
		}
		c.fail(j, j.call.task(j), nil, &comms.TaskError{Kind: comms.ErrorSetup,
			Message: "it needs more than the tasks that wait for calls leave on this agent: let it, or them, ask for less"},
			comms.Cause{Kind: comms.CauseTask}, true)
		return
	}
}
