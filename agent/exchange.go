//go:build linux

package agent

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/cascade-run/cascade/agent/core"
	"github.com/cascade-run/cascade/agent/transfer"
	"github.com/cascade-run/cascade/comms/pki"
	"github.com/cascade-run/cascade/shm"
)

// exchanging is how datasets move between this agent and others; the loop's. It
// is there from the first job on that is shared.
type exchanging struct {
	x      *transfer.Exchange
	err    error // why there is none
	mapper *shm.Mapper
	copies sync.WaitGroup // that read and write mapped memory just now
	pulls  map[uint64]*pulling
	at     map[transfer.Copy]*pulling // the pull that the exchange knows by that name, if it is one
	views  map[transfer.Copy]shm.Span // of what is offered
}

// pulling is one pull. The exchange knows copies by name: what an old pull does
// late must not befall a newer one, or an offer, of the same copy.
type pulling struct {
	copy  transfer.Copy
	lease *shm.Lease
	over  func(core.Event) // ends the lease and answers the core; once
	ended bool             // well: only readers of its memory may be left
	free  bool             // it was cancelled, and its memory is not in use any more
}

// exchange starts to serve datasets, once.
func (l *loop) exchange() *transfer.Exchange {
	e, a := &l.moving, l.agent
	if e.x != nil || e.err != nil {
		return e.x
	}
	e.open(a)
	e.pulls, e.views = map[uint64]*pulling{}, map[transfer.Copy]shm.Span{}
	e.at = map[transfer.Copy]*pulling{}
	e.x, e.err = transfer.New(transfer.Config{
		Self: a.self, Listen: a.besides("data"), Silence: a.cfg.Silence, Log: a.log,
		Security: a.security(pki.RoleAgent), InsecureTestNetwork: a.cfg.InsecureTestNetwork,
		Wanted:   func(c transfer.Copy) { a.in.Push(item{ev: core.Wanted{Data: c.Data, Attempt: c.Attempt}}) },
		Unwanted: func(c transfer.Copy) { a.in.Push(item{ev: core.Unwanted{Data: c.Data, Attempt: c.Attempt}}) },
	})
	if e.err != nil {
		a.log.Error().Err(e.err).Msg("no dataset can come or go")
	}
	return e.x
}

// open makes what maps segments, once.
func (e *exchanging) open(a *Agent) {
	if e.mapper == nil {
		e.mapper = shm.NewMapper(a.store.Dir(), 0)
	}
}

// serving is the address where others get datasets, empty before a job is shared.
func (l *loop) serving() string {
	if x := l.exchange(); x != nil {
		return x.Addr()
	}
	return ""
}

// besides is where other agents find what does not pass the agent's own socket, as datasets: at a port of its own where the
// agent listens for others, else beside its own socket.
func (a *Agent) besides(what string) string {
	var all []string
	for s := range strings.SplitSeq(a.cfg.Listen, ",") {
		if host, _, err := net.SplitHostPort(strings.TrimPrefix(s, "tcp://")); strings.HasPrefix(s, "tcp://") && err == nil {
			all = append(all, "tcp://"+net.JoinHostPort(host, "0"))
		}
	}
	if len(all) == 0 {
		all = append(all, "ipc://"+filepath.Join(a.cfg.Runtime, what+".sock"))
	}
	return strings.Join(all, ",")
}

// pull fetches a dataset into memory that the core has leased for it.
func (l *loop) pull(act core.Pull) {
	e, a := &l.moving, l.agent
	failed := func(err error) {
		a.in.Push(item{ev: core.PullFailed{Pull: act.ID, Err: err.Error()}})
	}
	x := l.exchange()
	if x == nil {
		failed(e.err)
		return
	}
	var from []transfer.Source
	for _, name := range act.From {
		if p := l.peers[name]; p != nil && p.at != "" {
			from = append(from, transfer.Source{Agent: name, At: p.at})
		}
	}
	if len(from) == 0 {
		failed(fmt.Errorf("none of the agents %v has said where it serves datasets", act.From))
		return
	}
	lease, into, err := e.writable(act.Path, act.At, act.Size)
	if err != nil {
		failed(err)
		return
	}
	p := &pulling{copy: transfer.Copy{Data: act.Data, Attempt: act.Attempt}, lease: lease}
	p.over = func(ev core.Event) {
		l.report(lease.Close())
		a.in.Push(item{note: func() { e.forget(act.ID) }, ev: ev})
	}
	if err := x.Pull(p.copy, into, from, func(end transfer.Ended) { l.ended(act.ID, p, &end) }); err != nil {
		failed(errors.Join(err, lease.Close()))
		return
	}
	e.pulls[act.ID], e.at[p.copy] = p, p
}

// writable maps size bytes of a segment's file, which the core has leased.
func (e *exchanging) writable(path string, at, size uint64) (*shm.Lease, []byte, error) {
	page := int64(os.Getpagesize())
	lease, err := e.mapper.LeaseAhead(filepath.Base(path), int64(at), max(1, (int64(size)+page-1)/page)*page)
	if err != nil {
		return nil, nil, err
	}
	into, _, err := lease.Alloc(int64(size), 1)
	if err != nil {
		return nil, nil, errors.Join(err, lease.Close())
	}
	return lease, into, nil
}

// copy copies bytes within this host's memory, beside the loop.
func (l *loop) copy(act core.Copy) {
	e, a := &l.moving, l.agent
	e.open(a)
	failed := func(err error) {
		a.in.Push(item{ev: core.PullFailed{Pull: act.ID, Err: fmt.Sprintf("copy %d bytes of %s: %v", act.Size, act.From, err)}})
	}
	view, err := e.mapper.View(filepath.Base(act.From), int64(act.FromAt), int64(act.Size))
	if err != nil {
		failed(err)
		return
	}
	lease, into, err := e.writable(act.Path, act.At, act.Size)
	if err != nil {
		view.Release()
		failed(err)
		return
	}
	e.copies.Go(func() {
		copy(into, view.Bytes)
		view.Release()
		l.report(lease.Close())
		a.in.Push(item{ev: core.Pulled{Pull: act.ID}})
	})
}

// ended follows when the exchange has ended a pull, well or not; beside the loop.
func (l *loop) ended(id uint64, p *pulling, end *transfer.Ended) {
	a := l.agent
	if len(end.Flows) > 0 {
		a.in.Push(item{ev: core.Flowed{Flows: end.Flows}})
	}
	if end.Err != nil {
		p.over(core.PullFailed{Pull: id, Err: end.Err.Error()})
		return
	}
	a.log.Debug().Stringer("dataset", p.copy).Uint64("bytes", end.Bytes).Dur("took", end.Took).Msg("fetched")
	a.in.Push(item{note: func() { l.pulled(id, p) }})
}

// pulled follows when all of a copy is here. The core gets the event when the
// copy has no readers any more: from then on it may move the bytes, and offers them
// anew to agents that ask.
func (l *loop) pulled(id uint64, p *pulling) {
	e := &l.moving
	switch {
	case e.at[p.copy] == p:
		delete(e.at, p.copy)
		e.x.Withdraw(p.copy, func() { p.over(core.Pulled{Pull: id}) })
	case p.free:
		p.over(core.Pulled{Pull: id})
	default: // stopPull waits for it
		p.ended = true
	}
}

func (l *loop) stopPull(act core.StopPull) {
	e := &l.moving
	p := e.pulls[act.Pull]
	if p == nil || e.at[p.copy] != p {
		return
	}
	delete(e.at, p.copy)
	e.x.Withdraw(p.copy, func() {
		l.agent.in.Push(item{note: func() {
			if p.free = true; p.ended {
				p.over(core.Pulled(act))
			}
		}})
	})
}

// forget forgets a pull that was answered.
func (e *exchanging) forget(id uint64) {
	if p := e.pulls[id]; p != nil && e.at[p.copy] == p {
		delete(e.at, p.copy)
	}
	delete(e.pulls, id)
}

// offer serves a dataset that another agent has asked for.
func (l *loop) offer(act core.Offer) {
	e := &l.moving
	c := transfer.Copy{Data: act.Data, Attempt: act.Attempt}
	bytes := act.Body
	var view shm.Span
	var err error
	if act.Path != "" {
		if view, err = e.mapper.View(filepath.Base(act.Path), int64(act.At), int64(act.Size)); err == nil {
			bytes = view.Bytes
		}
	}
	if err == nil {
		if err = e.x.Offer(c, bytes); err == nil {
			e.views[c] = view
			delete(e.at, c) // it has ended
			return
		}
	}
	view.Release()
	l.agent.log.Warn().Err(err).Stringer("dataset", c).Msg("cannot be served")
	l.step(core.NotOffered{Data: act.Data, Attempt: act.Attempt})
	e.x.NotHere(c, err.Error())
}

func (l *loop) notHere(act core.NotHere) {
	if x := l.moving.x; x != nil {
		x.NotHere(transfer.Copy{Data: act.Data, Attempt: act.Attempt}, act.Err)
	}
}

// withdraw ends an offer.
func (l *loop) withdraw(act core.Withdraw) {
	e := &l.moving
	c := transfer.Copy{Data: act.Data, Attempt: act.Attempt}
	view, ok := e.views[c]
	if !ok { // what the exchange has by that name is a pull
		l.agent.in.Push(item{ev: core.Withdrawn(act)})
		return
	}
	delete(e.views, c)
	e.x.Withdraw(c, func() {
		view.Release()
		l.agent.in.Push(item{ev: core.Withdrawn(act)})
	})
}

// forgetMapping lets the mappings of a segment go that is removed or gets another size.
func (l *loop) forgetMapping(path string) {
	if l.moving.mapper != nil && path != "" {
		l.moving.mapper.Forget(filepath.Base(path))
	}
}

// close ends all transfers. Nothing is stepped any more.
func (e *exchanging) close() error {
	var err error
	if e.x != nil {
		err = e.x.Close()
	}
	e.copies.Wait()
	if e.mapper == nil {
		return err
	}
	for _, v := range e.views {
		v.Release()
	}
	for _, p := range e.pulls { // of which the loop has heard no more
		err = errors.Join(err, p.lease.Close())
	}
	return errors.Join(err, e.mapper.Close())
}
