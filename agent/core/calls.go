package core

import (
	"fmt"
	"maps"
	"slices"

	"github.com/zeebo/xxh3"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/dag"
	"github.com/cascade-run/cascade/shm/ledger"
)

// A run may call functions as tasks of their own. A call is a job of one task that
// this agent makes and that the controller never sees: what holds for tasks of jobs
// (readiness, grants, crashes, memory) holds for it. Its inputs are outputs of
// placeholder tasks that have ended; one that is a dataset of another job is lent
// by that job. Events of calls become one event of the task of the graph that
// stands at the root of them.
//
// Calls end with the task that made them, not with its run: when that is tried
// again it makes the same calls, and meets those that were made.
//
// A call may run on another agent: see forward. There it is a guest, whose caller is
// elsewhere, and the datasets of its owner that it reads are jobs as if they were calls.

// call is what makes a job a call, a guest, or a dataset that guests read.
type call struct {
	by      *caller // nil of a guest and of what it reads
	name    string  // of those
	guest   *guest
	borrows *borrowed
	out     *outgoing // at another agent, when it is there or about to go
	at      string    // the agent on which it has ended, when that is not this one
	stays   bool      // it came back, and goes nowhere if it can run here
	number  uint64
	sum     xxh3.Uint128 // of all that was asked for
	readers []reader     // calls that wait for what it returns
	over    bool
	failed  *comms.TaskError // how it ended badly
	awaited bool
	pins    ledger.RequestID // 0, or what keeps the result in memory for the run that awaits it
	held    bool             // it is in memory
}

// reader is an input of a call.
type reader struct {
	job   *job
	input int
}

// caller is a task that has called.
type caller struct {
	job   *job
	task  taskIndex
	run   *run // nil between two tries
	calls map[uint64]*job
	waits []*job // what the run awaits
}

// loan is a dataset of another job that is an input of a call.
type loan struct {
	job  *job
	data *dataset
}

// root returns the task of a graph from which a call comes, by whatever calls; or the
// guest, when that task is another agent's.
func (j *job) root() (*job, taskIndex) {
	t := taskIndex(0)
	if j.call != nil {
		t = j.call.task(j)
	}
	for j.call != nil && j.call.by != nil {
		j, t = j.call.by.job, j.call.by.task
	}
	return j, t
}

// taskName is a task's name: of a call that of its caller, and its number behind it.
func (j *job) taskName(t taskIndex) string {
	switch {
	case j.call == nil:
		return j.graph.TaskName(t)
	case j.call.by == nil:
		return j.call.name
	}
	return fmt.Sprintf("%s/%d", j.call.by.job.taskName(j.call.by.task), j.call.number)
}

// task is the one task of a call: the placeholders of its inputs come before it.
func (k *call) task(j *job) taskIndex { return taskIndex(j.static - 1) }

// callGroup is what the one task of a call has of a group.
func (j *job) callGroup() *groupState { return j.groupOf(j.call.task(j)) }

// called takes a run's word that it calls a function.
func (c *Core) called(ex *executor, m *comms.Call) {
	r := c.runAt(ex, m.Run)
	if r == nil || r.orphan || r.job.at(r.task).state.over() {
		c.discardAll(ex, m.Values())
		return
	}
	c.startedRun(r)
	by := c.callerOf(r)
	sum, err := by.sum(m)
	if err != nil {
		c.misbehaved(r, err)
		return
	}
	if old := by.calls[m.Number]; old != nil {
		if old.call.sum == sum {
			c.discardAll(ex, m.Values())
			return
		}
		c.giveUp(old) // a caller that does not repeat itself
	}
	if err := c.newCall(r, by, m, sum); err != nil {
		c.misbehaved(r, err)
	}
}

// callerOf returns the record of a run that calls. A run of an earlier try that is being
// killed may have it still, and has it no more.
func (c *Core) callerOf(r *run) *caller {
	by := r.job.callers[r.task]
	if by == nil {
		by = &caller{job: r.job, task: r.task, calls: map[uint64]*job{}}
		if r.job.callers == nil {
			r.job.callers = map[taskIndex]*caller{}
		}
		r.job.callers[r.task] = by
	}
	if by.run != r {
		by.leave()
		by.run, r.caller = r, by
	}
	return by
}

// sum tells calls of one number apart. Two tries of a task that make the same call
// have the same sum, wherever their arguments lie.
func (by *caller) sum(m *comms.Call) (xxh3.Uint128, error) {
	same := *m
	same.Run = 0
	same.Inputs = slices.Clone(m.Inputs)
	earlier := make([]byte, 0, 64)
	for i := range same.Inputs {
		in := &same.Inputs[i]
		if in.Call == 0 {
			if in.Data.Place.Kind == comms.PlaceSegment {
				in.Data.Place = comms.Place{}
			}
			continue
		}
		other := by.calls[in.Call-1]
		if other == nil {
			return xxh3.Uint128{}, fmt.Errorf("it reads what call %d returns, which it has not made", in.Call-1)
		}
		sum := other.call.sum.Bytes()
		earlier = append(earlier, sum[:]...)
	}
	return xxh3.Hash128(append(comms.Encode(&same), earlier...)), nil
}

// newCall makes the job of a call. An error says that the executor broke the protocol.
func (c *Core) newCall(r *run, by *caller, m *comms.Call, sum xxh3.Uint128) error {
	env := r.gs.class.env
	g, err := callGraph(m, env.job.declared(env.name))
	if err != nil {
		return err
	}
	root, _ := r.job.root()
	j := c.newJob(&comms.Assign{Job: c.callID(by, sum), JobIncarnation: root.life, Dir: root.dir, Tenant: root.tenant.name}, g)
	j.depth, j.priority, j.registry = r.job.depth+1, root.priority, root.registry
	gs := c.prepareCall(j, &call{by: by, number: m.Number, sum: sum}, m.With)
	if !r.job.session {
		gs.checked = env.pool // the caller's registry is the executor's
	}
	by.calls[m.Number] = j
	if root.call == nil {
		root.inflight++
	}
	for _, cl := range j.classes {
		cl.env = env
	}
	for i := range m.Inputs {
		if err := c.callInput(r, j, i, &m.Inputs[i]); err != nil {
			delete(by.calls, m.Number) // the next try does not meet a call that cannot run
			c.giveUp(j)
			return err
		}
	}
	c.tryCall(j)
	return nil
}

// prepareCall makes a new job one of one task, whose inputs count as made.
func (c *Core) prepareCall(j *job, k *call, with []byte) *groupState {
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

// callID names the job of a call. No other call ever has that name: memory may still
// hold what one of the same content was given, when a reader keeps it.
func (c *Core) callID(by *caller, sum xxh3.Uint128) comms.JobID {
	b := sum.Bytes()
	return c.freshID(fmt.Append(b[:], by.job.id, by.task))
}

// freshID makes a name that nothing here or on another agent has had.
func (c *Core) freshID(of []byte) comms.JobID {
	c.calls++
	return comms.JobID(xxh3.Hash128(fmt.Append(slices.Clip(of), c.cfg.Agent, c.cfg.Incarnation, c.calls)).Bytes())
}

// callGraph makes the graph of a call: placeholders for its inputs, and its task. env
// is its caller's environment, nil when that is the default one.
func callGraph(m *comms.Call, env *dag.Environment) (*dag.Graph, error) {
	b := dag.NewBuilder("call")
	run := dag.Run{Function: m.Function}
	if env != nil {
		b.Environment(*env)
		run.Environment = env.Name
	}
	grp := dag.Group{Name: "call", Run: run, Outputs: []dag.OutputDecl{{Name: m.Output}},
		Resources: dag.Resources{CPU: m.Resources.CPU, Memory: m.Resources.Memory, GPU: m.Resources.GPU}}
	for _, x := range m.Resources.Custom {
		if grp.Resources.Custom == nil {
			grp.Resources.Custom = map[string]int64{}
		}
		grp.Resources.Custom[x.Name] = x.N
	}
	if n := len(m.Inputs); n > 0 {
		in := b.Add(dag.Group{Name: "inputs", Axes: []dag.Axis{dag.Range("i", 0, int64(n)-1)}, Run: dag.Run{Function: "inputs"}, Outputs: []dag.OutputDecl{{Name: "out"}}})
		for i := range m.Inputs {
			grp.Inputs = append(grp.Inputs, dag.One(m.Inputs[i].Name, in.Out("out", dag.At(i))))
		}
	}
	b.Add(grp)
	g, err := b.Build()
	if err != nil {
		return nil, fmt.Errorf("it calls %q: %w", m.Function, err)
	}
	return g, nil
}

// callInput finds one input of a call.
func (c *Core) callInput(r *run, j *job, i int, in *comms.CallIn) error {
	switch {
	case in.Call > 0:
		other := r.caller.calls[in.Call-1]
		if !other.call.over {
			other.call.readers = append(other.call.readers, reader{j, i})
			return nil
		}
		c.passOn(other, reader{j, i})
		return nil
	case in.Input > 0:
		ins, err := r.job.inputs(r.task)
		if err != nil || in.Input > uint64(len(ins)) || len(ins[in.Input-1].Sources) != 1 {
			return fmt.Errorf("it passes its input %d to a call, which is no dataset", in.Input-1)
		}
		s := ins[in.Input-1].Sources[0]
		ref := comms.DatasetRef{Task: s.Task, Output: s.Output, Element: s.Element}
		if s.Kind != dag.SourceWhole && s.Kind != dag.SourceElement || r.job.data[ref] == nil {
			return fmt.Errorf("it passes its input %d to a call, which is no dataset that is here", in.Input-1)
		}
		c.lend(r.job, r.job.data[ref], reader{j, i})
		return nil
	}
	d := in.Data
	d.Ref, d.Attempt = comms.DatasetRef{Task: taskIndex(i)}, 1
	data := &dataset{desc: d, refs: 1}
	j.data[d.Ref] = data
	switch d.Place.Kind {
	case comms.PlaceInline:
		data.desc.Place.Bytes = slices.Clone(d.Place.Bytes)
	case comms.PlaceSegment:
		data.sealed = true
		if err := c.seal(r.ex, j.key(data), d); err != nil {
			delete(j.data, d.Ref)
			return err
		}
	default:
		return fmt.Errorf("an argument of its call lies at a place of kind %d", d.Place.Kind)
	}
	return nil
}

// lend makes a dataset of one job an input of a call.
func (c *Core) lend(from *job, d *dataset, to reader) {
	from, d = d.lender(from)
	lent := &dataset{desc: d.desc, sealed: d.sealed, refs: 1}
	lent.desc.Ref = comms.DatasetRef{Task: taskIndex(to.input)}
	if d.sealed {
		lent.from = &loan{from, d}
		if from.lends == nil {
			from.lends = map[comms.DatasetRef]int{}
		}
		from.lends[d.desc.Ref]++
		d.refs++
	}
	to.job.data[lent.desc.Ref] = lent
}

// endLoan ends a loan.
func (c *Core) endLoan(l *loan) {
	ref := l.data.desc.Ref
	if l.job.lends[ref]--; l.job.lends[ref] == 0 {
		delete(l.job.lends, ref)
	}
	c.deref(l.job, ref, 1)
	if l.job.dropped && len(l.job.lends) == 0 {
		c.touch(l.job)
	}
	if k := l.job.call; k != nil && k.borrows != nil {
		c.unborrow(l.job)
	}
}

// passOn hands what a call returned to another that reads it, or fails that.
func (c *Core) passOn(j *job, to reader) {
	k := to.job.call
	t := k.task(to.job)
	if to.job.at(t).state.over() {
		return
	}
	if d := j.result(); d != nil {
		c.lend(j, d, to)
		return
	}
	why := "its result was released when its caller ended"
	if j.call.failed != nil {
		why = j.call.failed.Text()
	}
	if k.guest != nil {
		c.sendBack(to.job, fmt.Sprintf("%s: %s", j.call.name, why))
		return
	}
	c.fail(to.job, t, nil, &comms.TaskError{Kind: comms.ErrorInput, Message: fmt.Sprintf("what it reads could not be made: %s: %s", j.taskName(j.call.task(j)), why)},
		comms.Cause{Kind: comms.CauseTask}, true)
}

// tryCall makes a call ready when all of its inputs are there.
func (c *Core) tryCall(j *job) {
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

// result is what a call that has ended returned; nil when it failed.
func (j *job) result() *dataset {
	if !j.call.over || j.call.failed != nil {
		return nil
	}
	return j.data[comms.DatasetRef{Task: j.call.task(j)}]
}

// noteCall takes an event of a call. Its end is told as an event of the root of calls.
func (c *Core) noteCall(j *job, e *comms.Event) {
	k := j.call
	switch e.Kind {
	case comms.EventFailed, comms.EventSkipped, comms.EventCancelled:
		k.failed = e.Error
	case comms.EventFinished:
	default:
		return
	}
	if k.by == nil {
		if k.guest != nil {
			k.guest.end = &comms.Event{Kind: e.Kind, Attempt: e.Attempt, Usage: e.Usage, Error: e.Error}
		}
		return
	}
	if j.dropped {
		return
	}
	end := comms.Event{Kind: comms.EventCall, Executor: e.Executor, Usage: e.Usage, Error: e.Error, Count: uint64(comms.Try(e.Attempt)),
		Cause: comms.Cause{Kind: comms.CauseTask, Text: j.taskName(e.Task) + " " + j.groupOf(e.Task).group.Run.Function}}
	switch root, _ := j.root(); {
	case k.at != "":
		end.Cause.Text += " on " + k.at
	case root.call != nil:
		end.Cause.Text += " on " + c.cfg.Agent
	}
	c.tellRoot(j, end)
}

// tellRoot passes the end of a call on to the task of a graph from which it comes, or
// to the agent whose that is.
func (c *Core) tellRoot(j *job, e comms.Event) {
	root, t := j.root()
	if root.dropped || root.over {
		return
	}
	if g := root.guestOf(); g != nil {
		e.Executor = 0
		c.say(g.owner, &comms.Forwarded{Call: root.id, Event: &e})
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
		if s := by.job.at(by.task).state; by.run == nil && (s == tAbsent || s.over()) && by.job.callers[by.task] == by {
			some = true
			delete(by.job.callers, by.task)
			for _, n := range slices.Sorted(maps.Keys(by.calls)) {
				c.giveUp(by.calls[n])
			}
		}
	}
	for i := 0; i < len(c.touched); i++ {
		if j := c.touched[i]; j.call != nil && j.unended == 0 && j.inflight == 0 && !j.over {
			some = true
			c.callEnded(j)
		}
	}
	return some
}

// callEnded hands on how a call has ended. It needs its inputs no more.
func (c *Core) callEnded(j *job) {
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
		c.passOn(j, to)
		c.tryCall(to.job)
	}
	switch {
	case j.call.guest != nil:
		c.guestEnded(j)
	case j.call.borrows != nil:
		c.unborrow(j)
	}
}

// giveUp ends a call that no run waits for any more.
func (c *Core) giveUp(j *job) {
	j.dropped = true
	c.stop(j, &comms.TaskError{Kind: comms.ErrorCancelled, Message: "the task that called it has ended", Agent: c.cfg.Agent}, comms.Cause{Kind: comms.CauseTask})
	c.touch(j)
}

// dropCall forgets a call with all of its datasets.
func (c *Core) dropCall(j *job) {
	c.keepOnly(j, nil)
	c.closeKinds(j)
	c.unlist(j)
	switch root, _ := j.root(); {
	case j.call.guest != nil:
		c.dropGuest(j)
	case j.call.borrows != nil:
		if k := *j.call.borrows; c.borrowed[k] == j {
			delete(c.borrowed, k)
		}
	case root.call == nil:
		root.inflight--
		c.touch(root)
	}
}
