//go:build linux

// Command cascade-agent is the daemon of one host: it runs tasks for a controller.
//
// The first SIGINT or SIGTERM ends it in good order; the second at once, which
// kills its executors.
//
// Exit codes: 0 it was told to end; 2 bad input; 3 infrastructure, such as a
// controller that refuses the agent.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/docker/go-units"
	"github.com/rs/zerolog"
	"github.com/spf13/cobra"

	"github.com/cascade-run/cascade/agent"
	"github.com/cascade-run/cascade/executor"
)

const (
	exitOK             = 0
	exitBadInput       = 2
	exitInfrastructure = 3
)

func main() {
	executor.Main() // started again by the agent, this is the executor of tasks that name no environment
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	os.Exit(run(os.Args[1:], os.Stderr, signals))
}

// badInput marks errors that are mended in flags.
type badInput struct{ error }

func (e badInput) Unwrap() error { return e.error }

func run(args []string, stderr io.Writer, signals <-chan os.Signal) int {
	c := command(signals)
	c.SetArgs(args)
	c.SetErr(stderr)
	err := c.Execute()
	if err == nil {
		return exitOK
	}
	fmt.Fprintf(stderr, "cascade-agent: %v\n", err)
	if bad := (badInput{}); errors.As(err, &bad) || errors.Is(err, agent.ErrConfig) {
		return exitBadInput
	}
	return exitInfrastructure
}

// flags is what the command line says.
type flags struct {
	cfg           agent.Config
	cpu, gpu      float64
	memory, store string
	executor      string
	verbose       int
}

func command(signals <-chan os.Signal) *cobra.Command {
	var f flags
	c := &cobra.Command{
		Use:   "cascade-agent --controller ADDRESS",
		Short: "Run tasks on this host for a controller",
		Long: `Runs tasks on this host for a controller: starts executors, keeps datasets in
shared memory, spills them to disk when memory is short.

Exit codes: 0 it was told to end, 2 bad input, 3 infrastructure.`,
		Args: func(c *cobra.Command, args []string) error {
			if err := cobra.NoArgs(c, args); err != nil {
				return badInput{err}
			}
			return nil
		},
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE: func(c *cobra.Command, _ []string) error {
			cfg, err := f.config(c.ErrOrStderr())
			if err != nil {
				return badInput{err}
			}
			return serve(cfg, signals)
		},
	}
	c.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		return badInput{fmt.Errorf("%w; see cascade-agent --help", err)}
	})
	s := c.Flags()
	s.StringVar(&f.cfg.Controller, "controller", os.Getenv("CASCADE_TO"), "address of the controller, such as ipc:///run/cascade/controller.sock")
	s.StringVar(&f.cfg.Name, "name", "", "name of the agent, unique in the cluster (default the host's name)")
	s.StringVar(&f.cfg.State, "state", "", "folder of numbers, logs and spilled datasets (default cascade/agent in $XDG_STATE_HOME)")
	s.StringVar(&f.cfg.Runtime, "runtime", "", "folder of sockets (default run in the state folder)")
	s.StringVar(&f.cfg.Cache, "cache", "", "folder of built environments (default cascade/environments in the user's cache)")
	s.StringVar(&f.cfg.Listen, "listen", "", "further address for clients, such as tcp://127.0.0.1:0")
	s.Float64Var(&f.cpu, "cpu", 0, "cores that tasks may use (default all that this process may use)")
	s.Float64Var(&f.gpu, "gpu", 0, "devices that tasks may use")
	s.StringVar(&f.memory, "memory", "", "private memory that tasks may use, such as 8GiB (default the host's less the store)")
	s.StringVar(&f.store, "store", "", "shared memory for datasets, such as 4GiB (default 30 % of the host's)")
	s.IntVar(&f.cfg.Warm, "warm", 0, "executors to start before the first task (default one per core, negative none)")
	s.StringVar(&f.executor, "executor", "", "command line of executors, split at spaces (default this program)")
	s.CountVarP(&f.verbose, "verbose", "v", "log more; twice for details")
	s.BoolVar(&f.cfg.InsecureTestNetwork, "insecure-test-network", false, "permit plain TCP; for benchmarks on a network of your own only")
	return c
}

func (f *flags) config(stderr io.Writer) (agent.Config, error) {
	cfg := f.cfg
	cfg.CPU, cfg.GPU = int64(f.cpu*1000), int64(f.gpu*1000)
	cfg.Executor = strings.Fields(f.executor)
	for _, size := range []struct {
		flag, text string
		to         *int64
	}{{"memory", f.memory, &cfg.Memory}, {"store", f.store, &cfg.Store}} {
		if size.text == "" {
			continue
		}
		n, err := units.RAMInBytes(size.text)
		if err != nil {
			return cfg, fmt.Errorf("--%s %q: want a size such as 4GiB: %w", size.flag, size.text, err)
		}
		*size.to = n
	}
	if cfg.Controller == "" {
		return cfg, errors.New("--controller is missing: the address of the controller, such as ipc:///run/cascade/controller.sock")
	}
	if cfg.State == "" {
		dir, err := stateFolder()
		if err != nil {
			return cfg, err
		}
		cfg.State = dir
	}
	level := zerolog.InfoLevel
	if f.verbose > 0 {
		level = zerolog.DebugLevel
	}
	cfg.Log = zerolog.New(stderr).Level(level).With().Timestamp().Logger()
	if cfg.InsecureTestNetwork {
		cfg.Log = cfg.Log.With().Bool("insecure", true).Logger()
	}
	return cfg, nil
}

func stateFolder() (string, error) {
	if dir := os.Getenv("XDG_STATE_HOME"); dir != "" {
		return filepath.Join(dir, "cascade", "agent"), nil
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", fmt.Errorf("find a state folder (or set --state): %w", err)
	}
	return filepath.Join(home, ".local", "state", "cascade", "agent"), nil
}

// serve runs an agent until the first signal. The second ends the process: the
// reapers of its executors see that and end them.
func serve(cfg agent.Config, signals <-chan os.Signal) error {
	a, err := agent.New(cfg)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	done := make(chan struct{})
	defer close(done)
	go func() {
		for _, act := range []func(){cancel, func() { os.Exit(exitInfrastructure) }} {
			select {
			case <-signals:
				act()
			case <-done:
				return
			}
		}
	}()
	return errors.Join(a.Run(ctx), a.Close())
}
