package cascade

import (
	"context"
	"fmt"
	"time"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/dag"
	"github.com/cascade-run/cascade/internal/backoff"
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

// Ready waits until so many agents can be given work. A job that is submitted
// before is planned for those that are there.
func (c *Client) Ready(ctx context.Context, agents int) error {
	pause := backoff.Backoff{First: time.Millisecond, Longest: 50 * time.Millisecond}
	for {
		rows, err := Rows[comms.AgentRow](ctx, c, comms.QueryAgents, comms.JobID{}, "")
		if err != nil {
			return fmt.Errorf("wait for agents: %w", err)
		}
		ready := 0
		for i := range rows {
			if rows[i].State == "ready" {
				ready++
			}
		}
		if ready >= agents {
			return nil
		}
		if !pause.Wait(ctx.Done()) {
			return fmt.Errorf("wait for agents: %d of %d are ready: %w", ready, agents, ctx.Err())
		}
	}
}
