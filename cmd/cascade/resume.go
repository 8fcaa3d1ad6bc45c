package main

import (
	"cmp"
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/cascade-run/cascade"
	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/dag"
)

// resumeFlags say whether a job takes over results of an earlier one.
type resumeFlags struct {
	from    string // name of the earlier job; newest: of this job's name
	explain bool
}

// newest stands for the newest ended job of the same name.
const newest = "newest"

func (f *resumeFlags) add(c *cobra.Command) {
	c.Flags().StringVar(&f.from, "resume", "", "reuse unchanged results of the newest ended job of the same name, or with --resume=JOB of that job, and retain every dataset for the next time")
	c.Flags().Lookup("resume").NoOptDefVal = newest
	c.Flags().BoolVar(&f.explain, "explain", false, "with --resume: print why each task runs")
}

func (f *resumeFlags) check() error {
	if f.explain && f.from == "" {
		return badInputf("--explain says why tasks run again: give --resume, too")
	}
	return nil
}

// earlier finds the job from which g resumes; the zero ID when there is none yet.
func (f *resumeFlags) earlier(ctx context.Context, client *cascade.Client, g *dag.Graph) (comms.JobID, error) {
	if f.from != newest {
		j, err := findJob(ctx, client, f.from)
		if err != nil {
			return comms.JobID{}, err
		}
		return j.ID(), nil
	}
	for row, err := range cascade.EachRow[comms.JobRow](ctx, client, comms.QueryJobs, comms.JobID{}, g.Name) {
		if err != nil {
			return comms.JobID{}, err
		}
		if row.Name == g.Name && row.Ended != "" {
			return comms.ParseJobID(row.ID)
		}
	}
	return comms.JobID{}, nil
}

// submitResumed submits g so that it resumes as the flags say, and says what it takes over.
func (a *app) submitResumed(ctx context.Context, client *cascade.Client, g *dag.Graph, f *resumeFlags, opts []cascade.SubmitOption) (*cascade.Job, error) {
	if f.from == "" {
		return client.Submit(ctx, g, opts...)
	}
	id, err := f.earlier(ctx, client, g)
	if err != nil {
		return nil, err
	}
	g = g.Retaining()
	if id.IsZero() {
		a.note("no job %s has ended here: all of it runs", g.Name)
		return client.Submit(ctx, g, opts...)
	}
	j, err := client.Submit(ctx, g, append(opts, cascade.WithResume(id))...)
	if err != nil {
		return nil, err
	}
	return j, a.explainResume(ctx, client, j, id, f.explain)
}

// explainResume says how much a job takes over, and (all) why the other tasks run; of the first
// of them also when nothing is taken over.
func (a *app) explainResume(ctx context.Context, client *cascade.Client, j *cascade.Job, from comms.JobID, all bool) error {
	err := j.Watch(ctx, 50*time.Millisecond, func(p *cascade.Progress) bool {
		return p.Phase == comms.JobQueued && p.Waits == ""
	})
	if err != nil {
		return err
	}
	taken, first := 0, ""
	for row, err := range cascade.EachRow[comms.StoryRow](ctx, client, comms.QueryStory, j.ID(), "") {
		if err != nil {
			return err
		}
		switch {
		case row.What == "finished" && strings.HasPrefix(row.Cause, "taken from job "):
			taken++
		case row.What != "runs again":
		case !all:
			first = cmp.Or(first, ": "+runAgain(row.Task)+": "+row.Cause)
		case a.json:
			if err := a.printJSON(map[string]string{"task": row.Task, "runs_again": row.Cause}); err != nil {
				return err
			}
		default:
			a.note("%s: %s", runAgain(row.Task), row.Cause)
		}
	}
	if taken > 0 {
		first = ""
	}
	a.note("%s taken from job %s%s", plural(taken, "task"), from, first)
	return nil
}

// runAgain says that a task runs again, or the first to the last of several.
func runAgain(tasks string) string {
	if strings.Contains(tasks, " to ") {
		return tasks + " run again"
	}
	return tasks + " runs again"
}
