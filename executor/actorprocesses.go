package executor

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/cascade-run/cascade/comms"
)

// actors is what a run has of actors.
type actors struct {
	run *run

	mu     sync.Mutex
	shared map[sharedProcess]*actorProcess // of the actors without demands
	closed bool
	linked atomic.Pointer[waiter]          // of a run that waits for its processes before it ends
	all    atomic.Pointer[[]*actorProcess] // read without mu: a call flushes them
}

// sharedProcess names a process of actors without demands. Those that go on when it dies, in another, are not in one with
// those whose handles are given away.
type sharedProcess struct {
	environment string
	restarts    bool
}

// actorsOf returns what a run has of actors.
func (r *run) actorsOf() *actors {
	c := r.called()
	if a := c.actors.Load(); a != nil {
		return a
	}
	c.actors.CompareAndSwap(nil, &actors{run: r, shared: map[sharedProcess]*actorProcess{}})
	return c.actors.Load()
}

// process returns the process for an actor. The first needs one that is started.
func (a *actors) process(o ActorOptions) (*actorProcess, error) {
	own, key := o.own(), sharedProcess{o.Environment, o.Life.Restarts > 0}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return nil, a.run.overErr()
	}
	if p := a.shared[key]; p != nil && !own && !p.over() {
		return p, nil
	}
	row, err := a.start(o)
	if err != nil {
		return nil, err
	}
	p := newActorProcess(a, rand.Uint64(), a.run.exec.welcome.Agent)
	p.row, p.options, p.own = row, o, own
	if !own {
		a.shared[key] = p
	}
	a.add(p)
	go p.connect()
	return p, nil
}

// add takes a process in. mu is held.
func (a *actors) add(p *actorProcess) {
	all := append(slices.DeleteFunc(a.processes(), (*actorProcess).over), p)
	a.all.Store(&all)
}

// start calls a process.
func (a *actors) start(o ActorOptions) (*Call, error) {
	fn, ok := a.run.exec.reg.Lookup(ActorsFunction)
	if !ok {
		return nil, errors.New("this program has no actors registered")
	}
	row := fn.Go(a.run.actorsContext(), CallOptions{Name: fmt.Sprintf("actors-try-%d", comms.Try(a.run.Attempt)), Resources: o.Resources,
		Environment: o.Environment, Here: true, Stateful: true}, o.Resources.CPU > 0)
	return row, row.failed()
}

// actorsContext is for the calls of processes: their strand is of its own. A run that is tried again calls by the same
// numbers and another name, so that it meets none of the run before, and those end.
func (r *run) actorsContext() context.Context {
	c, id := r.called(), strandID(actorStrand, "processes")
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.strands[id]
	if s == nil {
		s = &strand{id: id}
		c.strands[id] = s
	}
	return context.WithValue(context.Context(r.ctx), strandKey{}, s)
}

// processes lists those that there are.
func (a *actors) processes() []*actorProcess {
	if all := a.all.Load(); all != nil {
		return slices.Clone(*all)
	}
	return nil
}

func (a *actors) flush() {
	if all := a.all.Load(); all != nil {
		for _, p := range *all {
			p.flush()
		}
	}
}

// close ends all links: the run is over.
func (a *actors) close() {
	a.mu.Lock()
	a.closed = true
	a.mu.Unlock()
	for _, p := range a.processes() {
		p.part()
	}
}
