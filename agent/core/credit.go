package core

import (
	"fmt"
	"time"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/dag"
)

// A generator may have at most Buffer unconsumed elements of an output: elements
// with a consumer that has not ended. Its run starts with credit for Buffer
// elements; consumers that end make room, which is given in pieces of half a
// buffer. A generator without credit waits (ReportThrottled) and gives up its cpu, so
// that its consumers can have it; it gets credit again together with the cpu.
//
// When nothing runs but generators that wait, the elements they wait for need
// others of theirs first (a window over a stream, say), and the buffer must
// grow: see unstick. The same holds when what runs beside them waits for memory
// that they hold: with more credit they either end and release it, or ask for
// memory themselves, and then the ledger sees which request is stuck.

// awayPatience is how long a generator waits for consumers on other agents, a fetch at
// first for its holder, and a guest for a call at another agent, when nothing moves here.
const awayPatience = time.Second

func errElement(got, want uint64) error {
	return fmt.Errorf("it published element %d where %d was the next", got, want)
}

// bounded tells whether the elements of an output of a group's tasks have
// consumers of their own, which alone makes a bound on them useful.
func (c *Core) bounded(j *job, gs *groupState, output uint32) bool {
	gi, _ := j.graph.GroupByName(gs.group.Name)
	first, n := j.graph.GroupTasks(gi)
	if gs.group.Stream != nil {
		first += j.static
	}
	for i := first; i < first+n; i++ {
		if j.consumed(taskIndex(i), output) {
			return true
		}
	}
	return false
}

// startCredit begins to count the credit of a generator's run.
func (c *Core) startCredit(r *run) {
	c.generators = append(c.generators, r)
	for o, out := range r.gs.group.Outputs {
		if out.Generate != dag.GenerateNone {
			st := r.job.stream(r.task, uint32(o))
			st.buffer = c.kindOf(r.job, r.gs).Outputs[o].Buffer
			st.made, st.allowed = 0, st.buffer
		}
	}
}

// room is how many more elements a stream may get.
func (st *stream) room() uint64 {
	used := uint64(len(st.open)) + st.allowed - st.made
	if st.buffer == 0 || used >= st.buffer {
		return 0
	}
	return st.buffer - used
}

func (st *stream) exhausted() bool { return st.buffer > 0 && st.allowed <= st.made }

// resumeHeld gives credit that consumers have made room for.
func (c *Core) resumeHeld() {
	for _, r := range c.generators {
		if r.ex.state != exUp && r.ex.state != exStopping || r.abort != nil || r.awaits() {
			continue
		}
		if r.back {
			c.resumeOne(r)
			continue
		}
		for o, out := range r.gs.group.Outputs {
			if out.Generate == dag.GenerateNone {
				continue
			}
			st := r.job.stream(r.task, uint32(o))
			if n := st.room(); n > 0 && n >= (st.buffer+1)/2 {
				c.credit(r, uint32(o), st, n)
			}
		}
	}
}

// resumeOne lets a held-back generator go on when each output it may wait for
// has room and its cpu is free.
func (c *Core) resumeOne(r *run) {
	for o, out := range r.gs.group.Outputs {
		if out.Generate == dag.GenerateNone {
			continue
		}
		if st := r.job.stream(r.task, uint32(o)); st.exhausted() && st.room() < (st.buffer+1)/2 {
			return
		}
	}
	if c.fits(r.ex.grant, r.gs.need) {
		c.resumeNow(r, 0)
	}
}

// resumeNow gives a held-back generator its cpu and credit: what there is room for, at least n.
func (c *Core) resumeNow(r *run, n uint64) {
	r.back = false
	c.cover(r.ex, r.gs.need)
	for o, out := range r.gs.group.Outputs {
		if out.Generate == dag.GenerateNone {
			continue
		}
		if st := r.job.stream(r.task, uint32(o)); st.exhausted() {
			c.credit(r, uint32(o), st, max(n, st.room()))
		}
	}
}

func (c *Core) credit(r *run, output uint32, st *stream, n uint64) {
	if n == 0 {
		return
	}
	st.allowed += n
	c.emit(ToExecutor{r.ex.id, &comms.Credit{Run: r.id, Output: output, N: n}})
}

// heldBack takes the news that a generator has no credit. When credit is on its
// way to it, it has gone on already.
func (c *Core) heldBack(r *run) {
	c.startedRun(r)
	if r.back || r.orphan || !r.gs.generator {
		return
	}
	waits := false
	for o, out := range r.gs.group.Outputs {
		if out.Generate != dag.GenerateNone {
			waits = waits || r.job.stream(r.task, uint32(o)).exhausted()
		}
	}
	if !waits {
		return
	}
	r.back, r.backAt = true, c.now
	c.regrant(r.ex)
	c.note(r.job, comms.Event{Kind: comms.EventThrottled, Task: r.task, Attempt: r.attempt, Executor: r.ex.id, Cause: comms.Cause{Kind: comms.CauseRun}})
}

// resumed takes the news that a generator goes on. Normally the core knew: it gave
// the credit. One that goes on by itself gets its cpu only when that is free: it
// cannot be stopped, but others must not be promised what is not there.
func (c *Core) resumed(r *run) {
	if r.back && c.fits(r.ex.grant, r.gs.need) {
		r.back = false
		c.cover(r.ex, r.gs.need)
	}
}

// unstick widens the buffers of generators when nothing else can move.
func (c *Core) unstick() {
	held, waits, computes, since := false, false, false, c.missed // executors; programs of sessions
	c.missed = time.Time{}
	if b := c.reservation; b != nil && b.bound {
		return // the controller says when what it holds moves
	}
	for _, ex := range c.execs {
		if ex.session != nil { // it says when it waits for long, and else computes without a core of ours
			waits, computes = waits || ex.held(), computes || !ex.held() && ex.hasMemory()
			continue
		}
		if ex.state == exStarting || ex.asked || len(ex.queue) > 0 && !ex.held() && ex.wants == 0 {
			return
		}
		held = held || ex.held()
	}
	held = held || waits && !computes // a program that computes may release what others wait for
	if !held && len(c.pulls) == 0 || c.memoryIO > 0 || c.delayed.Len() > 0 || c.ctl.kept+len(c.runs) >= c.cfg.EventsKept || c.building > 0 {
		return
	}
	if c.giveUpPulls(since) || !held {
		return
	}
	for _, r := range c.generators {
		if r.back && r.ex.state == exUp && r.abort == nil && !r.awaits() && c.canResume(r) {
			if due := r.backAt.Add(awayPatience); r.job.peers != nil && due.After(c.now) {
				c.wakeAt(due) // consumers on other agents may be at it
				continue
			}
			if !c.fits(r.ex.grant, r.gs.need) {
				c.empty(c.reservation)
			}
			c.resumeNow(r, bufferSize)
			return
		}
	}
	// Those that wait for memory have the cpus that the generators need, and the
	// generators have the memory: one of the former has to give way.
	c.led.Unstick()
	c.effects()
	c.stuckCalls()
}

// canResume tells whether a held-back generator gets its cpu: from the free cpu, and from that of the
// reservation, which yields when its gang may wait for memory that the generator has.
func (c *Core) canResume(r *run) bool {
	yields := c.yields()
	for i, n := range r.gs.need {
		free := c.free[i]
		if yields {
			free += c.reservation.held[i]
		}
		if n > r.ex.grant[i] && n-r.ex.grant[i] > free {
			return false
		}
	}
	return true
}

// consumedBy counts the end of a task as the end of a consumer of elements.
func (c *Core) consumedBy(j *job, t taskIndex) {
	if len(j.streams) == 0 || j.groupOf(t).rooted {
		return
	}
	if s, element, ok := j.graph.Slot(t); ok {
		c.consumed(j, j.slots[s].key, element)
	}
	ins, err := j.inputs(t)
	if err != nil {
		return
	}
	s, element, instance := j.graph.Slot(t)
	for _, in := range ins {
		for _, src := range in.Sources {
			if src.Kind == dag.SourceElement && !(instance && (j.bound(s, element, src) || j.gated(s, src))) {
				c.consumed(j, outputKey{src.Task, src.Output}, src.Element)
			}
		}
	}
}

// consumedAway counts the end of a task on another agent as openConsumers does: what
// it reads apart from the element that it follows is counted with its agent, which
// says so in Released, unless no agent has it any more.
func (c *Core) consumedAway(j *job, t taskIndex) {
	if j.awayAt(t) == nil {
		c.consumedBy(j, t)
	} else if s, element, ok := j.graph.Slot(t); ok {
		c.consumed(j, j.slots[s].key, element)
	}
}

func (c *Core) consumed(j *job, k outputKey, element uint64) {
	st := j.streams[k]
	if st == nil || st.open[element] == 0 {
		return
	}
	if st.open[element]--; st.open[element] == 0 {
		delete(st.open, element)
	}
}

// generatorEnded closes the streams of a generator that finished.
func (c *Core) generatorEnded(r *run) {
	if !r.gs.generator {
		return
	}
	for o, out := range r.gs.group.Outputs {
		if out.Generate == dag.GenerateNone {
			continue
		}
		k := uint32(o)
		c.streamEnd(r.job, r.task, k)
		if out.Generate == dag.GenerateOpen {
			c.note(r.job, comms.Event{Kind: comms.EventStreamEnd, Task: r.task, Attempt: r.attempt, Executor: r.ex.id,
				Cause: comms.Cause{Kind: comms.CauseRun}, Output: k, Count: r.job.stream(r.task, k).next})
		}
	}
	delete(r.job.edgeCache, r.task)
	if r.job.dyn != nil {
		return // what it made runs again when it is wanted
	}
	for o, out := range r.gs.group.Outputs {
		if out.Generate == dag.GenerateNone || r.job.stopped != nil {
			continue
		}
		if e := c.skipCount(r.job, r.task, uint32(o)); len(r.job.stream(r.task, uint32(o)).lost) > 0 { // lost while it ran, behind what it made
			c.redo(r.job, comms.DatasetRef{Task: r.task, Output: uint32(o), Element: e})
			c.lostJobs = append(c.lostJobs, r.job)
			return
		}
	}
}
