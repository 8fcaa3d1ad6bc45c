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

// Datasets of other agents are fetched before their consumers are ready, in the order
// in which they are needed (see needs). A fetch waits for memory like what a run needs;
// while memory is short there is one at a time.

const (
	pullAgain = 50 * time.Millisecond // before a fetch that failed is tried again, doubled each time up to 64 times
	pullTries = 20                    // in about a minute, after which the controller is asked
	callTries = 7                     // in about three seconds, after which a call runs where its inputs are
)

// pull is one fetch, from the request for room to the end of the last byte.
type pull struct {
	id    uint64
	h     *heard // nil when it is not needed any more
	req   ledger.RequestID
	lease ledger.Lease
	bytes int64
	sent  bool      // the driver writes into the lease
	local bool      // it is copied on this host: that says nothing of the network
	at    time.Time // since when
}

// startPulls asks for room for what is to be fetched.
func (c *Core) startPulls() {
	c.wakePulls()
	for h := c.nextPull(); h != nil && c.mayPull(h); h = c.nextPull() {
		c.unwant(h)
		c.askRoom(h)
	}
}

// mayPull tells whether one more fetch may ask for memory: while others are on
// their way only as long as there is plenty. One that was given up waits for a moment
// in which none is under way, however many take turns: only then unstick looks at what
// else waits for memory.
func (c *Core) mayPull(h *heard) bool {
	if due := c.barren.Add(pullAgain); h.yields > 0 && due.After(c.now) {
		c.wakeAt(due)
		return false
	}
	if len(c.pulls) == 0 {
		return true
	}
	s, size := c.led.Stats(), int64(h.desc.Size)
	return s.Waiting == 0 && c.pulling+size <= c.cfg.Memory/4 && s.Held+size <= c.cfg.Memory/4*3
}

func (c *Core) askRoom(h *heard) {
	ref := h.desc.Ref
	if h.desc.Size > 1<<62 {
		c.tooLarge(h, ledger.ErrTooLarge)
		return
	}
	var pins []ledger.Key
	if h.origin != nil {
		key, here := c.originOf(h.origin)
		if !here {
			h.tries = pullTries // no other agent has it
			c.pullLater(h, "it is not here any more")
			return
		}
		pins = append(pins, key)
	}
	kind := ledger.Arena
	if h.job.groupOf(ref.Task).file[ref.Output] {
		kind = ledger.File
	}
	c.lastPull++
	p := &pull{id: c.lastPull, h: h, bytes: int64(h.desc.Size), local: h.origin != nil}
	p.req = c.lastReq + 1
	h.pull, h.state = p, hearRoom
	c.pulls[p.id] = p
	c.pulling += p.bytes
	c.ask(&request{pull: p}, ledger.Request{Owner: ledger.Owner(3)<<62 | ledger.Owner(p.id), Class: ledger.Start,
		Pins: pins, Leases: []ledger.LeaseSpec{{Bytes: p.bytes, Kind: kind}}})
	c.effects()
}

// pullGranted sends for a dataset for which there is room. The dataset that it is to
// be a copy of is pinned with it.
func (c *Core) pullGranted(p *pull, e *ledger.Granted) {
	l := e.Leases[0]
	p.lease, p.sent, p.at = l, true, c.now
	p.h.state = hearPulled
	file := func(id ledger.SegmentID) string {
		if s := c.segs[id]; s != nil {
			return s.path
		}
		return ""
	}
	path := file(l.Place.Segment)
	if p.h.origin != nil {
		from := e.Pins[0].Place
		c.emit(Copy{ID: p.id, From: file(from.Segment), FromAt: uint64(from.Offset), Path: path, At: uint64(l.Place.Offset), Size: p.h.desc.Size})
		return
	}
	c.emit(Pull{ID: p.id, Data: p.h.name(), Attempt: p.h.attempt(), JobIncarnation: p.h.job.life,
		Size: p.h.desc.Size, From: slices.Clone(p.h.from), Path: path, At: uint64(l.Place.Offset)})
}

// pullRefused takes the ledger's word that there is no room.
func (c *Core) pullRefused(p *pull, err error) {
	h := p.h
	c.closePull(p)
	if h == nil {
		return
	}
	h.pull, h.state = nil, hearTold
	defer c.answerAsked(h)
	if errors.Is(err, ledger.ErrTooLarge) {
		c.tooLarge(h, err)
		return
	}
	h.due = c.now.Add(memoryPause)
	c.wantPull(h)
}

// giveUpPulls tells whether something is being fetched. When nothing else moves here,
// and (since, if that was so before) anything waits for memory, what its holder has
// not sent in time is given up and fetched again later, each time with twice the patience:
// the holder may wait for memory that a fetch from here holds. The driver does not
// tell how far a fetch is: its time is that of its bytes, at half of the speed at
// which datasets came before, and the patience.
func (c *Core) giveUpPulls(since time.Time) bool {
	var sent []*pull
	for _, p := range c.pulls {
		if p.sent {
			sent = append(sent, p)
		}
	}
	if len(sent) == 0 {
		return false
	}
	if c.led.Stats().Waiting == 0 {
		c.pullBeyond(sent)
		return true
	}
	if c.missed = since; since.IsZero() {
		c.missed = c.now
	}
	slices.SortFunc(sent, func(a, b *pull) int { return cmp.Compare(a.id, b.id) })
	for _, p := range sent {
		h := p.h
		if h == nil || p.local {
			continue // its end is on its way
		}
		from := c.missed
		if p.at.After(from) {
			from = p.at
		}
		if due := from.Add(awayPatience<<min(h.yields, 10) + 2*c.transferTime(p.bytes)); due.After(c.now) {
			c.wakeAt(due)
			continue
		}
		h.yields++
		c.forgetPull(h)
		h.due = c.now.Add(pullAgain)
		c.wantPull(h)
	}
	return true
}

// transferTime estimates how long bytes take from another agent.
func (c *Core) transferTime(bytes int64) time.Duration {
	speed := c.bandwidth.value
	if speed <= 0 {
		speed = unknownSpeed
	}
	return time.Duration(min(float64(bytes)/speed, maxTransfer.Seconds()) * float64(time.Second))
}

const (
	unknownSpeed = 100e6     // bytes a second, before anything came
	maxTransfer  = time.Hour // of an estimate
)

// pullBeyond lets one more fetch ask for memory than mayPull does, when for a second
// none has begun: the holder of what was sent for may wait for what this one is for.
func (c *Core) pullBeyond(sent []*pull) {
	h := c.nextPull()
	if h == nil {
		return
	}
	last := slices.MaxFunc(sent, func(a, b *pull) int { return a.at.Compare(b.at) })
	if due := last.at.Add(awayPatience); due.After(c.now) {
		c.wakeAt(due)
		return
	}
	c.unwant(h)
	c.askRoom(h)
}

func (c *Core) closePull(p *pull) {
	delete(c.pulls, p.id)
	c.pulling -= p.bytes
}

// endPull releases what a fetch holds.
func (c *Core) endPull(p *pull) {
	c.closePull(p)
	if c.requests[p.req] != nil {
		delete(c.requests, p.req)
		c.must(c.led.Release(p.req))
		c.effects()
	}
}

// forgetPull ends a fetch that is not needed any more. Memory that the driver writes
// into stays its until it says that it does so no more.
func (c *Core) forgetPull(h *heard) {
	p := h.pull
	if p == nil {
		return
	}
	h.pull, p.h = nil, nil
	defer c.answerAsked(h)
	if h.state = hearTold; p.sent {
		c.emit(StopPull{p.id})
		return
	}
	c.endPull(p)
}

// pulled makes a dataset of what was fetched.
func (c *Core) pulled(id uint64) {
	p := c.pulls[id]
	if p == nil || !p.sent {
		return
	}
	if !p.local {
		c.came(p.bytes, c.now.Sub(p.at))
	}
	h := p.h
	if h == nil || h.job.peers == nil {
		c.endPull(p)
		return
	}
	j, ref := h.job, h.desc.Ref
	h.pull = nil
	defer c.answerAsked(h)
	d := &dataset{desc: h.desc, sealed: true, given: true, copy: true}
	d.desc.Place = comms.Place{Kind: comms.PlaceSegment, Segment: uint32(p.lease.Place.Segment), Offset: uint64(p.lease.Place.Offset)}
	// It is known before the ledger looks for room: a spill must find its descriptor.
	j.peers.old[ref] = d
	err := c.led.Seal(p.lease.ID, j.key(d), p.lease.Place.Offset, int64(d.desc.Size), 1)
	if err != nil { // the same copy, freed before, is still being read
		delete(j.peers.old, ref)
		c.endPull(p)
		c.pullLater(h, err.Error())
		return
	}
	c.endPull(p)
	if h.stale {
		h.state, j.peers.unsure = hearTold, true // it waits with the copies of the epoch before
		c.dropUnsure(j)
		return
	}
	if j.peers.old[ref] == d {
		delete(j.peers.old, ref)
		c.arrived(j, h, d)
		if j.dyn != nil {
			c.fetched(rowRef{j, ref.Task}, ref)
		}
	}
}

// pullFailed tries again, and in the end tells the controller that no agent has it.
func (c *Core) pullFailed(ev PullFailed) {
	p := c.pulls[ev.Pull]
	if p == nil || !p.sent {
		return
	}
	h := p.h
	c.barren = c.now
	c.endPull(p)
	if h == nil || h.job.peers == nil {
		return
	}
	h.pull = nil
	c.pullLater(h, ev.Err)
	c.answerAsked(h)
}

func (c *Core) pullLater(h *heard, why string) {
	j := h.job
	h.state = hearTold
	if h.stale {
		return
	}
	if h.tries++; h.tries < pullTries && (!j.dynamic() || h.tries < callTries) {
		h.due = c.now.Add(pullAgain << min(h.tries-1, 6))
		c.wantPull(h)
		return
	}
	if j.dynamic() {
		c.fetchFailed(h, why)
		return
	}
	ref := h.desc.Ref
	h.state = hearLost
	c.expect(h, false)
	c.note(j, comms.Event{Kind: comms.EventLost, Task: ref.Task, Attempt: h.desc.Attempt, Output: ref.Output,
		Cause: comms.Cause{Kind: comms.CauseSubmit, Ref: ref, Text: fmt.Sprintf("it could not be fetched from %v: %s", h.from, why)}})
}

// tooLarge fails the consumers of a dataset for which this host is too small.
func (c *Core) tooLarge(h *heard, err error) {
	j, ref := h.job, h.desc.Ref
	if j.dynamic() {
		c.fetchFailed(h, err.Error())
		return
	}
	h.state = hearLost
	fail := func(t taskIndex) {
		if int(t) < len(j.tasks) && j.tasks[t].state == tWaiting {
			c.fail(j, t, nil, &comms.TaskError{Kind: comms.ErrorMemory, Message: fmt.Sprintf("its input %s of %d bytes: %v", j.taskName(ref.Task), h.desc.Size, err)},
				comms.Cause{Kind: comms.CauseDataset, Ref: ref}, true)
		}
	}
	edges := ofOutput(j.edgesOf(ref.Task), ref.Output)
	generated := j.groupOf(ref.Task).group.Outputs[ref.Output].Generate != dag.GenerateNone
	for i := range edges {
		if !generated || edges[i].Kind == dag.SourceStream || edges[i].Element == ref.Element {
			fail(edges[i].Consumer)
		}
	}
	for _, s := range j.graph.SlotConsumers(ref.Task, ref.Output) {
		for i := j.static + s; i < len(j.tasks); i += len(j.slots) {
			fail(taskIndex(i))
		}
	}
}

// offer is a dataset of this agent that others fetch: its bytes stay in memory
// while they do.
type offer struct {
	key       offerKey
	req       ledger.RequestID
	offered   bool
	idle      bool
	withdrawn bool // the driver was told to end it
	again     bool // and an agent has asked for it since
}

type offerKey struct {
	data    comms.DatasetID
	attempt uint32
}

// wantedBy brings a dataset into memory that another agent wants to fetch.
func (c *Core) wantedBy(ev Wanted) {
	k := offerKey{ev.Data, ev.Attempt}
	if o := c.offers[k]; o != nil && !o.withdrawn {
		o.idle = false
		return
	}
	refuse := func(why string) { c.emit(NotHere{Data: ev.Data, Attempt: ev.Attempt, Err: why}) }
	key := Key(ev.Data.Job, &comms.Desc{Ref: ev.Data.DatasetRef, Attempt: ev.Attempt})
	j := c.byJob[ev.Data.Job]
	if j == nil && c.loans[key] == nil {
		refuse(fmt.Sprintf("job %s is not on agent %s", ev.Data.Job, c.cfg.Agent))
		return
	}
	var d *dataset
	if j != nil {
		d = j.data[ev.Data.DatasetRef]
	}
	if l := c.loans[key]; l != nil && !l.lost && (d == nil || d.desc.Attempt != ev.Attempt) {
		d = &dataset{desc: l.desc, sealed: true, lent: l} // only arguments of calls hold it
	}
	switch {
	case d == nil && j.coming(ev): // pulled answers
	case d == nil || d.desc.Attempt != ev.Attempt:
		refuse(fmt.Sprintf("dataset %s of attempt %d is not on agent %s", ev.Data, ev.Attempt, c.cfg.Agent))
	case c.offers[k] != nil:
		c.offers[k].again = true // withdrawn answers
	case !d.sealed:
		c.offers[k] = &offer{key: k, offered: true}
		c.emit(Offer{Data: ev.Data, Attempt: ev.Attempt, Body: d.desc.Place.Bytes, Size: d.desc.Size})
	default:
		o := &offer{key: k, req: c.lastReq + 1}
		c.offers[k] = o
		if d.lent != nil {
			key = d.lent.key // a dataset of a graph that a task has given it
		}
		class := ledger.Start
		if info, _ := c.led.Dataset(key); info.State != ledger.Spilled {
			class = ledger.Grow // it takes nothing, and does not wait: what runs here may wait for the agent that fetches it
		}
		c.ask(&request{offer: o}, ledger.Request{Owner: ledger.Owner(3)<<62 | 1<<61 | ledger.Owner(o.req), Class: class, Pins: []ledger.Key{key}})
		c.effects()
	}
}

func (c *Core) offerGranted(o *offer, p ledger.Place) {
	o.offered = true
	path := ""
	if s := c.segs[p.Segment]; s != nil {
		path = s.path
	}
	c.emit(Offer{Data: o.key.data, Attempt: o.key.attempt, Path: path, At: uint64(p.Offset), Size: uint64(p.Bytes)})
	if c.loans[Key(o.key.data.Job, &comms.Desc{Ref: o.key.data.DatasetRef, Attempt: o.key.attempt})] != nil {
		return
	}
	j := c.byJob[o.key.data.Job]
	if j == nil || j.data[o.key.data.DatasetRef] == nil || j.data[o.key.data.DatasetRef].desc.Attempt != o.key.attempt {
		c.withdraw(o) // it was freed while it came into memory
	}
}

func (c *Core) offerFailed(o *offer, err error) {
	delete(c.offers, o.key)
	c.emit(NotHere{Data: o.key.data, Attempt: o.key.attempt, Err: err.Error()})
}

// unwanted notes that no agent fetches a dataset just now. It stays offered while its
// memory is not needed.
func (c *Core) unwanted(ev Unwanted) {
	if o := c.offers[offerKey{ev.Data, ev.Attempt}]; o != nil {
		o.idle = true
	}
}

// withdrawIdle ends unused offers, of all datasets or of one.
func (c *Core) withdrawIdle() {
	if len(c.offers) == 0 {
		return
	}
	var all []*offer
	for _, o := range c.offers {
		if o.idle && o.offered && !o.withdrawn {
			all = append(all, o)
		}
	}
	slices.SortFunc(all, func(a, b *offer) int { return cmp.Compare(a.req, b.req) })
	for _, o := range all {
		c.withdraw(o)
	}
}

func (c *Core) withdraw(o *offer) {
	o.withdrawn = true
	c.emit(Withdraw{Data: o.key.data, Attempt: o.key.attempt})
}

// freedOffer ends the offer of a dataset that was freed, unless arguments of calls hold it.
func (c *Core) freedOffer(j *job, d *dataset) {
	if len(c.offers) > 0 && (!d.sealed || c.loans[j.key(d)] == nil) {
		c.endOfferOf(j.id, &d.desc)
	}
}

// endOfferOf ends the offer of a dataset that is named so.
func (c *Core) endOfferOf(id comms.JobID, d *comms.Desc) {
	if o := c.offers[offerKey{comms.DatasetID{Job: id, DatasetRef: d.Ref}, d.Attempt}]; o != nil && o.offered && !o.withdrawn {
		c.withdraw(o)
	}
}

// notOffered ends an offer that could not be served, so that it is tried again
// for who asks next.
func (c *Core) notOffered(ev NotOffered) {
	if o := c.offers[offerKey{ev.Data, ev.Attempt}]; o != nil && !o.withdrawn {
		o.withdrawn = true
		c.withdrawn(Withdrawn(ev))
	}
}

// withdrawn ends the pin of an offer: its bytes have no reader any more.
func (c *Core) withdrawn(ev Withdrawn) {
	k := offerKey{ev.Data, ev.Attempt}
	o := c.offers[k]
	if o == nil || !o.withdrawn {
		return
	}
	delete(c.offers, k)
	if c.requests[o.req] != nil {
		delete(c.requests, o.req)
		c.must(c.led.Release(o.req))
		c.effects()
	}
	if o.again {
		c.wantedBy(Wanted(ev))
	}
}

// coming notes that another agent asks for a copy that is just being fetched, if it is.
func (j *job) coming(ev Wanted) bool {
	if j.peers == nil {
		return false
	}
	h := j.peers.heard[ev.Data.DatasetRef]
	if h == nil || h.desc.Attempt != ev.Attempt || h.pull == nil {
		return false
	}
	h.asked = true
	return true
}

// answerAsked answers those who asked for a copy while it was being fetched.
func (c *Core) answerAsked(h *heard) {
	if h.asked {
		h.asked = false
		c.wantedBy(Wanted{Data: comms.DatasetID{Job: h.job.id, DatasetRef: h.desc.Ref}, Attempt: h.desc.Attempt})
	}
}
