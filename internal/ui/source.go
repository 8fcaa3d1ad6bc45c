package ui

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/vmihailenco/msgpack/v5"

	"github.com/cascade-run/cascade"
	"github.com/cascade-run/cascade/admin"
	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/dag"
	"github.com/cascade-run/cascade/internal/client"
)

// Source is the cluster that a Handler shows. Its methods may be called from any goroutine.
// The cluster checks the role of the one who asks.
type Source interface {
	// Query returns one page of rows.
	Query(ctx context.Context, q comms.Query) (*comms.Page, error)
	// Watch tells how a job stands, as cascade.Job.Watch does.
	Watch(ctx context.Context, job comms.JobID, every time.Duration, yield func(*comms.Progress) bool) error
	// Log returns at most so many bytes of what a task wrote, from an offset on, and how many there
	// are in all.
	Log(ctx context.Context, job comms.JobID, task string, offset, most uint64) (text []byte, total uint64, err error)
	// References calls f for each reference that agents have of a job, or of all with the zero ID. It returns the
	// hosts that were not asked, with the reason.
	References(ctx context.Context, job comms.JobID, f func(*comms.ReferenceRow)) (absent []string, err error)
	// Control changes the course of a job.
	Control(ctx context.Context, c comms.Control) error
	// Drain has a host leave the cluster.
	Drain(ctx context.Context, host, reason string) error
}

// Cluster is the Source of a client.
type Cluster struct{ Client *cascade.Client }

// Query asks the controller.
func (c Cluster) Query(ctx context.Context, q comms.Query) (*comms.Page, error) {
	m, err := c.Client.Conn().Ask(ctx, func(req uint64) comms.Message {
		q.Req = req
		return &q
	})
	if err != nil {
		return nil, fmt.Errorf("query %s: %w", q.Kind, err)
	}
	page, ok := m.(*comms.Page)
	if !ok {
		return nil, fmt.Errorf("query %s: unexpected answer %T", q.Kind, m)
	}
	return page, nil
}

// Watch follows a job.
func (c Cluster) Watch(ctx context.Context, job comms.JobID, every time.Duration, yield func(*comms.Progress) bool) error {
	return c.Client.Job(job).Watch(ctx, every, yield)
}

// Log asks the agent on whose host the task ran.
func (c Cluster) Log(ctx context.Context, job comms.JobID, task string, offset, most uint64) (text []byte, total uint64, err error) {
	tasks, err := rowsOf[comms.TaskRow](ctx, c, comms.QueryTasks, job, task, 2)
	if err != nil {
		return nil, 0, err
	}
	at := slices.IndexFunc(tasks, func(r comms.TaskRow) bool { return r.Name == task })
	if at < 0 {
		return nil, 0, fmt.Errorf("log of %s: %w: no such task in job %s", task, cascade.ErrNotFound, job)
	}
	agent := tasks[at].Agent
	if agent == "" {
		return nil, 0, nil // it has not begun
	}
	hosts, err := rowsOf[comms.AgentRow](ctx, c, comms.QueryAgents, comms.JobID{}, "", 0)
	if err != nil {
		return nil, 0, err
	}
	at = slices.IndexFunc(hosts, func(r comms.AgentRow) bool { return r.Name == agent })
	if at < 0 {
		return nil, 0, fmt.Errorf("log of %s: %w: host %s, where it ran, is not there", task, cascade.ErrUnavailable, agent)
	}
	chunk, text, err := c.Client.Conn().Piece(ctx, agent, hosts[at].Addresses, comms.Fetch{Log: true, Task: task, Data: comms.DatasetID{Job: job}, Offset: offset, Max: most})
	if err != nil {
		return nil, 0, fmt.Errorf("log of %s: %w", task, err)
	}
	return text, chunk.Total, nil
}

// References asks the agents, one after another.
func (c Cluster) References(ctx context.Context, job comms.JobID, f func(*comms.ReferenceRow)) (absent []string, err error) {
	hosts, err := rowsOf[comms.AgentRow](ctx, c, comms.QueryAgents, comms.JobID{}, "", 0)
	if err != nil {
		return nil, err
	}
	for i := range hosts {
		a := &hosts[i]
		if a.State != "ready" && a.State != "leaving" {
			if a.State != "left" {
				absent = append(absent, fmt.Sprintf("host %s is %s", a.Name, a.State))
			}
			continue
		}
		for row, err := range client.EachAgentRow[comms.ReferenceRow](ctx, c.Client.Conn(), a.Name, a.Addresses, comms.QueryReferences, job) {
			if ctx.Err() != nil {
				return absent, context.Cause(ctx)
			}
			if err != nil {
				absent = append(absent, err.Error())
				break
			}
			f(row)
		}
	}
	return absent, nil
}

// Control asks the controller.
func (c Cluster) Control(ctx context.Context, m comms.Control) error {
	_, err := c.Client.Conn().Ask(ctx, func(req uint64) comms.Message {
		m.Req = req
		return &m
	})
	return err
}

// Drain asks the controller.
func (c Cluster) Drain(ctx context.Context, host, reason string) error {
	return admin.Drain(ctx, c.Client, host, 0, reason)
}

// rowsOf reads rows, most of them at most; 0 means all. T is the row type of the kind.
func rowsOf[T any](ctx context.Context, s Source, kind string, job comms.JobID, filter string, most int) (rows []T, err error) {
	rows, _, err = pageOf[T](ctx, s, comms.Query{Kind: kind, Job: job, Filter: filter}, most)
	return rows, err
}

// queryRows is the most rows of one query.
const queryRows = 10_000

// pageOf reads rows from the cursor of q on, most of them at most, and returns the cursor behind them:
// empty when there are no more.
func pageOf[T any](ctx context.Context, s Source, q comms.Query, most int) (rows []T, cursor []byte, err error) {
	for {
		q.Limit = queryRows
		if most > 0 {
			q.Limit = uint32(min(queryRows, most-len(rows)))
		}
		page, err := s.Query(ctx, q)
		if err != nil {
			return nil, nil, err
		}
		for _, b := range page.Rows {
			var row T
			if err := msgpack.Unmarshal(b, &row); err != nil {
				return nil, nil, fmt.Errorf("query %s: decode row: %w", q.Kind, err)
			}
			rows = append(rows, row)
		}
		if q.Cursor = page.Cursor; len(q.Cursor) == 0 || most > 0 && len(rows) >= most {
			return rows, q.Cursor, nil
		}
	}
}

// graphOf reads the graph of a job.
func graphOf(ctx context.Context, s Source, job comms.JobID) (*dag.Graph, error) {
	page, err := s.Query(ctx, comms.Query{Kind: comms.QueryGraph, Job: job})
	if err != nil {
		return nil, err
	}
	if len(page.Rows) != 1 {
		return nil, fmt.Errorf("graph of job %s: %w", job, cascade.ErrNotFound)
	}
	return dag.Decode(page.Rows[0])
}
