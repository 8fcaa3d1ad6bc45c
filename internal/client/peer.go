package client

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/comms/pki"
)

// peer is a link to a controller or agent, with the requests that are open on
// it. The link reconnects when it breaks; when the other side closes it, because
// it starts again or ends, the peer connects anew for a while.
type peer struct {
	requests *requests
	outbox   outbox
	address  string
	role     pki.Role // of who must answer
	name     string   // of who must answer; "" anybody
	opts     Config
	log      zerolog.Logger
	up       bool          // was up before; touched by the links' goroutines only
	credit   chan struct{} // a full queue has room again
	sending  sync.Mutex    // held by who sends, and while there is no link

	life context.Context // ends with Close
	end  context.CancelFunc
	work sync.WaitGroup

	mu   sync.Mutex
	link *comms.Link
	gone *time.Timer // ends a broken link that does not come back; touched by the links' goroutines only
}

// errGone says that a broken link did not come back in time.
var errGone = errors.New("no connection")

func dialPeer(ctx context.Context, address string, role pki.Role, name string, o Config) (*peer, error) {
	p := &peer{requests: newRequests(), address: address, role: role, name: name, opts: o, log: o.Log, credit: make(chan struct{}, 1)}
	p.requests.send = p.send
	p.outbox.peer = p
	p.life, p.end = context.WithCancel(context.Background())
	if err := p.connect(ctx); err != nil {
		p.end()
		return nil, err
	}
	return p, nil
}

// connect makes a link. Nothing is sent meanwhile.
func (p *peer) connect(ctx context.Context) error {
	p.sending.Lock()
	defer p.sending.Unlock()
	now := time.Now().UnixNano()
	link, err := comms.Dial(ctx, p.address, comms.Config{
		Self: comms.Identity{
			Role: "client", Name: fmt.Sprintf("client-%d-%x", os.Getpid(), now),
			Incarnation: uint64(now), PID: os.Getpid(), Build: p.opts.Build, Features: []string{comms.FeatureMany},
		},
		Replay:              true,
		Handler:             p,
		CheckPeer:           p.check,
		Inproc:              p.opts.Inproc,
		Security:            p.opts.security(p.role),
		InsecureTestNetwork: p.opts.Insecure,
		Log:                 p.log,
	})
	if cause := context.Cause(ctx); err != nil && cause != nil && !errors.Is(err, cause) {
		err = fmt.Errorf("%w: %w", cause, err) // the network says of a context only that it is cancelled
	}
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.link = link
	return nil
}

// check refuses another than the one that is wanted: hosts may have sockets of
// different agents at the same path.
func (p *peer) check(who comms.Identity, _ int) error {
	if p.name != "" && (who.Role != string(p.role) || who.Name != p.name) {
		return fmt.Errorf("%s %s answers in place of %s %s", who.Role, who.Name, p.role, p.name)
	}
	return nil
}

func (p *peer) current() *comms.Link {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.link
}

// send waits while the outbound queue is full: a client has nothing better to
// do. A message that a closed link does not take is sent again by the next one, or
// fails with all requests.
func (p *peer) send(head, body []byte) error {
	// One at a time: a credit tells of room once, and wakes one that waits.
	p.sending.Lock()
	defer p.sending.Unlock()
	link := p.current()
	for {
		err := link.Send(head, body)
		switch {
		case errors.Is(err, comms.ErrClosed) && p.life.Err() == nil:
			return nil
		case !errors.Is(err, comms.ErrFull):
			return err
		}
		select {
		case <-p.credit:
		case <-link.Done():
		}
	}
}

// Up is called by the link. Requests that a former incarnation of the peer had not
// answered are sent again.
func (p *peer) Up(_ *comms.Link, who comms.Identity, resumed bool) {
	if p.gone != nil {
		p.gone.Stop()
	}
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
	err := comms.DecodeEach(head, func(m comms.Message) { p.requests.deliver(m, body) })
	var unknown *comms.UnknownTypeError
	switch {
	case err == nil:
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

// Down is called by the link. A broken link connects again by itself; who closed
// it is dialed anew. Both are given up when that takes too long.
func (p *peer) Down(l *comms.Link, err error) {
	if p.gone != nil {
		p.gone.Stop()
	}
	patience := p.opts.Patience
	switch {
	case !errors.Is(err, comms.ErrClosed):
		p.log.Warn().Err(err).Stringer("patience", patience).Msg("link broken, connecting again")
		p.gone = time.AfterFunc(patience, func() {
			l.Abort(fmt.Errorf("%s is gone: %w for %v", l.Peer().Name, errGone, patience))
		})
	case !p.up || p.life.Err() != nil || errors.Is(err, errGone):
		p.requests.fail(fmt.Errorf("%w: %w", ErrUnavailable, err))
	default:
		p.work.Go(func() { p.reconnect(err) })
	}
}

// reconnect connects to who closed the link, or fails all requests when that
// takes too long.
func (p *peer) reconnect(cause error) {
	ctx, cancel := context.WithTimeout(p.life, p.opts.Patience)
	defer cancel()
	for pause := 10 * time.Millisecond; ; pause = min(2*pause, time.Second) {
		err := p.connect(ctx)
		if err == nil {
			return
		}
		p.log.Debug().Err(err).Msg("cannot connect yet")
		wait := time.NewTimer(pause)
		select {
		case <-wait.C:
		case <-ctx.Done():
			wait.Stop()
			p.requests.fail(fmt.Errorf("%w: %w", ErrUnavailable, cause))
			return
		}
	}
}

// Close ends the link and every open request.
func (p *peer) Close() error {
	p.requests.fail(ErrClosed)
	p.end()
	err := p.current().Close()
	p.work.Wait()
	return errors.Join(err, p.current().Close()) // of a link that was made meanwhile
}
