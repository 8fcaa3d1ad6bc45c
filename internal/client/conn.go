package client

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/comms/pki"
	"github.com/cascade-run/cascade/internal/graphcache"
)

// Config says how a connection behaves.
type Config struct {
	Log         zerolog.Logger
	Inproc      *comms.Inproc
	Graphs      *graphcache.Graphs // of this process; nil without a cluster in it
	Insecure    bool               // plain TCP is permitted
	Local       bool               // the cluster is on this host alone
	Patience    time.Duration      // how long a broken link may take to come back
	Programs    []Binary           // beside the one that runs
	SendProgram bool               // this program goes with its jobs
	Build       string             // version of this program
	Credentials string             // folder of Member's certificate
	Member      *pki.Member        // nil: no certificate; Dial sets it
}

// Conn is a connection to one controller, and to the agents that hold datasets. Its methods
// may be called from any goroutine.
type Conn struct {
	opts    Config
	ctrl    *peer
	packed  packings
	program program
	sums    sums
	folder  folder
	mu      sync.Mutex
	agent   map[string]*peer // links to agents that hold datasets, by name and address
	failed  error            // the cluster has ended in this process: nothing will be answered
}

// Dial connects to a controller at an address, or by the name of a cluster that was joined. It
// renews the certificate while the connection lasts.
func Dial(ctx context.Context, address string, o Config) (*Conn, error) {
	t, err := resolve(ctx, address, &o)
	if err == nil {
		err = o.prove(t)
	}
	if err != nil {
		return nil, err
	}
	p, err := dialPeer(ctx, t.address, pki.RoleController, "", o)
	if err != nil {
		return nil, err
	}
	c := &Conn{opts: o, ctrl: p, agent: make(map[string]*peer)}
	if o.Member == nil {
		return c, nil
	}
	if time.Now().After(o.Member.RenewAt()) { // a command may end before anything happens beside it
		ctx, cancel := context.WithTimeout(ctx, renewNow)
		defer cancel()
		if err := c.Renew(ctx); err != nil {
			o.Log.Warn().Err(err).Time("expires", o.Member.Expires()).Msg("the certificate is not renewed")
		}
	}
	p.work.Go(c.keepCertificate)
	return c, nil
}

// Close ends the links. Jobs go on.
func (c *Conn) Close() error {
	c.mu.Lock()
	peers := []*peer{c.ctrl}
	for _, p := range c.agent {
		peers = append(peers, p)
	}
	c.agent = nil
	c.mu.Unlock()
	var errs []error
	for _, p := range peers {
		errs = append(errs, p.Close())
	}
	return errors.Join(errs...)
}

// GiveUp ends every request that waits, at the controller or an agent, and all
// later ones, with err.
func (c *Conn) GiveUp(err error) {
	c.ctrl.requests.fail(err)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.failed = err
	for _, p := range c.agent {
		p.requests.fail(err)
	}
}

// Go runs f beside the connection. Close ends f's context and waits for f.
func (c *Conn) Go(f func(ctx context.Context)) { c.ctrl.work.Go(func() { f(c.ctrl.life) }) }

// Ask sends the controller the request that build makes for a fresh number, and waits for its
// only answer. A Reply with a code is an error.
func (c *Conn) Ask(ctx context.Context, build func(req uint64) comms.Message) (comms.Message, error) {
	return c.ctrl.requests.one(ctx, build)
}

// Start sends the controller a request that has several answers.
func (c *Conn) Start(build func(req uint64) comms.Message) (*Request, error) {
	return c.ctrl.requests.start(build)
}

// Log returns the log of the connection.
func (c *Conn) Log() zerolog.Logger { return c.opts.Log }

// Secure returns the host and port at which the controller is reached by TLS, and what links
// to members of the role need; false when it is reached otherwise.
func (c *Conn) Secure() (hostPort string, security func(pki.Role) *comms.Security, ok bool) {
	host, ok := HostPort(strings.Split(c.ctrl.address, ","))
	return host, c.opts.security, ok && c.opts.Member != nil
}

// Identity is who this user is to the cluster; false when no certificate says so.
func (c *Conn) Identity() (id pki.Identity, ok bool) {
	if c.opts.Member == nil {
		return id, false
	}
	return c.opts.Member.Identity(), true
}
