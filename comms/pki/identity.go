package pki

import (
	"crypto/x509"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
)

// Role says what the holder of a certificate may be.
type Role string

// The roles. The last three are of clients: an admin may do all, a submitter may
// submit jobs and steer its own, an observer may look.
const (
	RoleController Role = "controller"
	RoleAgent      Role = "agent"
	RoleAdmin      Role = "admin"
	RoleSubmit     Role = "submit"
	RoleObserve    Role = "observe"
)

var roles = []Role{RoleController, RoleAgent, RoleAdmin, RoleSubmit, RoleObserve}

// ParseRole reads a role, as people write it.
func ParseRole(s string) (Role, error) {
	if r := Role(s); slices.Contains(roles, r) {
		return r, nil
	}
	return "", fmt.Errorf("role %q: there are controller, agent, admin, submit and observe", s)
}

// Client tells whether the role is that of a client.
func (r Role) Client() bool { return r == RoleAdmin || r == RoleSubmit || r == RoleObserve }

// Identity is who a certificate says its holder is.
type Identity struct {
	Cluster string
	Role    Role
	Name    string
}

func (id Identity) String() string {
	return fmt.Sprintf("%s %s of cluster %s", id.Role, id.Name, id.Cluster)
}

// maxName bounds names, which stand in certificates, logs, keys of the store and, those of clusters, in paths.
const maxName = 128

func (id Identity) validate() error {
	if _, err := ParseRole(string(id.Role)); err != nil {
		return err
	}
	for _, s := range []string{id.Cluster, id.Name} {
		if s == "" || s == "." || s == ".." || len(s) > maxName || strings.ContainsFunc(s, func(r rune) bool {
			return r <= ' ' || r == 0x7f || r == '/' || r == 0xfffd
		}) {
			return fmt.Errorf("name %q in a certificate: want 1 to %d bytes without blanks and slashes, other than \".\" and \"..\"", s, maxName)
		}
	}
	return nil
}

const scheme = "cascade"

// uri is the identity as a subject alternative name.
func (id Identity) uri() *url.URL {
	return &url.URL{Scheme: scheme, Host: id.Cluster, Path: "/" + string(id.Role) + "/" + id.Name}
}

var errNoIdentity = errors.New("the certificate names no identity of a Cascade cluster")

// identityOf reads the identity from a certificate that was verified.
func identityOf(c *x509.Certificate) (Identity, error) {
	if len(c.URIs) != 1 || c.URIs[0].Scheme != scheme {
		return Identity{}, errNoIdentity
	}
	parts := strings.Split(c.URIs[0].Path, "/")
	if len(parts) != 3 || parts[0] != "" {
		return Identity{}, errNoIdentity
	}
	id := Identity{Cluster: c.URIs[0].Host, Role: Role(parts[1]), Name: parts[2]}
	if err := id.validate(); err != nil {
		return Identity{}, fmt.Errorf("%w: %w", errNoIdentity, err)
	}
	return id, nil
}
