package executor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/executor/value"
	"github.com/cascade-run/cascade/internal/backoff"
)

// actorProcess is a process with actors, as a run has it. It is a call of the run that makes actors: the agent starts
// it, and ends it with the run, or when no value refers to it any more.
type actorProcess struct {
	of      *actors
	id      uint64 // a random number by which runs know it that find handles
	agent   string // on whose host it is
	options ActorOptions
	own     bool        // of one actor
	known   atomic.Bool // it was linked to, or has ended

	mu     sync.Mutex  // never held while anything is waited for
	row    *Call       // a process that has died has another; nil of one that another run has called
	shared bool        // values refer to actors of it
	sought bool        // it is of another run, and its address was asked for
	seeker *actorState // by what this handle refers to, while that goes on
	parted bool        // the link ends
	unsent bool        // no link to it was up
	link   *comms.Link
	room   chan struct{}
	addr   string // "": not known yet
	// askedAt is where other agents ask for a way to it.
	askedAt string
	batch   []comms.ActorCall
	bytes   int // of it, about
	drops   []comms.ActorDrop
	got     map[*actorState]struct{} // of which answers have come since the last message
	gotten  int                      // bytes of them, about
	lastID  uint64                   // of its actors
	open    int                      // calls that are not answered
	lines   map[uint64]*actorState   // by handle
	failed  *comms.TaskError         // the process has ended
	armed   bool                     // the timer runs
	timer   *time.Timer

	sending sync.Mutex // held while a message goes out: it keeps the order
}

func newActorProcess(of *actors, id uint64, agent string) *actorProcess {
	p := &actorProcess{of: of, id: id, agent: agent, unsent: true, room: make(chan struct{}, 1), got: map[*actorState]struct{}{}, lines: map[uint64]*actorState{}}
	p.timer = time.AfterFunc(time.Hour, p.late)
	p.timer.Stop()
	return p
}

func (p *actorProcess) over() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.failed != nil
}

// newActor numbers an actor.
func (p *actorProcess) newActor(class string, life ActorLife) *actorState {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lastID++
	a := &actorState{proc: p, id: p.lastID, handle: rand.Uint64() | 1, name: fmt.Sprintf("%s#%d", class, p.lastID), lives: actorLives{ActorLife: life}}
	p.lines[a.handle] = a
	return a
}

// connect waits for the address of the process, which is the first element of its stream.
func (p *actorProcess) connect() {
	p.mu.Lock()
	r, s := p.of.run, p.row.state
	p.mu.Unlock()
	c, w := r.called(), newWaiter()
	c.mu.Lock()
	s.sets = append(s.sets, w)
	c.mu.Unlock()
	for {
		c.mu.Lock()
		end := s.end
		var first *comms.Desc
		if s.made() > 0 {
			first = &s.data.elements[0]
		}
		c.mu.Unlock()
		switch {
		case first != nil:
			if err := p.address(first); err != nil {
				p.end(err.Error(), nil)
			} else {
				p.dial()
			}
			return
		case end != nil && end.Error != nil && (end.Error.Kind == comms.ErrorCrash || end.Error.Kind == comms.ErrorMemory):
			p.fallen("its process did not start: "+end.Error.Text(), end.Error)
			return
		case end != nil && end.Error != nil:
			p.end("its process did not start: "+end.Error.Text(), end.Error)
			return
		case end != nil:
			p.end("its process has ended", nil)
			return
		}
		select {
		case <-w.wake:
		case <-r.ctx.Done():
			p.end(r.overErr().Error(), nil)
			return
		}
	}
}

// address notes at which address the process listens.
func (p *actorProcess) address(d *comms.Desc) error {
	codec, err := p.of.run.exec.reg.Codecs.For(reflect.TypeFor[string]())
	if err != nil {
		return err
	}
	v, err := codec.Decode(value.Flat{Codec: d.Codec, DType: d.DType, Shape: d.Shape, Bytes: d.Place.Bytes})
	if err != nil {
		return fmt.Errorf("read the address of its process: %w", err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.addr, p.askedAt, _ = strings.Cut(As[string](v), " ")
	return nil
}

// dial connects to the process. Calls that it has not answered on a link before are sent once more: it knows calls by their
// names, and answers those that it has run from what it keeps.
func (p *actorProcess) dial() {
	e := p.of.run.exec
	p.mu.Lock()
	addr, far := p.addr, p.agent != e.welcome.Agent
	p.mu.Unlock()
	cfg := actorLink(e, fmt.Sprintf("caller-%d-%d-%x", os.Getpid(), p.of.run.ID, time.Now().UnixNano()), p)
	var link *comms.Link
	var err error
	if far {
		link, err = p.dialFar(cfg)
	} else {
		ctx, cancel := context.WithTimeout(e.ctx, dialTimeout)
		defer cancel()
		link, err = comms.Dial(ctx, addr, cfg)
	}
	if err != nil {
		p.gone(err)
		return
	}
	p.mu.Lock()
	over := p.failed != nil
	if p.shared && !p.unsent { // a drop may be lost with the link before
		for _, a := range p.lines {
			if a.hold != nil && a.found == nil {
				p.drops = append(p.drops, a.goesOn())
			}
		}
	}
	p.link, p.unsent = link, false
	p.batch, p.bytes = p.unanswered(), 0
	for _, a := range p.lines {
		p.drops = append(p.drops, a.ends()...)
	}
	p.mu.Unlock()
	if over {
		link.Abort(errReturned)
		return
	}
	p.flush()
	p.noted()
}

// gone is what follows when no link to the process is made any more. The agent, whose child that was, tells how it ended.
func (p *actorProcess) gone(failed error) {
	p.mu.Lock()
	if p.row == nil { // how it has ended is told to the run that has called it
		p.mu.Unlock()
		p.fallen(fmt.Sprintf("connect to its process: %v", failed), nil)
		return
	}
	r, s := p.of.run, p.row.state
	p.mu.Unlock()
	c, w := r.called(), newWaiter()
	c.mu.Lock()
	if s.end == nil {
		s.sets = append(s.sets, w)
	} else {
		w.signal()
	}
	c.mu.Unlock()
	late := time.NewTimer(dialTimeout)
	defer late.Stop()
	select {
	case <-w.wake:
	case <-late.C:
	case <-r.ctx.Done():
	}
	c.mu.Lock()
	end := s.end
	c.mu.Unlock()
	if end == nil || end.Error == nil {
		p.fallen(fmt.Sprintf("connect to its process: %v", failed), nil)
		return
	}
	p.fallen(strings.Replace(end.Error.Message, "its executor", "its process", 1), end.Error)
}

// unanswered lists the calls that were made and have no answer, those of each handle in order. mu is held.
func (p *actorProcess) unanswered() []comms.ActorCall {
	all := make([]comms.ActorCall, 0, p.open)
	for _, a := range p.lines {
		from := len(all)
		for _, m := range a.open.All() {
			all = append(all, m.item)
		}
		slices.SortFunc(all[from:], func(a, b comms.ActorCall) int { return cmp.Compare(a.Name.Number, b.Name.Number) })
	}
	return all
}

// farGrace is how long a caller looks for a way to an actor on another host, whose agent may be silent for a moment. The agents
// themselves give each other up sooner, and with them what the handle holds.
const farGrace = 15 * time.Second

// featureFar is that of a caller on another host, whose link may break although it lives.
const featureFar = "far"

// dialFar connects to a process of another host, by way of the agents.
func (p *actorProcess) dialFar(cfg comms.Config) (*comms.Link, error) {
	e := p.of.run.exec
	ctx, cancel := context.WithTimeout(e.ctx, farGrace)
	defer cancel()
	p.mu.Lock()
	addr, at := p.addr, p.askedAt
	p.mu.Unlock()
	cfg.Pipes, cfg.Self.Features = false, []string{featureFar} // the agents carry bytes
	pause := backoff.Backoff{First: 50 * time.Millisecond, Longest: time.Second}
	for {
		door, err := e.reach(ctx, p.agent, at, addr)
		if err == nil {
			var link *comms.Link
			if link, err = comms.Dial(ctx, door, cfg); err == nil {
				return link, nil
			}
		}
		if errors.Is(err, errGone) || p.over() || !pause.Wait(ctx.Done()) {
			return nil, err
		}
	}
}

// actorLink is the configuration of a direct link. A process that is stopped goes on later; a dead one closes the socket.
func actorLink(e *Executor, name string, h comms.Handler) comms.Config {
	return comms.Config{
		Self:    comms.Identity{Role: "executor", Name: name, PID: os.Getpid(), Incarnation: uint64(time.Now().UnixNano()), Build: e.cfg.Build},
		Handler: h, Log: e.cfg.Log, MaxMessage: MaxMessage, Pipes: true, HeartbeatEvery: -1,
		QueueBytes: MaxMessage,
	}
}

// add puts a call into the batch. It tells whether that is due. The mutex of its actor is held.
func (p *actorProcess) add(m *actorCall) (due bool) {
	p.mu.Lock()
	why := cmp.Or(m.actor.dead, p.failed) // the actor's own end came first
	if why != nil || m.state != nil && m.ended() {
		p.mu.Unlock()
		if why != nil && m.state != nil {
			m.end(&comms.CallEnd{Error: m.failed(why)})
		}
		return false
	}
	a := m.actor
	a.last++
	m.item.Name = comms.ActorName{Handle: a.handle, Number: a.last}
	a.lives.sends(&m.item)
	due = p.open == 0
	p.open++
	a.open.Set(a.last, m)
	p.seek()
	p.batch = append(p.batch, m.item)
	p.bytes += m.item.Size()
	due = p.link != nil && (due || len(p.batch) >= mostBatch || p.bytes >= mostBytes)
	if !due {
		p.arm()
	}
	p.mu.Unlock()
	return due
}

// arm sees to it that the batch leaves soon. mu is held.
func (p *actorProcess) arm() {
	if !p.armed && p.link != nil {
		p.armed = true
		p.timer.Reset(batchAge)
	}
}

func (p *actorProcess) late() {
	p.mu.Lock()
	p.armed = false
	p.mu.Unlock()
	p.flush()
}

// flush sends the calls that were made, and then what is to end.
func (p *actorProcess) flush() {
	p.sending.Lock()
	defer p.sending.Unlock()
	p.mu.Lock()
	if len(p.drops) > 0 {
		p.seek()
	}
	link, batch, drops := p.link, p.batch, p.drops
	late := p.gotten >= mostBytes
	if link == nil || p.failed != nil || len(batch)+len(drops) == 0 && !late {
		p.mu.Unlock()
		p.rest()
		return
	}
	p.batch, p.bytes, p.drops, p.gotten = nil, 0, nil, 0
	m := comms.ActorCalls{}
	for a := range p.got {
		m.Got = append(m.Got, comms.ActorGot{Handle: a.handle, Through: a.through()})
	}
	clear(p.got)
	p.mu.Unlock()
	var err error
	for len(batch)+len(m.Got) > 0 && err == nil {
		n, size := 0, 0
		for ; n < len(batch) && (n == 0 || size < mostBytes); n++ {
			size += batch[n].Size()
		}
		m.Items = batch[:n]
		err = deliver(link, p.room, link.Send, &m)
		batch, m.Got = batch[n:], nil
	}
	for i := range drops {
		if err == nil {
			err = deliver(link, p.room, link.Send, &drops[i])
		}
	}
	if err != nil && !errors.Is(err, comms.ErrClosed) { // else Down tells
		link.Abort(err)
		p.end(err.Error(), nil)
		return
	}
	p.rest()
}

// leave ends a line of calls: no handle is left. An actor ends behind those of its last line.
func (p *actorProcess) leave(a *actorState) {
	defer p.rest()
	p.mu.Lock()
	defer p.mu.Unlock()
	a.left = true
	p.ends(a)
	delete(p.got, a)
	if a.last > 0 { // else the process knows nothing of the line
		p.drops = append(p.drops, a.goodbye())
		p.arm()
	}
}

// ends lists what a process is to end that knows nothing of it: the drops before went to one that is dead, or are lost with
// their link. mu of the process is held.
func (a *actorState) ends() (all []comms.ActorDrop) {
	for _, m := range a.open.All() {
		if m.cancelled != "" {
			all = append(all, m.goodbye())
		}
	}
	if a.killed != "" {
		all = append(all, comms.ActorDrop{Kill: []uint64{a.id}, Why: a.killed})
	}
	if a.left {
		all = append(all, a.goodbye())
	}
	return all
}

// goodbye tells the process that a call is cancelled.
func (m *actorCall) goodbye() comms.ActorDrop {
	return comms.ActorDrop{Calls: []comms.ActorName{m.item.Name}, Why: m.cancelled}
}

// goodbye tells the process that the actor ends behind the calls before.
func (a *actorState) goodbye() comms.ActorDrop {
	return comms.ActorDrop{Handles: []uint64{a.handle}, Why: "no handle of it is left"}
}

// cancel ends a call: at once where it has not left, else when its process says so.
func (p *actorProcess) cancel(m *actorCall, why string) {
	m.actor.mu.Lock()
	waits := slices.Contains(m.actor.waiting, m)
	m.actor.mu.Unlock()
	if waits || m.actor.lives.Delivery == ExactlyOnce { // one that has left runs, also when it runs again
		m.end(&comms.CallEnd{Error: &comms.TaskError{Kind: comms.ErrorCancelled, Message: why, Task: m.name()}})
		return
	}
	p.mu.Lock()
	m.cancelled = cmp.Or(why, "cancelled")
	p.drops = append(p.drops, m.goodbye())
	p.arm()
	p.mu.Unlock()
	p.flush()
}

// kill ends an actor at once. One whose process dies before it is told does not come back.
func (p *actorProcess) kill(a *actorState, why string) {
	p.mu.Lock()
	a.killed = cmp.Or(why, "killed")
	p.drops = append(p.drops, comms.ActorDrop{Kill: []uint64{a.id}, Why: why})
	p.arm()
	p.mu.Unlock()
	p.flush()
}

// died notes that an actor has ended. Its later calls fail with the cause.
func (p *actorProcess) died(id uint64, why *comms.TaskError) {
	p.mu.Lock()
	for _, a := range p.lines {
		if a.id == id {
			a.dead = why
		}
	}
	p.mu.Unlock()
	if p.own {
		p.mu.Lock()
		row := p.row
		p.mu.Unlock()
		Cancel("its actor has ended", &row.first)
	}
}

// end ends all that is open: the process has ended, or cannot be had.
func (p *actorProcess) end(text string, cause *comms.TaskError) {
	t := p.death(text, cause)
	p.mu.Lock()
	if p.failed != nil {
		p.mu.Unlock()
		return
	}
	p.failed = t
	p.timer.Stop()
	defer p.noted()
	link := p.link
	var open []*actorCall
	for _, a := range p.lines {
		open = append(open, a.takeOpen()...)
		p.ends(a)
	}
	p.open, p.batch, p.drops = 0, nil, nil
	p.mu.Unlock()
	finish(open, t)
	if link != nil {
		link.Abort(errors.New(text))
	}
}

var _ comms.Handler = (*actorProcess)(nil)

// Up implements comms.Handler.
func (p *actorProcess) Up(*comms.Link, comms.Identity, bool) {}

// Message implements comms.Handler.
func (p *actorProcess) Message(link *comms.Link, head, _ []byte) {
	got, err := comms.Decode(head)
	if err != nil {
		link.Abort(err)
		p.end(err.Error(), nil)
		return
	}
	m, ok := got.(*comms.ActorEnds)
	if !ok {
		err := fmt.Errorf("its process sent %T", got)
		link.Abort(err)
		p.end(err.Error(), nil)
		return
	}
	for i := range m.Ends {
		p.ended(&m.Ends[i])
	}
}

// ended takes what became of a call or an actor.
func (p *actorProcess) ended(e *comms.ActorEnd) {
	if e.Name == (comms.ActorName{}) {
		why := e.Error
		if why == nil {
			why = &comms.TaskError{Kind: comms.ErrorTask, Message: "the actor has ended", Codes: []string{comms.CodeActorDead}}
		}
		p.died(e.Actor, why)
		return
	}
	m := p.answered(e)
	if m == nil || m.state == nil {
		return
	}
	end := &comms.CallEnd{Outputs: e.Outputs, Error: e.Error}
	for i := range end.Outputs {
		end.Outputs[i].Ref = comms.DatasetRef{Output: uint32(i)}
	}
	m.end(end)
}

// answered takes the call of which an answer has come out of those that wait; nil: it does not.
func (p *actorProcess) answered(e *comms.ActorEnd) *actorCall {
	p.mu.Lock()
	defer p.mu.Unlock()
	a := p.lines[e.Name.Handle]
	if a == nil {
		return nil
	}
	if e.State != nil {
		a.lives.saved(e.Name.Number, e.State)
	}
	m := a.open.Get(e.Name.Number)
	if m == nil {
		return nil
	}
	a.open.Delete(e.Name.Number)
	p.open--
	if p.ends(a) {
		p.arm()
		return m
	}
	p.got[a] = struct{}{}
	if p.gotten += e.Size(); p.gotten >= mostBytes {
		p.arm()
	}
	return m
}

// Credit implements comms.Handler.
func (p *actorProcess) Credit(*comms.Link) {
	select {
	case p.room <- struct{}{}:
	default:
	}
}

// Down implements comms.Handler. A process that lives is linked to again.
func (p *actorProcess) Down(_ *comms.Link, err error) {
	p.mu.Lock()
	over := p.failed != nil || p.parted
	p.link = nil
	p.mu.Unlock()
	if !over {
		p.of.run.exec.cfg.Log.Debug().Err(err).Msg("the link to a process of actors broke")
		go p.dial()
	}
}
