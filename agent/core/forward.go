package core

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/dag"
)

// A call need not run where its caller does. When those that are ready wait long, or
// one needs what this host does not have, the controller is asked where they should
// run, and keeps nothing of the answer. A call that goes elsewhere stays this
// agent's: its inputs are fetched from here, its end and what it returned come back
// (guests is the other side). Each time that it goes anywhere it has another name
// there: what is said late, of a stay that was given up, is of a name that no agent
// knows any more. When its host is lost the call is what it was before.

// outgoing is a call that another agent has, or is about to be told of.
type outgoing struct {
	id   comms.JobID // its name there
	host *neighbour
	sent bool
	end  *comms.Event // how it has ended; what it returned is on its way here
}

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
		c.returnGuests()
		return
	}
	c.askWhere()
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
		a.strange = &c.strange[0].callGroup().group.Resources
		m.Needs = asked(a.strange)
	}
	all := c.alike()
	if len(all) == 0 { // those that wait are to stay
		c.askLater(false)
		return
	}
	a.on = platformsOf(all[0])
	m.Platforms, all = a.on, c.meant()
	for _, j := range all {
		m.Bytes += j.bytesIn(j.call.task(j))
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
		a.since = time.Time{}
		return false
	}
	if a.since.IsZero() {
		a.since = c.now
	}
	slots := int64(1) << 32 // that run at once
	for i, n := range l.need {
		if n > 0 && i != resGPUMemory {
			slots = min(slots, c.total[i]/n)
		}
	}
	if float64(l.calls)/float64(max(slots, 1))*c.callSeconds.value >= c.cfg.ForwardAfter.Seconds() {
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
func (c *Core) meant() []*job {
	return slices.DeleteFunc(c.alike(), func(j *job) bool { return !slices.Equal(platformsOf(j), c.asking.on) })
}

// platformsOf returns the platforms to which the environment of a call is bound.
func platformsOf(j *job) []string {
	if e := j.declared(j.callGroup().group.Run.Environment); e != nil {
		return e.Platforms()
	}
	return nil
}

// alike lists the calls that need what the question says; of those that could run here
// first those that would begin last.
func (c *Core) alike() (all []*job) {
	a := &c.asking
	if a.strange != nil {
		for _, j := range c.strange {
			if r := &j.callGroup().group.Resources; equal(r, a.strange) {
				all = append(all, j)
			}
		}
		return all
	}
	var classes []*class
	for _, l := range c.lines {
		if l.calls == 0 || !slices.Equal(l.need, a.need) {
			continue
		}
		for q := range l.queues.All() {
			for cl := range q.classes.All() {
				if j := cl.job; j.call != nil && j.call.by != nil && !j.call.stays && j.at(j.call.task(j)).state == tReady {
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
		all = append(all, cl.job)
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
		for n := h.Calls; n > 0 && len(all) > 0 && c.leaving == nil; n-- {
			c.forward(all[0], h)
			all, some = all[1:], true
		}
	}
	switch {
	case a.strange == nil:
	case m.Why == "": // others have their turn
		c.strange = slices.DeleteFunc(c.strange, func(j *job) bool { return slices.Contains(all, j) })
		c.strange = append(c.strange, all...)
	default:
		for _, j := range all {
			c.fail(j, j.call.task(j), nil, &comms.TaskError{Kind: comms.ErrorSetup, Message: j.callGroup().unfit + "; " + m.Why}, comms.Cause{Kind: comms.CauseTask}, true)
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
	if j.call == nil || c.cfg.ForwardAfter <= 0 {
		return false
	}
	if j.call.guest != nil {
		c.sendBack(j, j.groupOf(t).unfit)
		return true
	}
	j.at(t).state = tAway
	c.strange = append(c.strange, j)
	return true
}

// forward has another agent run a call.
func (c *Core) forward(j *job, h *comms.Host) {
	k := j.call
	t := k.task(j)
	m, err := c.forwarding(j)
	if err != nil {
		k.stays = true // what it reads is not here any more: it fails when it begins
		return
	}
	if s := j.at(t); s.state == tReady {
		c.pop(j.callGroup().class)
		s.state = tAway
	}
	c.strange = slices.DeleteFunc(c.strange, func(o *job) bool { return o == j })
	n := c.acquaint(h)
	if n.out++; !n.up {
		c.miss(n)
	}
	k.out = &outgoing{id: m.Call, host: n}
	c.away[m.Call] = j
	c.say(n, m)
}

// forwarding writes a call for another agent.
func (c *Core) forwarding(j *job) (*comms.Forward, error) {
	k := j.call
	root, at := j.root()
	m := &comms.Forward{Call: c.callID(k.by, k.sum), Graph: j.graph.Encode(), Task: comms.TaskID{Job: root.id, Index: at}, JobIncarnation: root.life, Group: root.groupOf(at).group.Name,
		Name: j.taskName(k.task(j)), With: j.callGroup().with, Dir: j.dir, Priority: j.priority, Weight: uint32(root.tenant.weight), Tenant: root.tenant.name, Depth: uint64(j.depth)}
	if g := root.guestOf(); g != nil { // it comes from farther away
		m.Task, m.Group = g.task, g.group
	}
	if env := j.callGroup().group.Run.Environment; env == "" || env == dag.ProgramEnvironment {
		m.Registry = j.registry
	}
	for i := range k.task(j) {
		d := j.data[comms.DatasetRef{Task: i}]
		if d == nil {
			return nil, fmt.Errorf("input %d is not here", i)
		}
		in := comms.ForwardedIn{Data: d.desc}
		if d.sealed {
			of, from := d.lender(j)
			in.Of = comms.DatasetID{Job: of.id, DatasetRef: from.desc.Ref}
			in.Data.Place = comms.Place{Kind: comms.PlaceAgent, Where: c.cfg.Agent}
		}
		m.Inputs = append(m.Inputs, in)
	}
	return m, nil
}

// forwarded takes the word of a host.
func (c *Core) forwarded(from string, m *comms.Forwarded) {
	j := c.away[m.Call]
	if j == nil || j.call.out.host.name != from {
		return // it stays there no more
	}
	out := j.call.out
	switch {
	case m.Back != "":
		c.shun(out.host)
		c.takeHome(j)
	case !m.Over && len(m.Text) > 0:
		c.log(j, m.Stream, m.Text)
	case !m.Over && m.Event != nil:
		c.tellRoot(j, *m.Event)
	case m.Over && m.Event != nil && out.end == nil:
		c.endedAway(j, m)
	}
}

// endedAway takes over how a call has ended at its host. Its result is fetched,
// if it did not come with the word.
func (c *Core) endedAway(j *job, m *comms.Forwarded) {
	k := j.call
	t := k.task(j)
	e := *m.Event
	if e.Task, e.Executor = t, 0; e.Usage != nil {
		c.callSeconds.add(float64(e.Usage.Duration) / 1e9)
	}
	k.out.end, k.at = &e, k.out.host.name
	if e.Kind != comms.EventFinished {
		k.out.host.shunFor = 0
		if e.Error == nil {
			e.Error = &comms.TaskError{Kind: comms.ErrorTask, Message: "it failed without saying why", Task: j.taskName(t), Agent: k.at}
		}
		c.noteEnd(j, e)
		c.end(j, t, tFailed)
		c.todo = append(c.todo, ended{j, t})
		return
	}
	d := m.Data
	d.Ref = comms.DatasetRef{Task: t}
	switch d.Place.Kind {
	case comms.PlaceInline:
		d.Place.Bytes = slices.Clone(d.Place.Bytes)
		j.data[d.Ref] = &dataset{desc: d}
		c.cameHome(j)
	case comms.PlaceAgent:
		c.fetchFrom(j, k.at, d, comms.DatasetID{Job: m.Call, DatasetRef: m.Data.Ref})
	default:
		c.shun(k.out.host)
		c.takeHome(j)
	}
}

// cameHome ends a call whose result is here, or makes a dataset of another agent one
// that calls here can read.
func (c *Core) cameHome(j *job) {
	k := j.call
	t := k.task(j)
	d := j.data[comms.DatasetRef{Task: t}]
	j.peers, j.given = nil, false
	d.copy, d.given = false, false
	d.refs = j.countRefs(d.desc.Ref, false)
	if k.out != nil {
		k.out.host.shunFor = 0
		c.noteEnd(j, *k.out.end)
	}
	c.end(j, t, tFinished)
}

// takeHome makes a call again what it was before it went elsewhere. It stays if it
// can run here.
func (c *Core) takeHome(j *job) {
	c.endStay(j)
	j.call.at, j.call.stays = "", true
	t := j.call.task(j)
	j.at(t).state = tWaiting
	if c.tryCall(j); j.at(t).state == tWaiting { // its host could not have them, either
		c.fail(j, t, nil, &comms.TaskError{Kind: comms.ErrorStore, Message: "what it reads is lost"}, comms.Cause{Kind: comms.CauseMemory}, true)
	}
}

// endStay ends what a call has to do with other agents: it has ended, or is to run
// here. Its result elsewhere is not fetched any more.
func (c *Core) endStay(j *job) {
	c.dropPeers(j)
	c.strange = slices.DeleteFunc(c.strange, func(o *job) bool { return o == j })
	out := j.call.out
	if out == nil {
		return
	}
	j.call.out = nil
	delete(c.away, out.id)
	n := out.host
	n.out--
	n.used = c.now
	if out.sent {
		c.say(n, &comms.Recall{Call: out.id})
		return
	}
	n.outbox = slices.DeleteFunc(n.outbox, func(m comms.Message) bool {
		f, ok := m.(*comms.Forward)
		return ok && f.Call == out.id
	})
}

// refuseStuck refuses to bring a dataset into memory that the host of a call wants to
// fetch, when nothing else can move: the call comes home then. It tells whether there
// was one.
func (c *Core) refuseStuck() bool {
	var first *offer
	var reader *job
	for _, o := range c.offers {
		if !o.offered && (first == nil || o.req < first.req) {
			if j := c.readAway(o.key); j != nil {
				first, reader = o, j
			}
		}
	}
	if first == nil {
		return false
	}
	why := errors.New("it is on disk, and there is no room for it beside the inputs of the tasks that wait for calls")
	delete(c.requests, first.req)
	c.must(c.led.Release(first.req))
	c.offerFailed(first, why)
	c.effects()
	if reader.callGroup().unfit != "" { // it can run nowhere else, and would come home for ever
		c.fail(reader, reader.call.task(reader), nil, &comms.TaskError{Kind: comms.ErrorStore, Message: "what it reads cannot be sent to its host: " + why.Error()},
			comms.Cause{Kind: comms.CauseMemory}, true)
	}
	return true
}

// readAway returns the first call that another agent has and that reads a dataset;
// nil when there is none.
func (c *Core) readAway(k offerKey) (first *job) {
	for _, j := range c.away {
		if first != nil && first.seq < j.seq {
			continue
		}
		for i := range j.call.task(j) {
			if d := j.data[comms.DatasetRef{Task: i}]; d != nil && d.sealed {
				if of, from := d.lender(j); of.id == k.data.Job && from.desc.Ref == k.data.DatasetRef {
					first = j
				}
			}
		}
	}
	return first
}

// lender returns the job and the dataset whose bytes a dataset of a job has.
func (d *dataset) lender(j *job) (*job, *dataset) {
	for d.from != nil {
		j, d = d.from.job, d.from.data
	}
	return j, d
}

// goesOnAway tells whether another agent is at a call of this one, or is yet to be
// found: what waits here may go on with what comes of it.
func (c *Core) goesOnAway() bool {
	for _, j := range c.away {
		if !c.lacksRoom(j) {
			return true
		}
	}
	return len(c.strange) > 0
}

// lacksRoom tells whether nothing but memory is missing to fetch what the one task of
// a job has made elsewhere.
func (c *Core) lacksRoom(j *job) bool {
	if j.peers == nil {
		return false
	}
	h := j.peers.heard[comms.DatasetRef{Task: j.call.task(j)}]
	return h != nil && (h.state == hearRoom || h.state == hearTold && h.queued && !h.due.After(c.now))
}

// resultStuck fails a call for whose result there is no room, when nothing else can
// move. It tells whether there was one.
func (c *Core) resultStuck() bool {
	var first *job
	for _, j := range c.away {
		if first == nil || j.seq < first.seq {
			first = j
		}
	}
	if first == nil {
		return false
	}
	c.fail(first, first.call.task(first), nil, &comms.TaskError{Kind: comms.ErrorStore, Message: "there is no room for what it returned beside the inputs of the tasks that wait for calls"},
		comms.Cause{Kind: comms.CauseMemory}, true)
	return true
}

// callsAt lists the calls that an agent has, or is about to be told of, in the order
// in which they were made.
func (c *Core) callsAt(n *neighbour) (all []*job) {
	for _, j := range c.away {
		if j.call.out.host == n {
			all = append(all, j)
		}
	}
	slices.SortFunc(all, func(a, b *job) int { return cmp.Compare(a.seq, b.seq) })
	return all
}
