// Package daemon is what cascade-agent and cascade-controller have in common as
// commands: exit codes, signals, the state folder, the log, the heap.
package daemon

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/cascade-run/cascade/cmd/internal/amount"
	"github.com/cascade-run/cascade/internal/metrics"
	"github.com/cascade-run/cascade/internal/screen"
)

// Exit codes.
const (
	ExitOK             = 0
	ExitBadInput       = 2
	ExitInfrastructure = 3
)

// BadInput marks errors that the user fixes in flags.
type BadInput struct{ error }

// Unwrap returns the cause.
func (e BadInput) Unwrap() error { return e.error }

// Bad makes an error bad input; nil stays nil.
func Bad(err error) error {
	if err == nil {
		return nil
	}
	return BadInput{err}
}

// FlagOf is the flag that says how much a host has of a resource, "" of one that
// --resource says: who gave the others there would find nothing of them.
func FlagOf(resource string) string {
	return map[string]string{"cpu": "cpu", "memory": "memory", "gpu": "gpus", "gpu_memory": "gpu-memory"}[resource]
}

// Signals returns the signals that end a daemon: the first in good order, the second at once.
// That its log is not read any more does not end it.
func Signals() <-chan os.Signal {
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	return signals
}

// Execute runs a command without arguments and returns the exit code. Errors
// that match bad are bad input too. All that is written is safe for a terminal, also the
// log: peers and tasks say much of it.
func Execute(c *cobra.Command, args []string, stdout, stderr io.Writer, bad error) int {
	width := WidthOf(stdout)
	c.SetHelpFunc(func(c *cobra.Command, _ []string) { fmt.Fprint(c.OutOrStdout(), Help(c, width)) })
	stdout, stderr = screen.NewWriter(stdout), screen.NewWriter(stderr)
	c.SilenceUsage, c.SilenceErrors = true, true
	c.Version = ThisBuild().String()
	c.SetVersionTemplate(VersionTemplate)
	c.Args = func(c *cobra.Command, args []string) error { return Bad(cobra.NoArgs(c, args)) }
	c.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		return BadInput{fmt.Errorf("%w; see %s --help", FlagError(err), c.Name())}
	})
	describeHelp(c)
	c.SetArgs(args)
	c.SetOut(stdout)
	c.SetErr(stderr)
	err := c.Execute()
	if err == nil {
		return ExitOK
	}
	fmt.Fprintf(stderr, "%s: %v\n", c.Name(), err)
	if errors.As(err, new(BadInput)) || errors.Is(err, bad) {
		return ExitBadInput
	}
	return ExitInfrastructure
}

// describeHelp adds the flags that cobra would add, with our words.
func describeHelp(c *cobra.Command) {
	c.InitDefaultHelpFlag()
	c.InitDefaultVersionFlag()
	for name, usage := range map[string]string{"help": "print help", "version": "print the version"} {
		if f := c.Flags().Lookup(name); f != nil {
			f.Usage = usage
		}
	}
}

// VersionTemplate is how --version prints a version.
const VersionTemplate = "{{.Name}} {{.Version}}\n"

// FlagError says of a flag whose value is wrong what it takes.
func FlagError(err error) error {
	var invalid *pflag.InvalidValueError
	if !errors.As(err, &invalid) {
		return err
	}
	f := invalid.GetFlag()
	want := map[string]string{"float64": "a number, such as 4 or 0.5", "int": "a whole number", "int64": "a whole number",
		"uint32": "a whole number from 0", "uint64": "a whole number from 0", "bool": "true or false"}[f.Value.Type()]
	if want == "" {
		want = amount.Kinds[f.Value.Type()]
	}
	if want == "" {
		return fmt.Errorf("--%s %s: %w", f.Name, invalid.GetValue(), errors.Unwrap(err))
	}
	return fmt.Errorf("--%s %s: want %s", f.Name, invalid.GetValue(), want)
}

// Serve calls run with a context that the first signal ends. The second signal
// ends the process.
func Serve(run func(context.Context) error, signals <-chan os.Signal) error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	done := make(chan struct{})
	defer close(done)
	go func() {
		for _, act := range []func(){cancel, func() { os.Exit(ExitInfrastructure) }} {
			select {
			case <-signals:
				act()
			case <-done:
				return
			}
		}
	}()
	return run(ctx)
}

// MetricsHelp describes the flag --metrics of both daemons.
const MetricsHelp = "expose Prometheus metrics at http://ADDRESS/metrics: PORT or :PORT on the loopback interface, HOST:PORT for other hosts too (default off)"

// SilenceHelp describes the flag --silence of both daemons.
const SilenceHelp = "time without messages after which a link counts as broken; the same for all daemons of a cluster, at least 1s (default 10s)"

// ServeMeasured is Serve with metrics beside it, at an address that may be empty. The log
// has its start, with the version, and its end.
func ServeMeasured(run func(context.Context) error, signals <-chan os.Signal, address string, all []metrics.Measure, log zerolog.Logger) error {
	log.Info().Str("version", ThisBuild().String()).Msg("started") // which program it was: an upgrade is seen in the log
	defer func() { log.Info().Msg("ended") }()
	if address == "" {
		return Serve(run, signals)
	}
	s, err := metrics.Serve(address, all)
	if err != nil {
		return err
	}
	log.Info().Str("url", "http://"+s.Addr()+"/metrics").Msg("metrics")
	return errors.Join(Serve(run, signals), s.Close())
}

// Log returns a daemon's log. Every line of one that permits plain TCP says so.
func Log(w io.Writer, verbose int, insecure bool) zerolog.Logger {
	level := zerolog.InfoLevel
	if verbose > 0 {
		level = zerolog.DebugLevel
	}
	log := zerolog.New(w).Level(level).With().Timestamp()
	if insecure {
		log = log.Bool("insecure", true)
	}
	return log.Logger()
}

// ControllerSocket is the address of the Unix socket of the controller with a state folder.
func ControllerSocket(state string) string {
	return "ipc://" + filepath.Join(state, "run", "controller.sock")
}
