//go:build linux

package agent

import (
	"errors"
	"fmt"
	"sync"

	"github.com/cascade-run/cascade/agent/core"
	"github.com/cascade-run/cascade/comms"
)

// clientDoor handles the links of clients.
type clientDoor struct {
	agent *Agent
	mu    sync.Mutex
	last  uint64
	byID  map[*comms.Link]*client
}

// client is one client's link.
type client struct {
	id     uint64
	link   *comms.Link
	credit chan struct{} // holds a token after a credit
	gone   chan struct{}
	stop   <-chan struct{} // the agent's end
	serve  func(comms.Message)

	sending sync.Mutex // held by the answer that is being sent

	// Requests that are worked on hold bytes, those that wait hold only
	// themselves. The goroutine that reads the link never waits for them: it
	// reads the acknowledgements that make room for answers.
	mu      sync.Mutex
	open    int
	waiting []comms.Message
}

const (
	clientRequests = 16   // requests of one client that are worked on at a time
	clientWaiting  = 4096 // requests of one client that wait; more are refused
)

// take works on a request, now or when others have been answered.
func (c *client) take(m comms.Message) {
	c.mu.Lock()
	switch {
	case c.open < clientRequests:
		c.open++
	case len(c.waiting) < clientWaiting:
		c.waiting = append(c.waiting, m)
		m = nil
	default:
		c.mu.Unlock()
		req, _ := comms.NumberOf(m)
		refusal := &comms.Reply{Req: req, Code: comms.CodeUnavailable,
			Message: fmt.Sprintf("%d requests wait for an answer: read some first", clientWaiting)}
		if err := c.link.Send(comms.Encode(refusal), nil); err != nil && !errors.Is(err, comms.ErrClosed) {
			c.link.Abort(fmt.Errorf("client sends requests and reads no answers: %w", err))
		}
		return
	}
	c.mu.Unlock()
	if m != nil {
		c.serve(m)
	}
}

// answered lets the next request in.
func (c *client) answered() {
	c.mu.Lock()
	var next comms.Message
	if len(c.waiting) > 0 {
		next = c.waiting[0]
		c.waiting[0] = nil
		c.waiting = c.waiting[1:]
	} else {
		c.open--
	}
	c.mu.Unlock()
	if next != nil {
		c.serve(next)
	}
}

func (d *clientDoor) of(l *comms.Link) *client {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.byID[l]
}

// Up is called by a link, also after a reconnect.
func (d *clientDoor) Up(l *comms.Link, _ comms.Identity, resumed bool) {
	if resumed && d.of(l) != nil {
		return
	}
	select { // a client may come back before New has made the loop
	case <-d.agent.looping:
	case <-d.agent.stop.Done():
		l.Abort(comms.ErrClosed)
		return
	}
	d.end(l)
	d.mu.Lock()
	if d.byID == nil {
		d.byID = map[*comms.Link]*client{}
	}
	d.last++
	c := &client{id: d.last, link: l,
		credit: make(chan struct{}, 1), gone: make(chan struct{}), stop: d.agent.stop.Done()}
	c.serve = func(m comms.Message) { d.agent.serve(c, m) }
	d.byID[l] = c
	d.mu.Unlock()
	loop := d.agent.loop
	d.agent.in.Offer(item{note: func() { loop.clients[c.id] = c }})
}

// Message is called by a link.
func (d *clientDoor) Message(l *comms.Link, head, _ []byte) {
	c := d.of(l)
	msg := decode(l, head)
	if msg == nil {
		return
	}
	if err := comms.Permit(l.Peer(), msg); err != nil {
		l.Abort(err)
		return
	}
	switch msg.(type) {
	case *comms.Fetch, *comms.Query:
		if c != nil {
			c.take(msg)
			return
		}
	}
	l.Abort(fmt.Errorf("a client may only send Fetch and Query to an agent, and sent %s", comms.NameOf(msg)))
}

// serve starts the work on a request.
func (a *Agent) serve(c *client, m comms.Message) {
	if f, ok := m.(*comms.Fetch); ok && f.Log {
		a.fetchLog(c, f)
		return
	}
	a.in.Push(item{ev: core.FromClient{Client: c.id, Msg: m}})
}

// Pause is called by a link.
func (d *clientDoor) Pause(*comms.Link) { d.agent.help() }

// Credit is called by a link.
func (d *clientDoor) Credit(l *comms.Link) {
	if c := d.of(l); c != nil {
		select {
		case c.credit <- struct{}{}:
		default:
		}
	}
}

// Down is called by a link. A client that may come back keeps its requests.
func (d *clientDoor) Down(l *comms.Link, err error) {
	if errors.Is(err, comms.ErrClosed) {
		d.end(l)
	}
}

func (d *clientDoor) end(l *comms.Link) {
	d.mu.Lock()
	c := d.byID[l]
	delete(d.byID, l)
	d.mu.Unlock()
	if c == nil {
		return
	}
	close(c.gone)
	loop := d.agent.loop
	d.agent.in.Push(item{note: func() { delete(loop.clients, c.id) }, ev: core.ClientGone{Client: c.id}})
}

// answer sends the answer to one request, waiting for room in the link's queue,
// and lets the next request in.
func (c *client) answer(head, body []byte) {
	defer c.answered()
	// One at a time: a credit tells of room once, and wakes one that waits.
	c.sending.Lock()
	defer c.sending.Unlock()
	for {
		err := c.link.Send(head, body)
		if !errors.Is(err, comms.ErrFull) {
			if err != nil && !errors.Is(err, comms.ErrClosed) {
				c.link.Abort(err)
			}
			return
		}
		select {
		case <-c.credit:
		case <-c.gone:
			return
		case <-c.stop:
			return
		}
	}
}

// maxChunk is the most bytes of one Chunk.
const maxChunk = 1 << 20

// fetchLog answers a Fetch of a log. It goes through the lane that writes logs,
// so that it sees all that the task wrote before.
func (a *Agent) fetchLog(c *client, m *comms.Fetch) {
	a.logLane.do(func() {
		most := m.Max
		if most == 0 || most > maxChunk {
			most = maxChunk
		}
		var head []byte
		text, total, err := a.logs.read(m.Data.Job, m.Task, m.Offset, most)
		if err != nil {
			head = comms.Encode(&comms.Reply{Req: m.Req, Code: comms.CodeInternal, Message: err.Error()})
		} else {
			head = comms.Encode(&comms.Chunk{Req: m.Req, Offset: m.Offset, Total: total})
		}
		a.work.Go(func() { c.answer(head, text) })
	})
}
