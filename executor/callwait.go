package executor

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/cascade-run/cascade/comms"
)

// mostRefs is for how many calls a wait names each.
const mostRefs = 16

// directWait is how long a run that waits for actors alone keeps its cpu: most calls of methods take less.
const directWait = 2 * time.Millisecond

// sessionWait is how long the program of a session waits before its agent is told. It has no cpu of the agent, and needs
// no answer: the agent learns that the memory that it holds stays held until its calls have ended.
const sessionWait = 20 * time.Millisecond

// waiter is a goroutine that waits for calls, or for a dataset of one.
type waiter struct {
	left   int  // calls that are still to end
	fast   bool // the first that fails ends it
	failed *comms.TaskError
	wake   chan struct{} // something has changed
	err    error         // the agent refused to let the run wait

	released bool // one of what it waits for was released

	direct bool // it waits for calls of actors too, of which the agent does not know

	collect bool // it wants each as it ends, in queue
	queue   []*callState
}

// readKey names a dataset of a call.
type readKey struct {
	output  uint32
	element uint64
}

// readState is a dataset that the agent was asked for.
type readState struct {
	done bool
	desc comms.Desc
	err  *comms.TaskError
	sets []*waiter // that wait for it

	once  sync.Once // of bytes
	bytes []byte    // in shared memory
	fault error
}

func newWaiter() *waiter { return &waiter{wake: make(chan struct{}, 1)} }

func (w *waiter) signal() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// await waits until k of some calls have ended; nil entries have. With fast it returns the
// error of the first that fails.
func (r *run) await(ctx context.Context, states []*callState, k int, fast bool) error {
	c, w := r.called(), newWaiter()
	w.left, w.fast = k, fast
	var refs []comms.CallRef
	c.mu.Lock()
	for _, s := range states {
		switch {
		case s == nil:
			w.left--
		case s.released:
			w.released = true
		case s.end != nil:
			if w.left--; s.end.Error != nil && w.failed == nil {
				w.failed = s.end.Error
			}
		default:
			s.sets = append(s.sets, w)
			w.direct = w.direct || s.isActor()
			if len(refs) <= mostRefs {
				refs = append(refs, s.ref)
			}
		}
	}
	c.mu.Unlock()
	if len(refs) > mostRefs || w.direct {
		refs = nil
	}
	err := r.block(ctx, w, refs, func() bool { return w.left <= 0 || w.fast && w.failed != nil })
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range states {
		if s != nil && s.end == nil {
			s.sets = slices.DeleteFunc(s.sets, func(o *waiter) bool { return o == w })
		}
	}
	if err == nil && fast && w.failed != nil {
		return r.exec.reg.Wrap(w.failed)
	}
	return err
}

// awaitElement waits for an element of a stream. It is false when the stream has ended.
func (r *run) awaitElement(ctx context.Context, s *callState, n uint64) (bool, error) {
	c, w := r.called(), newWaiter()
	c.mu.Lock()
	if s.sets = append(s.sets, w); s.released {
		w.released = true
	}
	c.mu.Unlock()
	err := r.block(ctx, w, nil, func() bool { return s.made() > n || s.end != nil })
	c.mu.Lock()
	defer c.mu.Unlock()
	s.sets = slices.DeleteFunc(s.sets, func(o *waiter) bool { return o == w })
	switch {
	case s.made() > n:
		return true, nil
	case err != nil:
		return false, err
	case s.end.Error != nil:
		return false, r.exec.reg.Wrap(s.end.Error)
	}
	return false, nil
}

// ask asks the agent for a dataset of a call in memory, once. w waits for it.
func (r *run) ask(s *callState, k readKey, w *waiter) *readState {
	c := r.called()
	c.mu.Lock()
	rd := s.readOf(k)
	fresh := rd == nil
	if fresh {
		rd = &readState{}
		d := s.have()
		if d.reads == nil {
			d.reads = map[readKey]*readState{}
		}
		d.reads[k] = rd
	}
	if w != nil {
		rd.sets = append(rd.sets, w)
		w.released = s.released
	}
	c.mu.Unlock()
	if fresh {
		r.flushCalls()
		r.exec.out.send(&comms.CallRead{Run: r.ID, Ref: s.ref, Output: k.output, Element: k.element})
	}
	return rd
}

// bring has a dataset of a call brought into memory, where it stays until the run ends or
// the call is dropped. With keep the function is given that memory: only Release drops the call then.
func (r *run) bring(ctx context.Context, s *callState, k readKey, keep bool) (comms.Desc, []byte, error) {
	c, w := r.called(), newWaiter()
	rd := r.ask(s, k, w)
	err := r.block(ctx, w, nil, func() bool { return rd.done })
	c.mu.Lock()
	rd.sets = slices.DeleteFunc(rd.sets, func(o *waiter) bool { return o == w })
	c.mu.Unlock()
	switch {
	case err != nil:
		return comms.Desc{}, nil, err
	case rd.err != nil:
		return comms.Desc{}, nil, r.exec.reg.Wrap(rd.err)
	}
	rd.once.Do(func() { rd.bytes, rd.fault = r.bytes(resultOfCall, &rd.desc) })
	if keep && rd.fault == nil {
		c.mu.Lock()
		s.pinned = true
		c.mu.Unlock()
	}
	return rd.desc, rd.bytes, rd.fault
}

// resultOfCall is what messages call what a call returned.
const resultOfCall = "the result of a call"

// releaseViews lets go of what was read of a call that was dropped.
func (r *run) releaseViews(s *callState) {
	c := r.called()
	c.mu.Lock()
	var reads map[readKey]*readState
	if s.data != nil {
		reads, s.data.reads = s.data.reads, nil
	}
	c.mu.Unlock()
	for _, rd := range reads {
		rd.once.Do(func() { rd.fault = errReleased }) // for a Get beside this
		r.mem.release(rd.bytes)
	}
}

// block waits until done, which is looked at with calls.mu held. The run gives up its cpu,
// and goes on when it has it again. One goroutine at a time waits for the cpu; others go
// on when they can, beside it.
func (r *run) block(ctx context.Context, w *waiter, refs []comms.CallRef, done func() bool) error {
	c := r.called()
	c.mu.Lock()
	finished := done()
	c.mu.Unlock()
	if finished {
		return nil
	}
	if err := r.waitOver(ctx); err != nil { // the agent is not asked for a wait that is over
		return err
	}
	r.flushCalls()
	c.mu.Lock()
	w.err = nil // of a wait before
	c.waiters[w] = struct{}{}
	c.mu.Unlock()
	defer r.unblock(w)
	var late <-chan time.Time // the run keeps its cpu until then
	program := r.exec.session != nil
	if w.direct || program {
		t := time.NewTimer(directWait)
		if program {
			t.Reset(sessionWait)
		}
		defer t.Stop()
		late = t.C
	}
	back := false // it has asked for its cpu
	for {
		c.mu.Lock()
		finished, mine := done(), c.waiting && c.owner == w
		var m *comms.CallWait
		switch {
		case !finished && w.released:
			c.mu.Unlock()
			return errReleased
		case !finished && w.err != nil:
			c.mu.Unlock()
			return w.err
		case finished && (!mine || program || w.fast && w.failed != nil): // a failure is told at once, also without a cpu
			c.mu.Unlock()
			return nil
		case finished && w.direct && !back: // the agent does not know that it is
			back = true
			c.wait++
			m = &comms.CallWait{Run: r.ID, Wait: c.wait, Seen: c.seen}
		case !finished && !c.waiting && !c.closed && late == nil:
			c.waiting, c.owner = true, w
			c.wait++
			m = &comms.CallWait{Run: r.ID, Wait: c.wait, Seen: c.seen, N: 1}
			if len(c.waiters) == 1 && len(refs) > 0 {
				m.Refs, m.Seen, m.N = refs, 0, uint64(w.left+ended(c, refs))
			} else if len(c.waiters) == 1 && !w.collect && !w.direct {
				m.N = uint64(max(w.left, 1))
			}
			for o := range c.waiters {
				m.Outside = m.Outside || o.direct
			}
		}
		c.mu.Unlock()
		if m != nil {
			r.exec.out.send(m)
		}
		select {
		case <-w.wake:
		case <-late:
			late = nil
		case <-ctx.Done():
			return r.waitOver(ctx)
		case <-r.ctx.Done():
			return r.waitOver(ctx)
		}
	}
}

// waitOver tells why a wait is over whatever it waits for; nil when it is not.
func (r *run) waitOver(ctx context.Context) error {
	switch {
	case r.ctx.Err() != nil:
		return r.overErr()
	case ctx.Err() != nil:
		return context.Cause(ctx)
	}
	return nil
}

// waitsForCalls tells whether the run has given up its cpu.
func (r *run) waitsForCalls() bool {
	c := r.calls.Load()
	if c == nil {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.waiting
}

// ended counts those of some calls that have ended since a waiter named them. calls.mu is held.
func ended(c *calls, refs []comms.CallRef) (n int) {
	for _, ref := range refs {
		if s := c.find(ref); s == nil || s.end != nil {
			n++
		}
	}
	return n
}

// unblock ends a wait. Another goroutine that waits takes care of the cpu from now on. Without one, a wait that the agent
// has not answered is given up: the run wants its cpu, and goes on meanwhile.
func (r *run) unblock(w *waiter) {
	c := r.called()
	c.mu.Lock()
	delete(c.waiters, w)
	if c.owner == w {
		c.owner = nil
	}
	var m *comms.CallWait
	if c.waiting && len(c.waiters) == 0 && !c.closed && r.ctx.Err() == nil {
		c.waiting = false
		c.wait++
		m = &comms.CallWait{Run: r.ID, Wait: c.wait, Seen: c.seen}
	}
	c.wakeOne()
	c.mu.Unlock()
	if m != nil {
		r.exec.out.send(m)
	}
}

// wakeOne wakes a goroutine that waits, so that the run waits with it. mu is held.
func (c *calls) wakeOne() {
	if c.waiting {
		return
	}
	for w := range c.waiters {
		w.signal()
		return
	}
}

// callsEnded takes what became of calls. Executor.mu is held.
func (r *run) callsEnded(m *comms.CallEnds) error {
	c := r.called()
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range m.Ends {
		e := &m.Ends[i]
		c.seen++
		s := c.find(e.Ref)
		switch {
		case s == nil: // it was dropped
		case e.Read:
			if err := s.readEnded(e); err != nil {
				return err
			}
		case e.Element:
			if len(e.Outputs) != 1 || e.Outputs[0].Ref.Element != s.made() {
				return fmt.Errorf("an element of call %v is not its %d-th, or is not one dataset", e.Ref, s.made())
			}
			d := s.have()
			d.elements = append(d.elements, e.Outputs[0])
			for _, w := range s.sets {
				w.signal()
			}
		case s.end != nil:
			return fmt.Errorf("a second end of call %v of run %d", e.Ref, m.Run)
		default:
			c.open--
			c.end(s, e)
		}
	}
	return nil
}

// end notes how a call has ended. mu is held.
func (c *calls) end(s *callState, e *comms.CallEnd) {
	c.ended++
	s.end, s.order = e, c.ended
	for _, w := range s.sets {
		if w.collect {
			w.queue = append(w.queue, s)
		}
		if w.left--; e.Error != nil && w.failed == nil {
			w.failed = e.Error
		}
		if w.left <= 0 || w.fast && w.failed != nil || w.collect {
			w.signal()
		}
	}
	s.sets = nil
}

// readEnded takes a dataset that was brought into memory. calls.mu is held.
func (s *callState) readEnded(e *comms.CallEnd) error {
	if len(e.Outputs) != 1 {
		return fmt.Errorf("an answer with %d datasets, to what was read of call %v", len(e.Outputs), e.Ref)
	}
	k := readKey{e.Outputs[0].Ref.Output, e.Outputs[0].Ref.Element}
	rd := s.readOf(k)
	if rd == nil || rd.done {
		return nil // it was asked for twice
	}
	if rd.done, rd.err, rd.desc = true, e.Error, e.Outputs[0]; e.Error != nil {
		delete(s.data.reads, k) // it may be asked for again
	}
	for _, w := range rd.sets {
		w.signal()
	}
	return nil
}

// goOn ends a wait of the run: it has its cpu again. Executor.mu is held.
func (r *run) goOn(m *comms.CallGo) error {
	c := r.called()
	c.mu.Lock()
	defer c.mu.Unlock()
	if m.Wait > c.wait {
		return fmt.Errorf("run %d may go on from its wait %d, and waits for the %d-th time", m.Run, m.Wait, c.wait)
	}
	if m.Wait < c.wait {
		return nil // another wait has taken its place
	}
	if e := r.exec; !e.watched && e.session == nil {
		e.watched = true
		e.watch.Reset(sampleEvery)
	}
	if !c.waiting {
		return nil // it was given up, and the run has gone on
	}
	c.waiting = false
	if m.Error != nil {
		for w := range c.waiters {
			w.err = r.exec.reg.Wrap(m.Error)
			w.signal()
		}
		return nil
	}
	if c.owner != nil {
		c.owner.signal()
		return nil
	}
	c.wakeOne()
	return nil
}

// readyOf lists the calls that have ended, in that order; nil entries come first.
func readyOf(r *run, states []*callState) (ready []int) {
	if r != nil {
		c := r.called()
		c.mu.Lock()
		defer c.mu.Unlock()
	}
	for i, s := range states {
		if s == nil || s.end != nil {
			ready = append(ready, i)
		}
	}
	order := func(i int) uint64 {
		if states[i] == nil {
			return 0
		}
		return states[i].order
	}
	slices.SortStableFunc(ready, func(a, b int) int { return cmp.Compare(order(a), order(b)) })
	return ready
}
