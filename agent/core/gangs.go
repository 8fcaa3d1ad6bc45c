package core

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/cascade-run/cascade/comms"
)

// gang is tasks that start together. Its members are size tasks from first on;
// their order is that of their ranks.
type gang struct {
	job    *job
	gs     *groupState
	first  taskIndex
	size   int
	ready  map[taskIndex]entry // of members that were made ready, why
	listed bool                // in Core.gangs
	span   span                // when other agents have members, too
}

// member is what a run knows of its gang.
type member struct {
	rank    int
	members []string // host:port of each, by rank
	port    uint16
}

// ganged tells whether the tasks of a group are members of gangs.
func (gs *groupState) ganged() bool { return gs.group.Gang != 0 }

// gangOf returns the gang of a task of a group that has gangs.
func (j *job) gangOf(t taskIndex) *gang {
	first, size := j.graph.GangOf(t)
	g := j.gangs[first]
	if g == nil {
		g = &gang{job: j, gs: j.groupOf(t), first: first, size: size, ready: map[taskIndex]entry{}}
		if j.gangs == nil {
			j.gangs = map[taskIndex]*gang{}
		}
		j.gangs[first] = g
	}
	return g
}

// all lists the members.
func (g *gang) all() []taskIndex {
	out := make([]taskIndex, g.size)
	for i := range out {
		out[i] = g.first + taskIndex(i)
	}
	return out
}

// here lists the members that are this agent's.
func (g *gang) here() []taskIndex {
	return slices.DeleteFunc(g.all(), func(t taskIndex) bool { return !g.job.hasMember(t) })
}

// complete tells whether all members that are here could start.
func (g *gang) complete() bool {
	here := g.here()
	return g.job.stopped == nil && len(here) > 0 && !slices.ContainsFunc(here, func(t taskIndex) bool {
		s := g.job.at(t).state
		return s != tReady && s != tPinning
	})
}

// muster notes that a member is ready. With the last one its gang waits for its
// turn: by priority, rank, arrival.
func (c *Core) muster(j *job, e entry) {
	g := j.gangOf(e.task)
	g.ready[e.task] = e
	c.list(g)
}

// list has a gang wait for its turn that could start.
func (c *Core) list(g *gang) {
	if !g.complete() {
		return
	}
	if g.spans() {
		c.listSpan(g)
	}
	if g.listed {
		return
	}
	g.listed = true
	at, _ := slices.BinarySearchFunc(c.gangs, g, func(o, g *gang) int {
		return cmp.Or(cmp.Compare(g.job.priority, o.job.priority), cmp.Compare(g.gs.group.Priority, o.gs.group.Priority), -1)
	})
	c.gangs = slices.Insert(c.gangs, at, g)
}

// nextGang returns the gang whose turn it is; nil when there is none.
func (c *Core) nextGang() *gang {
	if b := c.reservation; b != nil && b.bound && !b.void && b.gang.complete() && !b.gang.job.held {
		return b.gang // it has said so
	}
	if c.ctl.kept+len(c.runs)+c.behind >= c.cfg.EventsKept {
		return nil
	}
	for i := 0; i < len(c.gangs); {
		g := c.gangs[i]
		if !g.complete() {
			g.listed = false
			c.gangs = slices.Delete(c.gangs, i, i+1)
			continue
		}
		env := g.gs.class.env
		if env.state == envUnknown && !g.job.held {
			c.buildEnv(env)
		}
		switch {
		case g.job.held || env.state <= envBuilding:
			i++
		case env.state == envFailed:
			c.refuseGang(g, env.err)
		case g.span.told == 0 && g.spans():
			i++ // its turn among all agents has not come
		default:
			return g
		}
	}
	return nil
}

// startGangs starts gangs for as long as there is all that the next one needs.
// Resources that are free for that gang are held back for it.
func (c *Core) startGangs() {
	for {
		var g *gang
		if c.leaving == nil {
			g = c.nextGang()
		}
		if b := c.reservation; b != nil && (b.void || b.gang != g || !slices.Equal(b.members, g.here())) {
			c.dropReservation()
			continue // its members count anew
		}
		if g == nil {
			return
		}
		if c.fitGang(g) {
			continue
		}
		if why := c.outgrows(g); why != "" {
			c.refuseGang(g, why)
			continue
		}
		if c.reservation == nil {
			c.newReservation(g)
		}
		b := c.reservation
		if !c.holdBack(b) {
			return
		}
		// Executors, ports and inputs come at the same time.
		manned, leased := c.man(b), c.lease(b)
		if !c.pinAll(b) || !manned || !leased {
			if c.reservation != b {
				continue
			}
			return
		}
		if !c.mayStart(b) {
			if b.void {
				continue
			}
			return
		}
		c.startGang(b)
	}
}

// startGang starts the members of a gang, all in this step.
func (c *Core) startGang(b *reservation) {
	g := b.gang
	c.reservation = nil
	c.letGo(b)
	members := g.span.members
	if members == nil {
		members = b.addresses(c.cfg.Host)
	}
	for i, t := range b.members {
		r := c.placeless(g.job, t)
		why := c.usable(g.job, g.gs, b.crew[i].pool)
		if r == nil || why != "" { // the one before could not start, or none can
			c.returnPorts(b.ports[i : i+1])
			if r != nil {
				c.pinned = slices.DeleteFunc(c.pinned, func(o *run) bool { return o == r })
				c.dropRun(r)
				c.fail(g.job, t, nil, &comms.TaskError{Kind: comms.ErrorSetup, Message: why}, r.cause, true)
			}
			continue
		}
		r.gang = &member{rank: int(t - g.first), members: members, port: b.ports[i]}
		c.pinned = slices.DeleteFunc(c.pinned, func(o *run) bool { return o == r })
		c.enqueue(r, b.crew[i])
	}
	clear(g.ready)
}

// outgrows says why the members that are here could not run together on an agent
// that has nothing else to do; "" when they can.
func (c *Core) outgrows(g *gang) string {
	n := int64(len(g.here()))
	for i, need := range g.gs.need {
		if need*n > c.total[i] && i != resGPUMemory {
			return fmt.Sprintf("a gang of %d members together %s", n, c.unfit(i, need*n))
		}
	}
	if all, want := devicesOf(&c.cfg.Total), demandOf(g.gs.need); !want.none() && !all.fits(want, int(n)) {
		return fmt.Sprintf("a gang of %d members, of which each %s", n, c.unmet(want))
	}
	return ""
}

// refuseGang fails a gang that cannot start here.
func (c *Core) refuseGang(g *gang, why string) {
	for _, t := range g.here() {
		if s := g.job.at(t).state; s == tReady {
			c.fail(g.job, t, nil, &comms.TaskError{Kind: comms.ErrorSetup, Message: why}, g.job.cause(g.ready[t]), true)
			return // the others end with it
		}
	}
}

// regroup starts a gang over after an attempt at one of its members was lost: runs of
// the others are killed, members that had ended run again. It returns the inputs of
// those that are gone.
func (c *Core) regroup(j *job, t taskIndex) (gone []comms.DatasetRef) {
	g := j.gangOf(t)
	cause := comms.Cause{Kind: comms.CauseTask, Ref: comms.DatasetRef{Task: t}, Text: "its gang starts over"}
	for _, m := range g.all() {
		s := j.at(m)
		switch {
		case m == t:
		case s.state == tQueued || s.state == tRunning:
			r := c.runOf(j, m)
			r.orphan = true
			c.note(j, comms.Event{Kind: comms.EventRetry, Task: m, Attempt: s.attempt, Executor: r.ex.id, Cause: cause, Usage: c.costOf(r)})
			c.kill(r.ex, "its gang starts over")
			s.attempt = comms.NextTry(s.attempt)
			s.state = tWaiting
			c.reassess(j, m, cause)
		case s.state.over() && s.flags&fElsewhere == 0: // also those that failed: what another had made is needed again
			c.note(j, comms.Event{Kind: comms.EventRetry, Task: m, Attempt: s.attempt, Cause: cause})
			tried := j.trouble[m]
			c.dropOutputs(j, m)
			c.again(j, m, comms.NextTry(s.attempt))
			if tried != nil {
				j.trouble[m] = tried
			}
			gone = append(gone, j.gone(m, true)...)
			c.lostJobs = append(c.lostJobs, j)
		}
	}
	return gone
}

// dropOutputs drops what a member made in a lost attempt of its gang, and
// announces it.
func (c *Core) dropOutputs(j *job, m taskIndex) {
	for o := range j.groupOf(m).group.Outputs {
		ref := comms.DatasetRef{Task: m, Output: uint32(o)}
		if d := j.data[ref]; d != nil {
			c.note(j, comms.Event{Kind: comms.EventLost, Task: m, Attempt: d.desc.Attempt, Output: ref.Output,
				Cause: comms.Cause{Kind: comms.CauseMemory, Ref: ref, Text: "its gang starts over"}})
			c.withdrawData(j, ref)
		}
	}
	c.forgetOutputs(j, m, func(comms.DatasetRef) {})
}

// disband ends the other members of a gang of which one has failed for good, was
// skipped or cancelled: what runs is cancelled, what has not started never will.
func (c *Core) disband(j *job, t taskIndex) {
	if j.stopped != nil || j.at(t).state == tFinished {
		return
	}
	text := fmt.Sprintf("%s, of the same gang, did not end well", j.graph.TaskName(t))
	cause := comms.Cause{Kind: comms.CauseTask, Ref: comms.DatasetRef{Task: t}}
	for _, m := range j.gangOf(t).all() {
		switch s := j.at(m); s.state {
		case tPinning:
			c.dropUnplaced(j, m)
			c.skipFor(j, m, cause, text)
		case tWaiting, tReady, tDelayed, tAside:
			c.skipFor(j, m, cause, text)
		case tQueued, tRunning:
			if r := c.runOf(j, m); r.abort == nil {
				c.cancel(r, text)
				r.endedBy = &cause
			}
		}
	}
}

// memberAddress joins host and port as package net does, which is for drivers.
func memberAddress(host, port string) string {
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	return host + ":" + port
}

// environ is what a member of a gang finds in its environment. The names without
// CASCADE are those that torch.distributed reads; the master is the first member.
func (m *member) environ() []string {
	master := m.members[0]
	colon := strings.LastIndexByte(master, ':')
	host, port := strings.Trim(master[:colon], "[]"), master[colon+1:]
	rank, size := strconv.Itoa(m.rank), strconv.Itoa(len(m.members))
	return []string{
		"CASCADE_GANG_RANK=" + rank,
		"CASCADE_GANG_SIZE=" + size,
		"CASCADE_GANG_MEMBERS=" + strings.Join(m.members, ","),
		"CASCADE_GANG_PORT=" + strconv.Itoa(int(m.port)),
		"MASTER_ADDR=" + host,
		"MASTER_PORT=" + port,
		"RANK=" + rank,
		"WORLD_SIZE=" + size,
	}
}
