package core

import (
	"fmt"
	"slices"

	"github.com/zeebo/xxh3"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/dag"
)

// A value may hold futures. Its bytes number them; beside the bytes stands a list of the datasets that
// they refer to. A row that a list names is held: it goes on, and what it makes is kept, whatever
// becomes of its parent, until no list names it. Lists are made before their value is visible to
// anyone, and end with it.
//
//	Listed, Calls ──▶ list ──▶ held rows            a run that decodes the value: borrow ──▶ a row of
//	     value passed on: its list, too ──▶ list    its own, which reads what the future refers to
//	     value forgotten ──▶ list ends ──▶ loose ──▶ rows that nothing holds are given up
//
// Values are immutable, and made after what they refer to: there are no cycles.

// reference is a dataset that a value refers to.
type reference struct {
	rowRef
	output  uint32
	element uint64
}

func (r reference) dataset() comms.DatasetRef {
	return comms.DatasetRef{Task: r.task, Output: r.output, Element: r.element}
}

// references is which values refer to which rows.
type references struct {
	lists map[*job]map[comms.DatasetRef][]reference // by the dataset of a row, or the argument, that lists them
	holds map[*job]map[taskIndex]uint32             // how often each row is listed
	loose []rowRef                                  // that no list names any more: they are still held

	remotes map[rowRef]*remote    // rows that stand for datasets of other agents
	open    map[uint64]*openGrant // by grant
}

// list returns what a value refers to.
func (rs *references) list(j *job, ref comms.DatasetRef) []reference { return rs.lists[j][ref] }

// set gives a value its list, in place of one before. The rows of the new one are held before those of the old are not.
func (rs *references) set(j *job, ref comms.DatasetRef, list []reference) {
	old := rs.lists[j][ref]
	if len(list) > 0 {
		if rs.lists == nil {
			rs.lists, rs.holds = map[*job]map[comms.DatasetRef][]reference{}, map[*job]map[taskIndex]uint32{}
		}
		if rs.lists[j] == nil {
			rs.lists[j] = map[comms.DatasetRef][]reference{}
		}
		rs.lists[j][ref] = list
		for _, r := range list {
			if r.job.dropped {
				continue // what it has ends with it
			}
			if rs.holds[r.job] == nil {
				rs.holds[r.job] = map[taskIndex]uint32{}
			}
			rs.holds[r.job][r.task]++
			r.row().held = true
		}
	} else if old != nil {
		if delete(rs.lists[j], ref); len(rs.lists[j]) == 0 {
			delete(rs.lists, j)
		}
	}
	for _, r := range old {
		rs.release(r.rowRef)
	}
}

// release ends one hold on a row.
func (rs *references) release(at rowRef) {
	n := rs.holds[at.job]
	if n == nil || at.job.dropped {
		return
	}
	if n[at.task]--; n[at.task] > 0 {
		return
	}
	if delete(n, at.task); len(n) == 0 {
		delete(rs.holds, at.job)
	}
	rs.loose = append(rs.loose, at)
}

// end ends all lists of a job, and forgets which of its rows are held: it is given up.
func (rs *references) end(j *job) {
	refs := make([]comms.DatasetRef, 0, len(rs.lists[j]))
	for ref := range rs.lists[j] {
		refs = append(refs, ref)
	}
	slices.SortFunc(refs, comms.DatasetRef.Compare)
	for _, ref := range refs {
		rs.set(j, ref, nil)
	}
	for t := range rs.holds[j] {
		j.dyn.rows.at(t).held = false
	}
	delete(rs.holds, j)
	rs.loose = slices.DeleteFunc(rs.loose, func(at rowRef) bool { return at.job == j })
}

// endRow ends the lists of what a row made, and of what it reads.
func (rs *references) endRow(at rowRef) {
	if len(rs.lists[at.job]) == 0 {
		return
	}
	for _, ref := range at.job.rowData(at.task) {
		rs.set(at.job, ref, nil)
	}
	if w := at.row(); w.shape != nil {
		for o := range w.shape.group.Outputs { // an element that was not published
			ref := comms.DatasetRef{Task: at.task, Output: uint32(o)}
			if st := at.job.streams[outputKey{at.task, uint32(o)}]; st != nil {
				ref.Element = st.next
			}
			rs.set(at.job, ref, nil)
		}
	}
	for i := range at.row().args {
		rs.set(at.job, argRef(at.task, i), nil)
	}
	rs.set(at.job, originRef(at.task), nil)
}

// listed tells whether something that a row made refers to others.
func (rs *references) listed(at rowRef) bool {
	return len(rs.lists[at.job]) > 0 && slices.ContainsFunc(at.job.rowData(at.task), func(ref comms.DatasetRef) bool { return rs.list(at.job, ref) != nil })
}

// check compares the lists with what is counted of them.
func (rs *references) check(byJob map[comms.JobID]*job) error {
	counted := map[rowRef]uint32{}
	for j, all := range rs.lists {
		if byJob[j.id] != j {
			return fmt.Errorf("job %s has ended, and %d of its values list references", j.id, len(all))
		}
		for ref, list := range all {
			if w := j.dyn.rows.at(ref.Task); w.shape == nil && !w.value {
				return fmt.Errorf("job %s: dataset %v was forgotten, and lists references", j.id, ref)
			}
			for _, r := range list {
				counted[r.rowRef]++
			}
		}
	}
	for j, all := range rs.holds {
		for t, k := range all {
			if j.dropped {
				continue
			}
			if at := (rowRef{j, t}); byJob[j.id] != j || counted[at] != k || !at.row().held || at.row().shape == nil && !at.row().value {
				return fmt.Errorf("job %s: row %d is held by %d values, counted %d", j.id, t, counted[at], k)
			}
		}
	}
	for _, at := range rs.loose {
		if !at.row().held {
			return fmt.Errorf("job %s: row %d is held no more, and is to be given up", at.job.id, at.task)
		}
	}
	for at := range counted {
		if rs.holds[at.job][at.task] == 0 && !at.job.dropped {
			return fmt.Errorf("job %s: row %d is listed, and not held", at.job.id, at.task)
		}
	}
	return nil
}

// borrowed is the shape of a row that stands for a dataset to which a value refers. It has no
// function: it reads the dataset, has it as its own result, and ends as the row that makes it.
var borrowed = &callShape{group: &dag.Group{Name: "reference", Inputs: []dag.InputDecl{{Name: "reference"}}, Outputs: []dag.OutputDecl{{Name: "out"}}}}

// originRef names, as a value of a borrowed row, what it stands for: its list keeps that.
func originRef(t taskIndex) comms.DatasetRef { return comms.DatasetRef{Task: t, Output: argBase - 1} }

// origin is what a row stands for that is borrowed; itself when it is not.
func (c *Core) origin(r reference) reference {
	if list := c.refs.list(r.job, originRef(r.task)); r.row().shape == borrowed && list != nil {
		return list[0]
	}
	return r
}

// resolveRefs finds the datasets to which a value refers that a run has made.
func (c *Core) resolveRefs(by *caller, refs []comms.Reference) ([]reference, error) {
	list := make([]reference, len(refs))
	for i, r := range refs {
		at, ok := by.calls.get(r.Ref)
		if !ok {
			return nil, fmt.Errorf("a value refers to call %v, which the task has not made or has dropped", r.Ref)
		}
		if w := at.row(); w.value && (r.Output > 0 || r.Element > 0) || w.shape != nil && int(r.Output) >= len(w.shape.group.Outputs) {
			return nil, fmt.Errorf("a value refers to output %d[%d] of call %v, which has none", r.Output, r.Element, r.Ref)
		}
		list[i] = c.origin(reference{at, r.Output, r.Element})
	}
	return list, nil
}

// listed takes a run's word to what a value refers that it will publish.
func (c *Core) listed(ex *executor, m *comms.Listed) {
	r := c.runAt(ex, m.Run)
	if r == nil || r.orphan || r.job.at(r.task).state.over() {
		return
	}
	c.startedRun(r)
	list, err := c.resolveRefs(c.callerOf(r), m.Refs)
	switch {
	case err != nil:
		c.misbehaved(r, err)
	case int(m.Output) >= len(r.gs.group.Outputs):
		c.misbehaved(r, fmt.Errorf("it lists references of output %d of %d", m.Output, len(r.gs.group.Outputs)))
	case r.job.dyn == nil:
		r.lists = true
	default:
		ref := comms.DatasetRef{Task: r.task, Output: m.Output, Element: m.Element}
		if r.job.data[ref] == nil { // the copy of an attempt before stays, with its list
			c.refs.set(r.job, ref, list)
		}
	}
}

// listArgument lists what a value refers to that a run has sent with a call.
func (c *Core) listArgument(by *caller, at rowRef, m *comms.ItemRefs) error {
	list, err := c.resolveRefs(by, m.Refs)
	if err != nil {
		return err
	}
	w := at.row()
	if w.value {
		c.refs.set(at.job, comms.DatasetRef{Task: at.task}, list)
		return nil
	}
	if int(m.Input) >= len(w.args) {
		return fmt.Errorf("it lists references of input %d of %d", m.Input, len(w.args))
	}
	c.refs.set(at.job, argRef(at.task, int(m.Input)), list)
	return nil
}

// passRefs gives an argument the list of the dataset that it is.
func (c *Core) passRefs(from *job, ref comms.DatasetRef, to rowRef, arg int) {
	if len(c.refs.lists) == 0 || to.job.hosted() != nil { // the grant of a hosted task has named them
		return
	}
	c.refs.set(to.job, argRef(to.task, arg), c.refs.list(from, ref))
}

// borrow makes a row that stands for a dataset to which a value refers that a run has.
func (c *Core) borrow(by *caller, r *run, m *comms.CallItem, sum xxh3.Uint128) error {
	of, err := c.referred(by, r, &m.Inputs[0])
	if err != nil {
		return err
	}
	at := c.addRow(by, callRow{ref: m.Ref, run: r.id, shape: borrowed, sum: sum, stays: true, made: c.now.UnixNano()})
	by.calls.set(m.Ref, at)
	at.row().args = make([]argument, 1)
	c.refs.set(at.job, originRef(at.task), []reference{of})
	c.readOrigin(at)
	c.tryRow(at)
	return nil
}

// sameOrigin tells whether a borrowed row that a run meets again stands for what it is to: the value may have been made anew since.
func (c *Core) sameOrigin(by *caller, r *run, at rowRef, m *comms.CallItem) bool {
	if at.row().shape != borrowed {
		return true
	}
	of, err := c.referred(by, r, &m.Inputs[0])
	return err == nil && of == c.origin(reference{rowRef: at})
}

// readOrigin has a borrowed row read what it stands for.
func (c *Core) readOrigin(at rowRef) {
	if rm := c.refs.remotes[at]; rm != nil {
		c.wantRemote(at, rm)
		return
	}
	of := c.refs.list(at.job, originRef(at.task))[0]
	if w := of.row(); of.job.dropped || w.shape == nil && !w.value {
		c.failBorrowed(at, &comms.TaskError{Kind: comms.ErrorCancelled, Agent: c.cfg.Agent, Message: "the task that called it has ended"})
		return
	}
	to := reader{at, 0, of.output, of.element}
	if of.job.at(of.task).state.over() && !slices.Contains(c.rowsEnded, of.rowRef) || of.job.data[of.dataset()] != nil {
		c.passOn(of.rowRef, to)
		return
	}
	w := of.row()
	w.readers = append(w.readers, to)
}

// referred finds what a reference in a value stands for: one in the result of a call, in a value that was put, or in an input of the run.
func (c *Core) referred(by *caller, r *run, in *comms.CallInput) (of reference, err error) {
	var list []reference
	if in.From == comms.FromCallValue {
		other, ok := by.calls.get(in.Ref)
		if !ok {
			return of, fmt.Errorf("it reads a reference in call %v, which it has not made or has dropped", in.Ref)
		}
		list = c.refs.list(other.job, comms.DatasetRef{Task: other.task, Output: in.Output, Element: in.Element})
	} else if r.job.dyn != nil {
		if k := r.job.dyn.rows.at(r.task).argument(in.Input, in.Item); k >= 0 {
			list = c.refs.list(r.job, argRef(r.task, k))
		}
	}
	if int(in.Port) >= len(list) {
		return of, fmt.Errorf("it reads reference %d of a value that has %d", in.Port, len(list))
	}
	return c.origin(list[in.Port]), nil
}

// argument returns the place of an argument: the item of a list, when the input is one; -1 when there is none.
func (r *callRow) argument(input, item uint32) int {
	return slices.IndexFunc(r.args, func(a argument) bool {
		if a.port != input {
			return false
		}
		item--
		return item+1 == 0
	})
}

// lendOn ends a borrowed row: what it stands for is there.
func (c *Core) lendOn(at rowRef) {
	a, ref := &at.row().args[0], comms.DatasetRef{Task: at.task}
	if a.data != nil {
		c.lend(at.job, a.data, at.job, ref).refs = 0
	} else {
		d := a.desc
		d.Ref = ref
		at.job.data[ref] = &dataset{desc: d}
	}
	of := c.refs.list(at.job, originRef(at.task))[0]
	c.refs.set(at.job, ref, c.refs.list(of.job, of.dataset()))
	if at.job.hosted() != nil {
		at.row().end = &comms.Event{Kind: comms.EventFinished, Attempt: 1}
	}
	c.end(at.job, at.task, tFinished)
}

// failBorrowed ends a borrowed row as that ended for which it stands.
func (c *Core) failBorrowed(at rowRef, e *comms.TaskError) {
	if !at.job.at(at.task).state.over() {
		if at.row().failed = e; at.job.hosted() != nil {
			at.row().end = &comms.Event{Kind: comms.EventFailed, Attempt: 1, Error: e}
		}
		c.end(at.job, at.task, tFailed)
	}
}

// leaveOrigin ends that a borrowed row waits for what it stands for.
func (c *Core) leaveOrigin(at rowRef) {
	if list := c.refs.list(at.job, originRef(at.task)); list != nil {
		w := list[0].row()
		w.readers = slices.DeleteFunc(w.readers, func(o reader) bool { return o.rowRef == at })
	}
}

// loosen gives up what nothing holds any more. It tells whether there was anything.
func (c *Core) loosen() (some bool) {
	for len(c.refs.loose) > 0 {
		at := c.refs.loose[0]
		c.refs.loose = c.refs.loose[1:]
		some = true
		w := at.row()
		if w.held = c.refs.holds[at.job][at.task] > 0; w.held || w.shape == nil && !w.value || !w.dropped {
			continue
		}
		c.abandon(at)
	}
	c.refs.loose = nil
	return some
}

// abandon gives up a row that its parent has dropped and no value lists: one that goes on ends when its parent has.
func (c *Core) abandon(at rowRef) {
	w := at.row()
	switch over := at.job.at(at.task).state.over(); {
	case over:
		c.maybeForget(at)
	case len(w.readers) > 0 || w.held:
	case at.job.dyn.by != nil && at.job.dyn.by.left && !w.line.again:
		if c.cancelRow(at, "the task that called it has ended"); !at.job.at(at.task).state.over() {
			c.freeRow(at)
		}
	default:
		c.dropUnended(at)
	}
}

// leaveCalls ends the calls of a task that has ended, but for those to which values refer: they go on, and
// another run of the task meets them. It tells whether all are to end.
func (c *Core) leaveCalls(by *caller) (all bool) {
	over := by.job.at(by.task).state.over()
	if over && by.job.hosted() != nil { // it does not run again here
		for i := range by.job.dyn.rows.at(by.task).args {
			c.refs.set(by.job, argRef(by.task, i), nil)
		}
	}
	if len(c.refs.holds) == 0 || by.job.dyn == nil || !slices.ContainsFunc(by.jobs, func(j *job) bool { return c.refs.holds[j] != nil }) {
		return true
	}
	by.left = true
	by.taskName()
	for _, j := range slices.Backward(slices.Clone(by.jobs)) { // readers before those that they read
		for t := j.dyn.rows.n - 1; t >= 0; t-- {
			at := rowRef{j, taskIndex(t)}
			w := at.row()
			if w.shape == nil && !w.value {
				continue
			}
			w.dropped, w.run = true, 0
			if by.once {
				if named, _ := by.calls.get(w.ref); named == at {
					by.calls.delete(w.ref)
				}
			}
			if !w.held && !slices.Contains(c.rowsEnded, at) {
				c.abandon(at)
			}
			c.failHoles(at)
		}
	}
	if over {
		c.secure(by)
	}
	return false
}

// endLeft forgets a task that has ended, and whose calls are forgotten.
func (c *Core) endLeft(by *caller) {
	if by.left && len(by.jobs) == 0 && by.job.callers[by.task] == by {
		delete(by.job.callers, by.task)
	}
}
