package controller

import (
	"iter"
	"slices"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/controller/records"
	"github.com/cascade-run/cascade/dag"
)

// environmentRows lists the environments of a job and what became of them.
func (c *Controller) environmentRows(p *pager, q *comms.Query, g *dag.Graph) error {
	if q.Job.IsZero() {
		return c.eachJob(p, func(job comms.JobID, g *dag.Graph) error {
			one := *q
			one.Job = job
			return c.environmentRows(p, &one, g)
		})
	}
	if len(g.Environments) == 0 {
		return nil
	}
	job, err := c.store.Job(q.Job)
	if err != nil {
		return err
	}
	rows, err := environments(&job, g, c.store.Batches(q.Job))
	if err != nil {
		return err
	}
	for i := range rows {
		if !p.add(func() any { return &rows[i] }) {
			break
		}
	}
	return nil
}

// build is what an agent did for an environment of a job.
type build struct {
	row   comms.EnvironmentRow
	began int64 // when it began to build; 0 when that was not said
}

// environments makes a row for each agent that a job's environment was asked of, in the
// order in which they began, and one without an agent of an environment that no agent has.
// A build ends with its job, and when the job is taken from its agent.
func environments(job *records.Job, g *dag.Graph, batches iter.Seq2[records.Batch, error]) ([]comms.EnvironmentRow, error) {
	builds := make([][]*build, len(g.Environments))
	for b, err := range batches {
		if err != nil {
			return nil, err
		}
		for i := range b.Events {
			e := &b.Events[i]
			if e.Kind != comms.EventEnv && e.Kind != comms.EventBuilding {
				continue
			}
			k := slices.IndexFunc(g.Environments, func(x dag.Environment) bool { return x.Name == e.Cause.Text })
			if k < 0 {
				continue
			}
			at := slices.IndexFunc(builds[k], func(x *build) bool { return x.row.Agent == b.Agent })
			if at < 0 {
				at = len(builds[k])
				builds[k] = append(builds[k], &build{row: comms.EnvironmentRow{Agent: b.Agent}})
			}
			builds[k][at].add(e)
		}
	}
	var rows []comms.EnvironmentRow
	for k := range g.Environments {
		x := &g.Environments[k]
		builds[k] = slices.DeleteFunc(builds[k], func(b *build) bool { return b.row.State == "building" && !works(job, b.row.Agent) })
		if len(builds[k]) == 0 {
			builds[k] = []*build{{row: comms.EnvironmentRow{State: "unused"}}}
		}
		for _, b := range builds[k] {
			b.row.Job, b.row.Name, b.row.Kind = job.ID.String(), x.Name, x.Kind()
			rows = append(rows, b.row)
		}
	}
	return rows, nil
}

// works tells whether an agent has a job now.
func works(job *records.Job, agent string) bool {
	return !job.Phase.Final() && (job.Agent == agent || slices.ContainsFunc(job.Assignments, func(f records.Assignment) bool { return f.Agent == agent }))
}

// add takes in that its agent builds the environment, or has it.
func (b *build) add(e *comms.Event) {
	r := &b.row
	r.Error = ""
	if e.Error != nil { // why it failed, or what it waits for
		r.Error = e.Error.Message
	}
	if e.Kind == comms.EventBuilding {
		if r.State != "building" {
			b.began = e.At
		}
		r.State = "building"
		return
	}
	if r.State = "failed"; e.Error == nil {
		r.State, r.Size, r.Used = "ready", e.Count, stamp(e.At)
	}
	if b.began != 0 {
		r.Seconds = seconds(max(0, e.At-b.began)) // of a wall clock, which may be set back
	}
}
