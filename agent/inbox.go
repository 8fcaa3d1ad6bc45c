//go:build linux

package agent

import (
	"sync"

	"github.com/cascade-run/cascade/agent/core"
)

// inboxLimit is how many items wait before those who read links must pause:
// what is not read stays with its sender.
const inboxLimit = 8192

// item is an event for the core, what the driver must note before, or both.
type item struct {
	note func() // runs where the core does
	ev   core.Event
}

// inbox is the queue in front of the core.
type inbox struct {
	mu     sync.Mutex
	room   sync.Cond
	items  []item
	closed bool
	wake   chan struct{} // holds a token while Run's goroutine should look
}

func newInbox() *inbox {
	in := &inbox{wake: make(chan struct{}, 1)}
	in.room.L = &in.mu
	return in
}

// offer adds an event that came over a link and wakes nobody: who reads the link
// sees to it when it has read all, with loop.help. It waits while the inbox is full.
func (in *inbox) offer(it item) {
	in.mu.Lock()
	for len(in.items) >= inboxLimit && !in.closed {
		in.rouse()
		in.room.Wait()
	}
	in.add(it)
	in.mu.Unlock()
}

// push adds the end of something that the core asked for. It never waits: the
// core bounds what is under way.
func (in *inbox) push(it item) {
	in.mu.Lock()
	in.add(it)
	in.mu.Unlock()
	in.rouse()
}

func (in *inbox) add(it item) {
	if !in.closed {
		in.items = append(in.items, it)
	}
}

// rouse wakes the goroutine of Run.
func (in *inbox) rouse() {
	select {
	case in.wake <- struct{}{}:
	default:
	}
}

// waiting tells whether there is anything to take.
func (in *inbox) waiting() bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	return len(in.items) > 0
}

// take returns what waits, in order, and leaves spare in its place.
func (in *inbox) take(spare []item) []item {
	in.mu.Lock()
	items := in.items
	in.items = spare[:0]
	if len(items) >= inboxLimit {
		in.room.Broadcast()
	}
	in.mu.Unlock()
	return items
}

// close drops what waits and all that comes.
func (in *inbox) close() {
	in.mu.Lock()
	in.closed, in.items = true, nil
	in.mu.Unlock()
	in.room.Broadcast()
}
