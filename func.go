package cascade

import (
	"context"
	"iter"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/executor"
	"github.com/cascade-run/cascade/executor/value"
)

//go:generate go run ./internal/genarity

// Types that functions of tasks use.
type (
	// List is a list input: the datasets of several producers.
	List[T any] = executor.List[T]
	// Array is a tensor: numbers in row-major order and their shape. As an input
	// it is a read-only view over shared memory.
	Array[T value.Number] = value.Array[T]
)

// ListOf makes a list, for calling a task's function directly, as tests do.
func ListOf[T any](values ...T) List[T] { return executor.ListOf(values...) }

// RegisterError gives an error value a code under which errors.Is finds it in
// another process. It panics when the code or the error is taken.
//
//	var ErrNoData = cascade.RegisterError("nodata", errors.New("no data for this date"))
func RegisterError(code string, err error) error {
	return executor.Default.RegisterError(code, err)
}

// Codec translates values of a Go type of yours. Decode may return a value that
// aliases its argument, which is read-only and valid until the task ends.
type Codec[T any] = executor.Codec[T]

// RegisterCodec makes values of type T travel by a codec of their own. It panics
// when the type or the codec's name is taken. It returns the codec, so that a
// package-level variable registers it:
//
//	var _ = cascade.RegisterCodec(cascade.Codec[Grid]{Name: "grid", Encode: ..., Decode: ...})
func RegisterCodec[T any](c Codec[T]) Codec[T] {
	executor.RegisterCodec(executor.Default, c)
	return c
}

// untyped passes a generator's elements on without their type.
func untyped[T any](seq iter.Seq2[T, error]) iter.Seq2[any, error] {
	return func(yield func(any, error) bool) {
		for v, err := range seq {
			if !yield(v, err) {
				return
			}
		}
	}
}

// Task tells a function about the task it runs as. Outside an executor, for
// example in a test that calls the function directly, it describes no task.
func Task(ctx context.Context) *executor.Task { return executor.TaskOf(ctx) }

// Gang returns the place of the task in its gang: its rank, and where to reach
// the other members. It fails when the task is in none.
func Gang(ctx context.Context) (executor.Membership, error) { return executor.Gang(ctx) }

// Alloc returns an array in the store for a task to fill in place. When the task
// returns it, or a slice of its data, it is published without a copy. Outside an
// executor it is ordinary memory.
func Alloc[T value.Number](ctx context.Context, shape ...int) (Array[T], error) {
	return executor.Alloc[T](ctx, shape...)
}

// Main makes this process an executor when an agent started it as one, and then
// never returns. Otherwise it returns at once. A program that runs tasks of its
// own functions calls it first thing in main, before it reads its arguments.
func Main() { executor.Main() }

// RunTests is for the TestMain of packages whose tests run tasks: it makes the
// test binary an executor when an agent started it as one, and runs the tests
// otherwise.
//
//	func TestMain(m *testing.M) { cascade.RunTests(m) }
func RunTests(m interface{ Run() int }) { executor.RunTests(m) }

// WrapTaskError makes a task's error one that errors.Is can look into: it finds
// the errors registered with RegisterError that the task returned in its process.
func WrapTaskError(t *comms.TaskError) error { return executor.Default.Wrap(t) }
