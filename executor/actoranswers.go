package executor

import (
	"errors"
	"sync"
	"time"

	"github.com/cascade-run/cascade/comms"
)

// callerLink is a link to a process that calls actors.
type callerLink struct {
	host *actorHost
	link *comms.Link
	room chan struct{}

	mu    sync.Mutex
	ends  []comms.ActorEnd // not sent
	bytes int
	armed bool
	timer *time.Timer

	sending sync.Mutex
}

// add queues an answer. It tells whether many wait.
func (l *callerLink) add(e comms.ActorEnd) (due bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ends = append(l.ends, e)
	l.bytes += e.Size()
	return len(l.ends) >= mostBatch || l.bytes >= mostBytes
}

// arm sees to it that what was added leaves soon: the next method may take its time.
func (l *callerLink) arm() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.armed {
		l.armed = true
		l.timer.Reset(batchAge)
	}
}

func (l *callerLink) late() {
	l.mu.Lock()
	l.armed = false
	l.mu.Unlock()
	l.flush()
}

// flush sends the answers.
func (l *callerLink) flush() {
	l.sending.Lock()
	defer l.sending.Unlock()
	l.mu.Lock()
	ends := l.ends
	l.ends, l.bytes = nil, 0
	l.mu.Unlock()
	for len(ends) > 0 {
		n, size := 0, 0
		for ; n < len(ends) && (n == 0 || size < mostBytes); n++ {
			size += ends[n].Size()
		}
		if err := deliver(l.link, l.room, l.link.Send, &comms.ActorEnds{Ends: ends[:n]}); err != nil {
			if !errors.Is(err, comms.ErrClosed) {
				l.link.Abort(err)
			}
			return
		}
		ends = ends[n:]
	}
}
