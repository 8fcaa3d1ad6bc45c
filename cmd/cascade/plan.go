package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/cascade-run/cascade"
	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/dag"
	"github.com/cascade-run/cascade/planner"
	"github.com/cascade-run/cascade/profiles"
)

func (a *app) planCommand() *cobra.Command {
	var job jobFlags
	var cores float64
	var profile string
	c := &cobra.Command{
		Use:   "plan FILE | JOB",
		Short: "Show where and in what order tasks should run, and why",
		Long: `Plan a job file for this host, or show the plan that a submitted job got. For a
file, tasks of which the profile file tells nothing count with a default duration;
the plan of a job uses what its tasks took before. ` + jobHelp,
		Example: "  cascade plan job.yaml --cpu 16\n  cascade plan last",
		Args:    cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if err := checkCPU(cores); err != nil {
				return err
			}
			if _, err := os.Stat(args[0]); err != nil && args[0] != "-" {
				if fileName(args[0]) {
					return badInputf("read job: %w", err)
				}
				if profile != "" {
					return badInputf("--profile is for job files; a job that was submitted has its plan")
				}
				return a.planOfJob(c.Context(), args[0])
			}
			g, _, err := a.read(args[0], &job)
			if err != nil {
				return err
			}
			known, err := readProfiles(profile)
			if err != nil {
				return err
			}
			return a.planFile(g, known, cores)
		},
	}
	job.add(c)
	c.Flags().Float64Var(&cores, "cpu", float64(runtime.NumCPU()), "cores of the host to plan a file for")
	c.Flags().StringVar(&profile, "profile", "", "file of what the tasks took before")
	return c
}

// readProfiles reads a profile file; "" is none.
func readProfiles(path string) (profiles.Snapshot, error) {
	if path == "" {
		return profiles.Snapshot{}, nil
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return profiles.Snapshot{}, badInputf("read profiles: %w", err)
	}
	f, err := profiles.ParseFile(path, b)
	if err != nil {
		return profiles.Snapshot{}, badInput{err}
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
		return a.printPlan(rows)
	})
}

func (a *app) planFile(g *dag.Graph, known profiles.Snapshot, cores float64) error {
	p, err := planner.Make(g, known, planner.Cluster{Hosts: []planner.Host{{Name: "here", CPU: int64(cores * 1000)}}})
	if err != nil {
		return badInput{err}
	}
	rows := make([]comms.PlanRow, len(p.Tasks))
	for i, t := range p.Tasks {
		task := dag.TaskIndex(i)
		rows[i] = comms.PlanRow{Task: g.TaskName(task), Rank: p.Ranks[i], Start: t.Start, Finish: t.Finish, Reason: p.Reason(g, task)}
		if t.Host >= 0 {
			rows[i].Host = p.Hosts[t.Host]
		}
	}
	if err := a.printPlan(rows); err != nil || a.json {
		return err
	}
	fmt.Fprintf(a.out, "\npredicted %s, at best %s (critical path %s, work %s over %g cores); %d of %s with a guessed duration\n",
		seconds(p.Makespan), seconds(p.LowerBound), seconds(p.CriticalPath), seconds(p.Work), cores, p.Guessed, plural(len(rows), "task"))
	return nil
}

func (a *app) printPlan(rows []comms.PlanRow) error {
	return table(a, rows, "task", "host", "rank_seconds", "start_seconds", "finish_seconds", "reason")
}
