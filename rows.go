package cascade

import (
	"context"
	"fmt"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/dag"
)

// Graph returns a job's graph, and the folder that its relative paths refer to.
func (c *Client) Graph(ctx context.Context, id comms.JobID) (*dag.Graph, string, error) {
	m, err := c.ctrl.requests.one(ctx, func(req uint64) comms.Message {
		return &comms.Query{Req: req, Kind: comms.QueryGraph, Job: id}
	})
	if err != nil {
		return nil, "", fmt.Errorf("graph of job %s: %w", id, err)
	}
	page, ok := m.(*comms.Page)
	if !ok || len(page.Rows) != 1 {
		return nil, "", fmt.Errorf("graph of job %s: unexpected answer %T", id, m)
	}
	g, err := dag.Decode(page.Rows[0])
	if err != nil {
		return nil, "", fmt.Errorf("graph of job %s: %w", id, err)
	}
	jobs, err := Rows[comms.JobRow](ctx, c, comms.QueryJobs, id, "")
	if err != nil {
		return nil, "", err
	}
	if len(jobs) != 1 {
		return nil, "", fmt.Errorf("graph of job %s: %w", id, ErrNotFound)
	}
	return g, jobs[0].Dir, nil
}
