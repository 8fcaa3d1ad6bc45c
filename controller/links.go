package controller

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/zeebo/blake3"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/comms/pki"
	"github.com/cascade-run/cascade/controller/core"
	"github.com/cascade-run/cascade/controller/records"
)

// peer is what the loop keeps of a link.
type peer struct {
	link  *comms.Link
	who   comms.Identity
	held  []core.Send // did not fit
	asked map[uint64]asked
	flush bool
	many  bool        // it reads Many
	bunch comms.Bunch // what goes out with the next flush
}

// Events of the driver's own, which do not reach the core.
type (
	linkOpened struct {
		core.LinkUp
		link *comms.Link
	}
	linkRoom struct {
		core.Tick
		id core.LinkID
	}
	tellRevoked struct{ core.Tick }
	linkSay     struct {
		core.Tick
		id   core.LinkID
		msg  comms.Message
		body []byte
	}
)

// Up is called by a link.
func (c *Controller) Up(l *comms.Link, p comms.Identity, resumed bool) {
	c.mu.Lock()
	old, known := c.ids[l]
	delete(c.broken, l)
	if p.Role == "agent" {
		defer c.inbox.Push(agentBack{name: p.Name, incarnation: p.Incarnation, at: time.Now()})
	}
	if known && resumed {
		c.mu.Unlock()
		c.log.Info().Str("role", p.Role).Str("peer", p.Name).Msg("link is back")
		return
	}
	c.next++
	id := c.next
	c.ids[l] = id
	c.mu.Unlock()
	if known {
		c.inbox.Push(core.LinkDown{Link: old})
	}
	c.log.Info().Str("role", p.Role).Str("peer", p.Name).Msg("link is up")
	owner := ""
	if p.Grant == pki.RoleSubmit {
		owner = p.Holder
	}
	c.inbox.Push(linkOpened{core.LinkUp{Link: id, Agent: p.Role == "agent", Name: p.Name, Incarnation: p.Incarnation, Tenant: owner, Build: p.Build}, l})
}

// Down is called by a link. One that may come back keeps its place: what is sent
// meanwhile waits in it.
func (c *Controller) Down(l *comms.Link, err error) {
	c.mu.Lock()
	id, known := c.ids[l]
	why, text := lossCause(err)
	if !errors.Is(err, comms.ErrClosed) {
		_, again := c.broken[l]
		now := time.Now()
		if known && !again {
			c.broken[l] = now
		}
		c.mu.Unlock()
		if known && !again {
			c.tellLost(l, now, why, text)
		}
		c.log.Info().Str("role", l.Peer().Role).Str("peer", l.Peer().Name).AnErr("why", err).Msg("link is broken: its peer may come back")
		c.lookAfter(l, err)
		return
	}
	since := c.broken[l]
	delete(c.ids, l)
	delete(c.broken, l)
	delete(c.doors, l)
	c.mu.Unlock()
	if known {
		c.blobs.forget(id)
		c.log.Info().Str("role", l.Peer().Role).Str("peer", l.Peer().Name).Err(err).Msg("link is down")
		down := core.LinkDown{Link: id, Since: since, Why: why}
		if since.IsZero() {
			c.tellLost(l, time.Now(), why, text)
		} else {
			down.Heard = since.Add(-l.Quiet())
		}
		c.inbox.Push(down)
	}
}

// tellLost has the loss of an agent noted, before the core is told of it.
func (c *Controller) tellLost(l *comms.Link, at time.Time, why records.LossCause, text string) {
	if p := l.Peer(); p.Role == "agent" {
		c.inbox.Push(agentLost{name: p.Name, at: at, why: why, text: text})
	}
}

// Credit is called by a link.
func (c *Controller) Credit(l *comms.Link) {
	if id, ok := c.id(l); ok {
		c.inbox.Push(linkRoom{id: id})
	}
}

func (c *Controller) id(l *comms.Link) (core.LinkID, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	id, ok := c.ids[l]
	return id, ok
}

// Pause is called by a link.
func (c *Controller) Pause(*comms.Link) { c.help() }

// Message is called by a link: what takes time or files is done here, on the
// link's own goroutine.
func (c *Controller) Message(l *comms.Link, head, body []byte) {
	id, ok := c.id(l)
	if !ok {
		return
	}
	if err := comms.DecodeEach(head, func(m comms.Message) { c.message(id, l, m, body) }); err != nil {
		var unknown *comms.UnknownTypeError
		if !errors.As(err, &unknown) || !unknown.MayIgnore() {
			l.Abort(fmt.Errorf("message from %s %s: %w", l.Peer().Role, l.Peer().Name, err))
		}
	}
}

func (c *Controller) message(id core.LinkID, l *comms.Link, m comms.Message, body []byte) {
	if !c.permit(id, l, m) {
		return
	}
	switch m := m.(type) {
	case *comms.Register:
		c.learn(l, m)
	case *comms.Invite, *comms.Revoke, *comms.Renew, *comms.Backup, *comms.SetProfiles:
		c.member(id, l, m)
		return
	case *comms.Query:
		if m.Kind == comms.QueryMembers || m.Kind == comms.QueryTokens {
			c.member(id, l, m)
			return
		}
	case *comms.Blob:
		if err := c.blobs.add(id, m, body); err != nil {
			l.Abort(err)
		}
		return
	case *comms.HaveReq:
		c.inbox.Offer(linkSay{id: id, msg: c.blobs.have(id, m)})
		return
	case *comms.NamedReq:
		q := &comms.NamedReq{Req: m.Req, Text: bytes.Clone(m.Text), Params: bytes.Clone(m.Params)} // the link's buffer is used again
		c.slow(func() { c.done(linkSay{id: id, msg: answerNamed(q)}) })
		return
	case *comms.BlobReq:
		c.slow(func() {
			piece, body := c.blobs.piece(m)
			c.done(linkSay{id: id, msg: piece, body: body})
		})
		return
	case *comms.Submit:
		if err := c.texts.nameGraph(m); err != nil {
			c.inbox.Offer(linkSay{id: id, msg: &comms.Reply{Req: m.Req, Code: comms.CodeBadRequest, Message: err.Error()}})
			return
		}
	}
	c.inbox.Offer(core.Received{Link: id, Msg: m})
}

func hashOf(b []byte) comms.Hash {
	sum := blake3.Sum256(b)
	return comms.Hash(append([]byte{comms.HashBLAKE3}, sum[:]...))
}

// opened tells the core of a link that the loop can use.
func (c *Controller) opened(ev linkOpened) {
	who := ev.link.Peer()
	c.peers[ev.Link] = &peer{link: ev.link, who: who, many: slices.Contains(who.Features, comms.FeatureMany)}
	c.local = append(c.local, ev.LinkUp)
	if ev.Agent && c.cluster != nil {
		c.send(core.Send{Link: ev.Link, Msg: &comms.Revoked{Serials: c.cluster.members.Serials()}})
	}
}

// send sends one message, or keeps it when the link is full.
func (c *Controller) send(s core.Send) {
	p := c.peers[s.Link]
	if p == nil {
		return // the core learns of the link's end with the next events
	}
	c.answers(p, s.Msg)
	if len(p.held) > 0 {
		p.held = append(p.held, s)
		return
	}
	c.queue(p, s)
}

// queue puts a message into the link's own queue, at the latest with the next
// flush, and tells whether it fitted. Messages of one kind go together.
func (c *Controller) queue(p *peer, s core.Send) bool {
	if p.many && len(s.Body) == 0 {
		if p.bunch.Add(s.Msg) {
			p.flush = true
			return true
		}
		if m := p.bunch.Take(); m != nil && !c.put(p, core.Send{Link: s.Link, Msg: m}) {
			p.held = append(p.held, s)
			return false
		}
		if p.bunch.Add(s.Msg) {
			p.flush = true
			return true
		}
	} else if m := p.bunch.Take(); m != nil && !c.put(p, core.Send{Link: s.Link, Msg: m}) {
		p.held = append(p.held, s)
		return false
	}
	return c.put(p, s)
}

func (c *Controller) put(p *peer, s core.Send) bool {
	err := p.link.Queue(comms.Encode(s.Msg), s.Body)
	switch {
	case err == nil:
		p.flush = true
	case errors.Is(err, comms.ErrFull):
		p.held = append(p.held, s)
		c.local = append(c.local, core.Full{Link: s.Link})
		p.flush = true
		return false
	case errors.Is(err, comms.ErrTooLarge):
		c.log.Error().Err(err).Str("peer", p.link.Peer().Name).Msgf("%T cannot be sent", s.Msg)
		p.link.Abort(err)
	}
	// A closed link reports its end by itself.
	return true
}

// room sends what was kept for a link.
func (c *Controller) room(id core.LinkID) {
	p := c.peers[id]
	if p == nil || len(p.held) == 0 {
		return
	}
	held := p.held
	p.held = nil
	for i, s := range held {
		if !c.queue(p, s) {
			p.held = append(p.held, held[i+1:]...)
			return
		}
	}
	c.local = append(c.local, core.Free{Link: id})
}

func (c *Controller) flush() {
	for id, p := range c.peers {
		if p.flush {
			if m := p.bunch.Take(); m != nil {
				c.put(p, core.Send{Link: id, Msg: m})
			}
			p.flush = false
			p.link.Flush()
		}
	}
}
