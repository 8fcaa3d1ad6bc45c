package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/cascade-run/cascade"
	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/dag"
	"github.com/cascade-run/cascade/internal/report"
)

// findJob returns the job that a command line names: its ID, the beginning or the
// end of it, its name (then the newest of that name; of a session that which its program gave
// it will do), or "last". IDs begin with the time, so that jobs of one morning differ at the end.
func findJob(ctx context.Context, client *cascade.Client, name string) (*cascade.Job, error) {
	if id, err := comms.ParseJobID(name); err == nil {
		return client.Job(id), nil
	}
	filter := name
	if name == "last" {
		filter = ""
	}
	named, err := cascade.FirstRows[comms.JobRow](ctx, client, comms.QueryJobs, comms.JobID{}, filter, 1)
	if err != nil {
		return nil, err
	}
	if len(named) > 0 && (name == "last" || named[0].Name == name) {
		return rowJob(client, named[0])
	}
	if named, err = cascade.FirstRows[comms.JobRow](ctx, client, comms.QueryJobs, comms.JobID{}, dag.SessionPrefix+name, 1); err != nil {
		return nil, err
	}
	if len(named) > 0 {
		return rowJob(client, named[0])
	}
	if len(name) < 4 || strings.Trim(name, "0123456789abcdef-") != "" { // no ID begins or ends so
		return nil, noJob(name)
	}
	var found comms.JobRow
	n := 0
	for row, err := range cascade.EachRow[comms.JobRow](ctx, client, comms.QueryJobs, comms.JobID{}, "") {
		if err != nil {
			return nil, err
		}
		if strings.HasPrefix(row.ID, name) || strings.HasSuffix(row.ID, name) {
			found, n = *row, n+1
		}
	}
	switch n {
	case 0:
		return nil, noJob(name)
	case 1:
		return rowJob(client, found)
	}
	return nil, badInputf("%q begins or ends the IDs of %d jobs: give more of it", name, n)
}

// noJob is the error of a name that no job has.
func noJob(name string) error {
	if name == "last" {
		return notHere{hintedf("cascade run FILE runs one", "there is no last job: %w", errNothing)}
	}
	return notHere{hintedf("cascade ls jobs lists them", "no job %q here", name)}
}

func rowJob(client *cascade.Client, r comms.JobRow) (*cascade.Job, error) {
	id, err := comms.ParseJobID(r.ID)
	if err != nil {
		return nil, err
	}
	return client.Job(id), nil
}

// withJob runs f with a client and the job that name names.
func (a *app) withJob(ctx context.Context, name string, f func(*cascade.Client, *cascade.Job) error) error {
	return a.withJobs(ctx, func(client *cascade.Client) error {
		j, err := findJob(ctx, client, name)
		if err != nil {
			return err
		}
		return f(client, j)
	})
}

const jobHelp = `JOB is an ID, the beginning or end of an ID, the name of a job or session (the
newest of that name), or last.`

// statusJobs is how many jobs status lists unless --all is given.
const statusJobs = 20

func (a *app) statusCommand() *cobra.Command {
	var watch, all bool
	c := &cobra.Command{
		Use:   "status [JOB]...",
		Short: "Show the progress of jobs, or list the newest jobs",
		Long: `Show the progress of jobs, or without JOB list the newest jobs. --watch follows
one job until it ends.

` + jobHelp,
		Example: "  cascade status\n  cascade status last --watch\n  cascade status --status failed --tenant ocean",
		RunE: func(c *cobra.Command, args []string) error {
			ctx := c.Context()
			if len(args) == 0 && !watch {
				most := statusJobs
				if all || a.list.limit > 0 || a.list.sort != "" {
					most = 0
				}
				return a.listing(a.withJobs(ctx, func(client *cascade.Client) error { return a.listJobs(ctx, client, most) }))
			}
			if len(args) == 0 {
				args = []string{"last"}
			}
			if watch && len(args) > 1 {
				return hintedf(a.hint(append([]string{"wait"}, args...)...)+" waits for several", "--watch follows one job")
			}
			return a.withJobs(ctx, func(client *cascade.Client) error {
				for _, name := range args {
					j, err := findJob(ctx, client, name)
					if err != nil {
						return err
					}
					if err := a.showStatus(ctx, client, j, watch); err != nil {
						return err
					}
				}
				return nil
			})
		},
	}
	c.Flags().BoolVarP(&watch, "watch", "w", false, "follow the job until it ends")
	c.Flags().BoolVar(&all, "all", false, fmt.Sprintf("list all jobs, not only the newest %d", statusJobs))
	return a.asList(c, "status", "tenant", "label")
}

// showStatus prints how a job stands, with watch until it ends.
func (a *app) showStatus(ctx context.Context, client *cascade.Client, j *cascade.Job, watch bool) error {
	cut := ""
	var asked error
	err := j.Watch(ctx, time.Second, func(p *cascade.Progress) bool {
		if cut, asked = a.cutOff(p.Phase, isSession(ctx, client, p.Job)); asked != nil {
			return false
		}
		a.printStatus(p, cut)
		asked = errors.Join(a.printLosses(ctx, client, p), a.printBuilding(ctx, client, p))
		return watch && cut == "" && asked == nil
	})
	err = errors.Join(err, asked)
	if err == nil && watch && cut != "" {
		return reported{errors.New(cut)}
	}
	return err
}

// printBuilding prints which environments are being built of a job of which nothing runs.
func (a *app) printBuilding(ctx context.Context, client *cascade.Client, p *cascade.Progress) error {
	if a.json || a.alone || p.Final || total(p).Running > 0 {
		return nil
	}
	rows, err := cascade.Rows[comms.EnvironmentRow](ctx, client, comms.QueryEnvironments, p.Job, "")
	if err != nil {
		return err
	}
	s := &progress{a: a, graph: &dag.Graph{}, built: map[string]bool{}}
	for i := range rows {
		if text := s.building(&rows[i]); text != "" {
			fmt.Fprintf(a.out, "  %s\n", text)
		}
	}
	return nil
}

// printStatus prints how a job stands; cut is why nothing of it runs, if so.
func (a *app) printStatus(p *cascade.Progress, cut string) {
	phase := p.Phase.String()
	if cut != "" {
		phase, _, _ = strings.Cut(cut, ":")
		p = stopped(p)
	}
	if a.json {
		_ = a.printJSON(progressObject(p, cut))
		return
	}
	fmt.Fprintf(a.out, "job %s (%s) %s: %s\n", p.Name, p.Job, phase, counts(total(p)))
	for _, g := range p.Groups {
		fmt.Fprintf(a.out, "  %-20s %s\n", g.Group, counts(g))
	}
	switch {
	case cut != "":
		fmt.Fprintf(a.out, "  %s\n", cut)
	case p.Waits != "":
		fmt.Fprintf(a.out, "  waits: %s\n", p.Waits)
	}
	if p.Late != "" {
		fmt.Fprintf(a.out, "  late: %s\n", p.Late)
	}
	if p.Differs > 0 {
		fmt.Fprintf(a.out, "  warning: %s\n", differs(p))
	}
	if p.Error != nil {
		fmt.Fprintf(a.out, "  %s\n", p.Error)
	}
}

// listJobs lists the newest jobs, most of them at most when that is not 0.
func (a *app) listJobs(ctx context.Context, client *cascade.Client, most int) error {
	rows, more := cascade.EachRow[comms.JobRow](ctx, client, comms.QueryJobs, comms.JobID{}, ""), false
	if most > 0 && len(a.list.status)+len(a.list.labels) == 0 && a.list.tenant == "" {
		first, err := cascade.FirstRows[comms.JobRow](ctx, client, comms.QueryJobs, comms.JobID{}, "", most+1) // to know whether there are more
		if err != nil {
			return err
		}
		more = len(first) > most
		rows = eachOf(first[:min(len(first), most)])
	}
	if err := a.printJobs(ctx, client, rows); err != nil {
		return err
	}
	if more && !a.json {
		a.note("these are the newest %d: --all lists all", most)
	}
	if !a.alone {
		return nil
	}
	left, err := openJobs(ctx, client)
	if err != nil {
		return err
	}
	n := 0
	for i := range left {
		id, err := comms.ParseJobID(left[i].ID)
		if err != nil {
			return err
		}
		session, err := isSession(ctx, client, id)()
		if err != nil {
			return err
		}
		if !session {
			n++
		}
	}
	if n > 0 {
		a.note("no run is under way here; `cascade run` goes on with %s", plural(n, "job"))
	}
	return nil
}

func (a *app) lsCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "ls",
		Short: "List jobs, tasks, calls, functions, datasets, hosts and others",
		Long: `List what there is. Rows are chosen by --status, --family, --host, --tenant and
--label and ordered by --sort; --limit says how many are printed, -o and
--columns which columns and in what form.`,
		Example: `  cascade ls jobs --status failed
  cascade ls tasks last --family spread --sort -seconds --limit 10
  cascade ls tasks last --columns name,peak_memory -o csv
  cascade ls hosts --to hpc`,
		Args: known,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	jobs := &cobra.Command{
		Use: "jobs", Short: "List jobs, the newest first", Example: "  cascade ls jobs\n  cascade ls jobs --status running,queued --to hpc\n  cascade ls jobs --sort -tasks --limit 5 -o name", Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return a.listing(a.withJobs(c.Context(), func(client *cascade.Client) error { return a.listJobs(c.Context(), client, 0) }))
		},
	}
	hosts := &cobra.Command{
		Use: "hosts", Short: "List hosts, their resources and what runs there",
		Long: `List hosts, their resources and what runs there. Each has one row for each of
its agents. STATE is ready, connecting (the agent reports what it has), away (its
link is broken), leaving (it drains) or left. CPU and MEMORY are what tasks may
occupy, USE is what all programs of the host use. SEEN is when the agent was
heard last, VERSION that of its program.`, Example: "  cascade ls hosts --to hpc\n  cascade ls hosts --to hpc --status away -o name", Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return a.listing(a.withJobs(c.Context(), func(client *cascade.Client) error {
				return a.listHosts(c.Context(), client)
			}))
		},
	}
	c.AddCommand(a.asList(jobs, "status", "tenant", "label"), a.asList(hosts, "status", "host"), a.asList(a.listCallsCommand(), "status", "host"), a.asList(a.listFunctionsCommand()),
		a.asList(listCommand[comms.TaskRow](a, "tasks", "List the tasks of a job",
			"  cascade ls tasks last --status failed\n  cascade ls tasks last --family spread --sort -seconds --limit 5\n  cascade ls tasks last --host node7 -o wide", comms.QueryTasks,
			"name", "state", "attempt", "host", "started", "seconds", "peak_memory", "bytes_out", "error"), "status", "family", "host"),
		a.asList(listCommand[comms.DatasetRow](a, "datasets", "List the datasets of a job",
			"  cascade ls datasets last\n  cascade ls datasets last --sort -size --limit 10", comms.QueryDatasets,
			"name", "codec", "dtype", "shape", "size", "place", "host"), "host"),
		a.listEnvironmentsCommand(), a.listMembersCommand(), a.listTokensCommand())
	return c
}

func listCommand[T any](a *app, use, short, example, kind string, columns ...string) *cobra.Command {
	return &cobra.Command{
		Use: use + " JOB", Short: short, Long: short + ".\n\n" + jobHelp, Example: example, Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			return a.withJob(c.Context(), args[0], func(client *cascade.Client, j *cascade.Job) error {
				filter := a.list.family
				if filter == "" && kind == comms.QueryTasks && len(a.list.status) == 1 {
					filter = a.list.status[0] // the controller finds them
					if filter == "cut-off" || filter == "cut off" {
						filter = "running"
					}
				}
				return listRows[T](c.Context(), a, client, kind, j.ID(), filter, columns...)
			})
		},
	}
}

func listRows[T any](ctx context.Context, a *app, client *cascade.Client, kind string, job comms.JobID, filter string, columns ...string) error {
	return tableOf(a, func(yield func(*T, error) bool) {
		some := false
		lost := sync.OnceValues(func() (map[string]time.Duration, error) { return a.silentAgents(ctx, client) })
		for row, err := range cascade.EachRow[T](ctx, client, kind, job, filter) {
			if some = true; err == nil {
				a.cutOffTask(row)
				soFar(row, time.Now())
				if t, ok := any(row).(*comms.TaskRow); ok && t.State == "running" && !a.json {
					var of map[string]time.Duration
					of, err = lost()
					unheard(t, of)
				}
			}
			if !yield(row, err) {
				return
			}
		}
		if !some && kind == comms.QueryTasks && filter != "" && !slices.Contains(taskStates(), filter) {
			yield(nil, notHere{hintedf(a.hint("ls", "tasks", job.String())+" lists the tasks", "--family %s: no task or family of job %s is called so", filter, job)})
		}
	}, columns...)
}

// taskStates are those in which a task can be, as rows call them.
func taskStates() []string {
	return []string{"waiting", "ready", "running", "done", "failed", "skipped", "cancelled"}
}

// jobPhases are those in which a job can be, as rows call them.
func jobPhases() []string {
	return []string{"queued", "held", "running", "done", "failed", "cancelled"}
}

// tasksSoFar lists the tasks of a job, with how long those that run have taken up to now.
func (a *app) tasksSoFar(ctx context.Context, client *cascade.Client, j *cascade.Job) ([]comms.TaskRow, error) {
	rows, err := cascade.Rows[comms.TaskRow](ctx, client, comms.QueryTasks, j.ID(), "")
	for i := range rows {
		a.cutOffTask(&rows[i])
		soFar(&rows[i], time.Now())
	}
	return rows, err
}

// soFar sets how long a task that runs has taken up to now. Rows of other things stay.
func soFar(row any, now time.Time) {
	t, ok := row.(*comms.TaskRow)
	if !ok || t.State != "running" {
		return
	}
	if at, err := time.Parse(time.RFC3339Nano, t.Started); err == nil {
		t.Seconds = max(t.Seconds, now.Sub(at).Seconds()) // its host's clock may be ahead of ours
	}
}

// unheard notes of a task that runs that nothing was heard of its agent.
func unheard(t *comms.TaskRow, silent map[string]time.Duration) {
	if quiet := silent[t.Agent]; quiet > 0 {
		t.State = fmt.Sprintf("running, not heard of for %s", report.Seconds(quiet.Seconds()))
	}
}

func (a *app) storyCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "story JOB [TASK]",
		Short: "Show every state transition of a job or task, with its cause",
		Long: `Show every state transition of a job or task, with its cause. Of a called task,
such as root/3, and of those that it called, show the end.

` + taskHelp + "\n" + jobHelp,
		Example: `  cascade story last
  cascade story last spread[2]
  cascade story last spread`,
		Args: cobra.RangeArgs(1, 2),
		RunE: func(c *cobra.Command, args []string) error {
			return a.withJob(c.Context(), args[0], func(client *cascade.Client, j *cascade.Job) error {
				return listRows[comms.StoryRow](c.Context(), a, client, comms.QueryStory, j.ID(), append(args, "")[1],
					"at", "task", "attempt", "what", "cause", "agent", "detail")
			})
		},
	}
}

// jobName reads the name of a job; "" when the controller knows it no more.
func jobName(ctx context.Context, client *cascade.Client, j *cascade.Job) (string, error) {
	rows, err := cascade.FirstRows[comms.JobRow](ctx, client, comms.QueryJobs, j.ID(), "", 1)
	if err != nil || len(rows) == 0 {
		return "", err
	}
	return rows[0].Name, nil
}

// rerunCommand waits for the end when nothing but this command serves the state.
func (a *app) rerunCommand() *cobra.Command {
	var reason string
	var dry bool
	c := &cobra.Command{
		Use:   "rerun JOB [TASK]...",
		Short: "Rerun tasks and everything that depends on them",
		Long: `Rerun tasks and everything that depends on them, and wait for the end. Without
TASK these are the tasks that failed, were skipped or were cancelled.

` + taskHelp + "\n" + jobHelp,
		Example: `  cascade rerun last
  cascade rerun last spread[2] --reason "new input"
  cascade rerun last spread[*,500] map --dry-run`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			ctx := c.Context()
			with := a.withJobs
			if !dry {
				with = func(ctx context.Context, f func(*cascade.Client) error) error { return a.withExecutors(ctx, nil, f) }
			}
			return with(ctx, func(client *cascade.Client) error {
				j, err := findJob(ctx, client, args[0])
				if err != nil {
					return err
				}
				tasks := args[1:]
				if len(tasks) == 0 {
					if tasks, err = a.wentWithout(ctx, client, j); err != nil {
						return err
					}
				}
				if dry {
					return a.tellRerun(j, tasks)
				}
				if err := j.Watch(ctx, time.Second, func(p *cascade.Progress) bool {
					a.differed = p.Differs
					return false
				}); err != nil {
					return err
				}
				if err := j.RerunFor(ctx, reason, tasks...); err != nil {
					return err
				}
				g, dir, err := client.Graph(ctx, j.ID())
				if err != nil {
					return err
				}
				a.rerun = true
				return a.follow(ctx, client, j, g, dir)
			})
		},
	}
	c.Flags().StringVar(&reason, "reason", "", "reason, for the audit log")
	c.Flags().BoolVar(&dry, "dry-run", false, "print the tasks that would run again, without those that depend on them")
	a.progressFlag(c)
	return c
}

// tellRerun prints which tasks rerun would name.
func (a *app) tellRerun(j *cascade.Job, tasks []string) error {
	if a.json {
		return a.printJSON(map[string]any{"job": j.ID().String(), "tasks": tasks})
	}
	for _, t := range tasks {
		if _, err := fmt.Fprintln(a.out, t); err != nil {
			return err
		}
	}
	return nil
}

// rerunTasks is the most tasks that rerun names by itself: all go in one message.
const rerunTasks = 10_000

// wentWithout names the tasks of a job that failed, and those that were skipped or
// cancelled: a failure also ends what does not depend on it, unless the job keeps going.
func (a *app) wentWithout(ctx context.Context, client *cascade.Client, j *cascade.Job) ([]string, error) {
	var names []string
	for _, state := range []string{"failed", "skipped", "cancelled"} {
		rows, err := cascade.FirstRows[comms.TaskRow](ctx, client, comms.QueryTasks, j.ID(), state, rerunTasks+1-len(names))
		if err != nil {
			return nil, err
		}
		for _, r := range rows {
			if r.State == state { // the name may be a task's
				names = append(names, r.Name)
			}
		}
		if len(names) > rerunTasks {
			return nil, badInputf("rerun: more than %d tasks failed, were skipped or cancelled: name tasks or families", rerunTasks)
		}
	}
	if len(names) == 0 {
		return nil, badInputf("rerun: no task of job %s failed, was skipped or cancelled: name what is to run again, %s lists the tasks", j.ID(), a.hint("ls", "tasks", j.ID().String()))
	}
	return names, nil
}

// listHosts lists the agents, one on each host. One that this command started to read the state
// runs no task: the agent of the run that ended is away.
func (a *app) listHosts(ctx context.Context, client *cascade.Client) error {
	rows, err := cascade.Rows[comms.AgentRow](ctx, client, comms.QueryAgents, comms.JobID{}, "")
	if err != nil {
		return err
	}
	for i := range rows {
		if a.alone {
			rows[i].State, rows[i].Running, rows[i].Seen, rows[i].Use = "away", 0, "", nil // what was seen is this command's own
		}
	}
	return table(a, rows, "name", "state", "cpu", "memory", "gpu", "running", "jobs", "use", "seen", "platform", "version")
}
