// Command cascade runs graphs of tasks: on this host, or on a cluster.
//
// Exit codes: 0 success; 1 the job failed, or a replay differs; 2 bad input, such as a mistake in the
// job file; 3 infrastructure, such as a cluster that does not answer; 4 cancelled; 5 a time-out. Of
// replay --task it is the task's own.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"

	"github.com/cascade-run/cascade"
	"github.com/cascade-run/cascade/benchmarks/perf"
	"github.com/cascade-run/cascade/cmd/internal/daemon"
	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/dag"
	"github.com/cascade-run/cascade/internal/screen"
)

func main() {
	if perf.InExecutor(os.Getenv) {
		perf.Register()
	}
	cascade.Main()
	perf.Part()
	daemon.KeepHeap(os.Getenv) // cascade run is controller and agent as well
	interrupts := make(chan os.Signal, 2)
	signal.Notify(interrupts, os.Interrupt, syscall.SIGTERM)
	// A write to a pipe that is not read any more is an error then, which ends what it should (see output).
	// Ignored, the signal would be ignored by the programs of tasks too.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	a := &app{in: os.Stdin, out: os.Stdout, err: os.Stderr, interrupts: interrupts, environ: os.Environ(),
		unheeded: func() { signal.Reset(os.Interrupt, syscall.SIGTERM) }}
	os.Exit(a.run(context.Background(), os.Args[1:]))
}

// app is one invocation of the command. Tests make their own.
type app struct {
	in         io.Reader
	out, err   io.Writer            // run makes all that is written to them safe for a terminal
	raw        streams              // what out and err were: for the bytes of others, and for a terminal
	terminal   func(io.Writer) bool // nil: isTerminal
	person     func() bool          // there is one to ask; nil: on a terminal
	foot       *display             // of standard error; run makes it
	now        func() time.Time     // nil: time.Now
	interrupts <-chan os.Signal
	unheeded   func() // the next interrupt ends the process
	environ    []string
	tab        time.Duration // for which a press of Tab waits; 0: completionTime
	calm       time.Duration // after so long without a line the progress of a job has a sign of life; 0: quietFor

	stdout   *output
	signals  signals
	to       string
	state    string
	json     bool
	quiet    bool
	verbose  int
	list     listing
	config   configuration
	misled   error  // help was asked for of a command that is not there
	color    string // mode of --color
	progress string // mode of --progress
	tcp      bool
	owner    bool           // the cluster ends with this command: it has no other host
	left     []comms.JobRow // jobs that an earlier run left, for which no other command waits
	rerun    bool           // the command reruns tasks of an earlier job
	differed uint64         // recomputed datasets of this job that differed before
	alone    bool           // the state is read by this command only: no task runs

	retained bool                     // the job keeps the results of all tasks
	anew     func(comms.JobID) string // how to run the file of a job that failed when it is fixed; nil without a file
	file     jobText                  // that was read last

	allProblems bool // print each mistake in a job file
}

func (a *app) run(ctx context.Context, args []string) int {
	ctx, unread := context.WithCancelCause(ctx)
	defer unread(nil)
	a.stdout = &output{Writer: a.out, unread: unread}
	a.out = a.stdout
	defer a.safe()()
	a.config = readConfiguration(a.getenv)
	root := a.command()
	root.SetArgs(args)
	root.SetIn(a.in)
	root.SetOut(a.out)
	root.SetErr(a.err)
	ctx, end := a.signals.listen(ctx, a.interrupts, a.unheeded)
	err := root.ExecuteContext(ctx)
	if err == nil {
		err = a.misled
	}
	if err != nil && errors.Is(context.Cause(ctx), errInterrupted) {
		err = reported{errInterrupted} // who interrupts knows
	}
	end()
	code, err := a.stdout.ended(err)
	if err != nil && !errors.Is(err, errUnread) && !errors.Is(err, errInterrupted) {
		a.printError(err, args)
	}
	return code
}

// streams are outputs as they are.
type streams struct{ out, err io.Writer }

// safe makes all that the command writes safe for a terminal, whoever said it; the
// function that it returns ends that.
func (a *app) safe() (end func()) {
	a.raw = streams{a.out, a.err}
	a.foot = &display{to: a.err, size: func() (int, int) { return terminalSize(a.raw.err) }, styled: func(style, text string) string { return a.styled(a.raw.err, style, text) }}
	out, errs := screen.NewWriter(a.out), screen.NewWriter(a.foot)
	a.out, a.err = out, errs
	return func() {
		_ = errors.Join(out.Flush(), errs.Flush()) // of bytes that are no text
		a.out, a.err = a.raw.out, a.raw.err
	}
}

func (a *app) onTerminal(w io.Writer) bool {
	if a.terminal != nil {
		return a.terminal(w)
	}
	return isTerminal(w)
}

// bytes is standard output for what goes to files and programs byte for byte: on a terminal
// it is safe.
func (a *app) bytes() io.Writer { return a.exact().out }

// exact are the outputs as they are, but for those that are terminals, which are safe.
func (a *app) exact() streams {
	s := a.raw
	if a.onTerminal(s.out) {
		s.out = a.out
	}
	if a.onTerminal(s.err) {
		s.err = a.err
	}
	return s
}

func (a *app) command() *cobra.Command {
	root := &cobra.Command{
		Use:   "cascade",
		Short: "Run graphs of tasks, on this host or on a cluster",
		Long: `Cascade runs jobs: graphs of tasks that are Go functions, Python functions or
commands. Datasets live in shared memory; publishing one starts its consumers.

Exit codes: 0 success, 1 job failed, 2 bad input, 3 infrastructure, 4 cancelled,
5 time-out.`,
		Example: `  cascade run job.yaml --param date=2026-11-21  # run on this host and wait
  cascade get last map.page -o map.png          # fetch an output
  cascade explain last map                      # why it ran there and then
  cascade submit job.yaml --to hpc              # submit to a cluster`,
		Version:       daemon.ThisBuild().String(),
		SilenceUsage:  true,
		SilenceErrors: true,
		Args:          known,
		RunE:          func(c *cobra.Command, _ []string) error { return c.Help() },

		PersistentPreRunE: a.configured,
	}
	root.SetFlagErrorFunc(flagError)
	root.SetVersionTemplate(daemon.VersionTemplate)
	a.globalFlags(root.PersistentFlags())
	root.PersistentFlags().BoolP("help", "h", false, "print help")
	root.Flags().Bool("version", false, "print the version")
	sections := a.sections()
	for _, s := range sections {
		root.AddCommand(s.commands...)
	}
	width := daemon.WidthOf(a.raw.out)
	root.SetHelpCommand(a.helpCommand())
	root.SetHelpFunc(func(c *cobra.Command, _ []string) {
		if args := c.Flags().Args(); len(args) > 0 && c.HasAvailableSubCommands() {
			a.misled = known(c, args) // a page of another command would not tell it
			return
		}
		if c != root {
			fmt.Fprint(c.OutOrStdout(), daemon.Help(c, width))
			return
		}
		fmt.Fprint(c.OutOrStdout(), overview(root, sections, width))
	})
	root.SetUsageFunc(func(c *cobra.Command) error {
		_, err := fmt.Fprint(c.OutOrStdout(), daemon.Usage(c, width))
		return err
	})
	a.completions(root)
	for _, c := range root.Commands() {
		argsOf(c)
	}
	return root
}

// elsewhere is what other tools call commands that have another name here.
var elsewhere = map[string]string{"jobs": "ls jobs", "list": "ls jobs", "tasks": "ls tasks JOB", "agents": "ls hosts", "nodes": "ls hosts",
	"ps": "status", "watch": "status last --watch", "resume": "run FILE --resume", "retry": "rerun JOB",
	"restart": "rerun JOB", "kill": "cancel JOB", "stop": "cancel JOB", "abort": "cancel JOB", "delete": "rm jobs JOB", "forget": "rm jobs JOB", "remove": "rm jobs JOB", "prune": "rm environments", "env": "ls environments", "revoke": "rm members NAME", "members": "ls members", "tokens": "ls tokens",
	"describe": "status JOB", "show": "status JOB", "info": "status JOB", "events": "story JOB", "pause": "hold JOB", "hosts": "ls hosts", "follow": "status JOB --watch",
	"new": "init", "create": "init", "dashboard": "ui", "web": "ui", "page": "ui", "compare": "diff JOB JOB", "check": "validate FILE", "lint": "validate FILE", "log": "logs JOB", "output": "get JOB TASK.OUTPUT", "fetch": "get JOB TASK.OUTPUT",
	"start": "run FILE", "dag": "graph FILE", "trace": "timeline JOB", "history": "story JOB", "why": "explain JOB TASK", "gantt": "report JOB -o FILE"}

// known refuses an argument where a subcommand is wanted.
func known(c *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	hint := ""
	if instead := elsewhere[args[0]]; instead != "" && !c.HasParent() {
		return badInputf("there is no command %q (write cascade %s); see %s --help", c.CommandPath()+" "+args[0], instead, c.CommandPath())
	}
	var names []string
	for _, sub := range c.Commands() {
		if !sub.IsAvailableCommand() {
			continue
		}
		names = append(names, sub.Name())
		if hint == "" && strings.HasPrefix(sub.Name(), args[0]) {
			hint = fmt.Sprintf(" (did you mean %q?)", sub.Name())
		}
	}
	if near := dag.DidYouMean(args[0], names); near != "" {
		hint = " (" + near + ")"
	}
	return badInputf("there is no command %q%s; see %s --help", c.CommandPath()+" "+args[0], hint, c.CommandPath())
}

// argsOf makes a wrong number of arguments of a command, or of one below it, bad input.
func argsOf(c *cobra.Command) {
	for _, sub := range c.Commands() {
		argsOf(sub)
	}
	check := c.Args
	if check == nil {
		return
	}
	c.Args = func(c *cobra.Command, args []string) error {
		var told badInput
		err := check(c, args)
		if err == nil || errors.As(err, &told) {
			return err
		}
		for n := len(args) - 1; n >= 0; n-- {
			if check(c, args[:n]) == nil {
				hint := "see " + c.CommandPath() + " --help"
				if f := c.Flags().Lookup("output"); f != nil && f.Value.Type() == "string" {
					hint = fmt.Sprintf("-o %s names a file to write; %s", quoted(args[n]), hint)
				}
				return hintedf(hint, "%s: %q is one argument too many; usage: %s", c.Name(), args[n], c.UseLine())
			}
		}
		return hintedf("see "+c.CommandPath()+" --help", "%s: %s missing; usage: %s", c.Name(), missing(c, len(args)), c.UseLine())
	}
}

// missing says which argument of a command is missing behind the first n.
func missing(c *cobra.Command, n int) string {
	words := strings.Fields(c.Use)[1:]
	if n < len(words) && strings.ToUpper(words[n]) == words[n] && !strings.HasPrefix(words[n], "[") {
		return strings.TrimRight(words[n], ".") + " is"
	}
	return "an argument is"
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
	if a.json {
		return zerolog.New(a.err).Level(level).With().Timestamp().Logger()
	}
	return zerolog.New(zerolog.ConsoleWriter{Out: a.err, NoColor: true}).Level(level).With().Timestamp().Logger()
}

func (a *app) options() []cascade.Option {
	opts := []cascade.Option{cascade.WithLog(a.log())}
	if a.state != "" {
		opts = append(opts, cascade.WithState(a.state))
	}
	if dir := a.getenv("CASCADE_CREDENTIALS"); dir != "" {
		opts = append(opts, cascade.WithCredentials(dir))
	}
	if a.tcp {
		opts = append(opts, cascade.WithInsecureTestNetwork())
	}
	return opts
}
