package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/cascade-run/cascade"
	"github.com/cascade-run/cascade/cmd/internal/amount"
	"github.com/cascade-run/cascade/comms"
)

// selectors adds the flags that choose jobs where none is named.
func (a *app) selectors(c *cobra.Command) {
	f := c.Flags()
	f.StringSliceVar(&a.list.status, "status", nil, "all jobs of this `status`, such as running or failed; repeatable")
	f.StringVar(&a.list.tenant, "tenant", "", "all jobs of this tenant")
	f.StringSliceVar(&a.list.labels, "label", nil, "all jobs with this label, `NAME=VALUE`; repeatable")
}

func (l *listing) selects() bool { return len(l.status)+len(l.labels) > 0 || l.tenant != "" }

// namedJob is a job and what it is called.
type namedJob struct {
	*cascade.Job
	name string
}

func (j namedJob) String() string {
	return strings.TrimSpace(fmt.Sprintf("%s (%s)", j.name, j.ID()))
}

// jobsNamed are the jobs that the command line names, or that its selectors choose of those that have
// ended, or of those that have not.
func (a *app) jobsNamed(ctx context.Context, client *cascade.Client, names []string, ended bool) (jobs []namedJob, err error) {
	if len(names) > 0 && a.list.selects() {
		return nil, badInputf("name jobs, or choose them by --status, --tenant and --label, not both")
	}
	for _, name := range names {
		j, err := findJob(ctx, client, name)
		if err != nil {
			return nil, err
		}
		called, err := jobName(ctx, client, j)
		if err != nil {
			return nil, err
		}
		jobs = append(jobs, namedJob{j, called})
	}
	if len(names) > 0 {
		return jobs, nil
	}
	f := fieldsOf[comms.JobRow]()
	if err := a.list.check(&f); err != nil {
		return nil, err
	}
	for row, err := range cascade.EachRow[comms.JobRow](ctx, client, comms.QueryJobs, comms.JobID{}, "") {
		if err != nil {
			return nil, err
		}
		if (row.Ended != "") != ended || !a.list.keeps(&f, reflect.ValueOf(row).Elem()) {
			continue
		}
		j, err := rowJob(client, *row)
		if err != nil {
			return nil, err
		}
		jobs = append(jobs, namedJob{j, row.Name})
	}
	if len(jobs) == 0 {
		return nil, notHere{badInputf("no job is chosen by these flags")}
	}
	return jobs, nil
}

// jobsArgs wants JOB, or flags that choose jobs.
func (a *app) jobsArgs(_ *cobra.Command, args []string) error {
	if len(args) == 0 && !a.list.selects() {
		return errors.New("none")
	}
	return nil
}

// steering is a command that changes jobs.
type steering struct {
	verb, short, long, example string
	act                        string // what it does, when that is not the verb
	said                       string // then, with %s for the job
	ended                      bool   // it is of jobs that have ended
	final                      bool   // it cannot be undone
	do                         func(ctx context.Context, j *cascade.Job) error
}

func (a *app) steerCommand(s steering) *cobra.Command {
	var yes bool
	c := &cobra.Command{
		Use: s.verb + " JOB...", Short: s.short, Long: s.long + "\n\n" + jobHelp, Example: s.example, Args: a.jobsArgs,
		RunE: func(c *cobra.Command, args []string) error {
			ctx := c.Context()
			return a.withJobs(ctx, func(client *cascade.Client) error {
				jobs, err := a.jobsNamed(ctx, client, args, s.ended)
				if err != nil {
					return err
				}
				if s.final || len(args) == 0 && len(jobs) > 1 {
					what := cmp.Or(s.act, s.verb) + " job " + jobs[0].String()
					if len(jobs) > 1 {
						what = cmp.Or(s.act, s.verb) + " " + plural(len(jobs), "job")
					}
					if err := a.confirm(yes, what); err != nil {
						return err
					}
				}
				var failed error
				for _, j := range jobs {
					if err := s.do(ctx, j.Job); err != nil {
						failed = errors.Join(failed, err)
						continue
					}
					if err := a.tellJob(j, s.said); err != nil {
						return err
					}
				}
				return failed
			})
		},
	}
	a.selectors(c)
	c.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask")
	return c
}

func (a *app) tellJob(j namedJob, said string) error {
	if a.json {
		return a.printJSON(map[string]string{"job": j.ID().String(), "name": j.name})
	}
	_, err := fmt.Fprintf(a.out, said+"\n", j)
	return err
}

// confirm asks whether to do what cannot be undone. Where no person can be asked it is refused.
func (a *app) confirm(yes bool, what string) error {
	if yes {
		return nil
	}
	if !a.asks() {
		return hintedf("--yes does it without a question", "%s: this cannot be undone, and there is no terminal to ask on", what)
	}
	fmt.Fprintf(a.err, "%s? This cannot be undone. [y/N] ", what)
	answer, err := bufio.NewReader(a.in).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("read the answer: %w", err)
	}
	switch strings.ToLower(strings.TrimSpace(answer)) {
	case "y", "yes":
		return nil
	}
	return badInputf("nothing was done")
}

// asks tells whether a person can be asked.
func (a *app) asks() bool {
	if a.person != nil {
		return a.person()
	}
	f, ok := a.in.(*os.File)
	return ok && term.IsTerminal(int(f.Fd())) && a.onTerminal(a.raw.err)
}

func (a *app) cancelCommand() *cobra.Command {
	var reason string
	c := a.steerCommand(steering{verb: "cancel", short: "Cancel jobs: stop their running tasks and start no more", said: "job %s is being cancelled",
		long:    "Cancel jobs: stop their running tasks and start no more.",
		example: "  cascade cancel last\n  cascade cancel ensemble 01a2 --reason \"wrong date\"\n  cascade cancel --status queued --tenant ocean --yes",
		do:      func(ctx context.Context, j *cascade.Job) error { return j.Cancel(ctx, reason) }})
	c.Flags().StringVar(&reason, "reason", "cancelled by the user", "reason, shown with the job")
	return c
}

func (a *app) holdCommand() *cobra.Command {
	var reason string
	c := a.steerCommand(steering{verb: "hold", short: "Hold jobs: start no more of their tasks until they are released", said: "held job %s",
		long:    "Hold jobs: start no more of their tasks until they are released. Running tasks go on.",
		example: "  cascade hold last --reason \"disk is full\"\n  cascade hold --label suite=night --yes",
		do:      func(ctx context.Context, j *cascade.Job) error { return j.Hold(ctx, reason) }})
	c.Flags().StringVar(&reason, "reason", "held by the user", "reason, for the audit log")
	return c
}

func (a *app) releaseCommand() *cobra.Command {
	return a.steerCommand(steering{verb: "release", short: "Release jobs that are on hold", said: "released job %s",
		long: "Release jobs that are on hold.", example: "  cascade release last\n  cascade release --status held --yes",
		do: func(ctx context.Context, j *cascade.Job) error { return j.Release(ctx) }})
}

func (a *app) removeJobCommand() *cobra.Command {
	return a.steerCommand(steering{verb: "jobs", act: "remove", short: "Remove ended jobs with their outputs and history", said: "removed job %s", ended: true, final: true,
		long:    "Remove ended jobs with their outputs and history. Copies of outputs stay.",
		example: "  cascade rm jobs last\n  cascade rm jobs --status failed --tenant ocean --yes",
		do:      func(ctx context.Context, j *cascade.Job) error { return j.Forget(ctx) }})
}

// waitFors are what wait waits for.
var waitFors = []string{"done", "result", "running"}

func (a *app) waitCommand() *cobra.Command {
	var until string
	var limit time.Duration
	c := &cobra.Command{
		Use:   "wait JOB...",
		Short: "Wait for the end, the results or the start of jobs, or a task",
		Long: `Wait for jobs, and print a line when each is there. --for done waits for the end,
result for all outputs, running for the start, and --for TASK for the end of a
task. The exit code is 1 when a job or task has failed, 4 when it was cancelled
and 5 when --timeout is over.

` + jobHelp,
		Example: "  cascade wait last\n  cascade wait ensemble --for result --timeout 2h\n  cascade wait last --for spread[2]\n  cascade wait --status running",
		Args:    a.jobsArgs,
		RunE: func(c *cobra.Command, args []string) error {
			if limit < 0 {
				return badInputf("--timeout %v: it cannot be negative", limit)
			}
			ctx := c.Context()
			if limit > 0 {
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeoutCause(ctx, limit, fmt.Errorf("%w after %s", errTimeout, limit))
				defer cancel()
			}
			err := a.withJobs(ctx, func(client *cascade.Client) error {
				jobs, err := a.jobsNamed(ctx, client, args, false)
				if err != nil {
					return err
				}
				var failed error
				for _, j := range jobs {
					err := a.waitFor(ctx, client, j, until)
					if err != nil && context.Cause(ctx) != nil {
						return err
					}
					failed = errors.Join(failed, err)
				}
				return failed
			})
			if cause := context.Cause(ctx); err != nil && errors.Is(cause, errTimeout) {
				return cause
			}
			return err
		},
	}
	a.selectors(c)
	c.Flags().StringVar(&until, "for", "done", "what to wait for: done, result, running, or a `task`")
	amount.Duration(c.Flags(), &limit, "timeout", 0, "give up after this time, with exit code 5 (default never)")
	return c
}

// waitFor waits for one job and prints how it stands then.
func (a *app) waitFor(ctx context.Context, client *cascade.Client, j namedJob, until string) error {
	var last *cascade.Progress
	var asked, failed error
	err := j.Watch(ctx, time.Second, func(p *cascade.Progress) bool {
		last = p
		var cut string
		if cut, asked = a.cutOff(p.Phase, isSession(ctx, client, p.Job)); cut != "" {
			asked = errors.New(cut) // nothing will change
		}
		if asked != nil || p.Final {
			return false
		}
		switch until {
		case "done":
		case "result":
			return !p.Result
		case "running":
			return p.Phase != comms.JobRunning
		default:
			var ended bool
			ended, failed, asked = taskEnded(ctx, client, j.Job, until)
			return !ended && asked == nil
		}
		return true
	})
	if err = errors.Join(err, asked); err != nil {
		return err
	}
	if last.Final && !strings.Contains("done result running", until) {
		if _, failed, err = taskEnded(ctx, client, j.Job, until); err != nil {
			return err
		}
	} else if last.Final {
		failed = cascade.JobResult(last)
	}
	if a.json {
		err = a.printJSON(progressObject(last, ""))
	} else {
		_, err = fmt.Fprintf(a.out, "job %s %s: %s\n", j, last.Phase, counts(total(last)))
	}
	return errors.Join(err, failed)
}

// taskEnded tells whether the tasks of a name have ended, and how they failed.
func taskEnded(ctx context.Context, client *cascade.Client, j *cascade.Job, name string) (ended bool, failed, err error) {
	some, all := false, true
	for row, err := range cascade.EachRow[comms.TaskRow](ctx, client, comms.QueryTasks, j.ID(), name) {
		if err != nil {
			return false, nil, err
		}
		some, all = true, all && !open(*row)
		if row.State == "failed" && failed == nil {
			failed = &cascade.JobError{Job: j.ID(), Phase: comms.JobFailed, Cause: &cascade.TaskError{Task: row.Name, Message: row.Error, Agent: row.Agent}}
		}
	}
	if !some {
		return false, nil, notHere{hintedf("--for takes done, result, running, or a task", "no task %q in job %s", name, j.ID())}
	}
	return all, failed, nil
}
