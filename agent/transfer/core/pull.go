package core

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/cascade-run/cascade/comms"
)

// pull is a copy that is on its way to us.
//
//	source: idle ─▶ connecting ─▶ wanted ─▶ serving ─▶ (the pull ends)
//	          ▲          ▲           │├───▶ naming      it named another source
//	          └──────────┼── refused ┘│        │
//	                     └────────────┼────────┘        the one that it named failed
//	                                  ▼
//	                                failed
type pull struct {
	held    *held
	pieces  pieces
	sources []*source
	came    uint64
	over    bool
}

type sourceState uint8

const (
	idle       sourceState = iota // not asked, or it had no place to spare
	connecting                    // waits for a link
	wanted                        // waits for the answer to Want
	serving                       // answers Pulls
	naming                        // has named another source, and names a next if that fails
	failed                        // for good
)

// source is what one agent is to a pull.
type source struct {
	Source
	origin  bool // has everything; others were named by an origin
	state   sourceState
	how     comms.WantHow
	peer    *peer
	id      uint64   // of the transfer: the last Want
	link    *link    // of the Want
	named   string   // while naming: whom
	lost    []string // those that it named and that failed
	heard   time.Duration
	stalled bool   // it said nothing for too long
	bad     int    // pieces with a wrong checksum
	why     string // of the failure
}

func (p *pull) source(agent string) *source {
	for _, s := range p.sources {
		if s.Agent == agent {
			return s
		}
	}
	return nil
}

// learn adds sources.
func (p *pull) learn(c *Core, from []Source) {
	for _, f := range from {
		switch s := p.source(f.Agent); {
		case f.Agent == c.cfg.Self.Agent || f.Agent == "":
		case s == nil:
			p.sources = append(p.sources, &source{Source: f, origin: true})
		default:
			s.Source, s.origin = f, true
			if s.state == failed {
				s.state, s.how, s.bad = idle, 0, 0
			}
		}
	}
}

// begin starts a pull: one source is home, which serves us or names another; of
// the rest some are asked whether they have a place to spare.
func (c *Core) begin(ev Pull) {
	h := &held{copy: ev.Copy, size: ev.Size, receivers: map[string]*receiver{}}
	p := &pull{held: h, pieces: newPieces(ev.Size, c.cfg.Chunk)}
	h.pull = p
	c.copies[ev.Copy] = h
	c.pulls = append(c.pulls, p)
	p.learn(c, ev.From)
	c.settle(p)
	c.spread(p)
}

// spread asks further origins of a large copy whether they have a place to spare.
func (c *Core) spread(p *pull) {
	if p.held.size <= c.cfg.Chunk || p.held.pull != p {
		return
	}
	busy := 0
	for _, s := range p.sources {
		if s.state != idle && s.state != failed {
			busy++
		}
	}
	for _, s := range p.sources {
		if busy < c.cfg.Sources && s.state == idle && s.how == 0 {
			c.connect(p, s, comms.WantIfFree)
			busy++
		}
	}
}

// settle goes on after something changed: it ends the pull, or sees to it that a
// source is asked. While a source is home, or one that it named serves, no other is
// made home: so all pulls that wait for each other were placed by one source.
func (c *Core) settle(p *pull) {
	if p.held.pull != p {
		return // it has ended
	}
	if p.pieces.left == 0 {
		c.end(p, nil)
		return
	}
	for _, s := range p.sources {
		if s.state == connecting || s.state == wanted || s.state == serving {
			return
		}
	}
	var next *source
	for _, s := range p.sources {
		if s.origin && (s.state == idle || s.state == naming) && (next == nil || s.bad < next.bad) {
			next = s
		}
	}
	if next != nil {
		c.connect(p, next, comms.WantJoin)
		return
	}
	c.end(p, fmt.Errorf("pull %s: %w: %s", p.held.copy, ErrNoSource, p.reasons()))
}

// reasons says why each source failed.
func (p *pull) reasons() string {
	var b strings.Builder
	for _, s := range p.sources {
		if b.Len() > 0 {
			b.WriteString("; ")
		}
		fmt.Fprintf(&b, "%s: %s", s.Agent, s.why)
	}
	if b.Len() == 0 {
		return "none was given"
	}
	return b.String()
}

// connect asks a source, once there is a link to it.
func (c *Core) connect(p *pull, s *source, how comms.WantHow) {
	s.peer = c.peer(s.Source)
	s.state, s.how = connecting, how
	if len(s.peer.links) > 0 {
		c.want(p, s)
		return
	}
	if s.peer.dialing == 0 && s.peer.failures > c.cfg.Tries {
		s.peer.failures = 0 // of an earlier pull
	}
	c.reach(s.peer, 1)
}

// want asks a source over a link that is up, for a first piece too.
func (c *Core) want(p *pull, s *source) {
	l := s.peer.links[0]
	if s.id != 0 {
		c.sendLeave(l, s.id, false) // it may not know that a link broke
	}
	c.last++
	s.id, s.state, s.link, s.heard = c.last, wanted, l, c.now
	m := &comms.Want{Transfer: s.id, Data: p.held.copy.Data, Attempt: p.held.copy.Attempt, Size: p.held.size, How: s.how, Lost: s.lost}
	if s.origin && s.how != comms.WantIfFree {
		m.At = c.cfg.Self.At
	}
	if i, ok := c.take(p, s, l); ok {
		m.First, m.Bytes = p.pieces.span(i)
	}
	c.send(l, m)
}

// take chooses a piece to ask for on a link.
func (c *Core) take(p *pull, s *source, l *link) (int, bool) {
	i, ok := p.pieces.take()
	if ok {
		l.asked = append(l.asked, ask{pull: p, piece: i, transfer: s.id})
		c.meter.owes(&l.peer.flow, c.now)
	}
	return i, ok
}

// ask fills the window of a link to a source that serves.
func (c *Core) ask(p *pull, s *source, l *link) {
	open := 0
	for _, a := range l.asked {
		if a.pull == p {
			open++
		}
	}
	for ; open < c.cfg.Window; open++ {
		i, ok := c.take(p, s, l)
		if !ok {
			return
		}
		offset, n := p.pieces.span(i)
		c.send(l, &comms.Pull{Transfer: s.id, Offset: offset, Bytes: n})
	}
}

// askAll fills the windows of all links to a source that serves.
func (c *Core) askAll(p *pull, s *source) {
	for _, l := range s.peer.links {
		c.ask(p, s, l)
	}
}

// askEverybody fills the windows of all that serve a pull: pieces were released.
func (c *Core) askEverybody(p *pull) {
	for _, s := range p.sources {
		if s.state == serving {
			c.askAll(p, s)
		}
	}
}

// connections returns how many links to one source a pull uses.
func (c *Core) connections(p *pull) int {
	return int(min(uint64(c.cfg.Connections), 1+p.held.size/c.cfg.Stripe))
}

// answered takes the answer to a Want.
func (c *Core) answered(p *pull, s *source, m *comms.Serve) {
	if s.state != wanted {
		return
	}
	if m.Agent == "" {
		s.state, s.heard = serving, c.now
		c.reach(s.peer, c.connections(p))
		c.askAll(p, s)
		return
	}
	c.reassign(p, s)
	if m.Agent == c.cfg.Self.Agent || m.Agent == s.Agent || m.At == "" {
		c.fail(p, s, fmt.Sprintf("it names %q at %q", m.Agent, m.At))
		return
	}
	s.state, s.named = naming, m.Agent
	defer c.askEverybody(p)
	n := p.source(m.Agent)
	if n == nil {
		n = &source{}
		p.sources = append(p.sources, n)
	}
	if n.state == connecting || n.state == wanted || n.state == serving {
		return
	}
	n.Source = Source{Agent: m.Agent, At: m.At}
	c.connect(p, n, comms.WantMust)
}

// refused takes a refusal, of a Want or of what was served until now.
func (c *Core) refused(p *pull, s *source, m *comms.Reply) {
	if s.how == comms.WantIfFree && s.state == wanted {
		c.reassign(p, s)
		s.state = idle
		c.askEverybody(p)
		c.settle(p)
		return
	}
	if m.Code == comms.CodeConflict && s.state == serving {
		c.reassign(p, s) // it saw all links to us break, and we did not
		c.connect(p, s, s.how)
		c.askEverybody(p)
		return
	}
	c.fail(p, s, m.Message)
}

// reassign lets what a source was asked for be asked for elsewhere.
func (c *Core) reassign(p *pull, s *source) {
	if s.peer == nil {
		return
	}
	for _, l := range s.peer.links {
		c.giveBack(l, p)
	}
}

// fail goes on without a source. The source that named it is asked for another.
func (c *Core) fail(p *pull, s *source, why string) {
	c.leave(p, s)
	s.state, s.why = failed, why
	for _, o := range p.sources {
		if o.state == naming && o.named == s.Agent {
			o.lost = append(o.lost, s.Agent)
			how := comms.WantJoin
			if s.how == comms.WantMust && s.stalled {
				how = comms.WantMust
			}
			c.connect(p, o, how)
		}
	}
	c.askEverybody(p)
	c.settle(p)
}

// leave ends what a source does for a pull.
func (c *Core) leave(p *pull, s *source) {
	if (s.state == wanted || s.state == serving) && len(s.peer.links) > 0 {
		c.sendLeave(s.peer.links[0], s.id, false)
	}
	c.reassign(p, s)
}

// leaveStalled leaves sources that were named to us and are silent: they may wait for
// an agent that waits for us. A receiver in such a circle then asks an origin to serve
// it itself; the origin waits for no agent.
func (c *Core) leaveStalled(p *pull) {
	for _, s := range p.sources {
		if s.state != serving || s.origin || c.now-s.heard < c.cfg.Stall || !s.owes(p) {
			continue
		}
		s.stalled = true
		c.fail(p, s, fmt.Sprintf("nothing came for %v", c.cfg.Stall))
	}
}

// owes tells whether a source was asked for something.
func (s *source) owes(p *pull) bool {
	for _, l := range s.peer.links {
		if slices.ContainsFunc(l.asked, func(a ask) bool { return a.pull == p }) {
			return true
		}
	}
	return false
}

// Expects tells which copy a piece that arrives on a link belongs to, and false
// when it was not asked for there: then its bytes are not wanted. With an error the
// link must be ended: the piece has another size than was asked for, so that what
// was asked for would never come.
func (c *Core) Expects(id LinkID, transfer, offset, n uint64) (Copy, bool, error) {
	l := c.links[id]
	if l == nil {
		return Copy{}, false, nil
	}
	i := l.find(transfer, offset)
	if i < 0 {
		return Copy{}, false, nil
	}
	p := l.asked[i].pull
	if _, want := p.pieces.span(l.asked[i].piece); want != n {
		return Copy{}, false, fmt.Errorf("agent %s sent a piece of %d bytes at %d of %s, of which %d were asked for", l.peer.Agent, n, offset, p.held.copy, want)
	}
	return p.held.copy, true, nil
}

// Reads says that the bytes of a piece that Expects allowed are being written into
// the copy, until Arrived or Down.
func (c *Core) Reads(id LinkID, transfer, offset uint64) {
	if l := c.links[id]; l != nil {
		if i := l.find(transfer, offset); i >= 0 {
			l.asked[i].reading = true
		}
	}
}

// find returns the place in asked of the piece at offset, -1 when there is none.
func (l *link) find(transfer, offset uint64) int {
	return slices.IndexFunc(l.asked, func(a ask) bool {
		at, _ := a.pull.pieces.span(a.piece)
		return a.transfer == transfer && at == offset
	})
}

// badPieces is how many pieces with a wrong checksum are taken from a source when there is no other.
const badPieces = 3

func (c *Core) arrived(ev Arrived) {
	l := c.links[ev.Link]
	if l == nil {
		return
	}
	i := l.find(ev.Transfer, ev.Offset)
	if i < 0 {
		return // given up meanwhile
	}
	a := l.asked[i]
	l.asked = slices.Delete(l.asked, i, i+1)
	p, s := a.pull, a.pull.source(l.peer.Agent)
	_, n := p.pieces.span(a.piece)
	s.heard = c.now
	c.meter.arrived(&l.peer.flow, l.peer.Agent, n, c.now)
	if !ev.Good {
		p.pieces.giveBack(a.piece)
		c.stats.Corrupt++
		c.stats.Again++
		c.distrust(p, s, l)
		return
	}
	l.peer.failures = 0
	p.pieces.arrive(a.piece)
	p.came += n
	c.stats.BytesIn += n
	c.forward(p.held)
	if p.pieces.left == 0 {
		c.end(p, nil)
		return
	}
	if s.state == serving {
		c.ask(p, s, l)
	}
}

// distrust goes on after a wrong checksum: without the source if there are others
// or it was wrong too often. An origin is asked again when all others have failed.
func (c *Core) distrust(p *pull, s *source, l *link) {
	s.bad++
	switch {
	case s.bad >= badPieces || !s.origin:
		c.fail(p, s, "bytes with a wrong checksum came from it")
	case p.others(s):
		c.leave(p, s)
		s.state = idle
		c.askEverybody(p)
		c.settle(p)
	case s.state == serving:
		c.ask(p, s, l)
	}
}

// others tells whether a pull could go on without a source.
func (p *pull) others(s *source) bool {
	return slices.ContainsFunc(p.sources, func(o *source) bool { return o != s && o.state != failed })
}

// end ends a pull.
func (c *Core) end(p *pull, err error) {
	h := p.held
	p.over = true
	for _, s := range p.sources {
		if s.state == wanted || s.state == serving || s.state == naming {
			if len(s.peer.links) > 0 {
				c.sendLeave(s.peer.links[0], s.id, err == nil)
			}
		}
		c.reassign(p, s)
	}
	c.pulls = slices.DeleteFunc(c.pulls, func(o *pull) bool { return o == p })
	h.pull = nil
	if err == nil {
		c.stats.Pulls++
	} else {
		c.stats.Failed++
		c.drop(h, "its copy did not arrive")
	}
	c.do(Done{Copy: h.copy, Came: p.came, Err: err, Flows: c.meter.take()})
}
