package core

import (
	"fmt"
	"slices"

	"github.com/cascade-run/cascade/shm/ledger"
)

// reservation is resources that are held back until all of them are there, for tasks
// that start together. There is one at a time on an agent, so that no two can
// each have a part of what both need: tasks that end release to it what it lacks,
// and nothing else gets that.
type reservation struct {
	id      uint64 // of its request for ports
	gang    *gang
	members []taskIndex // those that are here
	need    amounts     // of all of them
	held    amounts
	full    bool        // held is need
	crew    []*executor // idle or starting, kept for it
	ports   []uint16
	asked   bool // the driver looks for ports
	whole   bool // all is held, of a gang that spans agents
	bound   bool // the controller was told that all is held, and says what becomes of it
	void    bool // it is to be dropped
}

// newReservation begins to hold back what the members of a gang need that are here.
func (c *Core) newReservation(g *gang) {
	c.lastReservation++
	b := &reservation{id: c.lastReservation, gang: g, members: g.here(), need: make(amounts, len(c.total)), held: make(amounts, len(c.total))}
	for i, n := range g.gs.need {
		b.need[i] = n * int64(len(b.members))
	}
	c.reservation = b
}

// dropReservation releases all that the reservation holds.
func (c *Core) dropReservation() {
	b := c.reservation
	if b == nil {
		return
	}
	c.reservation = nil
	c.empty(b)
	c.returnPorts(b.ports)
}

// empty releases what a reservation holds but for its ports.
func (c *Core) empty(b *reservation) {
	c.letGo(b)
	b.full, b.whole, b.crew = false, false, nil
	for _, t := range b.members {
		if r := c.placeless(b.gang.job, t); r != nil {
			c.dropUnplaced(b.gang.job, t)
			b.gang.job.at(t).state = tWaiting
			c.reassess(b.gang.job, t, r.cause)
		}
	}
}

// letGo releases the resources and executors of a reservation.
func (c *Core) letGo(b *reservation) {
	for i := range b.held {
		if !ofDevices(i) {
			c.free[i] += b.held[i]
		}
		b.held[i] = 0
	}
	for _, ex := range b.crew {
		ex.crew = false
	}
}

// holdBack takes what a reservation lacks, as far as it is free, and tells whether it has
// all; devices by executors that have them. While a generator waits for its consumers, or a run for its calls, it takes all or nothing: these
// may need what it would hold back from them for ever.
func (c *Core) holdBack(b *reservation) bool {
	b.full = true
	for i, n := range b.need {
		b.full = b.full && (ofDevices(i) || n-b.held[i] <= c.free[i])
	}
	want := demandOf(b.gang.gs.need)
	if could := b.full && c.meets(want, len(b.members)-len(b.crew)); !could && c.othersWait() {
		b.full = false
		return false
	}
	for i, n := range b.need {
		if ofDevices(i) {
			continue
		}
		d := min(n-b.held[i], c.free[i])
		b.held[i] += d
		c.free[i] -= d
	}
	if !want.none() {
		c.man(b)
		b.held[resGPU] = want.gpu * int64(len(b.crew))
		b.full = b.full && len(b.crew) == len(b.members)
	}
	return b.full
}

// lacking are the resources that the reservation still waits for; nil when there is none, or it waits
// for no part of it. No other task gets more of it: an executor that was given one
// task after the other would never release it.
func (c *Core) lacking() amounts {
	b := c.reservation
	if b == nil || b.full || c.othersWait() {
		return nil
	}
	lack := make(amounts, len(b.need))
	for i := range lack {
		if i != resGPUMemory { // no executor has it without a device
			lack[i] = b.need[i] - b.held[i]
		}
	}
	return lack
}

// othersWait tells whether a generator waits for its consumers, or a run for its calls, that may need what a gang holds.
func (c *Core) othersWait() bool {
	return slices.ContainsFunc(c.generators, func(r *run) bool { return r.back && !r.awaits() }) || c.waitingRuns() > 0 && !c.standStill()
}

// standStill tells whether all runs wait for calls, and none of these can go on, here or elsewhere: they read what
// another try of their caller brings. That may be a member of the gang that gives way to them.
func (c *Core) standStill() bool {
	if c.squeezed || len(c.away)+len(c.strange)+len(c.submits.open)+c.delayed.Len() > 0 {
		return false
	}
	for _, r := range c.runs {
		if reserved := r.ex == nil && r.gs.ganged(); !reserved && !r.awaits() {
			return false
		}
	}
	return !slices.ContainsFunc(c.lines, func(l *line) bool { return l.calls > 0 })
}

// yieldReservation gives what the reservation holds to those for whom others wait, and
// tells whether it has: they come before it then. It keeps its ports, which have no
// other use: were they leased anew each time, the answer would have it yield and ask
// again for ever.
func (c *Core) yieldReservation() bool {
	if !c.yields() || !c.othersWait() {
		return false
	}
	c.empty(c.reservation)
	return true
}

// yields tells whether the reservation gives way to those for whom others wait: no more when all
// that it still lacks is executors and ports, which come; but of a gang that waits for other agents too.
func (c *Core) yields() bool {
	b := c.reservation
	return b != nil && !b.bound && (b.gang.spans() || !b.full || !c.allPinned(b))
}

// man gets an executor for each member, beyond the limit on executors if need be,
// and tells whether all are there; as many as there are devices for.
func (c *Core) man(b *reservation) bool {
	p := c.poolOf(b.gang.gs.class)
	b.crew = slices.DeleteFunc(b.crew, func(ex *executor) bool { return ex.state > exUp || c.byExec[ex.id] != ex })
	take := func(ex *executor) {
		ex.crew = true
		b.crew = append(b.crew, ex)
	}
	for _, ex := range p.execs {
		if len(b.crew) < len(b.members) && ex.state <= exUp && !ex.crew && !ex.full && len(ex.queue) == 0 {
			take(ex)
		}
	}
	for len(b.crew) < len(b.members) && c.equipped(p, len(b.members)-len(b.crew)) {
		take(c.spawn(p))
	}
	return len(b.crew) == len(b.members) && !slices.ContainsFunc(b.crew, func(ex *executor) bool { return ex.state != exUp || ex.full })
}

// lease asks the driver for a port for each member, and tells whether they are there.
func (c *Core) lease(b *reservation) bool {
	if !b.asked {
		b.asked = true
		c.emit(LeasePorts{ID: b.id, N: len(b.members)})
	}
	return b.ports != nil
}

func (c *Core) portsLeased(ev PortsLeased) {
	b := c.reservation
	if b == nil || b.id != ev.ID {
		c.returnPorts(ev.Ports)
		return
	}
	if len(ev.Ports) == len(b.members) {
		b.ports = ev.Ports
		return
	}
	c.returnPorts(ev.Ports)
	g := b.gang
	c.dropReservation()
	c.refuseGang(g, fmt.Sprintf("%d ports for the members of a gang: %s", len(b.members), ev.Err))
}

func (c *Core) returnPorts(ports []uint16) {
	if len(ports) > 0 {
		c.emit(ReturnPorts{Ports: ports})
	}
}

// pinAll brings the inputs of all members into memory, and tells whether they
// are there. The first member asks for those of all, so that they come together:
// two gangs, or a gang and others, that each had a part would wait for each other.
func (c *Core) pinAll(b *reservation) bool {
	j := b.gang.job
	for _, t := range b.members {
		r := c.placeless(j, t)
		if r == nil {
			if (c.growing() || c.squeezed && c.othersWait()) && len(c.pinKeys(j, t)) > 0 {
				return false // what runs waits for memory, itself or in what it has called
			}
			r = c.newRun(j, t, j.cause(b.gang.ready[t]))
			there := c.pin(r)
			j.at(t).state = tPinning // only now: what the ledger answers later finds it there
			if there || r.pinErr != nil {
				c.pinned = append(c.pinned, r)
			} else {
				c.pinning++
			}
		}
		at := slices.Index(c.pinned, r)
		if at < 0 {
			c.unpinOthers()
			return false
		}
		if r.pinErr != nil {
			c.pinned = slices.Delete(c.pinned, at, at+1)
			c.pinFailed(r)
			c.dropReservation()
			return false
		}
	}
	return true
}

// unpinOthers unpins the inputs of runs that wait for an executor while the
// members of a gang, which have the resources for one, wait for memory.
func (c *Core) unpinOthers() {
	for _, r := range slices.Clone(c.pinned) {
		if i := slices.Index(c.pinned, r); i >= 0 && c.squeezed && !r.gs.ganged() && r.pinErr == nil && !r.orphan {
			c.pinned = slices.Delete(c.pinned, i, i+1)
			c.dropRun(r)
			r.job.at(r.task).state = tWaiting
			c.reassess(r.job, r.task, r.cause)
		}
	}
}

// allPinned tells whether the inputs of all members are in memory.
func (c *Core) allPinned(b *reservation) bool {
	return !slices.ContainsFunc(b.members, func(t taskIndex) bool {
		r := c.placeless(b.gang.job, t)
		return r == nil || !slices.Contains(c.pinned, r)
	})
}

// placeless returns the run of a task that has no executor yet; nil when there is none.
func (c *Core) placeless(j *job, t taskIndex) *run {
	if j.at(t).state != tPinning {
		return nil
	}
	for _, r := range c.runs {
		if r.job == j && r.task == t && r.ex == nil && !r.orphan {
			return r
		}
	}
	return nil
}

// allKeys lists the inputs that lie in shared memory of all members of a reservation.
func (c *Core) allKeys(b *reservation) (keys []ledger.Key) {
	for _, t := range b.members {
		for _, k := range c.pinKeys(b.gang.job, t) {
			if !slices.Contains(keys, k) {
				keys = append(keys, k)
			}
		}
	}
	return keys
}
