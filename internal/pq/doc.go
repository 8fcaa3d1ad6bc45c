// Package pq is a priority queue: a binary heap of values of one type, without the
// boxing of container/heap. The order is a type of its own, so that values of one type
// can stand in queues of different orders. It can say of each value where it stands, so
// that one which has changed can be fixed, or removed, in place.
//
// Values of which none comes before the other leave in the order that container/heap
// would have them leave in: the arrangement is the same after each operation. A
// simulation that is deterministic stays so.
package pq
