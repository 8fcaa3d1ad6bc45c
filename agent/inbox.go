package agent

import (
	"sync"

	"github.com/cascade-run/cascade/agent/core"
)

// inboxLimit is how many events wait before those who read links must pause:
// what is not read stays with its sender.
const inboxLimit = 8192

// inbox is the queue of events in front of the core.
type inbox struct {
	mu     sync.Mutex
	room   sync.Cond
	events []core.Event
	closed bool
	wake   chan struct{} // holds a token while events wait
}

func newInbox() *inbox {
	in := &inbox{wake: make(chan struct{}, 1)}
	in.room.L = &in.mu
	return in
}

// offer adds an event that came over a link. It waits while the inbox is full.
func (in *inbox) offer(ev core.Event) {
	in.mu.Lock()
	for len(in.events) >= inboxLimit && !in.closed {
		in.room.Wait()
	}
	in.addAndUnlock(ev)
}

// push adds the end of something that the core asked for. It never waits: the
// core bounds what is under way.
func (in *inbox) push(ev core.Event) {
	in.mu.Lock()
	in.addAndUnlock(ev)
}

func (in *inbox) addAndUnlock(ev core.Event) {
	if !in.closed {
		in.events = append(in.events, ev)
	}
	in.mu.Unlock()
	select {
	case in.wake <- struct{}{}:
	default:
	}
}

// take returns what waits, in order, and leaves spare in its place.
func (in *inbox) take(spare []core.Event) []core.Event {
	in.mu.Lock()
	events := in.events
	in.events = spare[:0]
	if len(events) >= inboxLimit {
		in.room.Broadcast()
	}
	in.mu.Unlock()
	return events
}

// close drops what waits and all that comes.
func (in *inbox) close() {
	in.mu.Lock()
	in.closed, in.events = true, nil
	in.mu.Unlock()
	in.room.Broadcast()
}
