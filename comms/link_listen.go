package comms

import (
	"container/list"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/cascade-run/cascade/comms/internal/session"
	"github.com/cascade-run/cascade/comms/pki"
	"github.com/cascade-run/cascade/internal/backoff"
)

// Listener accepts links on one or more endpoints. Every connection does its
// handshake in a goroutine of its own, so that a silent one delays no other.
type Listener struct {
	cfg   Config
	doors []door
	work  sync.WaitGroup
	gone  chan struct{}

	mu      sync.Mutex
	pending *list.List // net.Conn with a handshake in progress, oldest first
	links   map[*Link]struct{}
	peers   map[peerKey]*peerLinks
	closed  bool
}

// door is one endpoint that is open.
type door struct {
	scheme string
	net.Listener
}

type peerKey struct{ role, name string }

// peerLinks holds the links with replay of one peer's latest incarnation, and
// of earlier ones until they have ended.
type peerLinks struct {
	incarnation uint64
	bySession   map[uint64]*Link
	claims      int // handshakes in progress: the record stays, or a process that they replace could slip in
}

// Listen opens every endpoint of addr.
func Listen(addr string, cfg Config) (*Listener, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	endpoints, err := ParseAddress(addr)
	if err != nil {
		return nil, fmt.Errorf("listen: %w", err)
	}
	ln := &Listener{cfg: cfg, gone: make(chan struct{}), pending: list.New(), links: map[*Link]struct{}{}, peers: map[peerKey]*peerLinks{}}
	for _, e := range endpoints {
		l, err := listenEndpoint(e, &cfg)
		if err != nil {
			for _, d := range ln.doors {
				err = errors.Join(err, d.Close())
			}
			return nil, err
		}
		ln.doors = append(ln.doors, door{e.Scheme, l})
	}
	for _, d := range ln.doors {
		ln.work.Add(1)
		go ln.accept(d)
	}
	return ln, nil
}

// Addr returns the address under which the listener can be dialed; a TCP port
// that was left to the kernel is filled in.
func (ln *Listener) Addr() string {
	var out []string
	for _, d := range ln.doors {
		out = append(out, Endpoint{d.scheme, d.Listener.Addr().String()}.String())
	}
	return strings.Join(out, ",")
}

// Close stops listening, closes every link in good order, and returns when all
// their goroutines have ended. The error is of endpoints; what links may have lost is
// logged: whoever wants an answer asks again. Do not call it from a handler.
func (ln *Listener) Close() error { return ln.shut((*Link).Close) }

// shut stops listening and ends every link by end.
func (ln *Listener) shut(end func(*Link) error) error {
	ln.mu.Lock()
	if ln.closed {
		ln.mu.Unlock()
		return nil
	}
	ln.closed = true
	close(ln.gone)
	for e := ln.pending.Front(); e != nil; e = e.Next() {
		_ = e.Value.(net.Conn).Close() // the handshake is given up
	}
	var links []*Link
	for l := range ln.links {
		links = append(links, l)
	}
	ln.mu.Unlock()
	var errs []error
	for _, d := range ln.doors {
		errs = append(errs, d.Close())
	}
	var closing sync.WaitGroup
	for _, l := range links {
		closing.Go(func() {
			if err := end(l); err != nil {
				ln.cfg.Log.Warn().Err(err).Msg("a link did not close in good order")
			}
		})
	}
	closing.Wait()
	ln.work.Wait()
	return errors.Join(errs...)
}

func (ln *Listener) accept(d door) {
	defer ln.work.Done()
	pauses := backoff.Backoff{First: 10 * time.Millisecond, Longest: time.Second}
	for {
		c, err := d.Accept()
		if err == nil {
			pauses.Reset()
			ln.admit(c)
			continue
		}
		if errors.Is(err, net.ErrClosed) {
			return
		}
		// Out of descriptors, most likely. Others may give some back.
		pause := pauses.Next()
		ln.cfg.Log.Error().Err(err).Str("endpoint", d.scheme+"://"+d.Listener.Addr().String()).Dur("pause", pause).Msg("accept failed")
		if !backoff.Sleep(pause, ln.gone) {
			return
		}
	}
}

// admit starts a handshake. When too many are in progress the oldest is
// dropped: an honest peer is done in a millisecond, so the oldest is the one
// that says nothing.
func (ln *Listener) admit(c net.Conn) {
	ln.mu.Lock()
	defer ln.mu.Unlock()
	if ln.closed {
		_ = c.Close() // no handler knows of it
		return
	}
	if ln.pending.Len() >= ln.cfg.MaxHandshakes {
		_ = ln.pending.Remove(ln.pending.Front()).(net.Conn).Close() // its goroutine sees the error
	}
	e := ln.pending.PushBack(c)
	ln.work.Go(func() { ln.serve(c, e) })
}

// serve takes one connection from its first byte to its last.
func (ln *Listener) serve(c net.Conn, e *list.Element) {
	c, joins, err := ln.secure(c)
	var w *wire
	var hello session.Envelope
	switch {
	case err != nil:
	case joins:
		ln.join(c, e)
		return
	default:
		ln.mu.Lock()
		e.Value = c // whose end is that of the handshake: its pipes may carry it
		ln.mu.Unlock()
		w, hello, err = ln.handshake(c)
	}
	var l *Link
	var resumed bool
	if err == nil {
		l, resumed, err = ln.claim(hello, w.proven)
	}
	if err == nil {
		if err = ln.welcome(c, l, w, hello, resumed); err != nil {
			if errors.Is(err, session.ErrSequence) { // a retry would fail again
				l.end(fmt.Errorf("%w: %w", ErrClosed, err))
			}
			l.release()
		}
	} else if errors.Is(err, ErrRefused) {
		// The peer learns why, if it still listens; our log has it anyway.
		_ = writeEnvelope(c, &session.Envelope{Kind: session.Refuse, Text: reason(err)})
	}
	ln.mu.Lock()
	ln.pending.Remove(e) // does nothing when it was dropped
	ln.mu.Unlock()
	if err != nil {
		level := zerolog.DebugLevel // a probe of the port, or a peer that left early
		if errors.Is(err, ErrRefused) {
			level = zerolog.WarnLevel
		}
		ln.cfg.Log.WithLevel(level).Err(err).Str("from", c.RemoteAddr().String()).Msg("connection refused")
		_ = c.Close() // the error that counts is logged
		return
	}
	if l.revoked() { // since the handshake, when Recheck could not see it
		l.end(fmt.Errorf("%w: %w", ErrClosed, pki.ErrRevoked))
	}
	if !l.broke(l.carry(w, resumed)) {
		ln.cfg.Log.Debug().Str("peer", hello.Greeting.Name).Msg("link waits for its peer to come back")
	}
	l.release()
}

// reason is what a refused peer is told.
func reason(err error) string {
	text := strings.TrimPrefix(err.Error(), ErrRefused.Error()+": ")
	return text[:min(len(text), 1024)]
}

// handshake reads up to the peer's Hello.
func (ln *Listener) handshake(c net.Conn) (*wire, session.Envelope, error) {
	var none session.Envelope
	if err := CheckUser(c); err != nil {
		return nil, none, err
	}
	if err := c.SetDeadline(time.Now().Add(ln.cfg.HandshakeTimeout)); err != nil {
		return nil, none, err
	}
	if err := openZMTP(c, true); err != nil {
		return nil, none, err
	}
	st, err := streamOf(c)
	if err != nil {
		return nil, none, err
	}
	w := newWire(st)
	hello, err := w.greeting(session.Hello)
	if err != nil {
		return nil, none, fmt.Errorf("wait for Hello: %w", err)
	}
	if w.proven, err = credentialOf(c); err != nil {
		return nil, none, err
	}
	if err := ln.cfg.checkGreeting(hello.Greeting, w.proven); err != nil {
		return nil, none, fmt.Errorf("%w: %w", ErrRefused, err)
	}
	return w, hello, nil
}

// claim finds the link that hello continues, or makes one, and owns it.
func (ln *Listener) claim(hello session.Envelope, proven credential) (l *Link, resumed bool, err error) {
	g := hello.Greeting
	key := proven.key(g)
	ln.mu.Lock()
	p := ln.peers[key]
	if p == nil {
		p = &peerLinks{bySession: map[uint64]*Link{}}
		ln.peers[key] = p
	}
	p.claims++
	ln.mu.Unlock()
	defer func() {
		ln.mu.Lock()
		p.claims--
		ln.forget(key, p)
		ln.mu.Unlock()
	}()
	deadline := time.NewTimer(ln.cfg.HandshakeTimeout)
	defer deadline.Stop()
	for {
		l, resumed, wait, err := ln.find(g, key, p, proven)
		if err != nil || wait == nil {
			return l, resumed, err
		}
		select {
		case <-wait:
		case <-deadline.C:
			return nil, false, fmt.Errorf("the earlier connection of %s %s does not end", g.Role, g.Name)
		}
	}
}

// forget drops the record of a peer that has no link. Called with ln.mu held.
func (ln *Listener) forget(key peerKey, p *peerLinks) {
	if p.claims == 0 && len(p.bySession) == 0 {
		delete(ln.peers, key)
	}
}

// find looks for the link of g. When an earlier connection or incarnation is
// in the way it is ended, and find is to be called again after wait.
func (ln *Listener) find(g *session.Greeting, key peerKey, p *peerLinks, proven credential) (l *Link, resumed bool, wait <-chan struct{}, err error) {
	ln.mu.Lock()
	defer ln.mu.Unlock()
	if ln.closed {
		return nil, false, nil, ErrClosed
	}
	if !ln.cfg.Replay {
		return ln.add(g, key, nil, proven), false, nil, nil
	}
	if g.Incarnation < p.incarnation {
		return nil, false, nil, fmt.Errorf("%w: incarnation %d of %s %s, but %d is known: a newer process has that name",
			ErrRefused, g.Incarnation, g.Role, g.Name, p.incarnation)
	}
	p.incarnation = g.Incarnation
	for _, old := range p.bySession {
		if old.Peer().Incarnation < g.Incarnation {
			go old.end(fmt.Errorf("%w: %w by incarnation %d", ErrClosed, ErrSuperseded, g.Incarnation))
			return nil, false, old.done, nil
		}
	}
	l = p.bySession[g.Session]
	if l == nil {
		return ln.add(g, key, p, proven), false, nil, nil
	}
	if wait := l.own(); wait != nil {
		return nil, false, wait, nil
	}
	return l, true, nil, nil
}

// add makes a link that the caller owns. Called with ln.mu held.
func (ln *Listener) add(g *session.Greeting, key peerKey, p *peerLinks, proven credential) *Link {
	l := newLink(ln.cfg, false, g.Session)
	l.serving = make(chan struct{})
	l.token = rand.Uint64() | 1
	l.peer = identityOf(g, proven)
	ln.links[l] = struct{}{}
	if p != nil {
		p.bySession[g.Session] = l
	}
	l.onEnd = func() {
		ln.mu.Lock()
		defer ln.mu.Unlock()
		delete(ln.links, l)
		if p == nil {
			return
		}
		delete(p.bySession, g.Session)
		ln.forget(key, p)
	}
	return l
}

// own makes the caller the owner of a link that waits for its peer, and
// returns nil. When the link still has an owner, its connection is broken and
// the channel tells when to try again.
func (l *Link) own() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended != nil {
		return l.done
	}
	if l.serving == nil {
		l.serving = make(chan struct{})
		if l.expiry != nil {
			l.expiry.Stop()
		}
		return nil
	}
	if l.wire != nil {
		go l.wire.fail(errors.New("another connection of the same peer took over"))
	}
	return l.serving
}

// release gives up ownership: the link waits for its peer, or ends.
func (l *Link) release() {
	l.mu.Lock()
	if l.ended == nil && l.stats.Connections == 0 {
		l.ended = ErrClosed // its only handshake failed: no handler knows of it
	}
	if l.ended != nil {
		l.mu.Unlock()
		l.conclude()
		return
	}
	close(l.serving)
	l.serving = nil
	l.expiry = time.AfterFunc(l.cfg.ResumeWindow, func() {
		l.end(fmt.Errorf("%w: the peer did not come back within %v", ErrClosed, l.cfg.ResumeWindow))
	})
	l.mu.Unlock()
}

// welcome answers hello and attaches the connection.
func (ln *Listener) welcome(c net.Conn, l *Link, w *wire, hello session.Envelope, resumed bool) error {
	g := ln.cfg.greeting()
	g.Session = hello.Greeting.Session
	g.Resume = l.token
	if hello.Greeting.Resume != l.token {
		// It speaks of a link that we have forgotten, or that our predecessor
		// had. If we know its session all the same, our first Welcome to it was
		// lost, and it has received nothing since.
		hello.Ack = 0
	}
	if err := writeEnvelope(c, &session.Envelope{Kind: session.Welcome, Ack: l.inbox.Last(), Greeting: &g}); err != nil {
		return fmt.Errorf("send Welcome: %w", err)
	}
	if err := c.SetDeadline(time.Time{}); err != nil {
		return err
	}
	w.l = l
	w.calm = hello.Greeting.Role == "client" && slices.Contains(hello.Greeting.Features, FeatureQuiet)
	return l.attach(w, hello.Greeting, resumed, hello.Ack)
}
