package executor

import (
	"context"
	"sync"
	"time"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/dag"
)

// runContext is the context of a run's function. The parts that a wait needs are
// made when a caller asks for them: most short functions never wait.
//
// It is an object of its own: a function may keep it beyond its end, when the run
// is that of another task.
type runContext struct {
	exec *Executor
	kind *kind
	of   taskID

	mu    sync.Mutex
	run   *run            // nil once it has ended, unless a caller asked for it
	asked bool            // a caller has the run
	inner context.Context // nil until a caller asks
	halt  context.CancelCauseFunc
	over  bool  // ended before anybody asked
	cause error // with over: why
}

// taskID is what a context remembers of its run.
type taskID struct {
	run     comms.RunID
	task    dag.TaskIndex
	attempt uint32
	name    string
}

var _ context.Context = (*runContext)(nil)

// limit makes the context end with a cause when the time is up. It comes before any other use.
func (c *runContext) limit(d time.Duration, why error) {
	ctx, halt := context.WithCancelCause(c.exec.ctx)
	inner, drop := context.WithTimeoutCause(ctx, d, why)
	c.inner, c.halt = inner, func(err error) { halt(err); drop() }
}

// context returns the context behind this one.
func (c *runContext) context() context.Context {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.inner == nil {
		c.inner, c.halt = context.WithCancelCause(c.exec.ctx)
		if c.over {
			c.halt(c.cause)
		}
	}
	return c.inner
}

// stop ends the context; the first cause counts.
func (c *runContext) stop(cause error) {
	c.mu.Lock()
	halt := c.halt
	if halt == nil && !c.over {
		c.over, c.cause = true, cause
	}
	c.mu.Unlock()
	if halt != nil {
		halt(cause)
	}
}

// Deadline implements context.Context.
func (c *runContext) Deadline() (time.Time, bool) {
	if c.kind.Timeout <= 0 {
		return time.Time{}, false
	}
	return c.context().Deadline()
}

// Done implements context.Context.
func (c *runContext) Done() <-chan struct{} { return c.context().Done() }

// Err implements context.Context.
func (c *runContext) Err() error {
	c.mu.Lock()
	inner, over := c.inner, c.over
	c.mu.Unlock()
	switch {
	case inner != nil:
		return inner.Err()
	case over:
		return context.Canceled
	}
	return c.exec.ctx.Err()
}

// Value returns the run for TaskOf and Alloc.
func (c *runContext) Value(key any) any {
	if key == (taskKey{}) {
		return c.lend()
	}
	return c.context().Value(key)
}

// lend returns the run, which is of this task for good then. After its end it is
// one that tells who it was and takes nothing.
func (c *runContext) lend() *run {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked = true
	if c.run == nil {
		r := &run{exec: c.exec, kind: c.kind, ctx: c, log: &logWriter{exec: c.exec, run: c.of.run, closed: true}}
		r.ID, r.Task, r.Attempt, r.Name, r.mem.ended = c.of.run, c.of.task, c.of.attempt, c.of.name, true
		r.calls.Store(noCalls)
		c.run = r
	}
	return c.run
}

// release is called when the run has ended. It tells whether no caller has it any more.
func (c *runContext) release() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.asked {
		return false
	}
	c.run = nil
	return true
}
