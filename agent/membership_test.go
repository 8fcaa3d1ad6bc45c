//go:build linux

package agent

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cascade-run/cascade/comms/pki"
)

func enrolled(t *testing.T, role pki.Role, name string) string {
	t.Helper()
	a, err := pki.NewAuthority("ours", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	m, err := a.Enrol(role, name, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "pki")
	if err := m.Save(dir); err != nil {
		t.Fatal(err)
	}
	return dir
}

// Whom the controller revoked is refused also by an agent that has started again
// and has not heard of the controller yet.
func TestRevokedAreRemembered(t *testing.T) {
	dir := enrolled(t, pki.RoleAgent, "a1")
	m, err := openMembership(dir, "a1")
	if err != nil || m.refuses("1f") {
		t.Fatalf("at first %v, %v", m, err)
	}
	if err := m.learn([]string{"1f", "2"}); err != nil {
		t.Fatal(err)
	}
	m, err = openMembership(dir, "a1")
	if err != nil || !m.refuses("1f") || !m.refuses("2") || m.refuses("3") {
		t.Errorf("after a start %v, %v", m.revoked.Load(), err)
	}
	if err := m.learn(nil); err != nil || m.refuses("1f") {
		t.Errorf("when all have expired %v, %v", m.revoked.Load(), err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		if info, err := e.Info(); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %v, %v", e.Name(), info.Mode(), err)
		}
		names = append(names, e.Name())
	}
	if !slices.Equal(names, []string{"ca.crt", "member.pem", revokedFile}) {
		t.Errorf("the folder has %v", names)
	}
}

// An agent starts with no other's certificate.
func TestMembershipIsTheAgents(t *testing.T) {
	for _, c := range []struct {
		role       pki.Role
		name, want string
	}{{pki.RoleAgent, "a2", "is that of agent a2"}, {pki.RoleSubmit, "a1", "is that of submit a1"}} {
		if _, err := openMembership(enrolled(t, c.role, c.name), "a1"); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("with the certificate of %s %s: %v", c.role, c.name, err)
		}
	}
	if _, err := openMembership(t.TempDir(), "a1"); err == nil {
		t.Error("without a certificate it starts")
	}
}
