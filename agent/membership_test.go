//go:build linux

package agent

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/comms/pki"
)

func authority(t *testing.T) *pki.Authority {
	t.Helper()
	a, err := pki.NewAuthority("ours", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// enrolled returns the folder of a new member's certificate.
func enrolled(t *testing.T, a *pki.Authority, role pki.Role, name string) string {
	t.Helper()
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
	dir := enrolled(t, authority(t), pki.RoleAgent, "a1")
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
		if _, err := openMembership(enrolled(t, authority(t), c.role, c.name), "a1"); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("with the certificate of %s %s: %v", c.role, c.name, err)
		}
	}
	if _, err := openMembership(t.TempDir(), "a1"); err == nil {
		t.Error("without a certificate it starts")
	}
}

// caller is a client of an agent over TCP.
type caller struct {
	got  chan comms.Message
	down chan error
}

func (*caller) Up(*comms.Link, comms.Identity, bool) {}
func (*caller) Credit(*comms.Link)                   {}
func (c *caller) Down(_ *comms.Link, err error)      { c.down <- err }
func (c *caller) Message(_ *comms.Link, head, _ []byte) {
	if m, err := comms.Decode(head); err == nil {
		c.got <- m
	}
}

// Over TCP an agent hears members only, whom it permits what clients may ask of
// it, and ends the links of those who are revoked.
func TestClientsOverTLS(t *testing.T) {
	a := authority(t)
	h := startHost(t, func(cfg *Config) {
		cfg.Listen, cfg.Credentials = "tcp://127.0.0.1:0", enrolled(t, a, pki.RoleAgent, "host")
	})
	addresses := strings.Split(h.agent.Addr(), ",")
	tcp := addresses[len(addresses)-1]
	dial := func(a *pki.Authority) (*caller, *comms.Link, *pki.Member, error) {
		m, err := a.Enrol(pki.RoleObserve, "eve", time.Now)
		if err != nil {
			t.Fatal(err)
		}
		c := &caller{make(chan comms.Message, 10), make(chan error, 10)}
		l, err := comms.Dial(t.Context(), tcp, comms.Config{Self: comms.Identity{Role: "client", Name: "x", Incarnation: 1}, Handler: c, Replay: true,
			RetryMin: time.Millisecond, Security: &comms.Security{Member: m, Expect: []pki.Role{pki.RoleAgent}}})
		if l != nil {
			t.Cleanup(func() { l.Abort(comms.ErrClosed); <-l.Done() })
		}
		return c, l, m, err
	}
	if _, _, _, err := dial(authority(t)); !errors.Is(err, comms.ErrRefused) {
		t.Errorf("a foreign client is told %v", err)
	}
	say := func(l *comms.Link, m comms.Message) {
		t.Helper()
		if err := l.Send(comms.Encode(m), nil); err != nil {
			t.Error(err)
		}
	}
	c, l, member, err := dial(a)
	if err != nil {
		t.Fatal(err)
	}
	say(l, &comms.Fetch{Req: 1, Data: comms.DatasetID{Job: comms.JobID{1}}})
	if r, ok := (<-c.got).(*comms.Reply); !ok || r.Req != 1 {
		t.Errorf("a fetch of nothing is answered by %+v", r)
	}
	if err := h.agent.member.learn([]string{member.Serial()}); err != nil {
		t.Fatal(err)
	}
	h.agent.recheck()
	for err := range c.down { // first the connection breaks, then the link comes back in vain
		if errors.Is(err, comms.ErrClosed) {
			break
		}
	}
	if err := h.agent.member.learn(nil); err != nil {
		t.Fatal(err)
	}
	c, l, _, err = dial(a)
	if err != nil {
		t.Fatal(err)
	}
	say(l, &comms.Submit{Req: 2}) // an observer's, and no agent's business
	<-c.down
}
