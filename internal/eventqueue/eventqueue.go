package eventqueue

import (
	"iter"
	"time"

	"github.com/cascade-run/cascade/internal/pq"
)

// Agenda holds steps of type T. Its zero value is empty and ready for use.
type Agenda[T any] struct {
	steps pq.Queue[entry[T], order[T]]
	added uint64
}

// Add plans a step. A time before that of steps taken already is kept as it is:
// the caller decides what that means.
func (a *Agenda[T]) Add(at time.Duration, step T) {
	a.added++
	a.steps.Push(entry[T]{at, a.added, step})
}

// Len returns how many steps are planned.
func (a *Agenda[T]) Len() int { return a.steps.Len() }

// Due returns when the next step is due, false when none is planned.
func (a *Agenda[T]) Due() (time.Duration, bool) {
	if a.steps.Len() == 0 {
		return 0, false
	}
	return a.steps.First().at, true
}

// Take removes the next step and returns it with its time. There must be one.
func (a *Agenda[T]) Take() (time.Duration, T) {
	e := a.steps.Pop()
	return e.at, e.step
}

// All yields the planned steps in no order.
func (a *Agenda[T]) All() iter.Seq[T] {
	return func(yield func(T) bool) {
		for e := range a.steps.All() {
			if !yield(e.step) {
				return
			}
		}
	}
}

type entry[T any] struct {
	at    time.Duration
	order uint64
	step  T
}

type order[T any] struct{ pq.Unplaced[entry[T]] }

func (order[T]) Before(a, b entry[T]) bool { return a.at < b.at || a.at == b.at && a.order < b.order }
