package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/spf13/cobra"

	"github.com/cascade-run/cascade"
	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/internal/outfile"
	"github.com/cascade-run/cascade/internal/report"
)

// graphFormats are the forms of a drawing.
var graphFormats = map[string]func(*report.Drawing) ([]byte, error){"dot": (*report.Drawing).DOT, "mermaid": (*report.Drawing).Mermaid, "svg": (*report.Drawing).SVG}

func (a *app) graphCommand() *cobra.Command {
	var job jobFlags
	var format, output string
	var tasks, calls bool
	c := &cobra.Command{
		Use:   "graph FILE | JOB",
		Short: "Draw the graph of a job or session: its families, or every task",
		Long: `Draw the graph of a job file or a submitted job: a node for each family with the
number of its tasks, or with --tasks a node for each task. dot is for Graphviz,
mermaid for Markdown, svg for a browser.

Of a session, and with --calls of another job, called tasks that have ended are
drawn too: a node for each function, or with --tasks for each task and each
dataset that was read by reference. Broken lines lead from a task to those that
it called, others from what was made to what read it.

` + jobHelp,
		Example: "  cascade graph job.yaml --format svg -o job.svg\n  cascade graph last --format mermaid\n  cascade graph work --tasks --format svg -o work.svg",
		Args:    cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			draw, ok := graphFormats[format]
			if !ok {
				return badInputf("--format %s: want dot, mermaid or svg", format)
			}
			d, err := a.drawingOf(c.Context(), args[0], &job, tasks, calls)
			if err != nil {
				return err
			}
			b, err := draw(d)
			if err != nil {
				return badInput{err}
			}
			return a.write(output, func(w io.Writer) error {
				_, err := w.Write(b)
				return err
			})
		},
	}
	job.add(c)
	c.Flags().StringVar(&format, "format", "dot", "output format: dot, mermaid or svg")
	c.Flags().BoolVar(&tasks, "tasks", false, "draw a node for each task instead of each family")
	c.Flags().BoolVar(&calls, "calls", false, "draw what tasks of a job called")
	outputFlag(c, &output, "")
	return c
}

// drawingOf is the drawing of a job file, or of a job.
func (a *app) drawingOf(ctx context.Context, name string, flags *jobFlags, tasks, called bool) (d *report.Drawing, err error) {
	if _, missing := os.Stat(name); missing == nil || name == "-" || fileName(name) {
		if called {
			return nil, badInputf("--calls: a job file has not run: name the job")
		}
		g, _, err := a.read(name, flags)
		if err != nil {
			return nil, err
		}
		return report.Draw(g, nil, tasks)
	}
	err = a.withJob(ctx, name, func(client *cascade.Client, j *cascade.Job) error {
		g, _, err := client.Graph(ctx, j.ID())
		if err != nil {
			return err
		}
		var calls []comms.CallRow
		if called || g.IsSession() {
			if calls, err = a.someCalls(ctx, client, j); err != nil {
				return err
			}
		}
		d, err = report.Draw(g, calls, tasks)
		return err
	})
	return d, err
}

func (a *app) timelineCommand() *cobra.Command {
	var output string
	c := &cobra.Command{
		Use:   "timeline JOB",
		Short: "Write a trace of the run for Perfetto",
		Long: `Write a trace of what ran where and when, for ui.perfetto.dev or
chrome://tracing. A process of the trace is a host, a thread is one of its
executors, and arrows lead from producers to consumers. Datasets that a host
received have bars from publication to first use. Clocks of hosts are aligned so
that no task starts before its inputs.

` + jobHelp,
		Example: "  cascade timeline last -o trace.json",
		Args:    cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			return a.withRun(c.Context(), args[0], func(r *report.Run, _ comms.JobRow, _ []comms.PlanRow) error {
				return a.write(output, r.Trace)
			})
		},
	}
	outputFlag(c, &output, "")
	return c
}

func (a *app) reportCommand() *cobra.Command {
	var output string
	c := &cobra.Command{
		Use:   "report JOB",
		Short: "Write an HTML report of a job: placement, times, critical path",
		Long: `Write one self-contained HTML file about a job: what ran where beside the plan,
the critical path step by step, tables of families, hosts and transfers, memory,
and the cost in hours of cores and other resources.

` + jobHelp,
		Example: "  cascade report last -o report.html\n  cascade report last -o - | gzip > report.html.gz",
		Args:    cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			return a.withRun(c.Context(), args[0], func(r *report.Run, job comms.JobRow, plan []comms.PlanRow) error {
				return a.write(output, func(w io.Writer) error { return r.Page(w, job, plan) })
			})
		},
	}
	outputFlag(c, &output, "")
	return c
}

// outputFlag is the flag of the file that a command writes, which is the same for all.
func outputFlag(c *cobra.Command, to *string, more string) {
	c.Flags().StringVarP(to, "output", "o", "", "output `file`; - is standard output, the default"+more)
}

// withRun runs f with what a job did.
func (a *app) withRun(ctx context.Context, name string, f func(*report.Run, comms.JobRow, []comms.PlanRow) error) error {
	return a.withJob(ctx, name, func(client *cascade.Client, j *cascade.Job) error {
		jobs, err := cascade.Rows[comms.JobRow](ctx, client, comms.QueryJobs, j.ID(), "")
		if err != nil {
			return err
		}
		if len(jobs) != 1 {
			return noJob(name)
		}
		g, _, err := client.Graph(ctx, j.ID())
		if err != nil {
			return err
		}
		rows, err := cascade.Rows[comms.TaskRow](ctx, client, comms.QueryTasks, j.ID(), "")
		if err != nil {
			return err
		}
		for i := range rows {
			a.cutOffTask(&rows[i])
		}
		calls, err := a.someCalls(ctx, client, j)
		if err != nil {
			return err
		}
		r, err := report.NewRun(g, rows, calls)
		if err != nil {
			return err
		}
		r.More = len(calls) == mostCalled
		if r.Lost, err = losses(ctx, client, j.ID()); err != nil {
			return err
		}
		if len(r.Tasks) == 0 {
			return badInputf("no task of job %s has started", name)
		}
		plan, err := cascade.Rows[comms.PlanRow](ctx, client, comms.QueryPlan, j.ID(), "")
		if err != nil {
			return err
		}
		return f(r, jobs[0], plan)
	})
}

// unwritten says that the file of a path that the user gave could not be written: a path that
// cannot be opened is bad input, a disk that is full is not.
func unwritten(path string, err error) error {
	var failed *fs.PathError
	if errors.As(err, &failed) && failed.Op == "write" {
		return fmt.Errorf("write %s: %w", path, failed.Err)
	}
	return badInput{fmt.Errorf("write %s: %w", path, err)}
}

// write calls f with standard output, or with the file of this name, which is whole
// or not there.
func (a *app) write(path string, f func(io.Writer) error) error {
	if path == "" || path == "-" {
		return f(a.bytes())
	}
	var b bytes.Buffer
	if err := f(&b); err != nil {
		return err
	}
	if err := outfile.WriteBytes(path, b.Bytes()); err != nil {
		return unwritten(path, err)
	}
	if a.json {
		return a.printJSON(map[string]string{"file": path})
	}
	_, err := fmt.Fprintln(a.out, path)
	return err
}
