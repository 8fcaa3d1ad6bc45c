package core

import (
	"slices"
	"time"

	"github.com/cascade-run/cascade/comms"
)

// Calls wait where any core can get them: at their owner. A host has as many of them as it runs at
// once, and more of short ones; the end of one there brings the next. An idle owner asks a host for
// calls back that wait there, for itself or for another host. So how soon each host ends what it has
// decides where calls run, and no estimate has to be right.
//
//	There ──▶ room ──▶ Grant ──▶ GrantReport: over ──▶ the next Grant
//	                     └──▶ GrantRecall ──▶ GrantReport: back, or it has begun

// window is how many calls a host may have of this agent, and how many it has.
type window struct {
	room  int       // that it may have, as the controller said
	slots int       // of these it runs so many at once; 0: not known
	there int       // that it has, or is about to be told of, and has not ended
	asked int       // of these, those that were asked back and of which it has not said what became of them
	since time.Time // when it was asked for calls last
	need  amounts   // of the calls for which there is room
	on    []string  // and their platforms
	last  []uint64  // grants that were not asked back, oldest first; some may have ended
}

const (
	// roundTrip is about how long a host waits for a call after it has told the end of another.
	roundTrip = time.Millisecond
	// mostAhead bounds how many short calls a host has for each that it runs.
	mostAhead = 256
)

// full is how many calls a host has at most: the next ones come before it has ended these.
func (c *Core) full(w *window) int {
	if !c.callSeconds.known {
		return w.slots
	}
	ahead := c.cfg.ForwardAfter.Seconds() / max(c.callSeconds.value, 1e-9)
	return w.slots * (1 + int(min(ahead, mostAhead)))
}

// grantRoom takes the controller's word that a host should get some of the calls that were asked about. It
// returns how many of them go now.
func (c *Core) grantRoom(n *neighbour, h *comms.Host, calls int) int {
	w := &n.window
	if w.slots = int(min(h.Slots, mostAsked)); w.slots == 0 || c.asking.strange != nil {
		return calls // from a controller of a version before; or they can only go elsewhere
	}
	w.need, w.on = c.asking.need, c.asking.on
	w.room = max(w.there, min(max(w.room, w.there)+calls, c.full(w)))
	return min(calls, w.room-w.there)
}

// gets notes that a host gets a call.
func (c *Core) gets(n *neighbour, grant uint64) {
	w := &n.window
	if w.there++; len(w.last) > 2*w.there+mostGranted {
		w.last = slices.DeleteFunc(w.last, func(g uint64) bool { return !c.goesOnAt(g) })
	}
	w.last = append(w.last, grant)
}

// goesOnAt tells whether the host of a grant has not said how it has ended.
func (c *Core) goesOnAt(grant uint64) bool {
	at, ok := c.away[grant]
	return ok && at.row().out.end == nil
}

// said notes that a host has said what became of a call that was asked back.
func (o *outgoing) said() {
	if o.asked {
		o.asked = false
		o.host.window.asked--
	}
}

// leaves notes that a host has ended a call, or is not to run it any more.
func (o *outgoing) leaves() {
	o.said()
	if o.counted {
		o.counted = false
		o.host.window.there--
	}
}

// spreadCalls sends hosts the next calls, and asks for calls back that others could begin.
func (c *Core) spreadCalls() {
	if len(c.met) == 0 || c.cfg.ForwardAfter <= 0 {
		return
	}
	hungry := 0
	for _, n := range c.met {
		w := &n.window
		if w.there == 0 && w.room > 0 && !n.used.Add(c.cfg.ForwardAfter).After(c.now) {
			w.room = 0 // it has other work by now, perhaps
		}
		if w.room > w.there && n.up && !n.shun.After(c.now) {
			c.sendNext(n)
			hungry += max(0, min(w.room, w.slots)-w.there)
		}
	}
	if from := c.mostQueued(); from != nil && !c.hasReady() {
		c.wantBack(from, hungry > 0)
	}
}

// sendNext sends a host calls that wait here. Of those that it would not begin at once half stay.
func (c *Core) sendNext(n *neighbour) {
	w := &n.window
	waiting := 0
	for _, l := range c.lines {
		if l.calls > 0 && slices.Equal(l.need, w.need) {
			waiting += l.calls
		}
	}
	if waiting == 0 || c.callSeconds.known && float64(waiting)/float64(max(times(c.total, w.need), 1))*c.callSeconds.value < roundTrip.Seconds() {
		return // they begin here before they are there
	}
	k := min(max(0, w.slots-w.there), waiting)
	k = min(k+(waiting-k)/2, w.room-w.there)
	all := slices.DeleteFunc(c.waitingLike(w.need, k), func(at rowRef) bool { return !slices.Equal(platformsOf(at), w.on) })
	if k > 0 && len(all) == 0 { // what waits is to stay
		w.room = w.there
		return
	}
	c.grantAll(all, n)
}

// times is how often an amount fits into another.
func times(of, need amounts) int {
	n := int64(1) << 31
	for i := range need {
		if need[i] > 0 && i != resGPUMemory {
			n = min(n, of[i]/need[i])
		}
	}
	return int(max(n, 0))
}

// hasReady tells whether something is here that could begin as soon as there is a core.
func (c *Core) hasReady() bool {
	return c.pinning+len(c.pinned) > 0 || c.reservation != nil || slices.ContainsFunc(c.lines, func(l *line) bool { return l.ready > 0 })
}

// mostQueued returns the host at which most calls wait; nil if none may, or one will answer soon. One that
// does not is passed over: it may be frozen.
func (c *Core) mostQueued() (most *neighbour) {
	for _, n := range c.met {
		w := &n.window
		if n.up && w.asked > 0 {
			if due := w.since.Add(c.cfg.ForwardAfter); due.After(c.now) {
				c.wakeAt(due)
				return nil
			}
		}
		if n.up && w.asked == 0 && w.there > 0 && len(w.last) > 0 && (most == nil || w.there-w.slots > most.window.there-most.window.slots) {
			most = n
		}
	}
	return most
}

// wantBack asks a host for calls that may not have begun: as many as could begin here, or half
// of those that wait there. Each grant is asked back once: it has begun then, or comes.
func (c *Core) wantBack(from *neighbour, hungry bool) {
	w := &from.window
	queued := (max(0, w.there-w.slots) + 1) / 2
	most := 0
	if hungry {
		most = queued
	}
	m := &comms.GrantRecall{}
	for len(w.last) > 0 {
		g := w.last[len(w.last)-1]
		if c.goesOnAt(g) {
			at := c.away[g]
			gs := at.job.groupOf(at.task)
			if here := min(times(c.free, gs.need), w.there); here > 0 {
				most = max(here, queued)
			}
			if !at.row().out.sent || len(m.Grants) >= most {
				break
			}
			if gs.unfit == "" {
				at.row().out.asked = true
				w.asked++
				m.Grants = append(m.Grants, g)
			}
		}
		w.last = w.last[:len(w.last)-1]
	}
	if len(m.Grants) > 0 {
		w.room, w.since = min(w.room, w.slots), c.now
		c.say(from, m)
	}
}

// recalled takes the wish of an owner to have tasks back that have not begun.
func (c *Core) recalled(from string, m *comms.GrantRecall) {
	for _, grant := range m.Grants {
		if at, ok := c.hosts[grantKey{from, grant}]; ok && !at.row().recalled {
			at.row().recalled = true
			c.recalls = append(c.recalls, at)
		}
	}
}

// answerRecalls returns tasks that their owners want back, or says that they have begun. Those that are queued behind
// others on an executor it has to return first.
func (c *Core) answerRecalls() {
	c.recalls = slices.DeleteFunc(c.recalls, func(at rowRef) bool {
		j, t, w := at.job, at.task, at.row()
		s := j.at(t)
		switch {
		case w.left() || s.state.over():
		case s.state == tQueued && !c.goesOn(at):
			return false
		case s.state == tQueued || s.state == tRunning || s.state == tDelayed || comms.Try(s.attempt) > 1 || j.trouble[t] != nil || j.callers[t] != nil:
			w.recalled = false
			c.report(j.dyn.host.owner, comms.GrantItem{Grant: w.grant})
		default:
			c.sendBack(at, "its owner can begin it sooner")
		}
		return true
	})
}

// freeQueued asks executors for calls that are queued behind others: those that their owners want back, and
// those behind a run that turns out to be long, as another agent may begin them.
func (c *Core) freeQueued() {
	if c.cfg.ForwardAfter <= 0 {
		return
	}
	if c.freeAt.After(c.now) && len(c.recalls) == 0 {
		c.wakeAt(c.freeAt)
		return
	}
	next := time.Time{}
	for _, ex := range c.execs {
		if len(ex.queue) < 2 || ex.state != exUp || ex.asked || ex.session != nil || !ex.queue[len(ex.queue)-1].job.dynamic() {
			continue
		}
		due := ex.turn.Add(max(c.cfg.ForwardAfter, secondRun*supplyFor))
		long := !due.After(c.now)
		if !long && (next.IsZero() || due.Before(next)) {
			next = due
		}
		c.askBack(ex, slices.DeleteFunc(ex.movable(), func(r *run) bool {
			return !r.job.dynamic() || !long && !r.job.dyn.rows.at(r.task).recalled
		}))
	}
	if c.freeAt = next; !next.IsZero() {
		c.wakeAt(next)
	}
}
