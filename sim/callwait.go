package sim

import (
	"github.com/cascade-run/cascade/comms"
)

// A run waits as package executor has it wait: at most one wait at a time is with its agent. When
// the act that asked for it goes on without, as its time is over, the wait stays there, and the run
// goes on without a core until the agent answers.

// block has the act at hand wait. refs tells for which calls, and how many of them; nil: for
// whatever comes.
func (x *executor) block(until func() bool, refs func() ([]comms.CallRef, int)) {
	c := &x.calls
	c.until, c.mine, c.refsN = until, false, refs
	x.askWait()
}

// askWait asks the agent for a wait, unless there is one.
func (x *executor) askWait() {
	c := &x.calls
	if c.waiting {
		return
	}
	c.wait++
	m := &comms.CallWait{Run: x.cur.ID, Wait: c.wait, Seen: c.seen, N: 1}
	if c.refsN != nil {
		refs, n := c.refsN()
		switch {
		case len(refs) > 0 && x.w.chance(500):
			m.Refs, m.Seen, m.N = refs, 0, uint64(n)
		case n > 0:
			m.N = uint64(n)
		}
	}
	c.waiting, c.mine, c.asked = true, true, m
	x.held = true
	x.send(m)
}

// unblock lets the act at hand go on that has what it waits for. The one whose wait is with the
// agent goes on with the answer.
func (x *executor) unblock() {
	if c := &x.calls; c.until != nil && !(c.waiting && c.mine) && c.until() {
		c.until = nil
	}
}

// rests tells whether the run at hand does nothing until a message comes.
func (x *executor) rests() bool { return x.calls.until != nil || x.held && !x.calls.waiting }

// goOnCall ends a wait for calls.
func (x *executor) goOnCall(m *comms.CallGo) {
	if x.cur == nil || x.cur.ID != m.Run {
		return
	}
	c, job := &x.calls, x.kinds[x.cur.Kind].Job
	if m.Wait != c.wait || !c.waiting {
		x.w.fail(job, "run %d of task %d may go on from its wait %d, and waits for the %d-th time: %v", m.Run, x.cur.Task, m.Wait, c.wait, c.waiting)
		return
	}
	c.waiting, x.held = false, false
	x.w.oracle.resources(x.a)
	if m.Error != nil {
		x.blameFor("it may not wait: " + m.Error.Text())
		return
	}
	if why := c.tooEarly(); why != "" {
		x.w.fail(job, "run %d of task %d goes on from its wait %d, and %s", m.Run, x.cur.Task, m.Wait, why)
	}
	if x.unblock(); c.until != nil {
		x.askWait()
	}
}

// tooEarly tells what of a wait that is over has not come.
func (c *calling) tooEarly() string {
	if len(c.asked.Refs) == 0 {
		if c.seen < c.asked.Seen+c.asked.N {
			return "it was not told as much as it waits for"
		}
		return ""
	}
	n := uint64(0)
	for _, ref := range c.asked.Refs {
		if v := c.refs[ref]; v.end != nil || v.dropped {
			n++
		}
	}
	if n < c.asked.N {
		return "fewer of its calls were told to have ended"
	}
	return ""
}
