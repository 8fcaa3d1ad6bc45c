//go:build linux

package hosts

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/rs/zerolog"

	"github.com/cascade-run/cascade"
	"github.com/cascade-run/cascade/agent"
	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/controller"
	"github.com/cascade-run/cascade/internal/testing/netlab"
)

// Config describes a cluster.
type Config struct {
	Hosts   int
	Rate    int64 // bits per second of each host's link, of which the controller is told; 0: as fast as it goes
	Untold  bool  // it is not: it has to find out
	CPU     int64 // of each agent, in thousandths; 0 means 1000
	Store   int64 // bytes of shared memory of each agent; 0 means 4 GiB
	Spread  bool  // jobs may be cut into fragments for several agents
	Durable bool  // an acknowledgement survives power loss
	Apart   bool  // no task is fused with another
}

// Cluster is a controller on the first of several hosts and an agent on each.
// Agent i is called "a", "b" and so on, and has as much as anybody wants of the
// resource "at_a", "at_b" and so on.
type Cluster struct {
	Client     *cascade.Client
	Controller *exec.Cmd
	Agents     []*exec.Cmd

	lab *netlab.Lab
	dir string
}

const (
	startUp = 30 * time.Second // for the daemons
	role    = "CASCADE_BENCHMARK_DAEMON"
)

// Name is that of agent i.
func Name(i int) string { return string(rune('a' + i)) }

// Open starts a cluster. Call Close in the end.
func Open(cfg Config) (c *Cluster, err error) {
	if cfg.Hosts < 1 || cfg.Hosts > 26 {
		return nil, fmt.Errorf("%d hosts: want 1 to 26", cfg.Hosts)
	}
	c = &Cluster{}
	defer func() {
		if err != nil {
			err = errors.Join(err, c.Close())
		}
	}()
	if c.dir, err = os.MkdirTemp("", "cascade-hosts-"); err != nil {
		return c, err
	}
	if c.lab, err = netlab.New(netlab.Config{Hosts: cfg.Hosts, Rate: cfg.Rate}); err != nil {
		return c, err
	}
	address := fmt.Sprintf("tcp://%s:7420", c.lab.Host(0).Addr())
	socket := "ipc://" + filepath.Join(c.dir, "controller.sock")
	c.Controller, err = c.start(0, &daemon{Address: socket + "," + address, State: filepath.Join(c.dir, "controller"), Config: cfg})
	if err != nil {
		return c, err
	}
	ctx, stop := context.WithTimeout(context.Background(), startUp)
	defer stop()
	for c.Client == nil {
		if c.Client, err = cascade.Dial(ctx, socket); err != nil && ctx.Err() != nil {
			return c, err
		}
	}
	for i := range cfg.Hosts {
		a, err := c.start(i, &daemon{Name: Name(i), Address: address, State: filepath.Join(c.dir, Name(i)),
			Listen: fmt.Sprintf("tcp://%s:7421", c.lab.Host(i).Addr()), Config: cfg})
		if err != nil {
			return c, err
		}
		c.Agents = append(c.Agents, a)
	}
	return c, c.Client.Ready(ctx, cfg.Hosts)
}

// start starts this program as a daemon on a host.
func (c *Cluster) start(host int, d *daemon) (*exec.Cmd, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(d)
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), role+"="+string(text))
	cmd.Stderr = os.Stderr
	if err := c.lab.Host(host).Start(cmd); err != nil {
		return nil, fmt.Errorf("start a daemon on host %d: %w", host, err)
	}
	return cmd, nil
}

// Close ends the daemons, agents first, and removes what they had.
func (c *Cluster) Close() (err error) {
	if c.Client != nil {
		err = c.Client.Close()
	}
	for _, p := range c.Agents {
		err = errors.Join(err, end(p))
	}
	if c.Controller != nil {
		err = errors.Join(err, end(c.Controller))
	}
	if c.lab != nil {
		err = errors.Join(err, c.lab.Close())
	}
	return errors.Join(err, os.RemoveAll(c.dir))
}

func end(p *exec.Cmd) error {
	return errors.Join(p.Process.Signal(syscall.SIGTERM), p.Wait())
}

// daemon is what this program is on a host: an agent, if it has a name.
type daemon struct {
	Name, Address, Listen, State string
	Config
}

// Main is the whole life of a process that Open has started. It returns in every other.
func Main() {
	text := os.Getenv(role)
	if text == "" {
		return
	}
	var d daemon
	err := errors.Join(json.Unmarshal([]byte(text), &d), os.Unsetenv(role))
	if err == nil {
		err = d.serve()
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "daemon %s: %v\n", d.Name, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// serve runs a daemon until it is told to end.
func (d *daemon) serve() error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	log := zerolog.New(os.Stderr).Level(zerolog.WarnLevel)
	if d.Name == "" {
		told := d.Rate
		if d.Untold {
			told = 0
		}
		c, err := controller.New(controller.Config{Address: d.Address, State: d.State, Spread: d.Spread, Sync: d.Durable, Network: told, InsecureTestNetwork: true, Log: log})
		if err != nil {
			return err
		}
		return errors.Join(c.Run(ctx), c.Close())
	}
	cfg := agent.Config{Name: d.Name, Controller: d.Address, Listen: d.Listen, State: d.State, CPU: d.CPU, Store: d.Store,
		Custom: []comms.Amount{{Name: "at_" + d.Name, N: 1_000_000}}, InsecureTestNetwork: true, Unfused: d.Apart, Log: log}
	if cfg.CPU == 0 {
		cfg.CPU = 1000
	}
	if cfg.Store == 0 {
		cfg.Store = 4 << 30
	}
	a, err := agent.New(cfg)
	if err != nil {
		return err
	}
	return errors.Join(a.Run(ctx), a.Close())
}
