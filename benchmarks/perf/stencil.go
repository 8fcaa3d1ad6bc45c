package perf

import (
	"context"
	"fmt"
	"math"
	"runtime"
	"strings"
	"sync"

	"github.com/cascade-run/cascade"
	"github.com/cascade-run/cascade/dag"
)

// The stencil is in the style of Task Bench (Slaughter et al., Task Bench: a
// parameterized benchmark for evaluating parallel runtime performance, SC 2020):
// in each step every task reads its own last value and those of its two
// neighbours, in a ring. METG(50%) is the smallest granularity, wall time x cores
// over tasks, at which half of the cores' time is spent in the kernel.

func stencilWide(ctx context.Context, b *bench) error {
	return b.metg(ctx, "metg50_stencil_wide", 16*runtime.GOMAXPROCS(0))
}

func stencilNarrow(ctx context.Context, b *bench) error {
	return b.metg(ctx, "metg50_stencil_narrow", max(runtime.GOMAXPROCS(0), 2))
}

// stencilGraph is steps of width tasks.
func stencilGraph(name string, width, steps, iterations int) *dag.Graph {
	b := dag.NewBuilder(name)
	axis := []dag.Axis{dag.Range("i", 0, int64(width-1))}
	param := []dag.Field{with("iterations", int64(iterations))}
	last := b.Add(dag.Group{Name: "s0", Axes: axis, Run: run(funcSeed), Outputs: out(), With: param})
	for s := 1; s < steps; s++ {
		at := func(d int) dag.From { return last.Out("out", dag.Expr(fmt.Sprintf("(i+%d)%%%d", d, width))) }
		from := []dag.From{at(width - 1), last.Out("out", dag.Expr("i"))}
		if width > 2 { // else both neighbours are the same task
			from = append(from, at(1))
		}
		last = b.Add(dag.Group{Name: fmt.Sprintf("s%d", s), Axes: axis, Run: run(funcStencil), Outputs: out(), With: param,
			Inputs: []dag.InputDecl{dag.Many("x", from...)}})
	}
	b.Export(last.Out("out", dag.All()), "")
	return build(b)
}

// metg halves the kernel until the cores spend less than half of their time in
// it, and interpolates where it is half.
func (b *bench) metg(ctx context.Context, name string, width int) error {
	c, err := b.local(ctx)
	if err != nil {
		return err
	}
	rtt, err := socketRTT()
	if err != nil {
		return err
	}
	cores := runtime.GOMAXPROCS(0)
	steps := max(b.size(6400, 32)/width, b.size(10, 3))
	var points []string
	measured := func(kernel float64) (point, error) {
		p, err := b.efficiency(ctx, c, name, width, steps, cores, kernel)
		points = append(points, fmt.Sprintf("%.0f us %.0f%%", p.granularity, 100*p.efficiency))
		return p, err
	}
	kernel := 512.0 // microseconds
	coarse, err := measured(kernel)
	for ; err == nil && coarse.efficiency < 0.5 && kernel < float64(b.size(4000, 1000)); coarse, err = measured(kernel) {
		kernel *= 4
	}
	if err != nil {
		return err
	}
	if coarse.efficiency < 0.5 {
		b.skip(name, "even long tasks are less than half of the time: "+strings.Join(points, ", "))
		return nil
	}
	fine := coarse
	for fine.efficiency >= 0.5 && kernel > 1 {
		coarse = fine
		kernel /= 2
		if fine, err = measured(kernel); err != nil {
			return err
		}
	}
	at := fine.granularity
	if fine.efficiency < 0.5 {
		at = crossing(coarse, fine)
	}
	return b.tell(Figure{Name: name, Value: at, Unit: "us", Baseline: microseconds(rtt), BaselineOf: rttName,
		Note: fmt.Sprintf("width %d, %d steps, best of %d at each point; granularity and efficiency: %s", width, steps, b.size(3, 1), strings.Join(points, ", "))})
}

// point is what one granularity gives.
type point struct{ granularity, efficiency float64 }

// efficiency runs one stencil several times and takes the best.
func (b *bench) efficiency(ctx context.Context, c *cascade.Cluster, name string, width, steps, cores int, kernel float64) (best point, err error) {
	for range b.size(3, 1) {
		perIteration := kernelTime(cores, b.size(20_000_000, 500_000))
		iterations := max(int(kernel*1e3/perIteration), 1)
		g := stencilGraph(fmt.Sprintf("%s-%.0fns", strings.ReplaceAll(name, "_", "-"), kernel*1e3), width, steps, iterations)
		f, err := b.timed(ctx, c, g)
		if err != nil {
			return best, err
		}
		if err := f.listed(ctx, c); err != nil {
			return best, err
		}
		perIteration = (perIteration + kernelTime(cores, b.size(20_000_000, 500_000))) / 2
		tasks := float64(g.NumTasks())
		granularity := microseconds(f.took) * float64(cores) / tasks
		if e := float64(iterations) * perIteration / 1e3 / granularity; e > best.efficiency {
			best = point{granularity, e}
		}
	}
	return best, nil
}

// kernelTime is what one iteration of the kernel takes while every core runs it,
// in nanoseconds. It takes long enough to share the cores with others as the tasks do.
func kernelTime(cores, n int) float64 {
	took := make([]float64, cores)
	var wg sync.WaitGroup
	for i := range took {
		wg.Go(func() {
			took[i] = nanoseconds(func() {
				if compute(1, n) > 2 {
					panic("the kernel is bounded by 1")
				}
			})
		})
	}
	wg.Wait()
	sum := 0.0
	for _, t := range took {
		sum += t
	}
	return sum / float64(cores) / float64(n)
}

// crossing interpolates where the efficiency is one half, linearly in the logarithm of the granularity.
func crossing(coarse, fine point) float64 {
	t := (coarse.efficiency - 0.5) / (coarse.efficiency - fine.efficiency)
	return math.Exp(math.Log(coarse.granularity) + t*(math.Log(fine.granularity)-math.Log(coarse.granularity)))
}
