package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/cascade-run/cascade"
	"github.com/cascade-run/cascade/benchmarks/internal/exit"
	"github.com/cascade-run/cascade/benchmarks/internal/hosts"
	"github.com/cascade-run/cascade/dag"
	"github.com/cascade-run/cascade/internal/wfformat"
	"github.com/cascade-run/cascade/planner"
)

func main() {
	cascade.Main()
	hosts.Main()
	evaluations := flag.Int("evaluations", 300, "simulations for each plan of ours")
	picture := flag.String("plot", "", "file to draw the comparison, or -times, into: .svg or .png")
	longer := flag.Int("best", 0, "further searches for each plan, from other seeds, the k-th k times as long: the best plan that anything found is a column of its own")
	inputs := flag.Bool("inputs", false, "files that no task writes lie on one host at first, each by a task of no duration")
	var x execution
	flag.IntVar(&x.hosts, "execute", 0, "run each recording for real on so many agents, instead of the comparison")
	flag.IntVar(&x.cores, "cores", 4, "of each of these agents")
	flag.Float64Var(&x.seconds, "seconds", 5, "that a recording is scaled to, at best")
	store := flag.Int64("store", 0, "MiB of shared memory of each host of -execute; what is spilled is printed, too; 0: the default")
	network := flag.Float64("network", 0, "Gbit/s between the hosts of -execute and -replay, which are network namespaces then; data is scaled as time is (needs root)")
	shape := flag.String("replay", "", "after -execute: a cluster of another shape, such as 4x2, on which what ran is predicted and run")
	without := flag.Bool("ablate", false, "what plans take without search, lookahead, profiles, prefetch, instead of the comparison")
	fuse := flag.Bool("fusion", false, "what a forecast takes on -cores with tasks fused and without, run for real, instead of the comparison")
	scale := flag.Bool("times", false, "what planning takes for 1,000 to 1,000,000 tasks, instead of the comparison")
	prove := flag.Bool("proof", false, "how far plans of ours can be from the best that there is, by a bound of its own, instead of the comparison")
	search := flag.Duration("search", 0, "after -proof: processor time in which each method looks for better plans, for each that the bound leaves open, such as 10m")
	names := flag.String("on", "", "clusters to compare on, with commas between, such as \"4x4 1G,4x1 10G\"; all by default")
	live := flag.Int("spill", 0, "run jobs for real whose live sets are 1 to so many times the memory of a host, instead of the comparison")
	flag.Parse()
	x.rate, x.memory = int64(*network*1e9), *store<<20
	files, w := flag.Args(), os.Stdout
	on, err := named(*names)
	exit.On("plans", err)
	run := func() error { return compare(w, files, on, effort{*evaluations, *longer}, *inputs, *picture) }
	switch {
	case *scale:
		run = func() error { return times(w, []int{1000, 10_000, 100_000, 1_000_000}, *picture) }
	case *fuse:
		run = func() error {
			return fusion(w, x.cores, 3, []work{{0, 1 << 10}, {0, 1 << 17}, {1e-2, 1 << 17}})
		}
	case *live > 0:
		x.hosts, x.memory = 1, 128<<20
		run = func() error { return spills(w, x, 16<<20, *live) }
	case len(files) == 0:
		run = func() error { return errors.New("name recordings in WfFormat, such as wfinstances/*.json") }
	case *prove:
		run = func() error { return proof{*evaluations, *search, *inputs}.run(w, files, on) }
	case *without:
		run = func() error { return ablate(w, files, *evaluations) }
	case *shape != "":
		to := x
		run = func() error { return replay(w, files, x, to) }
		if _, err := fmt.Sscanf(*shape, "%dx%d", &to.hosts, &to.cores); err != nil || x.hosts == 0 {
			run = func() error {
				return errors.New("-replay wants a shape such as 4x2, and -execute and -cores the one before")
			}
		}
	case x.hosts > 0:
		run = func() error { return execute(w, files, x) }
	}
	exit.On("plans", run())
}

// recorded reads a recording, to be compared by time and bytes: what its tasks need
// besides a core is left out, as recordings come from larger hosts.
func recorded(path string, opt wfformat.Options) (*wfformat.Import, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	im, err := wfformat.Read(path, b, opt)
	if err != nil {
		return nil, err
	}
	unbound(im.Graph)
	return im, nil
}

func unbound(g *dag.Graph) {
	for i := range g.Groups {
		g.Groups[i].Resources.Memory, g.Groups[i].Resources.CPU = 0, 0
	}
}

func clusters() (all []cluster) {
	for _, gbit := range []float64{1, 10} {
		for _, c := range []struct {
			name  string
			cores []int
		}{{"1x4", []int{4}}, {"4x1", []int{1, 1, 1, 1}}, {"2x8", []int{8, 8}}, {"4x4", []int{4, 4, 4, 4}}, {"4x16", []int{16, 16, 16, 16}}, {"8+4+2+2", []int{8, 4, 2, 2}}} {
			if len(c.cores) == 1 && gbit > 1 {
				continue // nothing moves
			}
			all = append(all, cluster{fmt.Sprintf("%s %gG", c.name, gbit), c.cores, gbit * 1e9 / 8})
		}
	}
	return all
}

// named returns the clusters of these names, all without any.
func named(names string) (some []cluster, err error) {
	all := clusters()
	if names == "" {
		return all, nil
	}
	for _, name := range strings.Split(names, ",") {
		k := slices.IndexFunc(all, func(c cluster) bool { return c.name == name })
		if k < 0 {
			return nil, fmt.Errorf("-on: there is no cluster %q", name)
		}
		some = append(some, all[k])
	}
	return some, nil
}

var columns = []string{"ours", "first plan", "HEFT", "rank+bytes", "fifo", "random", "best found"}

// rules is how many of the columns are those of one method.
const rules = 6

// effort is how long plans are looked for.
type effort struct {
	evaluations int // for ours
	longer      int // further searches; 0: there is no column for the best
}

// compare prints makespans over the lower bound, as geometric means by recording
// and by cluster.
func compare(w io.Writer, files []string, on []cluster, e effort, inputs bool, picture string) error {
	byFile, byCluster := newTable("recording"), newTable("cluster")
	for _, f := range files {
		name := strings.TrimSuffix(filepath.Base(f), ".json")
		opt := wfformat.Defaults()
		opt.Inputs = inputs
		im, err := recorded(f, opt)
		if err != nil {
			return err
		}
		for k := range on {
			got, err := on[k].methods(im, e)
			if err != nil {
				return fmt.Errorf("%s on %s: %w", f, on[k].name, err)
			}
			byFile.add(name, on[k].name, got)
			byCluster.add(on[k].name, name, got)
		}
	}
	byFile.print(w)
	byCluster.print(w)
	for _, l := range byFile.lost {
		fmt.Fprintln(w, l)
	}
	if e.longer > 0 {
		fmt.Fprintf(w, "ours over the best found: %.3f as the geometric mean, %s\n", math.Exp(byFile.behind/float64(byFile.all)), byFile.farthest)
	}
	if picture == "" {
		return nil
	}
	p, err := byFile.plot()
	if err != nil {
		return err
	}
	return save(p, picture)
}

// methods returns makespans over the lower bound, one for each column.
func (c *cluster) methods(im *wfformat.Import, e effort) ([]float64, error) {
	g, s := im.Graph, im.Profile.Snapshot()
	j, err := newJob(g, s)
	if err != nil {
		return nil, err
	}
	to := c.planned()
	var got []float64
	bound := 0.0
	search := func(n int, seed uint64) (float64, error) {
		p, err := planner.Best(g, s, to, planner.Effort{Evaluations: n, Seed: seed})
		if err != nil {
			return 0, err
		}
		bound = p.LowerBound
		return c.play(j, chosen(p)), nil
	}
	for _, n := range []int{e.evaluations, 0} {
		took, err := search(n, 0)
		if err != nil {
			return nil, err
		}
		got = append(got, took)
	}
	for _, m := range []func(*cluster, *job) choice{heft, greedy, fifo} {
		got = append(got, c.play(j, m(c, j)))
	}
	best, product := slices.Min(got), 0.0
	for seed := range uint64(10) {
		took := c.play(j, random(c, j, seed))
		best, product = min(best, took), product+math.Log(took)
	}
	got = append(got, math.Exp(product/10))
	for k := range e.longer {
		took, err := search((k+1)*e.evaluations, uint64(k+1))
		if err != nil {
			return nil, err
		}
		best = min(best, took)
	}
	if e.longer > 0 {
		got = append(got, best)
	}
	for k := range got {
		got[k] /= bound
	}
	return got, nil
}

func chosen(p *planner.Plan) choice {
	ch := choice{make([]int, len(p.Tasks)), p.Ranks}
	if p.Contended {
		ch.first = p.Turns
	}
	for i := range p.Tasks {
		ch.host[i] = p.Tasks[i].Host
	}
	return ch
}

// table collects logarithms, to print geometric means.
type table struct {
	title string
	names []string
	sums  map[string][]float64
	n     map[string]int
	lost  []string

	// Of ours and the best that was found: the sum of how far behind it is, of so many, and the most.
	behind, most float64
	all          int
	farthest     string
}

func newTable(title string) *table {
	return &table{title: title, sums: map[string][]float64{}, n: map[string]int{}}
}

func (t *table) add(name, detail string, got []float64) {
	if t.sums[name] == nil {
		t.names = append(t.names, name)
		t.sums[name] = make([]float64, len(got))
	}
	for k, x := range got {
		t.sums[name][k] += math.Log(x)
	}
	t.n[name]++
	if len(got) > rules {
		over := math.Log(got[0] / got[rules])
		t.behind, t.all = t.behind+over, t.all+1
		if over >= t.most {
			t.most, t.farthest = over, fmt.Sprintf("at most %.3f: %s on %s", math.Exp(over), name, detail)
		}
	}
	if best := slices.Min(got[1:rules]); got[0] > best*1.001 {
		t.lost = append(t.lost, fmt.Sprintf("worse than %s: %s on %s, %.3f and %.3f", columns[1+slices.Index(got[1:rules], best)], name, detail, got[0], best))
	}
}

// columns are the names of those that the rows have.
func (t *table) columns() []string { return columns[:len(t.sums[t.names[0]])] }

func (t *table) print(w io.Writer) {
	shown := t.columns()
	fmt.Fprintf(w, "| %s | %s |\n|---|%s\n", t.title, strings.Join(shown, " | "), strings.Repeat("---|", len(shown)))
	all, n := make([]float64, len(shown)), 0
	row := func(name string, sums []float64, n int) {
		fmt.Fprintf(w, "| %s |", name)
		for _, s := range sums {
			fmt.Fprintf(w, " %.3f |", math.Exp(s/float64(n)))
		}
		fmt.Fprintln(w)
	}
	for _, name := range t.names {
		row(name, t.sums[name], t.n[name])
		for k, s := range t.sums[name] {
			all[k] += s
		}
		n += t.n[name]
	}
	row("all", all, n)
	fmt.Fprintln(w)
}
