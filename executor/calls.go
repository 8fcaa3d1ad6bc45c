package executor

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"

	"github.com/vmihailenco/msgpack/v5"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/dag"
	"github.com/cascade-run/cascade/executor/value"
)

// Future stands for what a called function will return, or for an input of the
// task. It is valid until the task that has it ends.
type Future struct {
	typ    reflect.Type
	run    *run
	number uint64                       // of the call
	input  func() (comms.CallIn, error) // as an argument of a call, each time that it is one
	value  any                          // outside an executor
	err    error

	once sync.Once
	done chan struct{} // closed when the answer is there
	got  *comms.Returned
}

// calls is what a run has called.
type calls struct {
	mu   sync.Mutex // held while one is made or its result read, which may wait
	list sync.Mutex // guards made; never held while anything is waited for
	made []*Future
}

// needsKey is where a context has what the calls need that are made with it.
type needsKey struct{}

// Needing returns a context for calls that need other resources than one core. A
// call that the caller's host cannot run goes to one that can, and fails when there is none.
func Needing(ctx context.Context, r dag.Resources) context.Context {
	return context.WithValue(ctx, needsKey{}, r)
}

// errDeviceMemory is of a call for which memory of devices was asked.
var errDeviceMemory = errors.New("a call cannot ask for memory of devices (GPUMemory): make it a task of the job, or ask for the whole device (GPU)")

// needs is what a call with a context needs, as a message has it.
func needs(ctx context.Context) (m comms.Resources, err error) {
	r, _ := ctx.Value(needsKey{}).(dag.Resources)
	if r.GPUMemory != 0 {
		return m, errDeviceMemory
	}
	m = comms.Resources{CPU: r.CPU, Memory: r.Memory, GPU: r.GPU}
	for _, name := range slices.Sorted(maps.Keys(r.Custom)) {
		m.Custom = append(m.Custom, comms.Amount{Name: name, N: r.Custom[name]})
	}
	return m, nil
}

// Call has a registered function run as a task of its own, on the caller's host or
// another, and returns at once. The arguments are those of the Go function behind
// its context: values of the parameters' types, or Futures, whose datasets are
// passed by reference. The function returns one value; it is no generator and takes
// no lists. It runs in the environment of the caller, with one core (but see
// Needing), and without retries of its own: its error is Get's.
//
// A task that is tried again must make the same calls in the same order, from one
// goroutine: calls that it made before are not repeated. Calls end with their
// caller: a call whose result was not read is stopped then. Outside an executor Call
// runs the function at once, so that tests can call a task's function directly.
func (r *Registry) Call(ctx context.Context, function string, args ...any) (*Future, error) {
	f, err := r.call(ctx, function, args)
	if err != nil {
		return nil, fmt.Errorf("call %s: %w", function, err)
	}
	return f, nil
}

func (r *Registry) call(ctx context.Context, function string, args []any) (*Future, error) {
	fn, ok := r.Lookup(function)
	if !ok {
		return nil, fmt.Errorf("it is not registered in this program: %s", r.known())
	}
	if err := fn.callable(args); err != nil {
		return nil, err
	}
	run, _ := ctx.Value(taskKey{}).(*run)
	if run == nil {
		return fn.inPlace(ctx, args)
	}
	if !run.exec.welcome.Calls {
		return nil, fmt.Errorf("agent %s takes no calls: it is of an older version, or the task runs alone (cascade replay --task)", run.exec.welcome.Agent)
	}
	resources, err := needs(ctx)
	if err != nil {
		return nil, err
	}
	return run.call(fn, args, resources)
}

// callable tells why a function cannot be called with such arguments.
func (f *Func) callable(args []any) error {
	if f.Seq != nil || len(f.Outputs) != 1 {
		return errors.New("only a function that returns one value can be called")
	}
	params := f.params()
	if len(args) != len(params) {
		return fmt.Errorf("it takes %d arguments, and got %d", len(params), len(args))
	}
	for i, p := range params {
		have := reflect.TypeOf(args[i])
		if future, ok := args[i].(*Future); ok {
			have = future.typ
			if f.With != nil && i == f.WithAt {
				return fmt.Errorf("parameters are given as a value of type %s", p.Type)
			}
		}
		switch {
		case p.List != nil:
			return fmt.Errorf("argument %s is a list, which a call cannot pass", p.Name)
		case have != p.Type:
			return fmt.Errorf("argument %s is of type %v, and the function takes %s", p.Name, have, p.Type)
		}
	}
	return nil
}

// params lists the Go parameters behind the context.
func (f *Func) params() []Port {
	params := slices.Clone(f.Inputs)
	if f.With != nil {
		params = slices.Insert(params, f.WithAt, Port{Name: "with", Type: f.With})
	}
	return params
}

// inPlace calls a function where there is no agent.
func (f *Func) inPlace(ctx context.Context, args []any) (*Future, error) {
	in, out := slices.Clone(args), make([]any, 1)
	for i := range in {
		if future, ok := in[i].(*Future); ok {
			v, err := future.Get(ctx)
			if err != nil {
				return nil, fmt.Errorf("argument %d: %w", i, err)
			}
			in[i] = v
		}
	}
	err := f.Call(ctx, in, out)
	return &Future{typ: f.Outputs[0].Type, value: out[0], err: err}, nil
}

// call tells the agent of a call.
func (r *run) call(fn *Func, args []any, needs comms.Resources) (*Future, error) {
	r.calls.mu.Lock()
	defer r.calls.mu.Unlock()
	f := &Future{typ: fn.Outputs[0].Type, run: r, number: uint64(len(r.calls.made)), done: make(chan struct{})}
	m := &comms.Call{Run: r.ID, Number: f.number, Function: fn.Name, Output: fn.Outputs[0].Name, Resources: needs}
	for i, p := range fn.params() {
		if fn.With != nil && i == fn.WithAt {
			with, err := encodeWith(args[i])
			if err != nil {
				return nil, fmt.Errorf("parameters: %w", err)
			}
			m.With = with
			continue
		}
		in, err := r.callArgument(p, args[i])
		if err != nil {
			return nil, fmt.Errorf("argument %s: %w", p.Name, err)
		}
		in.Name = p.Name
		m.Inputs = append(m.Inputs, in)
	}
	r.calls.list.Lock()
	r.calls.made = append(r.calls.made, f)
	r.calls.list.Unlock()
	r.exec.out.send(m)
	r.settle(false)
	return f, nil
}

// callArgument is an argument as the agent is told of it.
func (r *run) callArgument(p Port, arg any) (comms.CallIn, error) {
	if f, ok := arg.(*Future); ok {
		switch {
		case f.run != r:
			return comms.CallIn{}, errors.New("the future is of another task")
		case f.input != nil:
			return f.input()
		}
		return comms.CallIn{Call: f.number + 1}, nil
	}
	codec, err := r.exec.reg.Codecs.For(p.Type)
	if err != nil {
		return comms.CallIn{}, err
	}
	flat, err := codec.Encode(arg)
	if err != nil {
		return comms.CallIn{}, err
	}
	d, err := r.keepFlat(flat)
	return comms.CallIn{Data: d}, err
}

// keepFlat stores an encoded value where others can read it.
func (r *run) keepFlat(f value.Flat) (d comms.Desc, err error) {
	d = comms.Desc{Codec: f.Codec, DType: f.DType, Shape: f.Shape, Size: uint64(len(f.Bytes))}
	d.Place, err = r.place(f.Bytes, false)
	if d.Place.Kind == comms.PlaceSegment {
		d.Hash = comms.HashOf(f.Bytes)
	}
	return d, err
}

// encodeWith writes a parameter struct as the msgpack map that a job would give.
func encodeWith(params any) ([]byte, error) {
	fields, err := Parameters(params)
	if err != nil {
		return nil, err
	}
	m := make(map[string]any, len(fields))
	for _, f := range fields {
		m[f.Name] = literal(f.Value)
	}
	var b bytes.Buffer
	enc := msgpack.NewEncoder(&b)
	enc.SetSortMapKeys(true)
	if err := enc.Encode(m); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// literal undoes what keeps texts from being read as placeholders in a job.
func literal(v any) any {
	switch v := v.(type) {
	case string:
		return strings.ReplaceAll(v, "$${", "${")
	case []any:
		for i := range v {
			v[i] = literal(v[i])
		}
	case map[string]any:
		for k := range v {
			v[k] = literal(v[k])
		}
	}
	return v
}

// InputFuture returns an input of the task as a Future, to be passed to calls
// without a copy. It is one dataset, no list.
func InputFuture(ctx context.Context, name string) (*Future, error) {
	r, _ := ctx.Value(taskKey{}).(*run)
	if r == nil {
		return nil, fmt.Errorf("input %s as a future: ctx is not that of a task", name)
	}
	r.calls.mu.Lock()
	defer r.calls.mu.Unlock()
	for i := range r.kind.inputs {
		in := &r.kind.inputs[i]
		if in.port.Name != name || in.port.List != nil {
			continue
		}
		return &Future{typ: in.port.Type, run: r, input: func() (comms.CallIn, error) { return r.inputArgument(i, in) }}, nil
	}
	return nil, fmt.Errorf("the task has no input %s that is one dataset", name)
}

// inputArgument is an input of a run as an argument: by its place among the inputs
// where the agent has it, else as a value, which each call has for itself.
func (r *run) inputArgument(i int, in *kindInput) (comms.CallIn, error) {
	live := &r.input
	if r.reads == 0 {
		d := &r.Inputs[i].Data[0]
		switch d.Place.Kind {
		case comms.PlaceInline:
			return comms.CallIn{Data: comms.Desc{Codec: d.Codec, DType: d.DType, Shape: d.Shape, Size: d.Size, Place: d.Place}}, nil
		case comms.PlaceLive:
			live = r.liveInput(d)
		default:
			return comms.CallIn{Input: uint64(i) + 1}, nil
		}
	}
	flat, err := live.codec.Encode(live.value)
	if err != nil {
		return comms.CallIn{}, err
	}
	d, err := r.keepFlat(flat)
	return comms.CallIn{Data: d}, err
}

// Get waits for the function and returns its value, or its error. While it waits
// the task needs no core: others run on it. The value may lie in shared memory and
// is read-only.
func (f *Future) Get(ctx context.Context) (any, error) {
	r := f.run
	switch {
	case r == nil:
		return f.value, f.err
	case f.input != nil:
		return nil, errors.New("get: the future is an input of the task, which it has as a value")
	}
	f.once.Do(func() { r.exec.out.send(&comms.Await{Run: r.ID, Number: f.number}) })
	select {
	case <-f.done:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	case <-r.ctx.Done():
		return nil, context.Cause(r.ctx)
	}
	if f.got.Error != nil {
		return nil, r.exec.reg.Wrap(f.got.Error)
	}
	r.calls.mu.Lock()
	defer r.calls.mu.Unlock()
	codec, err := r.exec.reg.Codecs.For(f.typ)
	if err != nil {
		return nil, err
	}
	d := &f.got.Data
	b, err := r.bytes("the result of a call", d)
	if err != nil {
		return nil, fmt.Errorf("read what call %d returned: %w", f.number, err)
	}
	return codec.Decode(value.Flat{Codec: d.Codec, DType: d.DType, Shape: d.Shape, Bytes: b})
}

// returned takes the agent's answer to Await. Executor.mu is held.
func (r *run) returned(m *comms.Returned) error {
	r.calls.list.Lock()
	defer r.calls.list.Unlock()
	if m.Number >= uint64(len(r.calls.made)) || r.calls.made[m.Number].got != nil {
		return fmt.Errorf("an answer to call %d of run %d, which does not wait for one", m.Number, m.Run)
	}
	f := r.calls.made[m.Number]
	f.got = m
	close(f.done)
	return nil
}
