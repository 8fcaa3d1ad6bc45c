package executor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"reflect"
	"runtime"
	"slices"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/executor/value"
)

// Future stands for what a call will return, for an element of a stream, a value that
// was put, or an input of the task. It is valid until the task that has it ends. When
// no reference to it is left, the agent frees what it stands for, unless a value of it
// lies in shared memory and was read: that is free at the end of the task, or by Release.
type Future struct {
	typ     reflect.Type
	run     *run // nil outside an executor, or when the call could not be made
	state   *callState
	output  uint32
	of      futureOf
	element uint64
	input   *inputRef
	known   *known // nil of most
}

// known is what a future stands for that waits for nothing.
type known struct {
	value any   // outside an executor
	err   error // the call could not be made, or has failed in place
}

// failed is why there is no call behind a future.
func (f *Future) failed() error {
	if f.known == nil {
		return nil
	}
	return f.known.err
}

// futureOf says what a future of a call stands for.
type futureOf uint8

const (
	ofCall    futureOf = iota // a result, which comes with the end of the call
	ofElement                 // an element of its stream, which is there
)

// newFuture makes a future that the garbage collector may drop.
func (r *run) newFuture(s *callState, typ reflect.Type, output uint32, element uint64) *Future {
	f := &Future{typ: typ, run: r, state: s, output: output, element: element}
	r.calls.mu.Lock()
	s.futures++
	r.calls.mu.Unlock()
	runtime.AddCleanup(f, dropFuture, s)
	return f
}

// dropFuture counts a future that is gone. With the last of a call the agent is told.
func dropFuture(s *callState) {
	c := s.calls
	c.mu.Lock()
	defer c.mu.Unlock()
	if s.futures--; s.futures == 0 && !s.viewed { // else a value of it may be in use still
		c.drop(s)
	}
}

// drop has the agent told that a call is needed no more. mu is held.
func (c *calls) drop(s *callState) {
	if c.closed || c.find(s.ref) != s {
		return
	}
	c.callsOf(s.ref.Strand).Delete(s.ref.Number)
	if c.drops = append(c.drops, s.ref); !c.armed {
		c.armed = true
		c.timer.Reset(batchAge)
	}
}

// Output returns the future of one result of a call.
func (c *Call) Output(i int) *Future {
	typ := c.fn.Outputs[i].Type
	switch {
	case c.err != nil:
		return &Future{typ: typ, known: &known{err: c.err}}
	case c.run == nil:
		return &Future{typ: typ, known: &known{value: c.out[i]}}
	}
	return c.run.newFuture(c.state, typ, uint32(i), 0)
}

// FailedFuture is a future that has failed.
func FailedFuture(err error) *Future { return &Future{known: &known{err: err}} }

// Get waits for the call and returns its value, or its error. While it waits the task
// needs no core: others run on it. The value may lie in shared memory and is read-only.
func (f *Future) Get(ctx context.Context) (any, error) {
	defer runtime.KeepAlive(f) // its call is not dropped while it is read
	switch {
	case f.known != nil && f.known.err != nil:
		return nil, f.known.err
	case f.known != nil:
		return f.known.value, nil
	case f.input != nil:
		return nil, errors.New("get: the future is an input of the task, which it has as a value")
	case f.state.put:
		return f.state.value, nil
	}
	if f.of == ofCall && !f.Done() {
		if err := f.run.await(ctx, []*callState{f.state}, 1, false); err != nil {
			return nil, err
		}
	}
	return f.read(ctx)
}

// Release frees what the future stands for, before the task ends. Values that Get has
// returned may lie in shared memory: they must not be used any more.
func (f *Future) Release() {
	if f.run == nil || f.state == nil {
		return
	}
	c := &f.run.calls
	c.mu.Lock()
	defer c.mu.Unlock()
	c.drop(f.state)
}

// Done tells whether the call has ended, well or not.
func (f *Future) Done() bool {
	if f.run == nil || f.input != nil || f.state.put || f.of == ofElement {
		return true
	}
	f.run.calls.mu.Lock()
	defer f.run.calls.mu.Unlock()
	return f.state.end != nil
}

// Cancel ends calls with all that they have called. It does not wait: Get tells how they ended.
func Cancel(why string, futures ...*Future) {
	refs := map[*run][]comms.CallRef{}
	for _, f := range futures {
		if f.run != nil && f.state != nil && !f.state.put {
			refs[f.run] = append(refs[f.run], f.state.ref)
		}
	}
	for r, list := range refs {
		r.flushCalls()
		r.exec.out.send(&comms.CallDrop{Run: r.ID, Refs: list, Cancel: true, Why: why})
	}
}

// read returns the value of a call that has ended.
func (f *Future) read(ctx context.Context) (any, error) {
	r, c := f.run, &f.run.calls
	c.mu.Lock()
	end := f.state.end
	var d *comms.Desc
	if f.of == ofElement {
		d = f.state.element(f.element)
	} else {
		if end.Error != nil {
			c.mu.Unlock()
			return nil, r.exec.reg.Wrap(end.Error)
		}
		for i := range end.Outputs {
			if end.Outputs[i].Ref.Output == f.output {
				d = &end.Outputs[i]
			}
		}
	}
	c.mu.Unlock()
	if d == nil {
		return nil, fmt.Errorf("the agent told no output %d of the call", f.output)
	}
	desc := *d
	if desc.Place.Kind != comms.PlaceInline {
		var err error
		if desc, err = r.bring(ctx, readKey{f.state.ref, f.output, f.element}); err != nil {
			return nil, err
		}
	}
	return r.decode(f.state, f.typ, &desc)
}

// decode makes a value of a dataset that is here.
func (r *run) decode(s *callState, typ reflect.Type, d *comms.Desc) (any, error) {
	codec, err := r.exec.reg.Codecs.For(typ)
	if err != nil {
		return nil, err
	}
	r.calls.making.Lock()
	b, err := r.bytes("the result of a call", d)
	r.calls.making.Unlock()
	if err != nil {
		return nil, fmt.Errorf("read what a call returned: %w", err)
	}
	if d.Place.Kind == comms.PlaceSegment && codec.Aliases() {
		r.calls.mu.Lock()
		s.viewed = true
		r.calls.mu.Unlock()
	}
	return codec.Decode(value.Flat{Codec: d.Codec, DType: d.DType, Shape: d.Shape, Bytes: b})
}

// Wait returns those of the futures that have ended as soon as k have, in the order in
// which they ended. When ctx has a deadline and that passes, it returns those that have.
// Its cost grows with the number of futures, not with how often it has to look.
func Wait(ctx context.Context, futures []*Future, k int) ([]int, error) {
	states, r := make([]*callState, len(futures)), (*run)(nil)
	for i, f := range futures {
		if f.run == nil || f.input != nil || f.state.put || f.of == ofElement {
			continue
		}
		if r != nil && r != f.run {
			return nil, errors.New("wait: the futures are of several tasks")
		}
		r, states[i] = f.run, f.state
	}
	k = min(max(k, 0), len(futures))
	var err error
	if r != nil {
		err = r.await(ctx, states, k, false)
	}
	ready := readyOf(r, states)
	if len(ready) > k {
		ready = ready[:k]
	}
	if errors.Is(err, context.DeadlineExceeded) && r.ctx.Err() == nil {
		return ready, nil
	}
	runtime.KeepAlive(futures)
	return ready, err
}

// Completed yields the futures by their places as they end, each once: a loop over it costs as
// much as there are futures, however many that is. It ends early with the error of ctx.
func Completed(ctx context.Context, futures []*Future) iter.Seq2[int, error] {
	return func(yield func(int, error) bool) {
		defer runtime.KeepAlive(futures)
		places := placesOf{first: make(map[*callState]int, len(futures)), next: make([]int, len(futures))}
		var runs []*run
		waiters := map[*run]*waiter{}
		for i, f := range futures {
			if f.run == nil || f.input != nil || f.state.put || f.of == ofElement {
				if !yield(i, nil) {
					return
				}
				continue
			}
			if waiters[f.run] == nil {
				runs = append(runs, f.run)
				waiters[f.run] = newWaiter()
				waiters[f.run].collect = true
			}
		}
		for i, f := range slices.Backward(futures) {
			if f.run != nil && f.input == nil && !f.state.put && f.of != ofElement {
				places.add(f.state, i)
			}
		}
		for _, r := range runs {
			if !r.eachCompleted(ctx, waiters[r], &places, yield) {
				return
			}
		}
	}
}

// placesOf is where in a list of futures each call is: at first, and then next.
type placesOf struct {
	first map[*callState]int
	next  []int // -1: no more
}

// add takes the places from the last to the first.
func (p *placesOf) add(s *callState, i int) {
	p.next[i] = -1
	if at, again := p.first[s]; again {
		p.next[i] = at
	}
	p.first[s] = i
}

// eachCompleted yields the calls of one run as they end. It is false when the loop is over.
func (r *run) eachCompleted(ctx context.Context, w *waiter, places *placesOf, yield func(int, error) bool) bool {
	c := &r.calls
	c.mu.Lock()
	for s := range places.first {
		if c.find(s.ref) != s {
			continue
		}
		if s.end != nil {
			w.queue = append(w.queue, s)
		} else {
			s.sets = append(s.sets, w)
			w.left++
		}
	}
	slices.SortFunc(w.queue, func(a, b *callState) int { return cmp.Compare(a.order, b.order) })
	n := len(w.queue) + w.left
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		for s := range places.first {
			if s.end == nil {
				s.sets = slices.DeleteFunc(s.sets, func(o *waiter) bool { return o == w })
			}
		}
	}()
	for done := 0; done < n; done++ {
		if err := r.block(ctx, w, nil, func() bool { return len(w.queue) > done }); err != nil {
			yield(0, err)
			return false
		}
		c.mu.Lock()
		s := w.queue[done]
		c.mu.Unlock()
		for i := places.first[s]; i >= 0; i = places.next[i] {
			if !yield(i, nil) {
				return false
			}
		}
	}
	return true
}

// GetAll returns the values of all futures, or the first error at once.
func GetAll(ctx context.Context, futures []*Future) ([]any, error) {
	defer runtime.KeepAlive(futures)
	byRun := map[*run][]*callState{}
	for _, f := range futures {
		if err := f.failed(); err != nil {
			return nil, err
		}
		if f.run != nil && f.input == nil && !f.state.put && f.of == ofCall {
			byRun[f.run] = append(byRun[f.run], f.state)
		}
	}
	for r, states := range byRun {
		if err := r.await(ctx, states, len(states), true); err != nil {
			return nil, err
		}
	}
	values := make([]any, len(futures))
	for i, f := range futures {
		v, err := f.Get(ctx)
		if err != nil {
			return nil, err
		}
		values[i] = v
	}
	return values, nil
}

// All yields the elements of the stream that a called generator makes, while it makes
// them. The error of the generator comes last.
func (c *Call) All(ctx context.Context) iter.Seq2[any, error] {
	if c.run == nil && c.err == nil {
		return c.seq
	}
	return func(yield func(any, error) bool) {
		for f, err := range c.Elements(ctx) {
			if err != nil {
				yield(nil, err)
				return
			}
			if v, err := f.Get(ctx); !yield(v, err) || err != nil {
				return
			}
		}
	}
}

// Elements yields a future for each element of the stream, whose value is there.
func (c *Call) Elements(ctx context.Context) iter.Seq2[*Future, error] {
	return func(yield func(*Future, error) bool) {
		if c.err != nil {
			yield(nil, c.err)
			return
		}
		typ := c.fn.Outputs[0].Type
		if c.run == nil {
			for v, err := range c.seq {
				if !yield(&Future{typ: typ, known: &known{v, err}}, nil) {
					return
				}
			}
			return
		}
		r, s := c.run, c.state
		keep := r.newFuture(s, typ, 0, 0) // the call is not dropped while its elements are read
		defer runtime.KeepAlive(keep)
		for n := uint64(0); ; n++ {
			more, err := r.awaitElement(ctx, s, n)
			if err != nil {
				yield(nil, err)
				return
			}
			if !more || !yield(r.newElement(s, typ, n), nil) {
				return
			}
		}
	}
}

// newElement is a future of an element, which is there.
func (r *run) newElement(s *callState, typ reflect.Type, n uint64) *Future {
	f := r.newFuture(s, typ, 0, n)
	f.of = ofElement
	return f
}
