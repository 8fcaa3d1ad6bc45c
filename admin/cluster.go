package admin

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/cascade-run/cascade"
	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/comms/pki"
	"github.com/cascade-run/cascade/internal/client"
)

// RememberCluster makes address what cascade.Dial connects to for the cluster's name. It
// returns the folder of this user's certificate for that cluster.
func RememberCluster(name, address string) (dir string, err error) {
	return client.RememberCluster(name, address)
}

// JoinCluster makes this user a member of the cluster whose controller listens at
// address (HOST, HOST:PORT or tcp://HOST:PORT), under the name, by a token. The
// certificate is kept in the user's folder, where cascade.Dial finds it; the cluster's name
// is returned, by which cascade.Dial knows it from now on.
func JoinCluster(ctx context.Context, address, token, name string) (cluster string, err error) {
	target, err := comms.TCPAddress(address)
	if err != nil {
		return "", fmt.Errorf("%w: join: %w", cascade.ErrBadRequest, err)
	}
	t, err := pki.ParseToken(token)
	if err != nil {
		return "", fmt.Errorf("%w: join: %w", cascade.ErrBadRequest, err)
	}
	m, err := comms.JoinCluster(ctx, strings.TrimPrefix(target, "tcp://"), t, name, pki.Person, time.Now)
	if err != nil {
		return "", err
	}
	id := m.Identity()
	if !id.Role.Client() {
		return "", fmt.Errorf("%w: join: the token is for the role %s: give it to cascade-agent --join %s --token TOKEN", cascade.ErrBadRequest, id.Role, address)
	}
	dir, err := RememberCluster(id.Cluster, target)
	if err != nil {
		return "", err
	}
	return id.Cluster, m.Save(dir)
}

// Renew renews this user's certificate, which otherwise happens by itself in the
// last third of its life, whenever a client is connected.
func Renew(ctx context.Context, c *cascade.Client) error { return c.Conn().Renew(ctx) }

// Invite has a token made by which others join the cluster; only an admin may. An
// empty name lets who joins choose one.
func Invite(ctx context.Context, c *cascade.Client, role, name string, uses int, life time.Duration) (token string, expires time.Time, err error) {
	if uses < 1 || life < 0 {
		return "", expires, fmt.Errorf("%w: a token for %d uses and %v", cascade.ErrBadRequest, uses, life)
	}
	answer, err := c.Conn().Ask(ctx, func(req uint64) comms.Message {
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
func Backup(ctx context.Context, c *cascade.Client, file string) error {
	_, err := c.Conn().Ask(ctx, func(req uint64) comms.Message { return &comms.Backup{Req: req, File: file} })
	return err
}

// Revoke ends memberships: of the role and name, or the one certificate or token
// that has the serial number; only an admin may. Their links end.
func Revoke(ctx context.Context, c *cascade.Client, role, name, serial string) error {
	_, err := c.Conn().Ask(ctx, func(req uint64) comms.Message {
		return &comms.Revoke{Req: req, Role: role, Name: name, Serial: serial}
	})
	return err
}

// Drain has an agent leave the cluster, as SIGTERM to it does: what it has not begun
// goes to others at once, what only it has of datasets that are still needed moves,
// what runs there has the grace to end (0: what the agent was started with), and then
// it ends. Only an admin may. Drain returns when the agent was told.
func Drain(ctx context.Context, c *cascade.Client, agent string, grace time.Duration, reason string) error {
	_, err := c.Conn().Ask(ctx, func(req uint64) comms.Message {
		return &comms.Drain{Req: req, Agent: agent, Grace: int64(grace), Reason: reason}
	})
	if err != nil {
		return fmt.Errorf("drain agent %s: %w", agent, err)
	}
	return nil
}
