package pki

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"slices"
	"time"
)

// The protocols that a TLS handshake agrees on (ALPN).
const (
	protocolLink = "cascade-link/1"
	protocolJoin = "cascade-join/2"
)

// Revoked tells whether a certificate, by its serial number in hexadecimal, is
// revoked. It is asked in every handshake and must not wait.
type Revoked func(serial string) bool

// ErrRevoked says that a peer's certificate was revoked.
var ErrRevoked = errors.New("the certificate was revoked")

// verifyPeer returns the identity of the other side of a handshake.
func (m *Member) verifyPeer(s tls.ConnectionState, revoked Revoked) (Identity, error) {
	if len(s.PeerCertificates) == 0 {
		return Identity{}, errors.New("the peer has no certificate of the cluster; it has to join with a token first")
	}
	cert := s.PeerCertificates[0]
	if revoked != nil && revoked(Serial(cert)) {
		return Identity{}, ErrRevoked
	}
	return m.verify(cert)
}

func (m *Member) config() *tls.Config {
	return &tls.Config{
		MinVersion:             tls.VersionTLS13,
		SessionTicketsDisabled: true, // a resumed session would skip the look at the revoked
		Time:                   m.now,
	}
}

// ServerConfig returns the configuration of a listener: it proves m and asks every
// peer for a certificate of the cluster that is not revoked. With join it also
// talks to those that have none, which only Serve does.
func (m *Member) ServerConfig(revoked Revoked, join bool) *tls.Config {
	c := m.config()
	c.NextProtos = []string{protocolLink}
	c.ClientAuth = tls.RequireAnyClientCert
	c.GetCertificate = func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return m.certificate(), nil }
	c.VerifyConnection = func(s tls.ConnectionState) error {
		if s.NegotiatedProtocol != protocolLink {
			return fmt.Errorf("the peer does not speak %s", protocolLink)
		}
		_, err := m.verifyPeer(s, revoked)
		return err
	}
	if !join {
		return c
	}
	open := m.config()
	open.NextProtos = []string{protocolJoin}
	open.GetCertificate = func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
		cert := m.certificate()
		cert.Certificate = append(cert.Certificate, m.authority.Raw) // who joins knows its sum only
		return cert, nil
	}
	c.GetConfigForClient = func(h *tls.ClientHelloInfo) (*tls.Config, error) {
		if slices.Contains(h.SupportedProtos, protocolJoin) {
			return open, nil
		}
		return nil, nil
	}
	return c
}

// ClientConfig returns the configuration of a dialer that expects a peer of one of
// the roles.
func (m *Member) ClientConfig(revoked Revoked, want ...Role) *tls.Config {
	c := m.config()
	c.NextProtos = []string{protocolLink}
	// No host names: VerifyConnection checks the chain, the cluster and the role.
	c.InsecureSkipVerify = true
	c.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return m.certificate(), nil }
	c.VerifyConnection = func(s tls.ConnectionState) error {
		if s.NegotiatedProtocol != protocolLink {
			return fmt.Errorf("the peer does not speak %s", protocolLink)
		}
		id, err := m.verifyPeer(s, revoked)
		if err == nil && !slices.Contains(want, id.Role) {
			err = fmt.Errorf("%s answers where one of %v is expected", id, want)
		}
		if err != nil {
			err = fmt.Errorf("%w: %w", ErrStranger, err)
		}
		return err
	}
	return c
}

// Joins tells whether a connection, its handshake done, is that of one who joins.
func Joins(s tls.ConnectionState) bool { return s.NegotiatedProtocol == protocolJoin }

// Peer is what a connection's certificate says of who is at its other end.
type Peer struct {
	Identity
	Serial  string    // of the certificate, in hexadecimal
	Expires time.Time // end of the certificate
}

// PeerOf returns who is at the other end of a link's connection, its handshake done.
func PeerOf(c net.Conn) (Peer, error) {
	t, ok := c.(*tls.Conn)
	if !ok {
		return Peer{}, errors.New("the connection is not TLS")
	}
	s := t.ConnectionState()
	if !s.HandshakeComplete || s.NegotiatedProtocol != protocolLink || len(s.PeerCertificates) == 0 {
		return Peer{}, errors.New("the connection proves no identity")
	}
	cert := s.PeerCertificates[0]
	id, err := identityOf(cert)
	return Peer{id, Serial(cert), cert.NotAfter}, err
}

// Serial returns a certificate's serial number as Revoked is asked for it.
func Serial(cert *x509.Certificate) string { return cert.SerialNumber.Text(16) }

// ErrStranger says that the peer is not one that the dialer may talk to.
var ErrStranger = errors.New("the peer's certificate is not accepted")

// ErrNotAccepted says that the other side of a handshake did not accept our certificate.
var ErrNotAccepted = errors.New("our certificate is not accepted: it was revoked, has expired, or is another cluster's; join again with a new token")

// Refusal turns what a TLS connection says when its peer did not accept our
// certificate into ErrNotAccepted, and leaves other errors as they are. TLS tells
// no more than that.
func Refusal(err error) error {
	var alert *net.OpError
	if !errors.As(err, &alert) || alert.Op != "remote error" {
		return err
	}
	switch alert.Err.Error() {
	case "tls: bad certificate", "tls: expired certificate", "tls: revoked certificate", "tls: unknown certificate authority":
		return fmt.Errorf("%w (%w)", ErrNotAccepted, err)
	}
	return err
}
