package comms

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"time"

	"github.com/cascade-run/cascade/comms/internal/session"
	"github.com/cascade-run/cascade/internal/backoff"
)

// Dial connects to the nearest endpoint of addr that answers, and returns
// after the first handshake; the handler's Up may come before that or after.
// ctx bounds the first handshake only. Afterwards a link with Replay reconnects by itself until it
// is closed.
func Dial(ctx context.Context, addr string, cfg Config) (*Link, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	endpoints, err := ParseAddress(addr)
	if err != nil {
		return nil, fmt.Errorf("dial: %w", err)
	}
	l := newLink(cfg, true, rand.Uint64()|1)
	l.endpoints = endpoints
	w, resumed, err := l.connect(ctx)
	if err != nil {
		l.cancel()
		return nil, err
	}
	go l.run(w, resumed)
	return l, nil
}

// run owns a dialed link from its first connection to its end.
func (l *Link) run(w *wire, resumed bool) {
	for !l.broke(l.carry(w, resumed)) {
		var err error
		if w, resumed, err = l.redial(); err != nil {
			l.end(fmt.Errorf("%w: %w", ErrClosed, err))
			break
		}
	}
	l.conclude()
}

// redial connects again, with growing and scattered pauses, until it succeeds,
// the link ends, or the peer refuses us.
func (l *Link) redial() (*wire, bool, error) {
	pauses := backoff.Backoff{First: l.cfg.RetryMin, Longest: l.cfg.RetryMax}
	for {
		w, resumed, err := l.connect(l.stop)
		if err == nil || errors.Is(err, ErrRefused) || l.stop.Err() != nil {
			return w, resumed, err
		}
		pause := pauses.Next()
		l.cfg.Log.Debug().Err(err).Dur("pause", pause).Msg("reconnect failed")
		if !backoff.Sleep(pause, l.stop.Done()) {
			return nil, false, l.stop.Err()
		}
	}
}

// connect tries the endpoints from near to far. A peer that answers and
// refuses ends the search.
func (l *Link) connect(ctx context.Context) (*wire, bool, error) {
	var failures []error
	for _, e := range l.endpoints {
		if e.Scheme == "inproc" && len(l.endpoints) > 1 && !l.cfg.Inproc.has(e.Target) {
			continue
		}
		w, resumed, err := l.connectTo(ctx, e)
		if err == nil {
			return w, resumed, nil
		}
		err = fmt.Errorf("link to %s: %w", e, err)
		if errors.Is(err, ErrRefused) {
			return nil, false, err
		}
		failures = append(failures, err)
	}
	if len(failures) == 0 {
		return nil, false, fmt.Errorf("link to %s: no listener in this process", l.endpoints[0])
	}
	return nil, false, errors.Join(failures...)
}

func (l *Link) connectTo(ctx context.Context, e Endpoint) (*wire, bool, error) {
	c, err := dialEndpoint(ctx, e, &l.cfg)
	if err != nil {
		return nil, false, distrust(err)
	}
	hangUp := context.AfterFunc(ctx, func() { _ = c.Close() }) // wakes the handshake, whose error tells
	w, resumed, err := l.greet(c)
	if !hangUp() && err == nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		if cause := context.Cause(ctx); cause != nil {
			err = cause
		}
		_ = c.Close() // the connection is given up, the error that counts is err
		l.detach(w)
		return nil, false, distrust(err)
	}
	return w, resumed, nil
}

// detach takes back a connection that was never carried.
func (l *Link) detach(w *wire) {
	l.mu.Lock()
	if w != nil && l.wire == w {
		w.dead = true
		l.wire = nil
	}
	l.mu.Unlock()
}

// dialEndpoint opens a byte stream to e.
func dialEndpoint(ctx context.Context, e Endpoint, cfg *Config) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, cfg.HandshakeTimeout)
	defer cancel()
	var d net.Dialer
	switch e.Scheme {
	case "inproc":
		if cfg.Inproc == nil {
			return nil, errors.New("Config.Inproc is nil")
		}
		return cfg.Inproc.dial(e.Target)
	case "ipc":
		c, err := d.DialContext(ctx, "unix", e.Target)
		if err != nil {
			return nil, err
		}
		if err := CheckUser(c); err != nil {
			return nil, errors.Join(err, c.Close())
		}
		if u, ok := c.(*net.UnixConn); ok && cfg.Pipes {
			p, err := offerPipes(u)
			if err != nil {
				return nil, errors.Join(err, c.Close())
			}
			return p, nil
		}
		return c, nil
	}
	switch {
	case cfg.Security != nil:
		return cfg.Security.dial(ctx, e.Target)
	case cfg.InsecureTestNetwork:
		return d.DialContext(ctx, "tcp", e.Target)
	}
	return nil, errInsecure(e)
}

// CheckUser requires that the other end of a Unix socket runs as our user; other connections pass.
func CheckUser(c net.Conn) error {
	uid, err := peerUID(c)
	if err != nil {
		return fmt.Errorf("ask for the peer's user: %w", err)
	}
	if uid >= 0 && uid != os.Geteuid() {
		return fmt.Errorf("the peer runs as user %d, we are %d: refused", uid, os.Geteuid())
	}
	return nil
}

// streamOf gives a connection its non-blocking side.
func streamOf(c net.Conn) (stream, error) {
	switch c := c.(type) {
	case stream:
		return c, nil
	case *tls.Conn:
		return newTLSStream(c), nil
	}
	return newSocketStream(c)
}

// greet does the handshake of the dialing side and attaches the connection.
func (l *Link) greet(c net.Conn) (*wire, bool, error) {
	if err := c.SetDeadline(time.Now().Add(l.cfg.HandshakeTimeout)); err != nil {
		return nil, false, err
	}
	if err := openZMTP(c, false); err != nil {
		return nil, false, err
	}
	st, err := streamOf(c)
	if err != nil {
		return nil, false, err
	}
	w := newWire(st)
	w.l = l
	g := l.cfg.greeting()
	g.Session = l.session
	g.Resume = l.token
	if err := writeEnvelope(c, &session.Envelope{Kind: session.Hello, Ack: l.inbox.Last(), Greeting: &g}); err != nil {
		return nil, false, fmt.Errorf("send Hello: %w", err)
	}
	e, err := w.greeting(session.Welcome)
	if err != nil {
		return nil, false, fmt.Errorf("wait for Welcome: %w", err)
	}
	proven, err := credentialOf(c)
	if err != nil {
		return nil, false, err
	}
	if err := l.cfg.checkGreeting(e.Greeting, proven); err != nil {
		return nil, false, fmt.Errorf("%w: %w", ErrRefused, err)
	}
	w.proven = proven
	resumed := l.token != 0 && e.Greeting.Resume == l.token
	if err := c.SetDeadline(time.Time{}); err != nil {
		return nil, false, err
	}
	if err := l.attach(w, e.Greeting, resumed, e.Ack); err != nil {
		if errors.Is(err, session.ErrSequence) { // a retry would fail again
			err = fmt.Errorf("%w: %w", ErrRefused, err)
		}
		return nil, false, err
	}
	l.token = e.Greeting.Resume
	return w, resumed, nil
}

// writeEnvelope writes a message that consists of e alone.
func writeEnvelope(c net.Conn, e *session.Envelope) error {
	p := e.Append(nil)
	if len(p) > session.MaxEnvelope {
		return fmt.Errorf("envelope of %d bytes, the limit is %d", len(p), session.MaxEnvelope)
	}
	_, err := c.Write(append(appendFrameHeader(nil, 0, len(p)), p...))
	return err
}

// greeting reads the peer's first message, which must be of the given kind.
func (w *wire) greeting(want session.Kind) (session.Envelope, error) {
	e, more, err := w.envelope()
	switch {
	case err != nil:
		return e, err
	case e.Kind == session.Refuse:
		return e, fmt.Errorf("%w: %s", ErrRefused, e.Text)
	case e.Kind != want || more:
		return e, fmt.Errorf("%w: envelope of kind %d where %d must come", errFraming, e.Kind, want)
	}
	return e, nil
}
