package client

import (
	"context"
	"fmt"
	"iter"

	"github.com/vmihailenco/msgpack/v5"

	"github.com/cascade-run/cascade/comms"
)

// Rows asks for rows of what the cluster knows, most of them at most; 0 means all.
func Rows[T any](ctx context.Context, c *Conn, kind string, job comms.JobID, filter string, most int) ([]T, error) {
	var rows []T
	for row, err := range EachRow[T](ctx, c, kind, job, filter, most) {
		if err != nil {
			return nil, err
		}
		if rows = append(rows, *row); len(rows) == most {
			break
		}
	}
	return rows, nil
}

// EachRow asks for rows one by one, in pages of at most so many; 0 means pages as they come.
// T is the row type that belongs to kind; see comms.Query.
func EachRow[T any](ctx context.Context, c *Conn, kind string, job comms.JobID, filter string, most int) iter.Seq2[*T, error] {
	return eachRow[T](ctx, c.ctrl, kind, job, filter, most)
}

// AgentRows asks an agent, at one of its addresses, for all rows of what it alone knows. With an error come those before it.
func AgentRows[T any](ctx context.Context, c *Conn, agent string, addresses []string, kind string, job comms.JobID) (rows []*T, err error) {
	for row, err := range EachAgentRow[T](ctx, c, agent, addresses, kind, job) {
		if err != nil {
			return rows, err
		}
		rows = append(rows, row)
	}
	return rows, nil
}

// EachAgentRow asks an agent as AgentRows does, for one row after the other. It ends with an error, if there is one.
func EachAgentRow[T any](ctx context.Context, c *Conn, agent string, addresses []string, kind string, job comms.JobID) iter.Seq2[*T, error] {
	return func(yield func(*T, error) bool) {
		p, err := c.agentPeer(ctx, agent, addresses)
		if err != nil {
			yield(nil, fmt.Errorf("query %s of agent %s: %w", kind, agent, err))
			return
		}
		for row, err := range eachRow[T](ctx, p, kind, job, "", 0) {
			if err != nil {
				err = fmt.Errorf("agent %s: %w", agent, err)
			}
			if !yield(row, err) || err != nil {
				return
			}
		}
	}
}

func eachRow[T any](ctx context.Context, p *peer, kind string, job comms.JobID, filter string, most int) iter.Seq2[*T, error] {
	limit := uint32(pageRows)
	if most > 0 {
		limit = uint32(min(most, pageRows))
	}
	return func(yield func(*T, error) bool) {
		var cursor []byte
		for {
			m, err := p.requests.one(ctx, func(req uint64) comms.Message {
				return &comms.Query{Req: req, Kind: kind, Job: job, Filter: filter, Cursor: cursor, Limit: limit}
			})
			if err != nil {
				yield(nil, fmt.Errorf("query %s: %w", kind, err))
				return
			}
			page, ok := m.(*comms.Page)
			if !ok {
				yield(nil, fmt.Errorf("query %s: unexpected answer %T", kind, m))
				return
			}
			for _, b := range page.Rows {
				row := new(T)
				if err := msgpack.Unmarshal(b, row); err != nil {
					yield(nil, fmt.Errorf("query %s: decode row: %w", kind, err))
					return
				}
				if !yield(row, nil) {
					return
				}
			}
			if cursor = page.Cursor; cursor == nil {
				return
			}
		}
	}
}

const pageRows = 5000
