// Package seqmap has a map whose keys are numbers that come in sequence and go about in the
// order in which they came, such as calls that wait for an answer.
//
//	old: a map            list, whose places are numbers
//	┌──────────────┐      ┌────────────────────────────┐
//	│ 17  209  210 │      │ gone gone 4711 4712 - 4714 │ ◀── Set(4715, v)
//	└──────────────┘      └────────────────────────────┘
//
// Invariants:
//   - An entry is in the list or in the map, never in both.
//   - The list is shorter than eight times its entries, or than 64: a few that stay while
//     many come and go move to the map.
package seqmap

import "iter"

// Map is a map from numbers to values. A value that is the zero value of its type is no
// entry. The zero Map is empty.
type Map[T comparable] struct {
	first uint64 // number of list[0]
	list  []T
	head  int // places of list before it are not used any more
	live  int // entries of list
	old   map[uint64]T
}

const (
	keep  = 1 << 10 // an empty list keeps room for so many
	least = 64      // a shorter list is not thinned out
)

// Set sets the value of a number, which is quick for the one after the last that came.
func (m *Map[T]) Set(number uint64, v T) {
	var none T
	if v == none {
		m.Delete(number)
		return
	}
	if len(m.list) == 0 && m.old == nil {
		m.first = number
	}
	if i, listed := m.place(number); listed {
		if m.list[i] == none {
			m.live++
		}
		m.list[i] = v
		return
	}
	if _, there := m.old[number]; there || number != m.first+uint64(len(m.list)) {
		m.keepOld(number, v)
		return
	}
	if m.head > len(m.list)/2 && len(m.list) == cap(m.list) {
		n := copy(m.list, m.list[m.head:])
		clear(m.list[n:])
		m.first, m.list, m.head = m.first+uint64(m.head), m.list[:n], 0
	}
	m.list = append(m.list, v)
	m.live++
}

func (m *Map[T]) keepOld(number uint64, v T) {
	if m.old == nil {
		m.old = map[uint64]T{}
	}
	m.old[number] = v
}

// Get returns the value of a number, or the zero value.
func (m *Map[T]) Get(number uint64) T {
	if i, listed := m.place(number); listed {
		return m.list[i]
	}
	return m.old[number]
}

// Len returns the number of entries.
func (m *Map[T]) Len() int { return m.live + len(m.old) }

// First returns the smallest number that has an entry.
func (m *Map[T]) First() (number uint64, ok bool) {
	if m.live > 0 {
		number, ok = m.first+uint64(m.head), true
	}
	for n := range m.old {
		if !ok || n < number {
			number, ok = n, true
		}
	}
	return number, ok
}

// All yields the entries, in no order.
func (m *Map[T]) All() iter.Seq2[uint64, T] {
	return func(yield func(uint64, T) bool) {
		for n, v := range m.old {
			if !yield(n, v) {
				return
			}
		}
		var none T
		for i, v := range m.list {
			if v != none && !yield(m.first+uint64(i), v) {
				return
			}
		}
	}
}

// place is where in the list a number is.
func (m *Map[T]) place(number uint64) (i uint64, listed bool) {
	i = number - m.first
	return i, number >= m.first+uint64(m.head) && i < uint64(len(m.list))
}

// Delete removes an entry, if there is one.
func (m *Map[T]) Delete(number uint64) {
	var none T
	i, listed := m.place(number)
	switch {
	case !listed:
		delete(m.old, number)
		return
	case m.list[i] == none:
		return
	}
	m.list[i] = none
	m.live--
	m.tidy()
	if n := len(m.list) - m.head; n >= least && m.live < n/8 {
		m.thin()
	}
}

// tidy passes over the places at the front that are empty.
func (m *Map[T]) tidy() {
	var none T
	if m.live > 0 {
		for m.list[m.head] == none {
			m.head++
		}
		return
	}
	m.first, m.head = m.first+uint64(len(m.list)), 0
	if m.list = m.list[:0]; cap(m.list) > keep {
		m.list = nil
	}
}

// thin moves the older half of a list that is mostly empty to the map.
func (m *Map[T]) thin() {
	var none T
	half := m.head + (len(m.list)-m.head)/2
	for i := m.head; i < half; i++ {
		if v := m.list[i]; v != none {
			m.keepOld(m.first+uint64(i), v)
			m.list[i] = none
			m.live--
		}
	}
	m.head = half
	m.tidy()
}
