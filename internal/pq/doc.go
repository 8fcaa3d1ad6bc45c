// Package pq is a priority queue: a binary heap of values of one type, without the
// boxing of container/heap. The order is a type of its own, so that values of one type
// can be in queues of different orders. The order may keep the place of each value, so
// that a value that has changed can be fixed, or removed, in place.
//
// Equal values leave in the same order as from container/heap, because the heap has the
// same arrangement after each operation. A deterministic simulation stays deterministic.
package pq
