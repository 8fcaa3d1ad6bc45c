package core

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/zeebo/xxh3"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/dag"
)

// A guest is a call that another agent has forwarded here: a job of one task, as the
// calls of tasks of this agent are, whose caller is elsewhere. Its own calls are this
// agent's to run, or to forward. A guest that this host cannot run, for whatever
// reason that is not its own, goes back to its owner; else it stays, with what it
// returned, until its owner recalls it.

// guest is what makes a job one of another agent's call.
type guest struct {
	owner *neighbour
	task  comms.TaskID // of a graph, from which it comes
	group string       // of that
	reads []*job       // the datasets of its owner, as jobs of their own
	end   *comms.Event // how it has ended
}

// borrowed names a dataset of another agent that guests read here. Those that read
// the same share it.
type borrowed struct {
	from    string
	of      comms.DatasetID
	attempt uint32
}

// hostEnv names an environment that guests of an agent have in common.
type hostEnv struct {
	job  comms.JobID
	name string
}

const (
	mostGraph = 1 << 20                // bytes of a call's graph
	textsKept = 1000                   // messages that an owner who cannot be reached is kept before text is left out
	loadEvery = 100 * time.Millisecond // between two messages that say only how much there is to do
)

// guestOf returns what makes a job another agent's call; nil when it is none.
func (j *job) guestOf() *guest {
	if j.call == nil {
		return nil
	}
	return j.call.guest
}

// hostCall takes a call of another agent.
func (c *Core) hostCall(from string, m *comms.Forward) {
	if c.byJob[m.Call] != nil {
		return // a second copy
	}
	n := c.neighbour(from)
	g, err := guestGraph(m)
	if c.leaving != nil {
		err = fmt.Errorf("agent %s leaves the cluster", c.cfg.Agent)
	}
	if err != nil {
		c.say(n, &comms.Forwarded{Call: m.Call, Over: true, Back: err.Error()})
		return
	}
	j := c.newJob(&comms.Assign{Job: m.Call, JobIncarnation: m.JobIncarnation, Dir: m.Dir, Tenant: m.Tenant}, g)
	if j.tenant.weight == 0 {
		j.tenant.weight = float64(max(m.Weight, 1))
	}
	j.depth, j.priority, j.registry = int(min(m.Depth, 1<<20)), m.Priority, m.Registry
	gs := c.prepareGuest(j, &call{name: m.Name, guest: &guest{owner: n, task: m.Task, group: m.Group}}, m.With)
	n.guests++
	n.used = c.now
	c.guests = append(c.guests, j)
	c.loaded = true
	c.shareEnv(j, gs.class.env)
	for i := range m.Inputs {
		c.guestInput(j, i, &m.Inputs[i], m.JobIncarnation)
	}
	c.tryGuest(j)
}

// prepareGuest makes a new job one of one task, whose inputs count as made.
func (c *Core) prepareGuest(j *job, k *call, with []byte) *groupState {
	j.call, j.fresh = k, false
	t := k.task(j)
	j.wanted = exports{whole: map[outputKey]bool{{t, 0}: true}}
	for i := range j.tasks {
		j.tasks[i] = task{attempt: 1, state: tFinished, flags: fReleased | fElsewhere}
	}
	j.tasks[t] = task{attempt: 1, state: tWaiting}
	j.unended = 1
	gs := j.groupOf(t)
	gs.named, gs.step, gs.with = true, false, slices.Clone(with)
	c.begin(j)
	return gs
}

// freshID makes a name that nothing here or on another agent has had.
func (c *Core) freshID(of []byte) comms.JobID {
	c.calls++
	return comms.JobID(xxh3.Hash128(fmt.Append(slices.Clip(of), c.cfg.Agent, c.cfg.Incarnation, c.calls)).Bytes())
}

// callGroup is what the one task of a guest has of a group.
func (j *job) callGroup() *groupState { return j.groupOf(j.call.task(j)) }

// tryGuest makes a guest ready when all of its inputs are there.
func (c *Core) tryGuest(j *job) {
	t := j.call.task(j)
	if j.at(t).state != tWaiting {
		return
	}
	if j.tasks[t].missing, _ = c.countMissing(j, t); j.tasks[t].missing == 0 {
		c.ready(j, entry{t, noTask, 0})
	} else {
		c.nearer(j, t)
	}
}

// give makes a dataset that is here an input of a guest.
func (c *Core) give(from *job, d *dataset, to guestReader) {
	ref := comms.DatasetRef{Task: taskIndex(to.input)}
	if d.sealed {
		c.lend(from, d, to.job, ref)
		return
	}
	given := &dataset{desc: d.desc, refs: 1}
	given.desc.Ref = ref
	to.job.data[ref] = given
}

// giveBorrowed gives a guest what was borrowed for it, or returns the guest.
func (c *Core) giveBorrowed(b *job, to guestReader) {
	if to.job.at(to.job.call.task(to.job)).state.over() {
		return
	}
	if d := b.result(); d != nil {
		c.give(b, d, to)
		return
	}
	why := "its result was released when its caller ended"
	if b.call.failed != nil {
		why = b.call.failed.Text()
	}
	c.sendBack(to.job, fmt.Sprintf("%s: %s", b.call.name, why))
}

// result is what the one task of a job that has ended returned; nil when it failed.
func (j *job) result() *dataset {
	if !j.call.over || j.call.failed != nil {
		return nil
	}
	return j.data[comms.DatasetRef{Task: j.call.task(j)}]
}

// noteGuest takes an event of a guest, or of what one reads.
func (c *Core) noteGuest(j *job, e *comms.Event) {
	switch e.Kind {
	case comms.EventFailed, comms.EventSkipped, comms.EventCancelled:
		j.call.failed = e.Error
	case comms.EventFinished:
	default:
		return
	}
	if j.call.guest != nil {
		j.call.guest.end = &comms.Event{Kind: e.Kind, Attempt: e.Attempt, Usage: e.Usage, Error: e.Error}
	}
}

// guestOver hands on how a guest, or a fetch for guests, has ended. It needs its inputs no more.
func (c *Core) guestOver(j *job) {
	j.over, j.call.over = true, true
	c.leaveAll(j)
	for _, cl := range j.classes {
		cl.clear()
	}
	c.rest(j)
	c.unplaced = false
	c.wakeAt(c.now) // when it ended in a scheduling pass, who waits for it is answered in the next
	c.release(j, j.call.task(j))
	readers := j.call.readers
	j.call.readers = nil
	for _, to := range readers {
		c.giveBorrowed(j, to)
		c.tryGuest(to.job)
	}
	switch {
	case j.call.guest != nil:
		c.guestEnded(j)
	case j.call.borrows != nil:
		c.unborrow(j)
	}
}

// endGuest ends a guest, or a fetch for guests, that no agent waits for any more.
func (c *Core) endGuest(j *job) {
	j.dropped = true
	c.stop(j, &comms.TaskError{Kind: comms.ErrorCancelled, Message: "the task that called it has ended", Agent: c.cfg.Agent}, comms.Cause{Kind: comms.CauseTask})
	c.touch(j)
}

// forgetGuest forgets a guest, or what one read, with all of its datasets.
func (c *Core) forgetGuest(j *job) {
	c.keepOnly(j, nil)
	c.closeKinds(j)
	c.unlist(j)
	switch {
	case j.call.guest != nil:
		c.dropGuest(j)
	case j.call.borrows != nil:
		if k := *j.call.borrows; c.borrowed[k] == j {
			delete(c.borrowed, k)
		}
	}
}

// guestGraph reads the graph of a call that was forwarded.
func guestGraph(m *comms.Forward) (*dag.Graph, error) {
	g, err := dag.DecodeWith(m.Graph, dag.Options{MaxBytes: mostGraph, MaxTasks: len(m.Inputs) + 1, MaxEdges: len(m.Inputs) + 1})
	if err != nil {
		return nil, fmt.Errorf("the graph of the call cannot be read: %w", err)
	}
	if g.NumSlots() > 0 || g.NumTasks() != len(m.Inputs)+1 {
		return nil, fmt.Errorf("the graph of the call has %d tasks for %d inputs", g.NumTasks(), len(m.Inputs))
	}
	grp := g.Group(taskIndex(g.NumTasks() - 1))
	ins, err := g.Inputs(taskIndex(g.NumTasks() - 1))
	if err != nil || len(ins) != len(m.Inputs) || grp.Run.Function == "" || grp.Gang != dag.GangNone || len(grp.Outputs) != 1 || grp.Outputs[0].Generate != dag.GenerateNone {
		return nil, errors.New("the graph of the call is not that of a function of its inputs that returns one value")
	}
	for _, in := range m.Inputs {
		if k := in.Data.Place.Kind; k != comms.PlaceInline && k != comms.PlaceAgent {
			return nil, fmt.Errorf("an input of the call lies at a place of kind %d", k)
		}
	}
	return g, nil
}

// shareEnv gives a guest the environment that was made for another call of its job.
func (c *Core) shareEnv(j *job, e *environment) {
	if e.name == "" {
		return
	}
	n, k := j.call.guest.owner, hostEnv{j.call.guest.task.Job, e.name}
	if have := n.envs[k]; have != nil && have.state == envReady {
		for _, cl := range j.classes {
			cl.env = have
		}
		return
	}
	if n.envs == nil {
		n.envs = map[hostEnv]*environment{}
	}
	n.envs[k] = e
}

// guestInput finds one input of a guest, which may have to be fetched.
func (c *Core) guestInput(j *job, i int, in *comms.ForwardedIn, life uint64) {
	d, to := in.Data, guestReader{j, i}
	d.Ref = comms.DatasetRef{Task: taskIndex(i)}
	if d.Place.Kind == comms.PlaceInline {
		d.Place.Bytes = slices.Clone(d.Place.Bytes)
		j.data[d.Ref] = &dataset{desc: d, refs: 1}
		return
	}
	if o := c.byJob[in.Of.Job]; o != nil && o.life == life && !o.adopted { // this agent has a part of that job
		if have := o.data[in.Of.DatasetRef]; have != nil && have.sealed && have.desc.Attempt == d.Attempt && have.desc.Size == d.Size {
			c.give(o, have, to)
			return
		}
	}
	other := c.borrow(j, in)
	j.call.guest.reads = append(j.call.guest.reads, other)
	if !other.call.over {
		other.call.readers = append(other.call.readers, to)
		return
	}
	c.giveBorrowed(other, to)
}

// borrow returns the job that stands for a dataset of a guest's owner, and fetches it
// if it is new.
func (c *Core) borrow(j *job, in *comms.ForwardedIn) *job {
	owner := j.call.guest.owner
	k := borrowed{owner.name, in.Of, in.Data.Attempt}
	if b := c.borrowed[k]; b != nil && b.call.failed == nil { // else it was lost: it is fetched again
		return b
	}
	b := c.newJob(&comms.Assign{Job: c.freshID(in.Of.Job[:]), JobIncarnation: j.life, Tenant: j.tenant.name}, borrowedGraph())
	b.depth, b.priority = j.depth, j.priority
	c.prepareGuest(b, &call{name: fmt.Sprintf("dataset %v of agent %s", in.Of, owner.name), borrows: &k}, nil)
	b.tasks[0].state = tAway
	if c.borrowed == nil {
		c.borrowed = map[borrowed]*job{}
	}
	c.borrowed[k] = b
	d := in.Data
	d.Ref = comms.DatasetRef{}
	c.fetchFrom(b, owner.name, d, in.Of)
	return b
}

// borrowedGraph is the graph of a job that stands for a dataset: one task that has
// run elsewhere.
func borrowedGraph() *dag.Graph {
	b := dag.NewBuilder("dataset")
	b.Add(dag.Group{Name: "dataset", Run: dag.Run{Function: "dataset"}, Outputs: []dag.OutputDecl{{Name: "out"}}})
	g, err := b.Build()
	if err != nil {
		panic(fmt.Sprintf("agent core: %v", err)) // it has nothing in it that could be wrong
	}
	return g
}

// fetchFrom fetches what the one task of a job has made elsewhere.
func (c *Core) fetchFrom(j *job, from string, d comms.Desc, of comms.DatasetID) {
	d.Place = comms.Place{Kind: comms.PlaceAgent, Where: from}
	if j.peers == nil {
		j.peers = newPeers()
		j.peers.quiet = true // no task waits for it by an edge
	}
	h := &heard{job: j, desc: d, from: []string{from}, of: of}
	j.peers.heard[d.Ref] = h
	c.wantHeard(j, h, false)
}

// borrowedHere makes a dataset of another agent one that guests can read.
func (c *Core) borrowedHere(b *job) {
	d := b.data[comms.DatasetRef{}]
	b.peers, b.given = nil, false
	d.copy, d.given = false, false
	d.refs = b.countRefs(d.desc.Ref, false)
	c.end(b, 0, tFinished)
}

// fetchFailed follows when something cannot be fetched that a call reads, or has
// returned.
func (c *Core) fetchFailed(h *heard, why string) {
	j := h.job
	h.state = hearLost
	if j.dyn != nil {
		at := rowRef{j, h.desc.Ref.Task}
		c.shun(at.row().out.host)
		c.takeHome(at)
		return
	}
	readers := j.call.readers
	j.call.readers = nil
	for _, to := range readers {
		c.sendBack(to.job, fmt.Sprintf("%s could not be fetched: %s", j.call.name, why))
	}
	c.endGuest(j)
}

// sendBack gives a guest back to its owner: what keeps it from running is not its own.
func (c *Core) sendBack(j *job, why string) {
	if j.dropped {
		return
	}
	c.say(j.call.guest.owner, &comms.Forwarded{Call: j.id, Over: true, Back: why})
	c.endGuest(j)
}

// recalled ends a guest's stay.
func (c *Core) recalled(from string, m *comms.Recall) {
	if j := c.byJob[m.Call]; j != nil && j.guestOf() != nil && j.call.guest.owner.name == from {
		c.endGuest(j)
	}
}

// guestEnded tells the owner of a guest how it has ended. Its result waits to
// be fetched, and recalled.
func (c *Core) guestEnded(j *job) {
	g := j.call.guest
	c.loaded = true
	if j.dropped {
		return
	}
	m := &comms.Forwarded{Call: j.id, Over: true, Event: g.end}
	if d := j.result(); d != nil {
		if m.Data = d.desc; d.sealed {
			m.Data.Place = comms.Place{Kind: comms.PlaceAgent, Where: c.cfg.Agent}
		}
	}
	c.say(g.owner, m)
}

// dropGuest forgets a guest, and datasets of its owner without another reader here.
func (c *Core) dropGuest(j *job) {
	g := j.call.guest
	c.guests = slices.DeleteFunc(c.guests, func(o *job) bool { return o == j })
	n := g.owner
	if n.guests--; n.guests == 0 {
		n.envs = nil
	}
	n.used = c.now
	c.unmeet(n)
	for _, b := range g.reads {
		b.call.readers = slices.DeleteFunc(b.call.readers, func(r guestReader) bool { return r.job == j })
		c.unborrow(b)
	}
}

// unborrow gives up a dataset of another agent that no guest reads any more.
func (c *Core) unborrow(b *job) {
	if b.dropped || len(b.call.readers) > 0 || c.lentOf(b) {
		return
	}
	if c.endGuest(b); !b.over {
		c.guestOver(b)
	}
}

// lentOf tells whether an input of a guest has what a job has borrowed.
func (c *Core) lentOf(b *job) bool {
	d := b.data[comms.DatasetRef{}]
	return d != nil && d.sealed && c.loans[b.key(d)] != nil
}

// returnGuests returns, while the agent leaves, guests that have not begun or wait for
// something that does not begin here any more.
func (c *Core) returnGuests() {
	for _, j := range slices.Clone(c.guests) {
		if !j.over && !j.dropped && !c.goesOn(j) {
			c.sendBack(j, fmt.Sprintf("agent %s leaves the cluster", c.cfg.Agent))
		}
	}
}

// goesOn tells whether an executor is at the task of a guest.
func (c *Core) goesOn(j *job) bool {
	return slices.ContainsFunc(c.execs, func(ex *executor) bool {
		return ex.state != exKilled && len(ex.queue) > 0 && ex.queue[0].job == j && !ex.queue[0].back
	})
}

// sendBackStuck returns a guest that waits, itself or in what it has called, for
// what those hold who wait for calls. When such a call is at another agent there is
// patience first: it mostly ends, and the guest has its turn. It may also wait there
// for what those hold who wait for this guest. It tells whether there was one.
func (c *Core) sendBackStuck() bool {
	if len(c.guests) == 0 {
		return false
	}
	for _, j := range c.jobs {
		if !j.dynamic() || !c.stuck(j) {
			continue
		}
		if root, _ := j.root(); root.guestOf() != nil && !root.dropped {
			if due := c.lastWait().Add(awayPatience); c.goesOnAway() && due.After(c.now) {
				c.wakeAt(due)
				return true
			}
			c.sendBack(root, fmt.Sprintf("what it needs is held by tasks of agent %s that wait for calls", c.cfg.Agent))
			return true
		}
	}
	return false
}

// stuck tells whether a call waits for resources, or for memory, for its inputs or
// for what it returned.
func (c *Core) stuck(j *job) bool {
	if j.dyn != nil {
		return c.rowsStuck(j)
	}
	switch j.at(j.call.task(j)).state {
	case tPinning:
		return true
	case tReady:
		return !c.fits(make(amounts, len(c.total)), j.callGroup().need)
	case tWaiting:
		return j.call.guest != nil && slices.ContainsFunc(j.call.guest.reads, func(b *job) bool { return b.lacksRoom(comms.DatasetRef{}, c.now) })
	case tAway:
		return j.lacksRoom(comms.DatasetRef{Task: j.call.task(j)}, c.now)
	}
	return false
}

// rowsStuck tells whether a row of a job waits for resources or for memory, or its parent for the memory of a result.
func (c *Core) rowsStuck(j *job) bool {
	none := make(amounts, len(c.total))
	for _, cl := range j.classes {
		if _, ok := c.head(cl); ok && !c.fits(none, cl.need) {
			return true
		}
	}
	if slices.ContainsFunc(j.dyn.by.reads, func(rd *callRead) bool { return !rd.held }) {
		return true
	}
	for _, r := range c.runs {
		if r.job == j && r.ex == nil && j.at(r.task).state == tPinning {
			return true
		}
	}
	for _, at := range c.away {
		if at.job == j && j.lacksRoom(comms.DatasetRef{Task: at.task}, c.now) {
			return true
		}
	}
	return false
}

// log adds text to the log of the task of a graph from which a call comes.
func (c *Core) log(j *job, stream uint8, text []byte) {
	root, t := j.root()
	g := root.guestOf()
	if g == nil {
		c.echo(root, stream, text)
		c.emit(AppendLog{Job: root.id, Task: root.taskName(t), Attempt: comms.Try(root.at(t).attempt), Stream: stream, Text: text})
		return
	}
	switch n := len(g.owner.outbox); {
	case root.dropped || n > textsKept:
	case n == textsKept:
		c.say(g.owner, &comms.Forwarded{Call: root.id, Stream: stream, Text: []byte("\n[text is missing: its agent could not be reached]\n")})
	default:
		c.say(g.owner, &comms.Forwarded{Call: root.id, Stream: stream, Text: text})
	}
}

// tellLoad says how much an agent with guests has to do: no event of theirs does.
func (c *Core) tellLoad() {
	switch {
	case !c.loaded || !c.ctl.open || c.ctl.full || c.leaving != nil:
	case c.now.Before(c.loadAt):
		c.wakeAt(c.loadAt)
	default:
		c.loaded, c.loadAt = false, c.now.Add(loadEvery)
		c.emit(ToController{&comms.Where{Load: c.load()}})
	}
}
