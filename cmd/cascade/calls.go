package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/cascade-run/cascade"
	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/dag"
	"github.com/cascade-run/cascade/internal/report"
)

// mostCalled is the most called tasks that a command reads: it holds all of them.
const mostCalled = 200_000

// calledBy returns called tasks of a job that have ended, and whether there are more than it takes.
// A filter is a name, a function or a state; the name of a task also has those that it called.
func calledBy(ctx context.Context, client *cascade.Client, j *cascade.Job, filter string) (rows []comms.CallRow, more bool, err error) {
	rows, err = cascade.FirstRows[comms.CallRow](ctx, client, comms.QueryCalls, j.ID(), filter, mostCalled+1)
	if errors.Is(err, cascade.ErrBadRequest) {
		return nil, false, nil // an older controller, which does not list them
	}
	if more = len(rows) > mostCalled; more {
		rows = rows[:mostCalled]
	}
	return rows, more, err
}

// someCalls returns the called tasks of a job, and says so when these are not all.
func (a *app) someCalls(ctx context.Context, client *cascade.Client, j *cascade.Job) ([]comms.CallRow, error) {
	rows, more, err := calledBy(ctx, client, j, "")
	if more {
		fmt.Fprintf(a.err, "the job has called more than %d tasks: these are the first that ended\n", mostCalled)
	}
	return rows, err
}

func (a *app) listCallsCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "calls JOB", Short: "List the called tasks of a job or session that have ended",
		Long: `List the tasks that running tasks of a job, or the program of a session, called
and that have ended, in the order in which they did. A task that has not ended
is not listed.

` + jobHelp,
		Example: "  cascade ls calls last --status failed\n  cascade ls calls last --family root/3  # and those that it called\n  cascade ls calls last --json", Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			return a.withJob(c.Context(), args[0], func(client *cascade.Client, j *cascade.Job) error {
				filter := a.list.family
				if filter == "" && len(a.list.status) == 1 {
					filter = a.list.status[0] // the controller leaves out the others
				}
				return listRows[comms.CallRow](c.Context(), a, client, comms.QueryCalls, j.ID(), filter, "name", "function", "state", "tries", "agent", "started", "seconds", "error")
			})
		},
	}
	c.Flags().StringVar(&a.list.family, "family", "", "only those of this function, such as fit, or this task and those that it called, such as root/3")
	return c
}

// callsOf is what explain says of all called tasks of a job or session. Durations are seconds.
type callsOf struct {
	Job       string           `json:"job"`
	Phase     string           `json:"phase"`
	Agent     string           `json:"agent,omitempty"`
	Started   string           `json:"started,omitempty"`
	Seconds   float64          `json:"seconds,omitempty"`
	Error     string           `json:"error,omitempty"`
	Waits     string           `json:"waits,omitempty"`
	Calls     int              `json:"calls"`
	More      bool             `json:"more,omitempty"` // there are others, which are not in these figures
	Busy      float64          `json:"busy_seconds"`   // for which at least one ran
	Together  float64          `json:"task_seconds"`   // of all
	Path      *pathOf          `json:"path,omitempty"` // of a session
	Last      string           `json:"last_ended,omitempty"`
	LastAt    string           `json:"last_ended_at,omitempty"`
	Functions []calledFunction `json:"functions"`
	session   bool
}

// pathOf is what the end of a session waited for. Durations are seconds.
type pathOf struct {
	Calls   int     `json:"calls"`
	Ran     float64 `json:"task_seconds"`
	Waited  float64 `json:"waited_seconds"`
	Program float64 `json:"program_seconds"`
}

// calledFunction is what explain says of the called tasks of one function. Durations are seconds.
type calledFunction struct {
	Function  string  `json:"function"`
	Calls     int     `json:"calls"`
	Failed    int     `json:"failed"`
	Cancelled int     `json:"cancelled"`
	Tries     int     `json:"more_tries"`
	Total     float64 `json:"total_seconds"`
	Median    float64 `json:"median_seconds"`
	P95       float64 `json:"p95_seconds"`
	Waited    float64 `json:"median_wait_seconds"`
	WaitedP95 float64 `json:"p95_wait_seconds"`
	Where     string  `json:"where,omitempty"`
	Error     string  `json:"error,omitempty"`
}

// explainCalls says where the time of a job that calls went, as far as the ends of called tasks tell.
func (a *app) explainCalls(ctx context.Context, client *cascade.Client, j *cascade.Job, g *dag.Graph) error {
	calls, more, err := calledBy(ctx, client, j, "")
	if err != nil {
		return err
	}
	if len(calls) == 0 && !g.IsSession() {
		return badInputf("explain: no task of job %s has called others: give a task, %s lists them", g.Name, a.hint("ls", "tasks", j.ID().String()))
	}
	jobs, err := cascade.Rows[comms.JobRow](ctx, client, comms.QueryJobs, j.ID(), "")
	if err != nil {
		return err
	}
	rows, err := a.tasksSoFar(ctx, client, j)
	if err != nil {
		return err
	}
	r, err := report.NewRun(g, rows, calls)
	if err != nil {
		return err
	}
	x := &callsOf{Job: g.Name, Calls: len(calls), More: more, Functions: []calledFunction{}, session: g.IsSession()}
	x.Busy, x.Together = r.Busy()
	if len(jobs) == 1 {
		x.Phase, x.Error, x.Waits = jobs[0].Phase, jobs[0].Error, jobs[0].Waits
	}
	if len(r.Tasks) > 0 && x.session {
		t := &r.Tasks[0]
		x.Agent, x.Started, x.Seconds = t.Agent, t.Started, t.Seconds
	}
	if p := r.CallPath(); p.Calls > 0 {
		x.Path = &pathOf{p.Calls, p.Ran, p.Waited, p.Program}
	}
	if n := len(calls); n > 0 {
		x.Last, x.LastAt = calls[n-1].Name, calls[n-1].Ended
	}
	for _, f := range r.Functions() {
		x.Functions = append(x.Functions, calledFunction{f.Function, f.Calls, f.Failed, f.Cancelled, f.Tries, f.Total, f.Median, f.P95, f.Waited, f.WaitedP95, f.Where, f.Error})
	}
	if a.json {
		return a.printJSON(x)
	}
	return a.printCalls(x)
}

func (a *app) printCalls(x *callsOf) error {
	fmt.Fprintf(a.out, "%s: %s\n", x.Job, x.Phase)
	if x.Agent != "" {
		ran := "ran on"
		if x.Phase == "running" {
			ran = "runs on"
		}
		a.fact(ran, "agent %s, from %s for %s", x.Agent, clock(x.Started), report.Seconds(x.Seconds))
	}
	of := ""
	if x.More {
		of = " (there are more; these are the first that ended)"
	}
	a.fact("called", "%s of %s%s", plural(x.Calls, "ended task"), plural(len(x.Functions), "function"), of)
	if x.Together > 0 {
		text := fmt.Sprintf("for %s called tasks were under way, %.1f on average", report.Seconds(x.Busy), x.Together/max(x.Busy, 1e-9))
		if idle := x.Seconds - x.Busy; x.session && idle > 0 {
			text += fmt.Sprintf("; for %s none was", report.Seconds(idle))
		}
		a.fact("time", "%s", text)
	}
	if p := x.Path; p != nil {
		a.fact("path", "%s one after another: %s; waits for a place %s; the program itself %s", plural(p.Calls, "called task"), report.Seconds(p.Ran), report.Seconds(p.Waited), report.Seconds(p.Program))
	}
	switch {
	case x.Waits != "":
		a.fact("waits", "%s", x.Waits)
	case x.Phase == "running" && x.Last != "":
		a.fact("last end", "%s at %s; tasks that have not ended are not told of", x.Last, clock(x.LastAt))
	case x.Phase == "running":
		a.fact("last end", "none; tasks that have not ended are not told of")
	}
	if x.Error != "" {
		a.fact("error", "%s", oneLine(x.Error))
	}
	if len(x.Functions) == 0 {
		return nil
	}
	return table(a, x.Functions, "function", "calls", "failed", "cancelled", "more_tries", "total_seconds", "median_seconds", "p95_seconds", "median_wait_seconds", "p95_wait_seconds", "where", "error")
}

// counts says how many called tasks there were, and what became of those that did not end well.
func (f *calledFunction) counts() string {
	text := plural(f.Calls, "task")
	for _, n := range []struct {
		n    int
		what string
	}{{f.Failed, "failed"}, {f.Cancelled, "cancelled"}, {f.Tries, "tries more"}} {
		if n.n > 0 {
			text += fmt.Sprintf(", %d %s", n.n, n.what)
		}
	}
	return text
}

// explainedCall is what explain says of one called task. Durations are seconds.
type explainedCall struct {
	comms.CallRow
	Waited   float64                  `json:"waited_seconds,omitempty"`
	Last     string                   `json:"last_input,omitempty"` // that was there after the call was made
	LastAt   string                   `json:"last_input_at,omitempty"`
	Children []calledFunction         `json:"called_functions,omitempty"`
	names    map[comms.CallRef]string // of calls that it read
}

// explainCall explains a called task that has ended.
func (a *app) explainCall(ctx context.Context, client *cascade.Client, j *cascade.Job, g *dag.Graph, name string) error {
	rows, _, err := calledBy(ctx, client, j, name)
	if err != nil {
		return err
	}
	x := explainedCall{}
	children := rows[:0:0]
	for _, row := range rows {
		switch name {
		case row.Name:
			x.CallRow = row // of several the last end counts
		case row.Parent:
			children = append(children, row)
		}
	}
	if x.Name == "" {
		id := j.ID().String()
		return badInputf("explain: no called task %s of job %s has ended: %s lists those that have, %s those that wait or run",
			name, g.Name, a.hint("ls", "calls", id), a.hint("memory", id))
	}
	r, err := report.NewRun(g, nil, children)
	if err != nil {
		return err
	}
	for _, f := range r.Functions() {
		x.Children = append(x.Children, calledFunction{Function: f.Function, Calls: f.Calls, Failed: f.Failed, Cancelled: f.Cancelled, Tries: f.Tries, Total: f.Total, Error: f.Error})
	}
	if err := x.inputs(ctx, client, j); err != nil {
		return err
	}
	if a.json {
		return a.printJSON(&x)
	}
	a.printCall(&x)
	return nil
}

// inputs finds what the start of a called task waited for: the call itself, or the result that
// was the last to come.
func (x *explainedCall) inputs(ctx context.Context, client *cascade.Client, j *cascade.Job) error {
	from := x.Called
	x.names = map[comms.CallRef]string{}
	if slices.ContainsFunc(x.Reads, func(r comms.CallReads) bool { return !r.OfParent }) {
		for row, err := range cascade.EachRow[comms.CallRow](ctx, client, comms.QueryCalls, j.ID(), x.Parent) {
			if err != nil {
				return err
			}
			read := func(r comms.CallReads) bool { return !r.OfParent && r.Strand == row.Strand && r.Number == row.Number }
			if row.Parent != x.Parent || !slices.ContainsFunc(x.Reads, read) {
				continue
			}
			x.names[comms.CallRef{Strand: row.Strand, Number: row.Number}] = row.Name
			if earlier(from, row.Ended) && !earlier(x.Started, row.Ended) {
				from, x.Last, x.LastAt = row.Ended, row.Name, row.Ended
			}
		}
	}
	begun, wrong := time.Parse(time.RFC3339Nano, x.Started)
	if at, err := time.Parse(time.RFC3339Nano, from); err == nil && wrong == nil {
		x.Waited = max(0, begun.Sub(at).Seconds())
	}
	return nil
}

// read names a dataset that a called task read.
func (x *explainedCall) read(r comms.CallReads) string {
	ref := comms.CallRef{Strand: r.Strand, Number: r.Number}
	text, element := x.names[ref], r.Element
	switch {
	case r.OfParent:
		text = fmt.Sprintf("input %d of its caller", r.Output)
	case text == "": // of a call that has not ended, or of none
		text = "value " + string(comms.AppendCallName(nil, []byte(x.Parent), "", ref))
	case r.Output > 0:
		text += fmt.Sprintf(", output %d", r.Output)
	}
	if element > 0 {
		text += fmt.Sprintf(" [%d]", element)
	}
	return text
}

func (a *app) printCall(x *explainedCall) {
	fmt.Fprintf(a.out, "%s: %s\n", x.Name, x.State)
	by := x.Parent
	if by == "" {
		by = x.Task
	}
	a.fact("function", "%s, called by %s at %s", x.Function, by, clock(x.Called))
	for k, r := range x.Reads {
		if k == explainNames {
			a.fact("reads", "and %d more", len(x.Reads)-k)
			break
		}
		a.fact("reads", "%s", x.read(r))
	}
	tries := ""
	if x.Tries > 1 {
		tries = fmt.Sprintf(", try %d", x.Tries)
	}
	if x.Started == "" {
		a.fact("ran", "nowhere: it ended before it began")
	} else {
		a.fact("ran on", "agent %s, executor %d%s, from %s for %s", x.Agent, x.Executor, tries, clock(x.Started), report.Seconds(x.Seconds))
		if x.Last != "" {
			a.fact("started", "%s after its last input, %s, was there at %s", report.Seconds(x.Waited), x.Last, clock(x.LastAt))
		} else {
			a.fact("started", "%s after it was called", report.Seconds(x.Waited))
		}
	}
	for i := range x.Children {
		f := &x.Children[i]
		a.fact("called", "%s: %s", f.Function, f.counts())
	}
	if x.Error != "" {
		first, rest, more := strings.Cut(strings.TrimSpace(x.Error), "\n")
		if a.fact("error", "%s", first); more {
			fmt.Fprintln(a.out, indent(rest, errorLines))
		}
	}
}
