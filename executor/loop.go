package executor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/cascade-run/cascade/comms"
)

// Config is what an Executor needs.
type Config struct {
	Conn     Conn
	Registry *Registry // nil means Default
	Token    string    // from the environment: which spawn this is
	Build    string    // version of the program
	PID      int
	Log      zerolog.Logger
}

// Errors that Run ends with.
var (
	// ErrLinkBroken says that the agent is gone; an executor never outlives its link.
	ErrLinkBroken = errors.New("link to the agent broke")
	// ErrProtocol says that the agent sent something that makes no sense.
	ErrProtocol = errors.New("agent broke the protocol")
)

// Executor runs tasks for one agent. Handle and Broken are called from the
// goroutine that reads the connection, Run from another.
type Executor struct {
	cfg    Config
	reg    *Registry
	out    *outbox
	ctx    context.Context // ends with the executor
	cancel context.CancelCauseFunc
	wake   chan struct{}
	limits limits

	mu      sync.Mutex
	welcome *comms.Welcome
	kinds   map[uint32]*kind
	queue   queue
	current *run
	last    bool // Stop came: end when the queue is empty
	live    liveValues
}

// New makes an executor; it does nothing before Run.
func New(cfg Config) *Executor {
	e := &Executor{cfg: cfg, reg: cmp.Or(cfg.Registry, Default), wake: make(chan struct{}, 1), kinds: map[uint32]*kind{}, live: newLiveValues()}
	e.ctx, e.cancel = context.WithCancelCause(context.Background())
	e.out = newOutbox(cfg.Conn, e.Broken)
	return e
}

// Run says Hello and runs what the agent dispatches. It returns nil after a
// Stop, else why the executor had to end. A function that ignores its context
// may still be running then: the caller should end the process.
func (e *Executor) Run() error {
	sigs, err := e.reg.Signatures()
	if err != nil {
		return fmt.Errorf("start executor: %w", err)
	}
	e.out.send(&comms.Hello{PID: int64(e.cfg.PID), Token: e.cfg.Token, Build: e.cfg.Build, Language: "go", Functions: sigs})
	var helpers sync.WaitGroup
	helpers.Go(func() { e.out.serve(e.ctx.Done()) })
	defer helpers.Wait()
	for {
		ended := make(chan bool, 1)
		go e.runner(ended)
		select {
		case goexit := <-ended:
			if goexit {
				continue // the function ended our goroutine: take another
			}
		case <-e.ctx.Done():
		}
		e.out.flush()
		e.cancel(nil)
		if err := context.Cause(e.ctx); !errors.Is(err, context.Canceled) {
			return err
		}
		return nil
	}
}

// Broken ends the executor because its connection did.
func (e *Executor) Broken(err error) { e.cancel(fmt.Errorf("%w: %w", ErrLinkBroken, err)) }

// Handle takes one message of the agent. It does not block, and keeps m.
func (e *Executor) Handle(m comms.Message) {
	if err := e.handle(m); err != nil {
		e.cancel(fmt.Errorf("%w: %w", ErrProtocol, err))
	}
}

func (e *Executor) handle(m comms.Message) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if w, ok := m.(*comms.Welcome); ok {
		e.welcome = w
		return nil
	}
	if e.welcome == nil {
		return fmt.Errorf("%T came before Welcome", m)
	}
	switch m := m.(type) {
	case *comms.Kind:
		e.kinds[m.ID] = e.reg.newKind(m)
	case *comms.Dispatch:
		return e.enqueue(m)
	case *comms.TakeBack:
		e.takeBack(m.Runs)
	case *comms.Cancel:
		e.cancelRun(m)
	case *comms.Credit:
		if e.current != nil && e.current.ID == m.Run {
			e.current.credit(m.Output, m.N)
		}
	case *comms.Stop:
		e.last = true
		if m.Now {
			e.cancel(nil)
		}
		e.signal()
	default:
		return fmt.Errorf("unexpected %T", m)
	}
	return nil
}

func (e *Executor) enqueue(m *comms.Dispatch) error {
	for i := range m.Runs {
		r := &run{Run: m.Runs[i], exec: e, kind: e.kinds[m.Runs[i].Kind]}
		if r.kind == nil {
			return fmt.Errorf("run %d is of kind %d, which was not announced", r.ID, r.Run.Kind)
		}
		e.queue.push(r)
		e.live.expect(r)
	}
	e.signal()
	return nil
}

func (e *Executor) signal() {
	select {
	case e.wake <- struct{}{}:
	default:
	}
}

// takeBack gives back the runs that have not started. The answer leaves from a
// goroutine of its own, as sending may wait.
func (e *Executor) takeBack(ids []comms.RunID) {
	back := &comms.TakenBack{}
	for _, id := range ids {
		if r := e.queue.remove(id); r != nil {
			back.Runs = append(back.Runs, id)
			e.live.forget(r)
		}
	}
	go e.out.send(back)
}

func (e *Executor) cancelRun(m *comms.Cancel) {
	if r := e.current; r != nil && r.ID == m.Run {
		r.stop(&stopped{kind: m.Why, text: m.Text, grace: time.Duration(m.Grace)})
		return
	}
	if r := e.queue.remove(m.Run); r != nil {
		e.live.forget(r)
		now := time.Now()
		e.out.add(comms.ReportItem{Kind: comms.ReportFailed, Run: r.ID, At: now.UnixNano(), Error: r.taskError(m.Why, m.Text, nil)}, now)
		e.out.hurry()
	}
}

// next returns the next run, or nil when the executor ends. It flushes before it waits.
func (e *Executor) next() *run {
	for {
		e.mu.Lock()
		if e.ctx.Err() != nil {
			e.mu.Unlock()
			return nil
		}
		if r := e.queue.pop(); r != nil {
			e.current = r
			e.mu.Unlock()
			return r
		}
		last := e.last
		e.mu.Unlock()
		e.out.flush()
		if last {
			return nil
		}
		select {
		case <-e.wake:
		case <-e.ctx.Done():
			return nil
		}
	}
}

// queue holds the runs that have not started, in order.
type queue struct {
	runs []*run
	head int
}

func (q *queue) push(r *run) { q.runs = append(q.runs, r) }

func (q *queue) pop() *run {
	if q.head == len(q.runs) {
		return nil
	}
	r := q.runs[q.head]
	q.runs[q.head] = nil
	if q.head++; q.head == len(q.runs) {
		q.runs, q.head = q.runs[:0], 0
	}
	return r
}

func (q *queue) remove(id comms.RunID) *run {
	i := slices.IndexFunc(q.runs[q.head:], func(r *run) bool { return r.ID == id })
	if i < 0 {
		return nil
	}
	r := q.runs[q.head+i]
	q.runs = slices.Delete(q.runs, q.head+i, q.head+i+1)
	return r
}
