package main

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/cascade-run/cascade/internal/wfformat"
	"github.com/cascade-run/cascade/planner"
)

// goodPart is how much longer than the best plan there is ours may be.
const goodPart = 1.05

// proof is how far plans can be from the best that there are.
type proof struct {
	evaluations int           // for ours
	search      time.Duration // processor time in which each method looks for a better plan, where the bound leaves one open; 0: none does
	inputs      bool
}

// openRow is a plan that may be longer than the best by more than goodPart.
type openRow struct {
	name, on string
	found    []float64 // makespans over the bound: ours and what each of searches found; ours alone without a search
}

// run prints makespans of our plans over a bound below which no plan is, which is that of
// cluster.bound, and in sum what that proves; then what was found of the others.
func (x proof) run(w io.Writer, files []string, on []cluster) error {
	var names []string
	for _, c := range on {
		names = append(names, c.name)
	}
	fmt.Fprintf(w, "| recording | %s | all |\n|---|%s\n", strings.Join(names, " | "), strings.Repeat("---|", len(on)+1))
	var open []openRow
	proven, sums, all := 0, make([]float64, len(on)+1), 0.0
	line := func(name string, logs []float64, n int) {
		fmt.Fprintf(w, "| %s |", name)
		for _, l := range logs {
			fmt.Fprintf(w, " %.3f |", math.Exp(l/float64(n)))
		}
		fmt.Fprintln(w)
	}
	for _, f := range files {
		opt := wfformat.Defaults()
		opt.Inputs = x.inputs
		im, err := recorded(f, opt)
		if err != nil {
			return err
		}
		name := strings.TrimSuffix(filepath.Base(f), ".json")
		row, mean := make([]float64, 0, len(on)+1), 0.0
		for k := range on {
			found, err := x.look(&on[k], im)
			if err != nil {
				return fmt.Errorf("%s on %s: %w", f, on[k].name, err)
			}
			if found[0] <= goodPart {
				proven++
			} else {
				open = append(open, openRow{name, on[k].name, found})
			}
			l := math.Log(found[0])
			row, mean, all = append(row, l), mean+l, all+l
		}
		row = append(row, mean/float64(len(on)))
		line(name, row, 1)
		for k, l := range row {
			sums[k] += l
		}
	}
	line("all", sums, len(files))
	n := proven + len(open)
	fmt.Fprintf(w, "\n%d of %d plans are proven to be within %g of the best that there is. All are within %.3f as the geometric mean", proven, n, goodPart, math.Exp(all/float64(n)))
	if rest := 0.0; len(open) > 0 {
		for _, o := range open {
			rest += math.Log(o.found[0])
		}
		fmt.Fprintf(w, ", the other %d within %.3f", len(open), math.Exp(rest/float64(len(open))))
	}
	fmt.Fprintln(w, ".")
	if x.search > 0 {
		x.report(w, open)
	}
	return nil
}

// report prints what was found of plans that the bound leaves open, those that it leaves
// farthest first.
func (x proof) report(w io.Writer, open []openRow) {
	fmt.Fprintf(w, "\n%s of processor time for each method and row:\n\n| recording | cluster | ours | %s | ours / best found |\n|---|%s\n",
		x.search, strings.Join(searches, " | "), strings.Repeat("---|", len(searches)+3))
	slices.SortStableFunc(open, func(a, b openRow) int { return cmp.Compare(b.found[0], a.found[0]) })
	behind := 0.0
	for _, o := range open {
		over := o.found[0] / slices.Min(o.found)
		behind += math.Log(over)
		fmt.Fprintf(w, "| %s | %s |", o.name, o.on)
		for _, found := range append(o.found, over) {
			fmt.Fprintf(w, " %.3f |", found)
		}
		fmt.Fprintln(w)
	}
	if len(open) > 0 {
		fmt.Fprintf(w, "\nOurs is within %.3f of the best that was found of these, as the geometric mean.\n", math.Exp(behind/float64(len(open))))
	}
}

// searches are what looks for better plans: the planner from other seeds and for longer,
// changes to the plans of the simple rules, and chance.
var searches = []string{"ours for longer", "HEFT and search", "rank+bytes and search", "fifo and search", "random"}

// look returns the makespan over the bound of our plan, and of what each search finds where
// the bound leaves a better one open.
func (x proof) look(c *cluster, im *wfformat.Import) ([]float64, error) {
	j, err := newJob(im.Graph, im.Profile.Snapshot())
	if err != nil {
		return nil, err
	}
	plan := func(e planner.Effort) (float64, error) {
		p, err := planner.Best(im.Graph, im.Profile.Snapshot(), c.planned(), e)
		if err != nil {
			return 0, err
		}
		return c.play(j, chosen(p)), nil
	}
	ours, err := plan(planner.Effort{Evaluations: x.evaluations})
	if err != nil {
		return nil, err
	}
	found := []float64{ours}
	bound := c.bound(j)
	if x.search > 0 && ours > bound*goodPart {
		best, more := math.Inf(1), within(x.search)
		for k := 1; more(); k++ {
			took, err := plan(planner.Effort{Evaluations: k * x.evaluations, Seed: uint64(k)})
			if err != nil {
				return nil, err
			}
			best = min(best, took)
		}
		found = append(found, best)
		for _, rule := range []func(*cluster, *job) choice{heft, greedy, fifo} {
			found = append(found, c.climb(j, rule(c, j), within(x.search)))
		}
		best, more = math.Inf(1), within(x.search)
		for seed := uint64(0); more(); seed++ {
			best = min(best, c.play(j, random(c, j, seed)))
		}
		found = append(found, best)
	}
	for k := range found {
		found[k] /= bound
	}
	return found, nil
}

// within tells whether processor time is left, which it is when asked first.
func within(d time.Duration) func() bool {
	end, asked := processor()+d.Seconds(), false
	return func() bool {
		first := !asked
		asked = true
		return first || processor() < end
	}
}

// climb changes one thing of a choice at a time, a task's host or the turns of two, keeps what
// does not take longer, and returns what the last of it takes.
func (c *cluster) climb(j *job, ch choice, more func() bool) float64 {
	r := rand.New(rand.NewPCG(1, 0))
	ch = choice{slices.Clone(ch.host), slices.Clone(ch.first)}
	best := c.play(j, ch)
	for more() {
		i, k := r.IntN(len(ch.host)), r.IntN(len(ch.host))
		host, first, other := ch.host[i], ch.first[i], ch.first[k]
		if len(c.cores) > 1 && r.IntN(2) == 0 {
			ch.host[i] = r.IntN(len(c.cores))
		} else {
			ch.first[i], ch.first[k] = other, first
		}
		if took := c.play(j, ch); took <= best {
			best = took
			continue
		}
		ch.host[i], ch.first[i], ch.first[k] = host, first, other
	}
	return best
}
