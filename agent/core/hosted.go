package core

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/zeebo/xxh3"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/dag"
)

// A hosted task is a call that another agent, its owner, has granted to this one: a row of a
// dynamic job, as the calls of tasks of this agent are, whose parent is elsewhere. Its own
// calls are this agent's to run, or to grant. One that this host cannot run, for
// whatever reason that is not its own, goes back to its owner; else it stays, with what
// it made, until its owner ends the grant.
//
//	Grant ──▶ row ──▶ ... ──▶ over ──▶ GrantReport ──▶ owner ──▶ GrantEnd ──▶ forgotten
//	            └─ its inputs: values, datasets that are here, or copies ──▶ fetched from the owner

// hosting is what makes a dynamic job one of hosted tasks, or of what they read.
type hosting struct {
	owner *neighbour
	root  comms.TaskID // of a graph, from which they come
	key   hostingKey
}

// hostingKey tells apart hosted tasks that share a job here.
type hostingKey struct {
	owner    string
	job      comms.JobID
	index    taskIndex
	life     uint64
	depth    uint64
	priority int64
	copies   bool // of what they read
}

// grantKey names a hosted task.
type grantKey struct {
	owner string
	grant uint64
}

// copyKey names a dataset of an owner that hosted tasks read here. Those that read the same share it.
type copyKey struct {
	from    string
	of      comms.DatasetID
	attempt uint32
}

const (
	mostGraph = 1 << 20                // bytes of an environment's declaration
	mostInfo  = 1 << 16                // datasets that a granted task reads
	textsKept = 1000                   // messages that an owner who cannot be reached is kept before text is left out
	loadEvery = 100 * time.Millisecond // between two messages that say only how much there is to do
)

// hosted returns what makes a job one of hosted tasks; nil when it is none.
func (j *job) hosted() *hosting {
	if j.dyn == nil {
		return nil
	}
	return j.dyn.host
}

// hostGrant takes tasks of another agent.
func (c *Core) hostGrant(from string, m *comms.Grant) {
	n := c.neighbour(from)
	if m.Kind.Function == "" && c.leaving == nil {
		c.hostReferences(n, m)
		return
	}
	j := c.hostingJob(n, m, false, len(m.Tasks))
	shape, err := c.hostedShape(j, m)
	if c.leaving != nil {
		err = fmt.Errorf("agent %s leaves the cluster", c.cfg.Agent)
	}
	for i := range m.Tasks {
		t := &m.Tasks[i]
		if _, twice := c.hosts[grantKey{from, t.Grant}]; twice {
			continue
		}
		why := err
		if why == nil {
			why = shape.takes(t)
		}
		if why != nil {
			c.report(n, comms.GrantItem{Grant: t.Grant, Over: true, Back: why.Error()})
			continue
		}
		c.hostTask(n, m, shape, t)
	}
	if j.dyn.kept == 0 { // none was taken
		c.forgetHosted(j)
	}
}

// hostedShape reads what the tasks of a grant share, in the job for them.
func (c *Core) hostedShape(j *job, m *comms.Grant) (*callShape, error) {
	kind := m.Kind
	kind.Inputs, kind.Outputs, kind.RetryOn = slices.Clone(kind.Inputs), slices.Clone(kind.Outputs), slices.Clone(kind.RetryOn)
	if len(kind.Outputs) == 0 || slices.ContainsFunc(kind.Outputs, func(o comms.KindOut) bool { return o.Generate != dag.GenerateNone }) {
		return nil, errors.New("the granted tasks are not of a function that returns values")
	}
	if len(m.Tasks) > mostRows {
		return nil, fmt.Errorf("one message grants %d tasks, the limit is %d", len(m.Tasks), mostRows)
	}
	if err := j.declare(kind.Environment, m.Environment); err != nil {
		return nil, err
	}
	if kind.Environment != "" && j.declared(kind.Environment) == nil {
		return nil, fmt.Errorf("the granted tasks do not say what environment %q is", kind.Environment)
	}
	env := c.environment(j, &dag.Run{Function: kind.Function, Environment: kind.Environment})
	s, err := newShape(kind, env)
	if err != nil {
		return nil, err
	}
	for have := range j.dyn.groups {
		if have.sum == s.sum && have.env == env && have.rootGroup == m.Group {
			return have, nil
		}
	}
	s.rootGroup = m.Group
	return s, nil
}

// declare gives a job of hosted tasks the environments of the job from which they come.
// Owners of versions before send with each task its own alone.
func (j *job) declare(name string, graph []byte) error {
	if j.declared(name) != nil || len(graph) == 0 || name == "" && len(j.graph.Environments) > 0 {
		return nil
	}
	g, err := dag.DecodeWith(graph, dag.Options{MaxBytes: mostGraph, MaxTasks: 1, MaxEdges: 1})
	if err != nil {
		return fmt.Errorf("the environments of the granted tasks cannot be read: %w", err)
	}
	more := slices.DeleteFunc(g.Environments, func(e dag.Environment) bool { return j.declared(e.Name) != nil })
	j.graph = &dag.Graph{Environments: append(slices.Clone(j.graph.Environments), more...)}
	return nil
}

// takes tells why a task cannot be hosted.
func (s *callShape) takes(t *comms.GrantTask) error {
	if len(t.Inputs) > mostInfo {
		return fmt.Errorf("the granted task reads %d datasets, the limit is %d", len(t.Inputs), mostInfo)
	}
	seen := make([]bool, len(s.group.Inputs))
	for _, in := range t.Inputs {
		if int(in.Port) >= len(seen) {
			return fmt.Errorf("the granted task reads as its input %d of %d", in.Port, len(seen))
		}
		if seen[in.Port] && !s.group.Inputs[in.Port].List {
			return fmt.Errorf("the granted task has two datasets for its input %d, which is no list", in.Port)
		}
		seen[in.Port] = true
		if k := in.Data.Place.Kind; k != comms.PlaceInline && k != comms.PlaceAgent {
			return fmt.Errorf("an input of the granted task lies at a place of kind %d", k)
		}
	}
	return nil
}

// hostingJob finds the job of hosted tasks that share their origin, or of what they read, that has
// room for some more.
func (c *Core) hostingJob(n *neighbour, m *comms.Grant, copies bool, room int) *job {
	k := hostingKey{n.name, m.Root.Job, m.Root.Index, m.JobIncarnation, min(m.Depth, 1<<20), m.Priority, copies}
	if j := n.hosted[k]; j != nil && len(j.tasks)+room <= mostRows {
		return j
	}
	j := c.newJob(&comms.Assign{Job: c.freshID(m.Root.Job[:]), JobIncarnation: m.JobIncarnation, Dir: m.Dir}, tenantOf(m.Tenant, m.Root.Job), noGraph)
	if j.tenant.weight == 0 {
		j.tenant.weight = float64(max(m.Weight, 1))
	}
	j.depth, j.priority, j.registry = int(k.depth), m.Priority, slices.Clone(m.Registry)
	j.dyn = &dynamic{host: &hosting{n, m.Root, k}, groups: map[*callShape]*groupState{}}
	j.fresh, j.over = false, true
	if n.hosted == nil {
		n.hosted = map[hostingKey]*job{}
	}
	n.hosted[k] = j
	return j
}

// hostTask makes a row of a granted task.
func (c *Core) hostTask(n *neighbour, m *comms.Grant, s *callShape, t *comms.GrantTask) {
	at := c.pushRow(s.env.job, callRow{grant: t.Grant, shape: s, name: t.Name, with: slices.Clone(t.With)})
	c.hosts[grantKey{n.name, t.Grant}] = at
	n.guests++
	n.used = c.now
	c.loaded = true
	at.row().args = make([]argument, len(t.Inputs))
	for i := range t.Inputs {
		c.hostInput(m, at, i, &t.Inputs[i])
		if at.job.at(at.task).state.over() || at.row().shape == nil {
			return // it went back
		}
	}
	c.hostRefs(at, t)
	c.tryRow(at)
}

// hostInput finds one input of a hosted task, which may have to be fetched.
func (c *Core) hostInput(m *comms.Grant, at rowRef, i int, in *comms.GrantInput) {
	a := &at.row().args[i]
	if a.port = in.Port; in.Data.Place.Kind == comms.PlaceInline {
		a.desc, a.there = in.Data, true
		a.desc.Place.Bytes = slices.Clone(in.Data.Place.Bytes)
		return
	}
	if o := c.byJob[in.Of.Job]; o != nil && o.life == m.JobIncarnation && !o.adopted && o.dyn == nil { // this agent has a part of that job
		if have := o.data[in.Of.DatasetRef]; have != nil && have.sealed && have.desc.Attempt == in.Data.Attempt && have.desc.Size == in.Data.Size {
			c.giveArg(at, i, o, have)
			return
		}
	}
	copied := c.copyOf(m, at.job.dyn.host.owner, in)
	to := reader{rowRef: at, arg: i}
	if !copied.job.at(copied.task).state.over() {
		w := copied.row()
		w.readers = append(w.readers, to)
		return
	}
	c.passOn(copied, to)
}

// copyOf returns the row that stands for a dataset of an owner, and fetches it if it is new.
func (c *Core) copyOf(m *comms.Grant, owner *neighbour, in *comms.GrantInput) rowRef {
	k := copyKey{owner.name, in.Of, in.Data.Attempt}
	if at, ok := c.copies[k]; ok {
		return at
	}
	j := c.hostingJob(owner, m, true, 1)
	at := c.pushRow(j, callRow{value: true, copyOf: &k, name: fmt.Sprintf("dataset %v of agent %s", in.Of, owner.name)})
	j.at(at.task).state = tAway
	c.copies[k] = at
	d := in.Data
	d.Ref = comms.DatasetRef{Task: at.task}
	c.fetchFrom(j, owner.name, d, in.Of, d.Attempt)
	return at
}

// fetchFrom fetches what a row has made elsewhere, or stands for.
func (c *Core) fetchFrom(j *job, from string, d comms.Desc, of comms.DatasetID, made uint32) {
	d.Place = comms.Place{Kind: comms.PlaceAgent, Where: from}
	if j.peers == nil {
		j.peers = newPeers()
		j.peers.quiet = true // no task waits for it by an edge
	}
	h := &heard{job: j, desc: d, from: []string{from}, of: of, made: made}
	j.peers.heard[d.Ref] = h
	c.wantHeard(j, h, false)
}

// fetched makes a dataset that was fetched for a row one of its own.
func (c *Core) fetched(at rowRef, ref comms.DatasetRef) {
	if at.row().copyOf == nil {
		c.cameHome(at)
		return
	}
	d := at.job.data[ref]
	at.job.forgetHeard(ref)
	d.copy, d.given, d.refs = false, false, 0
	c.end(at.job, at.task, tFinished)
}

// fetchFailed follows when something cannot be fetched that a hosted task reads, or a call has made.
func (c *Core) fetchFailed(h *heard, why string) {
	at := rowRef{h.job, h.desc.Ref.Task}
	w := at.row()
	if w.copyOf == nil {
		h.state = hearLost
		c.shun(w.out.host)
		c.takeHome(at)
		return
	}
	w.failed = &comms.TaskError{Kind: comms.ErrorStore, Message: fmt.Sprintf("it could not be fetched: %s", why)}
	delete(c.copies, *w.copyOf) // it is fetched anew for a task that comes later
	c.end(at.job, at.task, tFailed)
}

// unread takes a hosted task from the copies that it waits for.
func (c *Core) unread(at rowRef) {
	for _, copied := range c.sortedCopies() {
		w := copied.row()
		n := len(w.readers)
		w.readers = slices.DeleteFunc(w.readers, func(r reader) bool { return r.rowRef == at })
		if len(w.readers) < n {
			c.endCopy(copied)
		}
	}
}

func (c *Core) sortedCopies() []rowRef {
	all := make([]rowRef, 0, len(c.copies))
	for _, at := range c.copies {
		all = append(all, at)
	}
	slices.SortFunc(all, func(a, b rowRef) int {
		return cmp.Or(cmp.Compare(a.job.seq, b.job.seq), cmp.Compare(a.task, b.task))
	})
	return all
}

// endCopy forgets a copy that no hosted task reads any more.
func (c *Core) endCopy(at rowRef) {
	w := at.row()
	if w.copyOf == nil || len(w.readers) > 0 {
		return
	}
	if d := at.job.data[comms.DatasetRef{Task: at.task}]; d != nil && d.sealed && c.loans[at.job.key(d)] != nil {
		return
	}
	if c.copies[*w.copyOf] == at {
		delete(c.copies, *w.copyOf)
	}
	if w.dropped = true; !at.job.at(at.task).state.over() {
		c.end(at.job, at.task, tCancelled)
		return
	}
	c.maybeForget(at)
}

// noteHosted takes an event of a hosted task.
func (c *Core) noteHosted(j *job, w *callRow, e *comms.Event) {
	w.end = &comms.Event{Kind: e.Kind, Attempt: e.Attempt, Executor: e.Executor, Usage: e.Usage, Error: e.Error}
	if met := j.metBy(e); met > 0 {
		w.end.Called = &comms.Called{Met: met}
	}
}

// hostedEnded tells the owner of a task how it has ended. Its outputs wait to be fetched.
func (c *Core) hostedEnded(at rowRef) {
	j, w := at.job, at.row()
	c.loaded = true
	if w.left() {
		return
	}
	it := comms.GrantItem{Grant: w.grant, Over: true, Event: w.end, Of: j.id}
	for o := range w.shape.group.Outputs {
		ref := comms.DatasetRef{Task: at.task, Output: uint32(o)}
		if d := j.data[ref]; d != nil && w.failed == nil {
			told := c.tellable(d.desc)
			if d.lent != nil { // it is served under its first name
				it.Of, told.Ref = d.lent.job, d.lent.desc.Ref
			}
			it.Outputs = append(it.Outputs, told)
			if list := c.refs.list(j, ref); list != nil {
				it.Refs = append(it.Refs, comms.ValueRefs{Place: uint32(o), Refs: c.refsTo(j.dyn.host.owner, list)})
			}
		}
	}
	c.report(j.dyn.host.owner, it)
}

// left tells whether a hosted task is its owner's again, or forgotten.
func (r *callRow) left() bool { return r.dropped || r.returned || r.shape == nil }

// sendBack returns a hosted task to its owner: what keeps it from running is not its own.
func (c *Core) sendBack(at rowRef, why string) {
	w := at.row()
	if w.left() {
		return
	}
	w.returned = true
	c.report(at.job.dyn.host.owner, comms.GrantItem{Grant: w.grant, Over: true, Back: why})
	c.endHosted(at)
}

// grantsEnded ends the stay of tasks.
func (c *Core) grantsEnded(from string, m *comms.GrantEnd) {
	for _, grant := range m.Grants {
		if at, ok := c.hosts[grantKey{from, grant}]; ok {
			c.endHosted(at)
		}
	}
}

// endHosted ends a hosted task that its owner does not wait for any more.
func (c *Core) endHosted(at rowRef) {
	w := at.row()
	if w.dropped {
		return
	}
	w.dropped = true
	n := at.job.dyn.host.owner
	delete(c.hosts, grantKey{n.name, w.grant}) // another process of its owner may use the number while a run of it ends
	n.guests--
	n.used = c.now
	if at.job.at(at.task).state.over() {
		c.maybeForget(at)
		return
	}
	c.cancelRow(at, "the task that called it has ended")
}

// forgetHosted follows when a row of a job of hosted tasks was forgotten.
func (c *Core) forgetHosted(j *job) {
	n := j.dyn.host.owner
	if j.dyn.kept == 0 && n.hosted[j.dyn.host.key] != j { // it was full, and another took its place
		c.dropHosting(j)
	}
	if n.guests > 0 {
		return
	}
	for _, o := range n.sortedHosted() {
		if o.dyn.kept == 0 {
			delete(n.hosted, o.dyn.host.key)
			c.dropHosting(o)
		}
	}
	c.unmeet(n)
}

// dropHosting ends a job of hosted tasks that has no row.
func (c *Core) dropHosting(j *job) {
	if !j.dropped {
		j.dropped = true
		c.touch(j)
	}
}

// sortedHosted lists the jobs of an owner's hosted tasks.
func (n *neighbour) sortedHosted() []*job {
	all := make([]*job, 0, len(n.hosted))
	for _, j := range n.hosted {
		all = append(all, j)
	}
	slices.SortFunc(all, func(a, b *job) int { return cmp.Compare(a.seq, b.seq) })
	return all
}

// hostedOf lists the tasks of an owner that go on here, in the order in which they came; of all with nil.
func (c *Core) hostedOf(n *neighbour) (all []rowRef) {
	for k, at := range c.hosts {
		if n == nil || k.owner == n.name {
			all = append(all, at)
		}
	}
	slices.SortFunc(all, func(a, b rowRef) int {
		return cmp.Or(cmp.Compare(a.job.seq, b.job.seq), cmp.Compare(a.task, b.task))
	})
	return all
}

// returnHosted returns, while the agent leaves, tasks that have not begun or wait for
// something that does not begin here any more.
func (c *Core) returnHosted() {
	for _, at := range c.hostedOf(nil) {
		if !at.job.at(at.task).state.over() && !c.goesOn(at) {
			c.sendBack(at, fmt.Sprintf("agent %s leaves the cluster", c.cfg.Agent))
		}
	}
}

// goesOn tells whether an executor is at a hosted task.
func (c *Core) goesOn(at rowRef) bool {
	return slices.ContainsFunc(c.execs, func(ex *executor) bool {
		return ex.state != exKilled && len(ex.queue) > 0 && ex.queue[0].job == at.job && ex.queue[0].task == at.task && !ex.queue[0].back
	})
}

// sendBackStuck returns a hosted task that waits, itself or in what it has called, for
// what those hold who wait for calls. When such a call is at another agent there is
// patience first: it mostly ends, and the task has its turn. It may also wait there
// for what those hold who wait for this task. It tells whether there was one.
func (c *Core) sendBackStuck() bool {
	if len(c.hosts) == 0 {
		return false
	}
	for _, j := range c.jobs {
		at, ok := c.stuckRow(j)
		if !ok {
			continue
		}
		if root, t := at.root(); root.hosted() != nil && !root.dyn.rows.at(t).left() {
			if due := c.lastWait().Add(awayPatience); c.goesOnAway() && due.After(c.now) {
				c.wakeAt(due)
				return true
			}
			c.sendBack(rowRef{root, t}, fmt.Sprintf("what it needs is held by tasks of agent %s that wait for calls", c.cfg.Agent))
			return true
		}
	}
	return false
}

// root is job.root for one row: a hosted one is its own.
func (r rowRef) root() (*job, taskIndex) {
	if r.job.hosted() != nil {
		return r.job, r.task
	}
	return r.job.root()
}

// stuckRow returns a row of a job that waits for resources or for memory, or whose parent waits for
// the memory of a result.
func (c *Core) stuckRow(j *job) (rowRef, bool) {
	if j.dyn == nil {
		return rowRef{}, false
	}
	none := make(amounts, len(c.total))
	for _, cl := range j.classes {
		if e, ok := c.head(cl); ok && !c.fits(none, cl.need) {
			return rowRef{j, e.task}, true
		}
	}
	if by := j.dyn.by; by != nil && slices.ContainsFunc(by.reads, func(rd *callRead) bool { return !rd.held && !rd.waits() }) {
		return rowRef{j, 0}, true
	}
	first, found := rowRef{}, false
	for _, r := range c.runs {
		if at := (rowRef{j, r.task}); r.job == j && r.ex == nil && j.at(r.task).state == tPinning && (!found || at.before(first)) {
			first, found = at, true
		}
	}
	for _, at := range c.away {
		if at.job == j && c.lacksRoom(at) && (!found || at.before(first)) {
			first, found = at, true
		}
	}
	for _, at := range c.copies {
		if at.job == j && c.lacksRoom(at) && len(at.row().readers) > 0 && (!found || at.before(first)) {
			first, found = at, true
		}
	}
	if found && first.row().copyOf != nil {
		return first.row().readers[0].rowRef, true
	}
	return first, found
}

// log adds text to the log of the task of a graph from which a call comes.
func (c *Core) log(at rowRef, stream uint8, text []byte) {
	root, t := at.root()
	h := root.hosted()
	if h == nil {
		c.echo(root, at, stream, text)
		called := ""
		if at.job.dynamic() {
			called = at.job.rowName(at.task)
		}
		c.emit(AppendLog{Job: root.id, Task: root.taskName(t), Called: called, Attempt: comms.Try(root.at(t).attempt), Stream: stream, Text: text})
		return
	}
	w := root.dyn.rows.at(t)
	switch n := h.owner.kept; {
	case w.left() || n > textsKept:
	case n == textsKept:
		c.report(h.owner, comms.GrantItem{Grant: w.grant, Stream: stream, Text: []byte("\n[text is missing: its agent could not be reached]\n")})
	default:
		c.report(h.owner, comms.GrantItem{Grant: w.grant, Stream: stream, Text: slices.Clone(text)})
	}
}

// tellLoad says how much an agent with hosted tasks has to do: no event of theirs does.
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

// freshID makes a name that nothing here or on another agent has had.
func (c *Core) freshID(of []byte) comms.JobID {
	c.calls++
	return comms.JobID(xxh3.Hash128(fmt.Append(slices.Clip(of), c.cfg.Agent, c.cfg.Incarnation, c.calls)).Bytes())
}
