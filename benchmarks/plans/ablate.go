package main

import (
	"fmt"
	"io"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"github.com/cascade-run/cascade/internal/wfformat"
	"github.com/cascade-run/cascade/planner"
	"github.com/cascade-run/cascade/profiles"
)

// ablations are what is taken away, one at a time.
var ablations = []string{"search", "lookahead", "profiles", "prefetch"}

const synthetic = "forecast" // in place of a recording's file

// ablate prints how much longer plans take without one part of the planner, as
// geometric means over the clusters on which something can move. Files that no task
// writes lie on one host at first. The last row is a forecast without recorded times.
func ablate(w io.Writer, files []string, evaluations int) error {
	on := slices.DeleteFunc(clusters(), func(c cluster) bool { return len(c.cores) == 1 })
	fmt.Fprintf(w, "| recording | all | without %s |\n|---|---|%s\n", strings.Join(ablations, " | without "), strings.Repeat("---|", len(ablations)))
	sums := make([]float64, len(ablations)+1)
	row := func(name string, sums []float64, n int) {
		fmt.Fprintf(w, "| %s |", name)
		for _, s := range sums {
			fmt.Fprintf(w, " %.3f |", math.Exp(s/float64(n)))
		}
		fmt.Fprintln(w)
	}
	read := func(f string) (*wfformat.Import, error) {
		if f == synthetic {
			return forecast()
		}
		opt := wfformat.Defaults()
		opt.Inputs = true
		return recorded(f, opt)
	}
	files = append(slices.Clone(files), synthetic)
	for _, f := range files {
		im, err := read(f)
		if err != nil {
			return err
		}
		of := make([]float64, len(sums))
		for k := range on {
			got, err := on[k].ablated(im, evaluations)
			if err != nil {
				return fmt.Errorf("%s on %s: %w", f, on[k].name, err)
			}
			for i := range got {
				of[i] += math.Log(got[i])
			}
		}
		row(strings.TrimSuffix(filepath.Base(f), ".json"), of, len(on))
		for i := range of {
			sums[i] += of[i]
		}
	}
	row("all", sums, len(on)*len(files))
	return nil
}

// ablated returns the makespan of a plan over the lower bound, and those of plans
// without each ablation over the first.
func (c *cluster) ablated(im *wfformat.Import, evaluations int) ([]float64, error) {
	known := im.Profile.Snapshot()
	j, err := newJob(im.Graph, known)
	if err != nil {
		return nil, err
	}
	best := func(s profiles.Snapshot, e planner.Effort) (choice, float64, error) {
		p, err := planner.Best(im.Graph, s, c.planned(), e)
		if err != nil {
			return choice{}, 0, err
		}
		return chosen(p), p.LowerBound, nil
	}
	whole := planner.Effort{Evaluations: evaluations}
	all, bound, err := best(known, whole)
	if err != nil {
		return nil, err
	}
	took := c.play(j, all)
	got := []float64{took / bound}
	for _, without := range ablations {
		ch := all
		lazy := false
		switch without {
		case "search":
			ch, _, err = best(known, planner.Effort{})
		case "lookahead":
			ch, _, err = best(known, planner.Effort{Evaluations: evaluations, Without: "lookahead"})
		case "profiles":
			ch, _, err = best(profiles.Snapshot{}, whole)
		case "prefetch":
			lazy = true
		}
		if err != nil {
			return nil, err
		}
		got = append(got, c.judge(j, ch, lazy)/took)
	}
	return got, nil
}

// planned is the cluster as the planner has it: the first host has a device.
func (c *cluster) planned() planner.Cluster {
	to := planner.Cluster{Bandwidth: c.bandwidth, Latency: latency}
	for h, n := range c.cores {
		to.Hosts = append(to.Hosts, planner.Host{Name: fmt.Sprint(h), CPU: int64(n) * 1000})
	}
	to.Hosts[0].GPU = 1000
	return to
}
