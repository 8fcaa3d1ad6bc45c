package core

import (
	"fmt"
	"slices"

	"github.com/zeebo/xxh3"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/dag"
	"github.com/cascade-run/cascade/shm/ledger"
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
	name   string // of the task, once a call was named
	run    *run   // nil between two tries
	once   bool   // another run of it meets nothing
	calls  callTable
	kinds  map[uint32]*callShape // as the present run numbers them
	shapes map[uint64]*callShape // by their sums
	jobs   []*job                // of its rows; the last takes new ones

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
	for i := range m.Items {
		if err := c.callItem(by, r, &m.Items[i]); err != nil {
			c.misbehaved(r, err)
			return
		}
	}
}

// callerOf returns the record of a run that calls. A run of an earlier try that is being
// killed may have it still, and has it no more.
func (c *Core) callerOf(r *run) *caller {
	by := r.job.callers[r.task]
	if by == nil {
		by = &caller{job: r.job, task: r.task, shapes: map[uint64]*callShape{}}
		if r.job.callers == nil {
			r.job.callers = map[taskIndex]*caller{}
		}
		r.job.callers[r.task] = by
	}
	if by.run != r {
		c.leaveRun(by)
		by.run, r.caller = r, by
	}
	return by
}

// callKind learns what calls of one kind share.
func (c *Core) callKind(by *caller, r *run, k *comms.CallKind) error {
	env := r.gs.class.env
	if k.Environment != "" && k.Environment != env.name {
		root, _ := by.job.root()
		if root.graph == nil || root.declared(k.Environment) == nil {
			return fmt.Errorf("it calls %q in environment %q, which its job does not have", k.Function, k.Environment)
		}
		env = c.environment(root, &dag.Run{Function: k.Function, Environment: k.Environment})
	}
	kind := *k
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
func (c *Core) callItem(by *caller, r *run, m *comms.CallItem) error {
	s := by.kinds[m.Kind]
	if s == nil && m.Kind != 0 {
		return fmt.Errorf("call %v is of kind %d, which it has not announced", m.Ref, m.Kind)
	}
	sum, err := c.sum(by, s, m)
	if err != nil {
		return err
	}
	if old, ok := by.calls.get(m.Ref); ok {
		w := old.row()
		over := old.job.at(old.task).state.over()
		if w.sum == sum && !(over && c.released(old)) {
			c.discardAll(r.ex, m.Values())
			w.dropped, w.run = false, r.id
			c.tellAgain(old)
			return nil
		}
		c.giveUp(old) // a caller that does not repeat itself, or whose result is needed again
	}
	if by.calls.n >= mostCalls {
		return fmt.Errorf("it has %d calls and values outstanding, the limit is %d: let it wait for some, and drop them", by.calls.n, mostCalls)
	}
	if m.Kind == 0 {
		return c.putValue(by, r, m, sum)
	}
	at := c.addRow(by, callRow{ref: m.Ref, run: r.id, shape: s, sum: sum, name: m.Name, with: slices.Clone(m.With), stays: s.stays()})
	by.calls.set(m.Ref, at)
	at.row().args = make([]argument, len(m.Inputs))
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
	return s.kind.Here || slices.ContainsFunc(s.group.Outputs, func(o dag.OutputDecl) bool { return o.Generate != dag.GenerateNone })
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
	if !at.job.at(at.task).state.over() {
		c.cancelRow(at, "its caller does not call it any more")
		return
	}
	c.maybeForget(at)
}

// maybeForget forgets a row that has ended and that its parent has dropped.
func (c *Core) maybeForget(at rowRef) {
	if w := at.row(); w.dropped && at.job.at(at.task).state.over() && len(w.readers) == 0 && !slices.Contains(c.rowsEnded, at) {
		c.forgetRow(at)
	}
}

// putValue keeps a value that a run has put.
func (c *Core) putValue(by *caller, r *run, m *comms.CallItem, sum xxh3.Uint128) error {
	if len(m.Inputs) != 1 || m.Inputs[0].From != comms.FromValue {
		return fmt.Errorf("value %v has %d inputs, and is made of one that is its value", m.Ref, len(m.Inputs))
	}
	at := c.addRow(by, callRow{ref: m.Ref, run: r.id, sum: sum, value: true})
	d := m.Inputs[0].Data
	d.Ref, d.Attempt = comms.DatasetRef{Task: at.task}, 1
	if _, err := c.ownValue(r, at.job, d); err != nil {
		return fmt.Errorf("value %v: %w", m.Ref, err)
	}
	by.calls.set(m.Ref, at)
	return nil
}

// ownValue makes a value that a run sent, or sealed into a lease of its, a dataset of a job.
func (c *Core) ownValue(r *run, j *job, d comms.Desc) (*dataset, error) {
	data := &dataset{desc: d, refs: j.rowRefs(d.Ref)}
	switch d.Place.Kind {
	case comms.PlaceInline:
		data.desc.Place.Bytes = slices.Clone(d.Place.Bytes)
		j.data[d.Ref] = data
	case comms.PlaceSegment:
		data.sealed, j.data[d.Ref] = true, data
		if err := c.seal(r.ex, j.key(data), d); err != nil {
			delete(j.data, d.Ref)
			return nil, err
		}
	default:
		return nil, fmt.Errorf("it lies at a place of kind %d", d.Place.Kind)
	}
	return data, nil
}

// callArgument finds one input of a call.
func (c *Core) callArgument(by *caller, r *run, at rowRef, i int, in *comms.CallInput) error {
	w := at.row()
	a := &w.args[i]
	a.port = in.Port
	switch ins := w.shape.group.Inputs; {
	case int(in.Port) >= len(ins):
		return fmt.Errorf("input %d of %d", in.Port, len(ins))
	case !ins[in.Port].List && slices.ContainsFunc(w.args[:i], func(o argument) bool { return o.port == in.Port }):
		return fmt.Errorf("two datasets for input %s, which is no list", ins[in.Port].Name)
	}
	switch in.From {
	case comms.FromCall:
		c.readCall(by, at, i, in)
		return nil
	case comms.FromInput:
		return c.passInput(r, at, i, in)
	}
	d := in.Data
	d.Ref, d.Attempt = argRef(at.task, i), 1
	if d.Place.Kind == comms.PlaceInline {
		d.Place.Bytes = slices.Clone(d.Place.Bytes)
		a.desc, a.there = d, true
		return nil
	}
	data, err := c.ownValue(r, at.job, d)
	if err != nil {
		return fmt.Errorf("the value for input %s: %w", w.shape.group.Inputs[in.Port].Name, err)
	}
	a.data, a.there = data, true
	return nil
}

// readCall makes what another call of the same caller returns an argument.
func (c *Core) readCall(by *caller, at rowRef, i int, in *comms.CallInput) {
	other, _ := by.calls.get(in.Ref)
	to := reader{at, i, in.Output, in.Element}
	ref := comms.DatasetRef{Task: other.task, Output: in.Output, Element: in.Element}
	if other.job.at(other.task).state.over() && !slices.Contains(c.rowsEnded, other) || other.job.data[ref] != nil {
		c.passOn(other, to)
		return
	}
	w := other.row()
	w.readers = append(w.readers, to)
}

// passInput makes an input of the caller an argument. A reference holds its bytes, whatever
// becomes of the dataset in its job: a new epoch may free it there while the run still reads it.
func (c *Core) passInput(r *run, at rowRef, i int, in *comms.CallInput) error {
	j := r.job
	var ref comms.DatasetRef
	if j.dyn != nil {
		w := j.dyn.rows.at(r.task)
		n := in.Item
		k := slices.IndexFunc(w.args, func(a argument) bool {
			if a.port != in.Input {
				return false
			}
			n--
			return n+1 == 0
		})
		if k < 0 {
			return fmt.Errorf("it passes its input %d[%d], which it does not have", in.Input, in.Item)
		}
		if a := &w.args[k]; a.data == nil {
			to := &at.row().args[i]
			to.desc, to.there = a.desc, true
			return nil
		}
		ref = argRef(r.task, k)
	} else {
		refs, err := j.inputRefs(r.task, in.Input)
		if err != nil || int(in.Item) >= len(refs) {
			return fmt.Errorf("it passes its input %d[%d], which it does not have", in.Input, in.Item)
		}
		ref = refs[in.Item]
	}
	if d := j.data[ref]; d != nil {
		c.giveArg(at, i, j, d)
		return nil
	}
	d := in.Data
	d.Ref = ref
	if key := Key(j.id, &d); d.Attempt > 0 && d.Place.Kind != comms.PlaceInline && (c.loans[key] != nil || c.led.Ref(key, 1) == nil) {
		if c.loans[key] == nil {
			c.loans[key] = &loan{key: key, desc: d, job: j.id, life: j.life}
		}
		c.giveLoan(at, i, c.loans[key])
		return nil
	}
	c.fail(at.job, at.task, nil, &comms.TaskError{Kind: comms.ErrorInput, Message: fmt.Sprintf("input %d of its caller is gone: it is recomputed when the caller runs again", in.Input)},
		comms.Cause{Kind: comms.CauseDataset, Ref: ref}, true)
	return nil
}

// inputRefs lists the datasets of one input of a task of a graph.
func (j *job) inputRefs(t taskIndex, input uint32) (refs []comms.DatasetRef, err error) {
	ins, err := j.inputs(t)
	if err != nil || int(input) >= len(ins) {
		return nil, err
	}
	for _, s := range ins[input].Sources {
		if s.Kind == dag.SourceWhole || s.Kind == dag.SourceElement {
			refs = append(refs, comms.DatasetRef{Task: s.Task, Output: s.Output, Element: s.Element})
		} else {
			refs = append(refs, j.expand(s)...)
		}
	}
	return refs, nil
}

// tellElement tells a parent of an element of a stream.
func (c *Core) tellElement(at rowRef, d comms.Desc) {
	if by := at.job.dyn.by; !at.row().dropped && by.run != nil && by.run.id == at.row().run {
		c.tellCaller(by, comms.CallEnd{Ref: at.row().ref, Element: true, Outputs: []comms.Desc{c.tellable(d)}})
	}
}

// tellEnd tells a parent how a call has ended.
func (c *Core) tellEnd(at rowRef) {
	j, w := at.job, at.row()
	by := j.dyn.by
	if by.run == nil || w.value || by.run.id != w.run { // a run that has not come to it yet is told when it does
		return
	}
	end := comms.CallEnd{Ref: w.ref, Error: w.failed}
	for o := range w.shape.group.Outputs {
		if w.shape.group.Outputs[o].Generate != dag.GenerateNone {
			if st := j.streams[outputKey{at.task, uint32(o)}]; st != nil {
				end.Counts = append(end.Counts, comms.StreamEnd{Output: uint32(o), Count: st.next, Failed: w.failed != nil})
			} else {
				end.Counts = append(end.Counts, comms.StreamEnd{Output: uint32(o), Failed: w.failed != nil})
			}
			continue
		}
		if d := j.data[comms.DatasetRef{Task: at.task, Output: uint32(o)}]; d != nil && w.failed == nil {
			end.Outputs = append(end.Outputs, c.tellable(d.desc))
		}
	}
	c.tellCaller(by, end)
}

// tellAgain tells another run of a parent what came of a call that it meets again.
func (c *Core) tellAgain(at rowRef) {
	j, w := at.job, at.row()
	if w.value {
		return
	}
	for o := range w.shape.group.Outputs {
		if st := j.streams[outputKey{at.task, uint32(o)}]; st != nil {
			for e := range st.next {
				if d := j.data[comms.DatasetRef{Task: at.task, Output: uint32(o), Element: e}]; d != nil {
					c.tellElement(at, d.desc)
				}
			}
		}
	}
	if j.at(at.task).state.over() && !slices.Contains(c.rowsEnded, at) {
		c.tellEnd(at)
	}
}

// tellable is a dataset as a parent is told of it: it asks for bytes that are not in the message.
func (c *Core) tellable(d comms.Desc) comms.Desc {
	if d.Place.Kind != comms.PlaceInline {
		d.Place = comms.Place{Kind: comms.PlaceAgent, Where: c.cfg.Agent}
	}
	return d
}

func (c *Core) tellCaller(by *caller, e comms.CallEnd) {
	by.told++
	by.ends = append(by.ends, e)
	if !by.telled {
		by.telled = true
		c.callTold = append(c.callTold, by)
	}
	if by.wait != nil {
		c.wakeAt(c.now)
	}
}

// tellCallers sends what parents are to be told.
func (c *Core) tellCallers() {
	for i := 0; i < len(c.callTold); i++ {
		c.sendEnds(c.callTold[i])
		c.callTold[i].telled = false
	}
	c.callTold = c.callTold[:0]
}

// sendEnds sends what one parent is to be told, in messages of bounded size.
func (c *Core) sendEnds(by *caller) {
	if len(by.ends) == 0 {
		return
	}
	ends := by.ends
	by.ends = nil
	for len(ends) > 0 {
		n, size := 0, 0
		for ; n < len(ends) && (n == 0 || size < dispatchBytes); n++ {
			for i := range ends[n].Outputs {
				size += descBytes + len(ends[n].Outputs[i].Place.Bytes)
			}
		}
		if by.run.ex.state != exKilled {
			c.emit(ToExecutor{by.run.ex.id, &comms.CallEnds{Run: by.run.id, Ends: ends[:n:n]}})
		}
		ends = ends[n:]
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
		case m.Cancel:
			c.cancelRow(at, m.Why)
		default:
			c.dropCall(r, at)
		}
	}
}

// dropCall notes that a run needs a call no more. A small result
// stays: another run of its task meets it; a caller that is not tried again needs none of it.
func (c *Core) dropCall(r *run, at rowRef) {
	w, by := at.row(), r.caller
	by.endReads(c, at)
	w.dropped = true
	if !at.job.at(at.task).state.over() || slices.Contains(c.rowsEnded, at) {
		return
	}
	if !by.once && !w.value {
		inline := true
		for _, ref := range at.job.rowData(at.task) {
			if d := at.job.data[ref]; d != nil && d.sealed {
				inline = false
				c.freeData(at.job, d)
			}
		}
		if inline {
			w.dropped = false
			return
		}
	}
	c.maybeForget(at)
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
			theirs := e
			theirs.Executor = 0
			c.report(h.owner, comms.GrantItem{Grant: w.grant, Event: &theirs})
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
		delete(by.job.callers, by.task)
		for _, j := range by.jobs {
			c.endDynamic(j)
		}
	}
	for len(c.argsLost) > 0 {
		at := c.argsLost[0]
		c.argsLost = c.argsLost[1:]
		some = c.argLost(at) || some
	}
	for len(c.rowsEnded) > 0 {
		at := c.rowsEnded[0]
		c.rowsEnded = c.rowsEnded[1:]
		some = true
		c.rowEnded(at)
	}
	c.rowsEnded = nil
	return some
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

// loan is a reference to a dataset in memory that arguments hold, whatever becomes of the
// dataset in the job that it is of.
type loan struct {
	key  ledger.Key
	desc comms.Desc  // as its job names it
	job  comms.JobID // of that
	life uint64
	n    int  // arguments
	lost bool // its bytes are gone
}

// lend makes a dataset of one job, which lies in memory, one of another job, too.
func (c *Core) lend(from *job, d *dataset, to *job, ref comms.DatasetRef) *dataset {
	key := from.key(d)
	l := c.loans[key]
	if l == nil {
		c.must(c.led.Ref(key, 1))
		l = &loan{key: key, desc: d.desc, job: from.id, life: from.life}
		c.loans[key] = l
	}
	l.n++
	lent := &dataset{desc: d.desc, sealed: true, refs: 1, lent: l}
	lent.desc.Ref = ref
	to.data[ref] = lent
	return lent
}

// giveLoan makes a dataset that is in memory for other arguments already one of a row.
func (c *Core) giveLoan(to rowRef, arg int, l *loan) {
	l.n++
	a := &to.row().args[arg]
	a.there = true
	a.data = &dataset{desc: l.desc, sealed: true, refs: 1, lent: l}
	a.data.desc.Ref = argRef(to.task, arg)
	to.job.data[a.data.desc.Ref] = a.data
}

// endLoan ends one argument's part in a loan.
func (c *Core) endLoan(l *loan) {
	if l.n--; l.n > 0 {
		return
	}
	delete(c.loans, l.key)
	if !l.lost {
		c.must(c.led.Unref(l.key, 1))
		c.effects()
	}
	j, d := c.dataset(l.key)
	if d == nil {
		c.endOfferOf(l.job, &l.desc)
	}
	if d != nil && j.hosted() != nil && d.desc.Ref.Output < argBase {
		c.endCopy(rowRef{j, d.desc.Ref.Task})
	}
}
