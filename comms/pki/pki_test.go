package pki_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/comms/pki"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var epoch = time.Date(2026, 11, 21, 0, 0, 0, 0, time.UTC)

// clock is a clock that tests set.
type clock struct{ now time.Time }

func (c *clock) read() time.Time { return c.now }

func authority(t *testing.T) *pki.Authority {
	t.Helper()
	a, err := pki.NewAuthority("ours", epoch.Add(-5*pki.MemberLife))
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func enrol(t *testing.T, a *pki.Authority, role pki.Role, name string, c *clock) *pki.Member {
	t.Helper()
	m, err := a.Enrol(role, name, c.read)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// meet makes a TLS connection between two configurations and says what each side
// made of it: in TLS 1.3 the dialer learns only by its first read that it was refused.
func meet(t *testing.T, server, client *tls.Config, after func(server, client *tls.Conn)) (serverErr, clientErr error) {
	t.Helper()
	a, b := net.Pipe()
	s, c := tls.Server(a, server), tls.Client(b, client)
	var work sync.WaitGroup
	work.Go(func() {
		if serverErr = s.Handshake(); serverErr == nil {
			_, serverErr = s.Write([]byte{1})
		}
		if serverErr != nil {
			a.Close()
		}
	})
	if clientErr = c.Handshake(); clientErr == nil {
		_, clientErr = c.Read(make([]byte, 1))
	}
	if clientErr != nil {
		b.Close()
	}
	work.Wait()
	if after != nil && serverErr == nil && clientErr == nil {
		after(s, c)
	}
	a.Close()
	b.Close()
	return serverErr, clientErr
}

func TestLinks(t *testing.T) {
	c := &clock{epoch}
	ours, foreign := authority(t), authority(t) // the same name does not help
	controller := enrol(t, ours, pki.RoleController, "head", c)
	agent := enrol(t, ours, pki.RoleAgent, "host-1", c)
	stranger := enrol(t, foreign, pki.RoleAgent, "host-1", c)
	revoked := map[string]bool{}
	gone := enrol(t, ours, pki.RoleAgent, "host-2", c)
	meet(t, controller.ServerConfig(nil, false), gone.ClientConfig(nil, pki.RoleController), func(s, _ *tls.Conn) {
		p, err := pki.PeerOf(s)
		if err != nil {
			t.Error(err)
		}
		revoked[p.Serial] = true
	})
	late := enrol(t, ours, pki.RoleAgent, "late", &clock{epoch.Add(-2 * pki.MemberLife)})
	server := controller.ServerConfig(func(serial string) bool { return revoked[serial] }, true)
	for _, test := range []struct {
		name           string
		client         *tls.Config
		server, dialer string // what each side says
	}{
		{"a member", agent.ClientConfig(nil, pki.RoleController), "", ""},
		{"no certificate", &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"cascade-link/1"}}, "client didn't provide a certificate", "certificate required"},
		{"another protocol", &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}}, "unsupported application protocols", "no application protocol"},
		{"no protocol", withoutProtocol(agent.ClientConfig(nil, pki.RoleController)), "does not speak cascade-link/1", ""},
		{"an older TLS", &tls.Config{InsecureSkipVerify: true, MaxVersion: tls.VersionTLS12}, "unsupported versions", "protocol version not supported"},
		{"a foreign authority at the server", stranger.ClientConfig(nil, pki.RoleController), "", "signed by another cluster's authority"},
		{"a foreign authority at the client", blind(stranger), "signed by another cluster's authority", "bad certificate"},
		{"revoked", gone.ClientConfig(nil, pki.RoleController), "was revoked", "bad certificate"},
		{"expired", blind(late), "expired on 2026-11-14", "bad certificate"},
		{"another role expected", agent.ClientConfig(nil, pki.RoleAgent), "", "controller head of cluster ours answers where one of [agent] is expected"},
	} {
		t.Run(test.name, func(t *testing.T) {
			s, d := meet(t, server, test.client, nil)
			for _, side := range []struct {
				who, want string
				err       error
			}{{"server", test.server, s}, {"dialer", test.dialer, d}} {
				switch {
				case side.want != "" && (side.err == nil || !strings.Contains(side.err.Error(), side.want)):
					t.Errorf("the %s says %v, want %q", side.who, side.err, side.want)
				case test.server+test.dialer == "" && side.err != nil:
					t.Errorf("the %s says %v", side.who, side.err)
				}
			}
			if test.server+test.dialer != "" && (s == nil || d == nil) {
				t.Errorf("a side was content: server %v, dialer %v", s, d)
			}
		})
	}
}

// blind dials with m's certificate and believes anybody.
func blind(m *pki.Member) *tls.Config {
	c := m.ClientConfig(nil)
	c.VerifyConnection = nil
	return c
}

func withoutProtocol(c *tls.Config) *tls.Config {
	c.NextProtos, c.VerifyConnection = nil, nil
	return c
}

func TestRenewal(t *testing.T) {
	c := &clock{epoch}
	a := authority(t)
	agent := enrol(t, a, pki.RoleAgent, "host", c)
	if due := agent.RenewAt(); !due.After(epoch) || !due.Before(agent.Expires()) {
		t.Errorf("to renew at %s, ends at %s", due, agent.Expires())
	}
	c.now = agent.RenewAt()
	r, err := agent.BeginRenewal()
	if err != nil {
		t.Fatal(err)
	}
	other, err := a.Renew(r.Request(), pki.Identity{Cluster: "ours", Role: pki.RoleAdmin, Name: "host"}, c.now)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Finish(other); err == nil {
		t.Error("a renewal changed the role")
	}
	der, err := a.Renew(r.Request(), agent.Identity(), c.now)
	if err != nil {
		t.Fatal(err)
	}
	old := agent.Expires()
	if err := r.Finish(der); err != nil {
		t.Fatal(err)
	}
	server := enrol(t, a, pki.RoleController, "head", c).ServerConfig(nil, false)
	c.now = old.Add(time.Hour)
	if s, d := meet(t, server, agent.ClientConfig(nil, pki.RoleController), nil); s != nil || d != nil {
		t.Errorf("after the renewal: %v, %v", s, d)
	}
}

// register keeps grants as the controller's store does.
type register struct {
	mu     sync.Mutex
	grants map[[8]byte]pki.Grant
	issued []pki.Identity
	now    func() time.Time
}

func (r *register) Issued(id pki.Identity, _ *x509.Certificate) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.issued = append(r.issued, id)
	return nil
}

func (r *register) Redeem(id [8]byte, secret [16]byte, name string, as pki.Bearer) (pki.Role, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	g, ok := r.grants[id]
	if !ok {
		return "", pki.ErrTokenUnknown
	}
	g, err := g.Redeem(secret, name, as, r.now())
	if err == nil {
		r.grants[id] = g
	}
	return g.Role, err
}

func TestJoin(t *testing.T) {
	c := &clock{epoch}
	a, foreign := authority(t), authority(t)
	reg := &register{grants: map[[8]byte]pki.Grant{}, now: c.read}
	token := func(a *pki.Authority, name string, uses int, life time.Duration) pki.Token {
		tok, g, err := a.NewToken(pki.RoleAgent, name, uses, epoch.Add(life))
		if err != nil {
			t.Fatal(err)
		}
		b, err := g.Encode()
		if err != nil {
			t.Fatal(err)
		}
		if reg.grants[g.ID], err = pki.DecodeGrant(b); err != nil || reg.grants[g.ID] != g {
			t.Fatalf("a grant is read as %+v, %v", reg.grants[g.ID], err)
		}
		if tok, err = pki.ParseToken(tok.String()); err != nil {
			t.Fatal(err)
		}
		return tok
	}
	address, served := serve(t, a, reg, c)

	once, named, short := token(a, "", 1, time.Hour), token(a, "host-7", 5, time.Hour), token(a, "", 1, time.Minute)
	guessed := token(a, "", 1, time.Hour)
	guessed.Secret[3]++
	unknown := once
	unknown.ID[0]++
	c.now = epoch.Add(10 * time.Minute)
	for _, test := range []struct {
		name  string
		token pki.Token
		as    string
		err   string
	}{
		{"a name that cannot be", once, "a/b", "the controller's log says why"},
		{"by a person", once, "host-1", "the token is for hosts, and no use of it was spent: give it to cascade-agent --join"},
		{"once", once, "host-1", ""},
		{"replayed", once, "host-2", "unknown or was used up"},
		{"another name", named, "host-8", "for another name"},
		{"its name", named, "host-7", ""},
		{"expired", short, "host-3", "has expired"},
		{"guessed", guessed, "host-4", "unknown or was used up"},
		{"unknown", unknown, "host-4", "unknown or was used up"},
		{"foreign", token(foreign, "", 1, time.Hour), "host-5", "not the cluster that the token was made for"},
	} {
		t.Run(test.name, func(t *testing.T) {
			m, err := comms.JoinCluster(t.Context(), address, test.token, test.as, map[bool]pki.Bearer{false: pki.Host, true: pki.Person}[test.name == "by a person"], c.read)
			if test.err != "" {
				if err == nil || !strings.Contains(err.Error(), test.err) {
					t.Fatalf("joined with %v, want %q", err, test.err)
				}
				<-served
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			want := pki.Identity{Cluster: "ours", Role: pki.RoleAgent, Name: test.as}
			if got := <-served; m.Identity() != want || got != want || reg.issued[len(reg.issued)-1] != want {
				t.Errorf("joined as %s, the server says %s and noted %v", m.Identity(), got, reg.issued)
			}
		})
	}
}

// A token is redeemed by what it is for, and by builds that do not say what they are.
func TestBearers(t *testing.T) {
	a := authority(t)
	for _, c := range []struct {
		role pki.Role
		as   pki.Bearer
		want error
	}{
		{pki.RoleAgent, pki.Host, nil},
		{pki.RoleAgent, pki.AnyBearer, nil},
		{pki.RoleAgent, pki.Person, pki.ErrTokenHost},
		{pki.RoleSubmit, pki.Person, nil},
		{pki.RoleSubmit, pki.AnyBearer, nil},
		{pki.RoleSubmit, pki.Host, pki.ErrTokenPerson},
		{pki.RoleObserve, pki.Host, pki.ErrTokenPerson},
		{pki.RoleAdmin, pki.Host, pki.ErrTokenPerson},
	} {
		tok, grant, err := a.NewToken(c.role, "", 2, epoch.Add(time.Hour))
		if err != nil {
			t.Fatal(err)
		}
		left, err := grant.Redeem(tok.Secret, "n", c.as, epoch)
		if !errors.Is(err, c.want) || (left.Uses == 2) != (c.want != nil) {
			t.Errorf("%s by %q: %v, %d uses are left", c.role, c.as, err, left.Uses)
		}
	}
}

// serve lets hosts join on a loopback port.
func serve(t *testing.T, a *pki.Authority, reg pki.Register, c *clock) (string, <-chan pki.Identity) {
	t.Helper()
	controller := enrol(t, a, pki.RoleController, "head", c)
	l, err := tls.Listen("tcp", "127.0.0.1:0", controller.ServerConfig(nil, true))
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan pki.Identity, 100)
	var work sync.WaitGroup
	work.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			work.Go(func() {
				id, err := comms.ServeJoin(conn, a, reg, c.read)
				t.Logf("%s: %v", id, err)
				served <- id
			})
		}
	})
	t.Cleanup(func() { l.Close(); work.Wait() })
	return l.Addr().String(), served
}

func TestJoinGivesUp(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0") // never accepts: the handshake hangs
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	tok, _, err := authority(t).NewToken(pki.RoleAgent, "", 1, epoch)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := comms.JoinCluster(ctx, l.Addr().String(), tok, "host", pki.AnyBearer, time.Now); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("joining one who is silent: %v", err)
	}
}

// A controller that is silent after TLS does not keep the applicant, who learns why it gave up.
func TestJoinGivesUpBehindTLS(t *testing.T) {
	c := &clock{epoch}
	a := authority(t)
	l, err := tls.Listen("tcp", "127.0.0.1:0", enrol(t, a, pki.RoleController, "head", c).ServerConfig(nil, true))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	ctx, cancel := context.WithCancelCause(t.Context())
	enough, closed := errors.New("enough"), make(chan error, 1)
	go func() {
		conn, err := l.Accept()
		if err == nil {
			err = conn.(*tls.Conn).Handshake()
			cancel(enough)
			_, _ = io.Copy(io.Discard, conn) // until the applicant hangs up
			conn.Close()
		}
		closed <- err
	}()
	tok, _, err := a.NewToken(pki.RoleAgent, "", 1, epoch.Add(time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := comms.JoinCluster(ctx, l.Addr().String(), tok, "host", pki.AnyBearer, c.read); !errors.Is(err, enough) {
		t.Errorf("joining one who is silent behind TLS: %v", err)
	}
	if err := <-closed; err != nil {
		t.Error(err)
	}
}

func TestFiles(t *testing.T) {
	c := &clock{epoch}
	dir := filepath.Join(t.TempDir(), "pki")
	if _, err := pki.LoadAuthority(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("an authority that is not there: %v", err)
	}
	if _, err := pki.LoadMember(dir, c.read); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a member that is not there: %v", err)
	}
	a := authority(t)
	if err := a.Save(dir); err != nil {
		t.Fatal(err)
	}
	if err := authority(t).Save(dir); err == nil {
		t.Error("an authority was replaced")
	}
	loaded, err := pki.LoadAuthority(dir)
	if err != nil || loaded.Fingerprint() != a.Fingerprint() || loaded.Cluster() != "ours" {
		t.Fatalf("loaded %v, %v", loaded, err)
	}
	m := enrol(t, loaded, pki.RoleAgent, "host", c)
	for range 2 { // the second replaces the first
		if err := m.Save(dir); err != nil {
			t.Fatal(err)
		}
	}
	again, err := pki.LoadMember(dir, c.read)
	if err != nil || again.Identity() != m.Identity() || !again.Expires().Equal(m.Expires()) {
		t.Fatalf("loaded %v, %v", again, err)
	}
	if s, d := meet(t, enrol(t, a, pki.RoleController, "head", c).ServerConfig(nil, false), again.ClientConfig(nil, pki.RoleController), nil); s != nil || d != nil {
		t.Errorf("with the loaded member: %v, %v", s, d)
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 3 {
		t.Errorf("%d files, %v", len(entries), err)
	}
	for _, e := range entries {
		if info, err := e.Info(); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %v, %v", e.Name(), info.Mode(), err)
		}
	}
	c.now = epoch.Add(2 * pki.MemberLife)
	if _, err := pki.LoadMember(dir, c.read); err == nil || !strings.Contains(err.Error(), "join again") {
		t.Errorf("loading an expired certificate: %v", err)
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := m.Save(dir); err == nil || !strings.Contains(err.Error(), "chmod 700") {
		t.Errorf("saving where others can read: %v", err)
	}
}

func TestNames(t *testing.T) {
	for _, name := range []string{"", "a b", "a/b", "line\n", strings.Repeat("x", 129)} {
		if _, err := pki.NewAuthority(name, epoch); err == nil {
			t.Errorf("a cluster was named %q", name)
		}
		if _, err := authority(t).Enrol(pki.RoleAgent, name, func() time.Time { return epoch }); err == nil {
			t.Errorf("a member was named %q", name)
		}
	}
	if _, err := pki.ParseRole("root"); err == nil {
		t.Error("there is a role root")
	}
}

func FuzzParseToken(f *testing.F) {
	a, err := pki.NewAuthority("ours", epoch)
	if err != nil {
		f.Fatal(err)
	}
	tok, _, err := a.NewToken(pki.RoleAgent, "", 1, epoch)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(tok.String())
	f.Add("cascade1.")
	f.Fuzz(func(t *testing.T, s string) {
		if tok, err := pki.ParseToken(s); err == nil && tok.String() != strings.TrimSpace(s) {
			t.Errorf("%q is read as %q", s, tok)
		}
	})
}

func FuzzDecodeGrant(f *testing.F) {
	b, err := pki.Grant{Role: pki.RoleAgent, Name: "x", Uses: 1}.Encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Fuzz(func(t *testing.T, b []byte) {
		g, err := pki.DecodeGrant(b)
		if err != nil {
			return
		}
		again, err := g.Encode()
		if err != nil {
			t.Fatal(err)
		}
		if g2, err := pki.DecodeGrant(again); err != nil || g2 != g {
			t.Errorf("%+v is read as %+v, %v", g, g2, err)
		}
	})
}
