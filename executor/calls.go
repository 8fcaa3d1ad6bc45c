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
	"time"

	"github.com/vmihailenco/msgpack/v5"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/dag"
	"github.com/cascade-run/cascade/executor/value"
)

// A run makes tasks: it calls functions, and puts values. Each has a name, the number
// that its strand has come to, so that another run of the task that does the same meets
// what this one has begun.
//
//	Go, Put ──▶ batch ──▶ Calls ──▶ agent        agent ──▶ CallEnds ──▶ callState ──▶ waiters
//	                      CallDrop ◀── dropped futures      CallGo ──▶ the run has its cpu again

// CallOptions is what a call may say besides its arguments.
type CallOptions struct {
	Resources dag.Resources
	Retries   int           // further attempts after an error of the function
	RetryOn   []error       // after which it is tried again, each registered; none: all
	Timeout   time.Duration // of one attempt; 0: none
	Priority  int           // higher first, among the calls of one job
	Name      string        // for people; "" is none
	Here      bool          // it stays on the host of its caller
	Err       error         // an option that does not fit a call
}

// plain tells whether a call says nothing that makes it of another kind.
func (o *CallOptions) plain() bool {
	r := &o.Resources
	return o.Retries == 0 && len(o.RetryOn) == 0 && o.Timeout == 0 && o.Priority == 0 && !o.Here &&
		r.CPU == 0 && r.Memory == 0 && r.GPU == 0 && r.GPUMemory == 0 && len(r.Custom) == 0
}

// Items is an argument for a list: values, futures, or both.
type Items []any

// calls is what a run has called.
type calls struct {
	making sync.Mutex // held while one is made, which may wait for memory; and numbers are given

	mu     sync.Mutex        // guards what follows; never held while anything is waited for
	kinds  map[string]uint32 // nil: nothing was called
	batch  comms.Calls       // to be sent
	bytes  int               // of it, about
	drops  []comms.CallRef
	armed  bool // the timer runs
	timer  *time.Timer
	once   bool
	closed bool // the run has ended

	seen    uint64 // items of CallEnds
	ended   uint64 // calls that have ended
	reads   map[readKey]*readState
	waiting bool   // a CallWait is not answered
	wait    uint64 // its number
	owner   *waiter
	waiters map[*waiter]struct{}

	sending sync.Mutex // held while a batch goes out: it keeps the order
	base    strand
	strands map[uint64]*strand
}

// callState is a call, for all of its futures.
type callState struct {
	ref      comms.CallRef
	end      *comms.CallEnd // how it has ended; nil: not yet
	order    uint64         // it is the order-th that ended
	elements *[]comms.Desc  // of its stream; nil: none came
	sets     []*waiter      // that wait for it
	value    any            // a value that was put
	put      bool
	viewed   bool  // a value of it lies in shared memory, and may be in use
	futures  int32 // that were not dropped
	calls    *calls
}

// made is how many elements of its stream there are.
func (s *callState) made() uint64 {
	if s.elements == nil {
		return 0
	}
	return uint64(len(*s.elements))
}

func (s *callState) element(n uint64) *comms.Desc { return &(*s.elements)[n] }

type onceKey struct{}

// NotRepeatable returns a context for calls of a task that does other things each time that
// it runs: another run of it meets nothing that this one has called.
func NotRepeatable(ctx context.Context) context.Context {
	return context.WithValue(ctx, onceKey{}, true)
}

// Go has a function run as a task of its own, on the caller's host or another, and returns
// at once. The arguments are those of the Go function behind its context: values of the
// parameters' types, Futures, whose datasets are passed by reference, and Items for lists.
// An error of the call itself is that of each of its futures.
//
// Outside an executor the function runs at once, so that tests can call directly.
func (f *Func) Go(ctx context.Context, o CallOptions, args ...any) *Call {
	r, _ := ctx.Value(taskKey{}).(*run)
	err := o.Err
	if err == nil {
		err = f.callable(args)
	}
	if err == nil && r == nil {
		return f.inPlace(ctx, args)
	}
	if err == nil {
		err = r.stoppedErr()
	}
	if err == nil && !r.exec.welcome.Calls {
		err = fmt.Errorf("agent %s takes no calls: it is of an older version, or the task runs alone (cascade replay --task)", r.exec.welcome.Agent)
	}
	if err == nil {
		var c *Call
		if c, err = r.call(ctx, f, o, args); err == nil {
			return c
		}
	}
	return &Call{fn: f, err: fmt.Errorf("call %s: %w", f.Name, err)}
}

// Call is a call that was made.
type Call struct {
	fn    *Func
	run   *run
	state *callState
	err   error // it could not be made
	out   []any // in place
	seq   func(yield func(any, error) bool)
}

// callable tells why a function cannot be called with such arguments.
func (f *Func) callable(args []any) error {
	params := f.params()
	if len(args) != len(params) {
		return fmt.Errorf("it takes %d arguments, and got %d", len(params), len(args))
	}
	for i, p := range params {
		future, _ := args[i].(*Future)
		items, list := args[i].(Items)
		switch {
		case f.With != nil && i == f.WithAt && future != nil:
			return fmt.Errorf("parameters are given as a value of type %s", p.Type)
		case p.List != nil && list:
			for k, v := range items {
				if err := fits(v, p.List.Elem); err != nil {
					return fmt.Errorf("argument %s[%d] %w", p.Name, k, err)
				}
			}
		default:
			if err := fits(args[i], p.Type); err != nil {
				return fmt.Errorf("argument %s %w", p.Name, err)
			}
		}
	}
	return nil
}

// fits tells why a value, or what a future stands for, is not of a type.
func fits(v any, t reflect.Type) error {
	have := reflect.TypeOf(v)
	if f, ok := v.(*Future); ok {
		if err := f.failed(); err != nil {
			return fmt.Errorf("is a future that failed: %w", err)
		}
		have = f.typ
	}
	if have != t && (have == nil || t.Kind() != reflect.Interface || !have.Implements(t)) {
		return fmt.Errorf("is of type %v, and the function takes %s", have, t)
	}
	return nil
}

// params lists the Go parameters behind the context.
func (f *Func) params() []Port {
	if f.With == nil {
		return f.Inputs
	}
	return slices.Insert(slices.Clone(f.Inputs), f.WithAt, Port{Name: "with", Type: f.With})
}

// inPlace calls a function where there is no agent.
func (f *Func) inPlace(ctx context.Context, args []any) *Call {
	c := &Call{fn: f, out: make([]any, len(f.Outputs))}
	in := slices.Clone(args)
	for i, p := range f.params() {
		var err error
		if items, ok := in[i].(Items); ok && p.List != nil {
			values := make([]any, len(items))
			for k := range items {
				values[k], err = here(ctx, items[k])
				c.err = errors.Join(c.err, err)
			}
			in[i] = p.List.make(values, nil, len(values))
			continue
		}
		if in[i], err = here(ctx, in[i]); err != nil {
			c.err = errors.Join(c.err, fmt.Errorf("argument %s: %w", p.Name, err))
		}
	}
	switch {
	case c.err != nil:
	case f.Seq != nil:
		c.seq = f.Seq(ctx, in)
	default:
		c.err = f.Call(ctx, in, c.out)
	}
	return c
}

// here returns the value that an argument stands for.
func here(ctx context.Context, v any) (any, error) {
	if f, ok := v.(*Future); ok {
		return f.Get(ctx)
	}
	return v, nil
}

// init makes what the calls of a run need. mu is held.
func (c *calls) init(r *run) {
	c.kinds, c.reads, c.waiters = map[string]uint32{}, map[readKey]*readState{}, map[*waiter]struct{}{}
	c.strands = map[uint64]*strand{}
	c.batch.Run = r.ID
	c.timer = time.AfterFunc(time.Hour, func() { r.flushCalls() })
	c.timer.Stop()
}

// call makes a call, which is sent with others that are made soon.
func (r *run) call(ctx context.Context, fn *Func, o CallOptions, args []any) (*Call, error) {
	c := &r.calls
	c.making.Lock()
	defer c.making.Unlock()
	kind, news, err := r.callKind(fn, &o)
	if err != nil {
		return nil, err
	}
	it := comms.CallItem{Kind: kind, Name: o.Name, Inputs: make([]comms.CallInput, 0, len(args))}
	port, sealed := uint32(0), false
	for i, p := range fn.params() {
		if fn.With != nil && i == fn.WithAt {
			if it.With, err = encodeWith(args[i]); err != nil {
				return nil, fmt.Errorf("parameters: %w", err)
			}
			continue
		}
		items, list := args[i].(Items)
		typ := p.Type
		if p.List != nil {
			typ = p.List.Elem
			if !list {
				items = p.List.items(args[i])
			}
		} else {
			items = Items{args[i]}
		}
		for _, arg := range items {
			in, err := r.callArgument(typ, arg)
			if err != nil {
				return nil, fmt.Errorf("argument %s: %w", p.Name, err)
			}
			in.Port = port
			sealed = sealed || in.From == comms.FromValue && in.Data.Place.Kind == comms.PlaceSegment
			it.Inputs = append(it.Inputs, in)
		}
		port++
	}
	s := r.strand(ctx)
	it.Ref = comms.CallRef{Strand: s.id, Number: s.next}
	s.next++
	once, _ := ctx.Value(onceKey{}).(bool)
	state := r.addCall(it, news, once, sealed)
	return &Call{fn: fn, run: r, state: state}, nil
}

// Put keeps a value where calls can read it by reference, without a copy for each.
func (reg *Registry) Put(ctx context.Context, v any) (*Future, error) {
	r, _ := ctx.Value(taskKey{}).(*run)
	if r == nil {
		return &Future{typ: reflect.TypeOf(v), known: &known{value: v}}, nil
	}
	if v == nil {
		return nil, errors.New("put: a nil value has no type")
	}
	c := &r.calls
	c.making.Lock()
	defer c.making.Unlock()
	in, err := r.callArgument(reflect.TypeOf(v), v)
	if err != nil {
		return nil, fmt.Errorf("put a value of type %T: %w", v, err)
	}
	s := r.strand(ctx)
	it := comms.CallItem{Ref: comms.CallRef{Strand: s.id, Number: s.next}, Inputs: []comms.CallInput{in}}
	s.next++
	once, _ := ctx.Value(onceKey{}).(bool)
	state := r.addCall(it, nil, once, in.Data.Place.Kind == comms.PlaceSegment)
	state.put, state.value = true, v
	return r.newFuture(state, reflect.TypeOf(v), 0, 0), nil
}

// mostBatch and mostBytes bound a message of calls; batchAge how long the first of them waits for others.
const (
	mostBatch = 1000
	mostBytes = 64 << 10
	batchAge  = 100 * time.Microsecond
)

// addCall puts a call into the batch. Memory that it has sealed is the agent's once it is sent.
func (r *run) addCall(it comms.CallItem, news []comms.CallKind, once, sealed bool) *callState {
	c := &r.calls
	c.mu.Lock()
	if c.kinds == nil {
		c.init(r)
	}
	state := &callState{ref: it.Ref, calls: c}
	c.callsOf(it.Ref.Strand).Set(it.Ref.Number, state)
	c.once = c.once || once
	c.batch.Kinds = append(c.batch.Kinds, news...)
	c.batch.Items = append(c.batch.Items, it)
	for i := range it.Inputs {
		c.bytes += 64 + len(it.Inputs[i].Data.Place.Bytes)
	}
	c.bytes += 64 + len(it.With)
	full := sealed || len(c.batch.Items) >= mostBatch || c.bytes >= mostBytes
	if !full && !c.armed {
		c.armed = true
		c.timer.Reset(batchAge)
	}
	c.mu.Unlock()
	if full {
		r.flushCalls()
	}
	if sealed {
		r.settle(false)
	}
	return state
}

// flushCalls sends the calls that were made, and then which are needed no more.
func (r *run) flushCalls() {
	c := &r.calls
	c.sending.Lock()
	defer c.sending.Unlock()
	c.mu.Lock()
	m, drops := c.batch, c.drops
	c.batch, c.drops, c.bytes, c.armed = comms.Calls{Run: r.ID}, nil, 0, false
	m.Once = c.once
	closed := c.closed
	c.mu.Unlock()
	if closed {
		return
	}
	if len(m.Items) > 0 {
		r.exec.out.send(&m)
	}
	if len(drops) > 0 {
		r.exec.out.send(&comms.CallDrop{Run: r.ID, Refs: drops})
	}
}

// endCalls ends what the run waits for: it has ended itself.
func (r *run) endCalls() {
	c := &r.calls
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed = true; c.timer != nil {
		c.timer.Stop()
	}
}

// callKind returns the number of a kind of calls, and the kind if the agent does not have it yet.
func (r *run) callKind(fn *Func, o *CallOptions) (id uint32, news []comms.CallKind, err error) {
	c := &r.calls
	key := fn.Name
	if !o.plain() {
		key = fmt.Sprintf("%s %+v %v %d %v %d %v", fn.Name, o.Resources, o.RetryOn, o.Retries, o.Timeout, o.Priority, o.Here)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if id := c.kinds[key]; id != 0 {
		return id, nil, nil
	}
	k := comms.CallKind{ID: uint32(len(c.kinds)) + 1, Function: fn.Name, Retries: uint32(max(o.Retries, 0)), Timeout: int64(o.Timeout), Priority: int64(o.Priority), Here: o.Here}
	if k.Resources, err = needs(o.Resources); err != nil {
		return 0, nil, err
	}
	for _, e := range o.RetryOn {
		code, ok := r.exec.reg.codeOf(e)
		if !ok {
			return 0, nil, fmt.Errorf("it is to be tried again after %q, which is not registered (RegisterError)", e)
		}
		k.RetryOn = append(k.RetryOn, code)
	}
	for _, p := range fn.Inputs {
		k.Inputs = append(k.Inputs, comms.KindIn{Name: p.Name, List: p.List != nil})
	}
	for _, p := range fn.Outputs {
		out := comms.KindOut{Name: p.Name}
		if fn.Seq != nil {
			out.Generate = dag.GenerateOpen
		}
		k.Outputs = append(k.Outputs, out)
	}
	if c.kinds == nil {
		c.init(r)
	}
	c.kinds[key] = k.ID
	return k.ID, []comms.CallKind{k}, nil
}

// errDeviceMemory is of a call for which memory of devices was asked.
var errDeviceMemory = errors.New("a call cannot ask for memory of devices (GPUMemory): make it a task of the job, or ask for the whole device (GPU)")

// needs is what a call needs, as a message has it.
func needs(r dag.Resources) (m comms.Resources, err error) {
	if r.GPUMemory != 0 {
		return m, errDeviceMemory
	}
	m = comms.Resources{CPU: r.CPU, Memory: r.Memory, GPU: r.GPU}
	for _, name := range slices.Sorted(maps.Keys(r.Custom)) {
		m.Custom = append(m.Custom, comms.Amount{Name: name, N: r.Custom[name]})
	}
	return m, nil
}

// callArgument is an argument as the agent is told of it.
func (r *run) callArgument(typ reflect.Type, arg any) (in comms.CallInput, err error) {
	if f, ok := arg.(*Future); ok {
		switch {
		case f.known != nil:
			arg = f.known.value
		case f.run != r:
			return in, errors.New("the future is of another task: its result can be passed as a value")
		case f.input != nil:
			return r.inputArgument(f.input)
		default:
			return comms.CallInput{From: comms.FromCall, Ref: f.state.ref, Output: f.output, Element: f.element}, nil
		}
	}
	codec, err := r.exec.reg.Codecs.For(typ)
	if err != nil {
		return in, err
	}
	flat, err := codec.Encode(arg)
	if err != nil {
		return in, err
	}
	in.Data, err = r.keepFlat(flat)
	return in, err
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
	for i := range r.kind.inputs {
		if in := &r.kind.inputs[i]; in.port.Name == name && in.port.List == nil {
			return &Future{typ: in.port.Type, run: r, input: &inputRef{i, in}}, nil
		}
	}
	return nil, fmt.Errorf("the task has no input %s that is one dataset", name)
}

// inputRef is an input of a run.
type inputRef struct {
	index int
	in    *kindInput
}

// inputArgument is an input of a run as an argument: by its place among the inputs
// where the agent has it, else as a value, which each call has for itself.
func (r *run) inputArgument(ref *inputRef) (in comms.CallInput, err error) {
	live := &r.input
	if r.reads == 0 {
		d := r.Inputs[ref.index].Data[0]
		switch d.Place.Kind {
		case comms.PlaceInline:
			in.Data = comms.Desc{Codec: d.Codec, DType: d.DType, Shape: d.Shape, Size: d.Size, Place: d.Place}
			return in, nil
		case comms.PlaceLive:
			live = r.liveInput(&d)
		default:
			return comms.CallInput{From: comms.FromInput, Input: uint32(ref.index), Data: d}, nil
		}
	}
	flat, err := live.codec.Encode(live.value)
	if err != nil {
		return in, err
	}
	in.Data, err = r.keepFlat(flat)
	return in, err
}
