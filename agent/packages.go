//go:build linux

package agent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/dag"
)

// packages fetches packages of environments from the controller, piece by piece over
// the current link. Requests whose link has ended are repeated on the next one: a
// fetch goes on where it was.
type packages struct {
	ask func(*comms.BlobReq) // sends, or drops it when there is no link

	mu   sync.Mutex
	open map[comms.Hash]*fetching // of each package at most one
}

// fetching is one package on its way. Pieces are asked for ahead; they come in any
// order, and some that were asked for twice come twice.
type fetching struct {
	hash  comms.Hash
	have  uint64 // offset of the next piece that is wanted
	asked uint64 // up to where pieces were asked for
	total uint64 // once known
	known bool
	early map[uint64][]byte // by offset: came before one ahead of them
	came  [][]byte          // in order, and not taken yet
	err   error
	wake  chan struct{} // capacity 1
}

const (
	packagePiece = 256 << 10 // bytes: events share the link
	packageAhead = 4         // pieces
	maxPackage   = 4 << 30
)

func newPackages(ask func(*comms.BlobReq)) *packages {
	return &packages{ask: ask, open: map[comms.Hash]*fetching{}}
}

// Fetch appends what to lacks of a package; see runtimeenv.Source. It waits for a
// controller that is away.
func (ps *packages) Fetch(ctx context.Context, p dag.Package, offset int64, to io.Writer) error {
	h := comms.PackageHash(p.Hash)
	if h == "" {
		return fmt.Errorf("%s has no hash", p)
	}
	f, err := ps.begin(h, uint64(offset))
	if err != nil {
		return err
	}
	defer ps.end(f)
	for {
		pieces, done, err := ps.take(f)
		for _, b := range pieces {
			if _, err := to.Write(b); err != nil {
				return err
			}
		}
		if done || err != nil {
			return err
		}
		select {
		case <-f.wake:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func (ps *packages) begin(h comms.Hash, offset uint64) (*fetching, error) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	if ps.open[h] != nil {
		return nil, errors.New("it is being fetched already")
	}
	f := &fetching{hash: h, have: offset, asked: offset, early: map[uint64][]byte{}, wake: make(chan struct{}, 1)}
	ps.open[h] = f
	ps.ahead(f)
	return f, nil
}

func (ps *packages) end(f *fetching) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	delete(ps.open, f.hash)
}

// ahead asks for pieces until enough are on their way. The first piece tells how
// long the package is: until then no more are asked for. ps.mu is held.
func (ps *packages) ahead(f *fetching) {
	for f.asked == f.have || f.known && f.asked < f.total && f.asked < f.have+packageAhead*packagePiece {
		ps.ask(&comms.BlobReq{Hash: f.hash, Offset: f.asked, Max: packagePiece})
		if f.asked += packagePiece; !f.known {
			return
		}
	}
}

// take returns what has come, and whether that was all.
func (ps *packages) take(f *fetching) (pieces [][]byte, done bool, err error) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	pieces, f.came = f.came, nil
	return pieces, f.known && f.have == f.total, f.err
}

// piece takes a piece that the controller has sent. It is false for a blob without a
// fetch here. Bytes belong to the packages from then on.
func (ps *packages) piece(m *comms.Blob, body []byte) bool {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	f := ps.open[m.Hash]
	if f == nil {
		return len(m.Hash) > 0 && m.Hash[0] == comms.HashSHA256 // late: its fetch was given up
	}
	switch {
	case m.Offset < f.have || m.Offset >= max(f.asked, f.have+1) || f.err != nil || f.known && f.have == f.total:
		return true // asked for twice
	case m.Err != "":
		f.err = errors.New(m.Err)
	case m.Total > maxPackage || m.Total < m.Offset || uint64(len(body)) != min(packagePiece, m.Total-m.Offset) || f.known && m.Total != f.total:
		f.err = fmt.Errorf("the controller sends a piece of %d bytes at %d of %d, want %d, and at most %d in all", len(body), m.Offset, m.Total, packagePiece, maxPackage)
	default:
		f.known, f.total = true, m.Total
		f.early[m.Offset] = body
		for b, ok := f.early[f.have]; ok && len(b) > 0; b, ok = f.early[f.have] {
			delete(f.early, f.have)
			f.came = append(f.came, b)
			f.have += uint64(len(b))
		}
		if f.have < f.total {
			ps.ahead(f)
		}
	}
	select {
	case f.wake <- struct{}{}:
	default:
	}
	return true
}

// jobFolder is where what runs of a job starts whose environment has no working_dir:
// its folder, or an empty one where that is not on this host.
func (a *Agent) jobFolder(dir string) string {
	if _, err := os.Stat(dir); dir == "" || !errors.Is(err, fs.ErrNotExist) {
		return dir
	}
	empty := filepath.Join(a.cfg.State, "empty")
	if err := os.MkdirAll(empty, 0o700); err != nil {
		a.log.Warn().Err(err).Str("folder", dir).Msg("a job's folder is not on this host, and there is none in its place")
		return dir
	}
	return empty
}

// again asks a controller anew for what the one before, or a link that is no more, was asked for.
func (ps *packages) again() {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	for _, f := range ps.open {
		f.asked = f.have
		ps.ahead(f)
	}
}
