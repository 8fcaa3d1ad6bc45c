package executor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/dag"
)

// Errors with which a session's context ends.
var (
	// ErrSessionLost says that the agent that a session was attached to is gone, or has ended it.
	ErrSessionLost = errors.New("the session is lost")
	// ErrSessionClosed says that the program has closed the session.
	ErrSessionClosed = errors.New("the session is closed")
	// ErrSessionNotBegun says that the agent has ended a session whose task had not begun.
	ErrSessionNotBegun = errors.New("the session has ended before its task began")
)

// SessionConfig is what a program needs to run the task of a session.
type SessionConfig struct {
	Address  string      // where the agent of this host listens for executors
	Job      comms.JobID // the session
	Registry *Registry   // nil means Default
	Log      zerolog.Logger
	Out, Err io.Writer // what called tasks write to standard output and error is written there as well; nil: it is not
}

// Session is the task of a session as the program that runs it has it. The program is an
// executor for this one run; nothing of its process changes for that: neither its signals
// and output, nor its limits and folder.
type Session struct {
	exec  *Executor
	out   *printer      // of what called tasks write
	begun chan struct{} // closed when the task has begun
	ctx   context.Context
	close func() // lets the task end well
	shut  chan struct{}
	ended chan struct{} // closed when the link is down
	err   error         // how it ended, once ended is closed; nil when it was closed in order
}

// OpenSession attaches this program to an agent as the task of a session that was
// submitted. It returns when the task has begun. ctx bounds that alone.
func OpenSession(ctx context.Context, cfg SessionConfig) (*Session, error) {
	c := &linkConn{room: make(chan struct{}, 1)}
	s := &Session{out: newPrinter(cfg.Out, cfg.Err), begun: make(chan struct{}), shut: make(chan struct{}), ended: make(chan struct{})}
	s.close = sync.OnceFunc(func() { close(s.shut) })
	s.exec = New(Config{Conn: c, Registry: cmp.Or(cfg.Registry, Default), Pipes: true, Build: build(), PID: os.Getpid(), Log: cfg.Log})
	s.exec.session, s.exec.job, s.exec.left.limit = s, cfg.Job, math.MaxUint64
	c.exec = s.exec
	dialing, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	link, err := dialAgent(dialing, cfg.Address, fmt.Sprintf("session-%d-%x", os.Getpid(), time.Now().UnixNano()), s.exec.cfg, c)
	if err != nil {
		s.exec.watch.Stop()
		return nil, err
	}
	go s.run(link)
	select {
	case <-s.begun:
		return s, nil
	case <-s.ended:
		return nil, cmp.Or(s.err, ErrSessionClosed)
	case <-ctx.Done():
		s.exec.cancel(context.Cause(ctx))
		<-s.ended
		return nil, fmt.Errorf("wait for the session's task to begin: %w", context.Cause(ctx))
	}
}

// openSessions counts the sessions of this program.
var openSessions atomic.Int64

// run is the executor's life.
func (s *Session) run(link *comms.Link) {
	defer close(s.ended)
	defer s.out.close()
	openSessions.Add(1)
	defer openSessions.Add(-1)
	if s.err = s.exec.Run(); s.err != nil {
		link.Abort(s.err)
		<-link.Done()
		return
	}
	select {
	case <-s.begun:
		s.err = s.why()
	default:
		s.err = ErrSessionNotBegun
	}
	if err := link.Close(); err != nil && s.err == nil {
		s.err = fmt.Errorf("%w: %w", ErrSessionLost, err)
	}
	s.exec.cancel(s.err)
}

// print has written what a called task has written.
func (s *Session) print(m *comms.Log) { s.out.print(m.Stream, m.Text) }

// why is what ended the task, if that was not the program.
func (s *Session) why() error {
	if err := context.Cause(s.ctx); !errors.Is(err, ErrSessionClosed) {
		return err
	}
	return nil
}

// function is what the task runs: it lasts until the program closes the session, or the
// agent ends it.
func (s *Session) function() *Func {
	return &Func{Name: dag.SessionFunction, Call: func(ctx context.Context, _, _ []any) error {
		s.ctx = ctx
		close(s.begun)
		select {
		case <-s.shut:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}}
}

// over has the executor end with its one run. The session's context has a cause then.
func (e *Executor) over(r *run) {
	if e.session == nil {
		r.ctx.stop(nil)
		return
	}
	e.mu.Lock()
	e.last = true
	e.mu.Unlock()
	r.ctx.stop(ErrSessionClosed)
}

// Context is the context of the session's task. It ends when the session does: with
// ErrSessionClosed, ErrSessionLost, or the reason for which a user cancelled it as its cause.
func (s *Session) Context() context.Context { return s.ctx }

// Done is closed when the session has ended, whoever ended it.
func (s *Session) Done() <-chan struct{} { return s.ended }

// Err tells how a session ended of which Done is closed: nil when it was closed.
func (s *Session) Err() error { return s.err }

// Close ends the session, and with it all calls that have not ended. It waits for the
// agent to know, or until ctx ends. The error tells how the session had ended before.
func (s *Session) Close(ctx context.Context) error {
	s.close()
	select {
	case <-s.ended:
		return s.err
	case <-ctx.Done():
		return fmt.Errorf("close the session: %w", context.Cause(ctx))
	}
}
