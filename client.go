package cascade

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"
	"time"

	"github.com/vmihailenco/msgpack/v5"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/comms/pki"
)

// Client speaks to one controller. Its methods may be called from any goroutine.
type Client struct {
	opts    options
	ctrl    *peer
	packed  packings
	program program
	sums    sums
	folder  folder
	local   bool // the cluster is on this host alone
	mu      sync.Mutex
	agent   map[string]*peer // links to agents that hold datasets, by name and address
	failed  error            // the cluster has ended in this process: nothing will be answered
}

// Dial connects to a controller: at an address such as
// "ipc:///run/user/1000/cascade/controller.sock" or "tcp://head:7420", at HOST or
// HOST:PORT, or by the name of a cluster that was joined (see JoinCluster).
// The context bounds the connecting; afterwards the link reconnects when it breaks.
func Dial(ctx context.Context, address string, opts ...Option) (*Client, error) {
	o := newOptions(opts)
	t, err := resolve(ctx, address, &o)
	if err == nil {
		err = o.prove(t)
	}
	var p *peer
	if err == nil {
		p, err = dialPeer(ctx, t.address, pki.RoleController, "", o)
	}
	if err != nil {
		return nil, fmt.Errorf("connect to controller at %s: %w", address, err)
	}
	c := &Client{opts: o, ctrl: p, agent: make(map[string]*peer)}
	if o.member == nil {
		return c, nil
	}
	if time.Now().After(o.member.RenewAt()) { // a command may end before anything happens beside it
		ctx, cancel := context.WithTimeout(ctx, renewNow)
		defer cancel()
		if err := c.Renew(ctx); err != nil {
			o.log.Warn().Err(err).Time("expires", o.member.Expires()).Msg("the certificate is not renewed")
		}
	}
	p.work.Go(c.keepCertificate)
	return c, nil
}

// Close ends the client's links. Jobs go on.
func (c *Client) Close() error {
	c.mu.Lock()
	peers := []*peer{c.ctrl}
	for _, p := range c.agent {
		peers = append(peers, p)
	}
	c.agent = nil
	c.mu.Unlock()
	var errs []error
	for _, p := range peers {
		errs = append(errs, p.Close())
	}
	return errors.Join(errs...)
}

// giveUp ends every request that waits, at the controller or an agent, and all
// later ones, with err.
func (c *Client) giveUp(err error) {
	c.ctrl.requests.fail(err)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.failed = err
	for _, p := range c.agent {
		p.requests.fail(err)
	}
}

// Job returns a handle on a job that was submitted before, by anybody.
func (c *Client) Job(id comms.JobID) *Job { return &Job{client: c, id: id} }

// Rows asks for rows of what the cluster knows. T is the row type that belongs to
// kind; see comms.Query.
func Rows[T any](ctx context.Context, c *Client, kind string, job comms.JobID, filter string) ([]T, error) {
	return FirstRows[T](ctx, c, kind, job, filter, 0)
}

// FirstRows is like Rows and stops at a number of rows; 0 means all.
func FirstRows[T any](ctx context.Context, c *Client, kind string, job comms.JobID, filter string, most int) ([]T, error) {
	var rows []T
	for row, err := range eachRow[T](ctx, c, kind, job, filter, most) {
		if err != nil {
			return nil, err
		}
		if rows = append(rows, *row); len(rows) == most {
			break
		}
	}
	return rows, nil
}

// EachRow is Rows one by one: a job may have millions. They are fetched page by
// page. It ends with the first error.
func EachRow[T any](ctx context.Context, c *Client, kind string, job comms.JobID, filter string) iter.Seq2[*T, error] {
	return eachRow[T](ctx, c, kind, job, filter, 0)
}

// eachRow asks for pages of at most so many rows; 0 means pages as they come.
func eachRow[T any](ctx context.Context, c *Client, kind string, job comms.JobID, filter string, most int) iter.Seq2[*T, error] {
	limit := uint32(pageRows)
	if most > 0 {
		limit = uint32(min(most, pageRows))
	}
	return func(yield func(*T, error) bool) {
		var cursor []byte
		for {
			m, err := c.ctrl.requests.one(ctx, func(req uint64) comms.Message {
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
