package core

import (
	"slices"
	"strconv"
	"time"

	"github.com/cascade-run/cascade/comms"
)

// A gang may have members on several agents. Each agent reserves the resources of its
// own members when the controller announces the gang's turn, and starts them when all
// agents have theirs (comms.GangCommand). It keeps a reservation that it has reported until
// the controller has it start the members, or ends the turn. When an attempt at a
// member is lost, or all of the gang is to be recomputed, the agent reports it, and the
// controller has the gang start over on all agents.

// yieldFor is how long a gang is not ready that held memory for which others waited.
const yieldFor = 100 * time.Millisecond

// span is how far members are of a gang that other agents have members of, too.
type span struct {
	listed  bool // in Core.spans
	said    comms.GangState
	told    comms.GangStep
	turn    uint64
	members []string  // where to reach each, once told to start
	after   time.Time // not ready before
}

// spans tells whether other agents have, or had, members of the gang.
func (g *gang) spans() bool {
	return slices.ContainsFunc(g.all(), func(t taskIndex) bool { return !g.job.hasMember(t) })
}

// asks tells whether the controller decides that a gang starts over of which something
// that was made is lost: others have members of it, or a member ended otherwise than well,
// and what was skipped for that, also elsewhere, starts over too.
func (g *gang) asks() bool {
	return g.spans() || slices.ContainsFunc(g.all(), func(t taskIndex) bool {
		s := g.job.at(t)
		return s.state.over() && s.state != tFinished
	})
}

// hasMember tells whether a member of a gang is this agent's.
func (j *job) hasMember(t taskIndex) bool {
	s := j.at(t)
	return s.state != tAbsent && s.flags&fElsewhere == 0
}

// gathered takes the controller's word on a gang.
func (c *Core) gathered(j *job, m *comms.GangCommand) {
	if int(m.Task) >= j.static || m.Epoch != j.epoch || j.stopped != nil || j.adopted {
		return
	}
	if first, size := j.graph.GangOf(m.Task); size == 0 || first != m.Task {
		return
	}
	g := j.gangOf(m.Task)
	c.listSpan(g)
	b := c.reservation
	mine := b != nil && b.gang == g && b.bound && !b.void && g.span.turn == m.Turn
	switch m.Step {
	case comms.GangReserve:
		if g.span.told != comms.GangStart {
			g.span.said, g.span.told, g.span.turn = comms.GangReady, m.Step, m.Turn
		}
	case comms.GangStart:
		if g.span.told == m.Step {
			return
		}
		if !mine || len(m.Members) != g.size || slices.ContainsFunc(m.Members, func(at string) bool { return !comms.IsMemberAddress(at) }) {
			c.missStart(g)
			return
		}
		g.span.told, g.span.members = m.Step, m.Members
	case comms.GangAbort:
		if g.span.told != comms.GangStart && (g.span.turn == m.Turn || g.span.told == 0) {
			c.letPass(g)
		}
	}
}

// missStart has a gang start over of which others have started, and which is not
// ready here any more.
func (c *Core) missStart(g *gang) {
	g.span.told = 0
	for _, t := range g.here() {
		if s := g.job.at(t); !s.state.over() && s.state != tAside {
			c.dropUnplaced(g.job, t)
			c.tear(g, t, nil)
			return
		}
	}
}

// letPass ends a gang's turn here.
func (c *Core) letPass(g *gang) {
	g.span.said, g.span.told = 0, 0
	if b := c.reservation; b != nil && b.gang == g {
		b.void = true
	}
}

// tear tells the controller that a gang is to start over on all of its agents,
// because of this member. Runs of the others here are killed; none of the lost
// members starts before the gang is assigned anew.
func (c *Core) tear(g *gang, t taskIndex, why *comms.TaskError) {
	j := g.job
	cause := comms.Cause{Kind: comms.CauseTask, Ref: comms.DatasetRef{Task: t}, Text: "its gang starts over"}
	for _, m := range g.here() {
		if s := j.at(m); m != t && (s.state == tQueued || s.state == tRunning) {
			r := c.runOf(j, m)
			r.orphan = true
			c.note(j, comms.Event{Kind: comms.EventRetry, Task: m, Attempt: s.attempt, Executor: r.ex.id, Cause: cause, Usage: c.costOf(r)})
			c.kill(r.ex, "its gang starts over")
			s.attempt = comms.NextTry(s.attempt)
			s.state = tAside
		}
	}
	c.note(j, comms.Event{Kind: comms.EventTorn, Task: t, Attempt: j.at(t).attempt, Cause: cause, Error: why})
	j.at(t).state = tAside
	delete(g.ready, t)
	c.letPass(g)
	g.span.members = nil
}

// leaveGang takes a member out of its gang here: it starts over, or is another agent's.
func (c *Core) leaveGang(j *job, t taskIndex) {
	if len(j.gangs) == 0 {
		return
	}
	first, size := j.graph.GangOf(t)
	if g := j.gangs[first]; size > 0 && g != nil {
		delete(g.ready, t)
		c.letPass(g)
		g.span.members = nil
	}
}

// newTurns begins an epoch: what was agreed on gangs is over, but for those that
// were told to start.
func (c *Core) newTurns(j *job) {
	for _, g := range c.spans {
		if g.job != j {
			continue
		}
		if g.span.said = 0; g.span.told != comms.GangStart {
			c.letPass(g)
		}
	}
}

// sayAnew has a controller that did not know the agent told how far gangs are. A
// turn that another gave counts no more, unless all is held.
func (c *Core) sayAnew() {
	for _, g := range c.spans {
		g.span.said = 0
		if b := c.reservation; g.span.told == comms.GangReserve && (b == nil || b.gang != g || !b.bound) {
			c.letPass(g)
		}
	}
}

// setTries takes over how often gangs were tried on other agents, or here before.
func (c *Core) setTries(j *job, all []comms.GangTries) {
	for i := range all {
		first, size := taskIndex(0), 0
		if int(all[i].Task) < j.static {
			first, size = j.graph.GangOf(all[i].Task)
		}
		if size == 0 || first != all[i].Task {
			continue
		}
		tr := j.troubleOf(first)
		tr.fails, tr.crashes = int(min(all[i].Fails, 1<<16)), int(min(all[i].Crashes, 1<<16))
		if g := j.gangOf(first); tr.fails > 0 && g.span.told != comms.GangStart {
			g.span.after = c.now.Add(pauseAfter(tr.fails))
		}
	}
}

// listSpan has the controller told how far a gang is.
func (c *Core) listSpan(g *gang) {
	if !g.span.listed {
		g.span.listed = true
		c.spans = append(c.spans, g)
	}
}

// sayMusters tells the controller how far gangs are that other agents have members of, too.
func (c *Core) sayMusters() {
	if len(c.spans) == 0 {
		return
	}
	all := c.spans[:0]
	for _, g := range c.spans {
		s := &g.span
		over := s.told == comms.GangStart && !slices.ContainsFunc(g.here(), func(t taskIndex) bool { return !g.job.at(t).state.over() })
		s.listed = c.byJob[g.job.id] == g.job && g.job.stopped == nil && !over && (g.spans() || s.said != 0)
		if s.listed {
			all = append(all, g)
		}
	}
	clear(c.spans[len(all):])
	if c.spans = all; !c.ctl.open || c.ctl.full {
		return
	}
	for _, g := range c.spans {
		s := &g.span
		want := c.musterOf(g)
		if want == comms.GangWaiting && s.said == 0 && s.told == comms.GangReserve { // a turn that another controller gave
			c.letPass(g)
			c.wakeAt(c.now)
		}
		if want == s.said || want == comms.GangWaiting && s.said == 0 {
			continue
		}
		m := &comms.GangStatus{Job: g.job.id, JobIncarnation: g.job.life, Epoch: g.job.epoch, Task: g.first, State: want}
		b := c.reservation
		if want == comms.GangReserved {
			m.Turn, m.Members, b.bound = s.turn, b.addresses(c.cfg.Host), true
		}
		if want == comms.GangWaiting && (b == nil || b.gang != g || !b.bound) {
			s.told = 0
		}
		s.said = want
		c.emit(ToController{m})
	}
}

// musterOf tells how far the members of a gang are that are here.
func (c *Core) musterOf(g *gang) comms.GangState {
	s := &g.span
	whole := c.reservation != nil && c.reservation.gang == g && c.reservation.whole && !c.reservation.void
	switch {
	case s.told == comms.GangStart:
		return comms.GangStarted
	case !g.complete() || !g.spans() || g.job.held || c.leaving != nil || g.gs.class.env.state != envReady:
		return comms.GangWaiting
	case c.now.Before(s.after):
		c.wakeAt(s.after)
		return comms.GangWaiting
	case c.othersWait(): // for what it holds, perhaps, and on other agents something may wait for that in turn
		return comms.GangWaiting
	case whole && c.squeezed:
		s.after = c.now.Add(yieldFor)
		c.wakeAt(s.after)
		return comms.GangWaiting
	case whole:
		return comms.GangReserved
	}
	return comms.GangReady
}

// mayStart tells whether a gang starts whose reservation here has all that it needs: of
// one that spans agents the others must have it, too.
func (c *Core) mayStart(b *reservation) bool {
	g := b.gang
	switch {
	case !g.spans():
		return true
	case g.span.told != comms.GangStart:
		b.whole = true
		return false
	}
	for i, at := range b.addresses(c.cfg.Host) {
		if g.span.members[b.members[i]-g.first] != at { // held anew meanwhile
			c.missStart(g)
			return false
		}
	}
	return true
}

// addresses is where the members of a reservation are reached, by rank.
func (b *reservation) addresses(host string) []string {
	out := make([]string, len(b.ports))
	for i, port := range b.ports {
		out[i] = memberAddress(host, strconv.Itoa(int(port)))
	}
	return out
}
