package core

import (
	"time"

	"github.com/cascade-run/cascade/comms"
)

// average is an exponential average: each new value counts an eighth.
type average struct {
	value float64
	known bool
}

func (a *average) add(v float64) {
	if a.known {
		a.value += (v - a.value) / 8
	} else {
		a.value, a.known = v, true
	}
}

// smallPull is the size of a dataset below which its way here says more of the
// network's delay than of its bandwidth.
const smallPull = 64 << 10

// came learns from a dataset that came from another agent.
func (c *Core) came(bytes int64, took time.Duration) {
	if bytes >= smallPull && took > 0 {
		c.bandwidth.add(float64(bytes) / took.Seconds())
	}
}

// maxFlows is how many flows a batch of events tells at most: the last ones. A link
// is known well enough by fewer.
const maxFlows = 32

// flowed keeps what is to be told of the ways from other agents, with the next batch.
func (c *Core) flowed(all []comms.Flow) {
	if over := len(c.flows) + len(all) - maxFlows; over > 0 {
		c.flows = c.flows[min(over, len(c.flows)):]
	}
	c.flows = append(c.flows, all[max(len(all)-maxFlows, 0):]...)
}

// tellFlows returns what was not told yet.
func (c *Core) tellFlows() []comms.Flow {
	all := c.flows
	c.flows = nil
	return all
}

// load is how much there is to do. It goes with each batch of events, as the last
// word before an agent falls silent says how much there was then.
func (c *Core) load() *comms.Load {
	l := &comms.Load{Waiting: uint64(c.waiting()), Seconds: c.seconds.value, Bandwidth: c.bandwidth.value}
	for _, ex := range c.execs {
		if len(ex.queue) > 0 && !ex.held() && ex.session == nil {
			l.Running++
		}
	}
	return l
}

// waiting counts the tasks that have all they need and that no executor has begun.
func (c *Core) waiting() (n int) {
	for _, l := range c.lines {
		n += l.ready
	}
	for _, ex := range c.execs {
		n += max(0, ex.depth()-1)
	}
	return n + c.pinning + len(c.pinned)
}
