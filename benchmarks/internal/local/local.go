package local

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/cascade-run/cascade"
	"github.com/cascade-run/cascade/agent"
	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/controller"
)

// Config says what a cluster has.
type Config struct {
	Agents int           // that are there at the start, at least 1
	Cores  int           // of each agent, which has as many executors
	Apart  bool          // no task is fused with another
	Memory int64         // bytes of shared memory of each agent; default 64 MiB
	Steal  time.Duration // as controller.Config.Steal
}

// Cluster is one that runs. Its agents are named a0, a1 and so on.
type Cluster struct {
	Client *cascade.Client

	cfg    Config
	dir    string
	net    *comms.Inproc
	agents int
	ends   []func() error
}

// Open starts a cluster and waits for its agents.
func Open(ctx context.Context, cfg Config) (_ *Cluster, err error) {
	cfg.Memory = cmp.Or(cfg.Memory, 64<<20)
	c := &Cluster{cfg: cfg, net: comms.NewInproc()}
	defer func() {
		if err != nil {
			err = errors.Join(err, c.Close())
		}
	}()
	if c.dir, err = os.MkdirTemp("", "cascade-local-"); err != nil {
		return nil, err
	}
	address := "ipc://" + filepath.Join(c.dir, "c.sock")
	ctrl, err := controller.New(controller.Config{Address: "inproc://controller," + address, State: filepath.Join(c.dir, "c"), Build: cascade.Version(),
		Spread: true, Steal: cfg.Steal, Inproc: c.net})
	if err != nil {
		return nil, err
	}
	c.ends = append(c.ends, serve(ctrl))
	for range cfg.Agents {
		if err = c.Join(); err != nil {
			return nil, err
		}
	}
	if c.Client, err = cascade.Dial(ctx, address); err != nil {
		return nil, err
	}
	return c, c.Client.Ready(ctx, cfg.Agents)
}

// Join starts one more agent. It does not wait until the controller knows it.
func (c *Cluster) Join() error {
	name := fmt.Sprint("a", c.agents)
	a, err := agent.New(agent.Config{Name: name, Controller: "inproc://controller", State: filepath.Join(c.dir, name), CPU: int64(c.cfg.Cores) * 1000,
		Store: c.cfg.Memory, Inproc: c.net, Unfused: c.cfg.Apart, Limits: agent.Limits{Executors: 2 * c.cfg.Cores}})
	if err != nil {
		return fmt.Errorf("start agent %s: %w", name, err)
	}
	c.agents++
	c.ends = append(c.ends, serve(a))
	return nil
}

// Close ends all, in the order that the last started goes first.
func (c *Cluster) Close() (err error) {
	if c.Client != nil {
		err = c.Client.Close()
	}
	for _, end := range slices.Backward(c.ends) {
		err = errors.Join(err, end())
	}
	return errors.Join(err, os.RemoveAll(c.dir))
}

// serve runs a part until the returned function ends it.
func serve(p interface {
	Run(context.Context) error
	Close() error
}) func() error {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- p.Run(ctx) }()
	return func() error {
		cancel()
		return errors.Join(<-done, p.Close())
	}
}
