package cascade

import (
	"context"
	"fmt"
	"reflect"

	"github.com/cascade-run/cascade/dag"
	"github.com/cascade-run/cascade/executor"
)

// Future stands for what a called function will return, or for an input of the
// task, as a value of type T.
type Future[T any] struct{ f *executor.Future }

// Call has a registered function run as a task of its own and returns at once:
//
//	left, err := cascade.Call[int](ctx, "Fib", n-1)
//	...
//	x, err := left.Get(ctx)
//
// The function is named, so that it can call itself. The arguments are those of the
// Go function behind its context: values, or Futures, which are passed by reference.
// It returns one value of type T. A task that is retried must make the same calls in
// the same order; completed calls are not repeated. Calls of which the task has not got
// the result are stopped when it ends.
func Call[T any](ctx context.Context, function string, args ...any) (Future[T], error) {
	plain := make([]any, len(args))
	for i, a := range args {
		plain[i] = a
		if f, ok := a.(interface{ future() *executor.Future }); ok {
			plain[i] = f.future()
		}
	}
	if fn, ok := executor.Default.Lookup(function); ok && len(fn.Outputs) == 1 && fn.Outputs[0].Type != reflect.TypeFor[T]() {
		return Future[T]{}, fmt.Errorf("call %s: it returns %s, not %s", function, fn.Outputs[0].Type, reflect.TypeFor[T]())
	}
	f, err := executor.Default.Call(ctx, function, plain...)
	return Future[T]{f}, err
}

// Needing returns a context for calls that need other resources than one core:
//
//	model, err := cascade.Call[Model](cascade.Needing(ctx, cascade.GPU(1)), "Train", data)
//
// A call that the caller's host cannot run goes to one that can, and fails when there
// is none. Of the options CPU, Memory, GPU and Resource count; with GPUMemory a call is an error.
func Needing(ctx context.Context, resources ...TaskOption) context.Context {
	var g dag.Group
	for _, set := range resources {
		set(&g)
	}
	return executor.Needing(ctx, g.Resources)
}

func (f Future[T]) future() *executor.Future { return f.f }

// Get waits for the function and returns its value or its error, in which errors.Is
// finds registered errors. While it waits others use the task's core. The value may
// lie in shared memory and is read-only, until the task ends.
func (f Future[T]) Get(ctx context.Context) (T, error) {
	v, err := f.f.Get(ctx)
	return executor.As[T](v), err
}

// InputFuture returns an input of the task, of type T, to pass it on to calls
// without a copy.
func InputFuture[T any](ctx context.Context, name string) (Future[T], error) {
	f, err := executor.InputFuture(ctx, name)
	return Future[T]{f}, err
}
