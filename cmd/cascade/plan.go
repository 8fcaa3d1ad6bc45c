package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/cascade-run/cascade"
	"github.com/cascade-run/cascade/cmd/internal/amount"
	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/dag"
	"github.com/cascade-run/cascade/internal/outfile"
	"github.com/cascade-run/cascade/internal/report"
	"github.com/cascade-run/cascade/planner"
	"github.com/cascade-run/cascade/profiles"
)

func (a *app) planCommand() *cobra.Command {
	var job jobFlags
	var at planFor
	var profile string
	c := &cobra.Command{
		Use:   "plan FILE | JOB",
		Short: "Show where and in what order tasks should run, and why",
		Long: `Plan a job file, or show the plan of a submitted job; for a job that has ended,
the plan that it would get now. Durations come from earlier runs, whatever their
parameters, as recorded in this host's state folder or the cluster of --to, or
from the file of --profile. A task without a record gets a default duration; the
plan says how many tasks these are.

A file is planned for this host, or with --hosts for a cluster that need not
exist: 2x16c64g is two hosts of 16 cores and 64 GiB, 1x8c2gpu:16g is one host of
8 cores with two devices of 16 GiB. --evaluations simulations search for a
better plan than the first. With --json each task of a file is an object on a
line, and the last line is the summary.

` + jobHelp,
		Example: `  cascade plan job.yaml --cpu 16
  cascade plan job.yaml --profile p.json --hosts 4x16c64g --bandwidth 1Gbit/s
  cascade plan job.yaml --hosts 2x16c64g -o plan.html -o plan.svg
  cascade plan last`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if at.hosts != "" && c.Flags().Changed("cpu") {
				return badInputf("--cpu is for this host and --hosts for others; give one of them")
			}
			cluster, err := at.cluster()
			if err != nil {
				return err
			}
			if err := at.checkFiles(); err != nil {
				return err
			}
			if _, err := os.Stat(args[0]); err != nil && args[0] != "-" {
				if fileName(args[0]) {
					return badInputf("read job: %w", err)
				}
				if profile != "" || len(at.files) > 0 {
					return badInputf("--profile and --output are for job files; a job that was submitted has its plan")
				}
				return a.planOfJob(c.Context(), args[0])
			}
			g, _, _, err := a.readChecked(c.Context(), args[0], &job)
			if err != nil {
				return err
			}
			known, source, err := a.durations(c.Context(), profile)
			if err != nil {
				return err
			}
			at.source = source
			return a.planFile(g, known, cluster, &at)
		},
	}
	job.add(c)
	c.Flags().StringArrayVarP(&at.files, "output", "o", nil, "write a picture of the plan to an .svg `file`, or a page with hosts and reasons to an .html file; repeatable")
	c.Flags().Float64Var(&at.cores, "cpu", float64(runtime.NumCPU()), "cores of the host to plan for")
	at.add(c)
	c.Flags().StringVar(&profile, "profile", "", "profile `file` to use instead of the recorded profiles")
	return c
}

// durations is what is known of what tasks take, and where: in a profile file, in the
// cluster that --to names, in this host's state. Reading makes no state.
func (a *app) durations(ctx context.Context, file string) (known profiles.Snapshot, source string, err error) {
	if file != "" {
		known, err = readProfiles(file)
		return known, file, err
	}
	source = "the cluster " + a.to
	if a.to == "" {
		source = "this host's state"
	}
	f, err := a.knownProfiles(ctx, "")
	if errors.Is(err, errNothing) {
		return known, source, nil
	}
	if err != nil {
		return known, source, fmt.Errorf("ask for the profiles of earlier runs (--profile FILE needs none): %w", err)
	}
	return f.Snapshot(), source, nil
}

// readProfiles reads a profile file; "" is none.
func readProfiles(path string) (profiles.Snapshot, error) {
	if path == "" {
		return profiles.Snapshot{}, nil
	}
	f, err := readProfileFile(path)
	if err != nil {
		return profiles.Snapshot{}, err
	}
	return f.Snapshot(), nil
}

// fileName tells whether what is no file was meant to be one, and not a job's name.
func fileName(s string) bool {
	return strings.ContainsRune(s, os.PathSeparator) || slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(s))
}

func (a *app) planOfJob(ctx context.Context, name string) error {
	return a.withJob(ctx, name, func(client *cascade.Client, j *cascade.Job) error {
		rows, err := cascade.Rows[comms.PlanRow](ctx, client, comms.QueryPlan, j.ID(), "")
		if err != nil {
			return err
		}
		if err := a.printPlan(rows); err != nil || a.json {
			return err
		}
		none, err := a.noAgent(ctx, client)
		if err != nil {
			return err
		}
		if none {
			fmt.Fprintln(a.out, "\nno agent is connected: this plan is for the agents of before, and is not in use")
		}
		return j.Watch(ctx, time.Second, func(p *cascade.Progress) bool {
			if p.Phase.Final() {
				fmt.Fprintln(a.out, "\nthe job has ended: this is the plan that it would get now, by what its tasks took too")
			}
			return false
		})
	})
}

// planFor is the cluster to plan a file for, and the effort.
type planFor struct {
	cores       float64
	hosts       string
	bandwidth   float64 // bits a second; 0: as measured
	files       []string
	evaluations int
	seed        uint64
	source      string // of durations
}

// add makes the flags of a cluster that need not be there, and of the effort.
func (f *planFor) add(c *cobra.Command) {
	amount.Bandwidth(c.Flags(), &f.bandwidth, "bandwidth", "bandwidth between the --hosts, such as 1Gbit/s (default as measured in the cluster, else 10Gbit/s)")
	c.Flags().StringVar(&f.hosts, "hosts", "", "cluster to plan for, such as 2x16c64g or 4x8c,1x8c32g1gpu")
	c.Flags().IntVar(&f.evaluations, "evaluations", -1, "number of simulations that search for a better plan; 0 uses the first plan (default 2000, fewer above 500 tasks)")
	c.Flags().Lookup("evaluations").DefValue = "0" // shows no default: the text tells it
	c.Flags().Uint64Var(&f.seed, "seed", 0, "random seed of the search")
}

func (f *planFor) cluster() (planner.Cluster, error) {
	if f.hosts == "" {
		if err := checkCPU(f.cores); err != nil {
			return planner.Cluster{}, err
		}
		return planner.Cluster{Hosts: []planner.Host{{Name: "here", CPU: int64(f.cores * 1000)}}, Whole: true}, nil
	}
	hosts, err := parseHosts(f.hosts)
	return planner.Cluster{Hosts: hosts, Bandwidth: f.bandwidth / 8, Latency: planner.DefaultLatency, Whole: true}, err
}

func isPage(path string) bool { return strings.EqualFold(filepath.Ext(path), ".html") }

func (f *planFor) checkFiles() error {
	for _, path := range f.files {
		if !isPage(path) && !strings.EqualFold(filepath.Ext(path), ".svg") {
			return badInputf("--output %s: want a file that ends in .svg or .html", path)
		}
	}
	return nil
}

// effort is what was asked for, else some seconds of work at most: a simulation of
// 100,000 tasks takes a third of one.
func (f *planFor) effort(tasks int) planner.Effort {
	n := f.evaluations
	if n < 0 {
		n = min(2000, 1_000_000/max(tasks, 1))
	}
	return planner.Effort{Evaluations: n, Seed: f.seed}
}

func (a *app) planFile(g *dag.Graph, known profiles.Snapshot, c planner.Cluster, f *planFor) error {
	p, err := planner.Best(g, known, c, f.effort(g.NumTasks()))
	if err != nil {
		return badInput{err}
	}
	for _, path := range f.files {
		b := report.Picture(g, p).SVG()
		if isPage(path) {
			var page bytes.Buffer
			if err := report.PlanPage(&page, g, p, &c); err != nil {
				return err
			}
			b = page.Bytes()
		}
		if err := outfile.WriteBytes(path, b); err != nil {
			return unwritten(path, err)
		}
	}
	rows := make([]comms.PlanRow, len(p.Tasks))
	for i, t := range p.Tasks {
		task := dag.TaskIndex(i)
		rows[i] = comms.PlanRow{Task: g.TaskName(task), Rank: p.Ranks[i], Start: t.Start, Finish: t.Finish, Reason: p.Reason(g, task)}
		if t.Host >= 0 {
			rows[i].Host = p.Hosts[t.Host]
		}
	}
	if err := a.printPlan(rows); err != nil {
		return err
	}
	whole := summarise(g, p, &c, f.source)
	if a.json {
		return a.printJSON(map[string]*planned{"summary": whole})
	}
	a.tellPlanned(whole)
	return nil
}

func (a *app) printPlan(rows []comms.PlanRow) error {
	return table(a, rows, "task", "host", "rank_seconds", "start_seconds", "finish_seconds", "reason")
}
