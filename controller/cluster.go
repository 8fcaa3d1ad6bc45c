package controller

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"path/filepath"
	"time"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/comms/pki"
	"github.com/cascade-run/cascade/controller/core"
	"github.com/cascade-run/cascade/controller/gcs"
	"github.com/cascade-run/cascade/controller/members"
	"github.com/cascade-run/cascade/internal/safedir"
)

// cluster is what a controller with an authority of its own needs to admit others.
type cluster struct {
	authority *pki.Authority
	self      *pki.Member
	members   *members.Members
}

// authorityFolder is where the authority's key is.
func authorityFolder(state string) string { return filepath.Join(state, "pki") }

// openCluster reads the authority and the register of members, if there is an authority.
func (c *Controller) openCluster() error {
	a, err := pki.LoadAuthority(authorityFolder(c.cfg.State))
	if errors.Is(err, fs.ErrNotExist) {
		return c.cfg.needsAuthority()
	}
	if err != nil {
		return err
	}
	a.SetLife(c.cfg.CertificateLife)
	self, err := a.Enrol(pki.RoleController, c.cfg.Name, time.Now)
	if err != nil {
		return err
	}
	m, err := members.Open(a, c.store, time.Now)
	if err != nil {
		return err
	}
	c.cluster = &cluster{a, self, m}
	return nil
}

// needsAuthority refuses TCP without certificates.
func (cfg *Config) needsAuthority() error {
	endpoints, err := comms.ParseAddress(cfg.Address)
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	for _, e := range endpoints {
		if e.Scheme == "tcp" && !cfg.InsecureTestNetwork {
			return fmt.Errorf("listen on %s: TCP needs certificates, and %s has no authority to issue them: run `cascade cluster init --state %s` first "+
				"(--insecure-test-network permits plain TCP, for benchmarks on a network of your own only)", e, authorityFolder(cfg.State), cfg.State)
		}
	}
	return nil
}

// security is what TCP links need; nil when they are plain or refused.
func (c *Controller) security() *comms.Security {
	if c.cluster == nil || c.cfg.InsecureTestNetwork {
		return nil
	}
	return &comms.Security{Member: c.cluster.self, Revoked: c.cluster.members.Revoked, Join: c.join}
}

// join answers one who wants to become a member.
func (c *Controller) join(conn net.Conn) {
	from := conn.RemoteAddr().String()
	id, err := comms.ServeJoin(conn, c.cluster.authority, c.cluster.members, time.Now)
	line := c.audit.log.Log().Str("what", "join").Str("who", id.Name).Str("role", string(id.Role)).Str("from", from)
	if err != nil {
		c.counts.notJoined.Add(1)
		c.log.Warn().Err(err).Str("from", from).Msg("refused a request to join the cluster")
		line.Str("outcome", "refused: "+err.Error()).Send()
		return
	}
	c.counts.joined.Add(1)
	c.log.Info().Str("role", string(id.Role)).Str("name", id.Name).Str("from", from).Msg("a member joined")
	line.Str("outcome", "done").Send()
	if id.Role == pki.RoleAgent {
		c.recheck() // it may have taken the place of another
	}
}

// recheck ends the links of those who are revoked, and tells the agents. It may
// be called from any goroutine.
func (c *Controller) recheck() {
	c.links.Recheck(time.Now())
	c.done(tellRevoked{})
}

// tellRevoked tells every agent which certificates to refuse. c.turns is held.
func (c *Controller) tellRevoked() {
	m := &comms.Revoked{Serials: c.cluster.members.Serials()}
	for id, p := range c.peers {
		if p.who.Role == "agent" {
			c.local = append(c.local, linkSay{id: id, msg: m})
		}
	}
}

// upkeepMembers forgets what has expired and renews our own certificate.
func (c *Controller) upkeepMembers() error {
	if c.cluster == nil {
		return nil
	}
	c.links.Recheck(time.Now())
	err := c.cluster.members.Expire()
	if self := c.cluster.self; time.Now().After(self.RenewAt()) {
		err = errors.Join(err, c.renewSelf(self))
	}
	return err
}

func (c *Controller) renewSelf(self *pki.Member) error {
	r, err := self.BeginRenewal()
	if err != nil {
		return err
	}
	der, err := c.cluster.authority.Renew(r.Request(), self.Identity(), time.Now())
	if err != nil {
		return err
	}
	return r.Finish(der)
}

// permit tells whether a peer may send m, and answers it when it may not.
func (c *Controller) permit(id core.LinkID, l *comms.Link, m comms.Message) bool {
	p := l.Peer()
	if p.Role != "client" {
		c.counts.fromAgents.Add(1)
		return true // what an agent may send, the core knows
	}
	c.counts.fromClients.Add(1)
	err := comms.Permit(p, m)
	if err == nil && p.Grant == pki.RoleSubmit {
		err = c.own(p, m)
	}
	if err == nil {
		return true
	}
	c.counts.denied.Add(1)
	c.audit.by(p, "ask").Str("message", comms.NameOf(m)).Str("outcome", "refused: "+err.Error()).Send()
	req, numbered := comms.NumberOf(m)
	if !numbered {
		l.Abort(err)
		return false
	}
	c.say(id, &comms.Reply{Req: req, Code: comms.CodeDenied, Message: err.Error()})
	return false
}

// own makes a submitter's jobs its own, and refuses that it steers others' jobs.
func (c *Controller) own(p comms.Identity, m comms.Message) error {
	switch m := m.(type) {
	case *comms.Submit:
		m.Tenant = p.Holder
	case *comms.Control:
		row, err := c.store.Job(m.Job)
		if err == nil && row.Tenant != p.Holder {
			return fmt.Errorf("%w: job %s belongs to %s: only that tenant or an admin may do that", comms.ErrDenied, m.Job, row.Tenant)
		}
		if err != nil && !errors.Is(err, gcs.ErrNotFound) { // of one that is not stored yet the core knows the owner
			return err
		}
	}
	return nil
}

// say sends a message of the driver's own.
func (c *Controller) say(id core.LinkID, m comms.Message) { c.inbox.Offer(linkSay{id: id, msg: m}) }

// member does beside the loop what concerns members.
func (c *Controller) member(id core.LinkID, l *comms.Link, m comms.Message) {
	p := l.Peer()
	serial, _ := l.Credential()
	c.slow(func() {
		req, _ := comms.NumberOf(m)
		answer, err := c.memberAnswer(p, serial, m)
		if err != nil {
			answer = &comms.Reply{Req: req, Code: codeOf(err), Message: err.Error()}
		}
		c.done(linkSay{id: id, msg: answer})
	})
}

// defaultInvite is how long a token is good by default.
const defaultInvite = time.Hour

func (c *Controller) memberAnswer(p comms.Identity, serial string, m comms.Message) (comms.Message, error) {
	if b, ok := m.(*comms.Backup); ok {
		return c.backup(p, b)
	}
	if s, ok := m.(*comms.SetProfiles); ok {
		return c.setProfiles(p, s)
	}
	if c.cluster == nil {
		return nil, &badRequest{fmt.Sprintf("this controller has no authority and so no members: stop it and run `cascade cluster init --state %s`", c.cfg.State)}
	}
	switch m := m.(type) {
	case *comms.Invite:
		return c.invite(p, m)
	case *comms.Revoke:
		return c.revoke(p, m)
	case *comms.Renew:
		return c.renew(p, serial, m)
	case *comms.Query:
		return c.memberPage(m)
	}
	return nil, fmt.Errorf("no answer to a %T", m)
}

func (c *Controller) backup(p comms.Identity, m *comms.Backup) (comms.Message, error) {
	var err error
	if p.Holder == "" {
		err = backup(c.cfg.State, c.store, m.File)
	} else {
		err = fmt.Errorf("%w: the backup is a file of the controller's host: ask for it there, over the Unix socket", comms.ErrDenied)
	}
	line := c.audit.by(p, "backup").Str("file", m.File)
	if err != nil {
		line.Str("outcome", "refused: "+err.Error()).Send()
		return nil, err
	}
	line.Str("outcome", "done").Send()
	return &comms.Reply{Req: m.Req}, nil
}

func (c *Controller) invite(p comms.Identity, m *comms.Invite) (comms.Message, error) {
	role, err := pki.ParseRole(m.Role)
	if err != nil {
		return nil, &badRequest{err.Error()}
	}
	life := time.Duration(m.Life)
	if life <= 0 {
		life = defaultInvite
	}
	t, expires, err := c.cluster.members.Invite(role, m.Name, int(max(m.Uses, 1)), life)
	line := c.audit.by(p, "token").Str("for_role", m.Role).Str("for_name", m.Name).Uint32("uses", max(m.Uses, 1)).Time("expires", expires)
	if err != nil {
		line.Str("outcome", "refused: "+err.Error()).Send()
		return nil, err
	}
	line.Hex("token", t.ID[:]).Str("outcome", "done").Send()
	return &comms.Invitation{Req: m.Req, Token: t.String(), Expires: expires.UnixNano()}, nil
}

func (c *Controller) revoke(p comms.Identity, m *comms.Revoke) (comms.Message, error) {
	if m.Serial == "" && (m.Role == "" || m.Name == "") {
		return nil, &badRequest{"revoke: say role and name, or a serial number"}
	}
	n, err := c.cluster.members.Revoke(pki.Role(m.Role), m.Name, m.Serial)
	line := c.audit.by(p, "revoke").Str("of_role", m.Role).Str("of_name", m.Name).Str("serial", m.Serial)
	if err != nil {
		line.Str("outcome", "refused: "+err.Error()).Send()
		return nil, fmt.Errorf("revoke: %w", err)
	}
	line.Int("ended", n).Str("outcome", "done").Send()
	c.recheck()
	return &comms.Reply{Req: m.Req}, nil
}

func (c *Controller) renew(p comms.Identity, serial string, m *comms.Renew) (comms.Message, error) {
	if serial == "" {
		return nil, &badRequest{"renew: this link has no certificate"}
	}
	id := pki.Identity{Cluster: c.cluster.authority.Cluster(), Role: p.Grant, Name: p.Holder}
	der, err := c.cluster.members.Renew(id, serial, m.Request)
	if err != nil {
		return nil, err
	}
	c.audit.by(p, "renew").Str("outcome", "done").Send()
	return &comms.Renewed{Req: m.Req, Certificate: der}, nil
}

func (c *Controller) memberPage(q *comms.Query) (comms.Message, error) {
	p, err := newPager(q)
	if err != nil {
		return nil, err
	}
	add := func(row any) bool { return p.add(func() any { return row }) }
	if q.Kind == comms.QueryTokens {
		for _, row := range c.cluster.members.Tokens() {
			if !add(&row) {
				break
			}
		}
		return &p.page, p.err
	}
	linked := c.links.Serials()
	for _, row := range c.cluster.members.Rows(func(serial string) bool { return linked[serial] }) {
		if !add(&row) {
			break
		}
	}
	return &p.page, p.err
}

// Founding says how a cluster begins.
type Founding struct {
	State  string        // folder of the controller, which does not run
	Name   string        // of the cluster
	Shards int           // of the store; default 2
	Uses   int           // how many agents the first token admits
	Life   time.Duration // of the first token
}

// ErrInvalid is what Found was told that cannot be.
var ErrInvalid = errors.New("such a cluster cannot be")

// Found makes the authority of a new cluster and the first token, for agents. Where
// there is one already the error matches fs.ErrExist, and where the name, the uses or
// the life of the token cannot be, ErrInvalid; then nothing is made.
func Found(f Founding) (t pki.Token, expires time.Time, err error) {
	t, expires, err = found(f)
	if err != nil {
		err = fmt.Errorf("make cluster %s in %s: %w", f.Name, f.State, err)
	}
	return t, expires, err
}

func found(f Founding) (t pki.Token, expires time.Time, err error) {
	if old, err := pki.LoadAuthority(authorityFolder(f.State)); !errors.Is(err, fs.ErrNotExist) {
		if err == nil {
			err = fmt.Errorf("cluster %s is there already: %w", old.Cluster(), fs.ErrExist)
		}
		return t, expires, err
	}
	if f.Uses < 1 || f.Life <= 0 {
		return t, expires, fmt.Errorf("%w: a token for %d uses and %v", ErrInvalid, f.Uses, f.Life)
	}
	a, err := pki.NewAuthority(f.Name, time.Now())
	if err != nil {
		return t, expires, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	if err := safedir.Own(f.State); err != nil {
		return t, expires, err
	}
	cfg := Config{State: f.State, Shards: f.Shards, Sync: true}
	store, err := gcs.Open(cfg.store(nil)) // refuses when a controller runs
	if err != nil {
		return t, expires, err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	m, err := members.Open(a, store, time.Now)
	if err != nil {
		return t, expires, err
	}
	if t, expires, err = m.Invite(pki.RoleAgent, "", f.Uses, f.Life); err != nil {
		return t, expires, err
	}
	// The authority comes last: an interrupted call can be repeated.
	return t, expires, a.Save(authorityFolder(f.State))
}
