package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"strings"

	"github.com/cascade-run/cascade"
	"github.com/cascade-run/cascade/admin"
	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/internal/wfformat"
	"github.com/cascade-run/cascade/planner"
)

// replay runs each recording for real on one cluster, records that, predicts from the
// recording what it takes there and on a cluster of another shape, and runs it for
// real on that one, by the same profile. It prints seconds.
func replay(w io.Writer, files []string, from, to execution) error {
	fmt.Fprintf(w, "| recording | ran on %[1]s | simulated on %[1]s | predicted on %[2]s | ran on %[2]s | predicted / ran | at best |\n|---|---|---|---|---|---|---|\n", from.shape(), to.shape())
	off, n := 0.0, 0
	for _, f := range files {
		r, err := replayOne(f, from, to)
		if err != nil {
			return fmt.Errorf("%s: %w", f, err)
		}
		fmt.Fprintf(w, "| %s | %.2f s | %.2f s | %.2f s | %.2f s | %.3f | %.2f s |\n", strings.TrimSuffix(filepath.Base(f), ".json"),
			r.recorded, r.there, r.predicted, r.ran, r.predicted/r.ran, r.bound)
		off += math.Abs(math.Log(r.predicted / r.ran))
		n++
	}
	fmt.Fprintf(w, "| all, as the geometric mean of how far off | | | | | %.3f | |\n", math.Exp(off/float64(n)))
	return nil
}

func (x *execution) shape() string { return fmt.Sprintf("%dx%d", x.hosts, x.cores) }

type replayedOn struct{ recorded, there, predicted, ran, bound float64 }

func replayOne(path string, from, to execution) (r replayedOn, err error) {
	im, _, err := from.scaled(path)
	if err != nil {
		return r, err
	}
	var recording bytes.Buffer
	err = from.run(func(ctx context.Context, client *cascade.Client) error {
		if err := admin.SetProfiles(ctx, client, &im.Profile); err != nil {
			return err
		}
		took, rows, _, err := submit(ctx, client, im.Graph)
		if err != nil {
			return err
		}
		r.recorded = took
		rec, _, err := wfformat.Record(im.Graph, rows, nil, nil, []comms.AgentRow{{Name: from.name(0), CPU: float64(from.cores)}})
		if err != nil {
			return err
		}
		return wfformat.Write(&recording, rec)
	})
	if err != nil {
		return r, err
	}
	again, err := wfformat.Read("recording", recording.Bytes(), wfformat.Defaults())
	if err != nil {
		return r, err
	}
	unbound(again.Graph)
	for _, x := range []struct {
		on execution
		to *float64
	}{{from, &r.there}, {to, &r.predicted}} {
		_, c := x.on.cluster()
		p, err := planner.Best(again.Graph, again.Profile.Snapshot(), c, planner.Effort{Evaluations: 300})
		if err != nil {
			return r, err
		}
		*x.to, r.bound = p.Makespan, p.LowerBound
	}
	return r, to.run(func(ctx context.Context, client *cascade.Client) error {
		// The recorded times include the cost of a sleep task, so the original job runs.
		learned := im.Profile
		learned.Profiles = again.Profile.Profiles
		if err := admin.SetProfiles(ctx, client, &learned); err != nil {
			return err
		}
		r.ran, _, _, err = submit(ctx, client, im.Graph)
		return err
	})
}

// scaled reads a recording so that its lower bound on the cluster is the time that is wanted.
func (x *execution) scaled(path string) (*wfformat.Import, *planner.Plan, error) {
	_, on := x.cluster()
	read := func(scale float64) (*wfformat.Import, *planner.Plan, error) {
		opt := wfformat.Defaults()
		opt.TimeScale, opt.ByteScale = scale, 1e-9
		if x.rate > 0 {
			opt.ByteScale = scale // what moves takes as much of the time as it did at that rate
		}
		im, err := recorded(path, opt)
		if err != nil {
			return nil, nil, err
		}
		p, err := planner.Best(im.Graph, im.Profile.Snapshot(), on, planner.Effort{Evaluations: 300})
		return im, p, err
	}
	_, p, err := read(1)
	if err != nil {
		return nil, nil, err
	}
	return read(x.seconds / p.LowerBound)
}
