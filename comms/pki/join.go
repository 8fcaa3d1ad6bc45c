package pki

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/vmihailenco/msgpack/v5"
)

// Register is where the cluster keeps tokens and members: a store that commits
// before it answers.
type Register interface {
	// Redeem uses the token once, durably, and returns the role that it grants.
	Redeem(id [8]byte, secret [16]byte, name string, as Bearer) (Role, error)
	// Issued notes a certificate, durably, before its holder gets it.
	Issued(id Identity, cert *x509.Certificate) error
}

// maxJoin bounds the one message in each direction of a join.
const maxJoin = 16 << 10

// joinTimeout bounds a join as a whole, handshake included.
const joinTimeout = 10 * time.Second

// joinRequest and joinAnswer are the two messages of a join: a length of four
// bytes, big-endian, and a msgpack array.
type joinRequest struct {
	ID      []byte
	Secret  []byte
	Name    string
	Request []byte // signing request, DER
	As      Bearer
}

type joinAnswer struct {
	Refusal     string
	Certificate []byte // DER
}

// Join makes the caller a member named name of the cluster that listens at address.
func Join(ctx context.Context, address string, t Token, name string, as Bearer, now func() time.Time) (*Member, error) {
	m, err := join(ctx, address, t, name, as, now)
	if err != nil {
		return nil, fmt.Errorf("join the cluster at %s as %s: %w", address, name, err)
	}
	return m, nil
}

func join(ctx context.Context, address string, t Token, name string, as Bearer, now func() time.Time) (*Member, error) {
	ctx, cancel := context.WithTimeout(ctx, joinTimeout)
	defer cancel()
	var authority *x509.Certificate
	config := &tls.Config{
		MinVersion: tls.VersionTLS13, NextProtos: []string{protocolJoin}, Time: now,
		InsecureSkipVerify: true, // VerifyConnection asks for more than host names say
		VerifyConnection: func(s tls.ConnectionState) (err error) {
			authority, err = proven(s, t.Authority, now)
			return err
		},
	}
	c, err := (&tls.Dialer{Config: config}).DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	if deadline, ok := ctx.Deadline(); ok {
		if err := c.SetDeadline(deadline); err != nil {
			return nil, err
		}
	}
	stop := context.AfterFunc(ctx, func() { c.Close() })
	defer stop()
	r, err := newRequest()
	if err != nil {
		return nil, err
	}
	if err := writeMessage(c, &joinRequest{ID: t.ID[:], Secret: t.Secret[:], Name: name, Request: r.request.Raw, As: as}); err != nil {
		return nil, fmt.Errorf("send the request: %w", err)
	}
	var a joinAnswer
	if err := readMessage(c, &a); err != nil {
		return nil, fmt.Errorf("read the answer: %w", err)
	}
	if a.Refusal != "" {
		return nil, fmt.Errorf("refused: %s", a.Refusal)
	}
	cert, err := x509.ParseCertificate(a.Certificate)
	if err != nil {
		return nil, fmt.Errorf("read the certificate: %w", err)
	}
	m, err := newMember(authority, now)
	if err != nil {
		return nil, err
	}
	if err := m.take(r.key, cert); err != nil {
		return nil, err
	}
	if got := m.Identity().Name; got != name {
		return nil, fmt.Errorf("the certificate is for %s", got)
	}
	return m, nil
}

// proven checks that a server is a controller of the cluster whose authority has
// the fingerprint, and returns the authority's certificate.
func proven(s tls.ConnectionState, want Fingerprint, now func() time.Time) (*x509.Certificate, error) {
	if s.NegotiatedProtocol != protocolJoin || len(s.PeerCertificates) != 2 {
		return nil, errors.New("nobody lets hosts join at this address")
	}
	authority := s.PeerCertificates[1]
	if Fingerprint(sha256.Sum256(authority.Raw)) != want {
		return nil, errors.New("this is not the cluster that the token was made for")
	}
	m, err := newMember(authority, now)
	if err != nil {
		return nil, err
	}
	id, err := m.verify(s.PeerCertificates[0])
	if err != nil {
		return nil, err
	}
	if id.Role != RoleController {
		return nil, fmt.Errorf("%s answers in place of a controller", id)
	}
	return authority, nil
}

// Serve answers one who joins on c, and closes it. It returns who joined, or why
// nobody did: for the audit.
func Serve(c net.Conn, a *Authority, r Register, now func() time.Time) (Identity, error) {
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(joinTimeout)); err != nil {
		return Identity{}, fmt.Errorf("serve a join: %w", err)
	}
	var q joinRequest
	if err := readMessage(c, &q); err != nil {
		return Identity{}, fmt.Errorf("serve a join: read the request: %w", err)
	}
	id, cert, err := admit(&q, a, r, now())
	if err != nil {
		err = fmt.Errorf("refuse %q to join: %w", q.Name, err)
		return id, errors.Join(err, writeMessage(c, &joinAnswer{Refusal: refusal(err)}))
	}
	if err := writeMessage(c, &joinAnswer{Certificate: cert.Raw}); err != nil {
		return id, fmt.Errorf("answer %s: %w", id, err)
	}
	return id, nil
}

// refusal is what a refused one is told: not what our store or disk says.
func refusal(err error) string {
	for _, known := range []error{ErrTokenUnknown, ErrTokenExpired, ErrTokenName, ErrNameTaken, ErrTokenHost, ErrTokenPerson} {
		if errors.Is(err, known) {
			return known.Error()
		}
	}
	return "the request could not be granted; the controller's log says why"
}

func admit(q *joinRequest, a *Authority, r Register, now time.Time) (id Identity, cert *x509.Certificate, err error) {
	request, err := x509.ParseCertificateRequest(q.Request)
	if err == nil {
		err = checkRequest(request)
	}
	if err != nil {
		return id, nil, fmt.Errorf("read the signing request: %w", err)
	}
	if err := (Identity{Cluster: a.cluster, Role: RoleAgent, Name: q.Name}).validate(); err != nil {
		return id, nil, err // before a use of the token is spent
	}
	var tokenID [8]byte
	var secret [16]byte
	if len(q.ID) != len(tokenID) || len(q.Secret) != len(secret) {
		return id, nil, ErrTokenUnknown
	}
	copy(tokenID[:], q.ID)
	copy(secret[:], q.Secret)
	role, err := r.Redeem(tokenID, secret, q.Name, q.As)
	if err != nil {
		return id, nil, err
	}
	id = Identity{Cluster: a.cluster, Role: role, Name: q.Name}
	if cert, err = a.Sign(request, id, now); err == nil {
		err = r.Issued(id, cert)
	}
	return id, cert, err
}

func writeMessage(w io.Writer, m any) error {
	var b bytes.Buffer
	e := msgpack.NewEncoder(&b)
	e.UseArrayEncodedStructs(true)
	if err := e.Encode(m); err != nil {
		return err
	}
	if b.Len() > maxJoin {
		return fmt.Errorf("a message of %d bytes; at most %d are allowed", b.Len(), maxJoin)
	}
	_, err := w.Write(append(binary.BigEndian.AppendUint32(nil, uint32(b.Len())), b.Bytes()...))
	return err
}

func readMessage(r io.Reader, m any) error {
	var size [4]byte
	if _, err := io.ReadFull(r, size[:]); err != nil {
		return err
	}
	n := binary.BigEndian.Uint32(size[:])
	if n > maxJoin {
		return fmt.Errorf("a message of %d bytes; at most %d are allowed", n, maxJoin)
	}
	b := make([]byte, n)
	if _, err := io.ReadFull(r, b); err != nil {
		return err
	}
	return msgpack.Unmarshal(b, m)
}
