package admin

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"time"

	"github.com/cascade-run/cascade"
	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/comms/pki"
	"github.com/cascade-run/cascade/internal/client"
)

// Gateway gives programs of this user that speak plain ZeroMQ, which has no TLS, a
// way into a cluster: a folder with the Unix socket controller.sock, and agent-NAME.sock
// for every agent. Its traffic has this user's identity and role.
type Gateway struct {
	client   *cascade.Client
	security func(pki.Role) *comms.Security
	dir      string
	life     context.Context // ends with Close
	end      context.CancelFunc
	work     sync.WaitGroup

	mu      sync.Mutex
	targets map[string]string       // host:port, by socket
	relays  map[string]*comms.Relay // by socket
}

// lookAgain is how often a gateway asks which agents there are.
const lookAgain = 5 * time.Second

// OpenGateway connects to a cluster as cascade.Dial does, by TLS, and opens the sockets in
// dir, which gets mode 0700.
func OpenGateway(ctx context.Context, address, dir string, opts ...cascade.Option) (*Gateway, error) {
	g, err := openGateway(ctx, address, dir, opts)
	if err != nil {
		return nil, fmt.Errorf("open a gateway to %s: %w", address, err)
	}
	return g, nil
}

func openGateway(ctx context.Context, address, dir string, opts []cascade.Option) (*Gateway, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	c, err := cascade.Dial(ctx, address, opts...)
	if err != nil {
		return nil, err
	}
	g := &Gateway{client: c, dir: dir, targets: map[string]string{}, relays: map[string]*comms.Relay{}}
	host, security, ok := c.Conn().Secure()
	g.security = security
	if !ok {
		return nil, errors.Join(fmt.Errorf("%w: a gateway leads to a cluster that is reached by TLS", cascade.ErrBadRequest), c.Close())
	}
	g.life, g.end = context.WithCancel(context.Background())
	err = g.relay(pki.RoleController, client.ControllerSocket, host)
	if err == nil {
		err = g.look(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, g.Close())
	}
	g.work.Go(g.keepLooking)
	return g, nil
}

// Address returns the address of the controller's socket.
func (g *Gateway) Address() string { return "ipc://" + filepath.Join(g.dir, client.ControllerSocket) }

// Close closes the sockets and what goes through them.
func (g *Gateway) Close() error {
	g.end()
	g.work.Wait()
	var all []error
	for _, r := range g.relays {
		all = append(all, r.Close())
	}
	return errors.Join(append(all, g.client.Close())...)
}

// relay opens a socket, or lets the one that is open lead to another place.
func (g *Gateway) relay(role pki.Role, socket, host string) error {
	g.mu.Lock()
	g.targets[socket] = host
	g.mu.Unlock()
	if g.relays[socket] != nil {
		return nil
	}
	r, err := comms.NewRelay(filepath.Join(g.dir, socket), g.security(role), func() string {
		g.mu.Lock()
		defer g.mu.Unlock()
		return g.targets[socket]
	}, g.client.Conn().Log())
	if err == nil {
		g.relays[socket] = r
	}
	return err
}

// look opens sockets to the agents that are there.
func (g *Gateway) look(ctx context.Context) error {
	agents, err := cascade.Rows[comms.AgentRow](ctx, g.client, comms.QueryAgents, comms.JobID{}, "")
	if err != nil {
		return err
	}
	for _, a := range agents {
		host, ok := client.HostPort(a.Addresses)
		if !ok || filepath.Base(a.Name) != a.Name {
			continue
		}
		if err := g.relay(pki.RoleAgent, client.AgentSocket(a.Name), host); err != nil {
			return err
		}
	}
	return nil
}

func (g *Gateway) keepLooking() {
	every := time.NewTicker(lookAgain)
	defer every.Stop()
	for {
		select {
		case <-every.C:
			if err := g.look(g.life); err != nil && g.life.Err() == nil {
				log := g.client.Conn().Log()
				log.Warn().Err(err).Msg("agents are not asked for")
			}
		case <-g.life.Done():
			return
		}
	}
}
