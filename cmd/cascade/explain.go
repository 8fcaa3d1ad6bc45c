package main

import (
	"cmp"
	"context"
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

// explanation is why a task runs where and when it does, or what it waits for.
// Times are RFC 3339, durations seconds.
type explanation struct {
	Task     string         `json:"task"`
	State    string         `json:"state"`
	Agent    string         `json:"agent,omitempty"`
	Executor uint32         `json:"executor,omitempty"`
	Attempt  uint32         `json:"attempt,omitempty"`
	Started  string         `json:"started,omitempty"`
	Seconds  float64        `json:"seconds,omitempty"`
	Error    string         `json:"error,omitempty"`
	Command  string         `json:"command,omitempty"` // that failed
	Last     *waited        `json:"last_input,omitempty"`
	Since    []string       `json:"inputs_again,omitempty"`   // tasks whose outputs it read, which run again since
	Before   *restart       `json:"before,omitempty"`         // what became of the attempt before
	Lost     string         `json:"agent_lost,omitempty"`     // the loss of its agent, for which it waits
	Silent   float64        `json:"silent_seconds,omitempty"` // for which nothing was heard of its agent, whose link is broken
	Inputs   int            `json:"-"`                        // tasks whose outputs it needs
	Place    float64        `json:"place_seconds,omitempty"`  // for which it had its inputs and no place
	For      []waited       `json:"waits_for,omitempty"`
	Why      string         `json:"waits,omitempty"`
	Building string         `json:"building,omitempty"` // its environment, and why that takes long
	Built    string         `json:"built,omitempty"`    // its environment, and how long it took of the wait for a place
	Plan     *comms.PlanRow `json:"plan,omitempty"`
	Held     string         `json:"held,omitempty"`     // with how much memory it began, when that is more than its job says
	NoAgent  bool           `json:"no_agent,omitempty"` // is there to follow the plan

	Device *comms.DeviceUse `json:"device,omitempty"`
}

// waited is a task whose outputs another needs.
type waited struct {
	Task  string `json:"task"`
	State string `json:"state"`
	Agent string `json:"agent,omitempty"`
	Data  string `json:"dataset,omitempty"` // that was waited for, when it was there before the end of its task
	Ended string `json:"ended,omitempty"`   // or when Data was published
}

// explainNames is the most tasks that explain names; --json has all.
const explainNames = 5

// errorLines is the most lines that explain prints of an error behind its first: the
// last, which have the cause in what tools say.
const errorLines = 15

// endStates are the states of tasks that have ended.
var endStates = []string{"done", "failed", "skipped", "cancelled"}

// notThere is the state of a task of an element that was not published.
const notThere = "not there yet"

func (a *app) explainCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "explain JOB [TASK]",
		Short: "Explain what a job's end waits for, or why a task runs so",
		Long: `Without TASK, follow the critical path of a job: what its end waited for, or
waits for, task by task, and how much of that was waiting for a place. Of a
session, and of a job whose tasks called others, show where the time of called
tasks went, by function, and what the running ones do.

With TASK, show where a task runs, which input arrived last, how long the task waited for
free resources, and what the plan says about it. For a task that has not
started, show what it waits for: other tasks, free resources, its environment.
TASK is one task, such as spread[2,500], or a called task, such as root/3.

` + jobHelp,
		Example: "  cascade explain last\n  cascade explain last spread[2]\n  cascade explain work\n  cascade explain work root/3",
		Args:    cobra.RangeArgs(1, 2),
		RunE: func(c *cobra.Command, args []string) error {
			return a.withJob(c.Context(), args[0], func(client *cascade.Client, j *cascade.Job) error {
				g, _, err := client.Graph(c.Context(), j.ID())
				if err != nil {
					return err
				}
				if len(args) == 1 && !g.IsSession() {
					if err := a.explainJob(c.Context(), client, j, g); err != nil {
						return err
					}
					if calls, _, err := calledBy(c.Context(), client, j, ""); err != nil || len(calls) == 0 {
						return err
					}
				}
				if len(args) == 1 {
					return a.explainCalls(c.Context(), client, j, g)
				}
				if _, known := g.Lookup(args[1]); !known && strings.Contains(args[1], "/") {
					return a.explainCall(c.Context(), client, j, g, args[1])
				}
				x, err := a.explain(c.Context(), client, j, g, args[1])
				if err != nil {
					return err
				}
				if a.json {
					return a.printJSON(x)
				}
				a.printExplanation(x)
				return nil
			})
		},
	}
}

func (a *app) explain(ctx context.Context, client *cascade.Client, j *cascade.Job, g *dag.Graph, name string) (*explanation, error) {
	i, ok := g.Lookup(name)
	if !ok {
		return nil, badInputf("explain: no task %q in job %s%s; give one task, not a family: cascade ls tasks lists them", name, g.Name, nearTask(g, name))
	}
	r, err := taskRow(ctx, client, j, g, i)
	if err != nil {
		return nil, err
	}
	x := &explanation{Task: g.TaskName(i), State: notThere}
	if r != nil {
		a.cutOffTask(r)
		x.State, x.Agent, x.Executor, x.Attempt, x.Started, x.Seconds, x.Error = r.State, r.Agent, r.Executor, r.Attempt, r.Started, r.Seconds, r.Error
		x.Device = r.Device
		if r.State == "failed" {
			x.Command = commandOf(g, &cascade.TaskError{Task: x.Task})
		}
	}
	told, err := readPast(cascade.EachRow[comms.StoryRow](ctx, client, comms.QueryStory, j.ID(), x.Task))
	if err != nil {
		return nil, err
	}
	if x.Attempt > 1 || told.begun && x.Started == "" { // else nothing was before
		x.Before = told.before
	}
	if told.lost != nil && !a.alone {
		x.Lost = fmt.Sprintf("agent %s lost at %s (%s); %s", told.lost.Agent, atSecond(told.lost.At), told.lost.Cause, told.lost.Detail)
	}
	if x.State == "running" {
		silent, err := a.silentAgents(ctx, client)
		if err != nil {
			return nil, err
		}
		x.Silent = silent[x.Agent].Seconds()
	}
	producers, err := producersOf(ctx, client, j, g, i)
	if err != nil {
		return nil, err
	}
	for k := range producers {
		a.cutOffTask(&producers[k])
	}
	x.inputs(producers)
	if x.Started != "" && told.start != nil && x.Before == nil {
		if err := x.cause(ctx, client, j.ID(), producers, told.start); err != nil {
			return nil, err
		}
	}
	if x.Started == "" {
		err := j.Watch(ctx, time.Second, func(p *cascade.Progress) bool {
			if x.Why = p.Waits; p.Phase == comms.JobHeld {
				x.Why = "held: " + a.hint("release", j.ID().String()) + " starts it"
			}
			return false
		})
		if err != nil {
			return nil, err
		}
	}
	if name := g.Group(i).Run.Environment; name != "" && (!a.alone && slices.Contains([]string{notThere, "waiting", "ready"}, x.State) || x.Place > 0) {
		rows, err := cascade.Rows[comms.EnvironmentRow](ctx, client, comms.QueryEnvironments, j.ID(), "")
		if err != nil {
			return nil, err
		}
		x.environment(name, rows)
	}
	for row, err := range cascade.EachRow[comms.PlanRow](ctx, client, comms.QueryPlan, j.ID(), "") {
		if err != nil {
			return nil, err
		}
		if row.Task == x.Task {
			x.Plan = row
			break
		}
	}
	if x.Plan != nil && slices.Contains(endStates, x.State) { // the plan is of what has yet to run
		x.Held, x.Plan = x.Plan.Held, nil
	}
	if x.Plan != nil {
		x.NoAgent, err = a.noAgent(ctx, client)
	}
	return x, err
}

// taskRow returns the row of a task, nil when there is none. A filter may be the name
// of a state too, and have more rows than that of a task which is called so.
func taskRow(ctx context.Context, client *cascade.Client, j *cascade.Job, g *dag.Graph, i dag.TaskIndex) (*comms.TaskRow, error) {
	for row, err := range cascade.EachRow[comms.TaskRow](ctx, client, comms.QueryTasks, j.ID(), g.TaskName(i)) {
		if err != nil {
			return nil, err
		}
		if row.Index == uint32(i) {
			return row, nil
		}
	}
	return nil, nil
}

// producersOf returns the rows of the tasks whose outputs task i needs.
func producersOf(ctx context.Context, client *cascade.Client, j *cascade.Job, g *dag.Graph, i dag.TaskIndex) (producers []comms.TaskRow, err error) {
	inputs, err := g.Inputs(i)
	if err != nil {
		return nil, fmt.Errorf("inputs of %s: %w", g.TaskName(i), err)
	}
	wanted := map[dag.TaskIndex]bool{}
	whole := map[string]bool{} // families of which all are needed
	families := map[string]bool{}
	for _, in := range inputs {
		for _, s := range in.Sources {
			family := g.Group(s.Task).Name
			families[family] = true
			wanted[s.Task] = true
			whole[family] = whole[family] || s.Kind == dag.SourceGroup
		}
	}
	if st := g.Group(i).Stream; st != nil {
		families[g.Group(st.Generator).Name], wanted[st.Generator] = true, true
	}
	for family := range families {
		for row, err := range cascade.EachRow[comms.TaskRow](ctx, client, comms.QueryTasks, j.ID(), family) {
			if err != nil {
				return nil, err
			}
			if row.Group == family && (whole[family] || wanted[dag.TaskIndex(row.Index)]) {
				producers = append(producers, *row)
			}
		}
	}
	slices.SortFunc(producers, func(a, b comms.TaskRow) int { return cmp.Compare(a.Index, b.Index) })
	return producers, nil
}

// inputs notes which producer was the last to end, or which have not.
func (x *explanation) inputs(producers []comms.TaskRow) {
	start, _ := time.Parse(time.RFC3339Nano, x.Started) // zero when it has not started
	var last time.Time
	x.Inputs = len(producers)
	for _, p := range producers {
		w := waited{Task: p.Name, State: p.State, Agent: p.Agent}
		at, err := time.Parse(time.RFC3339Nano, p.Started)
		ended := at.Add(time.Duration(p.Seconds * 1e9))
		if err == nil && !open(p) {
			w.Ended = ended.Format(time.RFC3339Nano)
		}
		switch {
		case x.Started == "" && p.State != "done":
			x.For = append(x.For, w)
		case x.Started != "" && p.Attempt > 1 && (err != nil || at.After(start)):
			x.Since = append(x.Since, p.Name)
		case x.Started != "" && err == nil && ended.After(last) && !open(p):
			last, x.Last = ended, &w
		}
	}
	if x.Before != nil {
		if at, err := time.Parse(time.RFC3339Nano, x.Before.At); err == nil && at.After(last) && at.Before(start) {
			last, x.Place = at, start.Sub(at).Seconds()
		}
	}
	if wait := start.Sub(last).Seconds(); x.Last != nil && wait > 0 {
		x.Place = wait
	}
}

// environment notes that the task's environment is being built: where the task is, or
// wherever it is, of a task of which that is not known. Of a task that has waited for a
// place for as long as that took it notes that it was built.
func (x *explanation) environment(name string, rows []comms.EnvironmentRow) {
	var all []string
	for _, r := range rows {
		if r.Name == name && r.Agent == x.Agent && r.State == "ready" && r.Seconds >= builtFor && r.Seconds <= x.Place {
			x.Built = fmt.Sprintf("%s, which agent %s built in %s", name, r.Agent, report.Seconds(r.Seconds))
		}
		if name == "" || r.Name != name || r.State != "building" || x.Agent != "" && x.Agent != r.Agent {
			continue
		}
		text := fmt.Sprintf("environment %s is being built on agent %s", name, r.Agent)
		if r.Error != "" {
			text += ", which waits: " + oneLine(r.Error)
		}
		all = append(all, text)
	}
	x.Building = strings.Join(all, "; ")
}

// builtFor is the least time in seconds for which an environment was built that explains a wait.
const builtFor = 0.01

// earlier compares times in RFC 3339; their texts do not tell, as zeros at the end are cut.
func earlier(a, b string) bool {
	at, err := time.Parse(time.RFC3339Nano, a)
	bt, wrong := time.Parse(time.RFC3339Nano, b)
	return err == nil && wrong == nil && at.Before(bt)
}

// start says what the start of a task waited for.
func (x *explanation) start() string {
	var text string
	switch {
	case x.Before != nil && x.Place > 0 && (x.Last == nil || earlier(x.Last.Ended, x.Before.At)):
		text = report.Seconds(x.Place) + " after that"
	case x.Last != nil && x.Last.Data != "" && x.Place > 0:
		text = fmt.Sprintf("%s after its last input, %s, was published on %s at %s", report.Seconds(x.Place), x.Last.Data, x.Last.Agent, clock(x.Last.Ended))
	case x.Last != nil && x.Last.Data != "":
		text = fmt.Sprintf("when its last input, %s, was published on %s", x.Last.Data, x.Last.Agent)
	case x.Last != nil && x.Place > 0:
		text = fmt.Sprintf("%s after its last input, %s, which ended on %s at %s", report.Seconds(x.Place), x.Last.Task, x.Last.Agent, clock(x.Last.Ended))
	case x.Last != nil:
		text = fmt.Sprintf("when %s ran on %s: it needs elements, not its end", x.Last.Task, x.Last.Agent)
	case x.Inputs > 0:
		text = "when its inputs were there"
	default:
		text = "without waiting for a task"
	}
	switch n := len(x.Since); {
	case n > explainNames:
		text += fmt.Sprintf("; %s and %d more run again since", strings.Join(x.Since[:explainNames], ", "), n-explainNames)
	case n > 0:
		text += fmt.Sprintf("; %s ran again since", strings.Join(x.Since, ", "))
	}
	return text
}

func (a *app) printExplanation(x *explanation) {
	fmt.Fprintf(a.out, "%s: %s\n", x.Task, x.State)
	switch {
	case x.Started != "" && x.State == "running" && x.Silent > 0:
		a.fact("runs on", "agent %s, which was not heard of for %s; executor %d, attempt %d, since %s", x.Agent, report.Seconds(x.Silent), x.Executor, x.Attempt, clock(x.Started))
	case x.Started != "" && x.State == "running":
		a.fact("runs on", "agent %s, executor %d, attempt %d, since %s", x.Agent, x.Executor, x.Attempt, clock(x.Started))
	case x.Started != "" && x.State == "cut off":
		a.fact("ran on", "agent %s, executor %d, attempt %d, from %s until its run was cut off", x.Agent, x.Executor, x.Attempt, clock(x.Started))
	case x.Started != "":
		a.fact("ran on", "agent %s, executor %d, attempt %d, from %s for %s", x.Agent, x.Executor, x.Attempt, clock(x.Started), report.Seconds(x.Seconds))
	}
	if x.Before != nil {
		a.fact("before", "%s", x.Before.text(x.Attempt, x.Started == ""))
	}
	if x.Started != "" {
		a.fact("started", "%s", x.start())
	}
	if x.Held != "" {
		a.fact("memory", "%s", x.Held)
	}
	if x.Built != "" {
		a.fact("environment", "%s", x.Built)
	}
	a.deviceFact(x.Device)
	never := x.Started == "" && slices.Contains(endStates, x.State)
	if x.Lost != "" {
		a.fact("waits", "%s", x.Lost)
	}
	if n := len(x.For); n > 0 {
		var names []string
		for _, w := range x.For[:min(n, explainNames)] {
			on := ""
			if w.Agent != "" {
				on = " on " + w.Agent
			}
			names = append(names, fmt.Sprintf("%s (%s%s)", w.Task, w.State, on))
		}
		if n > explainNames {
			names = append(names, fmt.Sprintf("and %d more", n-explainNames))
		}
		what := "waits for"
		if never {
			what = "needed"
		}
		a.fact(what, "%s", strings.Join(names, ", "))
	}
	if x.Why != "" {
		a.fact("waits", "%s", x.Why)
	}
	if x.Building != "" {
		a.fact("waits for", "%s", x.Building)
	}
	lack := ""
	if x.NoAgent {
		lack = "no agent is there; with those that were: "
	}
	switch {
	case x.Plan == nil || x.Why != "" || never: // of no use while the job cannot go on, or when the task will not run
	case x.Plan.Host != "" && x.Started != "": // by figures that are newer than its start
		a.fact("plan now", "%son %s at %s: %s", lack, x.Plan.Host, report.Seconds(x.Plan.Start), x.Plan.Reason)
	case x.Plan.Host != "":
		a.fact("planned", "%son %s at %s: %s", lack, x.Plan.Host, report.Seconds(x.Plan.Start), x.Plan.Reason)
	default:
		a.fact("planned", "nowhere: %s", x.Plan.Reason)
	}
	if x.Command != "" {
		fmt.Fprintf(a.out, "  %-14s %s\n", "command", hanging(x.Command, 10, 17))
	}
	if x.Error != "" {
		first, rest, more := strings.Cut(strings.TrimSpace(x.Error), "\n")
		if a.fact("error", "%s", first); more {
			fmt.Fprintln(a.out, indent(rest, errorLines))
		}
	}
}
