package pq

import (
	"iter"
	"slices"
)

// Order says which of two values leaves a queue first.
type Order[T any] interface {
	// Before tells whether a leaves before b.
	Before(a, b T) bool
	// Placed tells where a value stands now, for Fix and Remove. Embed Unplaced where
	// neither is used.
	Placed(t T, at int)
}

// Unplaced is part of an order whose values do not know where they stand.
type Unplaced[T any] struct{}

// Placed does nothing.
func (Unplaced[T]) Placed(T, int) {}

// Queue is the values that wait. It is ready for use if its Order is, which for an
// order without fields is the zero value.
type Queue[T any, O Order[T]] struct {
	Order O
	items []T // heap-ordered: none before its parent, the one at (i-1)/2
}

// Len returns how many values wait.
func (q *Queue[T, O]) Len() int { return len(q.items) }

// First returns the value that leaves next. There must be one.
func (q *Queue[T, O]) First() T { return q.items[0] }

// At returns the value at a place, which First has at 0. The place must be below Len.
func (q *Queue[T, O]) At(i int) T { return q.items[i] }

// Ref returns where the value at a place is kept, until the queue changes: what changes
// it there calls Fix.
func (q *Queue[T, O]) Ref(i int) *T { return &q.items[i] }

// All yields the values that wait: First first, the others in no order. The queue must
// not change meanwhile.
func (q *Queue[T, O]) All() iter.Seq[T] { return slices.Values(q.items) }

// Clear empties the queue and returns what waited, in no order.
func (q *Queue[T, O]) Clear() []T {
	items := q.items
	q.items = nil
	return items
}

// Push adds a value.
func (q *Queue[T, O]) Push(t T) {
	i := len(q.items)
	q.items = append(q.items, t)
	if i == 0 || !q.up(i) {
		q.Order.Placed(t, i)
	}
}

// Pop removes the first value and returns it. There must be one.
func (q *Queue[T, O]) Pop() T { return q.Remove(0) }

// Remove removes the value at a place and returns it.
func (q *Queue[T, O]) Remove(i int) T {
	t, n := q.items[i], len(q.items)-1
	if i < n {
		q.put(i, q.items[n])
	}
	clear(q.items[n:]) // it may hold much
	if q.items = q.items[:n]; i < n {
		q.Fix(i)
	}
	return t
}

// Fix follows a change of the value at a place.
func (q *Queue[T, O]) Fix(i int) {
	if len(q.items) > 1 && !q.down(i) {
		q.up(i)
	}
}

// FixAll follows changes of any values.
func (q *Queue[T, O]) FixAll() {
	for i := len(q.items)/2 - 1; i >= 0; i-- {
		q.down(i)
	}
}

// up moves a value to the place of its last ancestor that it comes before, and tells
// whether there is one.
func (q *Queue[T, O]) up(start int) bool {
	t, i := q.items[start], start
	for i > 0 {
		parent := (i - 1) / 2
		if !q.Order.Before(t, q.items[parent]) {
			break
		}
		q.put(i, q.items[parent])
		i = parent
	}
	if i == start {
		return false
	}
	q.put(i, t)
	return true
}

// down moves a value to below all that come before it and descend from it, and tells
// whether there are any.
func (q *Queue[T, O]) down(start int) bool {
	t, i := q.items[start], start
	for {
		child := 2*i + 1
		if child >= len(q.items) {
			break
		}
		if child+1 < len(q.items) && q.Order.Before(q.items[child+1], q.items[child]) {
			child++
		}
		if !q.Order.Before(q.items[child], t) {
			break
		}
		q.put(i, q.items[child])
		i = child
	}
	if i == start {
		return false
	}
	q.put(i, t)
	return true
}

func (q *Queue[T, O]) put(i int, t T) {
	q.items[i] = t
	q.Order.Placed(t, i)
}
