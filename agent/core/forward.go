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
	var classes []*class
	for _, l := range c.lines {
		if l.calls == 0 || !slices.Equal(l.need, a.need) {
			continue
		}
		for q := range l.queues.All() {
			for cl := range q.classes.All() {
				if cl.job.dyn != nil {
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
		for i := cl.rows.Len() - 1; i >= 0 && len(all) < mostAsked; i-- { // near the end those that would begin late
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
		for n := h.Calls; n > 0 && len(all) > 0 && c.leaving == nil; n-- {
			c.forward(all[0], h)
			all, some = all[1:], true
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
	if !j.dynamic() || c.cfg.ForwardAfter <= 0 {
		return false
	}
	if j.call != nil {
		c.sendBack(j, j.groupOf(t).unfit)
		return true
	}
	if j.dyn.rows.at(t).shape.stays() {
		return false
	}
	j.at(t).state = tAway
	c.strange = append(c.strange, rowRef{j, t})
	return true
}

// forward has another agent run a call.
func (c *Core) forward(at rowRef, h *comms.Host) {
	w, t := at.row(), at.job.at(at.task)
	m, err := c.forwarding(at)
	if err != nil {
		w.stays = true // as a call of this host it fails with what is wrong
		return
	}
	if t.state == tReady {
		c.withdrawRow(at.job.groupOf(at.task).class, at.task)
		t.state = tAway
	}
	c.strange = slices.DeleteFunc(c.strange, func(o rowRef) bool { return o == at })
	n := c.acquaint(h)
	if n.out++; !n.up {
		c.miss(n)
	}
	w.out = &outgoing{id: m.Call, host: n}
	c.away[m.Call] = at
	c.say(n, m)
}

// withdrawRow takes a ready task out of its class. Those that are forwarded are near the end of its rows.
func (c *Core) withdrawRow(cl *class, t taskIndex) {
	for i := cl.rows.Len() - 1; i >= 0; i-- {
		if cl.rows.Ref(i).task != t {
			continue
		}
		if cl.size == 1 {
			c.leave(cl)
		}
		cl.rows.Remove(i)
		cl.size--
		if cl.queue != nil {
			cl.queue.line.count(cl, -1)
			cl.queue.classes.Fix(cl.at)
		}
		return
	}
}

// forwarding writes a call for another agent.
func (c *Core) forwarding(at rowRef) (*comms.Forward, error) {
	j, w := at.job, at.row()
	g, err := w.graph()
	if err != nil {
		return nil, err
	}
	root, of := j.root()
	m := &comms.Forward{Call: c.freshID(fmt.Append(j.id[:], at.task)), Graph: g.Encode(), Task: comms.TaskID{Job: root.id, Index: of}, JobIncarnation: root.life, Group: root.groupOf(of).group.Name,
		Name: j.rowName(at.task), With: w.with, Dir: j.dir, Priority: j.priority, Weight: uint32(root.tenant.weight), Tenant: root.tenant.name, Depth: uint64(j.depth)}
	if g := root.guestOf(); g != nil { // it comes from farther away
		m.Task, m.Group = g.task, g.group
	}
	if env := w.shape.env.name; env == "" || env == dag.ProgramEnvironment {
		m.Registry = j.registry
	}
	for i := range w.args {
		a := &w.args[i]
		in := comms.ForwardedIn{Data: a.desc}
		if a.data != nil {
			in.Data = a.data.desc
			in.Of = comms.DatasetID{Job: j.id, DatasetRef: in.Data.Ref}
			if l := a.data.lent; l != nil { // under its first name hosts have it once for all that read it
				in.Of = comms.DatasetID{Job: l.job, DatasetRef: l.desc.Ref}
			}
			in.Data.Place = comms.Place{Kind: comms.PlaceAgent, Where: c.cfg.Agent}
		}
		m.Inputs = append(m.Inputs, in)
	}
	return m, nil
}

// graph is that of a call for another agent: placeholders for its arguments, in their
// order, and its task.
func (r *callRow) graph() (*dag.Graph, error) {
	b := dag.NewBuilder("call")
	grp := *r.shape.group
	if e := r.shape.env; e.name != "" {
		if d := e.job.declared(e.name); d != nil {
			b.Environment(*d)
		}
	}
	if n := len(r.args); n > 0 {
		in := b.Add(dag.Group{Name: "inputs", Axes: []dag.Axis{dag.Range("i", 0, int64(n)-1)}, Run: dag.Run{Function: "inputs"}, Outputs: []dag.OutputDecl{{Name: "out"}}})
		grp.Inputs = slices.Clone(grp.Inputs)
		for p := range grp.Inputs {
			var from []dag.From
			for i := range r.args {
				if int(r.args[i].port) == p {
					from = append(from, in.Out("out", dag.At(i)))
				}
			}
			switch {
			case grp.Inputs[p].List:
				grp.Inputs[p].From = from
			case len(from) != 1:
				return nil, fmt.Errorf("input %s has %d datasets", grp.Inputs[p].Name, len(from))
			default:
				grp.Inputs[p].From = from
			}
		}
	}
	b.Add(grp)
	return b.Build()
}

// forwarded takes the word of a host.
func (c *Core) forwarded(from string, m *comms.Forwarded) {
	at, ok := c.away[m.Call]
	if !ok || at.row().out.host.name != from {
		return // it stays there no more
	}
	out := at.row().out
	switch {
	case m.Back != "":
		c.shun(out.host)
		c.takeHome(at)
	case !m.Over && len(m.Text) > 0:
		c.log(at.job, m.Stream, m.Text)
	case !m.Over && m.Event != nil:
		c.tellRoot(at.job, *m.Event)
	case m.Over && m.Event != nil && out.end == nil:
		c.endedAway(at, m)
	}
}

// endedAway takes over how a call has ended at its host. Its result is fetched,
// if it did not come with the word.
func (c *Core) endedAway(at rowRef, m *comms.Forwarded) {
	j, t, w := at.job, at.task, at.row()
	e := *m.Event
	if e.Task, e.Executor = t, 0; e.Usage != nil {
		c.callSeconds.add(float64(e.Usage.Duration) / 1e9)
	}
	w.out.end, w.at = &e, w.out.host.name
	if e.Kind != comms.EventFinished {
		w.out.host.shunFor = 0
		if e.Error == nil {
			e.Error = &comms.TaskError{Kind: comms.ErrorTask, Message: "it failed without saying why", Task: j.taskName(t), Agent: w.at}
		}
		c.noteEnd(j, e)
		c.end(j, t, tFailed)
		return
	}
	d := m.Data
	d.Ref = comms.DatasetRef{Task: t}
	switch d.Place.Kind {
	case comms.PlaceInline:
		d.Place.Bytes = slices.Clone(d.Place.Bytes)
		j.data[d.Ref] = &dataset{desc: d}
		c.cameHome(at)
	case comms.PlaceAgent:
		c.fetchFrom(j, w.at, d, comms.DatasetID{Job: m.Call, DatasetRef: m.Data.Ref})
	default:
		c.shun(w.out.host)
		c.takeHome(at)
	}
}

// cameHome ends a call whose result is here.
func (c *Core) cameHome(at rowRef) {
	j, t, w := at.job, at.task, at.row()
	ref := comms.DatasetRef{Task: t}
	d := j.data[ref]
	j.forgetHeard(ref)
	d.copy, d.given = false, false
	d.refs = j.countRefs(ref, false)
	w.out.host.shunFor = 0
	c.noteEnd(j, *w.out.end)
	c.end(j, t, tFinished)
}

// forgetHeard forgets what was known of a dataset of another agent that is here now, or is not fetched any more.
func (j *job) forgetHeard(ref comms.DatasetRef) {
	if j.peers == nil {
		return // it came in a message
	}
	delete(j.peers.heard, ref)
	if len(j.peers.heard) == 0 {
		j.peers, j.given = nil, false
	}
}

// takeHome makes a call again what it was before it went elsewhere. It stays if it
// can run here.
func (c *Core) takeHome(at rowRef) {
	c.endStay(at)
	at.row().at, at.row().stays = "", true
	at.job.at(at.task).state = tWaiting
	c.tryRow(at)
}

// endStay ends what a call has to do with other agents: it has ended, or is to run
// here. Its result elsewhere is not fetched any more.
func (c *Core) endStay(at rowRef) {
	if ref := (comms.DatasetRef{Task: at.task}); at.job.peers != nil && at.job.peers.heard[ref] != nil {
		h := at.job.peers.heard[ref]
		c.forgetPull(h)
		c.unwant(h)
		c.land(at.job, h)
		at.job.forgetHeard(ref)
	}
	c.strange = slices.DeleteFunc(c.strange, func(o rowRef) bool { return o == at })
	out := at.row().out
	if out == nil {
		return
	}
	at.row().out = nil
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
	var readerAt rowRef
	for _, o := range c.offers {
		if !o.offered && (first == nil || o.req < first.req) {
			if at, ok := c.readAway(o.key); ok {
				first, readerAt = o, at
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
	if readerAt.job.groupOf(readerAt.task).unfit != "" { // it can run nowhere else, and would come home for ever
		c.fail(readerAt.job, readerAt.task, nil, &comms.TaskError{Kind: comms.ErrorStore, Message: "what it reads cannot be sent to its host: " + why.Error()},
			comms.Cause{Kind: comms.CauseMemory}, true)
	}
	return true
}

// readAway returns the first call that another agent has and that reads a dataset.
func (c *Core) readAway(k offerKey) (first rowRef, ok bool) {
	for _, at := range c.away {
		if ok && first.before(at) {
			continue
		}
		for _, a := range at.row().args {
			if a.data == nil {
				continue
			}
			of := comms.DatasetID{Job: at.job.id, DatasetRef: a.data.desc.Ref}
			if l := a.data.lent; l != nil {
				of = comms.DatasetID{Job: l.job, DatasetRef: l.desc.Ref}
			}
			if of == k.data {
				first, ok = at, true
			}
		}
	}
	return first, ok
}

// before orders rows as they were made.
func (r rowRef) before(o rowRef) bool {
	return cmp.Or(cmp.Compare(r.job.seq, o.job.seq), cmp.Compare(r.task, o.task)) < 0
}

// goesOnAway tells whether another agent is at a call of this one, or is yet to be
// found: what waits here may go on with what comes of it.
func (c *Core) goesOnAway() bool {
	for _, at := range c.away {
		if !at.job.lacksRoom(comms.DatasetRef{Task: at.task}, c.now) {
			return true
		}
	}
	return len(c.strange) > 0
}

// lacksRoom tells whether nothing but memory is missing to fetch what a task has made elsewhere.
func (j *job) lacksRoom(ref comms.DatasetRef, now time.Time) bool {
	if j.peers == nil {
		return false
	}
	h := j.peers.heard[ref]
	return h != nil && (h.state == hearRoom || h.state == hearTold && h.queued && !h.due.After(now))
}

// resultStuck fails a call for whose result there is no room, when nothing else can
// move. It tells whether there was one.
func (c *Core) resultStuck() bool {
	all := slices.SortedFunc(maps.Values(c.away), func(a, b rowRef) int {
		return cmp.Or(cmp.Compare(a.job.seq, b.job.seq), cmp.Compare(a.task, b.task))
	})
	if len(all) == 0 {
		return false
	}
	c.fail(all[0].job, all[0].task, nil, &comms.TaskError{Kind: comms.ErrorStore, Message: "there is no room for what it returned beside the inputs of the tasks that wait for calls"},
		comms.Cause{Kind: comms.CauseMemory}, true)
	return true
}

// callsAt lists the calls that an agent has, or is about to be told of, in the order
// in which they were made.
func (c *Core) callsAt(n *neighbour) (all []rowRef) {
	for _, at := range c.away {
		if at.row().out.host == n {
			all = append(all, at)
		}
	}
	slices.SortFunc(all, func(a, b rowRef) int {
		return cmp.Or(cmp.Compare(a.job.seq, b.job.seq), cmp.Compare(a.task, b.task))
	})
	return all
}
