// Package inbox is the queue in front of a core: items of links, clocks and slow work
// are taken from it, in order, by the goroutine that steps the core.
//
//	goroutine that reads a link ─▶ Offer ... all is read: steps the core, if no other does
//	work that has ended ─────────▶ Put ──▶ the same
//	                               Push ─▶ wakes the goroutine of Run, which steps the core
//
// Invariants: Push and Put never wait, as the core bounds the work that it asks
// for. Offer waits while the inbox is full: unread messages stay with their sender.
// Each item is taken once, in the order in which it was added.
package inbox

import "sync"

// Inbox is a queue of any number of writers and one reader at a time.
type Inbox[T any] struct {
	limit int
	wake  chan struct{} // holds a token while the goroutine of Run should look

	mu     sync.Mutex
	room   sync.Cond
	items  []T
	closed bool
}

// New makes an inbox in which limit items may wait before Offer does.
func New[T any](limit int) *Inbox[T] {
	in := &Inbox[T]{limit: limit, wake: make(chan struct{}, 1)}
	in.room.L = &in.mu
	return in
}

// Offer adds an item that came over a link and wakes no goroutine: the reader of the
// link steps the core when it has read all. It waits while the inbox is full.
func (in *Inbox[T]) Offer(it T) {
	in.mu.Lock()
	for len(in.items) >= in.limit && !in.closed {
		in.Rouse()
		in.room.Wait()
	}
	in.add(it)
	in.mu.Unlock()
}

// Put adds an item and wakes no goroutine: the caller is about to step the core, unless
// another goroutine does. It never waits.
func (in *Inbox[T]) Put(it T) {
	in.mu.Lock()
	in.add(it)
	in.mu.Unlock()
}

// Push adds an item and wakes the goroutine of Run. It never waits.
func (in *Inbox[T]) Push(it T) {
	in.Put(it)
	in.Rouse()
}

func (in *Inbox[T]) add(it T) {
	if !in.closed {
		in.items = append(in.items, it)
	}
}

// Rouse wakes the goroutine of Run.
func (in *Inbox[T]) Rouse() {
	select {
	case in.wake <- struct{}{}:
	default:
	}
}

// Woken has a token when the goroutine of Run should look.
func (in *Inbox[T]) Woken() <-chan struct{} { return in.wake }

// Waiting tells whether there is anything to take.
func (in *Inbox[T]) Waiting() bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	return len(in.items) > 0
}

// Take returns what waits, in order, and leaves spare in its place.
func (in *Inbox[T]) Take(spare []T) []T {
	in.mu.Lock()
	items := in.items
	in.items = spare[:0]
	if len(items) >= in.limit {
		in.room.Broadcast()
	}
	in.mu.Unlock()
	return items
}

// Close drops what waits and all that comes, and lets go who waits.
func (in *Inbox[T]) Close() {
	in.mu.Lock()
	in.closed, in.items = true, nil
	in.mu.Unlock()
	in.room.Broadcast()
}
