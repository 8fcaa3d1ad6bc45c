package executor

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"runtime"
	"slices"

	"github.com/vmihailenco/msgpack/v5"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/executor/value"
)

// A handle of an actor travels in values, as a future does. It refers to a stand-in: a value that the maker of the actor has
// put, and which refers to the process. A run that finds a handle has a line of calls of its own.
//
//	maker: handle in a value ──▶ standIn ──▶ Calls (a value with Actor) ──▶ agent       ──▶ process: Shared
//	finder: value ──▶ borrow of the stand-in ──first call──▶ borrow of the address ──▶ link ──▶ process
//	        the last handle here ──▶ its calls are answered ──▶ CallDrop      agent: the last of all ──▶ ActorFreed ──▶ process

// EncodeActor writes a handle within a value; nil is the zero Actor.
func EncodeActor(enc *msgpack.Encoder, a *Actor) error {
	switch {
	case a == nil:
		return enc.EncodeNil()
	case a.err != nil:
		return fmt.Errorf("the value has the handle of an actor that could not be made: %w", a.err)
	case a.local != nil:
		return errors.New("the value has the handle of an actor that was made outside a task or session")
	}
	s := a.state
	if s.lives.Restarts > 0 {
		return fmt.Errorf("the value has a handle of %s, which is restarted when its process dies: the task or session that has made it alone can call it; make it without Restarts, AtLeastOnce and ExactlyOnce to give it away", s.name)
	}
	err := enc.EncodeArrayLen(5)
	for _, v := range []any{a.class.Name, s.id, s.proc.id, s.proc.agent} {
		if err == nil {
			err = enc.Encode(v)
		}
	}
	if err != nil {
		return err
	}
	return value.EncodeRef(enc, a)
}

// DecodeActor reads a handle within a value, of an actor that is a t.
func DecodeActor(dec *msgpack.Decoder, t reflect.Type) (*Actor, error) {
	if code, err := dec.PeekCode(); err != nil {
		return nil, err
	} else if code == 0xc0 {
		return nil, dec.DecodeNil()
	}
	n, err := dec.DecodeArrayLen()
	if err != nil {
		return nil, err
	}
	if n != 5 {
		return nil, fmt.Errorf("a list of %d items is no handle of an actor", n)
	}
	var class, agent string
	var id, process uint64
	if err := dec.DecodeMulti(&class, &id, &process, &agent); err != nil {
		return nil, fmt.Errorf("read a handle of an actor: %w", err)
	}
	v, err := value.DecodeRef(dec, reflect.TypeFor[string]())
	if err != nil {
		return nil, err
	}
	f, _ := v.(*Future)
	if f == nil {
		return nil, errors.New("a handle of an actor refers to nothing")
	}
	if f.known != nil {
		return &Actor{err: f.known.err}, nil
	}
	r := f.call.state.run
	c := r.exec.reg.class(class)
	switch {
	case c == nil:
		return nil, fmt.Errorf("a handle of actor %q was found, which is not registered in this program: is it another version?", class)
	case c.Outputs[0].Type != reflect.PointerTo(t):
		return nil, fmt.Errorf("a handle of actor %q was found, which is %v: want one of a *%v", class, c.Outputs[0].Type, t)
	}
	return r.found(c, id, process, agent, f), nil
}

// found makes the handle that was found in a value.
func (r *run) found(c *Class, id, process uint64, agent string, standIn *Future) *Actor {
	of := r.actorsOf()
	of.mu.Lock()
	defer of.mu.Unlock()
	var s *actorState
	for _, p := range of.processes() {
		if s == nil && p.id == process {
			s = p.newLine(id, c.Name, standIn)
		}
	}
	if s == nil {
		p := newActorProcess(of, process, agent)
		s = p.newLine(id, c.Name, standIn)
		of.add(p)
	}
	a := &Actor{class: c, state: s}
	runtime.AddCleanup(a, (*actorState).drop, s)
	return a
}

// newLine begins a line of calls of a handle that was found; nil when the process has ended.
func (p *actorProcess) newLine(id uint64, class string, standIn *Future) *actorState {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.failed != nil {
		return nil
	}
	a := &actorState{proc: p, id: id, handle: rand.Uint64() | 1, name: fmt.Sprintf("%s#%d", class, id), found: standIn, hold: standIn.call.state}
	p.lines[a.handle] = a
	return a
}

// sharedStrand names the strand of the values that stand for actors.
var sharedStrand = strandID(actorStrand, "shared")

// reference names what a handle in a value refers to, as the agent knows it.
func (a *Actor) reference(r *run) (comms.Reference, error) {
	s := a.state
	if s.proc.of.run != r {
		return comms.Reference{}, fmt.Errorf("a handle of %s in it is of another task or session: return it from there, or pass it as an argument", s.name)
	}
	s.proc.mu.Lock()
	defer s.proc.mu.Unlock()
	if s.hold == nil {
		if err := s.standIn(); err != nil {
			return comms.Reference{}, err
		}
	}
	return comms.Reference{Ref: s.hold.ref}, nil
}

// standIn puts the value that stands for an actor, and tells its process that it goes on without a line. actorProcess.mu is held.
func (a *actorState) standIn() error {
	p, r := a.proc, a.proc.of.run
	d, _, err := r.inlineDesc(reflect.TypeFor[string](), a.name)
	if err != nil {
		return fmt.Errorf("put what stands for %s: %w", a.name, err)
	}
	c := r.called()
	c.mu.Lock()
	s := c.strands[sharedStrand]
	if s == nil {
		s = &strand{id: sharedStrand}
		c.strands[sharedStrand] = s
	}
	a.hold = &callState{run: r, ref: comms.CallRef{Strand: s.id, Number: s.next}, put: true, data: &callData{value: a.name}}
	s.calls.Set(s.next, a.hold)
	s.next++
	c.batch.Once = true // another run of the task would make other actors
	c.batch.Refs = append(c.batch.Refs, comms.ItemRefs{Item: uint32(len(c.batch.Items)), Refs: []comms.Reference{{Ref: p.row.state.ref}}})
	c.batch.Items = append(c.batch.Items, comms.CallItem{Ref: a.hold.ref, Inputs: []comms.CallInput{{Data: d}}, Actor: a.id})
	c.bytes += 128
	c.arm()
	c.mu.Unlock()
	p.shared = true
	if p.failed == nil {
		p.drops = append(p.drops, a.goesOn())
		p.arm()
	}
	return nil
}

// goesOn tells the process that values refer to an actor.
func (a *actorState) goesOn() comms.ActorDrop {
	return comms.ActorDrop{Shared: []uint64{a.id}, Why: "values refer to it"}
}

// ends forgets a line whose handle is gone and whose calls are answered, and ends its hold on the actor. It is false when the
// line goes on. actorProcess.mu is held.
func (p *actorProcess) ends(a *actorState) bool {
	if !a.left || a.open.Len() > 0 || p.seeker == a {
		return false
	}
	delete(p.lines, a.handle)
	if a.hold != nil {
		a.hold.drop()
	}
	a.found = nil
	return true
}

// seek has the process of another run looked for, when something is to be sent to it. actorProcess.mu is held.
func (p *actorProcess) seek() {
	if p.row != nil || p.sought {
		return
	}
	for _, a := range p.lines {
		if a.found != nil {
			p.sought, p.seeker = true, a
			go func() {
				p.reach(a.found)
				p.mu.Lock()
				p.seeker = nil
				p.ends(a)
				p.arm() // that was the last perhaps
				p.mu.Unlock()
			}()
			return
		}
	}
}

// reach finds the process of a handle that was found and is called, and connects to it.
func (p *actorProcess) reach(found *Future) {
	r := p.of.run
	lost := func(e *comms.TaskError) {
		text := "what its handle refers to is lost"
		if e != nil {
			text += ": " + e.Text()
		}
		p.end(text, e)
	}
	if end := r.awaitEnd(found.call.state); end == nil || end.Error != nil {
		lost(cmp.Or(end, &comms.CallEnd{}).Error)
		return
	}
	address := r.borrow(comms.CallInput{From: comms.FromCallValue, Ref: found.call.state.ref}, reflect.TypeFor[string]())
	if address.known != nil {
		p.end(address.known.err.Error(), nil)
		return
	}
	end := r.awaitEnd(address.call.state)
	runtime.KeepAlive(address)
	switch {
	case end == nil || end.Error != nil:
		lost(cmp.Or(end, &comms.CallEnd{}).Error)
	case len(end.Outputs) != 1 || end.Outputs[0].Place.Kind != comms.PlaceInline:
		p.end("the agent told no address of its process", nil)
	default:
		if err := p.address(&end.Outputs[0]); err != nil {
			p.end(err.Error(), nil)
			return
		}
		p.dial()
	}
}

// awaitEnd waits for the end of a call beside what the run does; nil: the run is over.
func (r *run) awaitEnd(s *callState) *comms.CallEnd {
	c, w := r.called(), newWaiter()
	c.mu.Lock()
	end := s.end
	if end == nil {
		w.left = 1
		s.sets = append(s.sets, w)
	}
	c.mu.Unlock()
	if end != nil {
		return end
	}
	select {
	case <-w.wake:
	case <-r.ctx.Done():
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return s.end
}

// linkActors waits, before a run ends, for those processes whose actors may go on without it: they learn of them, and of what was
// called, then.
func (r *run) linkActors() error {
	c := r.calls.Load()
	if c == nil {
		return nil
	}
	a := c.actors.Load()
	if a == nil {
		return nil
	}
	var wait []*actorProcess
	for _, p := range a.processes() {
		if p.isDue(r) {
			wait = append(wait, p)
		}
	}
	if len(wait) == 0 {
		return nil
	}
	w := newWaiter()
	w.left, w.direct = 1, true
	a.linked.Store(w)
	return r.block(r.ctx, w, nil, func() bool {
		return !slices.ContainsFunc(wait, func(p *actorProcess) bool { return !p.known.Load() })
	})
}

// isDue tells whether a process that was not linked to may go on when the run has ended, and is to learn of something: it
// is of another run, or a value has a handle of one of its actors, or the run may return one.
func (p *actorProcess) isDue(r *run) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.known.Load():
		return false
	case p.row == nil:
		return p.sought && len(p.batch)+len(p.drops) > 0
	case p.shared:
		return true
	}
	for _, a := range p.lines {
		if !a.left && len(r.kind.outputs) > 0 {
			return true
		}
	}
	return false
}

// noted tells a run that waits to end that a process was linked to, or has ended.
func (p *actorProcess) noted() {
	p.known.Store(true)
	if w := p.of.linked.Load(); w != nil {
		w.signal()
	}
}

// part ends the lines of a run that is over, at a process that may go on.
func (p *actorProcess) part() {
	p.mu.Lock()
	if p.failed != nil || p.link == nil || p.row != nil && !p.shared {
		p.mu.Unlock()
		p.end(errReturned.Error(), nil)
		return
	}
	for _, a := range p.lines {
		if !a.left && a.last > 0 {
			p.drops = append(p.drops, a.goodbye())
		}
	}
	p.mu.Unlock()
	p.flush()
	p.mu.Lock()
	link := p.link
	p.mu.Unlock()
	p.hangUp(link)
	p.end(errReturned.Error(), nil)
}

// rest lets go of a process of another run when no handle of its actors is left.
func (p *actorProcess) rest() {
	p.mu.Lock()
	idle := p.row == nil && p.failed == nil && len(p.lines)+len(p.batch)+len(p.drops) == 0 && (p.link != nil || !p.sought)
	link := p.link
	if idle {
		p.failed, p.parted = p.death("no handle of its actors is left here", nil), true
		p.timer.Stop()
	}
	p.mu.Unlock()
	if idle && link != nil {
		go p.hangUp(link)
	}
}

// hangUp closes a link when the process has all that was sent.
func (p *actorProcess) hangUp(link *comms.Link) {
	p.mu.Lock()
	p.parted = true
	p.mu.Unlock()
	if link == nil {
		return
	}
	if err := link.Close(); err != nil {
		p.of.run.exec.cfg.Log.Debug().Err(err).Msg("close the link to a process of actors")
	}
}
