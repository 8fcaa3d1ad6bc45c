package eventqueue

import (
	"container/heap"
	"iter"
	"time"
)

// Agenda holds steps of type T. Its zero value is empty and ready for use.
type Agenda[T any] struct {
	steps steps[T]
	added uint64
}

// Add plans a step. A time before that of steps taken already is kept as it is:
// the caller decides what that means.
func (a *Agenda[T]) Add(at time.Duration, step T) {
	a.added++
	heap.Push(&a.steps, entry[T]{at, a.added, step})
}

// Len returns how many steps are planned.
func (a *Agenda[T]) Len() int { return len(a.steps) }

// Due returns when the next step is due, false when none is planned.
func (a *Agenda[T]) Due() (time.Duration, bool) {
	if len(a.steps) == 0 {
		return 0, false
	}
	return a.steps[0].at, true
}

// Take removes the next step and returns it with its time. There must be one.
func (a *Agenda[T]) Take() (time.Duration, T) {
	e := heap.Pop(&a.steps).(entry[T])
	return e.at, e.step
}

// All yields the planned steps in no order.
func (a *Agenda[T]) All() iter.Seq[T] {
	return func(yield func(T) bool) {
		for i := range a.steps {
			if !yield(a.steps[i].step) {
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

type steps[T any] []entry[T]

// Len, Less, Swap, Push and Pop serve package heap.
func (s steps[T]) Len() int { return len(s) }

func (s steps[T]) Less(i, j int) bool {
	return s[i].at < s[j].at || s[i].at == s[j].at && s[i].order < s[j].order
}

func (s steps[T]) Swap(i, j int) { s[i], s[j] = s[j], s[i] }

func (s *steps[T]) Push(x any) { *s = append(*s, x.(entry[T])) }

func (s *steps[T]) Pop() any {
	old := *s
	e := old[len(old)-1]
	old[len(old)-1] = entry[T]{} // its step may hold much
	*s = old[:len(old)-1]
	return e
}
