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
	"github.com/cascade-run/cascade/executor/command"
)

// Config is what an Executor needs.
type Config struct {
	Conn     Conn
	Registry *Registry // nil means Default
	Token    string    // from the environment: which spawn this is
	Build    string    // version of the program
	PID      int
	Pipes    bool   // the agent takes a link through pipes
	Capture  bool   // what functions print becomes the log of their task; for processes that are executors only
	Words    string // folder of the pipes for that, which the agent holds too; "": they are our own
	Log      zerolog.Logger
}

const (
	startedAfter = 2 * time.Millisecond  // a run that takes longer is reported as started
	sampleEvery  = 25 * time.Millisecond // its memory is sampled this often
	sampleAge    = 5 * time.Millisecond  // and at its end, when the last sample is older: reading it takes longer than many runs
	lastWait     = time.Second           // for the run at hand when the executor must end
)

// Errors that Run ends with.
var (
	// ErrLinkBroken says that the agent is gone; an executor never outlives its link.
	ErrLinkBroken = errors.New("link to the agent broke")
	// ErrProtocol says that the agent sent something that makes no sense.
	ErrProtocol = errors.New("agent broke the protocol")
	// ErrTerminated says that the process got SIGTERM.
	ErrTerminated = errors.New("terminated")
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
	// The runner's: its clock of cpu time, and when the last run ended; zero when
	// it has waited since.
	cpu   cpuClock
	ended time.Time
	spent *run // has ended, and nothing else refers to it
	// The latest sample of private memory at the end of a run; also the runner's.
	sampled   uint64
	sampledAt time.Time
	left      leftover // what runs leave behind; the runner's too
	mem       memory
	blobs     blobs
	reaches   reaches
	watch     *time.Timer // looks at runs that take their time
	starter   command.Starter
	capture   capture
	state     *state // what functions share; the runner's
	// A program that runs the task of a session is an executor too.
	session *Session    // nil in a process of the agent's
	job     comms.JobID // with session: which

	mu      sync.Mutex
	welcome *comms.Welcome
	kinds   map[uint32]*kind
	usual   map[string]*kind // by function: one that can run, which the next is probably like
	queue   queue
	current *run
	last    bool // Stop came: end when the queue is empty
	watched bool // watch is set
	live    liveValues
}

// New makes an executor; it does nothing before Run.
func New(cfg Config) *Executor {
	e := &Executor{cfg: cfg, reg: cmp.Or(cfg.Registry, Default), wake: make(chan struct{}, 1), left: leftover{limit: outgrown}, kinds: map[uint32]*kind{}, usual: map[string]*kind{}, live: newLiveValues()}
	e.ctx, e.cancel = context.WithCancelCause(context.Background())
	e.out = newOutbox(cfg.Conn, e.Broken)
	e.mem.exec = e
	e.watch = time.AfterFunc(time.Hour, e.look)
	e.watch.Stop()
	return e
}

// Run says Hello and runs what the agent dispatches. It returns nil after a
// Stop, else why the executor had to end. A function that ignores its context
// may still be running then: the caller should end the process.
func (e *Executor) Run() error {
	hello := &comms.Hello{PID: int64(e.cfg.PID), Token: e.cfg.Token, Build: e.cfg.Build, Language: "go", Session: e.job}
	if s := e.session; s != nil {
		hello.Output = s.out.to[0] != nil || s.out.to[1] != nil
	} else {
		sigs, err := e.reg.Signatures()
		if err != nil {
			return fmt.Errorf("start executor: %w", err)
		}
		hello.Functions = sigs
	}
	e.out.send(hello)
	var helpers sync.WaitGroup
	helpers.Go(func() { e.out.serve(e.ctx.Done()) })
	defer helpers.Wait()
	defer e.watch.Stop()
	defer e.starter.Close()
	for {
		ended := make(chan bool, 1)
		go e.runner(ended)
		select {
		case goexit := <-ended:
			if goexit {
				continue // the function ended our goroutine: take another
			}
		case <-e.ctx.Done():
			awaitRunner(ended)
		}
		if e.session != nil {
			e.mem.idle() // the program lives on
		}
		e.out.flush()
		e.cancel(nil)
		if err := context.Cause(e.ctx); !errors.Is(err, context.Canceled) {
			return err
		}
		return nil
	}
}

// awaitRunner lets the run at hand end: its context has ended, and a command is
// being killed. A function that does not listen ends with the process.
func awaitRunner(ended <-chan bool) {
	t := time.NewTimer(lastWait)
	defer t.Stop()
	select {
	case <-ended:
	case <-t.C:
	}
}

// Broken ends the executor because its connection did.
func (e *Executor) Broken(err error) { e.fail(ErrLinkBroken, err) }

// fail ends the executor, and a session with it.
func (e *Executor) fail(kind, err error) {
	if err = fmt.Errorf("%w: %w", kind, err); e.session != nil {
		err = fmt.Errorf("%w: %w", ErrSessionLost, err)
	}
	e.cancel(err)
}

// HandleBody is Handle for a message with a body, which it does not keep.
func (e *Executor) HandleBody(m comms.Message, body []byte) {
	if b, ok := m.(*comms.Blob); ok {
		e.blobs.piece(b, body)
		return
	}
	e.Handle(m)
}

// Handle takes one message of the agent. It does not block, and keeps m.
func (e *Executor) Handle(m comms.Message) {
	if l, ok := m.(*comms.Log); ok && e.session != nil {
		e.session.print(l)
		return
	}
	if err := e.handle(m); err != nil {
		e.fail(ErrProtocol, err)
	}
}

func (e *Executor) handle(m comms.Message) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if w, ok := m.(*comms.Welcome); ok {
		e.welcome = w
		return e.mem.open(w)
	}
	if s, ok := m.(*comms.Stop); ok && e.welcome == nil && e.session != nil {
		e.cancel(errors.New(s.Why))
		return nil
	}
	if e.welcome == nil {
		return fmt.Errorf("%T came before Welcome", m)
	}
	switch m := m.(type) {
	case *comms.Kind:
		if m.Close {
			delete(e.kinds, m.ID) // runs that refer to it keep it
			break
		}
		e.kinds[m.ID] = e.newKind(m)
	case *comms.Dispatch:
		return e.enqueue(m)
	case *comms.Segment:
		e.mem.segment(m)
	case *comms.Lease:
		e.mem.granted(m)
	case *comms.Reclaim:
		e.reclaim(m.Runs)
	case *comms.Cancel:
		e.cancelRun(m)
	case *comms.Credit:
		if r := e.find(m.Run); r != nil {
			r.spend.add(m.N)
		}
	case *comms.CallEnds:
		if r := e.find(m.Run); r != nil {
			return r.callsEnded(m)
		}
	case *comms.CallGo:
		if r := e.find(m.Run); r != nil {
			return r.goOn(m)
		}
	case *comms.ActorFreed:
		if r := e.find(m.Run); r != nil {
			if h := r.actorHost.Load(); h != nil {
				go h.free(m) // it may wait for room on links
			}
		}
	case *comms.Reached:
		e.reached(m)
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
		n, err := e.newEntry(&m.Runs[i])
		if err != nil {
			return err
		}
		e.queue.push(n)
		e.live.expect(n.run)
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

// reclaim returns the runs that have not started. A run whose live input is made by
// a run that goes on, though it was asked for as well, stays: its value would be lost.
// The answer leaves from a goroutine of its own, as sending may wait.
func (e *Executor) reclaim(ids []comms.RunID) {
	back := &comms.Reclaimed{}
	var done []*hold
	goesOn := func(id comms.RunID) bool { return slices.Contains(ids, id) && !slices.Contains(back.Runs, id) }
	for _, id := range ids {
		if e.queue.lives(id, goesOn) {
			continue
		}
		if r, drop := e.queue.remove(id, &e.live); r != nil {
			back.Runs = append(back.Runs, id)
			done = append(done, drop...)
		}
	}
	go func() {
		e.out.send(back)
		e.drop(done)
	}()
}

// drop ends references to memory of live values.
func (e *Executor) drop(done []*hold) {
	for _, h := range done {
		e.mem.drop(h)
	}
}

// look reports a run as started when it takes its time, and samples its memory.
func (e *Executor) look() {
	e.mu.Lock()
	r := e.current
	if r == nil || r.began.IsZero() {
		e.watched = false
		e.mu.Unlock()
		return
	}
	if age := time.Since(r.began); age < startedAfter { // it was set for a run before this one
		e.watch.Reset(startedAfter - age)
		e.mu.Unlock()
		return
	}
	first := !r.told
	r.told = true
	switch {
	case e.session != nil: // the memory of a program is its own affair
	case r.waitsForCalls(): // it takes no more meanwhile: see goOn
		e.watched = false
	default:
		e.watch.Reset(sampleEvery)
	}
	if first { // added before the run can end, so that the order is right
		e.out.add(comms.ReportItem{Kind: comms.ReportStarted, Run: r.ID, At: r.usage.Start}, time.Now())
	}
	e.mu.Unlock()
	if first {
		e.out.flush()
	}
	if r.kind.fn != nil && time.Since(r.began) >= sampleEvery {
		r.peak.Store(max(r.peak.Load(), command.PrivateMemory()))
	}
}

// private returns the private memory of this process at the end of a run.
func (e *Executor) private(now time.Time) uint64 {
	if now.Sub(e.sampledAt) >= sampleAge {
		e.sampled, e.sampledAt = command.PrivateMemory(), now
	}
	return e.sampled
}

func (e *Executor) cancelRun(m *comms.Cancel) {
	if r := e.current; r != nil && r.ID == m.Run {
		r.stop(&stopped{kind: m.Why, text: m.Text, grace: time.Duration(m.Grace)})
		return
	}
	if r, done := e.queue.remove(m.Run, &e.live); r != nil {
		e.drop(done)
		now := time.Now()
		e.out.add(comms.ReportItem{Kind: comms.ReportFailed, Run: r.ID, At: now.UnixNano(), Error: r.unstarted(m.Why, m.Text)}, now)
		e.out.hurry()
	}
}

// next returns the next run, or nil when the executor ends. Reports leave before it waits.
func (e *Executor) next() *run {
	for {
		e.mu.Lock()
		if e.ctx.Err() != nil {
			e.mu.Unlock()
			return nil
		}
		if e.spent != nil {
			e.queue.spare, e.spent = e.spent, nil
		}
		var back []comms.RunID
		var done []*hold
		if e.left.leaving {
			back, done = e.giveUp()
		}
		r, more := e.queue.pop()
		back = append(back, more...)
		e.current = r
		last := e.last || e.left.leaving
		e.mu.Unlock()
		e.drop(done)
		if len(back) > 0 {
			e.out.send(&comms.Reclaimed{Runs: back})
		}
		if r != nil {
			if e.ended.IsZero() {
				e.ended = time.Now()
			}
			e.out.ripen(e.ended)
			return r
		}
		e.out.flush()
		if last {
			return nil
		}
		if !e.state.waits(e.limits.cpu) {
			e.left.leaving = true
			continue
		}
		if !e.await() {
			return nil
		}
		e.cpu.mark, e.ended = 0, time.Time{}
	}
}

// await waits for work; it tells whether the executor goes on.
func (e *Executor) await() bool {
	var idle <-chan time.Time
	if e.mem.hasStanding() {
		t := time.NewTimer(idleLease)
		defer t.Stop()
		idle = t.C
	}
	for {
		select {
		case <-e.wake:
			return true
		case <-e.ctx.Done():
			return false
		case <-idle:
			e.mem.idle()
			e.out.flush()
		}
	}
}

// find returns a run that has not ended, nil when there is none.
func (e *Executor) find(id comms.RunID) *run {
	if e.current != nil && e.current.ID == id {
		return e.current
	}
	return e.queue.find(id)
}
