package executor

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/executor/value"
	"github.com/cascade-run/cascade/internal/seqmap"
)

// actors is what a run has of actors.
type actors struct {
	run *run

	mu     sync.Mutex
	shared map[string]*actorProcess // of the actors without demands, by environment
	closed bool
	all    atomic.Pointer[[]*actorProcess] // read without mu: a call flushes them
}

// actorProcess is a process with actors, as the run has it that has called it. It is a call of the run: the agent starts
// it, and ends it with the run.
type actorProcess struct {
	of  *actors
	row *Call
	own bool // of one actor

	mu     sync.Mutex // never held while anything is waited for
	link   *comms.Link
	room   chan struct{}
	batch  []comms.ActorCall
	bytes  int // of it, about
	drops  []comms.ActorDrop
	lastID uint64 // of its actors
	last   uint64 // number of an item
	open   seqmap.Map[*actorCall]
	actors map[uint64]*actorState // that have not ended
	failed *comms.TaskError       // the process has ended
	armed  bool                   // the timer runs
	timer  *time.Timer

	sending sync.Mutex // held while a message goes out: it keeps the order
}

// actorsOf returns what a run has of actors.
func (r *run) actorsOf() *actors {
	c := r.called()
	if a := c.actors.Load(); a != nil {
		return a
	}
	c.actors.CompareAndSwap(nil, &actors{run: r, shared: map[string]*actorProcess{}})
	return c.actors.Load()
}

// process returns the process for an actor. The first needs one that is started.
func (a *actors) process(o ActorOptions) (*actorProcess, error) {
	own := o.own()
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return nil, a.run.overErr()
	}
	if p := a.shared[o.Environment]; p != nil && !own && !p.over() {
		return p, nil
	}
	fn, ok := a.run.exec.reg.Lookup(ActorsFunction)
	if !ok {
		return nil, errors.New("this program has no actors registered")
	}
	row := fn.Go(a.run.actorsContext(), CallOptions{Name: fmt.Sprintf("actors-try-%d", comms.Try(a.run.Attempt)), Resources: o.Resources,
		Environment: o.Environment, Here: true}, o.Resources.CPU > 0)
	if err := row.failed(); err != nil {
		return nil, err
	}
	p := &actorProcess{of: a, row: row, own: own, room: make(chan struct{}, 1), actors: map[uint64]*actorState{}}
	p.timer = time.AfterFunc(time.Hour, p.late)
	p.timer.Stop()
	if !own {
		a.shared[o.Environment] = p
	}
	all := append(slices.DeleteFunc(a.processes(), (*actorProcess).over), p)
	a.all.Store(&all)
	go p.connect()
	return p, nil
}

// actorsContext is for the calls of processes: their strand is of its own. A run that is tried again calls by the same
// numbers and another name, so that it meets none of the run before, and those end.
func (r *run) actorsContext() context.Context {
	c, id := r.called(), strandID(actorStrand, "processes")
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.strands[id]
	if s == nil {
		s = &strand{id: id}
		c.strands[id] = s
	}
	return context.WithValue(context.Context(r.ctx), strandKey{}, s)
}

// processes lists those that there are.
func (a *actors) processes() []*actorProcess {
	if all := a.all.Load(); all != nil {
		return slices.Clone(*all)
	}
	return nil
}

func (a *actors) flush() {
	if all := a.all.Load(); all != nil {
		for _, p := range *all {
			p.flush()
		}
	}
}

// close ends all links: the run is over.
func (a *actors) close() {
	a.mu.Lock()
	a.closed = true
	a.mu.Unlock()
	for _, p := range a.processes() {
		p.end(errReturned.Error(), nil)
	}
}

func (p *actorProcess) over() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.failed != nil
}

// newActor numbers an actor.
func (p *actorProcess) newActor(class string) *actorState {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lastID++
	a := &actorState{proc: p, id: p.lastID, name: fmt.Sprintf("%s#%d", class, p.lastID)}
	p.actors[a.id] = a
	return a
}

// connect waits for the address of the process, which is the first element of its stream.
func (p *actorProcess) connect() {
	r, s := p.of.run, p.row.state
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
			if err := p.dial(first); err != nil {
				p.end(err.Error(), nil)
			}
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

func (p *actorProcess) dial(d *comms.Desc) error {
	e := p.of.run.exec
	codec, err := e.reg.Codecs.For(reflect.TypeFor[string]())
	if err != nil {
		return err
	}
	v, err := codec.Decode(value.Flat{Codec: d.Codec, DType: d.DType, Shape: d.Shape, Bytes: d.Place.Bytes})
	if err != nil {
		return fmt.Errorf("read the address of its process: %w", err)
	}
	ctx, cancel := context.WithTimeout(e.ctx, dialTimeout)
	defer cancel()
	link, err := comms.Dial(ctx, As[string](v), actorLink(e, fmt.Sprintf("caller-%d-%d-%x", os.Getpid(), p.of.run.ID, time.Now().UnixNano()), p))
	if err != nil {
		return fmt.Errorf("connect to its process: %w", err)
	}
	p.mu.Lock()
	over := p.failed != nil
	p.link = link
	p.mu.Unlock()
	if over {
		link.Abort(errReturned)
		return nil
	}
	p.flush()
	return nil
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
	why := p.failed
	if why == nil {
		why = m.actor.dead
	}
	if why != nil || m.state != nil && m.ended() {
		p.mu.Unlock()
		if why != nil && m.state != nil {
			m.end(&comms.CallEnd{Error: why})
		}
		return false
	}
	p.last++
	m.item.Number = p.last
	due = p.open.Len() == 0
	p.open.Set(p.last, m)
	p.batch = append(p.batch, m.item)
	p.bytes += m.item.Size()
	m.item.Args = nil
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
	link, batch, drops := p.link, p.batch, p.drops
	if link == nil || p.failed != nil || len(batch)+len(drops) == 0 {
		p.mu.Unlock()
		return
	}
	p.batch, p.bytes, p.drops = nil, 0, nil
	p.mu.Unlock()
	var err error
	for len(batch) > 0 && err == nil {
		n, size := 0, 0
		for ; n < len(batch) && (n == 0 || size < mostBytes); n++ {
			size += batch[n].Size()
		}
		err = deliver(link, p.room, link.Send, &comms.ActorCalls{Items: batch[:n]})
		batch = batch[n:]
	}
	for i := range drops {
		if err == nil {
			err = deliver(link, p.room, link.Send, &drops[i])
		}
	}
	if err != nil && !errors.Is(err, comms.ErrClosed) { // else Down tells
		link.Abort(err)
		p.end(err.Error(), nil)
	}
}

// drop ends actors, behind the calls that were made.
func (p *actorProcess) drop(d comms.ActorDrop) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.drops = append(p.drops, d)
	p.arm()
}

// cancel ends a call: at once where it has not left, else when its process says so.
func (p *actorProcess) cancel(m *actorCall, why string) {
	m.actor.mu.Lock()
	waits := slices.Contains(m.actor.waiting, m)
	m.actor.mu.Unlock()
	if waits {
		m.end(&comms.CallEnd{Error: &comms.TaskError{Kind: comms.ErrorCancelled, Message: why, Task: m.name()}})
		return
	}
	p.drop(comms.ActorDrop{Calls: []uint64{m.item.Number}, Why: why})
	p.flush()
}

// died notes that an actor has ended. Its later calls fail with the cause.
func (p *actorProcess) died(id uint64, why *comms.TaskError) {
	p.mu.Lock()
	if a := p.actors[id]; a != nil {
		a.dead = why
		delete(p.actors, id)
	}
	p.mu.Unlock()
	if p.own {
		Cancel("its actor has ended", &p.row.first)
	}
}

// end ends all that is open: the process has ended, or cannot be had.
func (p *actorProcess) end(text string, cause *comms.TaskError) {
	e := p.of.run.exec
	t := &comms.TaskError{Kind: comms.ErrorCrash, Message: "the actor has ended: " + text, Codes: []string{comms.CodeActorDead}, Agent: e.welcome.Agent, Task: ActorsFunction}
	if cause != nil {
		t.Kind, t.Codes = cause.Kind, append(slices.Clone(cause.Codes), comms.CodeActorDead)
	}
	p.mu.Lock()
	if p.failed != nil {
		p.mu.Unlock()
		return
	}
	p.failed = t
	p.timer.Stop()
	link := p.link
	open := maps.Collect(p.open.All())
	p.open, p.batch, p.drops = seqmap.Map[*actorCall]{}, nil, nil
	p.mu.Unlock()
	for _, n := range slices.Sorted(maps.Keys(open)) {
		if m := open[n]; m.state != nil {
			m.end(&comms.CallEnd{Error: t})
		}
	}
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
	if e.Number == 0 {
		why := e.Error
		if why == nil {
			why = &comms.TaskError{Kind: comms.ErrorTask, Message: "the actor has ended", Codes: []string{comms.CodeActorDead}}
		}
		p.died(e.Actor, why)
		return
	}
	p.mu.Lock()
	m := p.open.Get(e.Number)
	p.open.Delete(e.Number)
	p.mu.Unlock()
	if m == nil || m.state == nil {
		return
	}
	end := &comms.CallEnd{Outputs: e.Outputs, Error: e.Error}
	for i := range end.Outputs {
		end.Outputs[i].Ref = comms.DatasetRef{Output: uint32(i)}
	}
	m.end(end)
}

// Credit implements comms.Handler.
func (p *actorProcess) Credit(*comms.Link) {
	select {
	case p.room <- struct{}{}:
	default:
	}
}

// Down implements comms.Handler.
func (p *actorProcess) Down(_ *comms.Link, err error) {
	p.end("its process has ended, or broke the link: "+err.Error(), nil)
}
