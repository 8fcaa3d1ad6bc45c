package pki

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"math/big"
	"net/url"
	"time"
)

// How long certificates last. Those of members are renewed over their links long
// before their end: a host's is short, a person may be on leave for weeks.
const (
	authorityLife = 10 * 365 * 24 * time.Hour
	MemberLife    = 7 * 24 * time.Hour
	ClientLife    = 30 * 24 * time.Hour
	skew          = 5 * time.Minute // a member's clock may be behind the authority's by this
)

// Fingerprint is the SHA-256 sum of an authority's certificate.
type Fingerprint [sha256.Size]byte

// Authority signs the certificates of one cluster.
type Authority struct {
	cluster string
	cert    *x509.Certificate
	key     crypto.Signer
	life    time.Duration // of the certificates of agents and clients; 0: MemberLife and ClientLife
}

// NewAuthority makes the authority of a new cluster.
func NewAuthority(cluster string, now time.Time) (*Authority, error) {
	if err := (Identity{Cluster: cluster, Role: RoleController, Name: "x"}).validate(); err != nil {
		return nil, fmt.Errorf("make a cluster's authority: %w", err)
	}
	key, err := newKey()
	if err != nil {
		return nil, fmt.Errorf("make a cluster's authority: %w", err)
	}
	serial, err := newSerial()
	if err != nil {
		return nil, fmt.Errorf("make a cluster's authority: %w", err)
	}
	template := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: "Cascade cluster " + cluster},
		NotBefore: now.Add(-skew), NotAfter: now.Add(authorityLife),
		IsCA: true, BasicConstraintsValid: true, MaxPathLenZero: true,
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
		URIs:     []*url.URL{{Scheme: scheme, Host: cluster}},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, fmt.Errorf("make a cluster's authority: %w", err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("make a cluster's authority: %w", err)
	}
	return &Authority{cluster: cluster, cert: cert, key: key}, nil
}

// clusterOf returns the name of the cluster of an authority's certificate.
func clusterOf(c *x509.Certificate) (string, error) {
	if !c.IsCA || len(c.URIs) != 1 || c.URIs[0].Scheme != scheme || c.URIs[0].Host == "" {
		return "", errors.New("the certificate is not that of a Cascade cluster's authority")
	}
	return c.URIs[0].Host, nil
}

// newKey makes an ECDSA key on P-256: small, quick to sign with, and known to every tool.
func newKey() (*ecdsa.PrivateKey, error) { return ecdsa.GenerateKey(elliptic.P256(), rand.Reader) }

// newSerial returns a positive number of at most 127 random bits (RFC 5280, 4.1.2.2).
func newSerial() (*big.Int, error) {
	return rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
}

// Cluster returns the cluster's name.
func (a *Authority) Cluster() string { return a.cluster }

// SetLife changes how long the certificates of agents and clients last that are
// signed from now on; 0 means the default. It must not be called beside Sign.
func (a *Authority) SetLife(d time.Duration) { a.life = d }

// lifeOf returns how long a certificate of the role lasts.
func (a *Authority) lifeOf(r Role) time.Duration {
	switch {
	case r == RoleController:
		return MemberLife // it signs its own
	case a.life > 0:
		return a.life
	case r.Client():
		return ClientLife
	}
	return MemberLife
}

// Certificate returns the authority's own certificate.
func (a *Authority) Certificate() *x509.Certificate { return a.cert }

// Fingerprint returns the sum of the authority's certificate.
func (a *Authority) Fingerprint() Fingerprint { return sha256.Sum256(a.cert.Raw) }

// Sign gives the holder of a signing request a certificate for the identity. Nothing
// else that the request asks for is granted.
func (a *Authority) Sign(request *x509.CertificateRequest, id Identity, now time.Time) (*x509.Certificate, error) {
	if id.Cluster != a.cluster {
		return nil, fmt.Errorf("sign for %s: this is the authority of cluster %s", id, a.cluster)
	}
	if err := id.validate(); err != nil {
		return nil, fmt.Errorf("sign for %s: %w", id, err)
	}
	if err := checkRequest(request); err != nil {
		return nil, fmt.Errorf("sign for %s: %w", id, err)
	}
	serial, err := newSerial()
	if err != nil {
		return nil, fmt.Errorf("sign for %s: %w", id, err)
	}
	template := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: string(id.Role) + " " + id.Name},
		NotBefore: now.Add(-skew), NotAfter: earlier(now.Add(a.lifeOf(id.Role)), a.cert.NotAfter),
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
		URIs:        []*url.URL{id.uri()},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, request.PublicKey, a.key)
	if err != nil {
		return nil, fmt.Errorf("sign for %s: %w", id, err)
	}
	return x509.ParseCertificate(der)
}

// checkRequest tells what is wrong with a signing request.
func checkRequest(r *x509.CertificateRequest) error {
	if _, ok := r.PublicKey.(*ecdsa.PublicKey); !ok { // first: a large key of another kind costs much to check
		return fmt.Errorf("a key of type %T; want ECDSA", r.PublicKey)
	}
	if err := r.CheckSignature(); err != nil {
		return fmt.Errorf("the request is not signed by its own key: %w", err)
	}
	return nil
}

// earlier returns the earlier of two times.
func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}
