package tune

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/cascade-run/cascade"
	"github.com/cascade-run/cascade/tune/core"
)

// Actors returns an executor whose workers are actors of the task or session of ctx, so many at once. Each has a process
// of its own, with one core unless opts ask for other resources, and runs trial after trial.
func Actors(ctx context.Context, slots int, opts ...cascade.ActorOption) Executor {
	if len(opts) == 0 {
		opts = []cascade.ActorOption{cascade.CPU(1)}
	}
	return &actors{ctx, slots, opts}
}

type actors struct {
	ctx   context.Context
	slots int
	opts  []cascade.ActorOption
}

func (a *actors) Slots() int { return a.slots }

func (a *actors) Worker(context.Context) (Worker, error) {
	return &actorWorker{a.ctx, actorClass.Spawn(a.ctx, a.opts...)}, nil
}

// hosted is the actor: a trainer in another process. Its messages are JSON.
type hosted struct{ trainer }

var (
	actorClass = cascade.Actor0("cascade-tune-worker", newHosted)
	actorStart = cascade.Method1(actorClass, "Start", (*hosted).begin, "request -> batch")
	actorNext  = cascade.Method1(actorClass, "Next", (*hosted).further, "credit -> batch")
	actorSave  = cascade.Method1x0(actorClass, "Save", (*hosted).store, "name ->")
	actorStop  = cascade.Method0x0(actorClass, "Stop", (*hosted).end, "->")
)

func newHosted(context.Context) (*hosted, error) { return &hosted{}, nil }

func (h *hosted) begin(ctx context.Context, request []byte) ([]byte, error) {
	var r Request
	if err := json.Unmarshal(request, &r); err != nil {
		return nil, fmt.Errorf("read the request: %w", err)
	}
	b, err := h.start(ctx, r)
	if err != nil {
		return nil, err
	}
	return json.Marshal(b)
}

func (h *hosted) further(ctx context.Context, credit []byte) ([]byte, error) {
	var c *core.Credit
	if err := json.Unmarshal(credit, &c); err != nil {
		return nil, fmt.Errorf("read the credit: %w", err)
	}
	b, err := h.next(ctx, c, false)
	if err != nil {
		return nil, err
	}
	return json.Marshal(b)
}

func (h *hosted) store(ctx context.Context, name string) error { return h.save(ctx, name) }

func (h *hosted) end(ctx context.Context) error { return h.stop(ctx, stopGrace) }

// actorWorker calls an actor.
type actorWorker struct {
	ctx   context.Context // of the task or session
	actor cascade.Actor[hosted]
}

// got waits for an answer. The end of ctx cancels the call, which the method sees; an actor that does not end it soon
// is not waited for.
func got[T any](ctx, session context.Context, f cascade.Future[T]) (T, error) {
	waited, cancel := context.WithCancel(session)
	defer cancel()
	defer context.AfterFunc(ctx, func() {
		f.Cancel("the trial is stopped")
		select {
		case <-time.After(stopGrace):
			cancel()
		case <-waited.Done():
		}
	})()
	return f.Get(waited)
}

func (w *actorWorker) batch(ctx context.Context, f cascade.Future[[]byte]) (b Batch, err error) {
	text, err := got(ctx, w.ctx, f)
	if err != nil {
		return b, err
	}
	return b, json.Unmarshal(text, &b)
}

func (w *actorWorker) Start(ctx context.Context, r Request) (Batch, error) {
	text, err := json.Marshal(r)
	if err != nil {
		return Batch{}, err
	}
	return w.batch(ctx, actorStart.Go(w.ctx, w.actor, cascade.Val(text)))
}

func (w *actorWorker) Next(ctx context.Context, credit *core.Credit) (Batch, error) {
	text, err := json.Marshal(credit)
	if err != nil {
		return Batch{}, err
	}
	return w.batch(ctx, actorNext.Go(w.ctx, w.actor, cascade.Val(text)))
}

func (w *actorWorker) Save(ctx context.Context, name string) error {
	_, err := got(ctx, w.ctx, actorSave.Go(w.ctx, w.actor, cascade.Val(name)))
	return err
}

func (w *actorWorker) Stop(ctx context.Context) error {
	_, err := got(ctx, w.ctx, actorStop.Go(w.ctx, w.actor))
	return err
}

func (w *actorWorker) Close() { w.actor.Kill("its experiment has ended") }
