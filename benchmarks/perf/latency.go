package perf

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cascade-run/cascade"
	"github.com/cascade-run/cascade/dag"
)

// chainStep is a step of a chain that goes through the agent.
func chainStep(ctx context.Context, b *bench) error {
	n := b.size(2000, 20)
	return b.chain(ctx, "chain_step", turns("chain-step", n, dag.Environment{}, funcStart, funcStep), n, "one task a step, on the other of two executors", finished.alternated)
}

// chainStepQueued is a step that its executor starts by itself.
func chainStepQueued(ctx context.Context, b *bench) error {
	n := b.size(5000, 20)
	return b.chain(ctx, "chain_step_queued", keptChain("chain-step-queued", n), n, "each output is kept and recorded")
}

// chain runs a job of steps three times and tells the median step. The first run
// also starts executors.
func (b *bench) chain(ctx context.Context, name string, g *dag.Graph, steps int, note string, checks ...func(finished, context.Context, *cascade.Cluster) error) error {
	c, err := b.local(ctx)
	if err != nil {
		return err
	}
	var took, base []float64
	cpu := 0.0
	for range 3 {
		rtt, err := socketRTT()
		if err != nil {
			return err
		}
		before := cpuTime()
		f, err := b.timed(ctx, c, g)
		if err != nil {
			return err
		}
		cpu += cpuTime() - before
		for _, check := range append(checks, finished.listed) {
			if err := check(f, ctx, c); err != nil {
				return err
			}
		}
		took, base = append(took, microseconds(f.took)/float64(steps)), append(base, microseconds(rtt))
	}
	return b.tell(Figure{Name: name, Value: median(took), Unit: "us", Baseline: median(base), BaselineOf: rttName,
		Note: fmt.Sprintf("%d steps; %s; %.0f us of cpu a step in this process; median of 3", steps, note, cpu/float64(3*steps))})
}

// single is one task whose output is the job's.
func single(name string) *dag.Graph {
	b := dag.NewBuilder(name)
	b.Export(b.Add(dag.Group{Name: "t", Run: run(funcStart), Outputs: out()}).Out("out"), "")
	return build(b)
}

// latencies runs n jobs of one task, one after another.
func (b *bench) latencies(ctx context.Context, c *cascade.Cluster, g *dag.Graph, n int) (result, final []float64, err error) {
	for i := range n + n/10 {
		f, err := b.timed(ctx, c, g)
		if err != nil {
			return nil, nil, err
		}
		if i < n/10 { // warming up
			continue
		}
		result, final = append(result, microseconds(f.result)), append(final, microseconds(f.took))
		if i == n {
			if err := f.listed(ctx, c); err != nil {
				return nil, nil, err
			}
		}
	}
	return result, final, nil
}

// taskLatency is from submit to the result of one task.
func taskLatency(ctx context.Context, b *bench) error {
	c, err := b.local(ctx)
	if err != nil {
		return err
	}
	n := b.size(5000, 20)
	before, err := socketRTT()
	if err != nil {
		return err
	}
	cpu := cpuTime()
	result, final, err := b.latencies(ctx, c, single("task-latency"), n)
	cpu = cpuTime() - cpu
	if err != nil {
		return err
	}
	after, err := socketRTT()
	if err != nil {
		return err
	}
	base := microseconds(before+after) / 2
	note := fmt.Sprintf("%d jobs of one task; durable end p50 %.0f us, p99 %.0f us; %.0f us of cpu a job in this process", n,
		quantile(final, 0.5), quantile(final, 0.99), cpu/float64(n+n/10))
	return errors.Join(
		b.tell(Figure{Name: "task_latency_p50", Value: quantile(result, 0.5), Unit: "us", Baseline: base, BaselineOf: rttName, Note: note}),
		b.tell(Figure{Name: "task_latency_p99", Value: quantile(result, 0.99), Unit: "us", Baseline: base, BaselineOf: rttName, Note: note}))
}

// finalFsync is from submit to an end that survives a power loss.
func finalFsync(ctx context.Context, b *bench) (err error) {
	c, err := b.start(ctx, "fsync", cascade.WithDurability(cascade.PowerLoss))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	before, err := fsyncTime(b.opts.State)
	if err != nil {
		return err
	}
	n := b.size(500, 10)
	result, final, err := b.latencies(ctx, c, single("final-fsync"), n)
	if err != nil {
		return err
	}
	after, err := fsyncTime(b.opts.State)
	if err != nil {
		return err
	}
	return b.tell(Figure{Name: "final_fsync_p50", Value: quantile(final, 0.5), Unit: "us", Baseline: (before + after) / 2, BaselineOf: fsyncName,
		Note: fmt.Sprintf("%d jobs of one task, cascade run --durability power; result p50 %.0f us", n, quantile(result, 0.5))})
}

func microseconds(d time.Duration) float64 { return float64(d) / 1e3 }
