package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/cascade-run/cascade/tune"
	"github.com/cascade-run/cascade/tune/core"
)

func (a *app) tuneCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "tune",
		Short: "Search for good parameters of a training",
		Long: `Run a program with many configurations, stop the bad ones early, and find the
best. An experiment is a folder: all commands but run name it. It survives that any
process is killed: resume goes on with it.`,
		Example: "  cascade tune run tune.yaml\n  cascade tune best experiments/digits\n  cascade tune replay experiments/digits --with asha",
		Args:    known,
		RunE:    func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(a.tuneRunCommand(), a.tuneResumeCommand(), a.tuneStopCommand(), a.tuneStatusCommand(), a.tuneTrialsCommand(), a.tuneBestCommand(), a.tuneExplainCommand(), a.tuneReplayCommand(), a.tuneExportCommand())
	return c
}

func (a *app) tuneRunCommand() *cobra.Command {
	var storage, name string
	c := &cobra.Command{
		Use:   "run FILE",
		Short: "Run an experiment",
		Long: `Run the experiment that a YAML file describes, on this host, and print the best
trial. The program of the file is started for each trial, and reports by lines of
JSON on its standard output. Exit code 1 says that a trial ended with an error.`,
		Example: "  cascade tune run tune.yaml\n  cascade tune run tune.yaml --name second --storage /data/experiments",
		Args:    cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			t, err := tune.ReadFile(args[0])
			if err != nil {
				return badInputf("%v", err)
			}
			if storage != "" {
				t.Storage = storage
			}
			if name != "" {
				t.Name = name
			}
			return a.tuned(c.Context(), t, t.Start)
		},
	}
	c.Flags().StringVar(&storage, "storage", "", "store the experiment in this `folder` (default experiments beside the file)")
	c.Flags().StringVar(&name, "name", "", "the `name` of the experiment, and of its folder")
	return c
}

func (a *app) tuneResumeCommand() *cobra.Command {
	var redo core.Redo
	var slots int
	c := &cobra.Command{
		Use:   "resume FOLDER",
		Short: "Resume an experiment that was interrupted or stopped",
		Long: `Resume an experiment: trials that ran continue from their newest checkpoints, and
all decisions that were made hold. The folder may have been moved.`,
		Example: "  cascade tune resume experiments/digits\n  cascade tune resume experiments/digits --errored",
		Args:    cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			t := &tune.Tuner{Executor: tune.Local(slots)}
			return a.tuned(c.Context(), t, func(ctx context.Context) (*tune.Experiment, error) { return t.StartAgain(ctx, args[0], redo) })
		},
	}
	c.Flags().BoolVar(&redo.Errored, "errored", false, "continue trials that ended with an error, from their newest checkpoints")
	c.Flags().BoolVar(&redo.Restart, "restart-errored", false, "restart trials that ended with an error")
	c.Flags().BoolVar(&redo.Stopped, "stopped", false, "continue trials that ended because the experiment was stopped")
	c.Flags().IntVar(&slots, "slots", 0, "how many `trials` run at once (default one for each core)")
	return c
}

// tuned runs an experiment, shows how it goes, and prints the best.
func (a *app) tuned(ctx context.Context, t *tune.Tuner, start func(context.Context) (*tune.Experiment, error)) error {
	best, ended := math.NaN(), 0
	t.Log = func(text string) { a.note("%s", shortReason(text)) }
	t.Callbacks = append(t.Callbacks, func(n tune.Notice) error {
		switch n.Kind {
		case core.Recover:
			a.note("%s failed and runs again: %s", core.TrialName(n.Trial), shortReason(n.Reason))
		case core.Complete:
			ended++
			if n.End == core.EndError {
				a.note("%s ended with an error: %s", core.TrialName(n.Trial), shortReason(n.Reason))
			}
			if n.Last == nil {
				return nil
			}
			if x, ok := n.Last.Value(t.Options.Metric); ok && finite(x) && (math.IsNaN(best) || t.Options.Max && x > best || !t.Options.Max && x < best) {
				best = x
				a.note("%s has the best %s so far: %g; ended: %d", core.TrialName(n.Trial), t.Options.Metric, x, ended)
			}
		}
		return nil
	})
	x, err := start(ctx)
	if err != nil {
		return badInputf("%v", err)
	}
	g, err := x.Wait()
	if err != nil {
		if ctx.Err() != nil { // interrupted
			a.note("go on with: %s", a.hint("tune", "resume", x.Folder()))
		}
		return err
	}
	if g.Halted != "" {
		a.note("the experiment was stopped: %s", g.Halted)
	}
	if err := a.printBest(g, tune.Query{}); err != nil && !errors.Is(err, tune.ErrNoResults) && g.Options.Metric != "" {
		return err
	}
	a.checkpointsLost(g)
	if failed := g.Errors(); len(failed) > 0 {
		return fmt.Errorf("%w: %d of %d, such as %s: %s", errTrials, len(failed), len(g.Trials), failed[0].Name, shortReason(failed[0].Error))
	}
	return nil
}

// checkpointsLost notes that trials could not save checkpoints.
func (a *app) checkpointsLost(g *tune.Grid) {
	var first *tune.Outcome
	trials, checkpoints := 0, 0
	for i := range g.Trials {
		if o := &g.Trials[i]; o.Unsaved > 0 {
			trials, checkpoints = trials+1, checkpoints+o.Unsaved
			if first == nil {
				first = o
			}
		}
	}
	if first != nil {
		a.note("not saved: %s of %s, such as of %s: %s", plural(checkpoints, "checkpoint"), plural(trials, "trial"), first.Name, shortReason(first.SaveError))
	}
}

// finite tells whether a value counts when trials are compared.
func finite(x float64) bool { return !math.IsNaN(x) && !math.IsInf(x, 0) }

// errTrials says that trials of an experiment failed.
var errTrials = errors.New("trials ended with errors")

func firstLine(text string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	return line
}

// shortReason is a reason in one line. Of a traceback of Python it is the last line, which has the error.
func shortReason(text string) string {
	first := firstLine(text)
	before, trace, found := strings.Cut(text, "Traceback (most recent call last):")
	if !found {
		return first
	}
	trace = strings.TrimRight(trace, " \n")
	last := strings.TrimSpace(trace[strings.LastIndex(trace, "\n")+1:])
	before = strings.TrimSuffix(firstLine(before), ":")
	switch {
	case last == "":
		return first
	case before == "":
		return last
	}
	return before + ": " + last
}

// interrupted is the state of trials that ran when their experiment was interrupted.
const interrupted core.Status = "INTERRUPTED"

func stateOf(g *tune.Grid, s core.Status) core.Status {
	if g.Interrupted && s == core.Running {
		return interrupted
	}
	return s
}

// outcomeOf is a trial with the state that tables show.
func outcomeOf(g *tune.Grid, o *tune.Outcome) *tune.Outcome {
	shown := *o
	shown.Status = stateOf(g, o.Status)
	return &shown
}

func openExperiment(folder string) (*tune.Grid, error) {
	g, err := tune.Open(folder)
	if err != nil {
		return nil, badInputf("%v", err)
	}
	return g, nil
}

// trialNamed reads the number of a trial, or its name.
func trialNamed(text string) (core.ID, error) {
	n, err := strconv.Atoi(strings.TrimPrefix(text, "t"))
	if err != nil {
		return 0, badInputf("%q is no trial: write its number, or its name such as t00003", text)
	}
	return core.ID(n), nil
}

func (a *app) tuneStopCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "stop FOLDER [TRIAL...]",
		Short: "Stop an experiment that runs, or trials of it",
		Long: `Stop an experiment that a process of this host runs, or some of its trials. Trials
that run end in order, and keep their checkpoints. When the command returns the
order is durable: it holds also if the process is killed. A second time changes
nothing.

It does not ask: resume --stopped goes on with an experiment that was stopped.`,
		Example: "  cascade tune stop experiments/digits\n  cascade tune stop experiments/digits t00003 t00007",
		Args:    cobra.MinimumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			var trials []core.ID
			for _, text := range args[1:] {
				id, err := trialNamed(text)
				if err != nil {
					return err
				}
				trials = append(trials, id)
			}
			s, err := tune.Stop(c.Context(), args[0], trials...)
			if errors.Is(err, tune.ErrNotRunning) {
				return hintedf("go on with: "+a.hint("tune", "resume", args[0]), "%v", err)
			}
			if err != nil {
				return badInputf("%v", err)
			}
			if a.json {
				return a.printJSON(s)
			}
			for _, id := range s.Before {
				fmt.Fprintf(a.out, "trial %s has ended, or is being stopped\n", core.TrialName(id))
			}
			for _, id := range s.Trials {
				fmt.Fprintf(a.out, "trial %s is being stopped\n", core.TrialName(id))
			}
			switch {
			case len(trials) > 0:
			case s.Ended:
				fmt.Fprintf(a.out, "the experiment has ended, or is being stopped\n")
			default:
				fmt.Fprintf(a.out, "the experiment is being stopped\n")
			}
			return nil
		},
	}
}

func (a *app) tuneStatusCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "status FOLDER",
		Short: "Show how many trials are in which state",
		Long: `Show how many trials of an experiment are in which state, also while it runs. Trials
are INTERRUPTED when they ran and no process runs the experiment any more.`,
		Example: "  cascade tune status experiments/digits",
		Args:    cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			g, err := openExperiment(args[0])
			if err != nil {
				return err
			}
			type line struct {
				State  core.Status `json:"state"`
				Trials int         `json:"trials"`
			}
			var lines []line
			for _, s := range core.Statuses {
				lines = append(lines, line{stateOf(g, s), g.Count(s)})
			}
			a.missing(g)
			if g.Halted != "" {
				a.note("the experiment was stopped: %s", g.Halted)
			}
			if g.Interrupted {
				a.note("the experiment was interrupted: no process runs it; go on with: %s", a.hint("tune", "resume", args[0]))
			}
			return table(a, lines, "state", "trials")
		},
	}
}

// trialLine is a trial in a table.
type trialLine struct {
	Trial    string      `json:"trial"`
	State    core.Status `json:"state"`
	Results  int         `json:"results"`
	Metric   string      `json:"metric"`
	Config   string      `json:"config"`
	Attempts int         `json:"attempts"`
	Reason   string      `json:"reason"`
}

func trialLineOf(g *tune.Grid, o *tune.Outcome) trialLine {
	l := trialLine{o.Name, stateOf(g, o.Status), o.Results, "", configText(o), o.Attempts, shortReason(o.Reason)}
	if o.Unsaved > 0 {
		l.Reason = strings.TrimPrefix(fmt.Sprintf("%s; %d not saved: %s", l.Reason, o.Unsaved, shortReason(o.SaveError)), "; ")
	}
	if o.Last != nil {
		if x, ok := o.Last.Value(g.Options.Metric); ok {
			l.Metric = strconv.FormatFloat(x, 'g', 6, 64)
		}
	}
	return l
}

func configText(o *tune.Outcome) string {
	var parts []string
	for k, v := range o.Config.Flat() {
		text := core.Text(v)
		if x, ok := v.(float64); ok {
			text = strconv.FormatFloat(x, 'g', 4, 64)
		}
		parts = append(parts, k+"="+text)
	}
	slices.Sort(parts)
	return strings.Join(parts, " ")
}

func (a *app) tuneTrialsCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "trials FOLDER",
		Short: "List the trials of an experiment",
		Long: `List the trials of an experiment with their last metric, and why each has ended
or waits, or could not save its checkpoints.`,
		Example: "  cascade tune trials experiments/digits\n  cascade tune trials experiments/digits --json",
		Args:    cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			g, err := openExperiment(args[0])
			if err != nil {
				return err
			}
			a.missing(g)
			if a.json {
				a.checkpointsLost(g)
				return a.printOutcomes(g)
			}
			lines := make([]trialLine, len(g.Trials))
			for i := range g.Trials {
				lines[i] = trialLineOf(g, &g.Trials[i])
			}
			return table(a, lines, "trial", "state", "results", "metric", "config", "attempts", "reason")
		},
	}
}

// missing notes the metrics that rules name and no result has had.
func (a *app) missing(g *tune.Grid) {
	for _, text := range g.Missing {
		a.note("%s", text)
	}
}

// printOutcomes prints all that is known of each trial.
func (a *app) printOutcomes(g *tune.Grid) error {
	for i := range g.Trials {
		if err := a.printJSON(outcomeOf(g, &g.Trials[i])); err != nil {
			return err
		}
	}
	return nil
}

func (a *app) tuneBestCommand() *cobra.Command {
	var q tune.Query
	var mode string
	c := &cobra.Command{
		Use:   "best FOLDER",
		Short: "Show the best trial of an experiment",
		Long: `Show the trial with the best metric, its configuration and its newest checkpoint.
Of equal ones it is the first. Values that are infinite or no number do not count.`,
		Example: "  cascade tune best experiments/digits\n  cascade tune best experiments/digits --metric accuracy --mode max --scope all",
		Args:    cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			switch mode {
			case "min", "max":
				q.Max = mode == "max"
			default:
				return badInputf("--mode is %q, use min or max", mode)
			}
			g, err := openExperiment(args[0])
			if err != nil {
				return err
			}
			if err := a.printBest(g, q); err != nil {
				return badInputf("%v", err)
			}
			return nil
		},
	}
	c.Flags().StringVar(&q.Metric, "metric", "", "go by this `metric` (default that of the experiment)")
	c.Flags().StringVar(&mode, "mode", "min", "with --metric: whether the least or the greatest value is best, `min|max`")
	c.Flags().StringVar(&q.Scope, "scope", "last", "`which` results of a trial count: last, all, avg, last-5-avg or last-10-avg")
	return c
}

func (a *app) printBest(g *tune.Grid, q tune.Query) error {
	o, value, err := g.Best(q)
	if err != nil {
		return err
	}
	if a.json {
		return a.printJSON(map[string]any{"trial": outcomeOf(g, o), "value": value, "checkpoint": g.Checkpoint(o)})
	}
	metric := q.Metric
	if metric == "" {
		metric = g.Options.Metric
	}
	fmt.Fprintf(a.out, "%s  %s %g  %s\n", o.Name, metric, value, configText(o))
	if folder := g.Checkpoint(o); folder != "" {
		fmt.Fprintf(a.out, "checkpoint %s\n", folder)
	}
	return nil
}

func (a *app) tuneExplainCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "explain FOLDER TRIAL",
		Short: "Explain what happened to a trial, and why",
		Long: `Explain what happened to a trial: when it was placed, on which checkpoint, how far it
was allowed to train, and which decision ended it, with the numbers behind it.`,
		Example: "  cascade tune explain experiments/digits t00003",
		Args:    cobra.ExactArgs(2),
		RunE: func(_ *cobra.Command, args []string) error {
			id, err := trialNamed(args[1])
			if err != nil {
				return err
			}
			lines, err := tune.Story(args[0], id)
			if err != nil {
				return badInputf("%v", err)
			}
			if a.json {
				return table(a, lines)
			}
			for _, l := range lines {
				fmt.Fprintf(a.out, "%9.3fs  %s\n", l.Seconds, l.Text)
			}
			return nil
		},
	}
}

func (a *app) tuneReplayCommand() *cobra.Command {
	var with string
	var slots int
	c := &cobra.Command{
		Use:   "replay FOLDER",
		Short: "Repeat the decisions of an experiment, and compare them",
		Long: `Repeat all decisions from the recorded events, and compare each with the recorded
one. Exit code 1 says that one differs.

With --with, show what another scheduler would have done with the recorded results: a
type, or its rules as JSON. A trial ends where its record ends.`,
		Example: "  cascade tune replay experiments/digits\n  cascade tune replay experiments/digits --with asha\n  cascade tune replay experiments/digits --with '{\"type\": \"asha\", \"max_t\": 27}'",
		Args:    cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			if with == "" {
				n, err := tune.Replay(args[0])
				if errors.Is(err, tune.ErrDiffers) {
					return err
				}
				if err != nil {
					return badInputf("%v", err)
				}
				if a.json {
					return a.printJSON(map[string]int64{"events": n})
				}
				fmt.Fprintf(a.out, "%d events, the same decisions\n", n)
				return nil
			}
			s, err := tune.Scheduler(with)
			if err != nil {
				return badInputf("--with: %v", err)
			}
			est, err := tune.WhatIf(args[0], s, slots)
			if err != nil {
				return badInputf("%v", err)
			}
			if a.json {
				return a.printJSON(est)
			}
			fmt.Fprintf(a.out, "%d of %d results would have been trained, in %.1f s; %d of %d trials stopped early\n", est.Results, est.Of, est.Time.Seconds(), est.Stopped, est.Trials)
			fmt.Fprintf(a.out, "best %s  %g\n", core.TrialName(est.Best), est.Value)
			return nil
		},
	}
	c.Flags().StringVar(&with, "with", "", "a `scheduler`: fifo, asha, hyperband, median, or its rules as JSON")
	c.Flags().IntVar(&slots, "slots", 0, "with --with: how many `trials` run at once (default as recorded)")
	return c
}

func (a *app) tuneExportCommand() *cobra.Command {
	var format, to string
	c := &cobra.Command{
		Use:   "export FOLDER",
		Short: "Write the results as files for other programs",
		Long: `Write the results of each trial into its folder: lines of JSON (result.json), CSV
(progress.csv) or events of TensorBoard. Results that a retry has trained a second
time are there once.`,
		Example: "  cascade tune export experiments/digits --format csv\n  cascade tune export experiments/digits --format tensorboard --to runs",
		Args:    cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			g, err := openExperiment(args[0])
			if err != nil {
				return err
			}
			if to == "" {
				to = args[0]
			}
			if err := g.Export(to, format); err != nil {
				return badInputf("%v", err)
			}
			a.note("wrote the results of %d trials to %s", len(g.Trials), filepath.Clean(to))
			return nil
		},
	}
	c.Flags().StringVar(&format, "format", "json", "form of the files, `json|csv|tensorboard`")
	c.Flags().StringVar(&to, "to", "", "write to this `folder` (default that of the experiment)")
	return c
}
