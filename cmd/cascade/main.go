// Command cascade runs graphs of tasks: on this host, or on a cluster.
//
// Exit codes: 0 success; 1 the job failed; 2 bad input, such as a mistake in the
// job file; 3 infrastructure, such as a cluster that does not answer; 4 cancelled.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"

	"github.com/cascade-run/cascade"
	"github.com/cascade-run/cascade/dag"
)

// Exit codes, part of the interface: scripts rely on them.
const (
	exitOK             = 0
	exitFailed         = 1
	exitBadInput       = 2
	exitInfrastructure = 3
	exitCancelled      = 4
)

func main() {
	cascade.Main()
	interrupts := make(chan os.Signal, 2)
	signal.Notify(interrupts, os.Interrupt, syscall.SIGTERM)
	a := &app{in: os.Stdin, out: os.Stdout, err: os.Stderr, interrupts: interrupts, environ: os.Environ()}
	os.Exit(a.run(context.Background(), os.Args[1:]))
}

// app is one invocation of the command. Tests make their own.
type app struct {
	in         io.Reader
	out, err   io.Writer
	interrupts <-chan os.Signal
	environ    []string

	to      string
	state   string
	json    bool
	verbose int
	tcp     bool
}

// badInput marks errors that the user mends in what was given to the command.
type badInput struct{ error }

func (e badInput) Unwrap() error { return e.error }

func badInputf(format string, args ...any) error { return badInput{fmt.Errorf(format, args...)} }

func (a *app) run(ctx context.Context, args []string) int {
	root := a.command()
	root.SetArgs(args)
	root.SetIn(a.in)
	root.SetOut(a.out)
	root.SetErr(a.err)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return exitOK
	}
	code := exitCode(err)
	var shown reported
	if !errors.As(err, &shown) {
		fmt.Fprintf(a.err, "cascade: %v\n", err)
	}
	return code
}

// reported marks errors that the user has been told of.
type reported struct{ error }

func (e reported) Unwrap() error { return e.error }

func exitCode(err error) int {
	var problems dag.Problems
	var bad badInput
	var job *cascade.JobError
	switch {
	case errors.Is(err, cascade.ErrCancelled), errors.Is(err, context.Canceled):
		return exitCancelled
	case errors.As(err, &job):
		return exitFailed
	case errors.As(err, &problems), errors.As(err, &bad),
		errors.Is(err, cascade.ErrBadRequest), errors.Is(err, cascade.ErrNotFound), errors.Is(err, cascade.ErrConflict):
		return exitBadInput
	}
	return exitInfrastructure
}

func (a *app) command() *cobra.Command {
	root := &cobra.Command{
		Use:   "cascade",
		Short: "Run graphs of tasks, on this host or on a cluster",
		Long: `Cascade runs a job: a graph of tasks that are Go functions, Python functions or
commands. Results live in shared memory and start their consumers the moment
they are published.

Exit codes: 0 success, 1 the job failed, 2 bad input, 3 infrastructure, 4 cancelled.`,
		Example: `  cascade run job.yaml --param date=2026-11-21
  cascade submit job.yaml --to ipc:///run/cascade/controller.sock
  cascade status --watch`,
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		return badInputf("%w; see %s --help", err, c.CommandPath())
	})
	f := root.PersistentFlags()
	f.StringVar(&a.to, "to", a.getenv("CASCADE_TO"), "address of the controller; without it this host's own state is used")
	f.StringVar(&a.state, "state", a.getenv("CASCADE_STATE"), "folder of this host's state (default cascade/cascade in $XDG_STATE_HOME or ~/.local/state)")
	f.BoolVar(&a.json, "json", false, "print JSON, one object a line")
	f.CountVarP(&a.verbose, "verbose", "v", "log more to standard error; twice for details")
	f.BoolVar(&a.tcp, "insecure-test-network", false, "permit plain TCP; for benchmarks on a network of your own only")
	root.AddCommand(
		a.runCommand(), a.submitCommand(), a.validateCommand(), a.schemaCommand(), a.planCommand(),
		a.statusCommand(), a.logsCommand(), a.getCommand(),
		a.cancelCommand(), a.holdCommand(), a.releaseCommand(), a.rerunCommand(), a.forgetCommand(),
		a.lsCommand(), a.storyCommand(), a.versionCommand(),
	)
	for _, c := range root.Commands() {
		argsOf(c)
	}
	return root
}

// argsOf makes a wrong number of arguments bad input.
func argsOf(c *cobra.Command) {
	check := c.Args
	if check == nil {
		return
	}
	c.Args = func(c *cobra.Command, args []string) error {
		if err := check(c, args); err != nil {
			return badInputf("%s: %w; see %s --help", c.Name(), err, c.CommandPath())
		}
		return nil
	}
}

func (a *app) getenv(name string) string {
	for _, kv := range a.environ {
		if len(kv) > len(name) && kv[:len(name)] == name && kv[len(name)] == '=' {
			return kv[len(name)+1:]
		}
	}
	return ""
}

func (a *app) log() zerolog.Logger {
	level := zerolog.WarnLevel
	switch a.verbose {
	case 0:
	case 1:
		level = zerolog.InfoLevel
	default:
		level = zerolog.DebugLevel
	}
	return zerolog.New(zerolog.ConsoleWriter{Out: a.err, NoColor: !isTerminal(a.err)}).Level(level).With().Timestamp().Logger()
}

func (a *app) options() []cascade.Option {
	opts := []cascade.Option{cascade.WithLog(a.log())}
	if a.state != "" {
		opts = append(opts, cascade.WithState(a.state))
	}
	if a.tcp {
		opts = append(opts, cascade.WithInsecureTestNetwork())
	}
	return opts
}

// connect returns a client and what ends it: of the cluster that --to names, of
// the one that runs on this host, or of one made to read this host's state.
func (a *app) connect(ctx context.Context) (*cascade.Client, func() error, error) {
	if a.to != "" {
		c, err := cascade.Dial(ctx, a.to, a.options()...)
		if err != nil {
			return nil, nil, err
		}
		return c, c.Close, nil
	}
	cluster, err := cascade.Local(ctx, append(a.options(), cascade.WithoutExecutors())...)
	if err != nil {
		return nil, nil, err
	}
	return cluster.Client, cluster.Close, nil
}

// withClient runs f with a client.
func (a *app) withClient(ctx context.Context, f func(*cascade.Client) error) (err error) {
	c, end, err := a.connect(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, end()) }()
	return f(c)
}

// withExecutors is like withClient; on this host's own state it can run tasks.
func (a *app) withExecutors(ctx context.Context, f func(*cascade.Client) error) (err error) {
	if a.to != "" {
		return a.withClient(ctx, f)
	}
	cluster, err := cascade.Local(ctx, a.options()...)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, cluster.Close()) }()
	return f(cluster.Client)
}
