package main

import (
	"context"
	"fmt"
	"os"
	"sync/atomic"

	"github.com/cascade-run/cascade"
)

// errInterrupted ends a command that does nothing of its own with an interrupt.
var errInterrupted = fmt.Errorf("%w: interrupted", cascade.ErrCancelled)

// signals hands interrupts on: to what takes them at present, else they end the
// command's context.
type signals struct {
	taken  chan os.Signal
	takers atomic.Int32
}

// take gives the interrupts to the caller until it calls leave.
func (s *signals) take() (c <-chan os.Signal, leave func()) {
	s.takers.Add(1)
	return s.taken, func() { s.takers.Add(-1) }
}

// listen returns a context that the first interrupt ends which no caller of take
// receives. The next interrupt ends the process: unheeded is called before.
func (s *signals) listen(ctx context.Context, from <-chan os.Signal, unheeded func()) (_ context.Context, end func()) {
	s.taken = make(chan os.Signal, 2) // a command does something at the first and at the second
	ctx, cancel := context.WithCancelCause(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			select {
			case sig := <-from:
				if s.takers.Load() == 0 {
					unheeded()
					cancel(errInterrupted)
					return
				}
				select {
				case s.taken <- sig:
				default: // more than anybody does something at
				}
			case <-ctx.Done():
				return
			}
		}
	}()
	return ctx, func() {
		cancel(nil)
		<-ended
	}
}
