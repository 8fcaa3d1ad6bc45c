package client

import (
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
	"github.com/cascade-run/cascade/internal/graphcache"
)

// Submitted is an accepted job.
type Submitted struct {
	Job     comms.JobID
	Graph   *dag.Graph // as it was sent: its environments name packages
	Request *Request   // open: result and end of the job are told to it
}

// Submit hands a graph to the controller and returns when the job is durable. Of m the
// caller sets all that is not of the graph. The folder is "" for the working folder.
func (c *Conn) Submit(ctx context.Context, g *dag.Graph, m comms.Submit) (*Submitted, error) {
	j, err := c.submit(ctx, g, m)
	for try := 1; errors.Is(err, runtimeenv.ErrChanged) && try < uploads; try++ {
		c.program.forget()
		j, err = c.submit(ctx, g, m) // with its files as they are now
	}
	return j, err
}

func (c *Conn) submit(ctx context.Context, g *dag.Graph, submit comms.Submit) (*Submitted, error) {
	m := &submit
	var err error
	if m.Dir, err = c.Folder(m.Dir); err != nil { // agents have working folders of their own
		return nil, err
	}
	if m.Tenant == "" {
		m.Tenant = userName()
	}
	packer := runtimeenv.Packer{Log: warnings{c.opts.Log}}
	defer packer.Close()
	shipped, packages, err := c.pack(ctx, g, m.Dir, &packer)
	if err != nil {
		return nil, err
	}
	p, err := c.packed.of(shipped, c.opts.Graphs)
	if err != nil {
		return nil, err
	}
	m.GraphHash, m.Registry, m.Watch, m.Every = p.hash, p.registry, true, -1
	if g.Retain || m.Resume != nil {
		if m.Contents, err = contentsOf(ctx, shipped, m.Dir); err != nil {
			return nil, err
		}
	}
	// A graph that was accepted once need not travel again, unless the controller has dropped it.
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
	j.Graph = p.graph
	return j, nil
}

// warnings makes the lines that are written warnings of a log.
type warnings struct{ log zerolog.Logger }

func (w warnings) Write(b []byte) (int, error) {
	w.log.Warn().Msg(strings.TrimSpace(string(b)))
	return len(b), nil
}

// Folder returns a job's folder as Submit tells it: absolute, the working folder for "".
func (c *Conn) Folder(dir string) (string, error) {
	abs, err := c.folder.abs(dir)
	if err != nil {
		return "", fmt.Errorf("find the working folder: %w", err)
	}
	return abs, nil
}

// Packed returns a graph as Submit would send it from an absolute folder.
func (c *Conn) Packed(ctx context.Context, g *dag.Graph, dir string) (*dag.Graph, error) {
	packer := runtimeenv.Packer{Log: warnings{c.opts.Log}}
	defer packer.Close()
	shipped, _, err := c.pack(ctx, g, dir, &packer)
	return shipped, err
}

// attach puts the graph into the submit, or sends a large one ahead of it, as
// packages are.
func (c *Conn) attach(ctx context.Context, m *comms.Submit, p *packed, packages []parcel) error {
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
func (c *Conn) send(ctx context.Context, m *comms.Submit) (*Submitted, error) {
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
	answer, _, err := r.Next(ctx)
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
	return &Submitted{Job: accepted.Job, Request: r}, nil
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

func (ps *packings) of(g *dag.Graph, graphs *graphcache.Graphs) (*packed, error) {
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
//
// Those that a session calls are known when it does: all of them are its own.
func ownFunctions(g *dag.Graph) map[string]bool {
	used := map[string]bool{}
	if g.IsSession() {
		for _, name := range executor.Default.Names() {
			used[name] = true
		}
		return used
	}
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
