package main

import (
	"context"
	"fmt"
	"time"

	"github.com/cascade-run/cascade"
	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/dag"
	"github.com/cascade-run/cascade/internal/report"
)

// pathShown is the most steps of a critical path that are printed; --json has all.
const pathShown = 20

// jobPath is what a job's end waited for, or waits for. Durations are seconds.
type jobPath struct {
	Job    string     `json:"job"`
	Phase  string     `json:"phase"`
	Wall   float64    `json:"wall_seconds,omitempty"`
	Ran    float64    `json:"critical_path_seconds"`
	Waited float64    `json:"waited_seconds"` // of the path: tasks that had their inputs and no place
	Left   float64    `json:"predicted_seconds_left,omitempty"`
	Waits  string     `json:"waits,omitempty"`
	Late   string     `json:"late,omitempty"`
	Steps  []pathStep `json:"path"`
	Next   []pathNext `json:"next,omitempty"` // of a job that has not ended
}

// pathStep is a task of the path.
type pathStep struct {
	Task    string  `json:"task"`
	State   string  `json:"state"`
	Host    string  `json:"host"`
	Waited  float64 `json:"waited_seconds"`
	Ran     float64 `json:"ran_seconds"`
	Typical float64 `json:"family_median_seconds"`
}

// pathNext is a task on the longest way to the end that has not begun.
type pathNext struct {
	Task  string  `json:"task"`
	State string  `json:"state"`
	Rank  float64 `json:"rank_seconds"` // from its start to the end of the job
}

// explainJob says what the end of a job waited for, task by task.
func (a *app) explainJob(ctx context.Context, client *cascade.Client, j *cascade.Job, g *dag.Graph) error {
	if g.NumTasks() > summaryTasks {
		return hintedf(a.hint("explain", j.ID().String(), "TASK"), "the job has more than %d tasks: name one", summaryTasks)
	}
	rows, err := a.tasksSoFar(ctx, client, j)
	if err != nil {
		return err
	}
	x := &jobPath{Job: g.Name, Steps: []pathStep{}}
	var last *cascade.Progress
	if err := j.Watch(ctx, time.Second, func(p *cascade.Progress) bool {
		last = p
		return false
	}); err != nil {
		return err
	}
	x.Phase, x.Waits, x.Late, x.Wall = last.Phase.String(), last.Waits, last.Late, last.Took().Seconds()
	if cut, err := a.cutOff(last.Phase, isSession(ctx, client, j.ID())); err != nil {
		return err
	} else if cut != "" {
		x.Phase, x.Waits = "cut off", cut
	}
	if err := x.path(g, rows); err != nil {
		return err
	}
	if !last.Phase.Final() {
		plan, err := cascade.Rows[comms.PlanRow](ctx, client, comms.QueryPlan, j.ID(), "")
		if err != nil {
			return err
		}
		x.next(rows, plan)
		x.Left = weigh(plan).left(last)
	}
	if a.json {
		return a.printJSON(x)
	}
	return a.printPath(x)
}

func (x *jobPath) path(g *dag.Graph, rows []comms.TaskRow) error {
	r, err := report.NewRun(g, rows, nil)
	if err != nil || len(r.Tasks) == 0 {
		return err
	}
	steps, err := r.Path()
	if err != nil {
		return err
	}
	typical := medians(rows)
	for _, s := range steps {
		x.Ran, x.Waited = x.Ran+s.Ran, x.Waited+max(s.Waited, 0)
		x.Steps = append(x.Steps, pathStep{s.Task.Name, s.Task.State, s.Task.Agent, max(s.Waited, 0), s.Ran, typical[s.Task.Group]})
	}
	return nil
}

// next notes the tasks that have not begun with the longest way to the end.
func (x *jobPath) next(rows []comms.TaskRow, plan []comms.PlanRow) {
	rank := map[string]float64{}
	for i := range plan {
		rank[plan[i].Task] = plan[i].Rank
	}
	for i := range rows {
		r := &rows[i]
		if r.Started == "" && open(*r) {
			x.Next = append(x.Next, pathNext{r.Name, r.State, rank[r.Name]})
		}
	}
	sortBy(x.Next, func(n pathNext) float64 { return -n.Rank })
	x.Next = x.Next[:min(len(x.Next), explainNames)]
}

func (a *app) printPath(x *jobPath) error {
	fmt.Fprintf(a.out, "%s: %s\n", x.Job, x.Phase)
	if x.Waits != "" {
		a.fact("waits", "%s", x.Waits)
	}
	if x.Late != "" {
		a.fact("late", "%s", x.Late)
	}
	if len(x.Steps) == 0 {
		a.fact("path", "no task has begun")
	} else {
		of := ""
		if x.Wall > 0 {
			of = fmt.Sprintf(" of %s", report.Seconds(x.Wall))
		}
		a.fact("critical path", "%s one after another ran for %s%s, and waited %s for a place", plural(len(x.Steps), "task"), report.Seconds(x.Ran), of, report.Seconds(x.Waited))
	}
	if x.Left > 0 {
		a.fact("predicted", "%s left", report.Seconds(x.Left))
	}
	for _, n := range x.Next {
		a.fact("next", "%s (%s), %s to the end", n.Task, n.State, report.Seconds(n.Rank))
	}
	if len(x.Steps) == 0 {
		return nil
	}
	shown := x.Steps
	if more := len(shown) - pathShown; more > 0 {
		shown = shown[more:]
		fmt.Fprintf(a.out, "the last %d of %d steps; --json has all\n", pathShown, len(x.Steps))
	}
	if err := table(a, shown, "task", "state", "host", "waited_seconds", "ran_seconds", "family_median_seconds"); err != nil {
		return err
	}
	long := longestStep(x.Steps)
	_, err := fmt.Fprintf(a.out, "most of it: %s; %s tells why it ran there and then\n", long.Task, a.hint("explain", x.Job, long.Task))
	return err
}

// longestStep is the step that took most, with its wait.
func longestStep(steps []pathStep) pathStep {
	most := steps[0]
	for _, s := range steps {
		if s.Ran+s.Waited > most.Ran+most.Waited {
			most = s
		}
	}
	return most
}
