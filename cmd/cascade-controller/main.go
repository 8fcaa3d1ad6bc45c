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
	"strings"
	"time"

	"github.com/docker/go-units"
	"github.com/spf13/cobra"

	"github.com/cascade-run/cascade"
	"github.com/cascade-run/cascade/cmd/internal/amount"
	"github.com/cascade-run/cascade/cmd/internal/daemon"
	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/controller"
	"github.com/cascade-run/cascade/internal/statedir"
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
	cfg       controller.Config
	network   daemon.Network
	lateHook  string
	metrics   string
	ui        string
	minFree   string
	memory    string
	bytes     string
	durable   cascade.Durability
	bandwidth float64
	verbose   int
}

func command(signals <-chan os.Signal) *cobra.Command {
	var f flags
	c := &cobra.Command{
		Use:   "cascade-controller",
		Short: "Accept jobs, assign their tasks to agents, store their history",
		Long: `Accept jobs, assign their tasks to agents, and store their history. Acknowledged
data is durable, also after a power loss. The controller prints its address when
it is ready. Other hosts connect by TCP, which needs a cluster with
certificates: create one with cascade cluster init.

Exit codes: 0 stopped by a signal, 2 bad input, 3 infrastructure.`,
		Example: `  cascade-controller --listen tcp://10.0.0.1:7420
  cascade-controller --state /var/lib/cascade --interface eth0 --metrics 9420`,
		RunE: func(c *cobra.Command, _ []string) error {
			cfg, err := f.config(c.ErrOrStderr())
			if err != nil {
				return daemon.Bad(err)
			}
			return serve(cfg, f.metrics, f.ui, c.OutOrStdout(), signals)
		},
	}
	s := c.Flags()
	f.network.Flags(c, "listen address for clients and agents, such as tcp://10.0.0.1:7420, in addition to the Unix socket run/controller.sock in the state folder, which an ipc:// address replaces",
		"network interface or address of this host on which to listen by TCP", "port, or range of which the first free port is used (default "+comms.DefaultPort+")")
	s.StringVar(&f.cfg.State, "state", "", "folder of the store and of packages (default cascade/controller in $XDG_STATE_HOME)")
	s.StringVar(&f.cfg.Name, "name", "", "name of the controller (default controller)")
	s.IntVar(&f.cfg.Shards, "shards", 0, "number of shards of a new store (default 2)")
	f.durable = cascade.PowerLoss
	s.Var(&f.durable, "durability", "what acknowledged data survives: a crash of every process (faster), or also a power loss")
	s.StringVar(&f.minFree, "min-free", "", "free disk space below which submits are refused and commits wait (default 256MiB)")
	s.StringVar(&f.memory, "gcs-memory", "", "memory for the store's tables and caches (default 64MiB)")
	amount.Duration(s, &f.cfg.Retain.Age, "keep", 0, "delete ended jobs after this time, except those submitted with --keep (default 30d; negative: never)")
	s.IntVar(&f.cfg.Retain.Jobs, "keep-jobs", 0, "maximum number of ended jobs; the earliest are deleted first (default 1000000; negative: unlimited)")
	s.StringVar(&f.bytes, "keep-bytes", "", "maximum size of ended jobs in the store (default 4GiB; all: unlimited)")
	amount.Duration(s, &f.cfg.Grace, "grace", 0, "time for a lost agent to reconnect before its tasks move to others (default 30s)")
	amount.Duration(s, &f.cfg.Silence, "silence", 0, daemon.SilenceHelp)
	amount.Duration(s, &f.cfg.Unclaimed, "unclaimed", 0, "how long uploaded packages wait for their job before they are deleted (default 10m)")
	s.StringVar(&f.metrics, "metrics", "", daemon.MetricsHelp)
	s.StringVar(&f.ui, "ui", "", "serve the live page at this `address` of this host, such as 127.0.0.1:7430; the file ui.url in the state folder has its address with the token (default no page; cascade ui serves it on the machine of a user)")
	amount.Bandwidth(s, &f.bandwidth, "bandwidth", "planned bandwidth between hosts without measurements, such as 1Gbit/s (default as measured between others, else 10Gbit/s)")
	s.BoolVar(&f.cfg.Spread, "spread", true, "run a job on several agents if it gains by that; false: each job on one agent")
	amount.Duration(s, &f.cfg.Steal, "steal", 10*time.Millisecond, "with --spread: minimum saving for which an idle agent steals ready tasks of another; 0: never")
	s.CountVarP(&f.verbose, "verbose", "v", "log more")
	s.StringVar(&f.cfg.Audit, "audit", "", "audit log `file` (JSON lines) (default audit.log in the state folder; none: no audit log)")
	s.StringVar(&f.lateHook, "late-hook", "", "program to run, or http(s) URL to post to, when a job is predicted to miss a deadline; the program gets CASCADE_JOB, CASCADE_JOB_NAME, CASCADE_TENANT and CASCADE_LATE, the URL a JSON object with job, name, tenant and late (default none)")
	amount.Duration(s, &f.cfg.CertificateLife, "certificate-life", 0, "validity of the certificates of agents and clients, which renew themselves (default 7d for agents, 30d for clients)")
	s.BoolVar(&f.cfg.InsecureTestNetwork, "insecure-test-network", false, "permit plain TCP without certificates; only for benchmarks on a private network")
	return c
}

func (f *flags) config(stderr io.Writer) (controller.Config, error) {
	cfg := f.cfg
	cfg.Sync = f.durable == cascade.PowerLoss
	cfg.Network = int64(f.bandwidth)
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
		dir, err := statedir.StateFolder("controller")
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
	cfg.Build = cascade.Version()
	return cfg, nil
}

// serve runs a controller until the first signal. The second ends the process.
func serve(cfg controller.Config, metrics, page string, stdout io.Writer, signals <-chan os.Signal) error {
	c, err := controller.New(cfg)
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintln(stdout, c.Addr()); err != nil {
		return errors.Join(fmt.Errorf("print the address: %w", err), c.Close())
	}
	return errors.Join(daemon.ServeMeasured(withPage(cfg, page, socketOf(cfg.Address), c.Run), signals, metrics, c.Measures(), cfg.Log), c.Close())
}
