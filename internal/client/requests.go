package client

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/cascade-run/cascade/comms"
)

// requests matches answers to requests over one link. Every request can be sent
// again: the receiver treats a second copy as the first.
type requests struct {
	send func(head, body []byte) error

	mu     sync.Mutex
	open   map[uint64]*Request
	last   uint64
	closed error
}

// Request is one request and the answers that have not been taken yet.
type Request struct {
	of    *requests
	req   uint64
	again comms.Message // to be sent to a new incarnation
	wake  chan struct{}

	mu      sync.Mutex
	answers []answer
	err     error
}

type answer struct {
	message comms.Message
	body    []byte
}

func newRequests() *requests { return &requests{open: make(map[uint64]*Request)} }

// start sends the request that build makes for a fresh number.
func (cs *requests) start(build func(req uint64) comms.Message) (*Request, error) {
	c, _, err := cs.prepare(build)
	if err != nil {
		return nil, err
	}
	if err := cs.send(comms.Encode(c.again), nil); err != nil {
		cs.end(c)
		return nil, fmt.Errorf("send request: %w", err)
	}
	return c, nil
}

// prepare makes a request that the caller sends, and tells how many were open before.
func (cs *requests) prepare(build func(req uint64) comms.Message) (c *Request, others int, err error) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	if cs.closed != nil {
		return nil, 0, cs.closed
	}
	cs.last++
	c = &Request{of: cs, req: cs.last, wake: make(chan struct{}, 1)}
	c.again = build(c.req)
	others = len(cs.open)
	cs.open[c.req] = c
	return c, others, nil
}

// failed ends one request, with err.
func (cs *requests) failed(c *Request, err error) {
	cs.end(c)
	c.mu.Lock()
	c.err = err
	c.mu.Unlock()
	c.signal()
}

// become replaces what is sent again for a request that stays open.
func (cs *requests) become(c *Request, m comms.Message) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	c.again = m
}

// end forgets a request; later answers to it are dropped.
func (cs *requests) end(c *Request) {
	cs.mu.Lock()
	delete(cs.open, c.req)
	cs.mu.Unlock()
}

// one sends a request and waits for its only answer. A Reply with a code is an error.
func (cs *requests) one(ctx context.Context, build func(req uint64) comms.Message) (comms.Message, error) {
	c, err := cs.start(build)
	if err != nil {
		return nil, err
	}
	defer cs.end(c)
	m, _, err := c.Next(ctx)
	return m, err
}

// End forgets the request; later answers to it are dropped.
func (c *Request) End() { c.of.end(c) }

// Next waits for the next answer. A Reply with a code other than CodeOK is returned as an error.
func (c *Request) Next(ctx context.Context) (comms.Message, []byte, error) {
	for {
		c.mu.Lock()
		if len(c.answers) > 0 {
			a := c.answers[0]
			c.answers = c.answers[1:]
			c.mu.Unlock()
			if r, ok := a.message.(*comms.Reply); ok {
				if err := replyError(r); err != nil {
					return nil, nil, err
				}
			}
			return a.message, a.body, nil
		}
		err := c.err
		c.mu.Unlock()
		if err != nil {
			return nil, nil, err
		}
		select {
		case <-c.wake:
		case <-ctx.Done():
			return nil, nil, context.Cause(ctx)
		}
	}
}

func (c *Request) signal() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// deliver gives an answer to its request. Of Progress without events only the latest is kept,
// so that a slow watcher costs no memory.
func (cs *requests) deliver(m comms.Message, body []byte) {
	req, ok := comms.RequestOf(m)
	if !ok {
		return
	}
	p, progress := m.(*comms.Progress)
	cs.mu.Lock()
	c := cs.open[req]
	if progress && p.Final {
		delete(cs.open, req) // nothing more follows
	}
	cs.mu.Unlock()
	if c == nil {
		return
	}
	c.mu.Lock()
	if n := len(c.answers); n > 0 && progress {
		if last, ok := c.answers[n-1].message.(*comms.Progress); ok && len(last.Events) == 0 {
			c.answers = c.answers[:n-1]
		}
	}
	c.answers = append(c.answers, answer{m, body})
	c.mu.Unlock()
	c.signal()
}

// again sends every open request to a new incarnation of the peer.
func (cs *requests) again() error {
	cs.mu.Lock()
	var messages []comms.Message
	for _, req := range slices.Sorted(maps.Keys(cs.open)) {
		messages = append(messages, cs.open[req].again)
	}
	cs.mu.Unlock()
	for _, m := range messages {
		if err := cs.send(comms.Encode(m), nil); err != nil {
			return fmt.Errorf("send request again: %w", err)
		}
	}
	return nil
}

// fail ends every open request, and all later ones, with err.
func (cs *requests) fail(err error) {
	cs.mu.Lock()
	cs.closed = err
	open := cs.open
	cs.open = make(map[uint64]*Request)
	cs.mu.Unlock()
	for _, c := range open {
		c.mu.Lock()
		c.err = err
		c.mu.Unlock()
		c.signal()
	}
}
