package client

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

// target is a resolved address.
type target struct {
	address string
	dir     string // of the certificate; "" none
}

// resolve finds what a user means by an address: one in full, the name of a
// cluster that was joined, or HOST[:PORT].
func resolve(ctx context.Context, to string, o *Config) (target, error) {
	t := target{address: to, dir: o.Credentials}
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
	case tcp < 0 || o.Insecure:
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

// prove loads the certificate of a target into the Config.
func (o *Config) prove(t target) error {
	if t.dir == "" {
		return nil
	}
	m, err := pki.LoadMember(t.dir, time.Now)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrDenied, err)
	}
	o.Credentials, o.Member = t.dir, m
	return nil
}

// security is what links to a peer of the role need.
func (o *Config) security(role pki.Role) *comms.Security {
	if o.Member == nil || o.Insecure {
		return nil
	}
	return &comms.Security{Member: o.Member, Expect: []pki.Role{role}}
}

// Renew renews this user's certificate, which otherwise happens by itself in the
// last third of its life, whenever a client is connected.
func (c *Conn) Renew(ctx context.Context) error {
	m := c.opts.Member
	if m == nil {
		return fmt.Errorf("%w: renew: this client has no certificate: it is the controller's user on the controller's host and needs none", ErrBadRequest)
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
	return m.Save(c.opts.Credentials)
}

const (
	renewNow   = 5 * time.Second // that a connect may wait for a renewal
	renewAgain = time.Hour       // between attempts that fail
	renewPause = time.Second     // between two renewals, however short certificates last
)

// keepCertificate renews the certificate while the client lives.
func (c *Conn) keepCertificate() {
	p, m := c.ctrl, c.opts.Member
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
			c.opts.Log.Warn().Err(err).Time("expires", m.Expires()).Msg("the certificate is not renewed")
			pause = renewAgain
		}
	}
}
