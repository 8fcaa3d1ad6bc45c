package core

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/controller/records"
)

// link is a peer that can be spoken to.
type link struct {
	id          LinkID
	agent       bool
	name        string
	tenant      string // see LinkUp
	build       string // see LinkUp
	incarnation uint64
	full        bool
	closing     bool
	queue       []Send // while full
	watches     map[*watch]struct{}
}

func (c *Core) linkUp(ev LinkUp) {
	c.links[ev.Link] = &link{id: ev.Link, agent: ev.Agent, name: ev.Name, tenant: ev.Tenant, build: ev.Build, incarnation: ev.Incarnation}
}

func (c *Core) linkDown(ev LinkDown) {
	id := ev.Link
	l := c.links[id]
	if l == nil {
		return
	}
	delete(c.links, id)
	for w := range l.watches {
		c.unwatch(w)
	}
	if a := c.agents[l.name]; l.agent && a != nil && a.link == l {
		a.link, a.synced, a.snapshot = nil, false, nil
		c.unasked(a)
		if a.away = c.now; !ev.Since.IsZero() {
			a.away = ev.Since // the time that the link had to come back counts
		}
		c.changed()
		if a.row.Seen = a.away.UnixNano(); !ev.Heard.IsZero() {
			a.row.Seen = ev.Heard.UnixNano()
		}
		switch { // of these the process that had the jobs does not come back
		case a.leaving != nil:
			a.away = time.Time{}
			if !a.leaving.gone {
				c.abandon(a)
			}
		case ev.Why == records.LossEnded:
			c.giveUpOn(a)
		}
	}
}

func (c *Core) linkFree(id LinkID) {
	l := c.links[id]
	if l == nil {
		return
	}
	l.full = false
	queue := l.queue
	l.queue = nil
	for _, s := range queue {
		c.emit(s)
	}
}

// send sends a message, or keeps it until there is room. The messages that wait are
// bounded: newer state replaces older, and a client that does not read is cut off.
// Agents read always; the number of their jobs bounds what waits for them.
func (c *Core) send(l *link, m comms.Message) { c.sendBody(l, m, nil) }

func (c *Core) sendBody(l *link, m comms.Message, body []byte) {
	if l == nil || l.closing {
		return
	}
	if !l.full {
		c.emit(Send{Link: l.id, Msg: m, Body: body})
		return
	}
	for i := range l.queue {
		if replaces(m, l.queue[i].Msg) {
			l.queue = slices.Delete(l.queue, i, i+1)
			break
		}
	}
	l.queue = append(l.queue, Send{Link: l.id, Msg: m, Body: body})
	if !l.agent && len(l.queue) > c.cfg.MaxUnread {
		l.closing, l.queue = true, nil
		c.emit(CloseLink{Link: l.id, Why: "it does not read its messages"})
	}
}

// replaces tells whether a message makes an older one that waits superfluous. A
// Progress with events does not.
func replaces(m, old comms.Message) bool {
	switch m := m.(type) {
	case *comms.Committed:
		_, ok := old.(*comms.Committed)
		return ok
	case *comms.Progress:
		o, ok := old.(*comms.Progress)
		return ok && o.Req == m.Req && o.Job == m.Job && len(o.Events) == 0
	}
	return false
}

func (c *Core) reply(l *link, req uint64, code comms.Code, text string) {
	c.send(l, &comms.Reply{Req: req, Code: code, Message: text})
}

func (c *Core) sortedAgents() []*agent {
	return slices.SortedFunc(maps.Values(c.agents), func(a, b *agent) int { return cmp.Compare(a.row.Name, b.row.Name) })
}

// sortedJobs lists the jobs that have not ended.
func (c *Core) sortedJobs() []*job {
	return slices.SortedFunc(maps.Values(c.running), func(a, b *job) int { return slices.Compare(a.id[:], b.id[:]) })
}

// sortedKept lists the jobs that have ended and of which datasets were kept.
func (c *Core) sortedKept() (out []*job) {
	for _, j := range c.jobs {
		if j.live == nil && len(j.exports) > 0 {
			out = append(out, j)
		}
	}
	slices.SortFunc(out, func(a, b *job) int { return slices.Compare(a.id[:], b.id[:]) })
	return out
}
