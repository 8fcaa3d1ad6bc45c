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

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/dag"
	"github.com/cascade-run/cascade/executor/value"
	"github.com/cascade-run/cascade/internal/seqmap"
)

// A run makes actors and calls them. Their calls do not pass the agent (docs/protocol/actors.md): they go to the process
// that has the actor, over a direct link. Their futures are callStates like others.
//
//	Spawn, Go ──▶ Actor.waiting ──▶ actorProcess.batch ──ActorCalls──▶ process of the actor
//	              (an argument is      ◀──────────────────ActorEnds───
//	               not there yet)

// ActorOptions is what the making of an actor may say besides its arguments.
type ActorOptions struct {
	Resources   dag.Resources // any: a process of its own, which has them as long as the actor lives
	Own         bool          // a process of its own
	Environment string        // of the job or session in which its class is; "" is the caller's own
	Life        ActorLife     // when its process dies
	Err         error         // an option that does not fit
}

// own tells whether an actor shares its process with no other.
func (o *ActorOptions) own() bool {
	r := &o.Resources
	return o.Own || r.CPU != 0 || r.Memory != 0 || r.GPU != 0 || r.GPUMemory != 0 || len(r.Custom) > 0
}

// Actor is a handle of an actor. When no handle is left the actor ends, behind the calls that were made.
type Actor struct {
	class *Class
	state *actorState // nil in place
	local *localActor // outside an executor
	err   error       // it could not be made
}

// localActor is an actor where there is no agent.
type localActor struct {
	mu   sync.Mutex
	self any
	err  error // of its constructor; or it has ended
}

// actorState is what handle and calls share.
type actorState struct {
	proc *actorProcess
	id   uint64
	name string

	handle uint64                 // names its line of calls
	last   uint64                 // number of a call that was sent; proc.mu guards it, and what follows
	open   seqmap.Map[*actorCall] // that are not answered
	left   bool                   // no handle is left
	killed string                 // why; "": it is not
	dead   *comms.TaskError       // it has ended, and why
	lives  actorLives             // when its process dies
	hold   *callState             // what stands for it in values; nil: it was in none
	found  *Future                // that, of a handle which was found in a value

	mu      sync.Mutex
	waiting []*actorCall // the first has an argument that is not there yet; oldest first
}

// actorCall is a call of a method, or the making of an actor.
type actorCall struct {
	actor *actorState
	state *callState // nil: an actor is made
	fn    *Func
	args  []any           // nil once they are in item
	item  comms.ActorCall // kept until the call is answered: it is sent again after a link that breaks

	cancelled string // why; "": it is not. The mutex of the process guards it
}

// isActor tells whether a call is of a method of an actor.
func (s *callState) isActor() bool { return s.data != nil && s.data.actor != nil }

// actorStrand names the calls of actors, which the agent does not know.
var actorStrand = strandID(0, ActorsFunction)

// Spawn makes an actor and returns a handle of it at once. An error of the constructor is that of each of its calls.
func (c *Class) Spawn(ctx context.Context, o ActorOptions, args ...any) *Actor {
	r, err := callerOf(ctx)
	err = cmp.Or(o.Err, c.plan(&o.Life), c.callable(args), err)
	if err == nil && r == nil {
		return c.inPlace(ctx, args)
	}
	var a *Actor
	if err == nil {
		a, err = r.spawn(c, o, args)
	}
	if err != nil {
		return &Actor{class: c, err: fmt.Errorf("make an actor %s: %w", c.Name, err)}
	}
	return a
}

// inPlace makes an actor where there is no agent.
func (c *Class) inPlace(ctx context.Context, args []any) *Actor {
	l := &localActor{}
	in, err := hereAll(ctx, c.Func, args)
	if err == nil {
		l.self, err = c.New(ctx, in)
	}
	if err != nil {
		l.err = fmt.Errorf("the constructor of actor %s: %w", c.Name, err)
	}
	return &Actor{class: c, local: l}
}

// hereAll returns the values that arguments stand for.
func hereAll(ctx context.Context, f *Func, args []any) ([]any, error) {
	in := slices.Clone(args)
	for i := range in {
		var err error
		if in[i], err = here(ctx, in[i]); err != nil {
			return nil, fmt.Errorf("argument %s: %w", f.param(i).Name, err)
		}
	}
	return in, nil
}

// Go calls a method of an actor, and returns at once. Calls of one handle run in the order in which they are made.
func (m *Method) Go(ctx context.Context, a *Actor, args ...any) *Call {
	err := m.callable(args)
	switch {
	case err != nil:
	case a == nil:
		err = errors.New("the handle is the zero Actor, which stands for nothing")
	case a.err != nil:
		err = a.err
	case a.class != m.Class:
		err = fmt.Errorf("it is a method of actor %s, and the handle is of actor %s", m.Class.Name, a.class.Name)
	case a.local != nil:
		return m.inPlace(ctx, a.local, args)
	default:
		var r *run
		if r, err = callerOf(ctx); err != nil {
			break
		}
		if of := a.state.proc.of.run; r != of {
			err = errors.New("the handle is of another task or session than the context: give it to this one as an argument, or in a value")
			break
		}
		var c *Call
		if c, err = r.callActor(a.state, m.Func, args); err == nil {
			runtime.KeepAlive(a) // it does not end before this call
			return c
		}
	}
	return &Call{fn: m.Func, local: &localCall{err: fmt.Errorf("call %s.%s: %w", m.Class.Name, m.Name, err)}}
}

func (m *Method) inPlace(ctx context.Context, l *localActor, args []any) *Call {
	c := &localCall{out: make([]any, len(m.Outputs))}
	in, err := hereAll(ctx, m.Func, args)
	l.mu.Lock()
	defer l.mu.Unlock()
	if err == nil {
		err = l.err
	}
	if err == nil {
		end := &methodRun{}
		err = m.Run(context.WithValue(ctx, methodKey{}, end), l.self, in, c.out)
		if end.exits.Load() {
			l.err = fmt.Errorf("%w: it has called ExitActor", ErrActorDead)
		}
	}
	c.err = err
	return &Call{fn: m.Func, local: c}
}

// End is the future of a call that returns nothing.
func (c *Call) End() *Future {
	typ := reflect.TypeFor[struct{}]()
	switch {
	case c.failed() != nil:
		return &Future{typ: typ, known: &known{err: c.failed()}}
	case c.state == nil:
		return &Future{typ: typ, known: &known{value: struct{}{}}}
	}
	return &Future{typ: typ, call: c, of: ofEnd}
}

// Kill ends an actor at once: calls that have not ended fail with ErrActorDead.
func (a *Actor) Kill(why string) {
	switch {
	case a == nil || a.err != nil:
	case a.local != nil:
		a.local.mu.Lock()
		defer a.local.mu.Unlock()
		a.local.err = fmt.Errorf("%w: it was killed: %s", ErrActorDead, why)
	default:
		a.state.proc.kill(a.state, why)
	}
}

// Err tells why there is no actor behind a handle; nil when it was made, or is being made.
func (a *Actor) Err() error { return a.err }

// spawn makes an actor.
func (r *run) spawn(c *Class, o ActorOptions, args []any) (*Actor, error) {
	if err := r.mayCall(r.called()); err != nil {
		return nil, err
	}
	p, err := r.actorsOf().process(o)
	if err != nil {
		return nil, err
	}
	s := p.newActor(c.Name, o.Life)
	s.make(&actorCall{actor: s, fn: c.Func, args: args, item: comms.ActorCall{Actor: s.id, Class: c.Name}})
	a := &Actor{class: c, state: s}
	runtime.AddCleanup(a, (*actorState).drop, s)
	return a, nil
}

// through is the number up to which all calls are answered. proc.mu is held.
func (a *actorState) through() uint64 {
	if first, ok := a.open.First(); ok {
		return first - 1
	}
	return a.last
}

// drop ends an actor of which no handle is left.
func (a *actorState) drop() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.waiting) == 0 {
		a.proc.leave(a)
		return
	}
	a.waiting = append(a.waiting, &actorCall{actor: a}) // behind them
}

// callActor calls a method.
func (r *run) callActor(a *actorState, fn *Func, args []any) (*Call, error) {
	c := r.called()
	if err := r.mayCall(c); err != nil {
		return nil, err
	}
	m := &actorCall{actor: a, fn: fn, args: args, item: comms.ActorCall{Actor: a.id, Method: fn.Name}}
	m.state = &callState{run: r, data: &callData{actor: m}}
	call := &Call{fn: fn, state: m.state}
	call.first.call = call
	if len(fn.Outputs) > 0 {
		call.first.typ = fn.Outputs[0].Type
	}
	c.mu.Lock()
	s := c.strands[actorStrand]
	if s == nil {
		s = &strand{id: actorStrand}
		c.strands[actorStrand] = s
	}
	m.state.ref = comms.CallRef{Strand: s.id, Number: s.next}
	s.calls.Set(s.next, m.state)
	s.next++
	c.mu.Unlock()
	runtime.AddCleanup(call, (*callState).drop, m.state)
	a.make(m)
	runtime.KeepAlive(args)
	return call, nil
}

// make puts a call behind those that were made with its handle.
func (a *actorState) make(m *actorCall) {
	a.mu.Lock()
	wait := len(a.waiting) > 0
	if !wait {
		ok, err := m.resolve(nil)
		switch {
		case err != nil:
			a.mu.Unlock()
			m.fail(err)
			return
		case !ok:
			wait = true
			go a.pump()
		}
	}
	if wait {
		a.waiting = append(a.waiting, m)
		a.mu.Unlock()
		return
	}
	due := a.proc.add(m)
	a.mu.Unlock()
	if due {
		a.proc.flush()
	}
}

// pump sends the calls of a handle whose arguments were not there, one after another. A slow argument holds no
// other handle.
func (a *actorState) pump() {
	r, w := a.proc.of.run, newWaiter()
	for {
		a.mu.Lock()
		if len(a.waiting) == 0 {
			a.mu.Unlock()
			a.proc.flush()
			return
		}
		m := a.waiting[0]
		a.mu.Unlock()
		if m.fn == nil { // the last handle is gone
			a.mu.Lock()
			a.waiting = nil
			a.mu.Unlock()
			a.proc.leave(a)
			continue
		}
		ok, err := m.resolve(w)
		if !ok && err == nil {
			a.proc.flush()
			select {
			case <-w.wake:
				continue
			case <-r.ctx.Done():
				err = r.overErr()
			}
		}
		a.mu.Lock()
		if err == nil {
			a.proc.add(m)
		}
		a.waiting = a.waiting[1:]
		a.mu.Unlock()
		if err != nil {
			m.fail(err)
		}
	}
}

// resolve encodes the arguments. It is false when one is not there: w is signalled when that may have changed.
func (m *actorCall) resolve(w *waiter) (bool, error) {
	r := m.actor.proc.of.run
	m.item.Args = m.item.Args[:0]
	for i, arg := range m.args {
		d, ok, err := r.actorArgument(m.fn.param(i).Type, arg, w)
		if err != nil {
			return false, fmt.Errorf("argument %s: %w", m.fn.param(i).Name, err)
		}
		if !ok {
			return false, nil
		}
		m.item.Args = append(m.item.Args, d)
	}
	if n := m.item.Size(); n > mostActorCall {
		return false, fmt.Errorf("its arguments take %d bytes, and a call of an actor may have %d: pass what the actor can read by itself", n, mostActorCall)
	}
	m.args = nil
	return true, nil
}

// mostActorCall bounds the arguments of a call, and what it returns.
const mostActorCall = MaxMessage / 2

// actorArgument is an argument with its bytes; false: it is not there yet.
func (r *run) actorArgument(typ reflect.Type, arg any, w *waiter) (comms.Desc, bool, error) {
	f, future := arg.(*Future)
	if !future {
		return r.inlineDesc(typ, arg)
	}
	switch {
	case f.known != nil:
		return r.inlineDesc(typ, f.known.value)
	case f.input != nil:
		return comms.Desc{}, false, errors.New("it is an input of the task as a future: pass its value")
	case f.call.state.run != r:
		return comms.Desc{}, false, errors.New("the future is of another task: its result can be passed as a value")
	}
	s, c := f.call.state, r.called()
	c.mu.Lock()
	var d *comms.Desc
	switch {
	case s.released:
		c.mu.Unlock()
		return comms.Desc{}, false, errReleased
	case s.put:
		v := s.data.value
		c.mu.Unlock()
		return r.inlineDesc(typ, v)
	case f.of == ofElement:
		d = &s.data.elements[f.element]
	case s.end == nil:
		if w != nil && !slices.Contains(s.sets, w) {
			s.sets = append(s.sets, w)
		}
		c.mu.Unlock()
		return comms.Desc{}, false, nil
	case s.end.Error != nil:
		c.mu.Unlock()
		return comms.Desc{}, false, r.exec.reg.Wrap(s.end.Error)
	default:
		d = s.result(f.output)
	}
	c.mu.Unlock()
	switch {
	case d == nil:
		return comms.Desc{}, false, fmt.Errorf("the agent told no output %d of the call", f.output)
	case d.Place.Kind != comms.PlaceInline:
		return r.largeArgument(f, w)
	}
	return comms.Desc{Codec: d.Codec, DType: d.DType, Shape: d.Shape, Size: d.Size, Place: d.Place}, true, nil
}

// largeArgument is a result that lies in shared memory: its bytes are copied.
func (r *run) largeArgument(f *Future, w *waiter) (comms.Desc, bool, error) {
	s, c := f.call.state, r.called()
	if w == nil {
		return comms.Desc{}, false, nil // the agent is asked by pump
	}
	rd := r.ask(s, readKey{f.output, f.element}, w)
	c.mu.Lock()
	done, failed := rd.done, rd.err
	c.mu.Unlock()
	switch {
	case !done:
		return comms.Desc{}, false, nil
	case failed != nil:
		return comms.Desc{}, false, r.exec.reg.Wrap(failed)
	}
	rd.once.Do(func() { rd.bytes, rd.fault = r.bytes(resultOfCall, &rd.desc) })
	if rd.fault != nil {
		return comms.Desc{}, false, rd.fault
	}
	d := comms.Desc{Codec: rd.desc.Codec, DType: rd.desc.DType, Shape: rd.desc.Shape, Size: rd.desc.Size}
	d.Place = comms.Place{Kind: comms.PlaceInline, Bytes: slices.Clone(rd.bytes)}
	return d, true, nil
}

// errActorReference refuses what the agent would have to know.
var errActorReference = errors.New("there is a future or the handle of an actor in the value, which actors neither take nor return: pass a future as an argument of its own, or its value; handles go to tasks, and tasks return them")

// inlineDesc encodes a value into a message.
func (r *run) inlineDesc(typ reflect.Type, v any) (comms.Desc, bool, error) {
	codec, err := r.exec.reg.Codecs.For(typ)
	if err != nil {
		return comms.Desc{}, false, err
	}
	f, err := codec.Encode(v)
	if err != nil {
		return comms.Desc{}, false, err
	}
	if f.References != nil {
		return comms.Desc{}, false, errActorReference
	}
	if codec.Aliases() {
		f.Bytes = slices.Clone(f.Bytes) // the caller may change it before the message leaves
	}
	return inlineOf(f), true, nil
}

// inlineOf describes an encoded value that is in the message.
func inlineOf(f value.Flat) comms.Desc {
	return comms.Desc{Codec: f.Codec, DType: f.DType, Shape: f.Shape, Size: uint64(len(f.Bytes)), Place: comms.Place{Kind: comms.PlaceInline, Bytes: f.Bytes}}
}

// fail ends a call that was not sent. An actor that cannot be made is dead, with the same cause.
func (m *actorCall) fail(err error) {
	r := m.actor.proc.of.run
	t := &comms.TaskError{Kind: comms.ErrorTask, Message: err.Error(), Codes: r.exec.reg.codesOf(err), Agent: r.exec.welcome.Agent, Task: m.name()}
	var of *comms.TaskError
	if errors.As(err, &of) {
		t.Kind = of.Kind
	}
	if m.state == nil {
		m.actor.proc.died(m.actor.id, t)
		return
	}
	m.end(&comms.CallEnd{Error: t})
}

// name is what messages call it.
func (m *actorCall) name() string {
	if m.state == nil {
		return m.actor.name
	}
	return m.actor.name + "." + m.fn.Name
}

// end ends a call, once.
func (m *actorCall) end(e *comms.CallEnd) {
	s := m.state
	c := s.run.called()
	c.mu.Lock()
	defer c.mu.Unlock()
	if s.end == nil {
		e.Ref = s.ref
		c.end(s, e)
	}
}

// failed is the error of a call whose actor has ended: it names the class and the method.
func (m *actorCall) failed(why *comms.TaskError) *comms.TaskError {
	if why.Task != ActorsFunction {
		return why
	}
	t := *why
	t.Task = m.name()
	return &t
}

// ended tells whether a call has ended.
func (m *actorCall) ended() bool {
	c := m.state.run.called()
	c.mu.Lock()
	defer c.mu.Unlock()
	return m.state.end != nil
}

// cancelActorCall ends a call of a method.
func (s *callState) cancelActorCall(why string) {
	m := s.data.actor
	m.actor.proc.cancel(m, why)
}

// actorResult is what a method has returned as an argument of a called function, which has it as a value.
func (r *run) actorResult(f *Future) (in comms.CallInput, err error) {
	s, c := f.call.state, r.called()
	c.mu.Lock()
	var d *comms.Desc
	if s.end != nil && s.end.Error == nil {
		d = s.result(f.output)
	}
	c.mu.Unlock()
	if d == nil {
		return in, errors.New("the call of the actor returns nothing that can be passed on")
	}
	in.Data, err = r.keepFlat(value.Flat{Codec: d.Codec, DType: d.DType, Shape: d.Shape, Bytes: d.Place.Bytes})
	return in, err
}

// awaitActors waits for those arguments of a called function that actors return: the agent does not know them.
func (r *run) awaitActors(ctx context.Context, args []any) error {
	var states []*callState
	for _, arg := range args {
		items, list := arg.(Items)
		if !list {
			items = Items{arg}
		}
		for _, item := range items {
			if f, ok := item.(*Future); ok && f.call != nil && f.call.state != nil && f.call.state.isActor() && f.call.state.run == r {
				states = append(states, f.call.state)
			}
		}
	}
	if len(states) == 0 {
		return nil
	}
	return r.await(ctx, states, len(states), true)
}
