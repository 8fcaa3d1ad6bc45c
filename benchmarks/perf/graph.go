package perf

import (
	"bytes"
	"context"
	"fmt"
	"runtime"
	"time"

	"github.com/cascade-run/cascade"
	"github.com/cascade-run/cascade/dag"
	"github.com/cascade-run/cascade/planner"
	"github.com/cascade-run/cascade/profiles"
)

// literal is a job file with n tasks written out, each of which reads two before it.
func literal(n int) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "job: literal\ntasks:\n  t000000: {run: %s, out: [out]}\n", funcStart)
	for i := 1; i < n; i++ {
		fmt.Fprintf(&b, "  t%06d:\n    run: %s\n    in: {x: t%06d.out, y: t%06d.out}\n    out: [out]\n", i, funcBoth, i-1, i/2)
	}
	return b.Bytes()
}

// largeGraph reads, plans and submits a job file of 100,000 tasks written out.
// The job is held, so that nothing runs meanwhile, and cancelled afterwards.
func largeGraph(ctx context.Context, b *bench) error {
	n := b.size(100_000, 1000)
	text := literal(n)
	var parse, plan, submit, read []float64
	var allocated uint64
	for range 3 {
		read = append(read, seconds(func() { _ = sum(text) }))
		var g *dag.Graph
		var err error
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		parse = append(parse, seconds(func() { g, err = dag.ParseYAML("literal.yaml", text, dag.Override{}, dag.Options{}) }))
		if err != nil {
			return err
		}
		runtime.ReadMemStats(&after)
		allocated = after.TotalAlloc - before.TotalAlloc
		if b.wants("plan_100k") {
			hosts := []planner.Host{{Name: "a", CPU: 16_000}, {Name: "b", CPU: 16_000}, {Name: "c", CPU: 16_000}, {Name: "d", CPU: 16_000}}
			plan = append(plan, seconds(func() { _, err = planner.Make(g, profiles.Snapshot{}, planner.Cluster{Hosts: hosts}) }))
			if err != nil {
				return err
			}
		}
		if b.wants("submit_100k") {
			took, err := b.submitHeld(ctx, g)
			if err != nil {
				return err
			}
			submit = append(submit, took)
		}
	}
	for _, f := range []struct {
		name string
		took []float64
		note string
	}{
		{"yaml_100k", parse, fmt.Sprintf("%d MB of text, %d MB allocated in all", len(text)/1e6, allocated/1e6)},
		{"plan_100k", plan, "4 hosts of 16 cores, nothing known of the tasks"},
		{"submit_100k", submit, "from Submit to accepted, which is durable"},
	} {
		if len(f.took) == 0 {
			continue
		}
		if err := b.tell(Figure{Name: f.name, Value: median(f.took), Unit: "s", Baseline: median(read), BaselineOf: "plain Go loop over the bytes of the job file",
			Note: fmt.Sprintf("%d tasks of two inputs, each written out; %s; median of 3", n, f.note)}); err != nil {
			return err
		}
	}
	return nil
}

func (b *bench) submitHeld(ctx context.Context, g *dag.Graph) (float64, error) {
	c, err := b.local(ctx)
	if err != nil {
		return 0, err
	}
	began := time.Now()
	j, err := c.Submit(ctx, g, cascade.WithHold())
	if err != nil {
		return 0, err
	}
	took := time.Since(began).Seconds()
	if err := j.Cancel(ctx, "the submit was measured"); err != nil {
		return 0, err
	}
	return took, j.Watch(ctx, time.Second, func(*cascade.Progress) bool { return true })
}

// sum is not inlined: the compiler would leave it out, as its result is not used.
//
//go:noinline
func sum(text []byte) (n int) {
	for _, c := range text {
		n += int(c)
	}
	return n
}

func seconds(f func()) float64 { return nanoseconds(f) / 1e9 }
