package cascade

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"reflect"
	"slices"

	"github.com/vmihailenco/msgpack/v5"

	"github.com/cascade-run/cascade/dag"
	"github.com/cascade-run/cascade/executor"
)

// Future stands for what a called function will return, for a value that was put, or for
// an input of the task, as a value of type T. When no reference to it is left, what it
// stands for may be freed; memory that Get returned stays until Release. A Future is valid
// until the task that has it ends.
type Future[T any] struct{ f *executor.Future }

// CallArg is what a called function's parameter of type T can be given: a value (Val) or a
// Future[T]; for a List[V] also several futures (Futures), or both (Args).
type CallArg[T any] interface {
	takes(T)
	argument() any
}

// Value is a value as an argument of a call.
type Value[T any] struct{ v T }

// Val gives a call a value.
func Val[T any](v T) Value[T] { return Value[T]{v} }

func (Value[T]) takes(T) {}

func (v Value[T]) argument() any { return v.v }

func (Future[T]) takes(T) {}

func (f Future[T]) argument() any { return f.future() }

// FutureList is futures as an argument of a call that takes a list.
type FutureList[T any] struct{ fs []Future[T] }

// Futures gives a call that takes a list several futures, in order.
func Futures[T any](fs ...Future[T]) FutureList[T] { return FutureList[T]{fs} }

func (FutureList[T]) takes(List[T]) {}

func (l FutureList[T]) argument() any {
	items := make(executor.Items, len(l.fs))
	for i, f := range l.fs {
		items[i] = f.future()
	}
	return items
}

// ArgList is values and futures as an argument of a call that takes a list.
type ArgList[T any] struct{ args []CallArg[T] }

// Args gives a call that takes a list values and futures, in order: Args(f, Val(1)).
func Args[T any](args ...CallArg[T]) ArgList[T] { return ArgList[T]{args} }

func (ArgList[T]) takes(List[T]) {}

func (l ArgList[T]) argument() any {
	items := make(executor.Items, len(l.args))
	for i, a := range l.args {
		items[i] = argument(a)
	}
	return items
}

// argument is what the executor is given of an argument.
func argument[T any](a CallArg[T]) any {
	if a == nil {
		return nil
	}
	return a.argument()
}

// CallOption is what a call may say besides its arguments: CPU, Memory, GPU, Resource,
// Retries, Timeout, Priority and In of tasks, and RetryOn, Here and CallName.
type CallOption interface{ option(*executor.CallOptions) }

func (set TaskOption) option(o *executor.CallOptions) {
	blank := func() dag.Group { return dag.Group{Outputs: []dag.OutputDecl{{Generate: dag.GenerateOpen}}} } // Count is of streams
	g := blank()
	set(&g)
	rest := g
	rest.Resources, rest.Retries, rest.Timeout, rest.Priority, rest.Run.Environment = dag.Resources{}, 0, 0, 0, ""
	if !reflect.DeepEqual(rest, blank()) {
		o.Err = errors.Join(o.Err, errors.New("an option is of tasks in a graph only: a call takes resources, Retries, Timeout, Priority and In"))
	}
	o.Err = errors.Join(o.Err, negative(&g))
	r := &o.Resources
	r.CPU, r.Memory, r.GPU, r.GPUMemory = max(r.CPU, g.Resources.CPU), max(r.Memory, g.Resources.Memory), max(r.GPU, g.Resources.GPU), max(r.GPUMemory, g.Resources.GPUMemory)
	for name, n := range g.Resources.Custom {
		if r.Custom == nil {
			r.Custom = map[string]int64{}
		}
		r.Custom[name] = n
	}
	o.Environment = cmp.Or(g.Run.Environment, o.Environment)
	o.Retries, o.Timeout, o.Priority = max(o.Retries, g.Retries), max(o.Timeout, g.Timeout), max(o.Priority, g.Priority)
}

// negative names an option that is below 0.
func negative(g *dag.Group) error {
	r := &g.Resources
	for _, o := range []struct {
		name string
		n    int64
	}{{"CPU", r.CPU}, {"Memory", r.Memory}, {"GPU", r.GPU}, {"GPUMemory", r.GPUMemory}, {"Retries", int64(g.Retries)}, {"Timeout", int64(g.Timeout)}} {
		if o.n < 0 {
			return fmt.Errorf("option %s is below 0", o.name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(r.Custom)) {
		if r.Custom[name] < 0 {
			return fmt.Errorf("option Resource(%q) is below 0", name)
		}
	}
	return nil
}

type callOption func(*executor.CallOptions)

func (set callOption) option(o *executor.CallOptions) { set(o) }

// RetryOn has a call tried again only after errors in whose chain one of these is, each
// registered with RegisterError. Without Retries it is tried again three times.
func RetryOn(errs ...error) CallOption {
	return callOption(func(o *executor.CallOptions) { o.RetryOn = append(o.RetryOn, errs...) })
}

// Here keeps a call on the host of its caller.
func Here() CallOption { return callOption(func(o *executor.CallOptions) { o.Here = true }) }

// CallName gives a call a name, which its task's name has in it.
func CallName(name string) CallOption {
	return callOption(func(o *executor.CallOptions) { o.Name = name })
}

// callOptions collects options.
func callOptions(opts []CallOption) executor.CallOptions {
	if len(opts) == 0 { // most calls, for which nothing is to be made
		return executor.CallOptions{}
	}
	var o executor.CallOptions
	for _, set := range opts {
		set.option(&o)
	}
	if len(o.RetryOn) > 0 && o.Retries == 0 {
		o.Retries = 3
	}
	return o
}

// Get waits for the call and returns its value or its error, in which errors.Is finds
// registered errors. While it waits others use the task's core. The value may lie in
// shared memory and is read-only; it is valid until Release, or until the task ends.
func (f Future[T]) Get(ctx context.Context) (T, error) {
	v, err := f.future().Get(ctx)
	return executor.As[T](v), err
}

// errNoFuture is of a Future that no call has made.
var errNoFuture = errors.New("get: the future is the zero Future, which stands for nothing")

// Done tells whether the call has ended, well or not.
func (f Future[T]) Done() bool { return f.f != nil && f.f.Done() }

// Cancel ends the call, and all that it has called. It does not wait: Get tells how it ended.
func (f Future[T]) Cancel(why string) { Cancel(why, f) }

// Release says that neither the future, nor other results of its call, nor what Get has
// returned of them is used any more. Large arrays need it in a program or task that goes
// on for long: they stay in shared memory until the task ends otherwise.
func (f Future[T]) Release() { Release(f) }

func (f Future[T]) future() *executor.Future {
	if f.f == nil {
		return executor.FailedFuture(errNoFuture)
	}
	return f.f
}

// EncodeMsgpack writes a future within a value that a task is given, returns or puts. Its dataset
// stays as long as that value does.
func (f Future[T]) EncodeMsgpack(enc *msgpack.Encoder) error { return executor.EncodeFuture(enc, f.f) }

// DecodeMsgpack reads a future within a value. It is valid until the task ends that reads it.
func (f *Future[T]) DecodeMsgpack(dec *msgpack.Decoder) (err error) {
	f.f, err = executor.DecodeFuture(dec, reflect.TypeFor[T]())
	return err
}

// AnyFuture is a Future of any type.
type AnyFuture interface{ future() *executor.Future }

// Wait returns the places of those futures that have ended, in the order in which they ended, as
// soon as k have: no more than k. When the deadline of ctx passes before, it returns
// those that have, without an error.
func Wait[F AnyFuture](ctx context.Context, futures []F, k int) ([]int, error) {
	return executor.Wait(ctx, plain(futures), k)
}

// Completed yields the places of futures as they end, each once:
//
//	for i, err := range cascade.Completed(ctx, futures) {
//		if err != nil {
//			return err
//		}
//		x, err := futures[i].Get(ctx)
//		...
//	}
//
// The loop costs as much as there are futures, where a loop over Wait costs its square.
func Completed[F AnyFuture](ctx context.Context, futures []F) iter.Seq2[int, error] {
	return executor.Completed(ctx, plain(futures))
}

// GetAll returns the values of all futures, or the first error as soon as one fails.
func GetAll[T any](ctx context.Context, futures []Future[T]) ([]T, error) {
	got, err := executor.GetAll(ctx, plain(futures))
	if err != nil {
		return nil, err
	}
	values := make([]T, len(got))
	for i, v := range got {
		values[i] = executor.As[T](v)
	}
	return values, nil
}

// Cancel ends the calls of several futures, and all that those have called.
func Cancel(why string, futures ...AnyFuture) { executor.Cancel(why, plain(futures)...) }

// Release releases several futures. See Future.Release.
func Release(futures ...AnyFuture) { executor.Release(plain(futures)...) }

func plain[F AnyFuture](futures []F) []*executor.Future {
	all := make([]*executor.Future, len(futures))
	for i, f := range futures {
		all[i] = f.future()
	}
	return all
}

// Put keeps a value where calls can read it by reference: it is stored once, however many
// calls it is passed to.
func Put[T any](ctx context.Context, v T) (Future[T], error) {
	f, err := executor.Put(ctx, v)
	return Future[T]{f}, err
}

// Strand returns a context whose calls are numbered on their own. A task that calls from
// several goroutines gives each a strand with a name of its own: another run of the task
// then meets the calls of each, in whatever order the goroutines go on.
func Strand(ctx context.Context, name string) context.Context { return executor.Strand(ctx, name) }

// NotRepeatable returns a context for the calls of a task that does other things each time
// that it runs: another run of it makes all of its calls anew.
func NotRepeatable(ctx context.Context) context.Context { return executor.NotRepeatable(ctx) }

// InputFuture returns an input of the task, of type T, to pass it on to calls
// without a copy.
func InputFuture[T any](ctx context.Context, name string) (Future[T], error) {
	f, err := executor.InputFuture(ctx, name)
	return Future[T]{f}, err
}

// Stream is the elements that a called generator makes.
type Stream[T any] struct{ c *executor.Call }

// All yields the elements as they are made. The error of the generator, if it fails, comes last.
func (s Stream[T]) All(ctx context.Context) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for v, err := range s.c.All(ctx) {
			if !yield(executor.As[T](v), err) {
				return
			}
		}
	}
}

// Elements yields a future for each element as it is made, to be passed to other calls.
func (s Stream[T]) Elements(ctx context.Context) iter.Seq2[Future[T], error] {
	return func(yield func(Future[T], error) bool) {
		for f, err := range s.c.Elements(ctx) {
			if !yield(Future[T]{f}, err) {
				return
			}
		}
	}
}
