package members_test

import (
	"crypto/x509"
	"errors"
	"math/big"
	"strings"
	"testing"
	"time"

	"github.com/cascade-run/cascade/comms/pki"
	"github.com/cascade-run/cascade/controller/gcs"
	"github.com/cascade-run/cascade/controller/members"
)

var epoch = time.Date(2026, 11, 21, 0, 0, 0, 0, time.UTC)

// head is a register on a real store, with a clock that tests set.
type head struct {
	t     *testing.T
	dir   string
	now   time.Time
	a     *pki.Authority
	store *gcs.Store
	*members.Members
}

func open(t *testing.T) *head {
	t.Helper()
	a, err := pki.NewAuthority("ours", epoch.Add(-time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	h := &head{t: t, dir: t.TempDir(), now: epoch, a: a}
	h.start()
	t.Cleanup(func() { h.stop() })
	return h
}

func (h *head) start() {
	h.t.Helper()
	var err error
	if h.store, err = gcs.Open(gcs.Options{Dir: h.dir, MinFree: 1}); err != nil {
		h.t.Fatal(err)
	}
	if h.Members, err = members.Open(h.a, h.store, func() time.Time { return h.now }); err != nil {
		h.t.Fatal(err)
	}
}

func (h *head) stop() {
	h.t.Helper()
	if err := h.store.Close(); err != nil {
		h.t.Error(err)
	}
}

func (h *head) token(role pki.Role, name string, uses int) pki.Token {
	h.t.Helper()
	tok, _, err := h.Invite(role, name, uses, time.Hour)
	if err != nil {
		h.t.Fatal(err)
	}
	return tok
}

// join does what comms.ServeJoin does for a program that joins, and returns the serial number.
func (h *head) join(tok pki.Token, name string) (string, error) {
	role, err := h.Redeem(tok.ID, tok.Secret, name, pki.AnyBearer)
	if err != nil {
		return "", err
	}
	m, err := h.a.Enrol(role, name, func() time.Time { return h.now })
	if err != nil {
		h.t.Fatal(err)
	}
	serial, ok := new(big.Int).SetString(m.Serial(), 16)
	if !ok {
		h.t.Fatal(m.Serial())
	}
	return m.Serial(), h.Issued(m.Identity(), &x509.Certificate{SerialNumber: serial, NotAfter: m.Expires()})
}

func (h *head) must(serial string, err error) string {
	h.t.Helper()
	if err != nil {
		h.t.Fatal(err)
	}
	return serial
}

// states prints the members, one a word.
func (h *head) states() string {
	var out []string
	for _, r := range h.Rows(func(string) bool { return false }) {
		out = append(out, r.Role+"/"+r.Name+":"+r.State)
	}
	return strings.Join(out, " ")
}

func TestTokensAreSpentByGoodRequests(t *testing.T) {
	h := open(t)
	any2, named := h.token(pki.RoleAgent, "", 2), h.token(pki.RoleAgent, "a7", 1)
	guessed := any2
	guessed.Secret[0]++
	h.must(h.join(any2, "a1"))
	for _, c := range []struct {
		name string
		tok  pki.Token
		as   string
		want error
	}{
		{"a wrong secret", guessed, "a2", pki.ErrTokenUnknown},
		{"the name of a living agent", any2, "a1", pki.ErrNameTaken},
		{"another's token", named, "a8", pki.ErrTokenName},
	} {
		if _, err := h.join(c.tok, c.as); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", c.name, err, c.want)
		}
	}
	h.must(h.join(any2, "a2")) // nothing was spent meanwhile
	if _, err := h.join(any2, "a3"); !errors.Is(err, pki.ErrTokenUnknown) {
		t.Errorf("a third use of two: %v", err)
	}
	h.stop() // what is spent stays spent
	h.start()
	if _, err := h.join(any2, "a3"); !errors.Is(err, pki.ErrTokenUnknown) {
		t.Errorf("a third use after a restart: %v", err)
	}
	h.must(h.join(named, "a7"))
	if got := h.states(); got != "agent/a1:valid agent/a2:valid agent/a7:valid" {
		t.Error(got)
	}
	late := h.token(pki.RoleAgent, "", 1)
	h.now = h.now.Add(2 * time.Hour)
	if _, err := h.join(late, "a9"); !errors.Is(err, pki.ErrTokenExpired) {
		t.Errorf("an old token: %v", err)
	}
}

// A token for a name replaces the agent of that name; people may have several
// certificates, but nobody gets a name that is another's.
func TestNames(t *testing.T) {
	h := open(t)
	first := h.must(h.join(h.token(pki.RoleAgent, "a1", 1), "a1"))
	second := h.must(h.join(h.token(pki.RoleAgent, "a1", 1), "a1"))
	if !h.Revoked(first) || h.Revoked(second) {
		t.Error("the first certificate is to be refused, and not the second")
	}
	h.must(h.join(h.token(pki.RoleSubmit, "anna", 1), "anna"))
	h.must(h.join(h.token(pki.RoleObserve, "anna", 1), "anna"))
	if _, err := h.join(h.token(pki.RoleSubmit, "", 1), "anna"); !errors.Is(err, pki.ErrNameTaken) {
		t.Errorf("anna's name by a token for anybody: %v", err)
	}
	if _, err := h.join(h.token(pki.RoleObserve, "", 1), "anna"); !errors.Is(err, pki.ErrNameTaken) {
		t.Errorf("anna's name by a token for anybody: %v", err)
	}
	h.must(h.join(h.token(pki.RoleAgent, "", 1), "anna")) // an agent is no person
	want := "agent/a1:revoked agent/a1:valid agent/anna:valid observe/anna:valid submit/anna:valid"
	if got := h.states(); got != want && got != strings.Replace(want, "agent/a1:revoked agent/a1:valid", "agent/a1:valid agent/a1:revoked", 1) {
		t.Error(got)
	}
	if _, _, err := h.Invite(pki.RoleController, "c", 1, time.Hour); !errors.Is(err, members.ErrInvalid) {
		t.Errorf("a token for a controller: %v", err)
	}
	if _, _, err := h.Invite(pki.RoleAgent, "a b", 1, time.Hour); !errors.Is(err, members.ErrInvalid) {
		t.Errorf("a token for a name that cannot be: %v", err)
	}
}

func TestRevocation(t *testing.T) {
	h := open(t)
	a1 := h.must(h.join(h.token(pki.RoleAgent, "a1", 1), "a1"))
	a2 := h.must(h.join(h.token(pki.RoleAgent, "a2", 1), "a2"))
	tok := h.token(pki.RoleAgent, "a1", 1)
	other := h.token(pki.RoleAgent, "", 1)
	if n, err := h.Revoke(pki.RoleAgent, "a1", ""); n != 2 || err != nil {
		t.Errorf("a certificate and a token: %d, %v", n, err)
	}
	if _, err := h.join(tok, "a1"); !errors.Is(err, pki.ErrTokenUnknown) {
		t.Errorf("a void token: %v", err)
	}
	if n, err := h.Revoke("", "", a2); n != 1 || err != nil {
		t.Errorf("by serial number: %d, %v", n, err)
	}
	if n, err := h.Revoke("", "", h.Tokens()[0].ID); n != 1 || err != nil {
		t.Errorf("a token: %d, %v", n, err)
	}
	if _, err := h.join(other, "a4"); !errors.Is(err, pki.ErrTokenUnknown) {
		t.Errorf("a void token: %v", err)
	}
	for _, c := range [][3]string{{"agent", "a1", ""}, {"agent", "nobody", ""}, {"", "", "ff"}} {
		if _, err := h.Revoke(pki.Role(c[0]), c[1], c[2]); !errors.Is(err, members.ErrUnknown) {
			t.Errorf("revoke %v: %v", c, err)
		}
	}
	h.token(pki.RoleSubmit, "carl", 1)
	if _, err := h.Revoke(pki.RoleAgent, "carl", ""); !errors.Is(err, members.ErrUnknown) || !strings.Contains(err.Error(), "carl is no agent; say --role submit") {
		t.Errorf("a person in place of a host: %v", err)
	}
	h.stop()
	h.start()
	if !h.Revoked(a1) || !h.Revoked(a2) || len(h.Serials()) != 2 {
		t.Errorf("after a restart %v are revoked", h.Serials())
	}
	id := pki.Identity{Cluster: "ours", Role: pki.RoleAgent, Name: "a1"}
	if _, err := h.Renew(id, a1, nil); !errors.Is(err, pki.ErrRevoked) {
		t.Errorf("a revoked member renews: %v", err)
	}
	h.must(h.join(h.token(pki.RoleAgent, "", 1), "a1")) // the name is free
	h.now = h.now.Add(pki.MemberLife + time.Hour)
	if err := h.Expire(); err != nil || len(h.Serials()) != 0 || h.states() != "" || len(h.Tokens()) != 0 {
		t.Errorf("in the end there are %q, %v, %v", h.states(), h.Tokens(), err)
	}
}

func TestRenewal(t *testing.T) {
	h := open(t)
	m, err := h.a.Enrol(pki.RoleAgent, "a1", func() time.Time { return h.now })
	if err != nil {
		t.Fatal(err)
	}
	r, err := m.BeginRenewal()
	if err != nil {
		t.Fatal(err)
	}
	der, err := h.Renew(m.Identity(), m.Serial(), r.Request())
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Finish(der); err != nil {
		t.Fatal(err)
	}
	if rows := h.Rows(func(serial string) bool { return serial == m.Serial() }); len(rows) != 1 || rows[0].State != "connected" ||
		rows[0].Expires != m.Expires().Format(time.RFC3339) {
		t.Errorf("known are %+v", rows)
	}
	if _, err := h.Renew(m.Identity(), m.Serial(), []byte("nonsense")); err == nil {
		t.Error("nonsense was signed")
	}
}

// A full disk refuses, and spends nothing.
func TestFullDisk(t *testing.T) {
	h := open(t)
	tok := h.token(pki.RoleAgent, "", 1)
	h.stop()
	s := &full{}
	m, err := members.Open(h.a, s, func() time.Time { return h.now })
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := m.Invite(pki.RoleAgent, "", 1, time.Hour); !errors.Is(err, gcs.ErrNoSpace) || len(m.Tokens()) != 0 {
		t.Errorf("a token on a full disk: %v, %v", err, m.Tokens())
	}
	h.start()
	h.must(h.join(tok, "a1"))
}

type full struct {
	members.Store
}

func (*full) Tokens() ([]pki.Grant, error)                    { return nil, nil }
func (*full) Members() ([]gcs.Member, error)                  { return nil, nil }
func (*full) PutToken(_ pki.Grant, done func(error))          { done(gcs.ErrNoSpace) }
func (*full) PutMembers(_ []gcs.Member, done func(err error)) { done(gcs.ErrNoSpace) }
