package executor

import (
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/cascade-run/cascade/comms"
)

// answers are what actors tell at one time, to several links perhaps.
type answers struct {
	links []*callerLink
	now   bool // else they may wait for others
}

// add answers a call, and keeps the answer until its caller has it. The mutex of the actor is held.
func (as *answers) add(line *actorLine, e *comms.ActorEnd) {
	line.kept.Set(e.Name.Number, e)
	as.tell(line, *e)
}

// tell tells the caller that has a line something. A caller whose link is broken asks again for what is kept.
func (as *answers) tell(line *actorLine, e comms.ActorEnd) {
	l := line.link
	if l == nil {
		return
	}
	as.now = l.add(e) || as.now
	if !slices.Contains(as.links, l) {
		as.links = append(as.links, l)
	}
}

// flush sends them. No mutex is held.
func (as *answers) flush() {
	for _, l := range as.links {
		if as.now {
			l.flush()
		} else {
			l.arm()
		}
	}
}

// callerLink is a link to a process that calls actors.
type callerLink struct {
	host  *actorHost
	link  *comms.Link
	order uint64        // later links have greater ones
	grace time.Duration // for its lines, when it is broken; of the goroutine that reads the link
	room  chan struct{}

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
