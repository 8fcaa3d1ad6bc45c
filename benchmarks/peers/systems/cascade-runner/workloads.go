package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/cascade-run/cascade"
	"github.com/cascade-run/cascade/dag"
)

var (
	pid   = cascade.Func0("PID", processID, "-> out")
	fill  = cascade.Func1("Fill", makeArray, "with -> out")
	seen  = cascade.Func1("Seen", lookAt, "x -> out")
	sleep = cascade.Func2("Sleep", sleepFor, "xs, with -> out")
	all   = cascade.Func1("All", collect, "xs -> out")
	nap   = cascade.Func1("Nap", napFor, "with -> out")
)

func processID(context.Context) (int64, error) {
	time.Sleep(20 * time.Millisecond) // so that every executor has some
	return int64(os.Getpid()), nil
}

func collect(_ context.Context, xs cascade.List[int64]) ([]int64, error) { return xs.Values(), nil }

type size struct{ Bytes int }

// makeArray writes an array in the store's memory, and into its first number when it was ready.
func makeArray(ctx context.Context, with size) (cascade.Array[float64], error) {
	a, err := cascade.Alloc[float64](ctx, with.Bytes/8)
	if err != nil {
		return a, err
	}
	for i := range a.Data {
		a.Data[i] = 1
	}
	a.Data[0] = float64(time.Now().UnixNano()) / 1e9
	return a, nil
}

var errWrong = errors.New("the bytes that came are not those that were made")

// lookAt is how many seconds ago the array was ready.
func lookAt(_ context.Context, x cascade.Array[float64]) (float64, error) {
	now := float64(time.Now().UnixNano()) / 1e9
	if len(x.Data) > 1 && x.Data[len(x.Data)-1] != 1 {
		return 0, errWrong
	}
	return now - x.Data[0], nil
}

type pause struct{ Seconds float64 }

func (p pause) wait() { time.Sleep(time.Duration(p.Seconds * float64(time.Second))) }

func napFor(_ context.Context, with pause) (int64, error) {
	with.wait()
	return 1, nil
}

func sleepFor(_ context.Context, _ cascade.List[int64], with pause) (int64, error) {
	with.wait()
	return 1, nil
}

// memory runs many tasks, and says which processes are executors: the others are the control.
func (r *runner) memory(ctx context.Context, a args) (values, error) {
	v, err := r.noop(ctx, a)
	if err != nil {
		return nil, err
	}
	g := cascade.NewGraph("pids")
	ids := all.Add(g, "all", pid.Map(g, "pid", cascade.Over(cascade.Range("i", 0, 99))).All())
	g.Output(ids, "")
	d, err := g.Build()
	if err != nil {
		return nil, err
	}
	job, err := r.client.Submit(ctx, d)
	if err != nil {
		return nil, err
	}
	got, err := cascade.Result(ctx, job, ids)
	if err != nil {
		return nil, err
	}
	for _, p := range got {
		r.workers = append(r.workers, int(p))
	}
	slices.Sort(r.workers)
	r.workers = slices.Compact(r.workers)
	return v, nil
}

// handover is from the moment an array is ready to that when the last of its consumers has it.
func (r *runner) handover(ctx context.Context, a args) (values, error) {
	consumers, times := a.int("consumers"), a.int("times")
	g := cascade.NewGraph("handover")
	x := fill.Add(g, "make", cascade.With(size{a.int("size")}))
	waits := make([]cascade.Ref[float64], consumers)
	for i := range waits {
		waits[i] = seen.Add(g, fmt.Sprintf("seen%d", i), x)
		g.Output(waits[i], "")
	}
	d, err := g.Build()
	if err != nil {
		return nil, err
	}
	last, err := r.median(ctx, d, times, func(job *cascade.Job) (last float64, err error) {
		for _, ref := range waits {
			w, err := cascade.Result(ctx, job, ref)
			if err != nil {
				return 0, err
			}
			last = max(last, w)
		}
		return last, nil
	})
	return values{"last": last}, err
}

// median runs a graph some times, after one that warms up, and returns the median of what is read of each.
func (r *runner) median(ctx context.Context, g *dag.Graph, times int, read func(*cascade.Job) (float64, error)) (float64, error) {
	runs := make([]float64, times+1)
	for i := range runs {
		job, err := r.client.Submit(ctx, g)
		if err != nil {
			return 0, err
		}
		if runs[i], err = read(job); err != nil {
			return 0, err
		}
	}
	runs = runs[1:]
	slices.Sort(runs)
	return runs[len(runs)/2], nil
}

// repeat is the same small graph again and again, one after the other.
func (r *runner) repeat(ctx context.Context, a args) (values, error) {
	times := a.int("times")
	build := func() shape {
		g := cascade.NewGraph("repeat")
		first := one.Add(g, "t0")
		if a["shape"] == "chain" {
			last := first
			for i := 1; i < 4; i++ {
				last = step.Add(g, fmt.Sprintf("t%d", i), last)
			}
			return shape{g, 4, last, 4}
		}
		middle := step.Map(g, "middle", cascade.Over(cascade.Range("i", 0, 3)), first)
		return shape{g, 6, total.Add(g, "sink", middle.All()), 8}
	}
	s := build()
	s.graph.Output(s.last, "")
	d, err := s.graph.Build()
	if err != nil {
		return nil, err
	}
	var took float64
	for i := -max(times/10, 1); i < times; i++ {
		t, err := timed(func() error { return r.once(ctx, d, s) })
		if err != nil {
			return nil, err
		}
		if i >= 0 {
			took += t
		}
	}
	return values{"seconds": took, "tasks": float64(times)}, nil
}

// once runs a graph that is built, and compares its result.
func (r *runner) once(ctx context.Context, d *dag.Graph, s shape) error {
	job, err := r.client.Submit(ctx, d)
	if err != nil {
		return err
	}
	got, err := cascade.Result(ctx, job, s.last)
	if err == nil && got != s.want {
		err = fmt.Errorf("the result is %d, want %d", got, s.want)
	}
	return err
}

// trace is a recorded workflow: each task is a time to sleep and the numbers of those before.
func (r *runner) trace(ctx context.Context, a args) (values, error) {
	tasks, _ := a["tasks"].([]any)
	g := cascade.NewGraph("trace")
	refs := make([]cascade.Ref[int64], len(tasks))
	took, err := timed(func() error {
		for i := range tasks {
			pair, _ := tasks[i].([]any)
			if len(pair) != 2 {
				return fmt.Errorf("task %d of the trace is not a pair", i)
			}
			seconds, _ := pair[0].(float64)
			needs, _ := pair[1].([]any)
			with, name := cascade.With(pause{seconds}), fmt.Sprintf("t%d", i)
			if len(needs) == 0 {
				refs[i] = nap.Add(g, name, with)
				continue
			}
			var from []cascade.Ref[int64]
			for _, k := range needs {
				n, _ := k.(float64)
				from = append(from, refs[int(n)])
			}
			refs[i] = sleep.Add(g, name, cascade.Refs(from...), with)
		}
		d, err := g.Build()
		if err != nil {
			return err
		}
		return r.wait(ctx, d)
	})
	return values{"seconds": took, "tasks": float64(len(tasks))}, err
}
