// Package backoff spaces retries with full jitter: each pause is drawn evenly from those up
// to a bound, which doubles. Processes that lose the same peer at the same moment, such as
// the agents of a controller that restarts, do not all come back at the same moment.
// (M. Brooker, Exponential Backoff And Jitter, 2015.)
//
// It is ours and not github.com/cenkalti/backoff, which draws from a source that cannot
// be given.
package backoff

import (
	"math/rand/v2"
	"time"
)

// Backoff is the pauses of one that tries. It is for one goroutine.
type Backoff struct {
	First   time.Duration // bound of the first pause
	Longest time.Duration // bound of all pauses; at least First
	Steady  bool          // a pause is at least half of its bound: for a caller that tries a limited number of times
	Rand    *rand.Rand    // where pauses are drawn from; nil: the source of the process

	bound time.Duration // of the pause before; 0: there was none
}

// Next returns how long to wait before the next try: something, and at most the bound.
func (b *Backoff) Next() time.Duration {
	b.bound = min(max(2*b.bound, b.First), max(b.Longest, b.First))
	return b.draw()
}

// Reset is called after a try that succeeded: the next pause is a first one.
func (b *Backoff) Reset() { b.bound = 0 }

// Wait waits before the next try, and tells whether there is to be one: done did not end.
func (b *Backoff) Wait(done <-chan struct{}) bool { return Sleep(b.Next(), done) }

func (b *Backoff) draw() time.Duration {
	if b.bound <= 0 {
		return 0
	}
	least := time.Duration(0)
	if b.Steady {
		least = b.bound / 2
	}
	if b.Rand != nil {
		return least + 1 + time.Duration(b.Rand.Int64N(int64(b.bound-least)))
	}
	return least + 1 + rand.N(b.bound-least)
}

// Jitter draws one pause, for who counts tries otherwise.
func Jitter(bound time.Duration) time.Duration { return (&Backoff{bound: bound}).draw() }

// Sleep waits, and tells whether that was until d had passed: done did not end before.
func Sleep(d time.Duration, done <-chan struct{}) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-done:
		return false
	}
}
