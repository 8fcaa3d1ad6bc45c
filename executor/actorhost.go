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
	newest uint64                  // number of a link
	made   uint64                  // the greatest number of an actor that was made
	actors map[uint64]*hostedActor // nil: the run is to end
	lines  map[uint64]*actorLine   // by handle
	work   sync.WaitGroup          // goroutines that run methods
}

// hostedActor is an actor.
type hostedActor struct {
	host  *actorHost
	id    uint64
	class *Class
	name  string
	life  comms.ActorLife // as it was made
	self  any             // of the goroutine that runs its methods, and so are
	calls uint64          // those since its state was saved,
	bytes int             // and what their arguments take

	mu      sync.Mutex
	maker   *actorLine // of the task that has made it, which is told of its end also when the line has ended; nil: it is awaited
	shared  bool       // values refer to it,
	freed   bool       // or did
	lines   map[*actorLine]struct{}
	queue   []hostedCall
	running hostedCall // the call at hand; line nil: none
	busy    bool       // a goroutine runs calls
	told    bool       // its callers know that it has ended
	dead    *comms.TaskError
	ctx     context.Context // ends with the actor
	stop    context.CancelCauseFunc
	cut     context.CancelCauseFunc // of the call at hand
}

// hostedCall is a call that is not answered.
type hostedCall struct {
	line *actorLine
	comms.ActorCall
}

type methodKey struct{}

// methodRun is one call of a method, in its context.
type methodRun struct {
	exits atomic.Bool
	alone bool  // it makes no calls
	fault error // the state of the actor could not be saved behind it
}

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
		if comms.Try(r.Attempt) > 1 { // of an agent that is older than Stateful: what it was is lost
			yield(nil, fmt.Errorf("%w: its process has died, and its state with it", ErrActorDead))
			return
		}
		h := &actorHost{exec: r.exec, run: r, ctx: NotRepeatable(ctx), links: map[*comms.Link]*callerLink{},
			actors: map[uint64]*hostedActor{}, lines: map[uint64]*actorLine{}}
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
		r.actorHost.Store(h)
		if at, err := r.exec.reach(ctx, "", "", ""); err == nil { // else it is called from this host alone
			addr += " " + at
		}
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
	h.actors, h.lines = nil, nil
	h.mu.Unlock()
	for _, a := range all {
		a.stop(cause)
	}
}

// push queues a call. a.mu is held. It tells why there is none: the actor has ended.
func (a *hostedActor) push(c hostedCall) *comms.TaskError {
	if a.dead != nil {
		return a.dead
	}
	if c.Class != "" { // calls may have been awaiting it
		a.queue = slices.Insert(a.queue, 0, c)
	} else {
		a.queue = append(a.queue, c)
	}
	if !a.busy && a.maker != nil {
		a.busy = true
		a.host.work.Add(1)
		go a.drain()
	}
	return nil
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
			last := a.unused()
			if last && a.dead == nil {
				a.dead = a.deadErr("no handle of it is left")
			}
			over := a.dead != nil
			a.mu.Unlock()
			again = false
			if over {
				a.ended()
			}
			if last {
				a.host.forget(a)
			}
			return
		}
		c := a.queue[0]
		a.queue = a.queue[1:]
		a.running = c
		ctx, cut := context.WithCancelCause(a.ctx)
		a.cut = cut
		a.mu.Unlock()
		a.run(ctx, &c)
	}
}

// run runs one call and answers it.
func (a *hostedActor) run(ctx context.Context, it *hostedCall) {
	end, m, returned := comms.ActorEnd{Name: it.Name}, &methodRun{alone: a.life.Alone}, false
	ctx = context.WithValue(ctx, methodKey{}, m)
	defer func() {
		if !returned { // it has panicked, or has ended its goroutine
			p, stack := recover(), debug.Stack()
			end.Outputs, end.Error = nil, a.named(it, a.host.run.recovered(p, stack))
		}
		a.answer(it, &end, m)
	}()
	var err error
	if end.Outputs, err = a.perform(ctx, it); err != nil {
		end.Error = a.failure(ctx, it, err)
	}
	m.fault = a.save(it, &end)
	returned = true
}

// perform decodes the arguments, and calls the constructor or the method.
func (a *hostedActor) perform(ctx context.Context, it *hostedCall) ([]comms.Desc, error) {
	if it.Class != "" {
		in, err := a.arguments(a.class.Func, it.Args)
		if err != nil {
			return nil, err
		}
		if a.self, err = a.class.New(ctx, in); err == nil && a.life.State != nil {
			err = a.restore()
		}
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
func (a *hostedActor) failure(ctx context.Context, it *hostedCall, err error) *comms.TaskError {
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
func (a *hostedActor) named(it *hostedCall, t *comms.TaskError) *comms.TaskError {
	t.Task, t.LogTail = a.name, nil // the log is that of all actors of the process
	if it.Method != "" {
		t.Task += "." + it.Method
	}
	return t
}

// answer tells how a call has ended, and what follows from it for the actor.
func (a *hostedActor) answer(it *hostedCall, end *comms.ActorEnd, m *methodRun) {
	a.mu.Lock()
	a.cut(nil)
	a.running = hostedCall{}
	if a.dead != nil { // then the call was answered
		a.mu.Unlock()
		return
	}
	switch {
	case it.Class != "" && end.Error != nil:
		t := *end.Error
		t.Message = "the constructor failed: " + t.Message
		a.dead, end.Error = &t, &t
	case m.exits.Load():
		a.dead = a.deadErr("it has called ExitActor")
	case m.fault != nil:
		a.dead = a.deadErr(fmt.Sprintf("its state could not be saved behind a call of %s: %v", it.Method, m.fault))
	}
	var out answers
	out.add(it.line, end)
	if empty := len(a.queue) == 0; empty || a.dead != nil {
		out.now = true
	}
	a.failQueue(&out)
	a.mu.Unlock()
	out.flush()
}

// failQueue answers the calls that wait, when the actor is dead. a.mu is held.
func (a *hostedActor) failQueue(out *answers) {
	if a.dead == nil {
		return
	}
	for i := range a.queue {
		out.add(a.queue[i].line, &comms.ActorEnd{Name: a.queue[i].Name, Error: a.dead})
	}
	a.queue = nil
}

func (a *hostedActor) deadErr(why string) *comms.TaskError {
	return &comms.TaskError{Kind: comms.ErrorTask, Message: "the actor has ended: " + why, Codes: []string{comms.CodeActorDead},
		Agent: a.host.exec.welcome.Agent, Task: a.name}
}

// kill ends the actor at once.
func (a *hostedActor) kill(why string) {
	a.mu.Lock()
	if a.dead != nil {
		a.mu.Unlock()
		return
	}
	why = "it was killed: " + why
	a.dead = a.deadErr(why)
	out := answers{now: true}
	if a.running.line != nil {
		out.add(a.running.line, &comms.ActorEnd{Name: a.running.Name, Error: a.dead})
	}
	a.failQueue(&out)
	a.mu.Unlock()
	a.stop(&stopped{kind: comms.ErrorCancelled, text: why})
	out.flush()
	a.ended()
}

// leave ends a line. The actor ends behind the calls of its last.
func (a *hostedActor) leave(l *actorLine) {
	a.mu.Lock()
	delete(a.lines, l)
	a.endUnused()
}

// endUnused ends an actor that nothing uses, that runs no call and whose maker has told of it. a.mu is held, and is released.
func (a *hostedActor) endUnused() {
	over := a.maker != nil && a.unused() && !a.busy
	if over && a.dead == nil {
		a.dead = a.deadErr("no handle of it is left")
	}
	a.mu.Unlock()
	if over {
		a.ended()
		a.host.forget(a)
	}
}

// unused tells whether no handle of the actor is left, neither with a task nor in a value. a.mu is held.
func (a *hostedActor) unused() bool { return len(a.lines) == 0 && (!a.shared || a.freed) }

// share notes that values refer to the actor.
func (a *hostedActor) share() {
	a.mu.Lock()
	a.shared = true
	a.endUnused()
}

// free notes that no value refers to the actor any more. Its lines may go on.
func (a *hostedActor) free() {
	a.mu.Lock()
	a.freed = true
	a.endUnused()
}

// free takes word of the agent that no value refers to actors any more.
func (h *actorHost) free(m *comms.ActorFreed) {
	for _, id := range m.Actors {
		if a := h.told(id); a != nil {
			a.free()
		}
	}
}

// ended tells the callers that an actor has ended, which answers calls until no line of it is left.
func (a *hostedActor) ended() {
	a.stop(errors.New("the actor has ended"))
	a.mu.Lock()
	out := answers{now: true}
	if !a.told {
		for l := range a.lines {
			if l != a.maker {
				out.tell(l, comms.ActorEnd{Actor: a.id, Error: a.dead})
			}
		}
		if a.maker != nil {
			out.tell(a.maker, comms.ActorEnd{Actor: a.id, Error: a.dead})
		}
	}
	a.told = true
	a.mu.Unlock()
	out.flush()
}

// forget takes an actor out of which no handle is left.
func (h *actorHost) forget(a *hostedActor) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.actors, a.id)
}

// cancel ends a call.
func (a *hostedActor) cancel(n comms.ActorName, why string) {
	a.mu.Lock()
	if a.running.line != nil && a.running.Name == n {
		a.cut(&stopped{kind: comms.ErrorCancelled, text: why})
		a.mu.Unlock()
		return
	}
	out := answers{now: true}
	if i := slices.IndexFunc(a.queue, func(it hostedCall) bool { return it.Name == n && it.Class == "" }); i >= 0 {
		it := a.queue[i]
		a.queue = slices.Delete(slices.Clone(a.queue), i, i+1)
		out.add(it.line, &comms.ActorEnd{Name: n, Error: a.named(&it, a.host.run.taskError(comms.ErrorCancelled, why, nil))})
	}
	a.mu.Unlock()
	out.flush()
}
