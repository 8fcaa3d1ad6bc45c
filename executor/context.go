package executor

import (
	"context"
	"sync"
	"time"
)

// runContext is the context of a run's function. What a context needs to be
// waited for is made when somebody asks for it: most functions that are short do not.
type runContext struct {
	run *run

	mu    sync.Mutex
	inner context.Context // nil until somebody asks
	halt  context.CancelCauseFunc
	over  bool  // ended before anybody asked
	cause error // with over: why
}

var _ context.Context = (*runContext)(nil)

// limit makes the context end with a cause when the time is up. It comes before any other use.
func (c *runContext) limit(d time.Duration, why error) {
	ctx, halt := context.WithCancelCause(c.run.exec.ctx)
	inner, drop := context.WithTimeoutCause(ctx, d, why)
	c.inner, c.halt = inner, func(err error) { halt(err); drop() }
}

// context returns the context behind this one.
func (c *runContext) context() context.Context {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.inner == nil {
		c.inner, c.halt = context.WithCancelCause(c.run.exec.ctx)
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
	if c.run.kind.Timeout <= 0 {
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
	return c.run.exec.ctx.Err()
}

// Value returns the run for TaskOf and Alloc.
func (c *runContext) Value(key any) any {
	if key == (taskKey{}) {
		return c.run
	}
	return c.context().Value(key)
}
