package executor

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/executor/value"
)

// A process with actors is a run that lasts as long as its parent. It needs no cpu while it waits, as any run that waits
// for calls; methods run beside that, each actor's one after another, actors beside each other.
//
//	ActorCalls ──▶ hostedActor.queue ──▶ drain: one goroutine an actor, while it has calls ──▶ ActorEnds

// actorHost is such a run.
type actorHost struct {
	exec *Executor
	run  *run
	ctx  context.Context

	mu     sync.Mutex
	links  map[*comms.Link]*callerLink
	actors map[actorKey]*hostedActor // nil: the run is to end
	work   sync.WaitGroup            // goroutines that run methods
}

// actorKey names an actor: who makes it numbers it.
type actorKey struct {
	from *callerLink
	id   uint64
}

// hostedActor is an actor.
type hostedActor struct {
	host  *actorHost
	from  *callerLink
	id    uint64
	class *Class
	name  string
	self  any // of the goroutine that runs its methods

	mu      sync.Mutex
	queue   []comms.ActorCall
	running uint64 // number of the call at hand; 0: none
	busy    bool   // a goroutine runs calls
	last    bool   // it ends when the queue is empty
	told    bool   // its creator knows that it has ended
	dead    *comms.TaskError
	ctx     context.Context // ends with the actor
	stop    context.CancelCauseFunc
	cut     context.CancelCauseFunc // of the call at hand
}

type methodKey struct{}

// methodRun is one call of a method, in its context.
type methodRun struct{ exits atomic.Bool }

// ExitActor ends the actor whose method has ctx when that returns: the answer of this call counts, those behind it
// fail with ErrActorDead.
func ExitActor(ctx context.Context) error {
	m, _ := ctx.Value(methodKey{}).(*methodRun)
	if m == nil {
		return errors.New("exit: the context is not that of a method of an actor")
	}
	m.exits.Store(true)
	return nil
}

// serveActors yields the address of this process, and returns when the run is to end.
// keeps says that it does not release its core.
func serveActors(ctx context.Context, keeps bool) iter.Seq2[any, error] {
	return func(yield func(any, error) bool) {
		r, _ := ctx.Value(taskKey{}).(*run)
		if r == nil || r.exec.welcome.Scratch == "" {
			yield(nil, errors.New("actors need an agent"))
			return
		}
		if comms.Try(r.Attempt) > 1 { // what it was is lost
			yield(nil, fmt.Errorf("%w: its process has died, and its state with it", ErrActorDead))
			return
		}
		h := &actorHost{exec: r.exec, run: r, ctx: NotRepeatable(ctx), links: map[*comms.Link]*callerLink{}, actors: map[actorKey]*hostedActor{}}
		addr := "ipc://" + filepath.Join(r.exec.welcome.Scratch, "actors.sock")
		ln, err := comms.Listen(addr, actorLink(r.exec, fmt.Sprintf("actors-%d", os.Getpid()), h))
		if err != nil {
			yield(nil, fmt.Errorf("listen for callers of actors: %w", err))
			return
		}
		defer func() {
			h.end(context.Cause(ctx))
			if err := ln.Close(); err != nil && r.exec.ctx.Err() == nil {
				r.exec.cfg.Log.Warn().Err(err).Msg("close the socket of actors")
			}
			h.work.Wait()
		}()
		if !yield(addr, nil) {
			return
		}
		w := newWaiter()
		w.left = 1
		for !keeps && ctx.Err() == nil {
			if err := r.block(ctx, w, nil, func() bool { return false }); err != nil && ctx.Err() == nil {
				yield(nil, err) // the agent lets no more runs wait
				return
			}
		}
		<-ctx.Done()
	}
}

// end ends all actors: the run is to end.
func (h *actorHost) end(cause error) {
	h.mu.Lock()
	all := make([]*hostedActor, 0, len(h.actors))
	for _, a := range h.actors {
		all = append(all, a)
	}
	h.actors = nil
	h.mu.Unlock()
	for _, a := range all {
		a.stop(cause)
	}
}

// Up implements comms.Handler.
func (h *actorHost) Up(*comms.Link, comms.Identity, bool) {}

// caller returns what is known of a link.
func (h *actorHost) caller(link *comms.Link) *callerLink {
	h.mu.Lock()
	defer h.mu.Unlock()
	l := h.links[link]
	if l == nil {
		l = &callerLink{host: h, link: link, room: make(chan struct{}, 1)}
		l.timer = time.AfterFunc(time.Hour, l.late)
		l.timer.Stop()
		h.links[link] = l
	}
	return l
}

// Message implements comms.Handler.
func (h *actorHost) Message(link *comms.Link, head, _ []byte) {
	l := h.caller(link)
	m, err := comms.Decode(head)
	if err != nil {
		link.Abort(err)
		return
	}
	switch m := m.(type) {
	case *comms.ActorCalls:
		for i := range m.Items {
			if it := &m.Items[i]; it.Class != "" {
				h.make(l, it)
			} else {
				h.call(l, it)
			}
		}
	case *comms.ActorDrop:
		for _, id := range m.Actors {
			if a := h.actor(l, id); a != nil {
				a.drop(m)
			}
		}
		for _, n := range m.Calls {
			h.cancel(l, n, m.Why)
		}
	default:
		link.Abort(fmt.Errorf("%w: a caller of actors sent %T", ErrProtocol, m))
	}
}

// Credit implements comms.Handler.
func (h *actorHost) Credit(link *comms.Link) {
	select {
	case h.caller(link).room <- struct{}{}:
	default:
	}
}

// Down implements comms.Handler. The actors of a caller that is gone end.
func (h *actorHost) Down(link *comms.Link, err error) {
	h.mu.Lock()
	l := h.links[link]
	delete(h.links, link)
	var all []*hostedActor
	for k, a := range h.actors {
		if k.from == l {
			all = append(all, a)
			delete(h.actors, k)
		}
	}
	h.mu.Unlock()
	if l != nil {
		l.timer.Stop()
	}
	for _, a := range all {
		a.stop(fmt.Errorf("who has made the actor is gone: %w", err))
	}
}

func (h *actorHost) actor(l *callerLink, id uint64) *hostedActor {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.actors[actorKey{l, id}]
}

// make makes an actor: its constructor is the first of its calls.
func (h *actorHost) make(l *callerLink, it *comms.ActorCall) {
	a := &hostedActor{host: h, from: l, id: it.Actor, class: h.exec.reg.class(it.Class), name: fmt.Sprintf("%s#%d", it.Class, it.Actor)}
	a.ctx, a.stop = context.WithCancelCause(h.ctx)
	h.mu.Lock()
	over := h.actors == nil
	if !over {
		h.actors[actorKey{l, it.Actor}] = a
	}
	h.mu.Unlock()
	if over {
		return // the link ends
	}
	if a.class == nil {
		a.dead = &comms.TaskError{Kind: comms.ErrorSetup, Agent: h.exec.welcome.Agent, Task: a.name,
			Message: fmt.Sprintf("actor %q is not registered in the program that was to run it: is it another version?", it.Class)}
		l.add(comms.ActorEnd{Number: it.Number, Error: a.dead})
		l.add(comms.ActorEnd{Actor: a.id, Error: a.dead})
		l.flush()
		return
	}
	a.push(it)
}

// call takes a call of a method.
func (h *actorHost) call(l *callerLink, it *comms.ActorCall) {
	if a := h.actor(l, it.Actor); a != nil {
		a.push(it)
		return
	}
	l.link.Abort(fmt.Errorf("%w: call %d is of actor %d, which was not made or has no handle", ErrProtocol, it.Number, it.Actor))
}

// cancel ends a call.
func (h *actorHost) cancel(l *callerLink, number uint64, why string) {
	h.mu.Lock()
	var all []*hostedActor
	for k, a := range h.actors {
		if k.from == l {
			all = append(all, a)
		}
	}
	h.mu.Unlock()
	for _, a := range all {
		if a.cancel(number, why) {
			return
		}
	}
}

// push queues a call.
func (a *hostedActor) push(it *comms.ActorCall) {
	a.mu.Lock()
	dead := a.dead
	if dead == nil {
		a.queue = append(a.queue, *it)
		if !a.busy {
			a.busy = true
			a.host.work.Add(1)
			go a.drain()
		}
	}
	a.mu.Unlock()
	if dead != nil {
		a.from.add(comms.ActorEnd{Number: it.Number, Error: dead})
		a.from.flush()
	}
}

// drain runs calls until there is none.
func (a *hostedActor) drain() {
	again := true // a method that ends this goroutine needs another for the calls behind it
	defer func() {
		if again {
			a.host.work.Add(1)
			go a.drain()
		}
		a.host.work.Done()
	}()
	debug.SetPanicOnFault(true)
	for {
		a.mu.Lock()
		if len(a.queue) == 0 || a.dead != nil {
			a.busy, a.queue = false, nil
			if a.last && a.dead == nil {
				a.dead = a.deadErr("no handle of it is left")
			}
			over, last := a.dead != nil, a.last
			a.mu.Unlock()
			again = false
			if over {
				a.ended()
			}
			if last {
				a.host.forget(a)
			}
			a.from.flush()
			return
		}
		it := a.queue[0]
		a.queue = a.queue[1:]
		a.running = it.Number
		ctx, cut := context.WithCancelCause(a.ctx)
		a.cut = cut
		a.mu.Unlock()
		a.run(ctx, &it)
	}
}

// run runs one call and answers it.
func (a *hostedActor) run(ctx context.Context, it *comms.ActorCall) {
	end, m, returned := comms.ActorEnd{Number: it.Number}, &methodRun{}, false
	ctx = context.WithValue(ctx, methodKey{}, m)
	defer func() {
		if !returned { // it has panicked, or has ended its goroutine
			p, stack := recover(), debug.Stack()
			end.Outputs, end.Error = nil, a.named(it, a.host.run.recovered(p, stack))
		}
		a.answer(ctx, it, &end, m.exits.Load())
	}()
	var err error
	if end.Outputs, err = a.perform(ctx, it); err != nil {
		end.Error = a.failure(ctx, it, err)
	}
	returned = true
}

// perform decodes the arguments, and calls the constructor or the method.
func (a *hostedActor) perform(ctx context.Context, it *comms.ActorCall) ([]comms.Desc, error) {
	if it.Class != "" {
		in, err := a.arguments(a.class.Func, it.Args)
		if err != nil {
			return nil, err
		}
		a.self, err = a.class.New(ctx, in)
		return nil, err
	}
	m := a.class.method(it.Method)
	if m == nil {
		return nil, &kindError{comms.ErrorSetup, fmt.Errorf("actor %s has no method %q in the program that runs it: is it another version?", a.class.Name, it.Method)}
	}
	in, err := a.arguments(m.Func, it.Args)
	if err != nil {
		return nil, err
	}
	out := make([]any, len(m.Outputs))
	if err := m.Run(ctx, a.self, in, out); err != nil {
		return nil, err
	}
	descs := make([]comms.Desc, len(out))
	for i, v := range out {
		codec, err := a.host.exec.reg.Codecs.For(m.Outputs[i].Type)
		if err != nil {
			return nil, err
		}
		f, err := codec.Encode(v)
		if err != nil {
			return nil, fmt.Errorf("output %q: %w", m.Outputs[i].Name, err)
		}
		if f.References != nil {
			return nil, fmt.Errorf("output %q: %w", m.Outputs[i].Name, errActorReference)
		}
		if len(f.Bytes) > mostActorCall {
			return nil, fmt.Errorf("output %q takes %d bytes, and a method may return %d", m.Outputs[i].Name, len(f.Bytes), mostActorCall)
		}
		if codec.Aliases() {
			f.Bytes = slices.Clone(f.Bytes) // the next call may change it before the message leaves
		}
		descs[i] = inlineOf(f)
	}
	return descs, nil
}

func (a *hostedActor) arguments(f *Func, args []comms.Desc) ([]any, error) {
	if len(args) != f.paramCount() {
		return nil, &kindError{comms.ErrorSetup, fmt.Errorf("it was called with %d arguments and takes %d: the two programs differ", len(args), f.paramCount())}
	}
	in := make([]any, len(args))
	for i := range args {
		d := &args[i]
		codec, err := a.host.exec.reg.Codecs.For(f.param(i).Type)
		if err == nil {
			in[i], err = codec.Decode(value.Flat{Codec: d.Codec, DType: d.DType, Shape: d.Shape, Bytes: d.Place.Bytes})
		}
		if err != nil {
			return nil, &kindError{comms.ErrorInput, fmt.Errorf("argument %s: %w", f.param(i).Name, err)}
		}
	}
	return in, nil
}

// failure is the error that a call has ended with.
func (a *hostedActor) failure(ctx context.Context, it *comms.ActorCall, err error) *comms.TaskError {
	var why *stopped
	if errors.As(context.Cause(ctx), &why) && ctx.Err() != nil {
		return a.named(it, a.host.run.taskError(why.kind, why.text, nil))
	}
	kind := comms.ErrorTask
	var known *kindError
	if errors.As(err, &known) {
		kind = known.kind
	}
	return a.named(it, a.host.run.taskError(kind, err.Error(), a.host.exec.reg.codesOf(err)))
}

// named says which call an error is of.
func (a *hostedActor) named(it *comms.ActorCall, t *comms.TaskError) *comms.TaskError {
	t.Task, t.LogTail = a.name, nil // the log is that of all actors of the process
	if it.Method != "" {
		t.Task += "." + it.Method
	}
	return t
}

// answer tells how a call has ended, and what follows from it for the actor.
func (a *hostedActor) answer(ctx context.Context, it *comms.ActorCall, end *comms.ActorEnd, exits bool) {
	a.mu.Lock()
	a.cut(nil)
	a.running = 0
	killed := a.dead != nil // then the call was answered
	switch {
	case killed:
	case it.Class != "" && end.Error != nil:
		t := *end.Error
		t.Message = "the constructor failed: " + t.Message
		a.dead, end.Error = &t, &t
	case exits:
		a.dead = a.deadErr("it has called ExitActor")
	}
	dead, queue, empty := a.dead, a.queue, len(a.queue) == 0
	if dead != nil {
		a.queue = nil
	}
	a.mu.Unlock()
	if killed {
		return
	}
	l := a.from
	due := l.add(*end)
	if dead != nil {
		for i := range queue {
			l.add(comms.ActorEnd{Number: queue[i].Number, Error: dead})
		}
		due = true
	}
	if due || empty {
		l.flush()
	} else {
		l.arm()
	}
}

func (a *hostedActor) deadErr(why string) *comms.TaskError {
	return &comms.TaskError{Kind: comms.ErrorTask, Message: "the actor has ended: " + why, Codes: []string{comms.CodeActorDead},
		Agent: a.host.exec.welcome.Agent, Task: a.name}
}

// drop ends the actor: behind its calls, or at once.
func (a *hostedActor) drop(m *comms.ActorDrop) {
	a.mu.Lock()
	a.last = a.last || !m.Kill // no call of it follows
	if a.dead != nil || a.last && a.busy {
		over := a.last && !a.busy
		a.mu.Unlock()
		if over {
			a.host.forget(a)
		}
		return
	}
	why := m.Why
	if m.Kill {
		why = "it was killed: " + why
	}
	a.dead = a.deadErr(why)
	queue, running, dead := a.queue, a.running, a.dead
	a.queue = nil
	a.mu.Unlock()
	a.stop(&stopped{kind: comms.ErrorCancelled, text: why})
	if running != 0 {
		a.from.add(comms.ActorEnd{Number: running, Error: dead})
	}
	for i := range queue {
		a.from.add(comms.ActorEnd{Number: queue[i].Number, Error: dead})
	}
	a.ended()
	if !m.Kill {
		a.host.forget(a)
	}
	a.from.flush()
}

// ended tells the creator that an actor has ended, which answers calls until its handle is gone.
func (a *hostedActor) ended() {
	a.stop(errors.New("the actor has ended"))
	a.mu.Lock()
	told := a.told
	a.told = true
	a.mu.Unlock()
	if !told {
		a.from.add(comms.ActorEnd{Actor: a.id, Error: a.dead})
	}
}

// forget takes an actor out of which no handle is left.
func (h *actorHost) forget(a *hostedActor) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.actors, actorKey{a.from, a.id})
}

// cancel ends a call. It tells whether it is one of this actor.
func (a *hostedActor) cancel(number uint64, why string) bool {
	a.mu.Lock()
	if a.running == number {
		a.cut(&stopped{kind: comms.ErrorCancelled, text: why})
		a.mu.Unlock()
		return true
	}
	i := slices.IndexFunc(a.queue, func(it comms.ActorCall) bool { return it.Number == number && it.Class == "" })
	var it comms.ActorCall
	if i >= 0 {
		it = a.queue[i]
		a.queue = slices.Delete(slices.Clone(a.queue), i, i+1)
	}
	a.mu.Unlock()
	if i >= 0 {
		a.from.add(comms.ActorEnd{Number: number, Error: a.named(&it, a.host.run.taskError(comms.ErrorCancelled, why, nil))})
		a.from.flush()
	}
	return i >= 0
}
