package executor

import (
	"errors"

	"github.com/cascade-run/cascade/comms"
)

// Conn carries messages to the agent. Messages of the agent come in through
// Executor.Handle, and the end of the connection through Executor.Broken.
type Conn interface {
	// Send hands over one message. It waits while the connection is full, and
	// fails when it is closed. Slices in m may be changed after it returns.
	Send(m comms.Message) error
	// Queue is Send for a message that may wait for the next Send.
	Queue(m comms.Message) error
}

// linkConn is the Conn of a comms.Link, and the link's handler.
type linkConn struct {
	exec *Executor
	link *comms.Link
	room chan struct{} // holds a token after a credit
}

var _ comms.Handler = (*linkConn)(nil)

// Send implements Conn.
func (c *linkConn) Send(m comms.Message) error { return c.deliver(c.link.Send, m) }

// Queue implements Conn.
func (c *linkConn) Queue(m comms.Message) error { return c.deliver(c.link.Queue, m) }

func (c *linkConn) deliver(by func(head, body []byte) error, m comms.Message) error {
	return deliver(c.link, c.room, by, m)
}

// deliver sends a message when there is room for it: room holds a token after a credit.
func deliver(link *comms.Link, room <-chan struct{}, by func(head, body []byte) error, m comms.Message) error {
	head := comms.Encode(m)
	for {
		err := by(head, nil)
		if !errors.Is(err, comms.ErrFull) {
			return err
		}
		link.Flush() // what is queued goes first, to make room
		select {
		case <-room:
		case <-link.Done():
			return comms.ErrClosed
		}
	}
}

// Up is called by the link.
func (c *linkConn) Up(*comms.Link, comms.Identity, bool) {}

// Message is called by the link.
func (c *linkConn) Message(_ *comms.Link, head, body []byte) {
	m, err := comms.Decode(head)
	var unknown *comms.UnknownTypeError
	switch {
	case err == nil:
		c.exec.HandleBody(m, body)
	case errors.As(err, &unknown) && unknown.MayIgnore():
	default:
		c.exec.fail(ErrProtocol, err)
	}
}

// Credit is called by the link.
func (c *linkConn) Credit(*comms.Link) {
	select {
	case c.room <- struct{}{}:
	default:
	}
}

// Down is called by the link, which has no replay: it is over.
func (c *linkConn) Down(_ *comms.Link, err error) { c.exec.Broken(err) }
