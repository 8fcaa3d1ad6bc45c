package pki

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"time"
)

// Register is where the cluster keeps tokens and members: a store that commits
// before it answers.
type Register interface {
	// Redeem uses the token once, durably, and returns the role that it grants.
	Redeem(id [8]byte, secret [16]byte, name string, as Bearer) (Role, error)
	// Issued notes a certificate, durably, before its holder gets it.
	Issued(id Identity, cert *x509.Certificate) error
}

// Application is what a program sends to become a member.
type Application struct {
	TokenID []byte // of the token, 8 bytes
	Secret  []byte // of the token, 16 bytes
	Name    string // of the member to be
	Request []byte // signing request of its key, DER
	Bearer  Bearer // what shows the token
}

// Applicant is a program that applies for membership over a connection to a
// controller that has proven itself.
type Applicant struct {
	Conn        net.Conn    // its TLS handshake is done
	Application Application // to be sent
	name        string
	key         request
	member      *Member // without a certificate yet
}

// Apply connects to the controller at address and proves that it belongs to the
// cluster of the token. The caller sends Application, gives the certificate of the
// answer to Admitted, and closes Conn.
func Apply(ctx context.Context, address string, t Token, name string, as Bearer, now func() time.Time) (*Applicant, error) {
	a := &Applicant{name: name}
	config := &tls.Config{
		MinVersion: tls.VersionTLS13, NextProtos: []string{protocolJoin}, Time: now,
		InsecureSkipVerify: true, // VerifyConnection asks for more than host names say
		VerifyConnection: func(s tls.ConnectionState) (err error) {
			a.member, err = proven(s, t.Authority, now)
			return err
		},
	}
	var err error
	if a.key, err = newRequest(); err != nil {
		return nil, err
	}
	if a.Conn, err = (&tls.Dialer{Config: config}).DialContext(ctx, "tcp", address); err != nil {
		return nil, err
	}
	a.Application = Application{TokenID: t.ID[:], Secret: t.Secret[:], Name: name, Request: a.key.request.Raw, Bearer: as}
	return a, nil
}

// Admitted makes the applicant a member by the certificate, DER, that the
// controller has issued.
func (a *Applicant) Admitted(certificate []byte) (*Member, error) {
	cert, err := x509.ParseCertificate(certificate)
	if err != nil {
		return nil, fmt.Errorf("read the certificate: %w", err)
	}
	if err := a.member.take(a.key.key, cert); err != nil {
		return nil, err
	}
	if got := a.member.Identity().Name; got != a.name {
		return nil, fmt.Errorf("the certificate is for %s", got)
	}
	return a.member, nil
}

// proven checks that a server is a controller of the cluster whose authority has
// the fingerprint. The member trusts that authority.
func proven(s tls.ConnectionState, want Fingerprint, now func() time.Time) (*Member, error) {
	if !Joins(s) || len(s.PeerCertificates) != 2 {
		return nil, errors.New("the endpoint does not accept join requests")
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
	return m, nil
}

// Admit redeems the token of an application and issues a certificate, DER. The
// identity is that of the new member, as far as it is known when there is an error.
func Admit(q *Application, a *Authority, r Register, now time.Time) (id Identity, certificate []byte, err error) {
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
	if len(q.TokenID) != len(tokenID) || len(q.Secret) != len(secret) {
		return id, nil, ErrTokenUnknown
	}
	copy(tokenID[:], q.TokenID)
	copy(secret[:], q.Secret)
	role, err := r.Redeem(tokenID, secret, q.Name, q.Bearer)
	if err != nil {
		return id, nil, err
	}
	id = Identity{Cluster: a.cluster, Role: role, Name: q.Name}
	cert, err := a.Sign(request, id, now)
	if err != nil {
		return id, nil, err
	}
	return id, cert.Raw, r.Issued(id, cert)
}

// RefusalOf is what an applicant may learn of the error of Admit: nothing that the
// controller's store or disk says.
func RefusalOf(err error) string {
	for _, known := range []error{ErrTokenUnknown, ErrTokenExpired, ErrTokenName, ErrNameTaken, ErrTokenHost, ErrTokenPerson} {
		if errors.Is(err, known) {
			return known.Error()
		}
	}
	return "the request could not be granted; the controller's log says why"
}
