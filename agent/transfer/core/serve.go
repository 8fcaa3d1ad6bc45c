package core

import (
	"fmt"
	"maps"
	"slices"

	"github.com/cascade-run/cascade/comms"
)

// held is a copy that is here, or on its way and served as far as it has come.
//
// Receivers that join form a tree below each origin, of which it knows every
// edge: which agent takes the copy from which. No receiver is placed below one that
// waits for it, so that no two wait for each other.
type held struct {
	copy      Copy
	size      uint64
	pull      *pull // nil when all of it is here
	services  []*service
	receivers map[string]*receiver
	order     []string // of receivers, as they joined
}

// receiver is an agent that joined.
type receiver struct {
	at     string
	id     uint64 // of the transfer with which it joined last
	parent string // from whom it takes the copy; "" is us, or none any more
	direct bool   // it takes it from us, or took it
	alive  bool   // others may be placed below it
	done   bool   // it has everything
}

// guest is an agent that dialed us.
type guest struct {
	agent  string
	links  []*link
	served map[uint64]*service // by transfer
}

// service is one transfer to a guest.
type service struct {
	held     *held
	guest    *guest
	transfer uint64
	named    bool // another was named: nothing is sent
	waiting  []demand
}

// demand is a Pull whose bytes are not all here.
type demand struct {
	link      *link
	offset, n uint64
}

const (
	maxServed  = 10_000 // transfers of one guest
	maxDemands = 1_000  // Pulls that wait, of one transfer
)

// load counts whom we serve.
func (h *held) load() int {
	n := 0
	for _, s := range h.services {
		if !s.named {
			n++
		}
	}
	return n
}

// wants answers a Want.
func (c *Core) wants(l *link, m *comms.Want) {
	g := l.guest
	c.unserve(g.served[m.Transfer])
	h := c.copies[Copy{m.Data, m.Attempt}]
	refuse := func(code comms.Code, format string, args ...any) {
		c.send(l, &comms.Reply{Req: m.Transfer, Code: code, Message: fmt.Sprintf(format, args...)})
	}
	switch {
	case h == nil && c.cfg.Ask:
		c.askOwner(l, m)
		return
	case h == nil:
		refuse(comms.CodeNotFound, "it has no copy of attempt %d", m.Attempt)
		return
	case h.size != m.Size:
		refuse(comms.CodeConflict, "its copy has %d bytes, not %d", h.size, m.Size)
		return
	case len(g.served) >= maxServed:
		refuse(comms.CodeUnavailable, "it serves %d transfers to this agent already", maxServed)
		return
	case m.How != comms.WantMust && h.pull != nil:
		refuse(comms.CodeUnavailable, "its copy is not complete yet")
		return
	case m.How == comms.WantIfFree && h.load() >= c.fanout(h):
		refuse(comms.CodeUnavailable, "it has no place to spare")
		return
	case m.How < comms.WantJoin || m.How > comms.WantMust:
		refuse(comms.CodeBadRequest, "it does not know the wish %d", m.How)
		return
	}
	s := &service{held: h, guest: g, transfer: m.Transfer}
	g.served[m.Transfer] = s
	h.services = append(h.services, s)
	answer := &comms.Serve{Transfer: m.Transfer}
	if m.How != comms.WantIfFree && m.At != "" {
		if parent := c.join(h, g.agent, m); parent != "" {
			s.named = true
			c.stats.Referred++
			answer.Agent, answer.At = parent, h.receivers[parent].at
		}
	}
	c.send(l, answer)
	if !s.named && m.Bytes > 0 {
		c.pulled(l, &comms.Pull{Transfer: m.Transfer, Offset: m.First, Bytes: m.Bytes})
	}
}

// fanout is how many receivers are served by us: more when the copy is so small
// that a chain of receivers would only add their delays.
func (c *Core) fanout(h *held) int {
	if h.size <= c.cfg.Chunk {
		return max(c.cfg.Fanout, 4)
	}
	return c.cfg.Fanout
}

// join gives a receiver its place and returns from whom it takes the copy, "" for us.
func (c *Core) join(h *held, agent string, m *comms.Want) string {
	for _, name := range m.Lost {
		if r := h.receivers[name]; r != nil {
			r.alive = false // until it is heard of again
		}
	}
	r := h.receivers[agent]
	if r == nil {
		r = &receiver{}
		h.receivers[agent] = r
		h.order = append(h.order, agent)
	}
	*r = receiver{at: m.At, id: m.Transfer, alive: true}
	if m.How == comms.WantJoin && h.direct(agent) >= c.fanout(h) {
		r.parent = c.parent(h, agent, m.Lost)
	}
	r.direct = r.parent == ""
	return r.parent
}

// direct counts the receivers, but one, to which we have sent the copy or are about to.
// One that has all of it by now counts too: others shall take it from there.
func (h *held) direct(but string) int {
	to := map[string]bool{}
	for name, r := range h.receivers {
		if r.direct && r.alive {
			to[name] = true
		}
	}
	for _, s := range h.services {
		if !s.named {
			to[s.guest.agent] = true
		}
	}
	delete(to, but)
	return len(to)
}

// parent chooses the first receiver that has a place and does not wait for agent;
// "" when there is none.
func (c *Core) parent(h *held, agent string, lost []string) string {
	children := map[string]int{}
	for _, r := range h.receivers {
		if r.alive && !r.done {
			children[r.parent]++
		}
	}
	for _, name := range h.order {
		r := h.receivers[name]
		if r.alive && r.at != "" && children[name] < c.fanout(h) && !slices.Contains(lost, name) && !h.below(name, agent) {
			return name
		}
	}
	return ""
}

// below tells whether name is agent or takes the copy from it, perhaps through
// others. Also receivers that seem to be gone count: they may be alive and wait.
func (h *held) below(name, agent string) bool {
	for range len(h.receivers) + 1 {
		if name == agent {
			return true
		}
		r := h.receivers[name]
		if r == nil || r.done {
			return false
		}
		name = r.parent
	}
	return true
}

// pulled answers a Pull, now or when its bytes are here.
func (c *Core) pulled(l *link, m *comms.Pull) {
	s := l.guest.served[m.Transfer]
	if s == nil || s.named {
		c.send(l, &comms.Reply{Req: m.Transfer, Code: comms.CodeConflict, Message: "this transfer has ended here"})
		return
	}
	if m.Bytes == 0 || m.Bytes > maxPiece || m.Offset > s.held.size || m.Bytes > s.held.size-m.Offset {
		c.hangup(l, "Pull of %d bytes at %d of a copy of %d", m.Bytes, m.Offset, s.held.size)
		return
	}
	d := demand{l, m.Offset, m.Bytes}
	switch {
	case s.held.has(d):
		c.piece(s, d)
	case len(s.waiting) >= maxDemands:
		c.hangup(l, "%d Pulls wait", maxDemands)
	default:
		s.waiting = append(s.waiting, d)
	}
}

func (h *held) has(d demand) bool { return h.pull == nil || h.pull.pieces.has(d.offset, d.n) }

func (c *Core) piece(s *service, d demand) {
	c.do(SendPiece{Link: d.link.id, Transfer: s.transfer, Copy: s.held.copy, Offset: d.offset, Bytes: d.n})
}

// forward sends what others wait for, after a piece has come.
func (c *Core) forward(h *held) {
	for _, s := range h.services {
		s.waiting = slices.DeleteFunc(s.waiting, func(d demand) bool {
			if !h.has(d) {
				return false
			}
			c.piece(s, d)
			return true
		})
	}
}

// leaves takes the end of a transfer.
func (c *Core) leaves(g *guest, m *comms.Leave) {
	s := g.served[m.Transfer]
	if s == nil {
		return
	}
	c.unserve(s)
	if r := s.held.receivers[g.agent]; r != nil && r.id == m.Transfer {
		r.parent, r.done, r.alive = "", m.Kept, m.Kept
	}
}

// unserve forgets a transfer.
func (c *Core) unserve(s *service) {
	if s == nil {
		return
	}
	delete(s.guest.served, s.transfer)
	s.held.services = slices.DeleteFunc(s.held.services, func(o *service) bool { return o == s })
	if c.cfg.Ask && len(s.held.services) == 0 && s.held.pull == nil && c.copies[s.held.copy] == s.held {
		c.do(Unwanted{s.held.copy})
	}
}

// asking is a Want that waits for the owner's word.
type asking struct {
	link *link
	want *comms.Want
}

// askOwner keeps a Want until the owner has brought the copy, or has said that he cannot.
func (c *Core) askOwner(l *link, m *comms.Want) {
	name := Copy{m.Data, m.Attempt}
	all := c.asked[name]
	all = slices.DeleteFunc(all, func(a asking) bool { return a.link.guest == l.guest }) // the last one counts
	if len(all) == 0 {
		c.do(Wanted{name})
	}
	c.asked[name] = append(all, asking{l, m})
}

// answerAsked answers those who waited for a copy; why says that it cannot be had.
func (c *Core) answerAsked(name Copy, why string) {
	all := c.asked[name]
	delete(c.asked, name)
	for _, a := range all {
		switch {
		case c.links[a.link.id] != a.link: // gone meanwhile
		case why != "":
			c.send(a.link, &comms.Reply{Req: a.want.Transfer, Code: comms.CodeNotFound, Message: why})
		default:
			c.wants(a.link, a.want)
		}
	}
	if h := c.copies[name]; c.cfg.Ask && why == "" && len(all) > 0 && len(h.services) == 0 {
		c.do(Unwanted{name})
	}
}

// guestLeft takes the end of a guest's link; with the last one all its transfers end.
func (c *Core) guestLeft(l *link) {
	g := l.guest
	for _, s := range g.served {
		s.waiting = slices.DeleteFunc(s.waiting, func(d demand) bool { return d.link == l })
	}
	g.links = slices.DeleteFunc(g.links, func(o *link) bool { return o == l })
	if len(g.links) > 0 {
		return
	}
	delete(c.guests, g.agent)
	for _, id := range slices.Sorted(maps.Keys(g.served)) {
		s := g.served[id]
		c.unserve(s)
		if r := s.held.receivers[g.agent]; r != nil {
			r.alive = false
		}
	}
}

// withdraw ends an offer or a pull.
func (c *Core) withdraw(name Copy) {
	h := c.copies[name]
	switch {
	case h == nil:
	case h.pull != nil:
		c.end(h.pull, fmt.Errorf("pull %s: %w", name, ErrCancelled))
	default:
		c.drop(h, "it gave its copy up")
	}
}

// drop forgets a copy and tells those who take it from us.
func (c *Core) drop(h *held, why string) {
	delete(c.copies, h.copy)
	for _, s := range slices.Clone(h.services) {
		c.unserve(s)
		if !s.named {
			c.send(s.guest.links[0], &comms.Reply{Req: s.transfer, Code: comms.CodeNotFound, Message: why})
		}
	}
}
