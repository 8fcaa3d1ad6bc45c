package transfer

import (
	"errors"
	"fmt"
	"sync"

	"github.com/zeebo/xxh3"

	"github.com/cascade-run/cascade/agent/transfer/core"
	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/internal/backoff"
)

// conn is one link. Of one that we dialed it is the Handler; the links of guests share a door.
type conn struct {
	x      *Exchange
	id     core.LinkID
	link   *comms.Link
	agent  string
	dialed bool

	// Of the goroutine that reads.
	into    *memory // where the body that arrives goes
	scratch []byte  // for bodies that are not wanted any more
	checks  sync.WaitGroup

	mu     sync.Mutex
	flying []*memory // of bodies that the link was given and the kernel has not taken
	down   bool
}

// dial makes one link and stays until it ends.
func (x *Exchange) dial(a core.Dial) {
	if a.After > 0 {
		backoff.Sleep(backoff.Jitter(a.After), x.stop.Done())
	}
	c := &conn{x: x, agent: a.Agent, dialed: true}
	cfg := x.links(x.cfg.Self)
	cfg.Handler, cfg.BodyBuffer = c, c.buffer
	cfg.CheckPeer = func(peer comms.Identity, _ int) error {
		if peer.Role != "agent" || peer.Name != a.Agent {
			return fmt.Errorf("agent %s was expected at %s, and %s %s answers", a.Agent, a.At, peer.Role, peer.Name)
		}
		return nil
	}
	link, err := comms.Dial(x.stop, a.At, cfg)
	if err != nil {
		x.mu.Lock()
		x.stepAndUnlock(core.DialFailed{Agent: a.Agent, Why: err.Error()})
		return
	}
	select {
	case <-link.Done():
	case <-x.stop.Done():
		link.Abort(ErrClosed)
		<-link.Done()
	}
}

// Up is called by a link that we dialed.
func (c *conn) Up(l *comms.Link, _ comms.Identity, _ bool) { c.up(l) }

func (c *conn) up(l *comms.Link) {
	x := c.x
	c.link = l
	x.mu.Lock()
	if x.closed {
		x.mu.Unlock()
		l.Abort(ErrClosed)
		return
	}
	x.last++
	c.id = x.last
	x.conns[c.id] = c
	x.stepAndUnlock(core.Up{Link: c.id, Agent: c.agent, Dialed: c.dialed})
}

// Credit is called by a link whose queue was full; such a link was ended.
func (c *conn) Credit(*comms.Link) {}

// Message is called by a link.
func (c *conn) Message(l *comms.Link, head, body []byte) {
	m, err := comms.Decode(head)
	if err != nil {
		var unknown *comms.UnknownTypeError
		if !errors.As(err, &unknown) || !unknown.MayIgnore() {
			l.Abort(fmt.Errorf("message from agent %s: %w", c.agent, err))
		}
		return
	}
	if p, ok := m.(*comms.Piece); ok && c.dialed {
		c.piece(p, body)
		return
	}
	c.x.mu.Lock()
	c.x.stepAndUnlock(core.Message{Link: c.id, Msg: m})
}

// buffer says where the body of a piece goes: into its copy if it was asked for.
func (c *conn) buffer(_ *comms.Link, head []byte, size int) []byte {
	m, err := comms.Decode(head)
	p, ok := m.(*comms.Piece)
	if err != nil || !ok {
		return nil
	}
	x := c.x
	x.mu.Lock()
	defer x.mu.Unlock()
	if wanted, ok, _ := x.core.Expects(c.id, p.Transfer, p.Offset, uint64(size)); ok { // piece ends the link
		x.core.Reads(c.id, p.Transfer, p.Offset)
		c.into = x.copies[wanted]
		c.into.refs++
		return c.into.bytes[p.Offset : p.Offset+uint64(size)]
	}
	if len(c.scratch) < size {
		c.scratch = make([]byte, size)
	}
	return c.scratch
}

// piece takes a piece that has arrived. Its checksum is made beside the reading
// of the next one.
func (c *conn) piece(p *comms.Piece, body []byte) {
	m := c.into
	if c.into = nil; m == nil {
		c.x.mu.Lock()
		_, _, err := c.x.core.Expects(c.id, p.Transfer, p.Offset, uint64(len(body)))
		c.x.mu.Unlock()
		if err != nil {
			c.link.Abort(err)
		}
		return
	}
	check := func() {
		good := p.Sum == 0 || sum(body) == p.Sum
		if good {
			c.x.keepSum(m, p.Offset, len(body), p.Sum)
		} else {
			c.x.cfg.Log.Warn().Str("agent", c.agent).Uint64("offset", p.Offset).Int("bytes", len(body)).
				Msg("bytes with a wrong checksum came: they are asked for again")
		}
		c.x.mu.Lock()
		c.x.stepAndUnlock(core.Arrived{Link: c.id, Transfer: p.Transfer, Offset: p.Offset, Good: good})
		c.x.release(m)
	}
	if p.Sum == 0 {
		check()
		return
	}
	c.checks.Go(check)
}

// Down is called by a link.
func (c *conn) Down(_ *comms.Link, err error) {
	c.checks.Wait() // the core hears of what has arrived first
	if c.into != nil {
		c.x.release(c.into)
		c.into = nil
	}
	c.mu.Lock()
	c.down = true
	flying := c.flying
	c.flying = nil
	c.mu.Unlock()
	for _, m := range flying {
		c.x.release(m)
	}
	c.x.mu.Lock()
	if c.id == 0 { // it came after Close
		c.x.mu.Unlock()
		return
	}
	delete(c.x.conns, c.id)
	c.x.stepAndUnlock(core.Down{Link: c.id, Why: err.Error()})
}

// sendPiece gives bytes of a copy to a link, which writes them from where they
// are. One use of m is ours, and the link's until the kernel has taken the bytes.
func (x *Exchange) sendPiece(c *conn, m *memory, a core.SendPiece) {
	body := m.bytes[a.Offset : a.Offset+a.Bytes]
	p := &comms.Piece{Transfer: a.Transfer, Offset: a.Offset}
	if x.cfg.Security == nil && !x.cfg.NoSums {
		p.Sum = x.sumOf(m, a.Offset, body)
	}
	c.mu.Lock()
	err := comms.ErrClosed
	if !c.down {
		if err = c.link.Send(comms.Encode(p), body); err == nil {
			c.flying = append(c.flying, m)
		}
	}
	c.mu.Unlock()
	if err == nil {
		return
	}
	x.release(m)
	if !errors.Is(err, comms.ErrClosed) {
		c.link.Abort(fmt.Errorf("send %d bytes of a dataset: %w", a.Bytes, err))
	}
}

// sent is called by a link when the kernel has taken a body.
func (x *Exchange) sent(l *comms.Link, body []byte) {
	v, ok := x.guests.Load(l)
	if !ok {
		return
	}
	c := v.(*conn)
	c.mu.Lock()
	if len(c.flying) == 0 { // Down has let go of it
		c.mu.Unlock()
		return
	}
	m := c.flying[0]
	c.flying[0] = nil
	c.flying = c.flying[1:]
	c.mu.Unlock()
	x.out.Add(uint64(len(body)))
	x.release(m)
}

// sum is the checksum of a piece; 0 is kept for none.
func sum(b []byte) uint64 { return max(xxh3.Hash(b), 1) }

// sumOf returns the checksum of a piece. The one with which it came, from whom
// made the dataset, is passed on: what goes wrong in our memory shows, too.
func (x *Exchange) sumOf(m *memory, offset uint64, body []byte) uint64 {
	chunk := x.core.Chunk()
	whole := offset%chunk == 0 && (uint64(len(body)) == chunk || offset+uint64(len(body)) == uint64(len(m.bytes)))
	if whole {
		if s := m.sums[offset/chunk].Load(); s != 0 {
			return s
		}
	}
	s := sum(body)
	if whole {
		m.sums[offset/chunk].Store(s)
	}
	return s
}

// keepSum remembers the checksum with which a piece came.
func (x *Exchange) keepSum(m *memory, offset uint64, n int, s uint64) {
	if s != 0 && n > 0 {
		m.sums[offset/x.core.Chunk()].Store(s)
	}
}

// door is the Handler of the links of guests.
type door struct{ x *Exchange }

func (d door) of(l *comms.Link) *conn {
	if c, ok := d.x.guests.Load(l); ok {
		return c.(*conn)
	}
	return nil
}

// Up is called by a link.
func (d door) Up(l *comms.Link, peer comms.Identity, _ bool) {
	c := &conn{x: d.x, agent: peer.Name}
	d.x.guests.Store(l, c)
	c.up(l)
}

// Message is called by a link.
func (d door) Message(l *comms.Link, head, body []byte) {
	if c := d.of(l); c != nil {
		c.Message(l, head, body)
	}
}

// Credit is called by a link.
func (d door) Credit(*comms.Link) {}

// Down is called by a link.
func (d door) Down(l *comms.Link, err error) {
	if c := d.of(l); c != nil {
		d.x.guests.Delete(l)
		c.Down(l, err)
	}
}
