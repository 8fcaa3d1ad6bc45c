package core

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/cascade-run/cascade/comms"
)

// References go from agent to agent with the values that have them: with the arguments of a call that is
// granted, and with what it returned. Each agent names rows of its own. The other makes a row that
// stands for each, a remote row: it has ended and has no data, so that it is recomputed when it is wanted. Then it
// is granted to the agent that named it, as calls are, and fetched from there.
//
//	value with references ──▶ remote rows (held by the value) ──wanted──▶ Grant without a function ──▶ borrowed row
//	                                  └── the last is forgotten ──▶ GrantEnd of the task that returned the value
//
// References in a result stay at the host because its grant does not end before the last of its remote rows
// is forgotten. References in an argument stay because the owner has the argument until the task ends; those that are
// needed longer are wanted before the end is told.

// remote is what a remote row stands for.
type remote struct {
	host *neighbour // that named it
	of   comms.DatasetID
	open *openGrant // nil of one in an argument
	lost string     // why it cannot be had any more
}

// openGrant is a grant of a task that has ended, and whose host keeps to what its result refers.
type openGrant struct {
	grant uint64
	host  *neighbour
	job   *job // of the call
	task  taskIndex
	n     int // remote rows
}

// refTo names a reference for another agent.
func (c *Core) refTo(n *neighbour, r reference) comms.AgentRef {
	if rm := c.refs.remotes[r.rowRef]; rm != nil && rm.host == n && rm.lost == "" {
		return comms.AgentRef{Yours: true, Of: rm.of}
	}
	return comms.AgentRef{Of: comms.DatasetID{Job: r.job.id, DatasetRef: r.dataset()}}
}

func (c *Core) refsTo(n *neighbour, list []reference) []comms.AgentRef {
	refs := make([]comms.AgentRef, len(list))
	for i, r := range list {
		refs[i] = c.refTo(n, r)
	}
	return refs
}

// refsFrom finds, or makes, the rows for references that another agent has named in a value of a task.
func (c *Core) refsFrom(n *neighbour, by *caller, refs []comms.AgentRef, s *openGrant) []reference {
	list := make([]reference, len(refs))
	for i := range refs {
		if r, ok := c.named(refs[i].Of); refs[i].Yours && ok {
			list[i] = c.origin(r)
			continue
		}
		rm := &remote{host: n, of: refs[i].Of, open: s}
		if refs[i].Yours {
			rm.lost, rm.open = "it was freed", nil
		}
		list[i] = reference{rowRef: c.remoteRow(by, rm)}
	}
	return list
}

// named finds a dataset of a row of this agent.
func (c *Core) named(of comms.DatasetID) (r reference, ok bool) {
	j := c.byJob[of.Job]
	if j == nil || j.dyn == nil || j.dropped || int(of.Task) >= j.dyn.rows.n {
		return r, false
	}
	r = reference{rowRef{j, of.Task}, of.Output, of.Element}
	w := r.row()
	return r, w.value || w.shape != nil
}

// remoteRow makes a row that stands for a dataset of another agent.
func (c *Core) remoteRow(by *caller, rm *remote) rowRef {
	at := c.addRow(by, callRow{shape: borrowed, name: "reference", dropped: true, stays: true, made: c.now.UnixNano(), args: make([]argument, 1)})
	t := at.job.at(at.task)
	t.state, t.flags = tFinished, t.flags|fReleased
	at.job.unended--
	c.touch(at.job)
	if c.refs.remotes == nil {
		c.refs.remotes = map[rowRef]*remote{}
	}
	c.refs.remotes[at] = rm
	if rm.open != nil {
		rm.open.n++
	}
	return at
}

// endRemote forgets a remote row.
func (c *Core) endRemote(at rowRef) {
	rm := c.refs.remotes[at]
	if rm == nil {
		return
	}
	delete(c.refs.remotes, at)
	s := rm.open
	if s == nil {
		return
	}
	if s.n--; s.n == 0 && c.refs.open[s.grant] == s {
		delete(c.refs.open, s.grant)
		s.host.out--
		s.host.used = c.now
		c.sayGrantEnd(s.host, s.grant)
	}
}

// endRemotes forgets the remote rows of a job.
func (c *Core) endRemotes(j *job) {
	for _, at := range c.sortedRemotes(func(at rowRef, _ *remote) bool { return at.job == j }) {
		c.endRemote(at)
	}
}

func (c *Core) sortedRemotes(which func(rowRef, *remote) bool) (all []rowRef) {
	for at, rm := range c.refs.remotes {
		if which(at, rm) {
			all = append(all, at)
		}
	}
	slices.SortFunc(all, func(a, b rowRef) int {
		return cmp.Or(cmp.Compare(a.job.seq, b.job.seq), cmp.Compare(a.task, b.task))
	})
	return all
}

// wantRemote has another agent end a borrowed row for a remote row.
func (c *Core) wantRemote(at rowRef, rm *remote) {
	w, n := at.row(), rm.host
	if rm.lost != "" {
		c.failBorrowed(at, c.ownerLost(rm))
		return
	}
	m := c.grantOf(at.job)
	c.lastGrant++
	m.Tasks = []comms.GrantTask{{Grant: c.lastGrant, Name: at.job.rowName(at.task), Inputs: []comms.GrantInput{{Of: rm.of}}}}
	w.out = &outgoing{grant: c.lastGrant, host: n}
	c.away[c.lastGrant] = at
	at.job.at(at.task).state = tAway
	n.out++
	n.used = c.now
	if c.say(n, m); !n.up {
		c.miss(n)
	}
}

// ownerLost is the error of a reference to what another agent had.
func (c *Core) ownerLost(rm *remote) *comms.TaskError {
	return &comms.TaskError{Kind: comms.ErrorStore, Agent: rm.host.name,
		Message: fmt.Sprintf("the future refers to dataset %s of agent %s, which is lost: %s", rm.of, rm.host.name, rm.lost)}
}

// remoteBack follows when an agent does not have for which a remote row stands, for whatever reason.
func (c *Core) remoteBack(at rowRef, rm *remote) {
	w := at.row()
	c.endStay(at)
	at.job.at(at.task).state = tWaiting
	if w.returns++; rm.lost == "" && w.returns >= mostReturns {
		rm.lost = fmt.Sprintf("it could not be fetched %d times", w.returns)
	}
	c.wantRemote(at, rm)
}

// loseRemotes gives up all that an agent keeps for this one. It is told so (told) when what was said before still counts.
func (c *Core) loseRemotes(n *neighbour, told bool, why string) {
	for _, grant := range slices.Sorted(maps.Keys(c.refs.open)) {
		if c.refs.open[grant].host != n {
			continue
		}
		n.out--
		if delete(c.refs.open, grant); told {
			c.sayGrantEnd(n, grant)
		}
	}
	for _, at := range c.sortedRemotes(func(_ rowRef, rm *remote) bool { return rm.host == n && rm.lost == "" }) {
		rm := c.refs.remotes[at]
		rm.lost = why
		if out := at.row().out; out != nil {
			c.remoteBack(at, rm)
		}
	}
}

// listAway lists to what a result refers that a call has made at another agent.
func (c *Core) listAway(at rowRef, m *comms.GrantItem) {
	by := at.job.dyn.by
	if len(m.Refs) == 0 || at.job.dropped || at.job.stopped != nil {
		return
	}
	out := at.row().out
	s := &openGrant{grant: out.grant, host: out.host, job: at.job, task: at.task}
	for i := range m.Refs {
		ref := comms.DatasetRef{Task: at.task, Output: m.Refs[i].Place}
		if int(ref.Output) < len(at.row().shape.group.Outputs) && at.job.data[ref] == nil { // the copy that is here stays, with its list
			c.refs.set(at.job, ref, c.refsFrom(out.host, by, m.Refs[i].Refs, s))
		}
	}
	if s.n > 0 {
		at.row().out.open = s
	}
}

// keepStay keeps a grant whose result refers to what its host has. It tells whether there is one to keep.
func (c *Core) keepStay(at rowRef, out *outgoing) bool {
	if out.open == nil || out.open.n == 0 || !out.sent || at.job.at(at.task).state != tFinished {
		return false
	}
	if c.refs.open == nil {
		c.refs.open = map[uint64]*openGrant{}
	}
	c.refs.open[out.grant] = out.open
	return true
}

// hostReferences takes grants of borrowed rows: another agent wants that to which it has references.
func (c *Core) hostReferences(n *neighbour, m *comms.Grant) {
	j := c.hostingJob(n, m, false, len(m.Tasks))
	for i := range m.Tasks {
		t := &m.Tasks[i]
		if _, twice := c.hosts[grantKey{n.name, t.Grant}]; twice {
			continue
		}
		at := c.pushRow(j, callRow{grant: t.Grant, shape: borrowed, name: t.Name, stays: true, args: make([]argument, 1)})
		c.hosts[grantKey{n.name, t.Grant}] = at
		n.guests++
		n.used = c.now
		of, ok := reference{}, len(t.Inputs) == 1
		if ok {
			of, ok = c.named(t.Inputs[0].Of)
		}
		if !ok {
			c.failBorrowed(at, &comms.TaskError{Kind: comms.ErrorStore, Agent: c.cfg.Agent, Message: "the future refers to a dataset that was freed"})
			continue
		}
		c.refs.set(j, originRef(at.task), []reference{c.origin(of)})
		c.readOrigin(at)
		c.tryRow(at)
	}
}

// hostRefs lists to what the arguments of a hosted task refer.
func (c *Core) hostRefs(at rowRef, t *comms.GrantTask) {
	for i := range t.Refs {
		if k := int(t.Refs[i].Place); k < len(at.row().args) {
			c.refs.set(at.job, argRef(at.task, k), c.refsFrom(at.job.dyn.host.owner, c.callerAt(at.job, at.task), t.Refs[i].Refs, nil))
		}
	}
}

// secure wants the remote rows of a hosted task that has ended and whose owner is about to be told: they are in arguments of it, and are still held.
func (c *Core) secure(by *caller) {
	if by.job.hosted() == nil {
		return
	}
	for _, at := range c.sortedRemotes(func(at rowRef, rm *remote) bool { return at.job.dyn.by == by && rm.open == nil && rm.lost == "" }) {
		if w := at.row(); c.refs.holds[at.job][at.task] > 0 && at.job.data[comms.DatasetRef{Task: at.task}] == nil && w.failed == nil && !w.line.again {
			c.recompute(at)
		}
	}
}

// awaitedAway tells whether other agents wait for some time for what is to be made here: what this one has at
// others may wait for that, by references.
func (c *Core) awaitedAway() bool {
	if len(c.refs.lists)+len(c.refs.remotes) == 0 {
		return false
	}
	for _, at := range c.hosts {
		if at.job.at(at.task).state.over() {
			continue
		}
		if due := c.lastWait().Add(awayPatience); due.After(c.now) {
			c.wakeAt(due)
			return false
		}
		return true
	}
	return false
}

// checkRemotes compares remote rows with the grants that keep for what they stand.
func (c *Core) checkRemotes() error {
	n := map[*openGrant]int{}
	for at, rm := range c.refs.remotes {
		if c.byJob[at.job.id] != at.job || at.row().shape != borrowed {
			return fmt.Errorf("job %s: remote row %d is not there", at.job.id, at.task)
		}
		if rm.open != nil {
			n[rm.open]++
		}
	}
	for grant, s := range c.refs.open {
		if s.grant != grant || s.n == 0 || s.n != n[s] || c.away[grant].job != nil {
			return fmt.Errorf("grant %d of agent %s is kept for %d remote rows, counted %d", grant, s.host.name, n[s], s.n)
		}
	}
	return nil
}
