package client

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"runtime"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/cascade-run/cascade/agent/runtimeenv"
	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/dag"
	"github.com/cascade-run/cascade/internal/outfile"
	"github.com/cascade-run/cascade/internal/samehost"
)

const (
	// carried is the size up to which files go to the controller, which keeps them for
	// all hosts. Larger ones stay where they are, when an agent can read them there.
	carried = 64 << 20
	// mostKept is the most bytes of a graph, package or file that a controller keeps.
	mostKept = 4 << 30
)

// sums remembers the hashes of files, so that a job that is submitted again and
// again reads those once that have not changed.
type sums struct {
	mu    sync.Mutex
	known map[string]fileSum
}

type fileSum struct {
	info   fs.FileInfo
	sha256 string
}

const (
	mostSums = 100_000
	// settled is how old a file's last change must be for its time to tell of the next.
	settled = 2 * time.Second
)

// of returns the SHA-256 and the size of a file.
func (s *sums) of(ctx context.Context, path string) (string, int64, error) {
	began := time.Now()
	f, info, err := outfile.OpenRegular(path)
	if err != nil {
		return "", 0, err
	}
	defer f.Close()
	s.mu.Lock()
	old, ok := s.known[path]
	s.mu.Unlock()
	if ok && os.SameFile(old.info, info) && old.info.Size() == info.Size() && old.info.ModTime().Equal(info.ModTime()) {
		return old.sha256, info.Size(), nil
	}
	h := sha256.New()
	n, err := io.Copy(h, io.LimitReader(&untilDone{ctx, f}, info.Size()+1))
	if err != nil {
		return "", 0, fmt.Errorf("hash %s: %w", path, err)
	}
	if n != info.Size() {
		return "", 0, fmt.Errorf("%s changes while it is read", path)
	}
	text := hex.EncodeToString(h.Sum(nil))
	if began.Sub(info.ModTime()) > settled {
		s.mu.Lock()
		if len(s.known) >= mostSums || s.known == nil {
			s.known = map[string]fileSum{}
		}
		s.known[path] = fileSum{info, text}
		s.mu.Unlock()
	}
	return text, n, nil
}

// untilDone reads until a context ends.
type untilDone struct {
	ctx context.Context
	r   io.Reader
}

func (u *untilDone) Read(b []byte) (int, error) {
	if u.ctx.Err() != nil {
		return 0, context.Cause(u.ctx)
	}
	return u.r.Read(b)
}

// packInputs returns the inputs of a graph with what their files hold by now, and
// the files that the controller is to keep.
//
//	                           an agent on this host      none
//	file up to 64 MiB          kept                       kept
//	larger                     read there, by that agent  kept, up to 4 GiB
//
// In a cluster of this process all files are read where they are.
func (c *Conn) packInputs(ctx context.Context, g *dag.Graph, dir string) (inputs []dag.Group, packs []*runtimeenv.Pack, err error) {
	inputs = slices.Clone(g.InputGroups())
	if len(inputs) == 0 {
		return nil, nil, nil
	}
	if !slices.Contains(c.ctrl.current().Peer().Features, comms.FeatureInputs) {
		return nil, nil, errors.New("the controller is of an older version, which knows no inputs")
	}
	place, asked := "", false
	sent := map[string]bool{}
	for i := range inputs {
		grp := &inputs[i]
		grp.Files = slices.Clone(grp.Files)
		here, err := c.hashFiles(ctx, grp, dir)
		if err != nil {
			return nil, nil, fmt.Errorf("input %q: %w", grp.Name, err)
		}
		for k := range grp.Files {
			f := &grp.Files[k]
			if !here[k] {
				continue
			}
			if f.Kept = false; c.opts.Local {
				continue
			}
			if f.Size > carried && !asked {
				if place, err = c.here(ctx); err != nil {
					return nil, nil, err
				}
				asked = true
			}
			switch {
			case f.Size > carried && place != "":
				grp.Resources.Custom = maps.Clone(grp.Resources.Custom)
				if grp.Resources.Custom == nil {
					grp.Resources.Custom = map[string]int64{}
				}
				grp.Resources.Custom[place] = 1
				continue
			case f.Size > mostKept:
				return nil, nil, fmt.Errorf("input %q: %s has %d bytes, no agent of the cluster is on this host, and a controller keeps files up to %d bytes: submit from a host with an agent that can read the file",
					grp.Name, f.Path, f.Size, int64(mostKept))
			}
			f.Kept = true
			if !sent[f.SHA256] {
				sent[f.SHA256] = true
				packs = append(packs, runtimeenv.FilePack(f.Path, f.SHA256, f.Size))
			}
		}
	}
	return inputs, packs, nil
}

// hashFiles fills in what the files of an input hold, and tells which of them are
// here. Those that the cluster has kept since an earlier submit need not be.
func (c *Conn) hashFiles(ctx context.Context, grp *dag.Group, dir string) (here []bool, err error) {
	here = make([]bool, len(grp.Files))
	work, ctx := errgroup.WithContext(ctx)
	work.SetLimit(runtime.GOMAXPROCS(0))
	for k := range grp.Files {
		f := &grp.Files[k]
		if f.URL != "" {
			continue
		}
		work.Go(func() error {
			path := outfile.Within(dir, f.Path)
			sha256, size, err := c.sums.of(ctx, path)
			switch {
			case f.Kept && (err != nil || sha256 != f.SHA256):
				return nil
			case err != nil:
				return err
			case f.SHA256 != "" && sha256 != f.SHA256:
				return fmt.Errorf("%s has the SHA-256 %s, and the job wants %s", path, sha256, f.SHA256)
			}
			f.Path, f.SHA256, f.Size, here[k] = path, sha256, size, true
			return nil
		})
	}
	return here, work.Wait()
}

// here names the resource of which agents on this host have some, if one is ready; ""
// without one.
func (c *Conn) here(ctx context.Context) (string, error) {
	name := samehost.Resource()
	if name == "" {
		return "", nil
	}
	agents, err := Rows[comms.AgentRow](ctx, c, comms.QueryAgents, comms.JobID{}, "", 0)
	if err != nil {
		return "", err
	}
	for i := range agents {
		if _, ok := agents[i].Resources[name]; ok && agents[i].State == "ready" {
			return name, nil
		}
	}
	return "", nil
}
