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
// no reference to it is left, the agent may free what it stands for.
type Future struct {
	typ     reflect.Type
	call    *Call // nil outside an executor, and of an input
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
	ofEnd                     // that it has ended: it returns nothing
)

// state returns the call whose end a future waits for; nil when there is none.
func (f *Future) state() *callState {
	if f.call == nil || f.of == ofElement || f.call.state.put {
		return nil
	}
	return f.call.state
}

// drop tells the agent, with the next batch, that a call is needed no more. Memory that
// the function was given stays until it says that it needs it no more: its value may be in use.
func (s *callState) drop() {
	c := s.run.called()
	c.mu.Lock()
	pinned := s.pinned
	if !pinned {
		c.drop(s)
	}
	c.mu.Unlock()
	if !pinned {
		s.run.releaseViews(s)
	}
}

// drop is callState.drop with mu held.
func (c *calls) drop(s *callState) {
	if c.closed || c.find(s.ref) != s {
		return
	}
	c.callsOf(s.ref.Strand).Delete(s.ref.Number)
	if s.isActor() {
		return
	}
	c.drops = append(c.drops, s.ref)
	if s.end == nil && !s.put {
		c.open--
	}
	c.arm()
}

// errReleased is of a future that was released.
var errReleased = errors.New("the future was released")

func (f *Future) isReleased() bool {
	s := f.call.state
	c := s.run.called()
	c.mu.Lock()
	defer c.mu.Unlock()
	return s.released
}

// Release says that neither these futures, nor other results of their calls, nor values that
// Get returned of them are used any more. It frees memory before the task ends, which
// large arrays keep otherwise.
func Release(futures ...*Future) {
	for _, f := range futures {
		if f.call == nil || f.call.state == nil {
			continue
		}
		s := f.call.state
		c := s.run.called()
		c.mu.Lock()
		fresh := !s.released
		if fresh {
			s.release()
			c.drop(s)
		}
		c.mu.Unlock()
		if fresh {
			s.run.releaseViews(s)
		}
	}
}

// release ends what waits for a call, or for a dataset of it. mu is held.
func (s *callState) release() {
	s.released = true
	waiters := s.sets
	if s.data != nil {
		s.data.value = nil
		for _, rd := range s.data.reads {
			waiters = append(waiters, rd.sets...)
		}
	}
	for _, w := range waiters {
		w.released = true
		w.signal()
	}
}

// Output returns the future of one result of a call.
func (c *Call) Output(i int) *Future {
	typ := c.fn.Outputs[i].Type
	switch {
	case c.failed() != nil:
		return &Future{typ: typ, known: &known{err: c.failed()}}
	case c.state == nil:
		return &Future{typ: typ, known: &known{value: c.local.out[i]}}
	case i == 0:
		return &c.first
	}
	return &Future{typ: typ, call: c, output: uint32(i)}
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
	}
	s := f.call.state
	c := s.run.called()
	c.mu.Lock()
	put, released, ended := s.put, s.released, s.end != nil
	var v any
	if put {
		v = s.data.value
	}
	c.mu.Unlock()
	switch {
	case released:
		return nil, errReleased
	case put:
		return v, nil
	case f.of != ofElement && !ended:
		if err := s.run.await(ctx, []*callState{s}, 1, false); err != nil {
			return nil, err
		}
	}
	return f.read(ctx)
}

// Done tells whether the call has ended, well or not.
func (f *Future) Done() bool {
	s := f.state()
	if s == nil {
		return true
	}
	c := s.run.called()
	c.mu.Lock()
	defer c.mu.Unlock()
	return s.end != nil
}

// Cancel ends calls with all that they have called. It does not wait: Get tells how they ended.
func Cancel(why string, futures ...*Future) {
	defer runtime.KeepAlive(futures)
	refs := map[*run][]comms.CallRef{}
	for _, f := range futures {
		switch {
		case f.call == nil || f.call.state.put:
		case f.call.state.isActor():
			f.call.state.cancelActorCall(why)
		default:
			s := f.call.state
			refs[s.run] = append(refs[s.run], s.ref)
		}
	}
	for r, list := range refs {
		r.flushCalls()
		if r.stoppedErr() == nil {
			r.exec.out.send(&comms.CallDrop{Run: r.ID, Refs: list, Cancel: true, Why: why})
		}
	}
}

// result returns a result of a call that has ended well, as the agent told it. calls.mu is held.
func (s *callState) result(output uint32) *comms.Desc {
	i := slices.IndexFunc(s.end.Outputs, func(d comms.Desc) bool { return d.Ref.Output == output })
	if i < 0 {
		return nil
	}
	return &s.end.Outputs[i]
}

// ask has the agent bring the result into memory, when the call has ended and it is large.
func (f *Future) ask() {
	s := f.state()
	if s == nil || s.isActor() {
		return
	}
	c := s.run.called()
	c.mu.Lock()
	var d *comms.Desc
	if s.end != nil && s.end.Error == nil && !s.released {
		d = s.result(f.output)
	}
	c.mu.Unlock()
	if d == nil || d.Place.Kind == comms.PlaceInline {
		return
	}
	s.run.ask(s, readKey{f.output, 0}, nil)
}

// read returns the value of a call that has ended.
func (f *Future) read(ctx context.Context) (any, error) {
	s := f.call.state
	r, c := s.run, s.run.called()
	c.mu.Lock()
	var d *comms.Desc
	switch {
	case f.of == ofElement:
		d = &s.data.elements[f.element]
	case s.end.Error != nil:
		c.mu.Unlock()
		return nil, r.exec.reg.Wrap(s.end.Error)
	case f.of == ofEnd:
		c.mu.Unlock()
		return struct{}{}, nil
	default:
		d = s.result(f.output)
	}
	c.mu.Unlock()
	if d == nil {
		return nil, fmt.Errorf("the agent told no output %d of the call", f.output)
	}
	codec, err := r.exec.reg.Codecs.For(f.typ)
	if err != nil {
		return nil, err
	}
	desc, b := *d, d.Place.Bytes
	if d.Place.Kind == comms.PlaceInline {
		_, err = r.bytes("", &desc)
	} else {
		desc, b, err = r.bring(ctx, s, readKey{f.output, f.element}, codec.Aliases())
	}
	if err != nil {
		return nil, fmt.Errorf("read what a call returned: %w", err)
	}
	v, err := codec.Decode(value.Flat{Codec: desc.Codec, DType: desc.DType, Shape: desc.Shape, Bytes: b, Refer: f.refersResult()})
	if err != nil {
		return nil, fmt.Errorf("read what a call returned: %w", err)
	}
	return v, nil
}

// Wait returns those of the futures that have ended as soon as k have, in the order in
// which they ended. When ctx has a deadline and that passes, it returns those that have.
// Its cost grows with the number of futures, not with how often it has to look.
func Wait(ctx context.Context, futures []*Future, k int) ([]int, error) {
	defer runtime.KeepAlive(futures)
	states, r := make([]*callState, len(futures)), (*run)(nil)
	for i, f := range futures {
		s := f.state()
		if s == nil {
			continue
		}
		if r != nil && r != s.run {
			return nil, errors.New("wait: the futures are of several tasks")
		}
		r, states[i] = s.run, s
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
	if err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) && r.ctx.Err() == nil {
		err = nil
	}
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
			s := f.state()
			if s == nil {
				if !yield(i, nil) {
					return
				}
				continue
			}
			if waiters[s.run] == nil {
				runs = append(runs, s.run)
				waiters[s.run] = newWaiter()
				waiters[s.run].collect = true
			}
			waiters[s.run].direct = waiters[s.run].direct || s.isActor()
		}
		for i, f := range slices.Backward(futures) {
			if s := f.state(); s != nil {
				places.add(s, i)
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
	c := r.called()
	c.mu.Lock()
	for s := range places.first {
		if s.run != r {
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
		if s := f.state(); s != nil {
			byRun[s.run] = append(byRun[s.run], s)
		}
	}
	for r, states := range byRun {
		if err := r.await(ctx, states, len(states), true); err != nil {
			return nil, err
		}
	}
	for _, f := range futures {
		f.ask() // for all before the first is waited for
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
	if c.state == nil && c.failed() == nil {
		return c.local.seq
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
		if err := c.failed(); err != nil {
			yield(nil, err)
			return
		}
		typ := c.fn.Outputs[0].Type
		if c.state == nil {
			for v, err := range c.local.seq {
				if err != nil {
					yield(nil, err)
					return
				}
				if !yield(&Future{typ: typ, known: &known{value: v}}, nil) {
					return
				}
			}
			return
		}
		defer runtime.KeepAlive(c) // the call is not dropped while its elements are read
		s := c.state
		for n := uint64(0); ; n++ {
			more, err := s.run.awaitElement(ctx, s, n)
			if err != nil {
				yield(nil, err)
				return
			}
			if !more || !yield(&Future{typ: typ, call: c, of: ofElement, element: n}, nil) {
				return
			}
		}
	}
}
