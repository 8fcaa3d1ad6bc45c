//go:build linux

package agent

import "sync"

// lane does work in order, one piece after the other, in a goroutine that lives
// while there is work.
type lane struct {
	mu   sync.Mutex
	work []func()
	busy bool
	all  *sync.WaitGroup // of the agent's goroutines
}

// do adds a piece of work. It never waits.
func (l *lane) do(f func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.work = append(l.work, f)
	if !l.busy {
		l.busy = true
		l.all.Go(l.run)
	}
}

// idle tells whether all that was given is done. Whoever alone gives work may
// then do a short piece himself, and keeps the order.
func (l *lane) idle() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return !l.busy
}

func (l *lane) run() {
	for {
		l.mu.Lock()
		work := l.work
		l.work = nil
		l.busy = len(work) > 0
		l.mu.Unlock()
		if len(work) == 0 {
			return
		}
		for _, f := range work {
			f()
		}
	}
}
