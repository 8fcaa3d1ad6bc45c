package reach

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"

	"github.com/cascade-run/cascade/comms"
)

// stream is one direct link on its way through an agent: the connection of a caller or of a process, and the link to the
// other agent.
type stream struct {
	reach  *Reach
	link   *comms.Link
	asked  bool          // Reach has come; of the goroutine that reads the link
	answer chan error    // of Reach
	room   chan struct{} // on the link
	over   context.Context
	end    context.CancelCauseFunc

	there chan struct{} // closed when conn is
	once  sync.Once
	conn  net.Conn
}

func newStream(r *Reach) *stream {
	s := &stream{reach: r, answer: make(chan error, 1), room: make(chan struct{}, 1), there: make(chan struct{})}
	s.over, s.end = context.WithCancelCause(r.stop)
	return s
}

var _ comms.Handler = (*stream)(nil)

// Up is called by a link.
func (s *stream) Up(l *comms.Link, _ comms.Identity, _ bool) { s.link = l }

// Credit is called by a link.
func (s *stream) Credit(*comms.Link) {
	select {
	case s.room <- struct{}{}:
	default:
	}
}

// Message is called by a link. It waits for the connection to take what came, which holds up this link alone.
func (s *stream) Message(l *comms.Link, head, body []byte) {
	m, err := comms.Decode(head)
	if err != nil {
		l.Abort(err)
		return
	}
	switch m := m.(type) {
	case *comms.Carried:
		s.write(body)
	case *comms.Reached:
		var err error
		switch {
		case m.Gone:
			err = fmt.Errorf("%w: %s", ErrGone, m.Error)
		case m.Error != "":
			err = errors.New(m.Error)
		}
		s.answered(err)
	case *comms.Reach:
		s.take(m)
	default:
		l.Abort(fmt.Errorf("unexpected %T on a link that carries another", m))
	}
}

// take connects to the process that another agent asks for.
func (s *stream) take(m *comms.Reach) {
	if s.asked {
		s.link.Abort(errors.New("it asks for a second process"))
		return
	}
	s.asked = true
	c, err := s.reach.dial(m.Address)
	reply := &comms.Reached{Req: m.Req}
	if err != nil {
		reply.Error, reply.Gone = strings.TrimPrefix(err.Error(), ErrGone.Error()+": "), errors.Is(err, ErrGone)
	}
	if err := s.link.Send(comms.Encode(reply), nil); err != nil {
		s.link.Abort(err)
	}
	if c != nil && !s.reach.goes(func() { s.carry(c) }) {
		_ = c.Close()
	}
}

// write has the connection take bytes.
func (s *stream) write(body []byte) {
	select {
	case <-s.there:
		if _, err := s.conn.Write(body); err != nil {
			s.link.Abort(fmt.Errorf("write to the other end of a direct link: %w", err))
		}
	case <-s.over.Done():
	}
}

// carry sends what a connection says, until that ends or the link does.
func (s *stream) carry(c net.Conn) {
	s.conn = c
	s.once.Do(func() { close(s.there) })
	stop := context.AfterFunc(s.over, func() { _ = c.Close() })
	defer stop()
	buf := make([]byte, piece)
	head := comms.Encode(&comms.Carried{})
	for {
		n, err := c.Read(buf)
		if n > 0 && !s.send(head, bytes.Clone(buf[:n])) {
			break
		}
		if err != nil {
			break
		}
	}
	if err := s.link.Close(); err != nil && s.reach.stop.Err() == nil {
		s.reach.cfg.Log.Debug().Err(err).Msg("a direct link to another host ends")
	}
	s.close(comms.ErrClosed) // a link says nothing to who has closed it
}

// send gives bytes to the link, and waits for room there.
func (s *stream) send(head, body []byte) bool {
	for {
		err := s.link.Send(bytes.Clone(head), body)
		switch {
		case err == nil:
			return true
		case !errors.Is(err, comms.ErrFull):
			s.link.Abort(err)
			return false
		}
		select {
		case <-s.room:
		case <-s.over.Done():
			return false
		}
	}
}

// answered tells what became of Reach, once.
func (s *stream) answered(err error) {
	select {
	case s.answer <- err:
	default:
	}
}

// Down is called by a link.
func (s *stream) Down(_ *comms.Link, err error) { s.close(err) }

// close ends the connection.
func (s *stream) close(err error) {
	s.answered(fmt.Errorf("the link to its agent broke: %w", err))
	s.end(err)
	s.reach.forget(s.link)
}

// door is the Handler of the links that other agents dial.
type door struct{ reach *Reach }

var _ comms.Handler = door{}

func (d door) of(l *comms.Link) *stream {
	d.reach.mu.Lock()
	defer d.reach.mu.Unlock()
	return d.reach.streams[l]
}

// Up is called by a link.
func (d door) Up(l *comms.Link, _ comms.Identity, _ bool) {
	s := newStream(d.reach)
	s.link = l
	if !d.reach.add(l, s) {
		l.Abort(ErrClosed)
	}
}

// Message is called by a link.
func (d door) Message(l *comms.Link, head, body []byte) {
	if s := d.of(l); s != nil {
		s.Message(l, head, body)
	}
}

// Credit is called by a link.
func (d door) Credit(l *comms.Link) {
	if s := d.of(l); s != nil {
		s.Credit(l)
	}
}

// Down is called by a link.
func (d door) Down(l *comms.Link, err error) {
	if s := d.of(l); s != nil {
		s.close(err)
	}
}
