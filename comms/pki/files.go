package pki

import (
	"context"
	"crypto/ecdsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/cascade-run/cascade/internal/outfile"
	"github.com/cascade-run/cascade/internal/safedir"
)

// The files of a credential folder.
const (
	fileAuthority    = "ca.crt"
	fileAuthorityKey = "ca.key"
	fileMember       = "member.pem" // key and certificate together: replaced as one
	fileToken        = "token"      // identifier of the token that the certificate was got with
)

// Save writes the authority into dir, which gets mode 0700. An authority that is
// there already is not replaced.
func (a *Authority) Save(dir string) error {
	key, err := x509.MarshalPKCS8PrivateKey(a.key)
	if err != nil {
		return fmt.Errorf("save the authority: %w", err)
	}
	if err := safedir.Private(dir); err != nil {
		return fmt.Errorf("save the authority: %w", err)
	}
	if _, err := os.Lstat(filepath.Join(dir, fileAuthorityKey)); err == nil {
		return fmt.Errorf("save the authority: %s has one already, whose members would be lost", dir)
	}
	err = write(filepath.Join(dir, fileAuthority), block("CERTIFICATE", a.cert.Raw))
	if err == nil { // the key last: where it is, the authority is whole
		err = write(filepath.Join(dir, fileAuthorityKey), block("PRIVATE KEY", key))
	}
	if err != nil {
		return fmt.Errorf("save the authority: %w", err)
	}
	return nil
}

// LoadAuthority reads what Save wrote. The error matches fs.ErrNotExist when there is none.
func LoadAuthority(dir string) (*Authority, error) {
	cert, err := readCertificate(filepath.Join(dir, fileAuthority))
	if err != nil {
		return nil, fmt.Errorf("load the authority: %w", err)
	}
	b, err := readBlocks(filepath.Join(dir, fileAuthorityKey), "PRIVATE KEY")
	if err != nil {
		return nil, fmt.Errorf("load the authority: %w", err)
	}
	key, err := parseKey(b[0])
	if err != nil {
		return nil, fmt.Errorf("load the authority: %w", err)
	}
	cluster, err := clusterOf(cert)
	if err != nil {
		return nil, fmt.Errorf("load the authority: %w", err)
	}
	if public, ok := cert.PublicKey.(*ecdsa.PublicKey); !ok || !public.Equal(&key.PublicKey) {
		return nil, fmt.Errorf("load the authority: key and certificate in %s do not belong together", dir)
	}
	return &Authority{cluster: cluster, cert: cert, key: key}, nil
}

// Save writes the member into dir, which gets mode 0700, and replaces an older one.
func (m *Member) Save(dir string) error {
	h := m.held.Load()
	key, err := x509.MarshalPKCS8PrivateKey(h.key)
	if err != nil {
		return fmt.Errorf("save the certificate: %w", err)
	}
	if err := safedir.Private(dir); err != nil {
		return fmt.Errorf("save the certificate: %w", err)
	}
	err = errors.Join(
		write(filepath.Join(dir, fileAuthority), block("CERTIFICATE", m.authority.Raw)),
		write(filepath.Join(dir, fileMember), append(block("PRIVATE KEY", key), block("CERTIFICATE", h.cert.Raw)...)))
	if err != nil {
		return fmt.Errorf("save the certificate of %s: %w", h.id, err)
	}
	return nil
}

// LoadMember reads what Save wrote. The error matches fs.ErrNotExist when there is none.
func LoadMember(dir string, now func() time.Time) (*Member, error) {
	m, err := loadMember(dir, now)
	if err != nil {
		return nil, fmt.Errorf("load the certificate in %s: %w", dir, err)
	}
	return m, nil
}

// Joiner makes a program a member of the cluster at address; it is comms.JoinCluster.
type Joiner func(ctx context.Context, address string, t Token, name string, as Bearer, now func() time.Time) (*Member, error)

// ErrTokenNeeded is the error of Enter without a token where there is no certificate.
var ErrTokenNeeded = errors.New("a token is needed")

// Enter returns the member whose certificate is in dir. With a token that was not
// used there before it first joins the cluster at address, and replaces what is in
// dir: the same command line serves for the first start and for every later one.
func Enter(ctx context.Context, join Joiner, dir, address, token, name string, now func() time.Time) (*Member, error) {
	held, err := LoadMember(dir, now)
	if token == "" {
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil, fmt.Errorf("there is no certificate in %s: %w to join the cluster at %s; cascade cluster token, where the controller runs, makes one", dir, ErrTokenNeeded, address)
		case err == nil && held.Identity().Name != name:
			return nil, fmt.Errorf("the certificate in %s is for %s, not for %s: %w to join under that name; cascade cluster token --name %s, where the controller runs, makes one", dir, held.Identity(), name, ErrTokenNeeded, name)
		}
		return held, err
	}
	t, err := ParseToken(token)
	if err != nil {
		return nil, fmt.Errorf("read the token: %w", err)
	}
	used, err := os.ReadFile(filepath.Join(dir, fileToken))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if held != nil && held.Identity().Name == name && string(used) == t.id() {
		return held, nil
	}
	m, err := join(ctx, address, t, name, Host, now)
	if err != nil {
		return nil, err
	}
	if err := m.Save(dir); err != nil {
		return nil, err
	}
	return m, write(filepath.Join(dir, fileToken), []byte(t.id()))
}

func loadMember(dir string, now func() time.Time) (*Member, error) {
	authority, err := readCertificate(filepath.Join(dir, fileAuthority))
	if err != nil {
		return nil, err
	}
	b, err := readBlocks(filepath.Join(dir, fileMember), "PRIVATE KEY", "CERTIFICATE")
	if err != nil {
		return nil, err
	}
	key, err := parseKey(b[0])
	if err != nil {
		return nil, err
	}
	cert, err := x509.ParseCertificate(b[1])
	if err != nil {
		return nil, err
	}
	m, err := newMember(authority, now)
	if err != nil {
		return nil, err
	}
	return m, m.take(key, cert)
}

func block(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}

// write replaces a file as a whole, durably.
func write(path string, content []byte) error { return outfile.Replace(path, content, 0o600) }

func readCertificate(path string) (*x509.Certificate, error) {
	b, err := readBlocks(path, "CERTIFICATE")
	if err != nil {
		return nil, err
	}
	return x509.ParseCertificate(b[0])
}

// readBlocks reads a file that holds PEM blocks of just these kinds.
func readBlocks(path string, kinds ...string) ([][]byte, error) {
	rest, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var out [][]byte
	for _, kind := range kinds {
		var b *pem.Block
		if b, rest = pem.Decode(rest); b == nil || b.Type != kind {
			return nil, fmt.Errorf("%s: want the PEM blocks %q", path, kinds)
		}
		out = append(out, b.Bytes)
	}
	return out, nil
}

func parseKey(der []byte) (*ecdsa.PrivateKey, error) {
	k, err := x509.ParsePKCS8PrivateKey(der)
	if err != nil {
		return nil, err
	}
	key, ok := k.(*ecdsa.PrivateKey)
	if !ok {
		return nil, fmt.Errorf("a key of type %T; want ECDSA", k)
	}
	return key, nil
}
