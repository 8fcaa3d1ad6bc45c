package tune

import (
	"context"
	"errors"
	"sync"

	"github.com/cascade-run/cascade"
	"github.com/cascade-run/cascade/tune/core"
)

// pool keeps workers that have nothing to do for the next trials.
type pool struct {
	executor Executor
	mu       sync.Mutex
	idle     []Worker
}

func (p *pool) take(ctx context.Context) (Worker, error) {
	p.mu.Lock()
	if n := len(p.idle); n > 0 {
		w := p.idle[n-1]
		p.idle = p.idle[:n-1]
		p.mu.Unlock()
		return w, nil
	}
	p.mu.Unlock()
	return p.executor.Worker(ctx)
}

func (p *pool) put(w Worker) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.idle = append(p.idle, w)
}

func (p *pool) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, w := range p.idle {
		w.Close()
	}
	p.idle = nil
}

// attempts is the runner's side of one attempt: a goroutine that talks to its worker.
type attempts struct {
	commands  chan core.Action
	interrupt context.CancelFunc // of a batch that is waited for
}

// tell passes an action on. A nil receiver is an attempt that has ended.
func (r *attempts) tell(a core.Action) {
	if r == nil {
		return
	}
	if a.Kind == core.Stop || a.Kind == core.Complete {
		defer r.interrupt()
	}
	select {
	case r.commands <- a:
	default: // it has ended: one that lives reads what the core may have in flight
	}
}

// attempt starts an attempt.
func (x *Experiment) attempt(a core.Action) *attempts {
	ctx, interrupt := context.WithCancel(context.WithoutCancel(x.ctx))
	r := &attempts{make(chan core.Action, 8), interrupt}
	x.workers.Go(func() {
		defer interrupt()
		w, err := x.pool.take(ctx)
		if err != nil {
			x.exited(a, core.CauseError, err)
			return
		}
		if x.follow(ctx, a, w, r.commands) {
			x.pool.put(w)
		} else {
			w.Close()
		}
	})
	return r
}

func (x *Experiment) exited(a core.Action, cause string, err error) {
	e := core.Event{Kind: core.Exited, Trial: a.Trial, Attempt: a.Attempt, Cause: cause}
	if err != nil {
		e.Error = err.Error()
	}
	x.send(e)
}

// follow runs an attempt in a worker, and tells whether the worker can be used again.
func (x *Experiment) follow(ctx context.Context, a core.Action, w Worker, commands <-chan core.Action) bool {
	b, err := w.Start(ctx, Request{Trainable: x.tuner.Trainable, Folder: x.folder, Trial: a.Trial, Attempt: a.Attempt, Config: a.Config, From: a.From,
		Credit: *a.Credit, Reuse: x.tuner.Reuse})
	for {
		if ctx.Err() != nil { // it is to stop, and the batch does not count any more
			return x.stop(a, w)
		}
		if err != nil {
			x.exited(a, core.CauseError, lost(err))
			return false
		}
		if len(b.Results) > 0 || b.Cause == "" {
			x.send(core.Event{Kind: core.Reported, Trial: a.Trial, Attempt: a.Attempt, Seq: b.Seq, Results: b.Results, CanSave: b.CanSave, Waiting: b.Waiting, Done: b.Done})
		}
		if b.Cause != "" {
			usable := x.stopped(w) == nil
			x.exited(a, b.Cause, errors.New(b.Error))
			return usable
		}
		if !b.Waiting && !b.Done {
			b, err = w.Next(ctx, nil)
			continue
		}
		credit, more, usable := x.idle(ctx, a, w, commands)
		if !more {
			return usable
		}
		b, err = w.Next(ctx, credit)
	}
}

// idle carries out what the core decides for an attempt that waits, until it gives credit or ends the attempt.
func (x *Experiment) idle(ctx context.Context, a core.Action, w Worker, commands <-chan core.Action) (credit *core.Credit, more, usable bool) {
	for c := range commands {
		switch c.Kind {
		case core.Go:
			return c.Credit, true, true
		case core.Save:
			e := core.Event{Kind: core.Saved, Trial: a.Trial, Attempt: a.Attempt, Name: c.Name}
			if err := w.Save(ctx, c.Name); err != nil {
				e.Error = err.Error()
			}
			x.send(e)
		case core.Complete: // of a training that has ended
			return nil, false, x.stopped(w) == nil
		default:
			return nil, false, x.stop(a, w)
		}
	}
	return nil, false, false
}

// stopLimit is how long a worker has to stop an attempt. One that needs longer is given up: its host may be gone.
const stopLimit = 2 * stopGrace

// stopped ends an attempt, also when the experiment ends.
func (x *Experiment) stopped(w Worker) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(x.ctx), stopLimit)
	defer cancel()
	return w.Stop(ctx)
}

// stop ends an attempt because the core wants it.
func (x *Experiment) stop(a core.Action, w Worker) bool {
	err := x.stopped(w)
	if err != nil {
		x.log("%s: %v", core.TrialName(a.Trial), err)
	}
	x.exited(a, core.CauseStopped, nil)
	return err == nil
}

// lost says what the end of a worker means.
func lost(err error) error {
	if errors.Is(err, cascade.ErrActorDead) {
		return errors.Join(errors.New("the process of the trial has ended, by a crash or for want of memory"), err)
	}
	return err
}
