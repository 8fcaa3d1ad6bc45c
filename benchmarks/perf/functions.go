package perf

import (
	"context"
	"iter"
	"sync"
	"time"

	"github.com/cascade-run/cascade"
	"github.com/cascade-run/cascade/executor"
)

// Names of the functions that the figures run.
const (
	funcNoop    = "cascade-perf-noop"
	funcStart   = "cascade-perf-start"
	funcStep    = "cascade-perf-step"
	funcBoth    = "cascade-perf-both"
	funcSeed    = "cascade-perf-seed"
	funcStencil = "cascade-perf-stencil"
	funcPut     = "cascade-perf-put"
	funcPlace   = "cascade-perf-place"
	funcMake    = "cascade-perf-make"
	funcGet     = "cascade-perf-get"
	funcFan     = "cascade-perf-fan"
	funcHold    = "cascade-perf-hold"
	funcSize    = "cascade-perf-size"

	classCounter = "cascade-perf-counter"
)

var registered sync.Once

// Register makes the functions of this package known to this process. Call it
// before cascade.Main in a binary that measures: its executors need them. A
// process that only submits must not have them: a cluster refuses the jobs of a
// program whose functions its own executors lack.
func Register() {
	registered.Do(func() {
		callNoop = cascade.Func0(funcNoop, noop, "-> out")
		cascade.Func0(funcStart, start, "-> out")
		cascade.Func1(funcStep, step, "x -> out")
		cascade.Func2(funcBoth, both, "x, y -> out")
		cascade.Func1(funcSeed, seed, "with -> out")
		cascade.Func2(funcStencil, stencil, "x, with -> out")
		cascade.Gen1(funcPut, puts, "with -> out")
		cascade.Gen1(funcPlace, places, "with -> out")
		cascade.Func1(funcMake, produce, "with -> out")
		cascade.Func1(funcGet, get, "x -> at")
		callFan = cascade.Func1(funcFan, fan, "n -> out")
		callHold = cascade.Gen0(funcHold, hold, "-> out")
		callSize = cascade.Func1(funcSize, sizeOf, "x -> out")
		registerActors()
	})
}

// InExecutor tells whether this process was started as an executor.
func InExecutor(getenv func(string) string) bool { return getenv(executor.EnvAddr) != "" }

func noop(context.Context) (int64, error) { return 0, nil }

func start(context.Context) (int64, error) { return 1, nil }

func step(_ context.Context, x int64) (int64, error) { return x + 1, nil }

func both(_ context.Context, x, y int64) (int64, error) { return max(x, y) + 1, nil }

// load is how much a task of the stencil computes.
type load struct{ Iterations int }

func seed(_ context.Context, with load) (float64, error) { return compute(1, with.Iterations), nil }

func stencil(_ context.Context, x cascade.List[float64], with load) (float64, error) {
	sum := 0.0
	for _, v := range x.Values() {
		sum += v
	}
	return compute(sum, with.Iterations), nil
}

// compute is the kernel of the stencil: dependent multiply-adds. The result stays
// bounded. It is not inlined: where x is known to be 1, the compiler finds out that
// it stays so and leaves all of it out, and the kernel's speed was that of nothing.
//
//go:noinline
func compute(x float64, iterations int) float64 {
	for range iterations {
		x = x*0.999 + 0.001
	}
	return x
}

// bulk is what a task publishes: Count elements of Size bytes.
type bulk struct{ Size, Count int }

// puts publishes an array Count times. The last element is what it took: for each
// put its nanoseconds, then for each put those of a copy within the process.
func puts(_ context.Context, with bulk) iter.Seq2[[]float64, error] {
	return func(yield func([]float64, error) bool) {
		src, dst := make([]float64, with.Size/8), make([]float64, with.Size/8)
		for i := range src {
			src[i] = float64(i)
		}
		copy(dst, src)
		took := make([]float64, 2*with.Count)
		for i := range with.Count {
			took[with.Count+i] = nanoseconds(func() { copy(dst, src) })
			began := time.Now()
			if !yield(src, nil) {
				return
			}
			took[i] = float64(time.Since(began))
		}
		yield(took, nil)
	}
}

// places publishes Count arrays that lie in the store already. The last element
// is what Alloc and the publication took together, in nanoseconds.
func places(ctx context.Context, with bulk) iter.Seq2[[]float64, error] {
	return func(yield func([]float64, error) bool) {
		took := make([]float64, with.Count)
		for i := range with.Count {
			began := time.Now()
			a, err := cascade.Alloc[float64](ctx, with.Size/8)
			if err != nil {
				yield(nil, err)
				return
			}
			alloc := time.Since(began)
			a.Data[0], a.Data[len(a.Data)-1] = 1, 1
			began = time.Now()
			if !yield(a.Data, nil) {
				return
			}
			took[i] = float64(alloc + time.Since(began))
		}
		yield(took, nil)
	}
}

func produce(ctx context.Context, with bulk) ([]float64, error) {
	a, err := cascade.Alloc[float64](ctx, with.Size/8)
	if err != nil {
		return nil, err
	}
	a.Data[0], a.Data[len(a.Data)-1] = 1, 1
	return a.Data, nil
}

// get returns when it had its input, in nanoseconds since 1970.
func get(_ context.Context, x []float64) (int64, error) {
	now := time.Now().UnixNano()
	if x[0]+x[len(x)-1] != 2 {
		return 0, errWrongBytes
	}
	return now, nil
}

func nanoseconds(f func()) float64 {
	began := time.Now()
	f()
	return float64(time.Since(began))
}
