package cascade

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/comms/pki"
	"github.com/cascade-run/cascade/dag"
	"github.com/cascade-run/cascade/internal/safedir"
)

// Where this user's certificates are: a folder for each cluster, of mode 0700, with
// the certificate and the address at which the cluster was joined.
//
//	$XDG_CONFIG_HOME/cascade/clusters/hpc/{ca.crt,member.pem,address}
const addressFile = "address"

// clustersFolder is where a user's certificates are.
func clustersFolder() (string, error) {
	config, err := os.UserConfigDir()
	if err != nil {
		return "", fmt.Errorf("find the folder of certificates: %w", err)
	}
	return filepath.Join(config, "cascade", "clusters"), nil
}

// RememberCluster makes address what Dial connects to for the cluster's name. It
// returns the folder of this user's certificate for that cluster.
func RememberCluster(name, address string) (dir string, err error) {
	base, err := clustersFolder()
	if err != nil {
		return "", err
	}
	dir = filepath.Join(base, name)
	if err := safedir.Own(dir); err != nil {
		return "", fmt.Errorf("remember cluster %s: %w", name, err)
	}
	if err := os.WriteFile(filepath.Join(dir, addressFile), []byte(address+"\n"), 0o600); err != nil {
		return "", fmt.Errorf("remember cluster %s: %w", name, err)
	}
	return dir, nil
}

// JoinCluster makes this user a member of the cluster whose controller listens at
// address (HOST, HOST:PORT or tcp://HOST:PORT), under the name, by a token. The
// certificate is kept in the user's folder, where Dial finds it; the cluster's name
// is returned, by which Dial knows it from now on.
func JoinCluster(ctx context.Context, address, token, name string) (cluster string, err error) {
	target, err := comms.TCPAddress(address)
	if err != nil {
		return "", fmt.Errorf("%w: join: %w", ErrBadRequest, err)
	}
	t, err := pki.ParseToken(token)
	if err != nil {
		return "", fmt.Errorf("%w: join: %w", ErrBadRequest, err)
	}
	m, err := comms.JoinCluster(ctx, strings.TrimPrefix(target, "tcp://"), t, name, pki.Person, time.Now)
	if err != nil {
		return "", err
	}
	id := m.Identity()
	if !id.Role.Client() {
		return "", fmt.Errorf("%w: join: the token is for the role %s: give it to cascade-agent --join %s --token TOKEN", ErrBadRequest, id.Role, address)
	}
	dir, err := RememberCluster(id.Cluster, target)
	if err != nil {
		return "", err
	}
	return id.Cluster, m.Save(dir)
}

// target is a resolved address.
type target struct {
	address string
	dir     string // of the certificate; "" none
}

// resolve finds what a user means by an address: one in full, the name of a
// cluster that was joined, or HOST[:PORT].
func resolve(ctx context.Context, to string, o *options) (target, error) {
	t := target{address: to, dir: o.credentials}
	base, baseErr := clustersFolder() // who names a socket in full needs no home
	if !strings.Contains(to, "://") {
		if baseErr != nil {
			return t, baseErr
		}
		known, err := os.ReadFile(filepath.Join(base, filepath.Base(to), addressFile))
		switch {
		case err == nil && filepath.Base(to) == to:
			t.address = strings.TrimSpace(string(known))
			if t.dir == "" {
				t.dir = filepath.Join(base, to)
			}
		case err != nil && !errors.Is(err, fs.ErrNotExist):
			return t, err
		default:
			var err error
			if t.address, err = comms.TCPAddress(to); err != nil {
				return t, err
			}
			if err := checkName(ctx, base, to); err != nil {
				return t, err
			}
		}
	}
	endpoints, err := comms.ParseAddress(t.address)
	if err != nil {
		return t, err
	}
	tcp := slices.IndexFunc(endpoints, func(e comms.Endpoint) bool { return e.Scheme == "tcp" })
	switch {
	case tcp < 0 || o.insecure:
		t.dir = ""
	case t.dir == "" && baseErr != nil:
		return t, baseErr
	case t.dir == "":
		t.dir, err = certificateFor(base, endpoints[tcp].String())
	}
	return t, err
}

// checkName says which clusters there are when a plain word is neither one of them nor a
// host. Names with a domain or port are meant as hosts: connecting to them tells enough.
func checkName(ctx context.Context, base, name string) error {
	if strings.ContainsAny(name, ".:") {
		return nil
	}
	_, err := net.DefaultResolver.LookupHost(ctx, name)
	if err == nil {
		return nil
	}
	entries, readErr := os.ReadDir(base)
	if readErr != nil && !errors.Is(readErr, fs.ErrNotExist) {
		return readErr
	}
	var joined []string
	for _, e := range entries {
		if _, err := os.Stat(filepath.Join(base, e.Name(), addressFile)); err == nil {
			joined = append(joined, e.Name())
		}
	}
	hint := "none was joined: cascade cluster join HOST --token TOKEN"
	if len(joined) > 0 {
		hint = "joined are " + strings.Join(joined, ", ")
		if near := dag.DidYouMean(name, joined); near != "" {
			hint += "; " + near
		}
	}
	err = fmt.Errorf("no cluster %q was joined (%s), and as a host it is not found: %w", name, hint, err)
	var dns *net.DNSError
	if errors.As(err, &dns) && dns.IsNotFound {
		return fmt.Errorf("%w: %w", ErrBadRequest, err)
	}
	return err
}

// certificateFor finds the certificate of the cluster that was joined at the
// address, or of the only cluster there is.
func certificateFor(base, address string) (string, error) {
	entries, err := os.ReadDir(base)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	var all, names []string
	for _, e := range entries {
		dir := filepath.Join(base, e.Name())
		if _, err := os.Stat(filepath.Join(dir, "member.pem")); err != nil {
			continue
		}
		all, names = append(all, dir), append(names, e.Name())
		if known, err := os.ReadFile(filepath.Join(dir, addressFile)); err == nil && strings.TrimSpace(string(known)) == address {
			return dir, nil
		}
	}
	switch len(all) {
	case 0:
		host := strings.TrimPrefix(address, "tcp://")
		return "", fmt.Errorf("%w: there is no certificate for %s: join its cluster by `cascade cluster join %s --token TOKEN`; an admin makes the token: `cascade cluster user NAME`", ErrDenied, address, host)
	case 1:
		return all[0], nil
	}
	return "", fmt.Errorf("%w: which certificate is for %s? Say the cluster's name instead (%s), or the folder (CASCADE_CREDENTIALS)", ErrBadRequest, address, strings.Join(names, ", "))
}

// prove loads the certificate of a target into the options.
func (o *options) prove(t target) error {
	if t.dir == "" {
		return nil
	}
	m, err := pki.LoadMember(t.dir, time.Now)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrDenied, err)
	}
	o.credentials, o.member = t.dir, m
	return nil
}

// security is what links to a peer of the role need.
func (o *options) security(role pki.Role) *comms.Security {
	if o.member == nil || o.insecure {
		return nil
	}
	return &comms.Security{Member: o.member, Expect: []pki.Role{role}}
}

// Renew renews this user's certificate, which otherwise happens by itself in the
// last third of its life, whenever a client is connected.
func (c *Client) Renew(ctx context.Context) error {
	m := c.opts.member
	if m == nil {
		return fmt.Errorf("%w: renew: this client has no certificate", ErrBadRequest)
	}
	r, err := m.BeginRenewal()
	if err != nil {
		return err
	}
	answer, err := c.ctrl.requests.one(ctx, func(req uint64) comms.Message { return &comms.Renew{Req: req, Request: r.Request()} })
	if err != nil {
		return fmt.Errorf("renew the certificate: %w", err)
	}
	renewed, ok := answer.(*comms.Renewed)
	if !ok {
		return fmt.Errorf("renew the certificate: unexpected answer %T", answer)
	}
	if err := r.Finish(renewed.Certificate); err != nil {
		return err
	}
	return m.Save(c.opts.credentials)
}

const (
	renewNow   = 5 * time.Second // that a connect may wait for a renewal
	renewAgain = time.Hour       // between attempts that fail
	renewPause = time.Second     // between two renewals, however short certificates last
)

// keepCertificate renews the certificate while the client lives.
func (c *Client) keepCertificate() {
	p, m := c.ctrl, c.opts.member
	for pause := renewPause; ; {
		wait := time.NewTimer(max(time.Until(m.RenewAt()), pause))
		select {
		case <-wait.C:
		case <-p.life.Done():
			wait.Stop()
			return
		}
		ctx, cancel := context.WithTimeout(p.life, renewNow)
		err := c.Renew(ctx)
		cancel()
		pause = renewPause
		if err != nil {
			c.opts.log.Warn().Err(err).Time("expires", m.Expires()).Msg("the certificate is not renewed")
			pause = renewAgain
		}
	}
}

// Invite has a token made by which others join the cluster; only an admin may. An
// empty name lets who joins choose one.
func (c *Client) Invite(ctx context.Context, role, name string, uses int, life time.Duration) (token string, expires time.Time, err error) {
	if uses < 1 || life < 0 {
		return "", expires, fmt.Errorf("%w: a token for %d uses and %v", ErrBadRequest, uses, life)
	}
	answer, err := c.ctrl.requests.one(ctx, func(req uint64) comms.Message {
		return &comms.Invite{Req: req, Role: role, Name: name, Uses: uint32(uses), Life: int64(life)}
	})
	if err != nil {
		return "", expires, fmt.Errorf("make a token: %w", err)
	}
	i, ok := answer.(*comms.Invitation)
	if !ok {
		return "", expires, fmt.Errorf("make a token: unexpected answer %T", answer)
	}
	return i.Token, time.Unix(0, i.Expires), nil
}

// Backup has the controller write a backup of its store and of its authority's key
// to a file of its own host, an absolute path. It must be asked over its Unix socket.
func (c *Client) Backup(ctx context.Context, file string) error {
	_, err := c.ctrl.requests.one(ctx, func(req uint64) comms.Message { return &comms.Backup{Req: req, File: file} })
	return err
}

// Revoke ends memberships: of the role and name, or the one certificate or token
// that has the serial number; only an admin may. Their links end.
func (c *Client) Revoke(ctx context.Context, role, name, serial string) error {
	_, err := c.ctrl.requests.one(ctx, func(req uint64) comms.Message {
		return &comms.Revoke{Req: req, Role: role, Name: name, Serial: serial}
	})
	return err
}

// Drain has an agent leave the cluster, as SIGTERM to it does: what it has not begun
// goes to others at once, what only it has of datasets that are still needed moves,
// what runs there has the grace to end (0: what the agent was started with), and then
// it ends. Only an admin may. Drain returns when the agent was told.
func (c *Client) Drain(ctx context.Context, agent string, grace time.Duration, reason string) error {
	_, err := c.ctrl.requests.one(ctx, func(req uint64) comms.Message {
		return &comms.Drain{Req: req, Agent: agent, Grace: int64(grace), Reason: reason}
	})
	if err != nil {
		return fmt.Errorf("drain agent %s: %w", agent, err)
	}
	return nil
}
