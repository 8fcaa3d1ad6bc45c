package comms

import (
	"container/list"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/cascade-run/cascade/comms/internal/session"
	"github.com/cascade-run/cascade/comms/pki"
)

// Security says how TCP links prove who is at their ends.
type Security struct {
	Member  *pki.Member // who we are
	Revoked pki.Revoked // asked in every handshake; nil: no certificate is revoked
	Expect  []pki.Role  // whom the dialing side accepts
	// Join answers a connection, its handshake done, of one who wants to become a
	// member; it closes it. Nil refuses them. It runs in a goroutine of its own.
	Join func(net.Conn)
}

// ErrNotProven says that a peer claims an identity that its certificate does not name.
var ErrNotProven = errors.New("the certificate does not prove it")

// dial opens a TLS connection and does its handshake.
func (s *Security) dial(ctx context.Context, target string) (net.Conn, error) {
	d := tls.Dialer{Config: s.Member.ClientConfig(s.Revoked, s.Expect...)}
	return d.DialContext(ctx, "tcp", target)
}

// distrust makes a refusal of an error that says that one side does not believe
// the other's certificate: a retry would fail again.
func distrust(err error) error {
	if err = pki.Refusal(err); errors.Is(err, pki.ErrStranger) || errors.Is(err, pki.ErrNotAccepted) {
		return fmt.Errorf("%w: %w", ErrRefused, err)
	}
	return err
}

// secure does the TLS handshake of an accepted TCP connection, if there is one to
// be done. joins is set for one who is no member yet.
func (ln *Listener) secure(c net.Conn) (secured net.Conn, joins bool, err error) {
	if u, ok := c.(*net.UnixConn); ok && ln.cfg.Pipes {
		if secured, err = ln.pipes(u); err != nil {
			return c, false, err
		}
		return secured, false, nil
	}
	if _, tcp := c.(*net.TCPConn); !tcp || ln.cfg.Security == nil {
		return c, false, nil
	}
	if err := c.SetDeadline(time.Now().Add(ln.cfg.HandshakeTimeout)); err != nil {
		return c, false, err
	}
	s := ln.cfg.Security
	t := tls.Server(c, s.Member.ServerConfig(s.Revoked, s.Join != nil))
	if err := t.Handshake(); err != nil {
		return c, false, fmt.Errorf("TLS handshake: %w", err)
	}
	return t, pki.Joins(t.ConnectionState()), nil
}

// pipes lets a peer of a Unix socket, who must be of our user, bring pipes.
func (ln *Listener) pipes(c *net.UnixConn) (net.Conn, error) {
	if err := CheckUser(c); err != nil {
		return nil, err
	}
	if err := c.SetDeadline(time.Now().Add(ln.cfg.HandshakeTimeout)); err != nil {
		return nil, err
	}
	return takePipes(c)
}

// join hands over a connection that is no link. It keeps its place among the
// handshakes, so that many who join slowly are as few as many who greet slowly.
func (ln *Listener) join(c net.Conn, e *list.Element) {
	ln.cfg.Security.Join(c)
	ln.mu.Lock()
	ln.pending.Remove(e)
	ln.mu.Unlock()
}

// Recheck ends the links whose certificates are revoked by now, and breaks the
// connections whose certificates have expired: the peer may come back with a
// newer one, and the link goes on.
func (ln *Listener) Recheck(now time.Time) {
	if ln.cfg.Security == nil {
		return
	}
	ln.mu.Lock()
	defer ln.mu.Unlock()
	for l := range ln.links {
		l.Recheck(now)
	}
}

// Recheck does for one link what Listener.Recheck does for all that came in: who
// dialed a peer looks at its certificate so.
func (l *Link) Recheck(now time.Time) {
	switch w := l.current(); {
	case w == nil || w.proven.serial == "": // a broken link proves itself anew
	case l.revoked():
		go l.end(fmt.Errorf("%w: %w", ErrClosed, pki.ErrRevoked))
	case now.After(w.proven.expires):
		go w.fail(errExpired)
	}
}

// Serials returns the serial numbers of the certificates of those who have a link now.
func (ln *Listener) Serials() map[string]bool {
	ln.mu.Lock()
	defer ln.mu.Unlock()
	out := map[string]bool{}
	for l := range ln.links {
		if w := l.current(); w != nil && w.proven.serial != "" {
			out[w.proven.serial] = true
		}
	}
	return out
}

// errExpired breaks a connection whose certificate has ended.
var errExpired = errors.New("the certificate of the connection has expired")

// revoked tells whether the certificate of the link's connection is revoked by now.
func (l *Link) revoked() bool {
	s := l.cfg.Security
	if s == nil || s.Revoked == nil {
		return false
	}
	w := l.current()
	return w != nil && w.proven.serial != "" && s.Revoked(w.proven.serial)
}

// current returns the connection of a link, nil while it is broken.
func (l *Link) current() *wire {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.wire
}

// Credential returns the serial number and the end of the certificate that proves
// the link's peer at present; "" when it is broken or has none.
func (l *Link) Credential() (serial string, expires time.Time) {
	if w := l.current(); w != nil {
		return w.proven.serial, w.proven.expires
	}
	return "", time.Time{}
}

// credential is what a connection's transport proves of the peer.
type credential struct {
	uid     int       // of the process at the other end of a Unix socket, else -1
	role    pki.Role  // what the peer may do
	name    string    // of its certificate; "" without one
	serial  string    // of its certificate; "" without one
	expires time.Time // end of its certificate
}

// credentialOf asks the transport of a connection whose handshake is done.
func credentialOf(c net.Conn) (credential, error) {
	if t, ok := c.(*tls.Conn); ok {
		p, err := pki.PeerOf(t)
		return credential{uid: -1, role: p.Role, name: p.Name, serial: p.Serial, expires: p.Expires}, err
	}
	uid, err := peerUID(c)
	if err != nil {
		return credential{}, fmt.Errorf("ask for the peer's user: %w", err)
	}
	return credential{uid: uid, role: pki.RoleAdmin}, nil // our user, our process, or a test network
}

// vouches tells whether a peer may call itself what it does.
func (p credential) vouches(g *session.Greeting) error {
	if p.serial == "" {
		return nil
	}
	switch {
	case p.role.Client() && g.Role == "client":
		return nil // a person may run many clients; their names say no more than that
	case string(p.role) == g.Role && p.name == g.Name:
		return nil
	}
	return fmt.Errorf("the peer calls itself %s %s, its certificate is for %s %s: %w", g.Role, g.Name, p.role, p.name, ErrNotProven)
}

// key says whose links a greeting may continue or replace: a client's only those
// of the same role and name in the certificate.
func (p credential) key(g *session.Greeting) peerKey {
	if p.serial != "" && p.role.Client() {
		return peerKey{g.Role, string(p.role) + "/" + p.name + "/" + g.Name}
	}
	return peerKey{g.Role, g.Name}
}

// tlsStream is a TLS connection. TLS cannot write without waiting, so that the
// writer goroutine does all of it.
type tlsStream struct {
	*tls.Conn
	record []byte // small segments are gathered to one TLS record
}

// recordSize is the most that one record of TLS carries (RFC 8446, 5.1).
const recordSize = 16 << 10

func newTLSStream(c *tls.Conn) *tlsStream { return &tlsStream{Conn: c} }

func (s *tlsStream) writeVec(vec [][]byte, wait bool) (n int, err error) {
	if !wait {
		return 0, nil
	}
	for len(vec) > 0 {
		chunk := vec[0]
		if len(chunk) < recordSize && len(vec) > 1 {
			chunk = s.gather(vec)
		}
		m, err := s.Write(chunk)
		n += m
		vec = advance(vec, m)
		if err != nil {
			return n, err
		}
	}
	return n, nil
}

// gather copies the first segments, up to a record, into one.
func (s *tlsStream) gather(vec [][]byte) []byte {
	s.record = s.record[:0]
	for _, b := range vec {
		room := recordSize - len(s.record)
		s.record = append(s.record, b[:min(room, len(b))]...)
		if len(b) >= room {
			break
		}
	}
	return s.record
}
