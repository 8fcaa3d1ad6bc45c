package core

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/dag"
)

// A call that another agent runs stays this agent's: it is granted, its inputs are
// fetched from here, its end and what it made come back (hosted is the other side).
// Each grant has a number of its own: what is said late, of one that was given up, is of a
// number that stands for nothing. When its host is lost the call is what it was before.

// outgoing is a call that another agent has, or is about to be told of.
type outgoing struct {
	grant uint64
	host  *neighbour
	sent  bool
	end   *comms.Event // how it has ended; what it made is on its way here
	open  *openGrant   // its host keeps to what its result refers; nil: it refers to nothing there

	counted bool // in the window of its host
	asked   bool // it was asked back, and its host has not said whether it has begun
}

// mostGranted is how many tasks one message grants at most.
const mostGranted = 256

// grantAll has another agent run calls. Neighbours in the list that share all but their
// arguments go in one message.
func (c *Core) grantAll(all []rowRef, n *neighbour) {
	var m *comms.Grant
	var last rowRef
	for _, at := range all {
		w, t := at.row(), at.job.at(at.task)
		if slices.ContainsFunc(w.args, func(a argument) bool { return a.lost }) {
			c.strange = slices.DeleteFunc(c.strange, func(o rowRef) bool { return o == at })
			if t.state == tReady {
				c.withdrawRow(at.job.groupOf(at.task).class, at.task)
			}
			t.state = tWaiting
			c.tryRow(at)
			continue
		}
		if t.state == tReady {
			c.withdrawRow(at.job.groupOf(at.task).class, at.task)
			t.state = tAway
		}
		c.strange = slices.DeleteFunc(c.strange, func(o rowRef) bool { return o == at })
		if m == nil || last.job != at.job || last.row().shape != w.shape || len(m.Tasks) == mostGranted {
			if m != nil {
				c.say(n, m)
			}
			m, last = c.newGrant(at), at
		}
		c.lastGrant++
		m.Tasks = append(m.Tasks, c.grantTask(at, c.lastGrant, n))
		w.out = &outgoing{grant: c.lastGrant, host: n, counted: true}
		c.away[c.lastGrant] = at
		n.out++
		c.gets(n, c.lastGrant)
	}
	if m != nil {
		c.say(n, m)
	}
	if n.out > 0 && !n.up {
		c.miss(n)
	}
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

// newGrant writes what calls like one share, for another agent.
func (c *Core) newGrant(at rowRef) *comms.Grant {
	j, s := at.job, at.row().shape
	root, _ := j.root()
	m := c.grantOf(j)
	m.Kind = s.kind
	m.Kind.ID, m.Kind.Environment = 0, s.env.name
	m.Environment = encodeEnvironments(root.graph.Environments)
	if env := s.env.name; env == "" || env == dag.ProgramEnvironment {
		m.Registry = j.registry
	}
	return m
}

// grantOf writes what calls of one job share.
func (c *Core) grantOf(j *job) *comms.Grant {
	root, of := j.root()
	m := &comms.Grant{Root: comms.TaskID{Job: root.id, Index: of}, JobIncarnation: root.life, Group: root.rootGroup(of), Dir: j.dir,
		Priority: j.priority, Weight: uint32(root.tenant.weight), Tenant: root.tenant.name, Depth: uint64(j.depth)}
	if h := root.hosted(); h != nil { // it comes from farther away
		m.Root = h.root
	}
	return m
}

// rootGroup is the name of the group of the task from which calls come.
func (j *job) rootGroup(t taskIndex) string {
	if j.dyn == nil {
		return j.groupOf(t).group.Name
	}
	if s := j.dyn.rows.at(t).shape; s != nil {
		return s.rootGroup
	}
	return ""
}

// encodeEnvironments writes the declarations of environments, in a graph of a task.
func encodeEnvironments(all []dag.Environment) []byte {
	if len(all) == 0 {
		return nil
	}
	b := dag.NewBuilder("call")
	for i := range all {
		b.Environment(all[i])
	}
	b.Add(dag.Group{Name: "call", Run: dag.Run{Function: "call"}, Outputs: []dag.OutputDecl{{Name: "out"}}})
	g, err := b.Build()
	if err != nil {
		return nil // its host says that there is none of this name
	}
	return g.Encode()
}

// grantTask writes one call for another agent.
func (c *Core) grantTask(at rowRef, grant uint64, to *neighbour) comms.GrantTask {
	w := at.row()
	m := comms.GrantTask{Grant: grant, Name: at.job.rowName(at.task), With: w.with, Inputs: make([]comms.GrantInput, len(w.args))}
	for i := range w.args {
		a := &w.args[i]
		in := &m.Inputs[i]
		in.Port, in.Data = a.port, a.desc
		if a.data != nil {
			in.Data, in.Of = a.data.desc, a.source(at)
			in.Data.Place = comms.Place{Kind: comms.PlaceAgent, Where: c.cfg.Agent}
		}
		if list := c.refs.list(at.job, argRef(at.task, i)); list != nil {
			m.Refs = append(m.Refs, comms.ValueRefs{Place: uint32(i), Refs: c.refsTo(to, list)})
		}
	}
	return m
}

// source is the name under which an argument is served: of what was lent its first name, so
// that hosts have it once for all that read it.
func (a *argument) source(at rowRef) comms.DatasetID {
	if l := a.data.lent; l != nil {
		return comms.DatasetID{Job: l.job, DatasetRef: l.desc.Ref}
	}
	return comms.DatasetID{Job: at.job.id, DatasetRef: a.data.desc.Ref}
}

// reported takes the word of a host.
func (c *Core) reported(from string, m *comms.GrantReport) {
	for i := range m.Items {
		it := &m.Items[i]
		at, ok := c.away[it.Grant]
		if s := c.refs.open[it.Grant]; s != nil && s.host.name == from && !it.Over { // of what goes on there
			if len(it.Text) > 0 {
				c.log(rowRef{s.job, s.task}, it.Stream, it.Text)
			} else if tellsCall(it) {
				c.tellRoot(s.job, *it.Event)
			}
		}
		if !ok || at.row().out.host.name != from {
			continue // it stays there no more
		}
		out := at.row().out
		switch {
		case it.Back != "":
			if !out.asked {
				c.shun(out.host)
			}
			c.cameBack(at, it.Back)
		case !it.Over && len(it.Text) > 0:
			c.log(at, it.Stream, it.Text)
		case !it.Over && it.Event == nil: // it was asked back, and has begun
			out.said()
		case !it.Over:
			if tellsCall(it) {
				c.tellRoot(at.job, *it.Event)
			}
		case it.Over && it.Event != nil && out.end == nil:
			c.endedAway(at, it)
		}
	}
}

// tellsCall tells whether a host says how a task has ended that a hosted one has called: of other happenings only this
// agent tells the controller.
func tellsCall(it *comms.GrantItem) bool {
	return it.Event != nil && it.Event.Kind == comms.EventCall
}

// endedAway takes over how a call has ended at its host. Outputs that did not come
// with the word are fetched.
func (c *Core) endedAway(at rowRef, m *comms.GrantItem) {
	j, t, w := at.job, at.task, at.row()
	e, out := *m.Event, w.out
	switch e.Kind {
	case comms.EventFinished, comms.EventFailed, comms.EventSkipped, comms.EventCancelled:
	default:
		e.Error = &comms.TaskError{Kind: comms.ErrorSetup, Task: j.taskName(t), Agent: out.host.name,
			Message: fmt.Sprintf("agent %s says of its end an event of kind %d, which is no end", out.host.name, e.Kind)}
		e.Kind = comms.EventFailed
	}
	if e.Task = t; e.Usage != nil {
		c.callSeconds.add(float64(e.Usage.Duration) / 1e9)
	}
	w.out.end, w.at = &e, w.out.host.name
	w.out.leaves()
	if e.Kind != comms.EventFinished {
		w.out.host.shunFor = 0
		if e.Error == nil {
			e.Error = &comms.TaskError{Kind: comms.ErrorTask, Message: "it failed without saying why", Task: j.taskName(t), Agent: w.at}
		}
		c.noteEnd(j, e)
		c.end(j, t, tFailed)
		return
	}
	if w.dropped && !w.held && len(w.readers) == 0 {
		c.endsUnread(at)
		return
	}
	if w.shape == borrowed && len(m.Outputs) > 0 { // it has the name of the dataset for which it stands
		m.Outputs = m.Outputs[:1]
	}
	for o := range w.shape.group.Outputs { // all that it makes, each once
		if n := slices.IndexFunc(m.Outputs, func(d comms.Desc) bool { return d.Ref.Output == uint32(o) || w.shape == borrowed }); n < 0 ||
			m.Outputs[n].Place.Kind != comms.PlaceInline && m.Outputs[n].Place.Kind != comms.PlaceAgent {
			c.shun(w.out.host)
			c.takeHome(at)
			return
		}
	}
	c.listAway(at, m)
	for _, d := range m.Outputs {
		of, made := comms.DatasetID{Job: m.Of, DatasetRef: d.Ref}, d.Attempt
		if d.Ref.Task = t; w.shape == borrowed {
			d.Ref = comms.DatasetRef{Task: t}
		}
		d.Ref, d.Attempt = comms.DatasetRef{Task: t, Output: d.Ref.Output}, j.at(t).attempt // of the owner's: when it runs again there may be readers of this one
		if int(d.Ref.Output) >= len(w.shape.group.Outputs) || j.data[d.Ref] != nil || j.peers != nil && j.peers.heard[d.Ref] != nil {
			continue
		}
		if d.Place.Kind == comms.PlaceInline {
			d.Place.Bytes = slices.Clone(d.Place.Bytes)
			j.data[d.Ref] = &dataset{desc: d}
			continue
		}
		c.fetchFrom(j, w.at, d, of, made)
	}
	c.cameHome(at)
}

// cameHome ends a call when all that it made is here.
func (c *Core) cameHome(at rowRef) {
	j, t, w := at.job, at.task, at.row()
	for o := range w.shape.group.Outputs {
		ref := comms.DatasetRef{Task: t, Output: uint32(o)}
		d := j.data[ref]
		if d == nil {
			return // it is on its way
		}
		j.forgetHeard(ref)
		d.copy, d.given = false, false
		d.refs = j.countRefs(ref, false)
	}
	w.out.host.shunFor = 0
	c.noteEnd(j, *w.out.end)
	c.end(j, t, tFinished)
}

// endsUnread ends a call that has ended well elsewhere, and of which nothing is read.
func (c *Core) endsUnread(at rowRef) {
	w := at.row()
	w.out.host.shunFor = 0
	c.noteEnd(at.job, *w.out.end)
	c.end(at.job, at.task, tFinished)
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
	if rm := c.refs.remotes[at]; rm != nil {
		c.remoteBack(at, rm)
		return
	}
	c.endStay(at)
	at.row().at, at.row().stays = "", at.row().stays || at.row().returns >= mostReturns
	at.job.at(at.task).state = tWaiting
	c.tryRow(at)
}

// mostReturns is how often others return a call that cannot run here before it fails.
const mostReturns = 8

// cameBack takes a call home that its host has returned. One that can run nowhere else may be
// returned for ever, as what it calls there needs more than its host has: so it fails in the end.
func (c *Core) cameBack(at rowRef, why string) {
	w := at.row()
	if w.returns++; w.returns < mostReturns || at.job.groupOf(at.task).unfit == "" {
		c.takeHome(at)
		return
	}
	c.fail(at.job, at.task, nil, &comms.TaskError{Kind: comms.ErrorSetup, Message: fmt.Sprintf("it cannot run on this agent (%s), and others returned it %d times, last agent %s: %s",
		at.job.groupOf(at.task).unfit, w.returns, w.out.host.name, why)}, comms.Cause{Kind: comms.CauseTask}, true)
}

// endStay ends what a call has to do with other agents: it has ended, or is to run
// here. Its result elsewhere is not fetched any more.
func (c *Core) endStay(at rowRef) {
	if at.job.peers != nil {
		for o := range at.job.groupOf(at.task).group.Outputs {
			ref := comms.DatasetRef{Task: at.task, Output: uint32(o)}
			if at.job.peers == nil || at.job.peers.heard[ref] == nil {
				continue
			}
			h := at.job.peers.heard[ref]
			c.forgetPull(h)
			c.unwant(h)
			c.land(at.job, h)
			at.job.forgetHeard(ref)
		}
	}
	c.strange = slices.DeleteFunc(c.strange, func(o rowRef) bool { return o == at })
	out := at.row().out
	if out == nil {
		return
	}
	at.row().out = nil
	out.leaves()
	delete(c.away, out.grant)
	if at.job.at(at.task).state != tFinished && out.end != nil { // some outputs may be here: all are of one run, that counts
		c.freeRow(at)
	}
	if c.keepStay(at, out) {
		return
	}
	n := out.host
	n.out--
	n.used = c.now
	if out.sent {
		c.sayGrantEnd(n, out.grant)
		return
	}
	n.outbox = slices.DeleteFunc(n.outbox, func(m comms.Message) bool {
		g, ok := m.(*comms.Grant)
		if !ok {
			return false
		}
		g.Tasks = slices.DeleteFunc(g.Tasks, func(t comms.GrantTask) bool { return t.Grant == out.grant })
		return len(g.Tasks) == 0
	})
}

// sayGrantEnd ends a grant. It goes with others that wait to be told.
func (c *Core) sayGrantEnd(n *neighbour, grant uint64) {
	if k := len(n.outbox); k > 0 {
		if m, ok := n.outbox[k-1].(*comms.GrantEnd); ok {
			m.Grants = append(m.Grants, grant)
			return
		}
	}
	c.say(n, &comms.GrantEnd{Grants: []uint64{grant}})
}

// refuseStuck refuses to bring a dataset into memory that the host of a call, the owner of
// a hosted task, or an agent with a reference wants to fetch, when nothing else can move: the call comes home then, or
// runs again at its owner. It tells whether there was one.
func (c *Core) refuseStuck() bool {
	var first *offer
	var readerAt rowRef
	for _, o := range c.offers {
		if !o.offered && (first == nil || o.req < first.req) {
			if at, ok := c.readAway(o.key); ok {
				first, readerAt = o, at
			} else if j := c.byJob[o.key.data.Job]; j != nil && j.dyn != nil {
				first, readerAt = o, rowRef{}
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
	if readerAt.job != nil && readerAt.job.groupOf(readerAt.task).unfit != "" { // it can run nowhere else, and would come home for ever
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
			if a.source(at) == k.data {
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
		if !c.lacksRoom(at) {
			return true
		}
	}
	return len(c.strange) > 0
}

// lacksRoom tells whether nothing but memory is missing to fetch what a row has made elsewhere, or
// stands for.
func (c *Core) lacksRoom(at rowRef) bool {
	if at.job.peers == nil {
		return false
	}
	for o := range at.job.groupOf(at.task).group.Outputs {
		h := at.job.peers.heard[comms.DatasetRef{Task: at.task, Output: uint32(o)}]
		if h != nil && (h.state == hearRoom || h.state == hearTold && h.queued && !h.due.After(c.now)) {
			return true
		}
	}
	return false
}

// resultStuck fails a call for whose result there is no room, when nothing else can
// move, or only others (goesOn). It tells whether there was one.
func (c *Core) resultStuck(goesOn bool) bool {
	all := slices.SortedFunc(maps.Values(c.away), func(a, b rowRef) int {
		return cmp.Or(cmp.Compare(a.job.seq, b.job.seq), cmp.Compare(a.task, b.task))
	})
	if goesOn {
		all = slices.DeleteFunc(all, func(at rowRef) bool { return !c.lacksRoom(at) })
	}
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
