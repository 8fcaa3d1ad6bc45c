package cascade

import (
	"context"
	"errors"
	"fmt"
	"os/user"
	"path/filepath"
	"sync"

	"github.com/vmihailenco/msgpack/v5"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/dag"
	"github.com/cascade-run/cascade/executor"
)

// Client speaks to one controller. Its methods may be called from any goroutine.
type Client struct {
	opts  options
	ctrl  *peer
	mu    sync.Mutex
	agent map[string]*peer // links to agents that hold datasets, by address
}

// Dial connects to a controller, for example at "ipc:///run/user/1000/cascade/controller.sock".
// The context bounds the connecting; afterwards the link mends itself when it breaks.
func Dial(ctx context.Context, address string, opts ...Option) (*Client, error) {
	o := newOptions(opts)
	p, err := dialPeer(ctx, address, o)
	if err != nil {
		return nil, fmt.Errorf("connect to controller at %s: %w", address, err)
	}
	return &Client{opts: o, ctrl: p, agent: make(map[string]*peer)}, nil
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

// Submit hands a graph to the controller and returns when the job is durable.
// Submitting again with the same JobID (see WithJobID) is the same job.
func (c *Client) Submit(ctx context.Context, g *dag.Graph, opts ...SubmitOption) (*Job, error) {
	s := submission{priority: 0, weight: 1}
	for _, o := range opts {
		o(&s)
	}
	if s.id.IsZero() {
		id, err := comms.NewJobID()
		if err != nil {
			return nil, err
		}
		s.id = id
	}
	dir, err := filepath.Abs(s.dir) // agents have working folders of their own
	if err != nil {
		return nil, fmt.Errorf("submit %s: find the working folder: %w", g.Name, err)
	}
	s.dir = dir
	if s.owner == "" {
		if u, err := user.Current(); err == nil {
			s.owner = u.Username
		}
	}
	registered, err := executor.Default.SignaturesOf(ownFunctions(g))
	if err != nil {
		return nil, fmt.Errorf("submit %s: %w", g.Name, err)
	}
	m := &comms.Submit{
		Job: s.id, Dir: s.dir, Owner: s.owner, Priority: s.priority, Weight: s.weight,
		Hold: s.hold, Labels: s.labels, Registry: registered,
	}
	encoded := g.Encode()
	if len(encoded) <= inlineGraph {
		m.Graph = encoded
	} else {
		hash, err := c.upload(ctx, encoded)
		if err != nil {
			return nil, fmt.Errorf("submit %s: %w", g.Name, err)
		}
		m.GraphHash = hash
	}
	answer, _, err := c.ctrl.requests.one(ctx, func(req uint64) comms.Message {
		m.Req = req
		return m
	})
	if err != nil {
		return nil, fmt.Errorf("submit %s: %w", g.Name, err)
	}
	accepted, ok := answer.(*comms.Accepted)
	if !ok {
		return nil, fmt.Errorf("submit %s: unexpected answer %T", g.Name, answer)
	}
	return &Job{client: c, id: accepted.Job}, nil
}

// ownFunctions tells which functions of this program a graph runs. Others may
// differ between this program and the executors: the job does not need them.
func ownFunctions(g *dag.Graph) func(name string) bool {
	used := map[string]bool{}
	for i := range g.Groups {
		if r := &g.Groups[i].Run; r.Environment == "" && r.Function != "" {
			used[r.Function] = true
		}
	}
	return func(name string) bool { return used[name] }
}

// Job returns a handle on a job that was submitted before, by anybody.
func (c *Client) Job(id comms.JobID) *Job { return &Job{client: c, id: id} }

// Rows asks for rows of what the cluster knows and fetches them page by
// page. T is the row type that belongs to kind; see comms.Query.
func Rows[T any](ctx context.Context, c *Client, kind string, job comms.JobID, filter string) ([]T, error) {
	var rows []T
	var cursor []byte
	for {
		m, _, err := c.ctrl.requests.one(ctx, func(req uint64) comms.Message {
			return &comms.Query{Req: req, Kind: kind, Job: job, Filter: filter, Cursor: cursor, Limit: pageRows}
		})
		if err != nil {
			return nil, fmt.Errorf("query %s: %w", kind, err)
		}
		page, ok := m.(*comms.Page)
		if !ok {
			return nil, fmt.Errorf("query %s: unexpected answer %T", kind, m)
		}
		for _, b := range page.Rows {
			var row T
			if err := msgpack.Unmarshal(b, &row); err != nil {
				return nil, fmt.Errorf("query %s: decode row: %w", kind, err)
			}
			rows = append(rows, row)
		}
		if cursor = page.Cursor; cursor == nil {
			return rows, nil
		}
	}
}

const (
	inlineGraph = 1 << 20 // larger graphs travel as blobs
	blobPiece   = 1 << 20
	pageRows    = 1000
)
