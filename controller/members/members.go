package members

import (
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/comms/pki"
	"github.com/cascade-run/cascade/controller/gcs"
)

// Store is where tokens and certificates are kept. Each done is called once.
type Store interface {
	Tokens() ([]pki.Grant, error)
	PutToken(g pki.Grant, done func(error))
	Members() ([]gcs.Member, error)
	PutMembers(ms []gcs.Member, done func(error))
	DropMembers(ms []gcs.Member, done func(error))
}

// Members is the register of a cluster. Its methods may be called from any
// goroutine; those that change something wait for the store.
type Members struct {
	authority *pki.Authority
	store     Store
	now       func() time.Time
	revoked   atomic.Pointer[map[string]struct{}] // serial numbers; replaced, never changed

	quit  chan struct{}
	ended sync.Once

	mu      sync.Mutex // held while the store commits: a token is not spent twice
	tokens  map[[8]byte]pki.Grant
	members map[string]gcs.Member // by serial number
}

// Errors of requests.
var (
	ErrUnknown = errors.New("no such member or token") // of Revoke
	ErrInvalid = errors.New("such a token cannot be")  // of Invite
)

// Open reads the register of the authority's cluster.
func Open(a *pki.Authority, s Store, now func() time.Time) (*Members, error) {
	m := &Members{authority: a, store: s, now: now, quit: make(chan struct{}), tokens: map[[8]byte]pki.Grant{}, members: map[string]gcs.Member{}}
	tokens, err := s.Tokens()
	if err != nil {
		return nil, fmt.Errorf("read the tokens: %w", err)
	}
	for _, g := range tokens {
		m.tokens[g.ID] = g
	}
	rows, err := s.Members()
	if err != nil {
		return nil, fmt.Errorf("read the members: %w", err)
	}
	for _, r := range rows {
		m.members[r.Serial] = r
	}
	m.publish()
	return m, nil
}

// Revoked tells whether a certificate is revoked. It does not wait.
func (m *Members) Revoked(serial string) bool {
	_, ok := (*m.revoked.Load())[serial]
	return ok
}

// Serials lists the serial numbers of revoked certificates, sorted.
func (m *Members) Serials() []string { return slices.Sorted(maps.Keys(*m.revoked.Load())) }

// publish makes what is revoked visible. m.mu is held, or m is not in use yet.
func (m *Members) publish() {
	revoked := map[string]struct{}{}
	for serial, r := range m.members {
		if r.Revoked != 0 {
			revoked[serial] = struct{}{}
		}
	}
	m.revoked.Store(&revoked)
}

// Close ends what waits for the store: a full disk may hold it up for longer than
// its process lives.
func (m *Members) Close() { m.ended.Do(func() { close(m.quit) }) }

// wait calls a method of the store and returns what it says in the end.
func (m *Members) wait(f func(done func(error))) error {
	done := make(chan error, 1)
	f(func(err error) { done <- err })
	select {
	case err := <-done:
		return err
	case <-m.quit:
		return gcs.ErrClosed
	}
}

// put stores a token and then knows it. m.mu is held.
func (m *Members) put(g pki.Grant) error {
	if err := m.wait(func(done func(error)) { m.store.PutToken(g, done) }); err != nil {
		return fmt.Errorf("store a token: %w", err)
	}
	m.tokens[g.ID] = g
	if g.Uses < 1 {
		delete(m.tokens, g.ID)
	}
	return nil
}

// note stores certificates and then knows them. m.mu is held.
func (m *Members) note(rows ...gcs.Member) error {
	if len(rows) == 0 {
		return nil
	}
	if err := m.wait(func(done func(error)) { m.store.PutMembers(rows, done) }); err != nil {
		return fmt.Errorf("store a certificate's record: %w", err)
	}
	for _, r := range rows {
		m.members[r.Serial] = r
	}
	m.publish()
	return nil
}

// Invite makes a token.
func (m *Members) Invite(role pki.Role, name string, uses int, life time.Duration) (pki.Token, time.Time, error) {
	expires := m.now().Add(life)
	if role == pki.RoleController {
		return pki.Token{}, expires, fmt.Errorf("%w: a controller needs none, it has the authority's key", ErrInvalid)
	}
	t, g, err := m.authority.NewToken(role, name, uses, expires)
	if err != nil {
		return t, expires, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return t, expires, m.put(g)
}

// Redeem implements pki.Register.
func (m *Members) Redeem(id [8]byte, secret [16]byte, name string, as pki.Bearer) (pki.Role, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	g, ok := m.tokens[id]
	if !ok {
		return "", pki.ErrTokenUnknown
	}
	next, err := g.Redeem(secret, name, as, m.now())
	if err != nil {
		return "", err
	}
	if g.Name == "" && len(m.living(g.Role, name)) > 0 {
		return "", pki.ErrNameTaken
	}
	return next.Role, m.put(next)
}

// living lists the certificates that are good under a role's name. To people of
// whatever role a name is theirs.
func (m *Members) living(role pki.Role, name string) (rows []gcs.Member) {
	for _, r := range m.members {
		if r.Name == name && (r.Role == role || r.Role.Client() && role.Client()) && r.Revoked == 0 && r.Expires > m.now().UnixNano() {
			rows = append(rows, r)
		}
	}
	return rows
}

func (m *Members) row(id pki.Identity, cert *x509.Certificate) gcs.Member {
	return gcs.Member{Serial: pki.Serial(cert), Role: id.Role, Name: id.Name, Issued: m.now().UnixNano(), Expires: cert.NotAfter.UnixNano()}
}

// Issued implements pki.Register. An agent that joins takes the place of an
// earlier one of its name, whose certificates are revoked: only a token for that
// name leads here while there is one.
func (m *Members) Issued(id pki.Identity, cert *x509.Certificate) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	rows := []gcs.Member{m.row(id, cert)}
	if id.Role == pki.RoleAgent {
		rows = append(rows, m.revoke(m.living(id.Role, id.Name))...)
	}
	return m.note(rows...)
}

func (m *Members) revoke(rows []gcs.Member) []gcs.Member {
	for i := range rows {
		rows[i].Revoked = m.now().UnixNano()
	}
	return rows
}

// Renew signs a new certificate for a member whose present one has the serial number.
func (m *Members) Renew(id pki.Identity, serial string, request []byte) ([]byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.Revoked(serial) {
		return nil, pki.ErrRevoked
	}
	der, err := m.authority.Renew(request, id, m.now())
	if err != nil {
		return nil, err
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("renew for %s: %w", id, err)
	}
	return der, m.note(m.row(id, cert))
}

// Revoke refuses from now on the certificates that have the serial number, or
// else the role and the name, and voids the tokens for those. It returns how many
// there were; none is ErrUnknown.
func (m *Members) Revoke(role pki.Role, name, serial string) (int, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var rows []gcs.Member
	var tokens []pki.Grant
	for _, r := range m.members {
		if r.Revoked == 0 && (serial != "" && r.Serial == serial || serial == "" && r.Role == role && r.Name == name) {
			rows = append(rows, r)
		}
	}
	for _, g := range m.tokens {
		if serial != "" && hex.EncodeToString(g.ID[:]) == serial || serial == "" && g.Role == role && g.Name == name {
			g.Uses = 0
			tokens = append(tokens, g)
		}
	}
	if len(rows)+len(tokens) == 0 {
		return 0, m.unknown(role, name)
	}
	for _, g := range tokens {
		if err := m.put(g); err != nil {
			return 0, err
		}
	}
	return len(rows) + len(tokens), m.note(m.revoke(rows)...)
}

// unknown says as what else a name is known. m.mu is held.
func (m *Members) unknown(role pki.Role, name string) error {
	roles := map[pki.Role]bool{}
	for _, r := range m.members {
		if name != "" && r.Name == name && r.Revoked == 0 {
			roles[r.Role] = true
		}
	}
	for _, g := range m.tokens {
		if name != "" && g.Name == name && g.Uses > 0 {
			roles[g.Role] = true
		}
	}
	var hints []string
	for _, r := range slices.Sorted(maps.Keys(roles)) {
		hints = append(hints, fmt.Sprintf("--role %s", r))
	}
	if len(hints) == 0 {
		return ErrUnknown
	}
	return fmt.Errorf("%w: %s is no %s; say %s", ErrUnknown, name, role, strings.Join(hints, " or "))
}

// Expire forgets tokens and certificates whose time is over.
func (m *Members) Expire() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.now().UnixNano()
	for _, g := range m.tokens {
		if g.Expires <= now {
			g.Uses = 0
			if err := m.put(g); err != nil {
				return err
			}
		}
	}
	var old []gcs.Member
	for _, r := range m.members {
		if r.Expires <= now {
			old = append(old, r)
		}
	}
	if len(old) == 0 {
		return nil
	}
	if err := m.wait(func(done func(error)) { m.store.DropMembers(old, done) }); err != nil {
		return fmt.Errorf("forget certificates that have expired: %w", err)
	}
	for _, r := range old {
		delete(m.members, r.Serial)
	}
	m.publish()
	return nil
}

// Rows lists the certificates that have not expired, by role and name.
func (m *Members) Rows(connected func(serial string) bool) (rows []comms.MemberRow) {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := slices.SortedFunc(maps.Values(m.members), func(a, b gcs.Member) int {
		return strings.Compare(string(a.Role)+"/"+a.Name+"/"+stamp(a.Issued)+a.Serial, string(b.Role)+"/"+b.Name+"/"+stamp(b.Issued)+b.Serial)
	})
	for _, r := range all {
		state := "valid"
		switch {
		case r.Expires <= m.now().UnixNano():
			continue
		case r.Revoked != 0:
			state = "revoked"
		case connected(r.Serial):
			state = "connected"
		}
		rows = append(rows, comms.MemberRow{Role: string(r.Role), Name: r.Name, Serial: r.Serial, State: state, Issued: stamp(r.Issued), Expires: stamp(r.Expires)})
	}
	return rows
}

// Tokens lists the valid tokens, those that expire first before others.
func (m *Members) Tokens() (rows []comms.TokenRow) {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := slices.SortedFunc(maps.Values(m.tokens), func(a, b pki.Grant) int {
		return strings.Compare(stamp(a.Expires)+hex.EncodeToString(a.ID[:]), stamp(b.Expires)+hex.EncodeToString(b.ID[:]))
	})
	for _, g := range all {
		if g.Expires > m.now().UnixNano() {
			rows = append(rows, comms.TokenRow{ID: hex.EncodeToString(g.ID[:]), Role: string(g.Role), Name: g.Name, Uses: g.Uses, Expires: stamp(g.Expires)})
		}
	}
	return rows
}

func stamp(ns int64) string { return time.Unix(0, ns).UTC().Format(time.RFC3339) }
