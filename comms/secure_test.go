package comms

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cascade-run/cascade/comms/pki"
)

// cluster makes members.
type cluster struct {
	t testing.TB
	a *pki.Authority
}

func newCluster(t testing.TB) cluster {
	t.Helper()
	a, err := pki.NewAuthority("test", time.Now().Add(-24*time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	return cluster{t, a}
}

func (c cluster) member(role pki.Role, name string) *pki.Member {
	c.t.Helper()
	m, err := c.a.Enrol(role, name, time.Now)
	if err != nil {
		c.t.Fatal(err)
	}
	return m
}

// secure makes a configuration one that needs certificates.
func secure(cfg *Config, m *pki.Member, expect ...pki.Role) {
	cfg.InsecureTestNetwork = false
	cfg.Security = &Security{Member: m, Expect: expect}
}

// hub listens with a controller's certificate.
func (c cluster) hub(t *testing.T, change func(*Config)) (*recorder, *Listener) {
	t.Helper()
	r := newRecorder()
	cfg := config(t, self("controller", "c", 1), r)
	cfg.Replay = true
	secure(&cfg, c.member(pki.RoleController, "c"))
	if change != nil {
		change(&cfg)
	}
	return r, listenTest(t, "tcp://127.0.0.1:0", cfg)
}

func (c cluster) leaf(t *testing.T, id Identity, m *pki.Member) Config {
	cfg := config(t, id, newRecorder())
	cfg.Replay = true
	secure(&cfg, m, pki.RoleController)
	return cfg
}

func TestCertificatesVouch(t *testing.T) {
	c, foreign := newCluster(t), newCluster(t)
	hub, ln := c.hub(t, nil)
	for _, test := range []struct {
		name   string
		id     Identity
		member *pki.Member
		grant  pki.Role // "" when refused
		err    string
	}{
		{"an agent", self("agent", "a", 1), c.member(pki.RoleAgent, "a"), pki.RoleAgent, ""},
		{"an observer", self("client", "whatever", 1), c.member(pki.RoleObserve, "anna"), pki.RoleObserve, ""},
		{"another agent's name", self("agent", "b", 1), c.member(pki.RoleAgent, "a"), "", "its certificate is for agent a"},
		{"a client as an agent", self("agent", "anna", 1), c.member(pki.RoleAdmin, "anna"), "", "its certificate is for admin anna"},
		{"an agent as a client", self("client", "a", 1), c.member(pki.RoleAgent, "a"), "", "its certificate is for agent a"},
		{"a foreign one", self("agent", "a", 1), foreign.member(pki.RoleAgent, "a"), "", "another cluster's authority"},
	} {
		t.Run(test.name, func(t *testing.T) {
			l, err := Dial(context.Background(), ln.Addr(), c.leaf(t, test.id, test.member))
			if test.err != "" {
				if err == nil || !strings.Contains(err.Error(), test.err) {
					t.Errorf("dialed with %v, want %q", err, test.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if up := hub.next(t, "up"); up.peer.Grant != test.grant {
				t.Errorf("the hub sees %+v", up.peer)
			}
			if err := l.Close(); err != nil {
				t.Error(err)
			}
			hub.next(t, "down")
		})
	}
}

func TestPlainTCPMeetsTLS(t *testing.T) {
	c := newCluster(t)
	_, ln := c.hub(t, nil)
	if l, err := Dial(context.Background(), ln.Addr(), config(t, self("agent", "a", 1), newRecorder())); err == nil {
		t.Errorf("a peer without TLS has a link: %v", l.Close())
	}
	plain := config(t, self("controller", "c", 1), newRecorder())
	plain.Replay = true
	if l, err := Dial(context.Background(), listenTest(t, "tcp://127.0.0.1:0", plain).Addr(), c.leaf(t, self("agent", "a", 1), c.member(pki.RoleAgent, "a"))); err == nil {
		t.Errorf("a peer with TLS has a link to one without: %v", l.Close())
	}
	if _, err := Listen("tcp://127.0.0.1:0", Config{Handler: newRecorder(), Self: self("agent", "a", 1)}); err == nil || !strings.Contains(err.Error(), "plain TCP is refused") {
		t.Errorf("listening without either: %v", err)
	}
}

// Links of one client may not be continued or ended by another who takes its name.
func TestClientsOfOneNameAreApart(t *testing.T) {
	c := newCluster(t)
	hub, ln := c.hub(t, nil)
	anna := dialTest(t, ln.Addr(), c.leaf(t, self("client", "x", 1), c.member(pki.RoleSubmit, "anna")))
	hub.next(t, "up")
	dialTest(t, ln.Addr(), c.leaf(t, self("client", "x", 2), c.member(pki.RoleSubmit, "ben"))) // a later incarnation
	hub.next(t, "up")
	if err := anna.Send([]byte("still here"), nil); err != nil {
		t.Fatal(err)
	}
	if m := hub.next(t, "message"); string(m.head) != "still here" {
		t.Errorf("the hub hears %q", m.head)
	}
}

func TestEachMessageOnceThroughBreaksOfTLS(t *testing.T) {
	c := newCluster(t)
	hub, ln := c.hub(t, nil)
	l := dialTest(t, ln.Addr(), c.leaf(t, self("agent", "a", 1), c.member(pki.RoleAgent, "a")))
	for i := range 300 {
		if err := l.Send(fmt.Appendf(nil, "%d", i), make([]byte, 500*i)); err != nil {
			t.Fatal(err)
		}
		if i%100 == 50 {
			cut(l)
		}
	}
	for i, m := range hub.count(t, "message", 300) {
		if string(m.head) != fmt.Sprint(i) || len(m.body) != 500*i {
			t.Fatalf("message %d is %q with %d bytes", i, m.head, len(m.body))
		}
	}
}

func TestRevokedLinksEnd(t *testing.T) {
	c := newCluster(t)
	var mu sync.Mutex
	revoked := map[string]bool{}
	hub, ln := c.hub(t, func(cfg *Config) {
		cfg.Security.Revoked = func(serial string) bool {
			mu.Lock()
			defer mu.Unlock()
			return revoked[serial]
		}
	})
	good, bad := c.leaf(t, self("agent", "good", 1), c.member(pki.RoleAgent, "good")), c.leaf(t, self("agent", "bad", 1), c.member(pki.RoleAgent, "bad"))
	stays, goes := dialTest(t, ln.Addr(), good), dialTest(t, ln.Addr(), bad)
	hub.count(t, "up", 2) // the listening side has them a moment later than the dialing one
	ln.Recheck(time.Now())
	ln.mu.Lock()
	for l := range ln.links {
		if l.Peer().Name == "bad" {
			mu.Lock()
			serial, expires := l.Credential()
			if !expires.After(time.Now()) {
				t.Errorf("the certificate ends at %s", expires)
			}
			revoked[serial] = true
			mu.Unlock()
		}
	}
	ln.mu.Unlock()
	ln.Recheck(time.Now())
	down := bad.Handler.(*recorder).next(t, "down")
	t.Log(down.err)
	if err := stays.Send([]byte("x"), nil); err != nil {
		t.Error(err)
	}
	if _, err := Dial(context.Background(), ln.Addr(), bad); !errors.Is(err, ErrRefused) || !errors.Is(err, pki.ErrNotAccepted) {
		t.Errorf("a revoked member comes back: %v", err)
	}
	if err := goes.Close(); err != nil {
		t.Error(err)
	}
}

// A connection ends with its certificate. The link goes on with a newer one, and
// without one it is told why it ends.
func TestExpiredConnectionsBreak(t *testing.T) {
	c := newCluster(t)
	hub, ln := c.hub(t, nil)
	slow := -time.Hour
	m, err := c.a.Enrol(pki.RoleAgent, "a", func() time.Time { return time.Now().Add(slow) })
	if err != nil {
		t.Fatal(err)
	}
	slow = 0
	cfg := c.leaf(t, self("agent", "a", 1), m)
	l := dialTest(t, ln.Addr(), cfg)
	hub.next(t, "up")
	r, err := m.BeginRenewal()
	if err != nil {
		t.Fatal(err)
	}
	old := m.Expires()
	der, err := c.a.Renew(r.Request(), m.Identity(), time.Now())
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Finish(der); err != nil {
		t.Fatal(err)
	}
	ln.Recheck(old.Add(time.Minute))
	hub.next(t, "down")
	if up := hub.next(t, "up"); !up.resumed {
		t.Errorf("after the renewal %+v", up)
	}
	ln.Recheck(old.Add(time.Minute)) // the new one is good
	if err := l.Send([]byte("x"), nil); err != nil {
		t.Error(err)
	}
	hub.next(t, "message")
}

// Who has no certificate reaches only what lets it join.
func TestJoinDoor(t *testing.T) {
	c := newCluster(t)
	joined := make(chan string, 1)
	_, ln := c.hub(t, func(cfg *Config) {
		cfg.Security.Join = func(conn net.Conn) {
			_, err := ServeJoin(conn, c.a, grantAll{}, time.Now)
			joined <- fmt.Sprint(err)
		}
	})
	token, _, err := c.a.NewToken(pki.RoleAgent, "", 1, time.Now().Add(time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	address := strings.TrimPrefix(ln.Addr(), "tcp://")
	m, err := JoinCluster(t.Context(), address, token, "new", pki.AnyBearer, time.Now)
	if err != nil {
		t.Fatalf("%v; the controller says %s", err, <-joined)
	}
	<-joined
	dialTest(t, ln.Addr(), c.leaf(t, self("agent", "new", 1), m))
	if _, err := tls.Dial("tcp", address, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}}); err == nil {
		t.Error("another protocol is spoken")
	}
}

type grantAll struct{}

func (grantAll) Redeem([8]byte, [16]byte, string, pki.Bearer) (pki.Role, error) {
	return pki.RoleAgent, nil
}
func (grantAll) Issued(pki.Identity, *x509.Certificate) error { return nil }

// Peers that connect and say nothing, or not enough, do not keep an honest one out.
func TestHalfOpenTLS(t *testing.T) {
	c := newCluster(t)
	_, ln := c.hub(t, func(cfg *Config) { cfg.MaxHandshakes = 16 })
	address := strings.TrimPrefix(ln.Addr(), "tcp://")
	for i := range 200 {
		conn, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if i%2 == 0 {
			if _, err := conn.Write([]byte{22, 3, 1, 2, 0, 1}); err != nil && !errors.Is(err, net.ErrClosed) {
				t.Log(err) // dropped already
			}
		}
	}
	dialTest(t, ln.Addr(), c.leaf(t, self("agent", "a", 1), c.member(pki.RoleAgent, "a")))
}
