package cascade

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/user"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/rs/zerolog"
	"github.com/zeebo/blake3"

	"github.com/cascade-run/cascade/agent/runtimeenv"
	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/dag"
	"github.com/cascade-run/cascade/executor"
	"github.com/cascade-run/cascade/internal/decoded"
)

// Submit hands a graph to the controller and returns when the job is durable.
// Submitting again with the same JobID (see WithJobID) is the same job.
func (c *Client) Submit(ctx context.Context, g *dag.Graph, opts ...SubmitOption) (*Job, error) {
	j, err := c.submit(ctx, g, opts)
	for try := 1; errors.Is(err, runtimeenv.ErrChanged) && try < uploads; try++ {
		c.program.forget()
		j, err = c.submit(ctx, g, opts) // with its files as they are now
	}
	if err != nil {
		return nil, fmt.Errorf("submit %s: %w", g.Name, err)
	}
	return j, nil
}

func (c *Client) submit(ctx context.Context, g *dag.Graph, opts []SubmitOption) (*Job, error) {
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
	dir, err := c.folder.abs(s.dir) // agents have working folders of their own
	if err != nil {
		return nil, fmt.Errorf("find the working folder: %w", err)
	}
	if s.tenant == "" {
		s.tenant = userName()
	}
	packer := runtimeenv.Packer{Log: warnings{c.opts.log}}
	defer packer.Close()
	shipped, packages, err := c.pack(ctx, g, dir, &packer)
	if err != nil {
		return nil, err
	}
	p, err := c.packed.of(shipped, c.opts.graphs)
	if err != nil {
		return nil, err
	}
	m := &comms.Submit{
		Job: s.id, GraphHash: p.hash, Dir: dir, Tenant: s.tenant, Priority: s.priority, Weight: s.weight,
		Hold: s.hold, Labels: s.labels, Registry: p.registry, Watch: true, Every: -1, Keep: s.keep,
	}
	if g.Retain || s.resume != nil {
		if m.Contents, err = contentsOf(ctx, shipped, dir); err != nil {
			return nil, err
		}
		m.Resume = s.resume
	}
	// Contents that were accepted once need not travel again, unless the controller has deleted them.
	known := c.packed.isKnown(p)
	if !known {
		if err := c.attach(ctx, m, p, packages); err != nil {
			return nil, err
		}
	}
	j, err := c.send(ctx, m)
	if known && errors.Is(err, ErrNotFound) {
		if err = c.attach(ctx, m, p, packages); err == nil {
			j, err = c.send(ctx, m)
		}
	}
	if err != nil {
		return nil, err
	}
	c.packed.know(p)
	j.graph = p.graph
	return j, nil
}

// warnings makes the lines that are written warnings of a log.
type warnings struct{ log zerolog.Logger }

func (w warnings) Write(b []byte) (int, error) {
	w.log.Warn().Msg(strings.TrimSpace(string(b)))
	return len(b), nil
}

// Same tells whether a job is one of this graph, submitted from dir, and whether its files
// are what they were then: to submit the graph again would do the same once more.
func (c *Client) Same(ctx context.Context, id comms.JobID, g *dag.Graph, dir string) (bool, error) {
	had, from, err := c.Graph(ctx, id)
	if err != nil {
		return false, err
	}
	if dir, err = c.folder.abs(dir); err != nil {
		return false, fmt.Errorf("find the working folder: %w", err)
	}
	if had.Name != g.Name || from != dir {
		return false, nil
	}
	packer := runtimeenv.Packer{Log: warnings{c.opts.log}}
	defer packer.Close()
	shipped, _, err := c.pack(ctx, g, dir, &packer)
	if err != nil {
		return false, err
	}
	return bytes.Equal(had.Encode(), shipped.Encode()), nil
}

// attach puts the graph into the submit, or sends a large one ahead of it, as
// packages are.
func (c *Client) attach(ctx context.Context, m *comms.Submit, p *packed, packages []parcel) error {
	if err := c.upload(ctx, packages); err != nil {
		return err
	}
	encoded := p.bytes
	if encoded == nil {
		encoded = p.graph.Encode()
	}
	if len(encoded) <= inlineGraph {
		m.Graph = encoded
		return nil
	}
	return c.upload(ctx, []parcel{{"the graph", p.hash, func(_ context.Context, piece func(int64, int64, []byte) error) error {
		for off := 0; off < len(encoded); off += blobPiece {
			if err := piece(int64(off), int64(len(encoded)), encoded[off:min(off+blobPiece, len(encoded))]); err != nil {
				return err
			}
		}
		return nil
	}}})
}

// send sends a submit and waits for its answer. The request stays open: the
// job's result and end are told to it.
func (c *Client) send(ctx context.Context, m *comms.Submit) (*Job, error) {
	var sent comms.Submit
	r, others, err := c.ctrl.requests.prepare(func(req uint64) comms.Message {
		sent = *m // the caller's may change before all that is sent again has gone
		sent.Req = req
		return &sent
	})
	if err != nil {
		return nil, err
	}
	c.ctrl.outbox.post(r, &sent, others > 0)
	answer, _, err := r.next(ctx)
	if err != nil {
		c.ctrl.requests.end(r)
		return nil, err
	}
	accepted, ok := answer.(*comms.Accepted)
	if !ok {
		c.ctrl.requests.end(r)
		return nil, fmt.Errorf("unexpected answer %T", answer)
	}
	c.ctrl.requests.become(r, &comms.Watch{Req: r.req, Job: accepted.Job, Every: -1})
	j := &Job{client: c, id: accepted.Job}
	j.told.Store(&subscription{request: r})
	return j, nil
}

// userName is the user's name, looked up once: it does not change.
var userName = sync.OnceValue(func() string {
	u, err := user.Current()
	if err != nil {
		return ""
	}
	return u.Username
})

// folder knows the working folder by the name that the kernel has for it:
// os.Getwd looks at two paths each time.
type folder struct {
	mu         sync.Mutex
	room       [4096]byte // not each caller's stack, which would grow for it
	kernel, is string
}

// abs is filepath.Abs.
func (f *folder) abs(path string) (string, error) {
	if path != "" {
		return filepath.Abs(path)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	kernel, err := kernelFolder(&f.room)
	if err != nil {
		return filepath.Abs("")
	}
	if string(kernel) != f.kernel {
		wd, err := filepath.Abs("")
		if err != nil {
			return "", err
		}
		f.kernel, f.is = string(kernel), wd
	}
	return f.is, nil
}

// packed is a graph as it is submitted.
type packed struct {
	graph    *dag.Graph
	bytes    []byte // encoded; nil when they are many
	hash     comms.Hash
	registry []comms.FuncSig // functions of this program that it runs
	known    bool            // the controller has accepted it
}

// packings keeps the graphs that were submitted last, so that a graph which is
// submitted again and again is encoded once. Graphs do not change.
type packings struct {
	mu       sync.Mutex
	last     latest[*packed]
	sealed   latest[sealedGraph]
	programs latest[sealedGraph] // of those with this program as their environment
}

// latest is what came last, at most maxPacked; the newest last.
type latest[T any] []T

// maxPacked is how many graphs are kept.
const maxPacked = 16

func (l *latest[T]) add(v T) {
	if *l = append(*l, v); len(*l) > maxPacked {
		*l = slices.Delete(*l, 0, 1)
	}
}

func (ps *packings) of(g *dag.Graph, graphs *decoded.Graphs) (*packed, error) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	for _, p := range ps.last {
		if p.graph == g {
			return p, nil
		}
	}
	own := ownFunctions(g)
	registered, err := executor.Default.SignaturesOf(func(name string) bool { return own[name] })
	if err != nil {
		return nil, err
	}
	encoded := g.Encode()
	graphs.Add(encoded, g)
	sum := blake3.Sum256(encoded)
	p := &packed{graph: g, bytes: encoded, hash: comms.Hash(append([]byte{comms.HashBLAKE3}, sum[:]...)), registry: registered}
	if len(encoded) > inlineGraph || len(registered) < len(own) {
		return p, nil // too large to keep, or its functions may yet be registered
	}
	ps.last.add(p)
	return p, nil
}

func (ps *packings) isKnown(p *packed) bool {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	return p.known
}

func (ps *packings) know(p *packed) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	p.known = true
}

// ownFunctions are the functions of this program that a graph runs. Others may
// differ between this program and the executors: the job does not need them.
func ownFunctions(g *dag.Graph) map[string]bool {
	used := map[string]bool{}
	for i := range g.Groups {
		if r := &g.Groups[i].Run; (r.Environment == "" || r.Environment == dag.ProgramEnvironment) && r.Function != "" && !g.Groups[i].IsInput() {
			used[r.Function] = true
		}
	}
	return used
}

const (
	inlineGraph = 1 << 20 // larger graphs travel as blobs
	blobPiece   = 1 << 20
)
