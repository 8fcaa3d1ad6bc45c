package executor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cascade-run/cascade/comms"
)

// A run makes tasks: it calls functions, and puts values. Each has a name, the number
// that its strand has come to, so that another run of the task that does the same meets
// what this one has begun.
//
//	Go, Put ──▶ batch ──▶ Calls ──▶ agent        agent ──▶ CallEnds ──▶ callState ──▶ waiters
//	                      CallDrop ◀── dropped futures      CallGo ──▶ the run has its cpu again

// Items is an argument for a list: values, futures, or both.
type Items []any

// calls is what a run has called.
type calls struct {
	mu     sync.Mutex // guards what follows; never held while anything is waited for
	kinds  map[string]uint32
	kind   uint32      // number of the last
	batch  comms.Calls // to be sent
	bytes  int         // of it, about
	drops  []comms.CallRef
	open   int  // calls that have not ended and were not dropped
	armed  bool // the timer runs
	timer  *time.Timer
	closed bool // the function has returned

	seen    uint64 // items of CallEnds
	ended   uint64 // calls that have ended
	waiting bool   // a CallWait is not answered
	wait    uint64 // its number
	owner   *waiter
	waiters map[*waiter]struct{}

	sending sync.Mutex // held while a batch goes out: it keeps the order
	base    strand
	strands map[uint64]*strand
	actors  atomic.Pointer[actors]
}

// noCalls is of runs that have called nothing and have ended.
var noCalls = &calls{closed: true}

// callState is a call, for all of its futures. There may be a million: what few have is in callData.
type callState struct {
	run      *run
	ref      comms.CallRef
	end      *comms.CallEnd // how it has ended; nil: not yet
	order    uint64         // it is the order-th that ended
	sets     []*waiter      // that wait for it
	data     *callData      // nil of most
	put      bool           // it is a value
	pinned   bool           // memory of a dataset of it was given to the function
	released bool
}

// callData is what a call has that is more than one with small results.
type callData struct {
	value    any          // that was put
	elements []comms.Desc // of its stream
	reads    map[readKey]*readState
	actor    *actorCall // it is of a method
}

// have returns the data of a call, to be changed. mu is held.
func (s *callState) have() *callData {
	if s.data == nil {
		s.data = &callData{}
	}
	return s.data
}

// made is how many elements of its stream there are.
func (s *callState) made() uint64 {
	if s.data == nil {
		return 0
	}
	return uint64(len(s.data.elements))
}

// readOf returns what the agent was asked for; nil: it was not.
func (s *callState) readOf(k readKey) *readState {
	if s.data == nil {
		return nil
	}
	return s.data.reads[k]
}

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
	r, err := callerOf(ctx)
	err = cmp.Or(o.Err, f.callable(args), err)
	if err == nil && r == nil {
		return f.inPlace(ctx, args)
	}
	if err == nil {
		err = r.awaitActors(ctx, args)
	}
	if err == nil {
		var c *Call
		if c, err = r.call(ctx, f, o, args); err == nil {
			return c
		}
	}
	return &Call{fn: f, local: &localCall{err: fmt.Errorf("call %s: %w", f.Name, err)}}
}

// callerOf returns the run that a context is of, if it may call. Nil: the context is of none, and what is called runs at
// once in this process. In a program that has a session open that is not what its author wants.
func callerOf(ctx context.Context) (*run, error) {
	if m, _ := ctx.Value(methodKey{}).(*methodRun); m != nil && m.alone {
		return nil, errors.New("a method of an actor with ExactlyOnce makes no calls: they would run twice when it is restarted")
	}
	r, _ := ctx.Value(taskKey{}).(*run)
	switch {
	case r == nil && openSessions.Load() > 0:
		return nil, errors.New("the context belongs to no session or task, and this program has a session open: use the session's Context()")
	case r != nil && !r.exec.welcome.Calls:
		return nil, r.exec.noCalls()
	}
	return r, nil
}

// noCalls is the error of calls that the agent does not take.
func (e *Executor) noCalls() error {
	return fmt.Errorf("agent %s takes no calls: it is of an older version, or the task runs alone (cascade replay --task)", e.welcome.Agent)
}

// Call is a call that was made, or a value that was put. When it is garbage, and with it
// all of its futures, the agent may free what it returned.
type Call struct {
	fn    *Func
	state *callState // nil in place
	local *localCall // nil of most
	first Future     // of its first result
}

// localCall is a call that the agent does not know.
type localCall struct {
	err error // it could not be made, or has failed
	out []any
	seq func(yield func(any, error) bool)
}

// failed is why a call is not known to the agent, when it did not go well.
func (c *Call) failed() error {
	if c.local == nil {
		return nil
	}
	return c.local.err
}

// callable tells why a function cannot be called with such arguments.
func (f *Func) callable(args []any) error {
	if n := f.paramCount(); len(args) != n {
		return fmt.Errorf("it takes %d arguments, and got %d", n, len(args))
	}
	for i := range args {
		p := f.param(i)
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
		case p.List != nil:
			if err := fits(args[i], p.List.list); err != nil {
				return fmt.Errorf("argument %s %w", p.Name, err)
			}
			if future != nil {
				return fmt.Errorf("argument %s is one future of a whole list: give a future for each of its elements", p.Name)
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

// paramCount counts the Go parameters behind the context.
func (f *Func) paramCount() int {
	if f.With == nil {
		return len(f.Inputs)
	}
	return len(f.Inputs) + 1
}

// param is one of them.
func (f *Func) param(i int) *Port {
	switch {
	case f.With == nil || i < f.WithAt:
		return &f.Inputs[i]
	case i == f.WithAt:
		return &Port{Name: "with", Type: f.With}
	}
	return &f.Inputs[i-1]
}

// inPlace calls a function where there is no agent.
func (f *Func) inPlace(ctx context.Context, args []any) *Call {
	c := &localCall{out: make([]any, len(f.Outputs))}
	in := slices.Clone(args)
	for i := range in {
		var err error
		p := f.param(i)
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
	return &Call{fn: f, local: c}
}

// here returns the value that an argument stands for.
func here(ctx context.Context, v any) (any, error) {
	if f, ok := v.(*Future); ok {
		return f.Get(ctx)
	}
	return v, nil
}

// called returns what the run has called.
func (r *run) called() *calls {
	if c := r.calls.Load(); c != nil {
		return c
	}
	c := &calls{kinds: map[string]uint32{}, waiters: map[*waiter]struct{}{}, strands: map[uint64]*strand{}}
	c.batch.Run = r.ID
	c.timer = time.AfterFunc(time.Hour, r.lateCalls)
	c.timer.Stop()
	if !r.calls.CompareAndSwap(nil, c) {
		return r.calls.Load()
	}
	return c
}

// mayCall tells why no call can be made any more. making is held.
func (r *run) mayCall(c *calls) error {
	c.mu.Lock()
	closed := c.closed
	c.mu.Unlock()
	if closed {
		return r.overErr()
	}
	return r.stoppedErr()
}

// overErr tells why a run is over.
func (r *run) overErr() error {
	if err := context.Cause(r.ctx); err != nil && err != context.Canceled { //nolint:errorlint // that itself is no reason
		return err
	}
	return errReturned
}

// call makes a call, which is sent with others that are made soon.
func (r *run) call(ctx context.Context, fn *Func, o CallOptions, args []any) (*Call, error) {
	c := r.called()
	r.making.Lock()
	defer r.making.Unlock()
	if err := r.mayCall(c); err != nil {
		return nil, err
	}
	kind, err := r.callKind(c, fn, &o)
	if err != nil {
		return nil, err
	}
	it := comms.CallItem{Kind: kind, Name: o.Name, Inputs: make([]comms.CallInput, 0, len(args))}
	var refs []comms.ItemRefs
	port := uint32(0)
	for i := range fn.paramCount() {
		p := fn.param(i)
		if fn.With != nil && i == fn.WithAt {
			if it.With, err = encodeWith(args[i]); err != nil {
				return nil, fmt.Errorf("parameters: %w", err)
			}
			continue
		}
		if err = r.callArguments(&it, &refs, port, p, args[i]); err != nil {
			return nil, fmt.Errorf("argument %s: %w", p.Name, err)
		}
		port++
	}
	call := &Call{fn: fn}
	if len(fn.Outputs) > 0 {
		call.first.typ = fn.Outputs[0].Type
	}
	r.addCall(ctx, c, call, it, refs)
	runtime.KeepAlive(args) // a future that is dropped before its reader is in the batch would be gone
	return call, nil
}

// Put keeps a value where calls can read it by reference, without a copy for each.
func Put(ctx context.Context, v any) (*Future, error) {
	if v == nil {
		return nil, errors.New("put: a nil value has no type")
	}
	r, err := callerOf(ctx)
	if err != nil {
		return nil, fmt.Errorf("put a value of type %T: %w", v, err)
	}
	if r == nil {
		return &Future{typ: reflect.TypeOf(v), known: &known{value: v}}, nil
	}
	call, err := r.put(ctx, v)
	if err != nil {
		return nil, fmt.Errorf("put a value of type %T: %w", v, err)
	}
	return &call.first, nil
}

func (r *run) put(ctx context.Context, v any) (*Call, error) {
	c := r.called()
	r.making.Lock()
	defer r.making.Unlock()
	if err := r.mayCall(c); err != nil {
		return nil, err
	}
	if !r.exec.welcome.Calls {
		return nil, r.exec.noCalls()
	}
	in, found, err := r.callArgument(reflect.TypeOf(v), v)
	if err != nil {
		return nil, err
	}
	if in.From != comms.FromValue {
		return nil, errors.New("it is a future")
	}
	call := &Call{}
	call.first.typ = reflect.TypeOf(v)
	var refs []comms.ItemRefs
	if found != nil {
		refs = []comms.ItemRefs{{Refs: found}}
	}
	r.addCall(ctx, c, call, comms.CallItem{Inputs: []comms.CallInput{in}}, refs)
	call.state.put, call.state.data = true, &callData{value: v}
	return call, nil
}

// mostBatch and mostBytes bound a message of calls; batchAge how long the first of them waits for others, when
// the task has others that have not ended. A call that is its only one leaves at once.
const (
	mostBatch = 1000
	mostBytes = 64 << 10
	batchAge  = 100 * time.Microsecond
)

// addCall names a call and puts it into the batch. Values that it has sealed are the agent's once it is sent.
func (r *run) addCall(ctx context.Context, c *calls, call *Call, it comms.CallItem, refs []comms.ItemRefs) {
	s := c.strand(ctx)
	it.Ref = comms.CallRef{Strand: s.id, Number: s.next}
	s.next++
	once := ctx.Value(onceKey{}) != nil
	state := &callState{run: r, ref: it.Ref}
	call.state = state
	call.first.call = call
	sealed, size := false, 64+len(it.With)
	for i := range it.Inputs {
		d := &it.Inputs[i].Data
		sealed = sealed || it.Inputs[i].From == comms.FromValue && d.Place.Kind == comms.PlaceSegment
		size += 64 + len(d.Place.Bytes)
	}
	c.mu.Lock()
	s.calls.Set(it.Ref.Number, state)
	c.batch.Once = c.batch.Once || once
	for i := range refs {
		refs[i].Item = uint32(len(c.batch.Items))
		size += 16 * len(refs[i].Refs)
	}
	c.batch.Refs = append(c.batch.Refs, refs...)
	c.batch.Items = append(c.batch.Items, it)
	c.bytes += size
	due := sealed || len(c.batch.Items) >= mostBatch || c.bytes >= mostBytes
	if it.Kind != 0 {
		due = due || c.open == 0
		c.open++
	}
	if !due {
		c.arm()
	}
	c.mu.Unlock()
	runtime.AddCleanup(call, (*callState).drop, state)
	if due {
		r.flushCalls()
	}
	if sealed {
		r.settle(false)
	}
}

// arm sees to it that the batch leaves soon. The timer is not stopped when the batch has left: setting
// it can cost the wake of a thread. mu is held.
func (c *calls) arm() {
	if !c.armed {
		c.armed = true
		c.timer.Reset(batchAge)
	}
}

// lateCalls is the end of the timer.
func (r *run) lateCalls() {
	c := r.called()
	c.mu.Lock()
	c.armed = false
	c.mu.Unlock()
	r.flushCalls()
}

// flushCalls sends the calls that were made, and then which are needed no more.
func (r *run) flushCalls() { r.sendCalls(false) }

// sendCalls is flushCalls; of a function that has returned a future it sends what was not sent before (last).
func (r *run) sendCalls(last bool) {
	c := r.calls.Load()
	if c == nil {
		return
	}
	if a := c.actors.Load(); a != nil {
		a.flush()
	}
	c.sending.Lock()
	defer c.sending.Unlock()
	var m comms.Calls
	c.mu.Lock()
	drops := c.drops
	c.drops = nil
	if len(c.batch.Items) > 0 { // else its kinds wait for the first call of theirs
		m = c.batch
		c.batch, c.bytes = comms.Calls{Run: r.ID, Once: m.Once}, 0
	}
	closed := c.closed && !last
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

// errReturned is of what a goroutine wants that outlives the function of its task.
var errReturned = fmt.Errorf("the function of the task has returned: %w", context.Canceled)

// endCalls ends the making of calls: the function has returned. Calls that were not sent
// are not made: no goroutine has waited for them.
func (r *run) endCalls() {
	if r.calls.CompareAndSwap(nil, noCalls) {
		return
	}
	c := r.calls.Load()
	if c == noCalls {
		return
	}
	r.making.Lock() // of those under way
	defer r.making.Unlock()
	c.mu.Lock()
	c.closed = true
	c.timer.Stop()
	c.mu.Unlock()
}

// endActors ends what the run has of actors: what it returns was described.
func (r *run) endActors() {
	if a := r.called().actors.Load(); a != nil {
		a.close()
	}
}
