package core

import "slices"

// drain starts nothing more and takes back what is queued, but what waits for a
// value of a run before it: nobody else will have that.
func (c *Core) drain() {
	if c.draining {
		return
	}
	c.draining = true
	for _, ex := range c.execs {
		if ex.state != exUp {
			continue
		}
		for _, r := range slices.Clone(ex.queue) {
			if r.isRow() { // what waits in it needs nothing of the tasks before
				c.unfold(r)
			}
		}
		var runs []*run
		for i, r := range ex.queue {
			if !r.asked && !r.live && (i > 0 || !r.started) {
				runs = append(runs, r)
			}
		}
		c.askBack(ex, runs)
	}
}

// Drained tells whether an agent that drains has nothing more to wait for: what
// ran has ended, but for generators that wait for consumers, and a controller
// that is there has committed it. Who drives the core may end it then, and what
// had not started is for the next agent.
func (c *Core) Drained() bool {
	for _, ex := range c.execs {
		if ex.state != exKilled && len(ex.queue) > 0 && !ex.held() {
			return false
		}
	}
	return !c.up || c.pending == 0 && len(c.batches) == 0
}
