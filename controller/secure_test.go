package controller

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/comms/pki"
)

// fortress is a controller with an authority that listens by TLS.
type fortress struct {
	t *testing.T
	*running
	dir, tcp string
	token    pki.Token
	a        *pki.Authority
}

func newFortress(t *testing.T) *fortress {
	t.Helper()
	dir := t.TempDir()
	token, _, err := Found(Founding{State: dir, Name: "ours", Uses: 2, Life: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	c, err := New(Config{Address: "tcp://127.0.0.1:0", State: dir, Memory: 64 << 20, MinFree: 1, Audit: filepath.Join(dir, "audit.log")})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	r := &running{c, cancel, make(chan error, 1)}
	go func() { r.ended <- c.Run(ctx) }()
	t.Cleanup(func() { r.stop(t) })
	return &fortress{t, r, dir, strings.TrimPrefix(c.Addr(), "tcp://"), token, c.cluster.authority}
}

// member has a certificate made for the role, as joining does.
func (f *fortress) member(role pki.Role, name string) *pki.Member {
	f.t.Helper()
	tok, _, err := f.cluster.members.Invite(role, name, 1, time.Hour)
	if err != nil {
		f.t.Fatal(err)
	}
	m, err := comms.JoinCluster(f.t.Context(), f.tcp, tok, name, pki.AnyBearer, time.Now)
	if err != nil {
		f.t.Fatal(err)
	}
	return m
}

func newPeerEnd(t testing.TB) *peerEnd {
	return &peerEnd{t: t, got: make(chan comms.Message, 1000), down: make(chan struct{}, 1), bodies: map[comms.Hash][]byte{}}
}

// dial links a peer of the role in its greeting with the certificate of m.
func (f *fortress) dial(role, name string, m *pki.Member) (*peerEnd, error) {
	p := newPeerEnd(f.t)
	cfg := comms.Config{Self: comms.Identity{Role: role, Name: name, Incarnation: 1, PID: 1}, Handler: p, Replay: true,
		Security: &comms.Security{Member: m, Expect: []pki.Role{pki.RoleController}}}
	l, err := comms.Dial(f.t.Context(), "tcp://"+f.tcp, cfg)
	p.setLink(l)
	return p, err
}

func (f *fortress) client(m *pki.Member) *peerEnd {
	f.t.Helper()
	p, err := f.dial("client", "x", m)
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(p.close)
	return p
}

// goesOn shows that an honest member is served, on a link of its own.
func (f *fortress) goesOn(m *pki.Member) {
	f.t.Helper()
	c, err := f.dial("client", "honest", m)
	if err != nil {
		f.t.Fatalf("the service does not go on: %v", err)
	}
	defer c.close()
	c.say(&comms.Query{Req: 77, Kind: comms.QueryJobs})
	expect(c, "page", func(p *comms.Page) bool { return p.Req == 77 })
}

// reply says m and returns the answer's code and text.
func reply(p *peerEnd, m comms.Message) *comms.Reply {
	p.t.Helper()
	req, _ := comms.NumberOf(m)
	p.say(m)
	return expect(p, "refusal", func(r *comms.Reply) bool { return r.Req == req })
}

func TestStrangersAreRefused(t *testing.T) {
	f := newFortress(t)
	honest := f.member(pki.RoleObserve, "honest")
	foreign, err := pki.NewAuthority("ours", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	enrol := func(a *pki.Authority, role pki.Role, name string, now time.Time) *pki.Member {
		m, err := a.Enrol(role, name, func() time.Time { return now })
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	gone := f.member(pki.RoleAgent, "gone")
	if _, err := f.cluster.members.Revoke(pki.RoleAgent, "gone", ""); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, role string
		member     *pki.Member
		want       string
	}{
		{"a foreign authority", "agent", enrol(foreign, pki.RoleAgent, "a", time.Now()), "another cluster's authority"},
		{"a revoked certificate", "agent", gone, "our certificate is not accepted: it was revoked"},
		{"a client as an agent", "agent", honest, "its certificate is for observe honest"},
		{"an agent as a client", "client", f.member(pki.RoleAgent, "b"), "its certificate is for agent b"},
		{"an agent as another", "agent", f.member(pki.RoleAgent, "c"), "its certificate is for agent c"},
	} {
		t.Run(c.name, func(t *testing.T) {
			name := c.member.Identity().Name
			if c.name == "an agent as another" {
				name = "b"
			}
			p, err := f.dial(c.role, name, c.member)
			if err == nil {
				p.close()
				t.Fatal("it has a link")
			}
			if !errors.Is(err, comms.ErrRefused) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("it is told %v, want %q", err, c.want)
			}
			f.goesOn(honest)
		})
	}
	t.Run("no certificate", func(t *testing.T) {
		c, err := tls.Dial("tcp", f.tcp, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"cascade-link/1"}})
		if err == nil {
			_, err = c.Read(make([]byte, 1))
			c.Close()
		}
		if err == nil || !strings.Contains(err.Error(), "certificate required") {
			t.Errorf("it is told %v", err)
		}
		f.goesOn(honest)
	})
	t.Run("plain ZeroMQ", func(t *testing.T) {
		if l, err := comms.Dial(t.Context(), "tcp://"+f.tcp, comms.Config{Self: comms.Identity{Role: "client", Name: "x", Incarnation: 1}, Handler: newPeerEnd(t), Replay: true,
			InsecureTestNetwork: true}); err == nil {
			t.Errorf("it has a link: %v", l.Close())
		}
		f.goesOn(honest)
	})
	t.Run("an expired certificate", func(t *testing.T) {
		f.a.SetLife(time.Minute) // nobody joins beside this
		slow := -2 * time.Minute
		m, err := f.a.Enrol(pki.RoleSubmit, "late", func() time.Time { return time.Now().Add(slow) })
		if err != nil {
			t.Fatal(err)
		}
		f.a.SetLife(0)
		slow = 0
		if p, err := f.dial("client", "late", m); err == nil {
			p.close()
			t.Error("it has a link")
		} else if !strings.Contains(err.Error(), "has expired") {
			t.Errorf("it is told %v", err)
		}
		f.goesOn(honest)
	})
	t.Run("a replayed token", func(t *testing.T) {
		for _, name := range []string{"n1", "n2"} {
			if _, err := comms.JoinCluster(t.Context(), f.tcp, f.token, name, pki.AnyBearer, time.Now); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := comms.JoinCluster(t.Context(), f.tcp, f.token, "n3", pki.AnyBearer, time.Now); err == nil || !strings.Contains(err.Error(), "unknown or was used up") {
			t.Errorf("it is told %v", err)
		}
		f.goesOn(honest)
	})
	t.Run("a living agent's name", func(t *testing.T) {
		tok, _, err := f.cluster.members.Invite(pki.RoleAgent, "", 1, time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := comms.JoinCluster(t.Context(), f.tcp, tok, "n1", pki.AnyBearer, time.Now); err == nil || !strings.Contains(err.Error(), "belongs to a member") {
			t.Errorf("it is told %v", err)
		}
	})
}

// One role may not send another's messages. The refusal says what is needed.
func TestRolesAreEnforced(t *testing.T) {
	f := newFortress(t)
	admin, anna, ben, eve := f.client(f.member(pki.RoleAdmin, "root")), f.client(f.member(pki.RoleSubmit, "anna")),
		f.client(f.member(pki.RoleSubmit, "ben")), f.client(f.member(pki.RoleObserve, "eve"))
	graph := parse(t, job1).Encode()
	submit(anna, 1, graph)
	expect[*comms.Accepted](anna, "accepted", nil)
	cancel := func(req uint64) *comms.Control {
		return &comms.Control{Req: req, Job: testJob(1), Action: comms.SteerCancel}
	}
	for _, c := range []struct {
		name string
		who  *peerEnd
		m    comms.Message
		want string // "" when it is done
	}{
		{"an observer submits", eve, &comms.Submit{Req: 10, Job: testJob(2), Graph: graph}, "Submit needs the role submit, and the certificate of eve is for observe"},
		{"an observer cancels", eve, cancel(11), "Control needs the role submit"},
		{"an observer sends a graph", eve, &comms.HaveReq{Req: 12, Hashes: []comms.Hash{"x"}}, "HaveReq needs the role submit"},
		{"a submitter cancels another's job", ben, cancel(13), "belongs to anna"},
		{"a submitter makes a token", ben, &comms.Invite{Req: 14, Role: "admin"}, "Invite needs the role admin"},
		{"a submitter revokes", ben, &comms.Revoke{Req: 15, Role: "agent", Name: "n1"}, "Revoke needs the role admin"},
		{"a submitter lists members", ben, &comms.Query{Req: 16, Kind: comms.QueryMembers}, "to list members needs the role admin"},
		{"an admin far away asks for a backup", admin, &comms.Backup{Req: 17, File: filepath.Join(t.TempDir(), "b")}, "a file of the controller's host"},
		{"a token for a controller", admin, &comms.Invite{Req: 18, Role: "controller", Name: "c2"}, "a controller needs none"},
		{"a token for no role", admin, &comms.Invite{Req: 19, Role: "king"}, "there are controller, agent"},
		{"nobody is revoked", admin, &comms.Revoke{Req: 20, Role: "agent", Name: "nobody"}, "no such member"},
		{"a submitter holds its own job", anna, &comms.Control{Req: 21, Job: testJob(1), Action: comms.SteerHold}, ""},
		{"an admin cancels another's job", admin, cancel(22), ""},
		{"a submitter forgets another's job that has ended", ben, &comms.Control{Req: 23, Job: testJob(1), Action: comms.SteerForget}, "belongs to anna"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := reply(c.who, c.m)
			if (r.Code == comms.CodeOK) != (c.want == "") || !strings.Contains(r.Message, c.want) {
				t.Errorf("answered %d %q, want %q", r.Code, r.Message, c.want)
			}
		})
	}
	// What belongs to no client at all ends the link.
	eve.say(&comms.Events{})
	<-eve.down
	f.goesOn(f.member(pki.RoleObserve, "adam"))

	text, err := os.ReadFile(filepath.Join(f.dir, "audit.log"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`"what":"join","who":"anna","role":"submit"`,
		`"what":"submit","who":"anna","role":"submit","peer":"x","job":"` + testJob(1).String() + `","tenant":"anna","outcome":"done"`,
		`"what":"ask","who":"eve","role":"observe","peer":"x","message":"Submit","outcome":"refused`,
		`"what":"cancel","who":"root","role":"admin","peer":"x","job":"` + testJob(1).String() + `","outcome":"done"`,
		`"what":"end","job":"` + testJob(1).String() + `"`,
	} {
		if !strings.Contains(string(text), want) {
			t.Errorf("the audit has no %s in\n%s", want, text)
		}
	}
}

// Who is revoked while linked is cut off, and the agents are told.
func TestRevokedWhileLinked(t *testing.T) {
	f := newFortress(t)
	admin, anna := f.client(f.member(pki.RoleAdmin, "root")), f.client(f.member(pki.RoleSubmit, "anna"))
	agent, err := f.dial("agent", "a1", f.member(pki.RoleAgent, "a1"))
	if err != nil {
		t.Fatal(err)
	}
	defer agent.close()
	if m := expect[*comms.Revoked](agent, "whom to refuse", nil); len(m.Serials) != 0 {
		t.Errorf("at first %v", m.Serials)
	}
	if r := reply(admin, &comms.Revoke{Req: 1, Role: "submit", Name: "anna"}); r.Code != comms.CodeOK {
		t.Fatalf("%+v", r)
	}
	<-anna.down
	// The empty list may come twice: each who joins has it told anew.
	expect(agent, "that one is to be refused", func(m *comms.Revoked) bool { return len(m.Serials) == 1 })
	if got := rows[comms.MemberRow](admin, comms.Query{Kind: comms.QueryMembers}, 10); len(got) != 3 || got[0].State != "connected" || got[2].State != "revoked" {
		t.Errorf("members %+v", got)
	}
}

// Frames that are too large or make no sense end their connection only, also when
// a member sends them.
func TestMalformedFramesBehindTLS(t *testing.T) {
	f := newFortress(t)
	m := f.member(pki.RoleSubmit, "anna")
	greeting := append([]byte{0xff, 0, 0, 0, 0, 0, 0, 0, 1, 0x7f, 3, 0}, make([]byte, 52)...)
	copy(greeting[12:], "NULL")
	huge := binary.BigEndian.AppendUint64([]byte{0x06}, 1<<62) // a long command
	for name, bytes := range map[string][]byte{
		"nonsense":        []byte("GET / HTTP/1.1\r\n\r\n"),
		"a huge command":  append(append([]byte{}, greeting...), huge...),
		"a huge message":  append(append([]byte{}, greeting...), binary.BigEndian.AppendUint64([]byte{0x02}, 1<<62)...),
		"no READY":        append(append([]byte{}, greeting...), 0, 3, 'a', 'b', 'c'),
		"a cut off frame": greeting[:20],
	} {
		t.Run(name, func(t *testing.T) {
			c, err := tls.Dial("tcp", f.tcp, m.ClientConfig(nil, pki.RoleController))
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			if _, err := c.Write(bytes); err != nil {
				t.Fatal(err)
			}
			if err := c.CloseWrite(); err != nil {
				t.Fatal(err)
			}
			for n := 0; ; { // it hangs up, after a greeting of its own at most
				k, err := c.Read(make([]byte, 4096))
				if n += k; err != nil {
					break
				}
				if n > 1<<16 {
					t.Fatal("it goes on talking")
				}
			}
			f.goesOn(m)
		})
	}
	p := f.client(m) // a message of a kind that is none
	if err := p.linked().Send([]byte{0x92, 0x7b, 0x90}, nil); err != nil {
		t.Fatal(err)
	}
	<-p.down
	f.goesOn(m)
}

// A thousand connections that say nothing, or little, keep nobody out.
func TestHalfOpenConnections(t *testing.T) {
	f := newFortress(t)
	m := f.member(pki.RoleSubmit, "anna")
	var open []net.Conn
	for i := range 1000 {
		c, err := net.Dial("tcp", f.tcp)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		open = append(open, c)
		if i%2 == 0 {
			if _, err := c.Write([]byte{22, 3, 1, 2, 0}); err != nil {
				continue // was dropped already
			}
		}
		if i%250 == 249 {
			f.goesOn(m)
		}
	}
	for i, c := range open { // slowly, byte by byte
		if i%10 == 0 {
			_, _ = c.Write([]byte{1}) // dropped ones fail
		}
	}
	f.goesOn(m)
	if _, err := comms.JoinCluster(t.Context(), f.tcp, f.token, "n1", pki.AnyBearer, time.Now); err != nil {
		t.Errorf("nobody can join: %v", err)
	}
}
