package core

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/cascade-run/cascade/comms"
)

// Core is the state of one agent's transfers. One goroutine at a time calls its methods.
type Core struct {
	cfg    Config
	now    time.Duration
	out    []Action
	stats  Stats
	copies map[Copy]*held
	pulls  []*pull // in the order in which they began
	last   uint64  // number of the newest transfer, one for each Want
	links  map[LinkID]*link
	peers  map[string]*peer  // whom we dial, by name
	guests map[string]*guest // who dialed us, by name
	asked  map[Copy][]asking // Wants of copies that the owner was asked for
	meter  meter
}

// link is one link, to a peer or from a guest.
type link struct {
	id    LinkID
	peer  *peer          // nil when we were dialed
	guest *guest         // nil when we dialed
	asked []ask          // of a peer, and not here yet
	left  []*comms.Leave // the last ones that went to a peer here: lost, perhaps, if the link breaks
}

// ask is one piece that was asked for.
type ask struct {
	pull     *pull
	piece    int
	transfer uint64
	reading  bool // its bytes are being written into the copy
}

// peer is an agent that we dial.
type peer struct {
	Source
	links    []*link // that are up
	dialing  int
	failures int           // dials and links that failed since the last piece
	used     time.Duration // last time that a pull needed it
	flow     flow
}

// maxPiece bounds what one Pull may ask for.
const maxPiece = 32 << 20

// New returns a Core that holds nothing.
func New(cfg Config) *Core {
	cfg.Chunk = min(cmp.Or(cfg.Chunk, 4<<20), maxPiece)
	cfg.Window = max(cmp.Or(cfg.Window, 4), 1)
	cfg.Connections = max(cmp.Or(cfg.Connections, 1), 1)
	cfg.Stripe = cmp.Or(cfg.Stripe, 64<<20)
	cfg.Fanout = max(cmp.Or(cfg.Fanout, 1), 1)
	cfg.Sources = max(cmp.Or(cfg.Sources, 3), 1)
	cfg.Tries = cmp.Or(cfg.Tries, 5)
	cfg.Backoff = cmp.Or(cfg.Backoff, 50*time.Millisecond)
	cfg.Stall = cmp.Or(cfg.Stall, 10*time.Second)
	cfg.Idle = cmp.Or(cfg.Idle, time.Minute)
	return &Core{cfg: cfg, last: cfg.First, copies: map[Copy]*held{}, links: map[LinkID]*link{},
		peers: map[string]*peer{}, guests: map[string]*guest{}, asked: map[Copy][]asking{}}
}

// Chunk returns the size of pieces.
func (c *Core) Chunk() uint64 { return c.cfg.Chunk }

// Stats returns what was counted.
func (c *Core) Stats() Stats {
	s := c.stats
	s.Pulling, s.Links = len(c.pulls), len(c.links)
	for _, h := range c.copies {
		s.Serving += h.load()
	}
	return s
}

// Step applies an event and returns what is to be done. now is monotonic.
func (c *Core) Step(now time.Duration, ev Event) []Action {
	c.now, c.out = now, nil
	switch ev := ev.(type) {
	case Offer:
		c.copies[ev.Copy] = &held{copy: ev.Copy, size: ev.Size, receivers: map[string]*receiver{}}
		c.answerAsked(ev.Copy, "")
	case NotHere:
		c.answerAsked(ev.Copy, ev.Why)
	case Withdraw:
		c.withdraw(ev.Copy)
	case Pull:
		c.begin(ev)
	case More:
		if h := c.copies[ev.Copy]; h != nil && h.pull != nil {
			h.pull.learn(c, ev.From)
			c.spread(h.pull)
		}
	case Up:
		c.up(ev)
	case DialFailed:
		c.dialFailed(ev)
	case Down:
		c.down(ev)
	case Message:
		c.message(ev)
	case Arrived:
		c.arrived(ev)
	case Tick:
		c.tick()
	}
	out := c.out
	c.out = nil
	return out
}

func (c *Core) do(a Action)                   { c.out = append(c.out, a) }
func (c *Core) send(l *link, m comms.Message) { c.do(Send{Link: l.id, Msg: m}) }
func (c *Core) hangup(l *link, f string, args ...any) {
	c.do(Hangup{Link: l.id, Why: fmt.Sprintf(f, args...)})
}

// peer returns the record of an agent that we dial.
func (c *Core) peer(s Source) *peer {
	p := c.peers[s.Agent]
	if p == nil {
		p = &peer{Source: s}
		c.peers[s.Agent] = p
	}
	if s.At != "" {
		p.At = s.At // it may have been started again elsewhere
	}
	p.used = c.now
	return p
}

// reach dials until n links are there or on their way.
func (c *Core) reach(p *peer, n int) {
	for len(p.links)+p.dialing < n && p.failures <= c.cfg.Tries {
		p.dialing++
		c.do(Dial{Source: p.Source, After: c.backoff(p.failures)})
	}
}

// maxBackoff bounds the pause between two tries.
const maxBackoff = 5 * time.Second

func (c *Core) backoff(failures int) time.Duration {
	if failures == 0 {
		return 0
	}
	return min(c.cfg.Backoff<<min(failures-1, 16), maxBackoff)
}

func (c *Core) up(ev Up) {
	l := &link{id: ev.Link}
	c.links[ev.Link] = l
	if !ev.Dialed {
		g := c.guests[ev.Agent]
		if g == nil {
			g = &guest{agent: ev.Agent, served: map[uint64]*service{}}
			c.guests[ev.Agent] = g
		}
		l.guest = g
		g.links = append(g.links, l)
		return
	}
	p := c.peers[ev.Agent]
	if p == nil {
		delete(c.links, ev.Link)
		c.hangup(l, "this agent did not ask for a link to %s", ev.Agent)
		return
	}
	p.dialing--
	p.links = append(p.links, l)
	l.peer = p
	for _, pull := range slices.Clone(c.pulls) {
		s := pull.source(p.Agent)
		switch {
		case s == nil:
		case s.state == connecting:
			c.want(pull, s)
		case s.state == serving:
			c.ask(pull, s, l)
		}
	}
}

func (c *Core) dialFailed(ev DialFailed) {
	p := c.peers[ev.Agent]
	if p == nil {
		return
	}
	p.dialing--
	p.failures++
	c.unreached(p, ev.Why)
}

// unreached goes on after a dial or a link to p failed.
func (c *Core) unreached(p *peer, why string) {
	if len(p.links) > 0 || p.dialing > 0 {
		return
	}
	for _, pull := range slices.Clone(c.pulls) {
		s := pull.source(p.Agent)
		if s == nil || s.state != connecting {
			continue
		}
		// A source that another named is not worth waiting for: the other names the next.
		if p.failures > c.cfg.Tries || !s.origin {
			c.fail(pull, s, why)
		} else {
			c.reach(p, 1)
		}
	}
}

func (c *Core) down(ev Down) {
	l := c.links[ev.Link]
	if l == nil {
		return
	}
	delete(c.links, ev.Link)
	if l.guest != nil {
		c.guestLeft(l)
		return
	}
	p := l.peer
	p.links = slices.DeleteFunc(p.links, func(o *link) bool { return o == l })
	p.failures++
	if len(p.links) > 0 { // else the other end forgets all transfers of ours
		for _, m := range l.left {
			c.sendLeave(p.links[0], m.Transfer, m.Kept)
		}
	}
	for i := range l.asked {
		l.asked[i].reading = false // the link has no reader any more
	}
	c.giveBack(l, nil)
	for _, pull := range slices.Clone(c.pulls) {
		s := pull.source(p.Agent)
		switch {
		case s == nil:
		case s.state == wanted && s.link == l, s.state == serving && len(p.links) == 0:
			s.state = connecting
			if len(p.links) > 0 {
				c.want(pull, s)
			}
		case s.state == serving:
			c.reach(p, c.connections(pull))
		}
		c.askEverybody(pull)
	}
	c.unreached(p, ev.Why)
}

// giveBack lets the pieces that were asked for on a link, of one pull or of all,
// be asked for elsewhere. A piece that is just being read into its copy is not:
// what comes late would overwrite what came from elsewhere and was found right. Its
// link is ended instead, after which nothing is read from it.
func (c *Core) giveBack(l *link, of *pull) {
	l.asked = slices.DeleteFunc(l.asked, func(a ask) bool {
		if of != nil && a.pull != of {
			return false
		}
		if a.reading && !a.pull.over {
			c.hangup(l, "a piece is given up that is just being read")
			return false
		}
		a.pull.pieces.giveBack(a.piece)
		c.meter.givenUp(&l.peer.flow, c.now)
		c.stats.Again++
		return true
	})
}

// keptLeaves bounds link.left. Transfers that are lost beyond it end with the last link.
const keptLeaves = 64

// sendLeave ends a transfer at its source.
func (c *Core) sendLeave(l *link, transfer uint64, kept bool) {
	if len(l.left) == keptLeaves {
		l.left = slices.Delete(l.left, 0, 1)
	}
	m := &comms.Leave{Transfer: transfer, Kept: kept}
	l.left = append(l.left, m)
	c.send(l, m)
}

func (c *Core) message(ev Message) {
	l := c.links[ev.Link]
	if l == nil {
		return
	}
	switch m := ev.Msg.(type) {
	case *comms.Serve:
		if pull, s := c.transfer(l, m.Transfer); pull != nil {
			c.answered(pull, s, m)
		}
		return
	case *comms.Reply:
		if pull, s := c.transfer(l, m.Req); pull != nil {
			c.refused(pull, s, m)
		}
		return
	case *comms.Want:
		if l.guest != nil {
			c.wants(l, m)
			return
		}
	case *comms.Pull:
		if l.guest != nil {
			c.pulled(l, m)
			return
		}
	case *comms.Leave:
		if l.guest != nil {
			c.leaves(l.guest, m)
			return
		}
	}
	c.hangup(l, "unexpected %T", ev.Msg)
}

// transfer finds the pull that an answer on a link belongs to, and its source.
// Both are nil when it has ended, or goes on without that source.
func (c *Core) transfer(l *link, id uint64) (*pull, *source) {
	if l.peer == nil {
		return nil, nil
	}
	for _, pull := range c.pulls {
		s := pull.source(l.peer.Agent)
		if s != nil && s.id == id && (s.state == wanted || s.state == serving) {
			return pull, s
		}
	}
	return nil, nil
}

func (c *Core) tick() {
	for _, pull := range slices.Clone(c.pulls) {
		c.leaveStalled(pull)
		for _, s := range pull.sources {
			if s.peer != nil && s.state != failed {
				s.peer.used = c.now
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.peers)) {
		p := c.peers[name]
		if c.now-p.used < c.cfg.Idle || p.dialing > 0 {
			continue
		}
		for _, l := range p.links {
			c.hangup(l, "not used for %v", c.cfg.Idle)
		}
		if len(p.links) == 0 {
			delete(c.peers, name)
		}
	}
}
