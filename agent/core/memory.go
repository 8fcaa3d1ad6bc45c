package core

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/dag"
	"github.com/cascade-run/cascade/shm/ledger"
)

// segment is what executors must know of a segment.
type segment struct {
	path  string
	size  int64
	ready bool
}

// lease is a region that an executor may write.
type lease struct {
	id    ledger.LeaseID
	req   ledger.RequestID
	place ledger.Place
	kind  ledger.Kind
	// shared: no run's own. Outputs of several runs lie in it.
	shared bool
}

// memoryPause is how long disk and memory are left alone after they were full.
const memoryPause = time.Second

// tryMemoryAgain lets the ledger use disk and memory again some time after they were full.
func (c *Core) tryMemoryAgain() {
	switch {
	case c.retryMemory.IsZero():
	case c.retryMemory.After(c.now):
		c.wakeAt(c.retryMemory)
	default:
		c.retryMemory = time.Time{}
		c.led.Retry()
		c.effects()
	}
}

// request is what a number means that was given to the ledger: one of its fields is set.
type request struct {
	run   *run            // the inputs of a run
	lease *comms.LeaseReq // a lease for ex
	ex    *executor
	fetch *fetch
	pull  *pull
	offer *offer
	read  *callRead // what a call returned, for its parent
}

// fetch is a chunk that is served to a client.
type fetch struct {
	client uint64
	req    uint64
	pins   ledger.RequestID
	msg    *comms.Chunk
	at     uint64
	n      uint64
	holds  bool // the client reads it by itself
	served bool
}

// must panics on an error of the ledger that says that this package's own
// bookkeeping is wrong: to go on would give one owner's memory to another.
func (c *Core) must(err error) {
	if err != nil {
		panic(fmt.Sprintf("agent core: %v", err))
	}
}

func (c *Core) ask(r *request, q ledger.Request) {
	c.lastReq++
	q.ID = c.lastReq
	c.requests[q.ID] = r
	c.must(c.led.Request(q))
}

// pin asks for a run's inputs to be in memory and to stay there. It tells
// whether they are already.
func (c *Core) pin(r *run) bool {
	keys := c.pinKeys(r.job, r.task)
	class := ledger.Start
	if b := c.reservation; b != nil && r.job == b.gang.job && r.gs.ganged() {
		if r.task == b.members[0] {
			keys = c.allKeys(b)
		} else {
			class = ledger.Grow // it is in memory: it takes nothing, and does not wait
		}
	}
	if len(keys) == 0 {
		r.granted = true
		return true
	}
	r.pins = c.lastReq + 1
	c.ask(&request{run: r}, ledger.Request{Owner: r.owner(), Class: class, Pins: keys})
	c.effects()
	return r.granted
}

// pinKeys lists the inputs of a task that lie in shared memory.
func (c *Core) pinKeys(j *job, t taskIndex) []ledger.Key {
	if len(j.groupOf(t).group.Inputs) == 0 || c.led.Stats().Datasets == 0 {
		return nil
	}
	ins, err := j.inputs(t)
	if err != nil {
		return nil
	}
	var keys []ledger.Key
	for _, in := range ins {
		for _, s := range in.Sources {
			if s.Kind == dag.SourceWhole || s.Kind == dag.SourceElement {
				ref := comms.DatasetRef{Task: s.Task, Output: s.Output, Element: s.Element}
				if d := j.data[ref]; d != nil && d.sealed {
					keys = append(keys, j.key(d))
				}
				continue
			}
			for _, ref := range j.expand(s) {
				if d := j.data[ref]; d != nil && d.sealed {
					keys = append(keys, j.key(d))
				}
			}
		}
	}
	return keys
}

func (c *Core) unpin(r *run) {
	if r.pins == 0 {
		return
	}
	if c.requests[r.pins] != nil {
		delete(c.requests, r.pins)
		c.must(c.led.Release(r.pins))
	}
	r.pins = 0
	c.effects()
}

// effects turns what the ledger did into actions, and passes its news on.
func (c *Core) effects() {
	for {
		list := c.led.Take()
		if len(list) == 0 {
			return
		}
		for _, e := range list {
			c.effect(e)
		}
	}
}

func (c *Core) effect(e ledger.Effect) {
	switch e := e.(type) {
	case ledger.CreateSegment:
		c.segs[e.Segment] = &segment{size: e.Bytes}
		c.memoryIO++
		c.emit(Memory{Effect: e})
	case ledger.ResizeSegment:
		c.closeSegment(e.Segment)
		c.segs[e.Segment].size, c.segs[e.Segment].ready = e.Bytes, false
		c.memoryIO++
		c.emit(Memory{Effect: e})
	case ledger.SealSegment:
		if s := c.segs[e.Segment]; s != nil {
			s.size = e.Bytes
		}
		c.emit(Memory{Effect: e})
	case ledger.RemoveSegment:
		c.closeSegment(e.Segment)
		delete(c.segs, e.Segment)
		c.emit(Memory{Effect: e})
	case ledger.Granted:
		c.grantedRequest(e)
	case ledger.Failed:
		c.failedRequest(e)
	case ledger.Lost:
		c.lost(e.Key, e.Err)
	case ledger.Spill:
		c.memoryIO++
		desc, life := c.describe(e.Key)
		c.emit(Memory{Effect: e, Desc: desc, JobIncarnation: life})
	case ledger.Enter:
		desc, life := c.describe(e.Key)
		c.emit(Memory{Effect: e, Desc: desc, JobIncarnation: life})
	case ledger.ReadBack:
		c.memoryIO++
		c.emit(Memory{Effect: e})
	case ledger.DropSpill, ledger.FreedRange, ledger.Strike:
		c.emit(Memory{Effect: e})
	case ledger.Waiting:
		c.squeezed = true
		c.refuseStanding(e.ID)
	case ledger.Revoked, ledger.Dropped, ledger.Freed:
	}
}

// closeSegment tells executors that a segment they know is going away.
func (c *Core) closeSegment(id ledger.SegmentID) {
	for _, ex := range c.execs {
		if _, ok := ex.segs[uint32(id)]; ok {
			delete(ex.segs, uint32(id))
			if ex.state != exKilled {
				c.emit(ToExecutor{ex.id, &comms.Segment{ID: uint32(id), Close: true}})
			}
		}
	}
}

// announce tells an executor of a segment before the first place that names it.
func (c *Core) announce(ex *executor, id ledger.SegmentID) {
	s := c.segs[id]
	if s == nil || ex.segs[uint32(id)] == uint64(s.size) && s.size > 0 {
		return
	}
	ex.segs[uint32(id)] = uint64(s.size)
	c.emit(ToExecutor{ex.id, &comms.Segment{ID: uint32(id), Path: s.path, Size: uint64(s.size)}})
}

func (c *Core) grantedRequest(e ledger.Granted) {
	q := c.requests[e.ID]
	switch {
	case q == nil: // its executor is dead: what that held was given to what it waited for, and may be taken back by now
		if err := c.led.Release(e.ID); !errors.Is(err, ledger.ErrUnknown) {
			c.must(err)
		}
	case q.run != nil:
		q.run.granted = true
		c.pinEnded(q.run)
	case q.fetch != nil:
		c.serve(q.fetch, e.Pins[0])
	case q.pull != nil:
		c.pullGranted(q.pull, &e)
	case q.offer != nil:
		c.offerGranted(q.offer, e.Pins[0].Place)
	case q.read != nil:
		c.readGranted(q.read, e.Pins[0].Place)
	case q.lease != nil:
		q.ex.wants--
		l := &lease{id: e.Leases[0].ID, req: e.ID, place: e.Leases[0].Place, kind: e.Leases[0].Kind, shared: q.lease.Run == 0}
		q.ex.leases = append(q.ex.leases, l)
		if l.kind == ledger.Output { // only the command makes the file
			dir := ""
			if q.ex.hello != nil {
				dir = q.ex.hello.ShmDir
			}
			c.segs[l.place.Segment] = &segment{path: fmt.Sprintf("%s/%s%d", dir, l.kind.String()[:1], l.place.Segment), ready: true}
		}
		path := ""
		if s := c.segs[l.place.Segment]; s != nil {
			path = s.path
		}
		c.emit(ToExecutor{q.ex.id, &comms.Lease{Token: q.lease.Token, Segment: uint32(l.place.Segment), Path: path,
			Offset: uint64(l.place.Offset), Size: uint64(l.place.Bytes)}})
	}
}

func (c *Core) failedRequest(e ledger.Failed) {
	q := c.requests[e.ID]
	if q == nil {
		return
	}
	delete(c.requests, e.ID)
	switch {
	case q.run != nil:
		q.run.pinErr = e.Err
		q.run.pins = 0
		c.pinEnded(q.run)
	case q.fetch != nil:
		c.refuseFetch(q.fetch, e.Err)
	case q.pull != nil:
		c.pullRefused(q.pull, e.Err)
	case q.offer != nil:
		c.offerFailed(q.offer, e.Err)
	case q.read != nil:
		c.readFailed(q.read, e.Err.Error())
	case q.lease != nil:
		q.ex.wants--
		c.emit(ToExecutor{q.ex.id, &comms.Lease{Token: q.lease.Token, Error: e.Err.Error()}})
	}
}

// pinEnded moves a run whose pins were waited for to those that can be placed.
func (c *Core) pinEnded(r *run) {
	if t := r.job.at(r.task); t.state == tPinning {
		c.pinning--
		c.pinned = append(c.pinned, r)
	}
}

// leaseReq asks the ledger for room for an executor's outputs. A file without a
// size is one that a command makes itself.
func (c *Core) leaseReq(ex *executor, m *comms.LeaseReq) {
	owner, kind := ex.owner(), ledger.Arena
	if r := c.runAt(ex, m.Run); r != nil {
		owner = r.owner()
	}
	switch {
	case m.File && m.Size == 0:
		kind = ledger.Output
	case m.File:
		kind = ledger.File
	}
	if m.Size > 1<<62 {
		c.emit(ToExecutor{ex.id, &comms.Lease{Token: m.Token, Error: fmt.Sprintf("%d bytes: %v", m.Size, ledger.ErrTooLarge)}})
		return
	}
	if standing(m) && int64(m.Size) >= cmp.Or(c.cfg.LargeBytes, c.cfg.ArenaBytes/8) {
		// It would be a file, which takes one dataset only; and the store is so small that others would wait for it.
		c.emit(ToExecutor{ex.id, &comms.Lease{Token: m.Token, Error: errShort.Error()}})
		return
	}
	ex.wants++
	c.ask(&request{lease: m, ex: ex}, ledger.Request{Owner: owner, Class: ledger.Grow, Leases: []ledger.LeaseSpec{{Bytes: int64(m.Size), Kind: kind}}})
	c.effects()
}

// refuseStanding refuses a standing lease that would have to wait: it asks for more
// than the output needs for which the executor wants it, and what it waits for may
// be that very run's inputs. The executor then asks for what it needs.
func (c *Core) refuseStanding(id ledger.RequestID) {
	q := c.requests[id]
	if q == nil || q.lease == nil || !standing(q.lease) {
		return
	}
	c.must(c.led.Release(id))
	c.failedRequest(ledger.Failed{ID: id, Err: errShort})
}

var errShort = errors.New("memory is short")

// standing tells whether a lease is asked for to be shared by the outputs of several runs.
func standing(m *comms.LeaseReq) bool { return m.Run == 0 && !m.File }

// leaseAt finds the lease of an executor that holds a place. Leases may be
// neighbours: one ends before the first byte of the next.
func (ex *executor) leaseAt(segment uint32, offset uint64) (*lease, int) {
	for i, l := range ex.leases {
		from, to := uint64(l.place.Offset), uint64(l.place.Offset+l.place.Bytes)
		if uint32(l.place.Segment) == segment && offset >= from && (offset < to || from == to) {
			return l, i
		}
	}
	return nil, -1
}

// seal makes a dataset final that an executor wrote into one of its leases.
func (c *Core) seal(ex *executor, k ledger.Key, d comms.Desc) error {
	l, i := ex.leaseAt(d.Place.Segment, d.Place.Offset)
	if l == nil || d.Size > 1<<62 {
		return fmt.Errorf("it published bytes %d+%d of segment %d, which it does not lease", d.Place.Offset, d.Size, d.Place.Segment)
	}
	if err := c.led.Seal(l.id, k, int64(d.Place.Offset), int64(d.Size), 1); err != nil {
		return err
	}
	if l.kind != ledger.Arena { // a file's lease ends with its one dataset
		c.forgetLease(ex, i)
	}
	c.effects()
	return nil
}

// discard releases the memory of a dataset that is not needed, or that is there already.
func (c *Core) discard(r *run, d comms.Desc) error {
	if d.Place.Kind != comms.PlaceSegment {
		return nil
	}
	l, i := r.ex.leaseAt(d.Place.Segment, d.Place.Offset)
	if l == nil {
		return fmt.Errorf("it published bytes %d+%d of segment %d, which it does not lease", d.Place.Offset, d.Size, d.Place.Segment)
	}
	if l.kind != ledger.Arena {
		c.must(c.led.CloseLease(l.id, 0))
		c.forgetLease(r.ex, i)
		c.effects()
	}
	return nil
}

// leaseReturn ends a lease; m names what of it was not used, which may be nothing
// and reaches to its end.
func (c *Core) leaseReturn(ex *executor, m *comms.Lease) {
	i := slices.IndexFunc(ex.leases, func(l *lease) bool {
		return uint32(l.place.Segment) == m.Segment && uint64(l.place.Offset+l.place.Bytes) == m.Offset+m.Size && m.Offset >= uint64(l.place.Offset)
	})
	if i < 0 {
		return // sealed files are returned by their sealing
	}
	l := ex.leases[i]
	c.must(c.led.CloseLease(l.id, int64(m.Offset)-l.place.Offset))
	c.forgetLease(ex, i)
	c.effects()
}

func (c *Core) forgetLease(ex *executor, i int) {
	req := ex.leases[i].req
	ex.leases = slices.Delete(ex.leases, i, i+1)
	delete(c.requests, req)
	c.must(c.led.Release(req))
}

// endLeases ends all that a dead executor held or waited for.
func (c *Core) endLeases(ex *executor, runs []*run) {
	var ids []ledger.RequestID
	for id, q := range c.requests {
		if q.ex == ex {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	for _, id := range ids {
		delete(c.requests, id)
		c.must(c.led.Release(id))
	}
	ex.leases = nil
	c.effects() // what was granted by that, perhaps to these runs, is known before they end
	for _, r := range runs {
		delete(c.requests, r.pins)
		for _, id := range r.more {
			delete(c.requests, id)
		}
		r.pins, r.more = 0, nil
		c.led.OwnerDead(r.owner())
	}
	c.effects()
}

// memoryAnswer passes the segments' driver's answers to the ledger.
func (c *Core) memoryAnswer(ev Event) {
	var err error
	switch ev := ev.(type) {
	case SegmentReady:
		id := ledger.SegmentID(ev.Segment)
		if ev.Err != nil {
			c.retryMemory = c.now.Add(memoryPause)
			err = c.led.SegmentFailed(id, ev.Err)
			break
		}
		if s := c.segs[id]; s != nil {
			s.path, s.ready = ev.Path, true
		}
		err = c.led.SegmentReady(id)
	case SpillDone:
		if ev.Err != nil {
			c.retryMemory = c.now.Add(memoryPause)
			err = c.led.SpillFailed(ev.Key, ev.Err)
			break
		}
		if err = c.led.SpillDone(ev.Key); err == nil {
			c.noteSpilled(ev.Key)
		}
	case ReadBackDone:
		if ev.Err != nil {
			err = c.led.ReadBackFailed(ev.Key, ev.Err)
			break
		}
		err = c.led.ReadBackDone(ev.Key)
	}
	c.memoryIO = max(0, c.memoryIO-1)
	if err != nil && !errors.Is(err, ledger.ErrState) { // ErrState: a second copy of an answer
		c.must(err)
	}
	c.effects()
}

func (c *Core) noteSpilled(k ledger.Key) {
	j, d := c.dataset(k)
	if d == nil || d.copy { // of a copy its maker says nothing either
		return
	}
	ref := d.desc.Ref
	c.note(j, comms.Event{Kind: comms.EventSpilled, Task: ref.Task, Attempt: d.desc.Attempt,
		Cause: comms.Cause{Kind: comms.CauseMemory, Ref: ref}, Output: ref.Output, Count: d.desc.Size})
}
