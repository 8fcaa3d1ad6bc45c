package cascade

import (
	"context"
	"fmt"
	"iter"
	"time"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/dag"
	"github.com/cascade-run/cascade/internal/backoff"
	"github.com/cascade-run/cascade/internal/client"
)

// Client speaks to one controller. Its methods may be called from any goroutine.
type Client struct {
	opts options
	conn *client.Conn
}

// Dial connects to a controller: at an address such as
// "ipc:///run/user/1000/cascade/controller.sock" or "tcp://head:7420", at HOST or
// HOST:PORT, or by the name of a cluster that was joined (see admin.JoinCluster).
// The context bounds the connecting; afterwards the link reconnects when it breaks.
func Dial(ctx context.Context, address string, opts ...Option) (*Client, error) {
	return dial(ctx, address, newOptions(opts))
}

func dial(ctx context.Context, address string, o options) (*Client, error) {
	conn, err := client.Dial(ctx, address, o.Config)
	if err != nil {
		return nil, fmt.Errorf("connect to controller at %s: %w", address, err)
	}
	return &Client{opts: o, conn: conn}, nil
}

// Conn returns the client's connection, for the packages of this module.
func (c *Client) Conn() *client.Conn { return c.conn }

// Close ends the client's links. Jobs go on.
func (c *Client) Close() error { return c.conn.Close() }

// Job returns a handle on a job that was submitted before, by this client or another.
func (c *Client) Job(id comms.JobID) *Job { return &Job{client: c, id: id} }

// Rows asks for rows of what the cluster knows. T is the row type that belongs to
// kind; see comms.Query.
func Rows[T any](ctx context.Context, c *Client, kind string, job comms.JobID, filter string) ([]T, error) {
	return FirstRows[T](ctx, c, kind, job, filter, 0)
}

// FirstRows is like Rows and stops at a number of rows; 0 means all.
func FirstRows[T any](ctx context.Context, c *Client, kind string, job comms.JobID, filter string, most int) ([]T, error) {
	return client.Rows[T](ctx, c.conn, kind, job, filter, most)
}

// EachRow is Rows one by one: a job may have millions. They are fetched page by
// page. It ends with the first error.
func EachRow[T any](ctx context.Context, c *Client, kind string, job comms.JobID, filter string) iter.Seq2[*T, error] {
	return client.EachRow[T](ctx, c.conn, kind, job, filter, 0)
}

// Graph returns a job's graph, and the folder that its relative paths refer to.
func (c *Client) Graph(ctx context.Context, id comms.JobID) (*dag.Graph, string, error) {
	m, err := c.conn.Ask(ctx, func(req uint64) comms.Message {
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
