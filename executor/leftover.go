package executor

import (
	"runtime/debug"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/executor/command"
)

// leftover finds that runs have left so much memory behind in this process that a fresh one is
// better. Data loaded once, such as a table in a variable of its package, is no leak: it
// comes in a few large steps. It is the runner's.
type leftover struct {
	limit   uint64 // bytes that runs may have left behind since the first, which loaded what it needs
	first   uint64 // private memory after the first run
	high    uint64 // the most since then, or what the next look is worth
	steps   int    // in which it came to be more
	leaving bool   // too much was left behind: it stays true
}

const (
	outgrown      = 1 << 30
	outgrownSteps = 4 // at least; each is a 64th part of the limit or more
)

// look takes the private memory after a run. measure gives what is left of it without garbage.
func (l *leftover) look(rest uint64, measure func() uint64) {
	if l.leaving || rest <= l.high+l.limit/64 {
		return
	}
	if l.first == 0 {
		l.first = rest
	} else {
		l.steps++
	}
	l.high = rest
	if rest-l.first <= l.limit || l.steps < outgrownSteps {
		return
	}
	if l.leaving = measure() > l.first+l.limit; !l.leaving {
		l.high += l.limit / 4 // to measure takes time
	}
}

// withoutGarbage returns the private memory of this process after a collection. Reports
// leave before: it may take long.
func (e *Executor) withoutGarbage() uint64 {
	e.out.flush()
	debug.FreeOSMemory()
	return command.PrivateMemory()
}

// giveUp takes out the runs that another process can do as well, as this one has to end: their
// numbers, and memory that is to be dropped. Executor.mu is held.
func (e *Executor) giveUp() (back []comms.RunID, done []*hold) {
	for _, id := range e.queue.whole() {
		r, drop := e.queue.remove(id, &e.live)
		if r != nil {
			back = append(back, id)
		}
		done = append(done, drop...)
	}
	return back, done
}
