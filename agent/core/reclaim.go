package core

import (
	"slices"
	"time"

	"github.com/cascade-run/cascade/comms"
)

// relieveAfter is how long an executor may be silent before runs queued on it are worth another executor.
const relieveAfter = 20 * time.Millisecond

// reclaimRuns asks silent executors for half of what has not started on them when
// another one of their pool has nothing to do.
func (c *Core) reclaimRuns() {
	for _, p := range c.pools {
		idle := slices.IndexFunc(p.execs, func(ex *executor) bool { return ex.state == exUp && len(ex.queue) == 0 && !ex.full })
		if idle < 0 {
			continue
		}
		for _, ex := range p.execs {
			if ex.asked || ex.state != exUp || !ex.spares() {
				continue
			}
			if !c.fits(p.execs[idle].grant, ex.queue[len(ex.queue)-1].gs.need) {
				continue
			}
			if due := ex.heard.Add(staleAfter); due.After(c.now) {
				c.wakeAt(due)
				continue
			}
			for _, r := range slices.Clone(ex.queue) {
				if r.isRow() {
					c.unfold(r)
				}
			}
			movable := ex.movable()
			c.askBack(ex, movable[len(movable)/2:])
		}
	}
}

// relieve has pools start an executor for runs that are queued on a silent one while none idles: its first run takes
// longer than was predicted, and perhaps waits for one of those behind it. reclaimRuns moves them when the new one is there.
func (c *Core) relieve() {
	none := make(amounts, len(c.total))
	for _, p := range c.pools {
		if p.wanted > 0 || slices.ContainsFunc(p.execs, func(ex *executor) bool { return ex.state == exStarting || ex.state == exUp && len(ex.queue) == 0 }) {
			continue // one comes, or reclaimRuns has one
		}
		for _, ex := range p.execs {
			if n := len(ex.queue); ex.asked || ex.state != exUp || n < 2 && !ex.queue[0].isRow() || !c.fits(none, ex.queue[n-1].gs.need) {
				continue // when something is free, it is looked at again
			}
			if due := ex.heard.Add(relieveAfter); due.After(c.now) {
				c.wakeAt(due)
			} else if ex.spares() {
				c.want(p, 1)
			}
		}
	}
}

// movable lists the runs of an executor that could run elsewhere: not the first,
// and none that lives on values of the runs before it.
func (ex *executor) movable() []*run {
	var out []*run
	for i, r := range ex.queue {
		if i > 0 && !r.started && r.job.at(r.task).missing == 0 && !r.orphan {
			out = append(out, r)
		}
	}
	return out
}

// spares tells whether an executor has runs that could run elsewhere.
func (ex *executor) spares() bool {
	return len(ex.movable()) > 0 || slices.ContainsFunc(ex.queue, (*run).isRow)
}

func (c *Core) askBack(ex *executor, runs []*run) {
	if len(runs) == 0 {
		return
	}
	ids := make([]comms.RunID, len(runs))
	for i, r := range runs {
		ids[i] = r.id
		r.asked = true
	}
	ex.asked = true
	c.emit(ToExecutor{ex.id, &comms.Reclaim{Runs: ids}})
}

// recall asks for all runs of a job that have not started, but, where paths says
// so, the rest of a path that has.
func (c *Core) recall(ex *executor, j *job, paths bool) {
	c.unfoldAll(ex, j)
	var runs []*run
	begun := false // the run before is one that goes on
	for i, r := range ex.queue {
		begun = i == 0 && (r.started || r.gang != nil) || paths && begun && r.live
		if r.job == j && !r.asked && !begun {
			runs = append(runs, r)
		}
	}
	c.askBack(ex, runs)
}

// growing tells whether something that runs waits for memory.
func (c *Core) growing() bool {
	return c.squeezed && slices.ContainsFunc(c.execs, func(ex *executor) bool { return ex.wants > 0 && ex.state != exKilled })
}

// unpinPlaceless unpins the inputs of runs that no executor has taken yet: it
// may be the one that waits for this memory that they wait for.
func (c *Core) unpinPlaceless() {
	for _, r := range slices.Clone(c.pinned) {
		if i := slices.Index(c.pinned, r); i >= 0 && r.pinErr == nil && !r.orphan && !c.turnComes(r) {
			c.pinned = slices.Delete(c.pinned, i, i+1)
			c.dropRun(r)
			r.job.at(r.task).state = tWaiting
			c.reassess(r.job, r.task, r.cause)
		}
	}
}

// turnComes tells whether a call that has its inputs in memory lacks nothing but an
// executor, and one is idle or starts: it, or its place, is the call's then. Two calls
// of different pools would else take memory and executor from each other for ever.
func (c *Core) turnComes(r *run) bool {
	if !r.job.dynamic() || !c.fits(make(amounts, len(c.total)), r.gs.need) {
		return false
	}
	if lack := c.lacking(); lack != nil && overlaps(lack, r.gs.need) {
		return false
	}
	return slices.ContainsFunc(c.execs, func(ex *executor) bool { return ex.state <= exUp && len(ex.queue) == 0 && !ex.crew })
}

// squeeze gets memory back while requests wait for it: the inputs of runs that
// wait for an executor or are queued behind others, and what idle executors
// lease. The one way to the latter is to end them: a lease is its holder's until then.
func (c *Core) squeeze() {
	if !c.squeezed {
		return
	}
	if c.squeezed = c.led.Stats().Waiting > 0; !c.squeezed {
		return
	}
	if c.growing() {
		c.unpinPlaceless()
	}
	c.withdrawIdle()
	for _, ex := range c.execs {
		if ex.state == exUp && len(ex.queue) == 0 && len(ex.leases) > 0 && ex.session == nil {
			c.stopExecutor(ex)
			continue
		}
		c.askLease(ex)
		if ex.asked || ex.state == exKilled {
			continue
		}
		var pinned []*run
		for i, r := range ex.queue {
			if i > 0 && r.pins != 0 && !r.started {
				pinned = append(pinned, r)
			}
		}
		c.askBack(ex, pinned)
	}
}

// askLease asks a busy executor for the lease that its runs share: the run that
// waits for memory may be its own.
func (c *Core) askLease(ex *executor) {
	if ex.state != exUp || ex.recalled == c.lastReq {
		return
	}
	if slices.ContainsFunc(ex.leases, func(l *lease) bool { return l.shared }) {
		ex.recalled = c.lastReq
		c.emit(ToExecutor{ex.id, &comms.Lease{Error: "wanted"}})
	}
}
