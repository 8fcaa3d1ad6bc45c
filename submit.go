package cascade

import (
	"context"
	"fmt"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/dag"
)

// Submit hands a graph to the controller and returns when the job is durable.
// Submitting again with the same JobID (see WithJobID) is the same job.
func (c *Client) Submit(ctx context.Context, g *dag.Graph, opts ...SubmitOption) (*Job, error) {
	m := comms.Submit{Weight: 1}
	for _, o := range opts {
		o(&m)
	}
	var err error
	if m.Job.IsZero() {
		if m.Job, err = comms.NewJobID(); err != nil {
			return nil, fmt.Errorf("submit %s: %w", g.Name, err)
		}
	}
	s, err := c.conn.Submit(ctx, g, m)
	if err != nil {
		return nil, fmt.Errorf("submit %s: %w", g.Name, err)
	}
	j := &Job{client: c, id: s.Job, graph: s.Graph}
	j.told.Store(&subscription{request: s.Request})
	return j, nil
}

// SubmitOption sets how a job is submitted.
type SubmitOption func(*comms.Submit)

// WithJobID names the job, so that a repeated Submit is the same job.
func WithJobID(id comms.JobID) SubmitOption { return func(m *comms.Submit) { m.Job = id } }

// WithDir sets the folder that relative paths of the job refer to; the default
// is the working folder.
func WithDir(dir string) SubmitOption { return func(m *comms.Submit) { m.Dir = dir } }

// WithTenant names the tenant whose jobs share one weight, beside other tenants; the default is the user.
func WithTenant(tenant string) SubmitOption { return func(m *comms.Submit) { m.Tenant = tenant } }

// WithPriority orders the job before others of lower priority; the default is 0.
func WithPriority(p int64) SubmitOption { return func(m *comms.Submit) { m.Priority = p } }

// WithWeight sets the weight of the job's tenant, relative to others; the default is 1.
func WithWeight(w uint32) SubmitOption { return func(m *comms.Submit) { m.Weight = w } }

// WithHold submits the job without starting it; see Job.Release.
func WithHold() SubmitOption { return func(m *comms.Submit) { m.Hold = true } }

// WithKeep keeps the job, its lineage and its outputs until it is forgotten; see
// Job.Forget and WithRetention.
func WithKeep() SubmitOption { return func(m *comms.Submit) { m.Keep = true } }

// WithResume has the job take over the results of an earlier one, which has ended,
// where nothing that they rest on has changed and they are still there: see
// dag.Graph.Retain. again names tasks or families that run in any case, with all
// that depends on them. The story of the new job (comms.QueryStory) says why tasks ran again.
func WithResume(earlier comms.JobID, again ...string) SubmitOption {
	return func(m *comms.Submit) { m.Resume = &comms.Resume{Job: earlier, Again: again} }
}

// WithLabel adds a name and value for people.
func WithLabel(name, value string) SubmitOption {
	return func(m *comms.Submit) { m.Labels = append(m.Labels, name+"="+value) }
}
