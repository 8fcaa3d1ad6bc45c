//go:build linux

package agent

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"time"

	"github.com/cascade-run/cascade/agent/reach"
	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/comms/pki"
)

// reaching is how direct links of executors come to other hosts; the loop's. It is there from the first on.
type reaching struct {
	x   *reach.Reach
	err error // why there is none
}

// reachTime is how long one search for a way to a process of another host may take: the executor asks again.
const reachTime = time.Second

// ways starts to lead direct links, once.
func (l *loop) ways() *reach.Reach {
	w, a := &l.reaching, l.agent
	if w.x != nil || w.err != nil {
		return w.x
	}
	w.x, w.err = reach.New(reach.Config{
		Self: a.self, Listen: a.besides("reach"), Doors: a.cfg.Runtime, Inside: filepath.Join(a.cfg.State, "scratch"),
		Security: a.security(pki.RoleAgent), InsecureTestNetwork: a.cfg.InsecureTestNetwork, Inproc: a.cfg.Inproc, Silence: a.cfg.Silence, Log: a.log,
	})
	if w.err != nil {
		a.log.Error().Err(w.err).Msg("actors of this host can be called from it alone")
	}
	return w.x
}

// lead finds a way to a process of another host for an executor, or tells where others ask for one to a process of this.
func (l *loop) lead(id comms.ExecutorID, m *comms.Reach) {
	answer := func(address string, err error) {
		reply := &comms.Reached{Req: m.Req, Address: address}
		if err != nil {
			reply.Error, reply.Gone = err.Error(), errors.Is(err, reach.ErrGone)
		}
		l.toExecutor(id, reply)
	}
	a, x := l.agent, l.ways()
	switch {
	case x == nil:
		answer("", l.reaching.err)
		return
	case m.Agent == "":
		answer(x.Addr(), nil)
		return
	}
	a.work.Go(func() {
		ctx, cancel := context.WithTimeout(a.stop, reachTime)
		defer cancel()
		at := reachable(strings.Split(m.At, ","), strings.Split(x.Addr(), ","))
		door, err := x.Open(ctx, m.Agent, strings.Join(at, ","), m.Address)
		a.in.Push(item{note: func() { answer(door, err) }})
	})
}
