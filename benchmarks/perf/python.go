package perf

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/cascade-run/cascade"
	"github.com/cascade-run/cascade/dag"
)

const (
	pythonEnv    = "python"
	pythonModule = "cascade.perf." // of the Python package itself
)

func pythonRun(function string) dag.Run {
	return dag.Run{Environment: pythonEnv, Function: pythonModule + function}
}

// python begins a graph whose tasks may be of Python.
func python(name string) *dag.Builder {
	b := dag.NewBuilder(name)
	env := pythonAlone()
	env.Name = pythonEnv
	b.Environment(env)
	return b
}

func pythonAlone() dag.Environment {
	return dag.Environment{Python: &dag.Python{Pip: []string{"numpy"}}}
}

func pythonNoops(name string, n int) *dag.Graph {
	b := python(name)
	b.Add(dag.Group{Name: "noop", Axes: []dag.Axis{dag.Range("i", 0, int64(n-1))}, Run: pythonRun("noop")})
	return build(b)
}

// withPython is local, with Python's executors up. Where there is no Python the
// figures are left out, and c is nil.
func (b *bench) withPython(ctx context.Context, names ...string) (*cascade.Cluster, error) {
	c, err := b.local(ctx)
	if err != nil {
		return nil, err
	}
	for range 3 {
		if _, err := b.timed(ctx, c, pythonNoops("warm-python", 1000)); err != nil {
			var failed *cascade.JobError
			if !errors.As(err, &failed) || os.Getenv("CASCADE_REQUIRE_PYTHON") != "" {
				return nil, err
			}
			for _, name := range names {
				b.skip(name, "no Python environment: "+err.Error())
			}
			return nil, nil
		}
	}
	return c, nil
}

// pythonNoop is the rate of Python tasks that do nothing, and the latency of one task.
func pythonNoop(ctx context.Context, b *bench) error {
	c, err := b.withPython(ctx, "python_noop", "python_noop_p50")
	if c == nil || err != nil {
		return err
	}
	if b.wants("python_noop") {
		if err := b.pythonRate(ctx, c); err != nil {
			return err
		}
	}
	steps := b.size(1000, 20)
	return b.chain(ctx, "python_noop_p50", turns("python-chain", steps, pythonAlone(), pythonModule+"start", pythonModule+"step"), steps, "one Python task a step, on the other of two executors: from its input to its output, through the agent", finished.alternated)
}

// pythonRate is one graph of Python tasks that do nothing.
func (b *bench) pythonRate(ctx context.Context, c *cascade.Cluster) error {
	n := b.size(500_000, 5000)
	loop := loopRate()
	f, err := b.timed(ctx, c, pythonNoops("python-noop", n))
	if err != nil {
		return err
	}
	loop = (loop + loopRate()) / 2
	if err := f.listed(ctx, c); err != nil {
		return err
	}
	return b.tell(Figure{Name: "python_noop", Value: float64(n) / f.took.Seconds(), Unit: "tasks/s", Baseline: loop, BaselineOf: loopName,
		Note: fmt.Sprintf("%d tasks in %.2fs", n, f.took.Seconds())})
}

// pythonHandover is from the start of a Python run to its function holding a NumPy
// array of 1 GiB that a Go task has made. It must not grow with the array.
func pythonHandover(ctx context.Context, b *bench) error {
	const name = "python_array_handover_1GiB"
	c, err := b.withPython(ctx, name)
	if c == nil || err != nil {
		return err
	}
	rtt, err := socketRTT()
	if err != nil {
		return err
	}
	n := b.size(20, 5)
	large, err := b.gets(ctx, c, python("handover"), n, made(b.size(1<<30, 8<<20)), pythonRun("get"))
	if err != nil {
		return err
	}
	small, err := b.gets(ctx, c, python("handover"), n, made(1<<20), pythonRun("get"))
	if err != nil {
		return err
	}
	maker := made(b.size(1<<30, 8<<20))
	maker.Run, maker.With = pythonRun("make"), maker.With[:1]
	back, err := b.gets(ctx, c, python("handover"), n, maker, run(funcGet))
	if err != nil {
		return err
	}
	return b.tell(Figure{Name: name, Value: median(large), Unit: "us", Baseline: microseconds(rtt), BaselineOf: rttName,
		Note: fmt.Sprintf("made in Go, median of %d Python tasks; of 1 MiB %.0f us; made in Python, read in Go %.0f us", n, median(small), median(back))})
}
