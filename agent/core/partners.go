package core

import (
	"slices"
	"time"

	"github.com/cascade-run/cascade/comms"
)

// Agents between which calls go are acquainted for as long as they do, and some time
// longer. Their messages wait while the link is away, and are void with a
// link that ends: then the owner's calls are at home again, and its guests leave.

const (
	// acquaintedFor is how long a link stays over which no call goes.
	acquaintedFor = time.Minute
	// leastShun is how long no call goes to an agent that gave one back, or could not be
	// reached; each time in a row twice as long as the last, up to mostShun.
	leastShun = time.Second
	mostShun  = 30 * time.Second
	// guestPatience is how much longer than an owner waits for its host the host waits for the owner.
	guestPatience = 10
)

// acquaint makes the acquaintance of an agent for calls.
func (c *Core) acquaint(h *comms.Host) *neighbour {
	n := c.neighbour(h.Agent)
	if n.jobs == 0 || !slices.Equal(n.addresses, h.Addresses) {
		n.addresses = h.Addresses
		c.emit(MeetPeer{Agent: h.Agent, Incarnation: h.Incarnation, Addresses: h.Addresses})
	}
	if n.used = c.now; !n.met {
		n.met = true
		n.jobs++
		c.met = append(c.met, n)
	}
	return n
}

// miss begins to wait for a link.
func (c *Core) miss(n *neighbour) {
	if n.missed.IsZero() {
		n.missed = c.now
	}
	if !slices.Contains(c.unreached, n) {
		c.unreached = append(c.unreached, n)
	}
}

// shun has no call go to an agent for some time. Calls that it returns meanwhile have the same cause.
func (c *Core) shun(n *neighbour) {
	if n.shun.After(c.now) {
		return
	}
	n.shunFor = min(max(2*n.shunFor, leastShun), mostShun)
	n.shun = c.now.Add(n.shunFor)
	n.window.room = 0
}

// shunned lists the agents to which no call goes now.
func (c *Core) shunned() (all []string) {
	for name, n := range c.neighbours {
		if n.shun.After(c.now) {
			all = append(all, name)
		}
	}
	slices.Sort(all)
	return all
}

// say tells an agent something of a call, as soon as there is a link.
func (c *Core) say(n *neighbour, m comms.Message) {
	n.kept++
	n.outbox = append(n.outbox, m)
	if !n.says {
		n.says = true
		c.saying = append(c.saying, n)
	}
}

// mostItems is how many happenings one report has at most.
const mostItems = 1000

// report tells the owner of hosted tasks what happened, together with what waits to be told.
func (c *Core) report(n *neighbour, it comms.GrantItem) {
	if k := len(n.outbox); k > 0 {
		if m, ok := n.outbox[k-1].(*comms.GrantReport); ok && len(m.Items) < mostItems {
			n.kept++
			m.Items = append(m.Items, it)
			return
		}
	}
	c.say(n, &comms.GrantReport{Items: []comms.GrantItem{it}})
}

// tellPartners sends what was said in this step.
func (c *Core) tellPartners() {
	for _, n := range c.saying {
		n.says = false
		c.sayAll(n)
	}
	c.saying = c.saying[:0]
}

func (c *Core) sayAll(n *neighbour) {
	for n.up && !n.full && len(n.outbox) > 0 {
		m := n.outbox[0]
		n.outbox[0] = nil
		n.outbox = n.outbox[1:]
		if g, ok := m.(*comms.Grant); ok {
			for i := range g.Tasks {
				c.away[g.Tasks[i].Grant].row().out.sent = true
			}
		}
		c.emit(ToPeer{n.name, m})
	}
	if len(n.outbox) == 0 {
		n.kept = 0
	}
}

// callsUp goes on with the calls between this agent and one to which there is a link.
func (c *Core) callsUp(n *neighbour, resumed bool) {
	n.missed = time.Time{}
	if !resumed {
		c.callsOver(n)
	}
	c.sayAll(n)
}

// callsDown waits for a link that is away, or takes what was told over it for void.
func (c *Core) callsDown(n *neighbour, over bool) {
	if over {
		n.window.room = 0
		c.callsOver(n)
	}
	if n.out+n.guests > 0 {
		c.miss(n)
	}
}

// callsOver voids all that was announced over a link: the calls that went there
// are at home again, those that came from there have no owner.
func (c *Core) callsOver(n *neighbour) {
	n.outbox = slices.DeleteFunc(n.outbox, func(m comms.Message) bool {
		_, first := m.(*comms.Grant)
		return !first
	})
	for _, at := range c.callsAt(n) {
		if out := at.row().out; out.sent {
			if out.sent = false; c.refs.remotes[at] == nil { // no agent is to be told
				c.takeHome(at)
			}
		}
	}
	c.loseRemotes(n, false, "the link to it has ended")
	for _, at := range c.hostedOf(n) {
		c.endHosted(at)
	}
}

// giveUpUnreached gives up on agents whose links are away for too long: soon on the
// hosts of own calls, late on their owners, who may still learn of it.
func (c *Core) giveUpUnreached() {
	all := c.unreached
	c.unreached = nil
	for _, n := range all {
		if n.up {
			continue
		}
		due := n.missed.Add(c.cfg.Patience)
		if !due.After(c.now) {
			c.shun(n)
			c.loseRemotes(n, true, "it cannot be reached")
			for _, at := range c.callsAt(n) {
				c.takeHome(at)
			}
			due = n.missed.Add(guestPatience * c.cfg.Patience)
		}
		left := slices.DeleteFunc(c.hostedOf(n), func(at rowRef) bool { return at.row().left() })
		if !due.After(c.now) {
			for _, at := range left {
				c.sendBack(at, "its owner, agent "+n.name+", could not be reached")
			}
			left = nil
		}
		if n.out+len(left) == 0 {
			n.missed = time.Time{}
			continue
		}
		c.wakeAt(due)
		c.unreached = append(c.unreached, n)
	}
}

// partUnused ends acquaintances over which no call has gone for some time.
func (c *Core) partUnused() {
	c.met = slices.DeleteFunc(c.met, func(n *neighbour) bool {
		if n.out+n.guests > 0 {
			return false
		}
		if due := n.used.Add(acquaintedFor); due.After(c.now) {
			c.wakeAt(due)
			return false
		}
		n.met = false
		if n.jobs--; n.jobs == 0 {
			c.emit(LeavePeer{n.name})
			c.unmeet(n)
		}
		return true
	})
}
