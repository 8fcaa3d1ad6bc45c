package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/cascade-run/cascade"
	"github.com/cascade-run/cascade/agent/core"
	"github.com/cascade-run/cascade/agent/foreground"
	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/dag"
	"github.com/cascade-run/cascade/internal/report"
	"github.com/cascade-run/cascade/internal/safedir"
)

// taskFlags say which attempt replay --task runs, and how.
type taskFlags struct {
	task     string
	attempt  uint32
	rebuild  bool
	debug    bool
	executor string
}

// taskExit is the exit code of a task that ran in the foreground.
type taskExit int

func (e taskExit) Error() string { return fmt.Sprintf("the task ended with status %d", int(e)) }

// replayTask runs one attempt at a task here, in the foreground. The cluster is needed
// only until all that the task takes is here.
func (a *app) replayTask(ctx context.Context, name string, f *taskFlags) (err error) {
	folder, err := os.MkdirTemp("", "cascade-replay-")
	if err != nil {
		return fmt.Errorf("make a folder for the task: %w", err)
	}
	defer func() { err = errors.Join(err, safedir.Remove(folder)) }()
	in, to := a.streams(f.debug)
	t := &foreground.Task{Folder: folder, Stdin: in, Stdout: to.out, Stderr: to.err}
	with := a.withClient
	if f.rebuild {
		with = func(ctx context.Context, do func(*cascade.Client) error) error { return a.withExecutors(ctx, nil, do) }
	}
	called := false
	err = with(ctx, func(client *cascade.Client) error {
		old, err := findJob(ctx, client, name)
		if err != nil {
			return err
		}
		g, dir, err := client.Graph(ctx, old.ID())
		if err != nil {
			return err
		}
		p := &attempt{app: a, client: client, job: old, flags: f, task: t, graph: g, dir: dir}
		if _, ok := g.Lookup(f.task); !ok {
			if called, err = p.calledTask(ctx); called || err != nil { // it needs the cluster while it runs
				return err
			}
		}
		if err := p.prepare(ctx); err != nil {
			return err
		}
		if called, err = p.calls(ctx); called && err == nil { // results that were not recorded come from other runs
			err = a.runHere(ctx, t, f)
		}
		return err
	})
	if err != nil || called {
		return err
	}
	return a.runHere(ctx, t, f)
}

// runHere runs a task to its end, and tells of it.
func (a *app) runHere(ctx context.Context, t *foreground.Task, f *taskFlags) error {
	if f.debug {
		_, leave := a.signals.take() // interrupts are the debugger's
		defer leave()
	}
	item, err := t.Do(ctx)
	if errors.Is(err, foreground.ErrNoFunction) {
		return badInputf("replay --task: %w; name a program that has it with --executor", err)
	}
	if err != nil {
		return fmt.Errorf("replay --task %s: %w", f.task, err)
	}
	return a.taskEnded(t, item)
}

// streams are standard input and the outputs of a task: a debugger has a terminal's own.
func (a *app) streams(debug bool) (in *os.File, to streams) {
	to = a.exact()
	if debug {
		in, _ = a.in.(*os.File)
		to = a.raw
	}
	if a.json {
		to.out = to.err // standard output is for how it ended
	}
	if o, ok := to.out.(*output); ok {
		to.out = o.Writer // a program writes there by itself
	}
	return in, to
}

// taskEnded says how a task ended.
func (a *app) taskEnded(t *foreground.Task, item *comms.ReportItem) error {
	exit := 0
	if e := item.Error; e != nil {
		switch {
		case e.Kind != comms.ErrorExit:
			exit = exitFailed
		case e.ExitCode > 0:
			exit = int(e.ExitCode)
		default: // as a shell says it
			exit = 128 + int(unix.SignalNum(e.Signal))
		}
	}
	seconds := 0.0
	if item.Usage != nil {
		seconds = float64(item.Usage.Duration) / 1e9
	}
	var err error
	if exit != 0 {
		err = reported{taskExit(exit)}
	}
	name := t.Kind.NameOf(t.Run.Task, t.Run.Name)
	if a.json {
		row := struct {
			Task    string  `json:"task"`
			Attempt uint32  `json:"attempt"`
			Exit    int     `json:"exit"`
			Seconds float64 `json:"seconds"`
			Error   string  `json:"error,omitempty"`
		}{Task: name, Attempt: comms.Try(t.Run.Attempt), Exit: exit, Seconds: seconds}
		if item.Error != nil {
			row.Error = item.Error.Text()
		}
		return errors.Join(a.printJSON(row), err)
	}
	if e := item.Error; e != nil {
		fmt.Fprintf(a.err, "task %s, attempt %d: %s\n", name, comms.Try(t.Run.Attempt), e.Text())
		if e.Stack != "" {
			fmt.Fprintf(a.err, "  stack\n%s\n", indent(ownFrames(e.Stack), 20))
		}
		return err
	}
	fmt.Fprintf(a.err, "task %s, attempt %d: done in %s; its outputs are not kept\n", name, comms.Try(t.Run.Attempt), report.Seconds(seconds))
	return nil
}

// attempt is one attempt at a task while all that it takes is brought here.
type attempt struct {
	app    *app
	client *cascade.Client
	job    *cascade.Job
	flags  *taskFlags
	task   *foreground.Task

	graph *dag.Graph
	dir   string // of the job
	index dag.TaskIndex
	act   *activated
}

func (p *attempt) prepare(ctx context.Context) (err error) {
	g := p.graph
	var ok bool
	if p.index, ok = g.Lookup(p.flags.task); !ok {
		return badInputf("replay: no task %q in job %s%s; give one task, not a family: cascade ls tasks lists them", p.flags.task, g.Name, nearTask(g, p.flags.task))
	}
	if f, ok := g.FileOf(p.index); ok {
		return badInputf("replay: %s is an input, which reads %s, and no code of yours runs in it; --from %s reads it again on the cluster", p.flags.task, f.String(), p.flags.task)
	}
	if p.flags.debug && g.Group(p.index).Run.Function == "" {
		return badInputf("replay: %s is a command, and --debug is for functions: leave it out, and put the debugger into the command", p.flags.task)
	}
	number, err := p.number(ctx)
	if err != nil {
		return err
	}
	if p.task.Kind, p.task.Run, err = core.Alone(g, p.job.ID(), p.dir, p.index, number); err != nil {
		return badInputf("replay: %w; --from %s runs it on the cluster", err, p.flags.task)
	}
	if p.flags.debug {
		p.task.Kind.Timeout = 0
	}
	run := &g.Group(p.index).Run
	p.act, err = p.app.activate(ctx, &activating{g, p.dir, run.Environment, p.flags.task, run.Function != "", p.flags.executor})
	if err != nil {
		return err
	}
	if err := p.act.start(ctx, p.task, p.flags.debug); err != nil {
		return err
	}
	return p.inputs(ctx)
}

// number is the attempt to run: the one that was asked for, else the last.
func (p *attempt) number(ctx context.Context) (uint32, error) {
	r, err := taskRow(ctx, p.client, p.job, p.graph, p.index)
	if err != nil {
		return 0, err
	}
	if r == nil || r.Started == "" {
		state := "there was none"
		if r != nil {
			state = "it is " + r.State
		}
		return 0, badInputf("replay: task %s has not run in job %s: %s", p.flags.task, p.graph.Name, state)
	}
	p.task.Agent = cmp.Or(r.Agent, "replay")
	switch n := p.flags.attempt; {
	case n > r.Attempt:
		return 0, badInputf("replay: task %s was tried %d times, there is no attempt %d: %s tells of each", p.flags.task, r.Attempt, n, p.app.hint("story", p.job.ID().String(), p.flags.task))
	case n > 0:
		return n, nil
	}
	return max(r.Attempt, 1), nil
}

// inputs brings the datasets that the task reads into its folder.
func (p *attempt) inputs(ctx context.Context) error {
	have, err := p.read(ctx, p.job, p.graph.Retain)
	if err != nil {
		return err
	}
	if len(have.gone) == 0 {
		return p.fetch(ctx, p.job, have)
	}
	if !p.flags.rebuild {
		hint := ", and retain: true in the job file keeps them"
		if p.graph.Retain {
			hint = ""
		}
		return badInputf("replay: inputs of %s are not kept any more: %s; --rebuild recomputes them%s", p.flags.task, some(have.gone), hint)
	}
	again, err := p.makeAgain(ctx)
	if err != nil {
		return err
	}
	if have, err = p.read(ctx, again, true); err != nil {
		return err
	}
	if len(have.gone) > 0 {
		return fmt.Errorf("replay: job %s, which was to recompute the inputs of %s, did not make %s", again.ID(), p.flags.task, some(have.gone))
	}
	if err := p.fetch(ctx, again, have); err != nil {
		return err
	}
	return again.Forget(ctx)
}

// makeAgain runs what makes the task's inputs, as a job of its own.
func (p *attempt) makeAgain(ctx context.Context) (*cascade.Job, error) {
	above, _, err := p.graph.Above(p.index)
	if err != nil {
		return nil, err
	}
	j, err := p.client.Submit(ctx, above, cascade.WithDir(p.dir), cascade.WithLabel("replay", p.job.ID().String()), cascade.WithResume(p.job.ID()))
	if err != nil {
		return nil, err
	}
	_, err = p.app.watch(ctx, p.client, j, above)
	return j, err
}

// some lists the first of many names.
func some(names []string) string {
	const most = 5
	if len(names) > most {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
	}
	return strings.Join(names, ", ")
}

// readings are the datasets that a task reads, by the input.
type readings struct {
	names [][]string // "" is an element that failed, without which the task ran
	gone  []string   // are not there any more
}

// read looks for all that the task reads among what a job keeps: all that it made, or some of it.
func (p *attempt) read(ctx context.Context, j *cascade.Job, all bool) (*readings, error) {
	there := map[string]bool{}
	for row, err := range cascade.EachRow[comms.DatasetRow](ctx, p.client, comms.QueryDatasets, j.ID(), "") {
		if err != nil {
			return nil, err
		}
		there[row.Name] = row.Place != "lost"
	}
	producers, err := producersOf(ctx, p.client, p.job, p.graph, p.index)
	if err != nil {
		return nil, err
	}
	failed := map[string]bool{}
	for _, r := range producers {
		failed[r.Name] = r.State != "done"
	}
	return readingsOf(p.graph, p.index, kept{there, all}, failed)
}

// kept is what a job keeps.
type kept struct {
	there map[string]bool // by the dataset: false for one that is lost
	all   bool            // every dataset that it made is in there
}

// readingsOf lists what a task reads; failed are the tasks among those that make it
// which did not end well.
func readingsOf(g *dag.Graph, task dag.TaskIndex, k kept, failed map[string]bool) (*readings, error) {
	inputs, err := g.Inputs(task)
	if err != nil {
		return nil, fmt.Errorf("inputs of %s: %w", g.TaskName(task), err)
	}
	out := &readings{}
	for _, in := range inputs {
		var names []string
		for _, s := range in.Sources {
			for _, r := range k.expand(g, s) {
				switch {
				case k.there[r.name]:
					names = append(names, r.name)
				case in.List && failed[r.task]:
					names = append(names, "")
				default:
					out.gone = append(out.gone, r.name)
				}
			}
		}
		out.names = append(out.names, names)
	}
	return out, nil
}

// reading is a dataset that a task reads, and the task that makes it.
type reading struct{ name, task string }

// expand lists what a source stands for. How many elements an open generator had is
// known only of a job that keeps all of them: one that is lost counts too.
func (k kept) expand(g *dag.Graph, s dag.Source) (out []reading) {
	if !k.all {
		switch output := g.Group(s.Task).Outputs[s.Output].Name; s.Kind {
		case dag.SourceStream:
			return []reading{{name: fmt.Sprintf("%s.%s[*]", g.TaskName(s.Task), output)}}
		case dag.SourceGroup:
			return []reading{{name: fmt.Sprintf("%s[*].%s", g.Group(s.Task).Name, output)}}
		}
	}
	elements := func(t dag.TaskIndex, output uint32) uint64 {
		for e := uint64(0); ; e++ {
			if _, made := k.there[g.DatasetName(dag.Dataset{Task: t, Output: output, Element: e})]; !made {
				return e
			}
		}
	}
	for d := range g.Datasets(s, elements) {
		out = append(out, reading{g.DatasetName(d), g.TaskName(d.Task)})
	}
	return out
}

// fetch brings datasets of a job into the task's folder.
func (p *attempt) fetch(ctx context.Context, j *cascade.Job, have *readings) error {
	for _, names := range have.names {
		var in comms.RunInput
		for _, name := range names {
			var d comms.Desc
			if name != "" {
				var err error
				if d, err = p.fetchOne(ctx, j, name); err != nil {
					return err
				}
			}
			in.Data = append(in.Data, d)
		}
		p.task.Run.Inputs = append(p.task.Run.Inputs, in)
	}
	return nil
}

func (p *attempt) fetchOne(ctx context.Context, j *cascade.Job, name string) (comms.Desc, error) {
	located, err := j.Locate(ctx, name)
	if err != nil {
		return comms.Desc{}, err
	}
	d := located[0].Desc
	if d.Place.Kind == comms.PlaceInline {
		return d, nil
	}
	if d.Size == 0 {
		d.Place = comms.Place{Kind: comms.PlaceInline}
		return d, nil
	}
	f, place, err := p.task.Input()
	if err != nil {
		return d, err
	}
	err = errors.Join(j.Fetch(ctx, located[0], f), f.Close())
	d.Place = place
	return d, err
}
