package core

import (
	"fmt"
	"maps"
	"slices"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/dag"
)

// A run may make tasks: it calls functions, and puts values. The agent owns what the
// tasks of its runs have called, as rows of dynamic jobs. Calls end with the task that
// made them, not with its run: when that is tried again it makes the same calls, and
// meets those that it made. Events of calls become one event of the task of the graph
// that stands at the root of them. A call may run on another agent: see placement, grants.

// caller is a task that has called.
type caller struct {
	job    *job
	task   taskIndex
	name   []byte // of the task, once a call was named; it is in events
	run    *run   // nil between two tries
	once   bool   // another run of it meets nothing
	left   bool   // it has ended, and values refer to what it has called
	calls  callTable
	kinds  map[uint32]*callShape // as the present run numbers them
	shapes map[uint64]*callShape // by their sums
	jobs   []*job                // of its rows; the last takes new ones
	noted  uint64                // ends of calls
	met    uint64                // of those, when the present run began to call

	// Of the present run.
	told   uint64          // items of CallEnds that it was sent, or that are in ends
	ends   []comms.CallEnd // to be sent in this step
	telled bool            // in Core.callTold
	wait   *callWait
	reads  []*callRead
}

// mostCalls is how many calls and values of one task may be outstanding.
const mostCalls = 1 << 23

// root returns the task of a graph from which a call comes, by whatever calls; or the
// hosted one, when that task is another agent's. Of a job of hosted tasks itself it is
// the first: see rowRef.root.
func (j *job) root() (*job, taskIndex) {
	t := taskIndex(0)
	for j.dyn != nil && j.dyn.by != nil {
		j, t = j.dyn.by.job, j.dyn.by.task
	}
	return j, t
}

// dynamic tells whether a job's tasks came from a run: the controller does not know them.
func (j *job) dynamic() bool { return j.dyn != nil }

// taskName is a task's name.
func (j *job) taskName(t taskIndex) string {
	if j.dyn != nil {
		return j.rowName(t)
	}
	return j.graph.TaskName(t)
}

// calledFunction is the function of a called task; "" of a task of a graph.
func (j *job) calledFunction(t taskIndex) string {
	if j.dyn == nil || j.dyn.rows.at(t).shape == nil {
		return ""
	}
	return j.dyn.rows.at(t).shape.kind.Function
}

// title is the name of a row for people, with its function.
func (r rowRef) title() string {
	if f := r.job.calledFunction(r.task); f != "" {
		return r.job.rowName(r.task) + " (" + f + ")"
	}
	return r.job.rowName(r.task)
}

// called takes a run's word that it makes tasks.
func (c *Core) called(ex *executor, m *comms.Calls) {
	r := c.runAt(ex, m.Run)
	if r == nil || r.orphan || r.job.at(r.task).state.over() {
		for i := range m.Items {
			c.discardAll(ex, m.Items[i].Values())
		}
		return
	}
	c.startedRun(r)
	by := c.callerOf(r)
	by.once = by.once || m.Once
	for i := range m.Kinds {
		if err := c.callKind(by, r, &m.Kinds[i]); err != nil {
			c.misbehaved(r, err)
			return
		}
	}
	refs := m.Refs
	for i := range m.Items {
		n := 0
		for n < len(refs) && refs[n].Item == uint32(i) {
			n++
		}
		if err := c.callItem(by, r, &m.Items[i], refs[:n]); err != nil {
			c.misbehaved(r, err)
			return
		}
		refs = refs[n:]
	}
	by.forgetKinds(m.Forget)
}

// forgetKinds forgets kinds up to a number. Their shapes stay as long as a job has calls of them.
func (by *caller) forgetKinds(last uint32) {
	if last == 0 {
		return
	}
	needed := map[*callShape]bool{}
	for id, s := range by.kinds {
		if id > last {
			needed[s] = true
		} else {
			delete(by.kinds, id)
		}
	}
	for _, j := range by.jobs {
		for s := range j.dyn.groups {
			needed[s] = true
		}
	}
	maps.DeleteFunc(by.shapes, func(_ uint64, s *callShape) bool { return !needed[s] })
}

// callerOf returns the record of a run that calls. A run of an earlier try that is being
// killed may have it still, and has it no more.
func (c *Core) callerOf(r *run) *caller {
	by := c.callerAt(r.job, r.task)
	if by.run != r {
		c.leaveRun(by)
		by.run, by.left, r.caller, by.met = r, false, by, by.noted
	}
	return by
}

// repeats tells whether another run of the caller may meet what it has called: the program of a
// session has one run.
func (by *caller) repeats() bool {
	return !by.once && (by.run == nil || by.run.ex.session == nil)
}

// callerAt returns the record of what a task calls.
func (c *Core) callerAt(j *job, t taskIndex) *caller {
	by := j.callers[t]
	if by == nil {
		by = &caller{job: j, task: t, shapes: map[uint64]*callShape{}}
		if j.callers == nil {
			j.callers = map[taskIndex]*caller{}
		}
		j.callers[t] = by
	}
	return by
}

// callKind learns what calls of one kind share.
func (c *Core) callKind(by *caller, r *run, k *comms.CallKind) error {
	env := r.gs.class.env
	if k.Environment != "" && k.Environment != env.name {
		root, _ := by.job.root()
		env = c.environment(root, &dag.Run{Function: k.Function, Environment: k.Environment})
		if env.state == envUnknown && root.declared(k.Environment) == nil { // the error of each such call
			env.state, env.err = envFailed, root.undeclared(k.Environment)
		}
	}
	kind := *k
	kind.Graph = slices.Clone(k.Graph)
	kind.Inputs, kind.Outputs, kind.RetryOn = slices.Clone(k.Inputs), slices.Clone(k.Outputs), slices.Clone(k.RetryOn)
	if len(kind.Outputs) == 0 {
		kind.Outputs = []comms.KindOut{{Name: "out"}}
	}
	s, err := newShape(kind, env)
	if err != nil {
		return err
	}
	if have := by.shapes[s.sum]; have != nil && have.env == env {
		s = have
	} else {
		by.shapes[s.sum] = s
	}
	if by.kinds == nil {
		by.kinds = map[uint32]*callShape{}
	}
	by.kinds[k.ID] = s
	return nil
}

// callItem takes one call, or a value. An error says that the executor broke the protocol.
func (c *Core) callItem(by *caller, r *run, m *comms.CallItem, refs []comms.ItemRefs) error {
	s := by.kinds[m.Kind]
	if s == nil && m.Kind != 0 {
		return fmt.Errorf("call %v is of kind %d, which it has not announced", m.Ref, m.Kind)
	}
	sum, err := c.sum(by, s, m, refs)
	if err != nil {
		return err
	}
	if old, ok := by.calls.get(m.Ref); ok {
		w := old.row()
		over := old.job.at(old.task).state.over()
		if w.sum == sum && (w.run == r.id || !by.once) && !(over && c.released(old)) && c.sameOrigin(by, r, old, m) {
			w.dropped, w.run, w.line.again = false, r.id, false
			c.tellAgain(old)
			if !over {
				return c.bring(by, r, old, m)
			}
			c.discardAll(r.ex, m.Values())
			return nil
		}
		c.giveUp(old) // a caller that does not repeat itself, or whose result is needed again
	}
	if by.calls.n >= mostCalls {
		return fmt.Errorf("it has %d calls and values outstanding, the limit is %d: let it wait for some, and drop them", by.calls.n, mostCalls)
	}
	if m.Kind == 0 {
		return c.valueItem(by, r, m, sum, refs)
	}
	at := c.addRow(by, callRow{ref: m.Ref, run: r.id, shape: s, sum: sum, name: m.Name, with: slices.Clone(m.With), stays: s.stays(),
		made: c.now.UnixNano()})
	by.calls.set(m.Ref, at)
	if len(m.Inputs) > 0 {
		at.row().args = make([]argument, len(m.Inputs))
	}
	if reads := comms.AppendEdges(nil, m.Inputs); reads != nil {
		at.row().reads = &reads
	}
	for i := range refs {
		if err := c.listArgument(by, at, &refs[i]); err != nil {
			return fmt.Errorf("call %v of %q: %w", m.Ref, s.kind.Function, err)
		}
	}
	for i := range m.Inputs {
		if err := c.callArgument(by, r, at, i, &m.Inputs[i]); err != nil {
			c.giveUp(at) // the next try does not meet a call that cannot run
			return fmt.Errorf("call %v of %q: %w", m.Ref, s.kind.Function, err)
		}
		if at.job.at(at.task).state.over() {
			return nil // what it reads has failed
		}
	}
	c.tryRow(at)
	return nil
}

// stays tells whether calls of a kind can run on no other agent.
func (s *callShape) stays() bool {
	return s.kind.Here || s.graph != nil || slices.ContainsFunc(s.group.Outputs, func(o dag.OutputDecl) bool { return o.Generate != dag.GenerateNone })
}

// released tells whether a row that has ended well has lost what it made.
func (c *Core) released(at rowRef) bool {
	if at.row().failed != nil {
		return false
	}
	for _, ref := range at.job.rowData(at.task) {
		if at.job.data[ref] == nil {
			return true
		}
	}
	return false
}

// giveUp takes a row from its caller: it is ended, and forgotten with its end.
func (c *Core) giveUp(at rowRef) {
	w := at.row()
	at.job.dyn.by.calls.delete(w.ref)
	w.dropped, w.run = true, 0
	if !w.held && !at.job.at(at.task).state.over() {
		c.cancelRow(at, "its caller does not call it any more")
	}
	if !at.job.at(at.task).state.over() { // it takes its time to end
		c.dropUnended(at)
		return
	}
	c.maybeForget(at)
}

// maybeForget forgets a row that has ended and that its parent has dropped.
func (c *Core) maybeForget(at rowRef) {
	w := at.row()
	if !w.dropped || w.held || len(w.readers) > 0 || slices.Contains(c.rowsEnded, at) {
		return
	}
	switch {
	case at.job.at(at.task).state.over():
		c.freeDropped(at)
	case w.line.again && w.line.deps == 0 && at.job.at(at.task).state == tWaiting:
		c.giveUpAgain(at)
	case w.line.again && w.line.deps == 0:
		c.cancelRow(at, "no task needs it any more")
	}
}

// dropCalls takes a run's word that it needs calls no more.
func (c *Core) dropCalls(ex *executor, m *comms.CallDrop) {
	r := c.runAt(ex, m.Run)
	if r == nil || r.caller == nil {
		return
	}
	for _, ref := range m.Refs {
		at, ok := r.caller.calls.get(ref)
		switch {
		case !ok:
		case m.Cancel && !at.row().line.again: // else it has ended
			c.cancelRow(c.origin(reference{rowRef: at}).rowRef, m.Why)
		case m.Cancel:
		default:
			c.dropCall(r, at)
		}
	}
}

// dropCall notes that a run needs a call no more. A small result
// stays while another run of its task may meet it.
func (c *Core) dropCall(r *run, at rowRef) {
	w, by := at.row(), r.caller
	c.endReads(by, at)
	w.dropped = true
	if !at.job.at(at.task).state.over() {
		c.dropUnended(at)
		return
	}
	if slices.Contains(c.rowsEnded, at) {
		return
	}
	if by.repeats() && !w.value && w.shape != borrowed {
		inline := !c.refs.listed(at)
		for _, ref := range at.job.rowData(at.task) {
			d := at.job.data[ref]
			inline = inline && d != nil && !d.sealed
		}
		if inline {
			w.dropped = false
			return
		}
	}
	c.maybeForget(at)
}

// dropUnended follows when a row is dropped that has not ended. It goes on, and nothing of what it makes is kept.
func (c *Core) dropUnended(at rowRef) {
	c.maybeForget(at) // one that runs again ends
	switch w := at.row(); {
	case at.job.at(at.task).state.over() || w.held || len(w.readers) > 0:
	case w.shape == borrowed:
		c.cancelRow(at, "its reader needs it no more")
	case w.out != nil && w.out.end != nil:
		c.endsUnread(at)
	default:
		c.freeRow(at)
	}
}

// taskName is the name of a caller's task.
func (by *caller) taskName() []byte {
	if by.name == nil {
		by.name = []byte(by.job.taskName(by.task))
	}
	return by.name
}

// callEvent is what the controller is told of the end of a call: one event of the root of calls.
func (c *Core) callEvent(j *job, w *callRow, e *comms.Event) comms.Event {
	order := uint64(0)
	if !w.line.again { // else its parent was told before
		j.dyn.by.noted++
		order = j.dyn.by.noted
	}
	t := &comms.Called{Ref: w.ref, Name: w.name, Function: w.shape.kind.Function, Host: w.at, Made: w.made,
		Kind: w.shape.record, Record: c.records.of(j, e.Task, e.Kind == comms.EventFinished), Order: order, Met: j.metBy(e)}
	if w.reads != nil {
		t.Reads = *w.reads
	}
	if root, _ := j.root(); t.Host == "" && root.hosted() != nil {
		t.Host = c.cfg.Agent
	}
	return comms.Event{Kind: comms.EventCall, Executor: e.Executor, Usage: e.Usage, Error: e.Error, Count: uint64(comms.Try(e.Attempt)),
		Cause: comms.Cause{Kind: comms.CauseTask}, Parent: j.dyn.by.taskName(), Called: t}
}

// tellRoot passes the end of a call on to the task of a graph from which it comes, or
// to the agent whose that is.
func (c *Core) tellRoot(j *job, e comms.Event) {
	root, t := j.root()
	if root.dropped || root.over && root.dyn == nil {
		return
	}
	if h := root.hosted(); h != nil {
		if w := root.dyn.rows.at(t); !w.left() {
			if h.owner.kept > mostReported && e.Called != nil {
				e.Called.Record = comms.RecordWithout(comms.RecordBacklog)
			}
			c.report(h.owner, comms.GrantItem{Grant: w.grant, Event: &e})
		}
		return
	}
	e.Task, e.Attempt, e.Cause.Ref = t, root.at(t).attempt, comms.DatasetRef{Task: t}
	c.note(root, e)
}

// settleCalls does what follows from ends: of calls, for those that read and await
// them; of callers, for their calls. It tells whether there was anything.
func (c *Core) settleCalls() (some bool) {
	for len(c.reap) > 0 {
		by := c.reap[0]
		c.reap = c.reap[1:]
		s := by.job.at(by.task).state
		if ended := by.run == nil && (s == tAbsent || s.over()); !ended && !(by.run == nil && by.once) || by.job.callers[by.task] != by {
			continue
		}
		some = true
		if !c.leaveCalls(by) {
			continue
		}
		delete(by.job.callers, by.task)
		for _, j := range by.jobs {
			c.endDynamic(j)
		}
	}
	for len(c.argsLost) > 0 {
		at := c.argsLost[0]
		c.argsLost = c.argsLost[1:]
		some = c.refill(at) || some
	}
	for len(c.rowsEnded) > 0 {
		at := c.rowsEnded[0]
		c.rowsEnded = c.rowsEnded[1:]
		some = true
		c.rowEnded(at)
	}
	c.rowsEnded = nil
	return c.loosen() || some
}

// endCaller takes a run that has ended from its calls, which stay for the next try.
func (c *Core) endCaller(r *run) {
	if by := r.caller; by != nil {
		c.leaveRun(by)
		c.reap = append(c.reap, by)
	}
	for _, id := range r.more {
		if c.requests[id] != nil {
			delete(c.requests, id)
			c.must(c.led.Release(id))
			c.effects() // another of them may have failed with it
		}
	}
	r.more = nil
}

// leaveRun takes the calls of a task from its run: it waits for none. Data that was brought
// into memory for it stays there until it ends, and is not there for another run.
func (c *Core) leaveRun(by *caller) {
	if by.run == nil {
		return
	}
	by.run.caller = nil
	by.run, by.wait, by.reads, by.kinds, by.ends, by.told = nil, nil, nil, nil, nil, 0
}

// endCalls looks at the calls of a task that has ended or is not this agent's any more.
func (c *Core) endCalls(j *job, t taskIndex) {
	if by := j.callers[t]; by != nil {
		c.reap = append(c.reap, by)
	}
}
