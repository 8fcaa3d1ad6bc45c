package perf

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/dag"

	"github.com/cascade-run/cascade"
)

// publish runs a generator of count arrays and returns what its last element says.
func (b *bench) publish(ctx context.Context, name, function string, size, count int) ([]float64, finished, error) {
	c, err := b.local(ctx)
	if err != nil {
		return nil, finished{}, err
	}
	g := dag.NewBuilder(name)
	h := g.Add(dag.Group{Name: "puts", Run: run(function), With: []dag.Field{with("size", int64(size)), with("count", int64(count))},
		Outputs: []dag.OutputDecl{{Name: "out", Generate: dag.GenerateFixed, Count: uint64(count) + 1}}})
	g.Export(h.Out("out").Element(dag.At(count)), "")
	f, err := b.timed(ctx, c, build(g))
	if err != nil {
		return nil, f, err
	}
	if err := f.listed(ctx, c); err != nil {
		return nil, f, err
	}
	took, err := value[[]float64](ctx, f, fmt.Sprintf("puts.out[%d]", count))
	return took, f, err
}

// putLarge is puts of 1 GiB, each a copy into shared memory.
func putLarge(ctx context.Context, b *bench) error {
	size, count := b.size(1<<30, 1<<20), b.size(12, 4)
	took, _, err := b.publish(ctx, "put-large", funcPut, size, count)
	if err != nil {
		return err
	}
	puts, copies := took[:count], took[count:]
	warm, base := median(slices.Clone(puts[count/2:])), median(copies)
	gbs := func(ns float64) float64 { return float64(size) / ns }
	return b.tell(Figure{Name: "put_1GiB", Value: gbs(warm), Unit: "GB/s", Baseline: gbs(base), BaselineOf: "memcpy of the same size within the executor",
		Note: fmt.Sprintf("%d bytes, median of the last %d of %d puts by one task; the first, into fresh memory, %.2f GB/s", size, count-count/2, count, gbs(puts[0]))})
}

// putInPlace is Alloc and publication of 1 GiB that is never copied.
func putInPlace(ctx context.Context, b *bench) error {
	size, count := b.size(1<<30, 1<<20), b.size(12, 4)
	rtt, err := socketRTT()
	if err != nil {
		return err
	}
	took, _, err := b.publish(ctx, "put-inplace", funcPlace, size, count)
	if err != nil {
		return err
	}
	return b.tell(Figure{Name: "put_inplace_1GiB", Value: median(slices.Clone(took[count/2:])) / 1e3, Unit: "us", Baseline: microseconds(rtt), BaselineOf: rttName,
		Note: fmt.Sprintf("%d bytes, Alloc and seal, median of the last %d of %d; the first %.0f us", size, count-count/2, count, took[0]/1e3)})
}

// putSmall is how many arrays of 1 KiB a task publishes a second, by the job's clock.
func putSmall(ctx context.Context, b *bench) error {
	const size = 1 << 10
	count := b.size(500_000, 500)
	rtt, err := socketRTT()
	if err != nil {
		return err
	}
	took, f, err := b.publish(ctx, "put-small", funcPut, size, count)
	if err != nil {
		return err
	}
	return b.tell(Figure{Name: "put_1KiB_iops", Value: float64(count) / f.took.Seconds(), Unit: "puts/s", Baseline: 1 / rtt.Seconds(),
		BaselineOf: rttName + ", one after another",
		Note:       fmt.Sprintf("%d puts by one task, from submit to final; one put in the executor p50 %.2f us", count, median(took[:count])/1e3)})
}

// getLatency is from the start of a run to its function holding the input, for
// the size that takes longest.
func getLatency(ctx context.Context, b *bench) error {
	c, err := b.local(ctx)
	if err != nil {
		return err
	}
	rtt, err := socketRTT()
	if err != nil {
		return err
	}
	worst, at, gets := 0.0, 0, b.size(20, 5)
	sizes := []int{1 << 10, 64 << 10, 1 << 20, b.size(64<<20, 2<<20), b.size(1<<30, 4<<20)}
	for _, size := range sizes {
		took, err := b.gets(ctx, c, dag.NewBuilder("get"), gets, made(size), run(funcGet))
		if err != nil {
			return err
		}
		if m := median(took); m > worst {
			worst, at = m, size
		}
	}
	return b.tell(Figure{Name: "get_latency", Value: worst, Unit: "us", Baseline: microseconds(rtt), BaselineOf: rttName,
		Note: fmt.Sprintf("worst of %d to %d bytes, median of %d tasks each: %d bytes; from the start of the run to the function that has the view",
			sizes[0], sizes[len(sizes)-1], gets, at)})
}

// made is a task that makes a dataset of so many bytes.
func made(size int) dag.Group {
	return dag.Group{Name: "make", Run: run(funcMake), Outputs: out(), With: []dag.Field{with("size", int64(size)), with("count", int64(1))}}
}

// gets lets n tasks read one dataset and returns the microseconds of each.
func (b *bench) gets(ctx context.Context, c *cascade.Cluster, g *dag.Builder, n int, from dag.Group, consume dag.Run) ([]float64, error) {
	maker := g.Add(from)
	to := g.Add(dag.Group{Name: "get", Axes: []dag.Axis{dag.Range("i", 0, int64(n-1))}, Run: consume,
		Inputs: []dag.InputDecl{dag.One("x", maker.Out("out"))}, Outputs: []dag.OutputDecl{{Name: "at"}}})
	g.Export(to.Out("at", dag.All()), "")
	f, err := b.timed(ctx, c, build(g))
	if err != nil {
		return nil, err
	}
	rows, err := cascade.Rows[comms.TaskRow](ctx, c.Client, comms.QueryTasks, f.job.ID(), "get")
	if err != nil {
		return nil, err
	}
	if len(rows) != n {
		return nil, fmt.Errorf("job %s: %d tasks are listed, want %d", f.job.ID(), len(rows), n)
	}
	took := make([]float64, n)
	for i, r := range rows {
		began, err := time.Parse(time.RFC3339Nano, r.Started)
		if err != nil {
			return nil, fmt.Errorf("task %s: %w", r.Name, err)
		}
		had, err := value[int64](ctx, f, r.Name+".at")
		if err != nil {
			return nil, err
		}
		took[i] = float64(had-began.UnixNano()) / 1e3
	}
	return took, nil
}
