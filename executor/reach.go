package executor

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/cascade-run/cascade/comms"
)

// reaches asks the agent for ways to processes of other hosts.
type reaches struct {
	mu   sync.Mutex
	last uint64
	open map[uint64]chan *comms.Reached
}

// errGone says that there is no way, and that there will be none.
var errGone = errors.New("no way leads to it")

// reach returns where to dial, once and soon, to come to a process that listens at an address on the host of an agent, which
// is asked at at. Without an agent it returns where that of this host is asked.
func (e *Executor) reach(ctx context.Context, agent, at, address string) (string, error) {
	q, came := &e.reaches, make(chan *comms.Reached, 1)
	q.mu.Lock()
	q.last++
	req := q.last
	if q.open == nil {
		q.open = map[uint64]chan *comms.Reached{}
	}
	q.open[req] = came
	q.mu.Unlock()
	defer func() {
		q.mu.Lock()
		defer q.mu.Unlock()
		delete(q.open, req)
	}()
	e.out.send(&comms.Reach{Req: req, Agent: agent, At: at, Address: address})
	select {
	case m := <-came:
		switch {
		case m.Gone:
			return "", fmt.Errorf("%w: %s", errGone, m.Error)
		case m.Error != "":
			return "", errors.New(m.Error)
		}
		return m.Address, nil
	case <-ctx.Done():
		return "", fmt.Errorf("the agent does not answer: %w", context.Cause(ctx))
	}
}

// reached takes an answer. One that comes too late is dropped.
func (e *Executor) reached(m *comms.Reached) {
	q := &e.reaches
	q.mu.Lock()
	defer q.mu.Unlock()
	if came := q.open[m.Req]; came != nil {
		delete(q.open, m.Req)
		came <- m
	}
}
