//go:build linux

// Command cascade-agent is the daemon of one host: it runs tasks for a controller.
//
// The first SIGINT or SIGTERM ends it in good order: no task starts any more, and
// those that run have --drain to end. The second ends it at once, which kills its
// executors.
//
// Exit codes: 0 it was told to end; 2 bad input; 3 infrastructure, such as a
// controller that refuses the agent.
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/docker/go-units"
	"github.com/spf13/cobra"

	"github.com/cascade-run/cascade"
	"github.com/cascade-run/cascade/agent"
	"github.com/cascade-run/cascade/cmd/internal/amount"
	"github.com/cascade-run/cascade/cmd/internal/daemon"
	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/comms/pki"
	"github.com/cascade-run/cascade/executor"
	"github.com/cascade-run/cascade/internal/statedir"
)

func main() {
	executor.Main() // started again by the agent, this is the executor of tasks that name no environment
	daemon.KeepHeap(os.Getenv)
	os.Exit(run(os.Args[1:], os.Stdout, os.Stderr, daemon.Signals()))
}

func run(args []string, stdout, stderr io.Writer, signals <-chan os.Signal) int {
	return daemon.Execute(command(signals), args, stdout, stderr, agent.ErrConfig)
}

// flags is what the command line says.
type flags struct {
	cfg           agent.Config
	network       daemon.Network
	join, token   string
	metrics       string
	cpu           float64
	memory, store string
	minFree       string
	gpuMemory     string
	resources     map[string]string
	cacheLimit    string
	gangPorts     string
	executor      string
	verbose       int
}

func command(signals <-chan os.Signal) *cobra.Command {
	var f flags
	c := &cobra.Command{
		Use:   "cascade-agent --join HOST[:PORT] --token TOKEN | --controller ADDRESS",
		Short: "Run tasks on this host for a controller",
		Long: `Run tasks on this host for a controller: start executors, keep datasets in
shared memory, and spill them to disk when memory is short.

With --join the agent joins the cluster of the controller at HOST. The token is
used once. The certificate is kept in the state folder and renews itself; every
later start with the same command line uses it.

Exit codes: 0 stopped by a signal, 2 bad input, 3 infrastructure.`,
		Example: `  cascade-agent --join 10.0.0.1 --token cascade1.…
  cascade-agent --join 10.0.0.1 --cpu 16 --memory 64GiB --store 32GiB
  cascade-agent --controller ipc:///run/cascade/controller.sock`,
		RunE: func(c *cobra.Command, _ []string) error {
			cfg, err := f.config(c.ErrOrStderr())
			if err != nil {
				return daemon.Bad(err)
			}
			if err := f.enter(&cfg); err != nil {
				return err
			}
			return serve(cfg, f.metrics, signals)
		},
	}
	s := c.Flags()
	s.StringVar(&f.join, "join", "", "join the cluster of the controller at `HOST[:PORT]`, by TLS")
	s.StringVar(&f.token, "token", "", "join token, needed until there is a certificate; also CASCADE_TOKEN")
	s.StringVar(&f.cfg.Credentials, "credentials", "", "folder of the certificate (default pki in the state folder)")
	s.StringVar(&f.cfg.Controller, "controller", os.Getenv("CASCADE_TO"), "address of the controller, such as ipc:///run/cascade/controller.sock; also CASCADE_TO")
	s.StringVar(&f.cfg.Name, "name", "", "name of the agent, unique in the cluster (default the host's name)")
	s.StringVar(&f.cfg.State, "state", "", "state folder: logs, spilled datasets, certificate (default cascade/agent in $XDG_STATE_HOME)")
	s.StringVar(&f.cfg.Runtime, "runtime", "", "folder of sockets (default run in the state folder)")
	s.StringVar(&f.cfg.Cache, "cache", "", "folder of built environments (default cascade/environments in $XDG_CACHE_HOME or ~/.cache)")
	s.StringVar(&f.cfg.Plugins, "plugins", "", "folder of environment plugins (default cascade/plugins in $XDG_CONFIG_HOME or ~/.config)")
	s.StringVar(&f.cacheLimit, "cache-limit", "", "maximum size of each kind of built environment (default 10GiB)")
	f.network.Flags(c, "additional listen address for clients and agents, such as tcp://10.0.0.5:20000-20100 (default with --join: this host's address towards the controller)",
		"network interface or address of this host on which to listen by TCP", "port, or range of which the first free port is used (default any)")
	s.Float64Var(&f.cpu, "cpu", 0, "cores that tasks may use (default all that are available to this process)")
	s.IntVar(&f.cfg.GPUs, "gpus", 0, "number of GPUs that tasks may use (default as detected, negative none)")
	s.IntVar(&f.cfg.GPUs, "gpu", 0, "")
	if err := s.MarkDeprecated("gpu", "use --gpus, a number of whole GPUs"); err != nil {
		panic(err) // it was defined just now
	}
	s.StringVar(&f.gpuMemory, "gpu-memory", "", "memory of each GPU, such as 40GiB (default as the driver reports)")
	s.StringSliceVar(&f.cfg.Show, "show-in-containers", nil, "`path` of this host to mount into containers, such as a GPU driver library; repeatable")
	s.StringToStringVar(&f.resources, "resource", nil, "custom resource that tasks may use, `NAME=AMOUNT`, such as licence=2; repeatable")
	s.StringVar(&f.memory, "memory", "", "private memory that tasks may use, such as 8GiB (default the host's memory less --store)")
	s.StringVar(&f.store, "store", "", "shared memory for datasets, such as 4GiB (default 30 % of the host's memory)")
	s.StringVar(&f.minFree, "min-free", "", "free disk space to leave: logs and environments leave 1.5 times as much, spilled datasets twice; set it to --min-free of a controller on the same disk (default 256MiB)")
	s.StringVar(&f.gangPorts, "gang-ports", "27000-28999", "port range for members of gangs, one port each")
	s.IntVar(&f.cfg.Warm, "warm", 0, "number of executors to start before the first task (default one per core, negative none)")
	amount.Duration(s, &f.cfg.Silence, "silence", 0, daemon.SilenceHelp)
	amount.Duration(s, &f.cfg.Drain, "drain", 10*time.Second, "time for running tasks to finish when the agent is stopped; the others run again elsewhere or later")
	amount.Duration(s, &f.cfg.ForwardAfter, "forward", 20*time.Millisecond, "how long calls of tasks wait here before they are forwarded to other agents; negative: never")
	s.StringVar(&f.executor, "executor", "", "command line of executors, split at spaces (default this program)")
	s.StringVar(&f.metrics, "metrics", "", daemon.MetricsHelp)
	s.BoolVar(&f.cfg.Unfused, "no-fusion", false, "dispatch each task separately, when its inputs are published (slower; for debugging)")
	s.CountVarP(&f.verbose, "verbose", "v", "log more")
	s.BoolVar(&f.cfg.InsecureTestNetwork, "insecure-test-network", false, "permit plain TCP without certificates; only for benchmarks on a private network")
	return c
}

func (f *flags) config(stderr io.Writer) (agent.Config, error) {
	cfg := f.cfg
	var minFree int64
	cfg.Build = cascade.Version()
	cfg.CPU = int64(f.cpu * 1000)
	cfg.Executor = strings.Fields(f.executor)
	for _, size := range []struct {
		flag, text string
		to         *int64
	}{{"memory", f.memory, &cfg.Memory}, {"store", f.store, &cfg.Store}, {"gpu-memory", f.gpuMemory, &cfg.GPUMem}, {"min-free", f.minFree, &minFree}, {"cache-limit", f.cacheLimit, &cfg.Limits.Environments.Bytes}} {
		if size.text == "" {
			continue
		}
		n, err := units.RAMInBytes(size.text)
		if err != nil {
			return cfg, fmt.Errorf("--%s %q: want a size such as 4GiB: %w", size.flag, size.text, err)
		}
		*size.to = n
	}
	cfg.MinFree = uint64(minFree)
	var err error
	if cfg.Custom, err = amounts(f.resources); err != nil {
		return cfg, err
	}
	if cfg.GangPorts, err = agent.ParsePortRange(f.gangPorts); err != nil {
		return cfg, fmt.Errorf("--gang-ports: %w", err)
	}
	if cfg.State == "" {
		dir, err := statedir.StateFolder("agent")
		if err != nil {
			return cfg, err
		}
		cfg.State = dir
	}
	cfg.Log = daemon.Log(stderr, f.verbose, cfg.InsecureTestNetwork)
	return cfg, f.reach(&cfg)
}

// amounts reads resources by name, in thousandths.
func amounts(texts map[string]string) (all []comms.Amount, err error) {
	for _, name := range slices.Sorted(maps.Keys(texts)) {
		n, err := strconv.ParseFloat(texts[name], 64)
		if err != nil || !(n > 0 && n <= 1e12) {
			return nil, fmt.Errorf("--resource %s=%s: want a number above 0, such as 2 or 0.5", name, texts[name])
		}
		if flag := daemon.FlagOf(name); flag != "" {
			return nil, fmt.Errorf("--resource %s=%s: it is said by --%s", name, texts[name], flag)
		}
		all = append(all, comms.Amount{Name: name, N: int64(math.Round(n * 1000))})
	}
	return all, nil
}

// reach says where the controller is, and where this agent is.
func (f *flags) reach(cfg *agent.Config) (err error) {
	towards := ""
	switch {
	case f.join != "":
		if cfg.Controller, err = comms.TCPAddress(f.join); err != nil {
			return fmt.Errorf("--join: %w", err)
		}
		towards = strings.TrimPrefix(cfg.Controller, "tcp://")
		cfg.Credentials = cmp.Or(cfg.Credentials, filepath.Join(cfg.State, "pki"))
	case cfg.Controller == "":
		return errors.New("--controller is missing: the address of the controller, such as ipc:///run/cascade/controller.sock; or --join HOST, to join a cluster by TLS")
	}
	if cfg.Listen, err = f.network.Address(towards, "0"); err != nil {
		return err
	}
	return daemon.Reachable(cfg.Listen)
}

// enter joins the cluster, unless that was done before.
func (f *flags) enter(cfg *agent.Config) (err error) {
	if f.join == "" {
		return nil
	}
	held, err := agent.Reserve(cfg.State) // the certificate in it may be that of an agent that runs
	if err != nil {
		return fmt.Errorf("join a cluster: %w", err)
	}
	defer func() { err = errors.Join(err, held.Close()) }()
	if cfg.Name == "" {
		host, err := os.Hostname()
		if err != nil {
			return fmt.Errorf("name the agent after the host: %w", err)
		}
		cfg.Name = host
	}
	token := cmp.Or(f.token, os.Getenv("CASCADE_TOKEN")) // not the flag's default, which --help would show
	if token != "" {
		if _, err := pki.ParseToken(token); err != nil {
			return daemon.Bad(fmt.Errorf("read the token (--token, CASCADE_TOKEN): %w", err))
		}
	}
	_, err = pki.Enter(context.Background(), comms.JoinCluster, cfg.Credentials, strings.TrimPrefix(cfg.Controller, "tcp://"), token, cfg.Name, time.Now)
	switch {
	case errors.Is(err, pki.ErrTokenNeeded):
		return daemon.Bad(err)
	case errors.Is(err, syscall.ECONNREFUSED):
		return fmt.Errorf("%w: is cascade-controller running there, and is its --listen this address and port?", err)
	}
	return err
}

// serve runs an agent until the first signal. The second ends the process: the
// reapers of its executors see that and end them.
func serve(cfg agent.Config, metrics string, signals <-chan os.Signal) error {
	a, err := agent.New(cfg)
	if err != nil {
		return err
	}
	return errors.Join(daemon.ServeMeasured(a.Run, signals, metrics, a.Measures(), cfg.Log), a.Close())
}
