package cascade

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/cascade-run/cascade/comms"
)

// peer is a link to a controller or agent, with the requests that are open on it.
type peer struct {
	requests *requests
	link     *comms.Link
	log      zerolog.Logger
	up       bool          // was up before; touched by the link's goroutine only
	credit   chan struct{} // a full queue has room again
	sending  sync.Mutex
}

func dialPeer(ctx context.Context, address string, o options) (*peer, error) {
	p := &peer{requests: newRequests(), log: o.log, credit: make(chan struct{}, 1)}
	now := time.Now().UnixNano()
	ready := make(chan struct{})
	p.requests.send = func(head, body []byte) error {
		<-ready
		return p.send(head, body)
	}
	link, err := comms.Dial(ctx, address, comms.Config{
		Self: comms.Identity{
			Role: "client", Name: fmt.Sprintf("client-%d-%x", os.Getpid(), now),
			Incarnation: uint64(now), PID: os.Getpid(), Build: Version(),
		},
		Replay:              true,
		Handler:             p,
		Inproc:              o.inproc,
		InsecureTestNetwork: o.insecure,
		Log:                 o.log,
	})
	if err != nil {
		return nil, err
	}
	p.link = link
	close(ready)
	return p, nil
}

// send waits while the outbound queue is full: a client has nothing better to do.
func (p *peer) send(head, body []byte) error {
	// One at a time: a credit tells of room once, and wakes one that waits.
	p.sending.Lock()
	defer p.sending.Unlock()
	for {
		err := p.link.Send(head, body)
		if !errors.Is(err, comms.ErrFull) {
			return err
		}
		select {
		case <-p.credit:
		case <-p.link.Done():
			return comms.ErrClosed
		}
	}
}

// Up is called by the link. What a former incarnation of the peer had not
// answered is asked again.
func (p *peer) Up(_ *comms.Link, who comms.Identity, resumed bool) {
	if p.up && !resumed {
		p.log.Info().Str("peer", who.Name).Msg("connected to a new incarnation, asking again")
		go func() {
			if err := p.requests.again(); err != nil {
				p.log.Warn().Err(err).Msg("cannot ask again")
			}
		}()
	}
	p.up = true
}

// Message is called by the link.
func (p *peer) Message(l *comms.Link, head, body []byte) {
	m, err := comms.Decode(head)
	var unknown *comms.UnknownTypeError
	switch {
	case err == nil:
		p.requests.deliver(m, body)
	case errors.As(err, &unknown) && unknown.MayIgnore():
	default:
		l.Abort(fmt.Errorf("message from %s: %w", l.Peer().Name, err))
	}
}

// Credit is called by the link.
func (p *peer) Credit(*comms.Link) {
	select {
	case p.credit <- struct{}{}:
	default:
	}
}

// Down is called by the link.
func (p *peer) Down(_ *comms.Link, err error) {
	if errors.Is(err, comms.ErrClosed) {
		p.requests.fail(fmt.Errorf("%w: %w", ErrUnavailable, err))
		return
	}
	p.log.Debug().Err(err).Msg("link broken, connecting again")
}

// Close ends the link and every open request.
func (p *peer) Close() error {
	p.requests.fail(ErrClosed)
	return p.link.Close()
}
