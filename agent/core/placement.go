package core

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/dag"
)

// A call need not run where its caller does. When those that are ready wait long, or
// one needs what this host does not have, the controller is asked where they should
// run, and keeps nothing of the answer.

// asking is what is asked of the controller: one question at a time.
type asking struct {
	number  uint64         // of the last question
	asked   time.Time      // since when it waits for its answer; zero: it does not
	strange *dag.Resources // what its calls need, when they cannot run here
	need    amounts        // when they can
	on      []string       // platforms for which their environments have binaries; none: any
	next    time.Time      // when to ask again at the earliest
	pause   time.Duration  // doubled each time that nothing came of it
	since   time.Time      // when a call began last, or the first came to wait; zero: none waits
}

const (
	mostAsked = 1024 // calls of one question
	// leastPause and mostPause bound how long nothing is asked after nothing came of it.
	leastPause, mostPause = 20 * time.Millisecond, 2 * time.Second
	// answeredIn is when no answer comes any more: it is asked again, as calls fail only
	// when the controller says that they can run nowhere.
	answeredIn = 30 * time.Second
)

// forwardCalls sees to the calls that other agents run, or should, in each scheduling pass.
func (c *Core) forwardCalls() {
	if len(c.unreached) > 0 {
		c.giveUpUnreached()
	}
	if len(c.met) > 0 {
		c.partUnused()
	}
	if c.leaving != nil {
		c.returnHosted()
		return
	}
	c.askWhere()
	c.spreadCalls()
}

// askWhere asks the controller where calls should run: first those that cannot run here.
func (c *Core) askWhere() {
	a := &c.asking
	if c.cfg.ForwardAfter <= 0 || !c.ctl.open || c.ctl.full {
		return
	}
	if !a.asked.IsZero() {
		if due := a.asked.Add(answeredIn); due.After(c.now) {
			c.wakeAt(due)
			return
		}
		a.asked = time.Time{}
		c.askLater(false)
	}
	long := c.waitLong()
	if len(c.strange) == 0 && !long {
		return
	}
	if a.next.After(c.now) {
		c.wakeAt(a.next)
		return
	}
	// Of both kinds each has its turn.
	m := &comms.Where{Here: len(c.strange) == 0 || long && a.strange != nil, Load: c.load(), Without: c.shunned()}
	a.strange, a.need = nil, nil
	if m.Here {
		a.need = c.busiest().need
		m.Needs = c.resources(a.need)
	} else {
		a.strange = &c.strange[0].row().shape.group.Resources
		m.Needs = asked(a.strange)
	}
	all := c.alike()
	if len(all) == 0 { // those that wait are to stay
		c.askLater(false)
		return
	}
	a.on = platformsOf(all[0])
	m.Platforms, all = a.on, c.meant()
	for _, at := range all {
		m.Bytes += at.row().bytes()
	}
	m.Calls, m.Bytes = uint64(min(len(all), mostAsked)), m.Bytes/uint64(len(all))
	a.number++
	m.Ask, a.asked = a.number, c.now
	c.emit(ToController{m})
}

// waitLong tells whether calls wait here longer than they should: by how many they
// are and how long such a call takes, or as none has begun for that long.
func (c *Core) waitLong() bool {
	a, l := &c.asking, c.busiest()
	if l == nil {
		if a.since = (time.Time{}); a.pause > 0 && len(c.strange) == 0 { // of those that come next nothing was asked
			a.pause, a.next = 0, c.now.Add(c.cfg.ForwardAfter)
		}
		return false
	}
	if a.since.IsZero() {
		a.since = c.now
	}
	if float64(l.calls)/float64(max(times(c.total, l.need), 1))*c.callSeconds.value >= c.cfg.ForwardAfter.Seconds() {
		return true
	}
	if due := a.since.Add(c.cfg.ForwardAfter); due.After(c.now) {
		c.wakeAt(due)
		return false
	}
	return true
}

// busiest returns the line in which most calls wait, nil when none does.
func (c *Core) busiest() (most *line) {
	for _, l := range c.lines {
		if l.calls > 0 && (most == nil || l.calls > most.calls) {
			most = l
		}
	}
	return most
}

// meant lists the calls that the question is about: alike, with binaries for the same platforms.
func (c *Core) meant() []rowRef {
	return slices.DeleteFunc(c.alike(), func(at rowRef) bool { return !slices.Equal(platformsOf(at), c.asking.on) })
}

// platformsOf returns the platforms to which the environment of a call is bound.
func platformsOf(at rowRef) []string {
	if e := at.row().shape.env; e.name != "" {
		if d := e.job.declared(e.name); d != nil {
			return d.Platforms()
		}
	}
	return nil
}

// bytes counts those of what a row reads.
func (r *callRow) bytes() (n uint64) {
	for i := range r.args {
		a := &r.args[i]
		if n += a.desc.Size; a.data != nil {
			n += a.data.desc.Size
		}
	}
	return n
}

// alike lists the calls that need what the question says; of those that could run here
// first those that would begin last.
func (c *Core) alike() (all []rowRef) {
	a := &c.asking
	if a.strange != nil {
		for _, at := range c.strange {
			if r := &at.row().shape.group.Resources; equal(r, a.strange) {
				all = append(all, at)
			}
		}
		return all
	}
	return c.waitingLike(a.need, mostAsked)
}

// waitingLike lists calls that wait here and need as much, first those that would begin last.
func (c *Core) waitingLike(need amounts, most int) (all []rowRef) {
	var classes []*class
	for _, l := range c.lines {
		if l.calls == 0 || !slices.Equal(l.need, need) {
			continue
		}
		for q := range l.queues.All() {
			for cl := range q.classes.All() {
				if cl.job.dyn != nil && cl.job.dyn.by != nil {
					classes = append(classes, cl)
				}
			}
		}
	}
	slices.SortFunc(classes, func(x, y *class) int {
		if sooner(y, x) {
			return -1
		}
		return 1
	})
	for _, cl := range classes {
		first := len(all)
		for i := cl.rows.Len() - 1; i >= 0 && len(all) < most; i-- { // near the end those that would begin late
			at := rowRef{cl.job, cl.rows.Ref(i).task}
			if w := at.row(); w.shape != nil && !w.stays && at.job.at(at.task).state == tReady {
				all = append(all, at)
			}
		}
		slices.SortFunc(all[first:], func(a, b rowRef) int { return cmp.Compare(b.task, a.task) })
	}
	return all
}

func equal(a, b *dag.Resources) bool {
	return a.CPU == b.CPU && a.Memory == b.Memory && a.GPU == b.GPU && maps.Equal(a.Custom, b.Custom)
}

// asked is what a call needs, in a message.
func asked(r *dag.Resources) comms.Resources {
	m := comms.Resources{CPU: r.CPU, Memory: r.Memory, GPU: r.GPU}
	for _, name := range slices.Sorted(maps.Keys(r.Custom)) {
		m.Custom = append(m.Custom, comms.Amount{Name: name, N: r.Custom[name]})
	}
	return m
}

// there takes the controller's answer.
func (c *Core) there(m *comms.There) {
	if !c.asking.asked.IsZero() && m.Ask == c.asking.number {
		c.answered(m)
	}
}

// answered sends calls where the controller says, as far as they still wait.
func (c *Core) answered(m *comms.There) {
	a := &c.asking
	a.asked = time.Time{}
	all := c.meant()
	some := false
	for i := range m.Hosts {
		h := &m.Hosts[i]
		if n := c.neighbours[h.Agent]; h.Agent == c.cfg.Agent || n != nil && n.shun.After(c.now) {
			continue
		}
		if k := int(min(h.Calls, uint64(len(all)))); k > 0 && c.leaving == nil {
			n := c.acquaint(h)
			k = c.grantRoom(n, h, k)
			c.grantAll(all[:k], n)
			all, some = all[k:], some || k > 0
		}
	}
	switch {
	case a.strange == nil:
	case m.Why == "": // others have their turn
		c.strange = slices.DeleteFunc(c.strange, func(at rowRef) bool { return slices.Contains(all, at) })
		c.strange = append(c.strange, all...)
	default:
		for _, at := range all {
			c.fail(at.job, at.task, nil, &comms.TaskError{Kind: comms.ErrorSetup, Message: at.job.groupOf(at.task).unfit + "; " + m.Why}, comms.Cause{Kind: comms.CauseTask}, true)
		}
	}
	c.askLater(some)
}

// askLater says when to ask again: the later the more often nothing came of it.
func (c *Core) askLater(some bool) {
	a := &c.asking
	if a.pause = min(max(2*a.pause, leastPause), mostPause); some {
		a.pause = 0
	}
	a.next = c.now.Add(max(a.pause, c.cfg.ForwardAfter))
}

// unasked forgets a question that a controller which is gone has not answered.
func (c *Core) unasked() { c.asking.asked, c.asking.next, c.asking.pause = time.Time{}, time.Time{}, 0 }

// missesHere puts a call aside that can never run here, until the controller says
// where it can. It is false for a task that no other agent may run.
func (c *Core) missesHere(j *job, t taskIndex) bool {
	switch {
	case j.dyn == nil || c.cfg.ForwardAfter <= 0:
		return false
	case j.hosted() != nil:
		c.sendBack(rowRef{j, t}, j.groupOf(t).unfit)
		return true
	}
	if j.dyn.rows.at(t).shape.stays() {
		return false
	}
	j.at(t).state = tAway
	c.strange = append(c.strange, rowRef{j, t})
	return true
}
