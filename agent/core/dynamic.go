package core

import (
	"fmt"
	"slices"
	"time"

	"github.com/zeebo/xxh3"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/dag"
)

// A job of dynamic tasks has no graph: its tasks are rows that come one by one. They are
// the calls of one parent, a task of another job of this agent, or tasks that another
// agent has granted to this one (hosted). Readiness, grants,
// crashes and memory are those of every job; this file answers what the graph answers
// for others (see graph.go), and follows what comes of a row.
//
//	call ──▶ addRow ──▶ waiting ──▶ ready ──▶ ... ──▶ over ──▶ rowEnded ──▶ parent, readers
//	           │           ▲                                       │
//	           └─ put ─────┼───────────────────────────────────────┤ forgetRow: no one reads it
//	                       └── away ◀── forward

// dynamic is what makes a job one of dynamic tasks.
type dynamic struct {
	by     *caller  // whose calls they are; nil: they are another agent's
	host   *hosting // whose they are then
	rows   callRows // by task
	kept   int      // rows that are not forgotten
	groups map[*callShape]*groupState
}

// callRows are the rows of a job. They are not one list: that would be copied each time that
// it grows, and have room for many more than there are.
type callRows struct {
	chunks [][]callRow // of rowChunk rows
	n      int
}

const rowChunk = 128

func (rs *callRows) at(t taskIndex) *callRow { return &rs.chunks[t/rowChunk][t%rowChunk] }

func (rs *callRows) add(r callRow) {
	last := rs.n / rowChunk
	switch {
	case last == 0 && rs.n == 0:
		rs.chunks = [][]callRow{nil} // most callers have few: it grows
	case last == len(rs.chunks):
		rs.chunks = append(rs.chunks, make([]callRow, 0, rowChunk))
	}
	rs.chunks[last] = append(rs.chunks[last], r)
	rs.n++
}

// callRow is a dynamic task: a call, or a value that was put.
type callRow struct {
	ref      comms.CallRef
	shape    *callShape   // nil of a value, and of a row that was forgotten
	sum      xxh3.Uint128 // of all that was asked for
	name     string       // that the caller gave it; "" none
	with     []byte
	made     int64   // when it was called: wall-clock nanoseconds
	reads    *[]byte // what it reads by reference, as comms.AppendEdges writes it; nil: nothing
	args     []argument
	readers  []reader         // arguments that wait for what it returns
	failed   *comms.TaskError // how it ended badly
	out      *outgoing        // at another agent, when it is there or about to go
	at       string           // the agent on which it has ended, when that is not this one
	stays    bool             // it goes nowhere: it came back, or must run here
	value    bool             // a value that was put
	dropped  bool             // its parent reads it no more
	held     bool             // values refer to it, see references
	returned bool             // of a hosted task: it went back
	recalled bool             // of a hosted task: its owner wants it back
	returns  uint8            // how often others returned it
	line     lineage
	run      comms.RunID // of its parent that made it, or met it, last

	// Of hosted tasks, and of what they read.
	grant  uint64       // the owner's number
	end    *comms.Event // how it has ended
	copyOf *copyKey     // the dataset of the owner that it stands for
}

// reader is an argument of a row.
type reader struct {
	rowRef
	arg     int
	output  uint32 // of what it waits for
	element uint64
}

// rowRef names a row.
type rowRef struct {
	job  *job
	task taskIndex
}

func (r rowRef) row() *callRow { return r.job.dyn.rows.at(r.task) }

// mostRows is how many rows a job has. Rows are never used again: the names of datasets are made of
// them. A parent that calls more gets another job, and the first goes with the last of its rows.
const mostRows = 1 << 16

// callShape is what calls of one kind share.
type callShape struct {
	kind  comms.CallKind
	group *dag.Group
	env   *environment
	sum   uint64 // of the kind

	record []byte // the kind, as the ends of calls tell it

	graph *dag.Graph // that is run in place of a function; nil: none

	rootGroup string // of hosted tasks: that of the task of a graph from which they come
}

// noGraph is the graph of jobs of dynamic tasks.
var noGraph = new(dag.Graph)

// newDynamic makes a job for the calls of a parent.
func (c *Core) newDynamic(by *caller) *job {
	root, _ := by.job.root()
	j := c.newJob(&comms.Assign{Job: c.freshID(fmt.Append(by.job.id[:], by.task)), JobIncarnation: root.life, Dir: root.dir}, root.tenant.tenantKey, noGraph)
	j.depth, j.priority, j.registry = by.job.depth+1, root.priority, root.registry
	j.dyn = &dynamic{by: by, groups: map[*callShape]*groupState{}}
	j.fresh, j.over = false, true
	if root.dyn == nil {
		root.inflight++
	}
	by.jobs = append(by.jobs, j)
	return j
}

// newShape reads what calls of one kind share.
func newShape(k comms.CallKind, env *environment) (*callShape, error) {
	g := &dag.Group{Name: "call", Run: dag.Run{Function: k.Function, Environment: env.name}, Retries: int(k.Retries), Timeout: time.Duration(k.Timeout), Priority: int(k.Priority)}
	g.Resources = dag.Resources{CPU: k.Resources.CPU, Memory: k.Resources.Memory, GPU: k.Resources.GPU}
	for _, x := range k.Resources.Custom {
		if g.Resources.Custom == nil {
			g.Resources.Custom = map[string]int64{}
		}
		g.Resources.Custom[x.Name] = x.N
	}
	err := possible(&k)
	if err != nil {
		return nil, err
	}
	for _, in := range k.Inputs {
		g.Inputs = append(g.Inputs, dag.InputDecl{Name: in.Name, List: in.List})
	}
	for _, o := range k.Outputs {
		g.Outputs = append(g.Outputs, dag.OutputDecl{Name: o.Name, Generate: o.Generate, Count: o.Count})
	}
	id := k.ID
	k.ID = 0
	sum := xxh3.Hash(comms.Encode(&comms.Calls{Kinds: []comms.CallKind{k}}))
	k.ID = id
	s := &callShape{kind: k, group: g, env: env, sum: sum, record: comms.AppendCallKind(k, env.name)}
	if len(k.Graph) > 0 {
		if s.graph, err = graphOf(&k); err != nil {
			return nil, err
		}
		s.kind.Graph = nil
	}
	return s, nil
}

// Bounds of a kind of calls: an executor is not trusted with more.
const (
	mostPorts   = 1 << 12 // inputs, and outputs
	mostAmount  = 1 << 53 // of a resource
	mostTimeout = 100 * 365 * 24 * time.Hour
)

// possible refuses a kind of calls that no task can be of.
func possible(k *comms.CallKind) error {
	if k.Function == "" {
		return fmt.Errorf("kind %d of its calls names no function", k.ID)
	}
	if most := max(len(k.Inputs), len(k.Outputs)); most > mostPorts {
		return fmt.Errorf("calls of %s have %d inputs or outputs, the limit is %d", k.Function, most, mostPorts)
	}
	if k.Timeout < 0 || k.Timeout > int64(mostTimeout) {
		return fmt.Errorf("calls of %s have a time-out of %v, the limit is %v", k.Function, time.Duration(k.Timeout), mostTimeout)
	}
	amounts := []comms.Amount{{Name: "cpu", N: k.Resources.CPU}, {Name: "memory", N: k.Resources.Memory}, {Name: "gpu", N: k.Resources.GPU}}
	for _, a := range append(amounts, k.Resources.Custom...) {
		if (a.N < 0 && (a.Name != "cpu" || a.N != dag.NoCPU)) || a.N > mostAmount {
			return fmt.Errorf("calls of %s ask for %d of %s", k.Function, a.N, a.Name)
		}
	}
	return nil
}

// groupFor returns what the rows of one kind share in a job.
func (c *Core) groupFor(j *job, s *callShape) *groupState {
	gs := j.dyn.groups[s]
	if gs != nil {
		return gs
	}
	gs = &groupState{group: s.group}
	c.initGroup(gs)
	gs.named, gs.varyWith = true, true
	gs.class = c.classIn(j, gs, s.env)
	gs.checked = nil
	j.dyn.groups[s] = gs
	return gs
}

// noGroup is that of rows which are not calls, or not any more.
var noGroup = &groupState{group: &dag.Group{Name: "value", Outputs: []dag.OutputDecl{{Name: "out"}}}, file: []bool{false}}

// group is what a row shares with others of its kind.
func (d *dynamic) group(t taskIndex) *groupState {
	if gs := d.groups[d.rows.at(t).shape]; gs != nil {
		return gs
	}
	return noGroup
}

// rowWanted tells whether a dataset that a row made is kept: the parent may read it, or a row waits for it.
func (j *job) rowWanted(ref comms.DatasetRef) bool {
	if ref.Output >= argBase {
		return false
	}
	w := j.dyn.rows.at(ref.Task)
	return (w.value || w.shape != nil) && (!w.dropped || w.held || len(w.readers) > 0 || w.line.anchor && w.line.deps > 0)
}

// rowRefs counts who may still read a dataset: an argument its row; what a row made is kept by its parent.
func (j *job) rowRefs(ref comms.DatasetRef) int {
	if ref.Output >= argBase {
		return 1
	}
	return 0
}

// groupName is the name of the group from which hosted tasks of one kind come.
func (d *dynamic) groupName(gs *groupState) string {
	for s, have := range d.groups {
		if have == gs {
			return s.rootGroup
		}
	}
	return ""
}

// sortedGroups returns what the rows of a job share, in the order of their kinds.
func (d *dynamic) sortedGroups() []*groupState {
	shapes := make([]*callShape, 0, len(d.groups))
	for s := range d.groups {
		shapes = append(shapes, s)
	}
	slices.SortFunc(shapes, func(a, b *callShape) int {
		switch {
		case a.sum < b.sum:
			return -1
		case a.sum > b.sum:
			return 1
		}
		return 0
	})
	all := make([]*groupState, len(shapes))
	for i, s := range shapes {
		all[i] = d.groups[s]
	}
	return all
}

// addRow makes a row, which waits until startRow.
func (c *Core) addRow(by *caller, r callRow) rowRef {
	var j *job
	if n := len(by.jobs); n > 0 && len(by.jobs[n-1].tasks) < mostRows {
		j = by.jobs[n-1]
	} else {
		j = c.newDynamic(by)
		if n > 0 {
			c.dropEmpty(by.jobs[n-1])
		}
	}
	return c.pushRow(j, r)
}

// pushRow adds a row to a job.
func (c *Core) pushRow(j *job, r callRow) rowRef {
	at := rowRef{j, taskIndex(len(j.tasks))}
	j.dyn.rows.add(r)
	j.dyn.kept++
	if r.value && r.copyOf == nil {
		j.tasks = append(j.tasks, task{attempt: 1, state: tFinished, flags: fReleased})
		return at
	}
	if r.shape != nil && r.shape != borrowed {
		c.groupFor(j, r.shape)
	}
	j.tasks = append(j.tasks, task{attempt: 1, state: tWaiting})
	if j.unended++; j.over {
		c.begin(j)
	}
	return at
}

// missing counts the arguments that are not there.
func (r *callRow) missing() (n uint32, failed bool) {
	for i := range r.args {
		if !r.args[i].there {
			n++
		}
	}
	return n, false
}

// rowName is the name of a row: that of its parent with its number behind it.
func (j *job) rowName(t taskIndex) string {
	return string(j.appendRowName(make([]byte, 0, 64), t))
}

func (j *job) appendRowName(b []byte, t taskIndex) []byte {
	r, by := j.dyn.rows.at(t), j.dyn.by
	if by == nil {
		return append(b, r.name...)
	}
	return comms.AppendCallName(b, by.taskName(), r.name, r.ref)
}

// rowInputs are the arguments of a row as sources, by port.
func (j *job) rowInputs(t taskIndex) []dag.Input {
	r := j.dyn.rows.at(t)
	if r.shape == nil {
		return nil
	}
	ins := make([]dag.Input, len(r.shape.group.Inputs))
	for i := range ins {
		ins[i].Name = r.shape.group.Inputs[i].Name
	}
	for i := range r.args {
		if a := &r.args[i]; a.data != nil {
			ref := argRef(t, i)
			ins[a.port].Sources = append(ins[a.port].Sources, dag.Source{Kind: dag.SourceWhole, Task: ref.Task, Output: ref.Output})
		}
	}
	return ins
}

// rowArguments lists what a run of a row is given.
func (c *Core) rowArguments(r *run, ex *executor) []comms.RunInput {
	w := r.job.dyn.rows.at(r.task)
	out := make([]comms.RunInput, len(w.shape.group.Inputs))
	for i := range w.args {
		a := &w.args[i]
		d := a.desc
		if a.data != nil {
			d = c.inputDesc(r.job, argRef(r.task, i), ex)
		}
		out[a.port].Data = append(out[a.port].Data, d)
	}
	return out
}

// noteRow takes an event of a row. Its end is told as an event of the root of calls.
func (c *Core) noteRow(j *job, e *comms.Event) {
	w := j.dyn.rows.at(e.Task)
	if w.copyOf != nil {
		return
	}
	switch e.Kind {
	case comms.EventFailed, comms.EventSkipped, comms.EventCancelled:
		w.failed = e.Error
	case comms.EventPublished:
		for _, d := range e.Outputs {
			c.cameElement(rowRef{j, e.Task}, d)
		}
		return
	case comms.EventFinished:
	default:
		return
	}
	switch {
	case j.dyn.host != nil:
		c.noteHosted(j, w, e)
		return
	case j.dropped, w.shape == borrowed:
		return
	}
	c.tellRoot(j, c.callEvent(j, w, e))
}

// rowEnded hands on how a row has ended. It needs its arguments no more.
func (c *Core) rowEnded(at rowRef) {
	j, w := at.job, at.row()
	if !j.at(at.task).state.over() || w.shape == nil && w.copyOf == nil {
		return // it runs again, or was forgotten with its end
	}
	delete(j.trouble, at.task)
	j.at(at.task).flags |= fReleased
	if w.shape == borrowed {
		c.leaveOrigin(at)
	}
	c.endArgs(at)
	c.unplaced = false
	c.wakeAt(c.now) // when it ended in a scheduling pass, who waits for it is answered in the next
	again, n := w.line.again, len(w.readers)
	w.line.again = false
	for i := range n { // they stay in the list until all have what they wait for: it is not freed before
		to := w.readers[i]
		c.passOn(at, to)
		c.tryRow(to.rowRef)
	}
	if w.readers = w.readers[n:]; len(w.readers) == 0 { // else it runs again for them
		w.readers = nil
	}
	if j.dyn.by != nil {
		c.readOn(at)
	}
	switch w = at.row(); {
	case !j.at(at.task).state.over(): // it runs once more: what it made is gone again
		w.line.again = again
	case w.dropped:
		c.freeDropped(at)
	case w.copyOf != nil:
		c.endCopy(at)
	case j.dyn.host != nil:
		c.hostedEnded(at)
	case !again:
		c.tellEnd(at)
	}
}

// forgetRow frees what a row made: its parent has dropped it, and no row waits for it.
func (c *Core) forgetRow(at rowRef) {
	j, w := at.job, at.row()
	if w.shape == nil && !w.value {
		return
	}
	c.freeActor(at)
	c.refs.endRow(at)
	c.endRemote(at)
	c.freeRow(at)
	if w.shape != nil {
		for o := range w.shape.group.Outputs {
			delete(j.streams, outputKey{at.task, uint32(o)})
		}
	}
	by, old := j.dyn.by, *w
	*w = callRow{}
	j.dyn.kept--
	if by == nil {
		c.forgetHosted(j)
		return
	}
	if made, _ := by.calls.get(old.ref); made == at {
		by.calls.delete(old.ref)
	}
	c.leaveSources(old.args)
	c.dropEmpty(j)
}

// dropEmpty ends a job of calls that has no row, and gets none.
func (c *Core) dropEmpty(j *job) {
	by := j.dyn.by
	if j.dyn.kept > 0 || j.dropped || !by.left && by.jobs[len(by.jobs)-1] == j {
		return
	}
	j.dropped = true
	by.jobs = slices.DeleteFunc(by.jobs, func(o *job) bool { return o == j })
	c.touch(j)
	c.endLeft(by)
}

// rowData lists the names of what a row has made.
func (j *job) rowData(t taskIndex) (refs []comms.DatasetRef) {
	w := j.dyn.rows.at(t)
	if w.value {
		return []comms.DatasetRef{{Task: t}}
	}
	for o := range w.shape.group.Outputs {
		n := uint64(1)
		if st := j.streams[outputKey{t, uint32(o)}]; st != nil {
			n = st.next
		} else if w.shape.group.Outputs[o].Generate != dag.GenerateNone {
			n = 0
		}
		for e := range n {
			refs = append(refs, comms.DatasetRef{Task: t, Output: uint32(o), Element: e})
		}
	}
	return refs
}

// cancelRow ends a row that has not ended.
func (c *Core) cancelRow(at rowRef, why string) {
	j, t := at.job, at.job.at(at.task)
	switch t.state {
	case tWaiting, tReady, tDelayed, tAway, tPinning:
		c.dropUnplaced(j, at.task)
		c.fail(j, at.task, nil, &comms.TaskError{Kind: comms.ErrorCancelled, Message: why}, comms.Cause{Kind: comms.CauseUser, Text: why}, true)
	case tQueued, tRunning:
		if r := c.runOf(j, at.task); r != nil {
			r.lacks = "" // it ended to run once more, and does not
			c.cancel(r, why)
		}
	}
}

// endDynamic gives up all that is left of a job of dynamic tasks: no run needs it any more.
func (c *Core) endDynamic(j *job) {
	j.dropped = true
	c.stop(j, &comms.TaskError{Kind: comms.ErrorCancelled, Message: "the task that called it has ended", Agent: c.cfg.Agent}, comms.Cause{Kind: comms.CauseTask})
	c.touch(j)
}

// restDynamic counts a job of dynamic tasks as one without work, and takes it out when it was given up.
func (c *Core) restDynamic(j *job) {
	if j.unended > 0 || j.inflight > 0 {
		return
	}
	if !j.over {
		j.over = true
		c.leaveAll(j)
		for _, cl := range j.classes {
			cl.clear()
		}
		c.rest(j)
	}
	if !j.dropped {
		return
	}
	c.endRemotes(j)
	c.actors.endJob(j)
	if c.refs.end(j); len(c.refs.loose) > 0 {
		c.wakeAt(c.now)
	}
	c.keepOnly(j, nil)
	c.closeKinds(j)
	c.unlist(j)
	if root, _ := j.root(); root.dyn == nil {
		root.inflight--
		c.touch(root)
	}
}
