// Command cascade-controller accepts jobs, gives them to agents and keeps what
// happened to them.
//
// The first SIGINT or SIGTERM ends it in good order; the second at once, which
// loses nothing that was acknowledged.
//
// Exit codes: 0 it was told to end; 2 bad input; 3 infrastructure, such as a
// store that another process has open.
package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"time"

	"github.com/docker/go-units"
	"github.com/spf13/cobra"

	"github.com/cascade-run/cascade"
	"github.com/cascade-run/cascade/cmd/internal/daemon"
	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/controller"
	"github.com/cascade-run/cascade/internal/owner"
)

func main() {
	daemon.KeepHeap(os.Getenv)
	os.Exit(run(os.Args[1:], os.Stdout, os.Stderr, daemon.Signals()))
}

func run(args []string, stdout, stderr io.Writer, signals <-chan os.Signal) int {
	return daemon.Execute(command(signals), args, stdout, stderr, nil)
}

// flags is what the command line says.
type flags struct {
	cfg      controller.Config
	network  daemon.Network
	lateHook string
	metrics  string
	minFree  string
	memory   string
	bytes    string
	durable  cascade.Durability
	verbose  int
}

func command(signals <-chan os.Signal) *cobra.Command {
	var f flags
	c := &cobra.Command{
		Use:   "cascade-controller",
		Short: "Accept jobs and give them to agents",
		Long: `Accepts jobs, gives them to agents and keeps what happened to them. What it
acknowledges is durable, also when the power fails. It prints the address that
it listens on when it is ready. Other hosts reach it by TCP, which needs a
cluster with certificates: cascade cluster init makes one.

Exit codes: 0 it was told to end, 2 bad input, 3 infrastructure.`,
		RunE: func(c *cobra.Command, _ []string) error {
			cfg, err := f.config(c.ErrOrStderr())
			if err != nil {
				return daemon.Bad(err)
			}
			return serve(cfg, f.metrics, c.OutOrStdout(), signals)
		},
	}
	s := c.Flags()
	f.network.Flags(c, "address for clients and agents, such as tcp://10.0.0.1:7420, beside the Unix socket run/controller.sock in the state folder",
		"listen on this interface, or address of this host, by TCP", "port, or range of which the first free one is taken (default "+comms.DefaultPort+")")
	s.StringVar(&f.cfg.State, "state", "", "folder of the store and of packages (default cascade/controller in $XDG_STATE_HOME)")
	s.StringVar(&f.cfg.Name, "name", "", "name of the controller (default controller)")
	s.IntVar(&f.cfg.Shards, "shards", 0, "shards of a new store (default 2)")
	f.durable = cascade.PowerLoss
	s.Var(&f.durable, "durability", "what acknowledgements survive: the crash of every process (faster), or a power loss too")
	s.StringVar(&f.minFree, "min-free", "", "free space of the disk below which submits are refused and commits wait (default 256MiB)")
	s.StringVar(&f.memory, "gcs-memory", "", "memory for the store's tables and caches (default 64MiB)")
	s.DurationVar(&f.cfg.Retain.Age, "keep", 0, "delete jobs this long after their end, those submitted with --keep apart (default 720h; negative never)")
	s.IntVar(&f.cfg.Retain.Jobs, "keep-jobs", 0, "how many ended jobs stay, at most; those that ended first go first (default 1000000; negative: all)")
	s.StringVar(&f.bytes, "keep-bytes", "", "how many bytes of the store ended jobs take, at most (default 4GiB; all: no bound)")
	s.DurationVar(&f.cfg.Grace, "grace", 0, "how long jobs of a lost agent wait for it when another agent could take them (default 30s)")
	s.DurationVar(&f.cfg.Silence, "silence", 0, daemon.SilenceHelp)
	s.DurationVar(&f.cfg.Unclaimed, "unclaimed", 0, "how long packages that were sent ahead wait for their job (default 10m)")
	s.StringVar(&f.metrics, "metrics", "", daemon.MetricsHelp)
	s.Int64Var(&f.cfg.Network, "network", 0, "bits per second between hosts of which nothing was measured, with which jobs are planned (default what was measured between others, else 10 Gbit/s)")
	s.BoolVar(&f.cfg.Spread, "spread", true, "run jobs that gain by it on several agents at once; false: each on one")
	s.DurationVar(&f.cfg.Steal, "steal", 10*time.Millisecond, "with --spread, an idle agent takes work that another has not begun where that saves at least so much; 0: never")
	s.CountVarP(&f.verbose, "verbose", "v", "log more")
	s.StringVar(&f.cfg.Audit, "audit", "", "file for who asked for what, one line of JSON each (default audit.log in the state folder; none: no such file)")
	s.StringVar(&f.lateHook, "late-hook", "", "program to run when a job is predicted to miss a deadline, with CASCADE_JOB, CASCADE_JOB_NAME, CASCADE_TENANT and CASCADE_LATE set, or an http or https address to which an object with job, name, owner and late is posted (default none)")
	s.DurationVar(&f.cfg.CertificateLife, "certificate-life", 0, "how long certificates of agents and clients last; they renew themselves (default 168h for agents, 720h for clients)")
	s.BoolVar(&f.cfg.InsecureTestNetwork, "insecure-test-network", false, "permit plain TCP; for benchmarks on a network of your own only")
	return c
}

func (f *flags) config(stderr io.Writer) (controller.Config, error) {
	cfg := f.cfg
	cfg.Sync = f.durable == cascade.PowerLoss
	if f.lateHook != "" {
		cfg.LateHook = []string{f.lateHook}
	}
	for _, x := range []struct {
		flag, text string
		set        func(int64)
	}{
		{"min-free", f.minFree, func(n int64) { cfg.MinFree = uint64(n) }},
		{"gcs-memory", f.memory, func(n int64) { cfg.Memory = n }},
		{"keep-bytes", f.bytes, func(n int64) { cfg.Retain.Bytes = n }},
	} {
		if x.text == "" {
			continue
		}
		if x.flag == "keep-bytes" && x.text == "all" {
			cfg.Retain.Bytes = -1
			continue
		}
		n, err := units.RAMInBytes(x.text)
		if err != nil || n <= 0 {
			return cfg, fmt.Errorf("--%s %q: want a size such as 1GiB", x.flag, x.text)
		}
		x.set(n)
	}
	if cfg.State == "" {
		dir, err := owner.StateFolder("controller")
		if err != nil {
			return cfg, err
		}
		cfg.State = dir
	}
	state, err := filepath.Abs(cfg.State)
	if err != nil {
		return cfg, fmt.Errorf("--state %q: %w", cfg.State, err)
	}
	cfg.State = state
	if cfg.Address, err = f.network.Address("", comms.DefaultPort); err != nil {
		return cfg, err
	}
	if !strings.Contains(cfg.Address, "ipc://") { // for who manages the cluster on this host
		cfg.Address = strings.TrimPrefix(cfg.Address+","+daemon.ControllerSocket(state), ",")
	}
	switch cfg.Audit {
	case "":
		cfg.Audit = filepath.Join(state, "audit.log")
	case "none":
		cfg.Audit = ""
	}
	cfg.Log = daemon.Log(stderr, f.verbose, cfg.InsecureTestNetwork)
	if b, ok := debug.ReadBuildInfo(); ok {
		cfg.Build = b.Main.Version
	}
	return cfg, nil
}

// serve runs a controller until the first signal. The second ends the process.
func serve(cfg controller.Config, metrics string, stdout io.Writer, signals <-chan os.Signal) error {
	c, err := controller.New(cfg)
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintln(stdout, c.Addr()); err != nil {
		return errors.Join(fmt.Errorf("print the address: %w", err), c.Close())
	}
	return errors.Join(daemon.ServeMeasured(c.Run, signals, metrics, c.Measures(), cfg.Log), c.Close())
}
