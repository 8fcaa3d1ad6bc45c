package memnet

import (
	"bytes"
	"time"

	"github.com/cascade-run/cascade/comms/internal/session"
)

// step is one step in the future.
type step struct {
	background func() bool // true while it repeats itself to no end; nil for never
	do         func()
}

func (n *Net[M]) at(t time.Duration, background func() bool, do func()) {
	n.agenda.Add(t, step{background, do})
}

// pump puts what is queued on its way, as far as the window allows.
func (n *Net[M]) pump(l *link, side int) {
	e := &l.ends[side]
	for e.conn != nil && e.conn.inFlight[side] < n.cfg.Window {
		m, ok := e.out.Take()
		if !ok {
			break
		}
		ack := uint64(0)
		if n.cfg.Replay {
			ack = e.in.Last()
			e.acked = ack
		}
		env := session.AppendData(nil, m.Seq, ack, e.out.Filling())
		n.transmit(l, side, frame{env, m.Head, m.Body})
	}
	if e.out.Credit() {
		n.emit(Delivery[M]{Kind: Credit, To: e.name, From: l.ends[1-side].name})
	}
}

// frame is one message as it is on the wire.
type frame struct{ envelope, head, body []byte }

// transmit sends f from one side. It arrives after all that was sent before,
// unless the connection is broken by then.
func (n *Net[M]) transmit(l *link, side int, f frame) {
	c := l.ends[side].conn
	if c.broken {
		return // into the void; the sender has not noticed yet
	}
	to := 1 - side
	c.latest[to] = max(c.latest[to], n.now+n.delay())
	c.inFlight[side]++
	n.at(c.latest[to], nil, func() {
		if l.muted[side].on || len(c.held[side]) > 0 {
			c.held[side] = append(c.held[side], f)
			return
		}
		n.land(l, side, c, f)
	})
}

// land brings a frame of one side to the other, and the word of that back.
func (n *Net[M]) land(l *link, side int, c *conn, f frame) {
	to := 1 - side
	if l.muted[to].on {
		c.unheard[side]++
	} else {
		c.inFlight[side]--
	}
	if l.ends[to].conn == c {
		n.arrive(l, to, f)
	}
	if l.ends[side].conn == c {
		n.pump(l, side)
	}
}

// mute begins the silence of a side, which ends the connection if it lasts.
func (n *Net[M]) mute(l *link, side int) {
	m := &l.muted[side]
	m.on = true
	m.times++
	times, c := m.times, l.conn()
	if c == nil {
		return
	}
	n.at(n.now+n.cfg.Silence, nil, func() {
		if m.on && m.times == times {
			n.breakConn(l, c)
		}
	})
}

// unmute ends the silence of a side: what it has sent goes on its way, and so does
// the word of what it was sent.
func (n *Net[M]) unmute(l *link, side int) {
	l.muted[side].on = false
	c := l.conn()
	if c == nil {
		return
	}
	n.at(n.now+n.delay(), nil, func() {
		if l.muted[side].on {
			return
		}
		held, other := c.held[side], 1-side
		c.held[side] = nil
		c.inFlight[other] -= c.unheard[other]
		c.unheard[other] = 0
		for _, f := range held {
			n.land(l, side, c, f)
		}
		if l.ends[other].conn == c {
			n.pump(l, other)
		}
	})
}

// conn is the connection in which any side believes.
func (l *link) conn() *conn {
	if c := l.ends[0].conn; c != nil {
		return c
	}
	return l.ends[1].conn
}

// apart tells whether no handshake succeeds.
func (l *link) apart() bool { return l.blocked || l.muted[0].on || l.muted[1].on }

// arrive is what the reading goroutine of a real link does.
func (n *Net[M]) arrive(l *link, side int, f frame) {
	e, peer := &l.ends[side], l.ends[1-side].name
	env, err := session.Decode(f.envelope)
	if err == nil && n.cfg.Replay {
		err = e.out.Ack(env.Ack)
	}
	fresh := false
	if err == nil && env.Kind == session.Data {
		fresh, err = e.in.Check(env.Seq)
	}
	if err != nil {
		panic("memnet broke its own protocol: " + err.Error())
	}
	if fresh {
		e.in.Commit(env.Seq)
		msg, err := n.cfg.Decode(bytes.Clone(f.head), bytes.Clone(f.body))
		n.emit(Delivery[M]{Kind: Message, To: e.name, From: peer, Msg: msg, Err: err})
	}
	n.pump(l, side)
	if n.cfg.Replay && e.acked != e.in.Last() && !e.ackDue {
		e.ackDue = true
		c := e.conn
		n.at(n.now+n.cfg.MaxDelay, nil, func() {
			e.ackDue = false
			if e.conn == c && e.acked != e.in.Last() {
				e.acked = e.in.Last()
				ack := session.Envelope{Kind: session.Ack, Ack: e.acked}
				n.transmit(l, side, frame{envelope: ack.Append(nil)})
			}
		})
	}
}

// cut breaks the connection that either side believes in.
func (n *Net[M]) cut(l *link) {
	for _, e := range l.ends {
		if e.conn != nil {
			n.breakConn(l, e.conn)
		}
	}
}

// breakConn lets both sides learn of the break, each in its time. Messages in flight
// arrive until their receiver has learned of it.
func (n *Net[M]) breakConn(l *link, c *conn) {
	if c.broken {
		return
	}
	c.broken = true
	for side := range l.ends {
		n.at(n.now+n.delay(), nil, func() {
			if l.ends[side].conn == c {
				n.noticed(l, side)
			}
		})
	}
}

// noticed ends a side's belief in its connection.
func (n *Net[M]) noticed(l *link, side int) {
	e := &l.ends[side]
	e.conn = nil
	e.ackDue = false
	if !n.cfg.Replay {
		n.forget(l, side)
		return
	}
	n.emit(Delivery[M]{Kind: Down, To: e.name, From: l.ends[1-side].name})
	if side == 0 {
		n.tryLater(l)
		return
	}
	e.downs++
	downs := e.downs
	n.at(n.now+n.cfg.ResumeWindow, always, func() {
		if e.session != 0 && e.conn == nil && e.downs == downs {
			n.forget(l, side)
		}
	})
}

// forget ends one side of a link for good.
func (n *Net[M]) forget(l *link, side int) {
	e := &l.ends[side]
	n.emit(Delivery[M]{Kind: Down, To: e.name, From: l.ends[1-side].name, Final: true})
	*e = end{name: e.name, downs: e.downs + 1}
	if side == 0 {
		l.session = 0
	}
}

// tryLater puts a handshake on the agenda.
func (n *Net[M]) tryLater(l *link) {
	if l.trying {
		return
	}
	l.trying = true
	unreachable := func() bool { return l.apart() || !n.nodes[l.ends[1].name].runs() }
	n.at(n.now+n.delay()+time.Millisecond, unreachable, func() {
		l.trying = false
		if l.session == 0 || !n.nodes[l.ends[0].name].runs() {
			return // the dialing process is gone
		}
		if l.apart() || !n.nodes[l.ends[1].name].runs() {
			n.tryLater(l)
			return
		}
		n.handshake(l)
	})
}

func always() bool { return true }

func (nd *node) runs() bool { return nd != nil && nd.running }

// handshake decides what both sides go on with, as Hello and Welcome do.
func (n *Net[M]) handshake(l *link) {
	d, s := &l.ends[0], &l.ends[1]
	dialer, server := n.nodes[d.name], n.nodes[s.name]
	switch {
	case s.session != 0 && s.session != l.session: // superseded by a new incarnation of the dialing side
		n.forget(l, 1)
	case s.conn != nil: // it has not noticed the break: the new connection takes over
		n.noticed(l, 1)
	}
	known := s.session != 0 && s.session == l.session && (d.peerInc == 0 || d.peerInc == server.incarnation)
	resumed := known && d.peerInc != 0
	if !known {
		s.out = n.outbox()
	}
	if !resumed && d.session != 0 {
		d.out.Reset()
		d.in.Reset()
		d.acked = 0
	}
	for _, err := range []error{d.out.Rewind(s.in.Last()), s.out.Rewind(d.in.Last())} {
		if err != nil {
			panic("memnet broke its own protocol: " + err.Error())
		}
	}
	d.acked, s.acked = d.in.Last(), s.in.Last()
	c := &conn{}
	d.conn, d.session, d.peerInc = c, l.session, server.incarnation
	s.conn, s.session, s.peerInc = c, l.session, dialer.incarnation
	n.emit(Delivery[M]{Kind: Up, To: s.name, From: d.name, Incarnation: dialer.incarnation, Resumed: known})
	n.emit(Delivery[M]{Kind: Up, To: d.name, From: s.name, Incarnation: server.incarnation, Resumed: resumed})
	n.pump(l, 1)
	n.pump(l, 0)
}

// breakLater breaks a link again and again at random.
func (n *Net[M]) breakLater(l *link, session uint64) {
	wait := time.Duration(n.random.ExpFloat64() * float64(n.cfg.BreakEvery))
	n.at(n.now+wait, always, func() {
		if l.session != session {
			return
		}
		n.cut(l)
		n.breakLater(l, session)
	})
}
