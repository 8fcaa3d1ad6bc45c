package pki

import (
	"crypto/ecdsa"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"sync/atomic"
	"time"
)

// Member is a program's own credential: its key, its certificate, and the
// authority that it trusts. Links look at it for every handshake, so that a
// renewed certificate serves the next one. Methods may be called at any time.
type Member struct {
	authority *x509.Certificate
	pool      *x509.CertPool
	cluster   string
	now       func() time.Time
	held      atomic.Pointer[held]
}

// held is a key with its certificate.
type held struct {
	key  *ecdsa.PrivateKey
	cert *x509.Certificate
	id   Identity
}

// newMember makes a member that has no certificate yet.
func newMember(authority *x509.Certificate, now func() time.Time) (*Member, error) {
	cluster, err := clusterOf(authority)
	if err != nil {
		return nil, err
	}
	m := &Member{authority: authority, pool: x509.NewCertPool(), cluster: cluster, now: now}
	m.pool.AddCert(authority)
	return m, nil
}

// Enrol makes a member by the authority itself, such as the controller beside it.
func (a *Authority) Enrol(role Role, name string, now func() time.Time) (*Member, error) {
	m, err := newMember(a.cert, now)
	if err != nil {
		return nil, err
	}
	r, err := newRequest()
	if err != nil {
		return nil, err
	}
	cert, err := a.Sign(r.request, Identity{a.cluster, role, name}, now())
	if err != nil {
		return nil, err
	}
	return m, m.take(r.key, cert)
}

// request is a new key with its signing request.
type request struct {
	key     *ecdsa.PrivateKey
	request *x509.CertificateRequest
}

func newRequest() (request, error) {
	key, err := newKey()
	if err != nil {
		return request{}, fmt.Errorf("make a key: %w", err)
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, key)
	if err != nil {
		return request{}, fmt.Errorf("make a signing request: %w", err)
	}
	r, err := x509.ParseCertificateRequest(der)
	if err != nil {
		return request{}, fmt.Errorf("make a signing request: %w", err)
	}
	return request{key, r}, nil
}

// take makes cert the member's certificate, if it belongs to key and to the cluster.
func (m *Member) take(key *ecdsa.PrivateKey, cert *x509.Certificate) error {
	id, err := m.verify(cert)
	if err != nil {
		return fmt.Errorf("take a certificate: %w", err)
	}
	public, ok := cert.PublicKey.(*ecdsa.PublicKey)
	if !ok || !public.Equal(&key.PublicKey) {
		return errors.New("take a certificate: it belongs to another key")
	}
	m.held.Store(&held{key: key, cert: cert, id: id})
	return nil
}

// verify returns the identity that a certificate proves.
func (m *Member) verify(cert *x509.Certificate) (Identity, error) {
	now := m.now()
	_, err := cert.Verify(x509.VerifyOptions{Roots: m.pool, CurrentTime: now, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny}})
	var invalid x509.CertificateInvalidError
	var unknown x509.UnknownAuthorityError
	switch {
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired && now.After(cert.NotAfter):
		return Identity{}, fmt.Errorf("the certificate expired on %s; join again with a new token: %w", cert.NotAfter.Format(time.RFC3339), err)
	case errors.As(err, &unknown):
		return Identity{}, fmt.Errorf("the certificate was signed by another cluster's authority: %w", err)
	case err != nil:
		return Identity{}, fmt.Errorf("verify the certificate: %w", err)
	}
	id, err := identityOf(cert)
	if err != nil {
		return id, err
	}
	if id.Cluster != m.cluster {
		return id, fmt.Errorf("the certificate is that of %s, this is cluster %s", id, m.cluster)
	}
	return id, nil
}

// Identity returns who the member is.
func (m *Member) Identity() Identity { return m.held.Load().id }

// Expires returns when the member's certificate ends.
func (m *Member) Expires() time.Time { return m.held.Load().cert.NotAfter }

// RenewAt returns when the certificate is to be renewed: after two thirds of its life.
func (m *Member) RenewAt() time.Time {
	c := m.held.Load().cert
	issued := c.NotBefore.Add(skew)
	return issued.Add(c.NotAfter.Sub(issued) * 2 / 3)
}

// Serial returns the serial number of the member's certificate, in hexadecimal.
func (m *Member) Serial() string { return Serial(m.held.Load().cert) }

// Authority returns the sum of the certificate of the authority that the member trusts.
func (m *Member) Authority() Fingerprint { return sha256.Sum256(m.authority.Raw) }

// Renewal is a renewal under way: a new key whose request is at the authority.
type Renewal struct {
	m *Member
	r request
}

// BeginRenewal makes a new key.
func (m *Member) BeginRenewal() (*Renewal, error) {
	r, err := newRequest()
	if err != nil {
		return nil, fmt.Errorf("renew a certificate: %w", err)
	}
	return &Renewal{m, r}, nil
}

// Request returns what the authority is to sign, in DER.
func (r *Renewal) Request() []byte { return r.r.request.Raw }

// Finish takes the authority's answer, in DER. The identity must be what it was.
func (r *Renewal) Finish(der []byte) error {
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return fmt.Errorf("renew a certificate: %w", err)
	}
	was := r.m.Identity()
	id, err := r.m.verify(cert)
	if err != nil {
		return fmt.Errorf("renew a certificate: %w", err)
	}
	if id != was {
		return fmt.Errorf("renew the certificate of %s: the answer is for %s", was, id)
	}
	return r.m.take(r.r.key, cert)
}

// Renew signs a new certificate for a peer whose present one was verified.
func (a *Authority) Renew(der []byte, id Identity, now time.Time) ([]byte, error) {
	req, err := x509.ParseCertificateRequest(der)
	if err != nil {
		return nil, fmt.Errorf("renew for %s: %w", id, err)
	}
	cert, err := a.Sign(req, id, now)
	if err != nil {
		return nil, err
	}
	return cert.Raw, nil
}

// certificate is what TLS shows to peers.
func (m *Member) certificate() *tls.Certificate {
	h := m.held.Load()
	return &tls.Certificate{Certificate: [][]byte{h.cert.Raw}, PrivateKey: h.key, Leaf: h.cert}
}
