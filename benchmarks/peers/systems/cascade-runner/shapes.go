package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/cascade-run/cascade"
	"github.com/cascade-run/cascade/dag"
)

var (
	noop  = cascade.Func0("Noop", doNothing, "-> out")
	one   = cascade.Func0("One", giveOne, "-> out")
	step  = cascade.Func1("Step", addOne, "x -> out")
	total = cascade.Func1("Total", sum, "xs -> out")
)

func doNothing(context.Context) (int64, error) { return 0, nil }

func giveOne(context.Context) (int64, error) { return 1, nil }

func addOne(_ context.Context, x int64) (int64, error) { return x + 1, nil }

func sum(_ context.Context, xs cascade.List[int64]) (s int64, err error) {
	for _, x := range xs.Values() {
		s += x
	}
	return s, nil
}

// shape is a graph with one result, and what that must be.
type shape struct {
	graph *cascade.Graph
	tasks int
	last  cascade.Ref[int64]
	want  int64
}

// run runs a shape against the clock: building the graph counts, as it does for others.
func (r *runner) run(ctx context.Context, build func() shape) (values, error) {
	began := time.Now()
	s := build()
	s.graph.Output(s.last, "")
	g, err := s.graph.Build()
	if err != nil {
		return nil, err
	}
	job, err := r.client.Submit(ctx, g)
	if err != nil {
		return nil, err
	}
	got, err := cascade.Result(ctx, job, s.last)
	took := time.Since(began)
	if err != nil {
		return nil, err
	}
	if got != s.want {
		return nil, fmt.Errorf("the result is %d, want %d", got, s.want)
	}
	return values{"seconds": took.Seconds(), "tasks": float64(s.tasks)}, nil
}

// wait runs a graph to its durable end.
func (r *runner) wait(ctx context.Context, g *dag.Graph) error {
	job, err := r.client.Submit(ctx, g)
	if err != nil {
		return err
	}
	_, err = job.Wait(ctx)
	return err
}

// noop is n independent tasks that do nothing.
func (r *runner) noop(ctx context.Context, a args) (values, error) {
	n := a.int("n")
	took, err := timed(func() error {
		g := cascade.NewGraph("noop")
		noop.Map(g, "noop", cascade.Over(cascade.Range("i", 0, n-1)))
		d, err := g.Build()
		if err != nil {
			return err
		}
		return r.wait(ctx, d)
	})
	return values{"seconds": took, "tasks": float64(n)}, err
}

// latency is one task from submit to result, again and again.
func (r *runner) latency(ctx context.Context, a args) (values, error) {
	n := a.int("n")
	g := cascade.NewGraph("one")
	ref := one.Add(g, "t")
	g.Output(ref, "")
	d, err := g.Build()
	if err != nil {
		return nil, err
	}
	took := make([]float64, n)
	for i := -max(n/10, 1); i < n; i++ {
		t, err := timed(func() error {
			job, err := r.client.Submit(ctx, d)
			if err != nil {
				return err
			}
			_, err = cascade.Result(ctx, job, ref)
			return err
		})
		if err != nil {
			return nil, err
		}
		if i >= 0 {
			took[i] = t
		}
	}
	slices.Sort(took)
	return values{"p50": took[n/2], "p99": took[min(n*99/100, n-1)]}, nil
}

// chain is n tasks, each of which needs the one before.
func (r *runner) chain(ctx context.Context, a args) (values, error) {
	n := a.int("n")
	return r.run(ctx, func() shape {
		g := cascade.NewGraph("chain")
		last := one.Add(g, "t0")
		for i := 1; i < n; i++ {
			last = step.Add(g, fmt.Sprintf("t%d", i), last)
		}
		return shape{g, n, last, int64(n)}
	})
}

// fan is one task, n that each need it, one that needs all of these.
func (r *runner) fan(ctx context.Context, a args) (values, error) {
	n := a.int("n")
	return r.run(ctx, func() shape {
		g := cascade.NewGraph("fan")
		source := one.Add(g, "source")
		middle := step.Map(g, "middle", cascade.Over(cascade.Range("i", 0, n-1)), source)
		return shape{g, n + 2, total.Add(g, "sink", middle.All()), 2 * int64(n)}
	})
}

// merge is n tasks that need nothing, one that needs all of them.
func (r *runner) merge(ctx context.Context, a args) (values, error) {
	n := a.int("n")
	return r.run(ctx, func() shape {
		g := cascade.NewGraph("merge")
		sources := one.Map(g, "source", cascade.Over(cascade.Range("i", 0, n-1)))
		return shape{g, n + 1, total.Add(g, "sink", sources.All()), int64(n)}
	})
}

// tree is a binary tree that adds up its leaves, a power of two.
func (r *runner) tree(ctx context.Context, a args) (values, error) {
	leaves := a.int("leaves")
	return r.run(ctx, func() shape {
		g := cascade.NewGraph("tree")
		level := make([]cascade.Ref[int64], leaves)
		for i := range level {
			level[i] = one.Add(g, fmt.Sprintf("leaf%d", i))
		}
		tasks := leaves
		for ; len(level) > 1; level = level[:len(level)/2] {
			for i := range len(level) / 2 {
				level[i] = total.Add(g, fmt.Sprintf("t%d", tasks), cascade.Refs(level[2*i], level[2*i+1]))
				tasks++
			}
		}
		return shape{g, tasks, level[0], int64(leaves)}
	})
}
