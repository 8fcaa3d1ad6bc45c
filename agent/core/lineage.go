package core

import (
	"fmt"
	"slices"
	"time"

	"github.com/cascade-run/cascade/comms"
)

// The result of a called task can be lost: the disk has it no more, or has other bytes. A row
// that has ended keeps from where its arguments came, as long as its result can be lost
// and may be read. When the result is wanted and gone the row runs again, behind the rows whose
// results it needs and that are gone, too. Its parent, which knows its end, is not told again.
//
//	lost ──▶ nothing, until it is wanted
//	wanted: CallRead, an argument ──▶ recompute ──▶ waiting ──▶ ... ──▶ over: who wanted it has it
//	                                     └── each argument that is gone: wanted
//
// Rows are named here, no bytes are held. Results that are in the table itself cannot be lost:
// such a row keeps nothing. A chain of rows is cut at mostLineage: the last of them keeps its
// result instead, also when its parent drops it, for the rows that come after it.
//
// A value that a run of the parent sent or put, and an input of the parent, only another run
// of the parent can bring: a row that needs it waits for that (see lack).
type lineage struct {
	deps   uint32 // arguments of other rows that came, or are to come, from it
	depth  uint16 // levels of rows behind it that are kept for it
	anchor bool   // its result stays as long as others come from it: behind it nothing is kept
	again  bool   // it runs again: its parent knows how it ended, and is not told
}

// mostLineage is how many levels of rows are kept behind one.
const mostLineage = 1000

// source is where an argument comes from that is in no message.
type source struct {
	row     rowRef // of the same parent; no job: an input of the parent, or a value
	output  uint32
	element uint64
	last    *loan // by which it was there last
	listed  bool  // then it referred to datasets
}

// derive notes that an argument comes from another row.
func (a *argument) derive(from rowRef, output uint32, element uint64) {
	a.from = &source{row: from, output: output, element: element}
	from.row().line.deps++
}

// partFrom ends that an argument comes from another row.
func (c *Core) partFrom(a *argument) {
	if from := a.from; from != nil {
		a.from = nil
		if from.row.job != nil && !from.row.job.dropped {
			from.row.row().line.deps--
			c.maybeForget(from.row)
		}
	}
}

func (c *Core) leaveSources(args []argument) {
	for i := range args {
		c.partFrom(&args[i])
	}
}

// keepsLineage tells whether a row that has ended may have to run again: something of what it
// made is not in the table. It is then as deep as the deepest of those from which its arguments
// came, and one more.
func (c *Core) keepsLineage(at rowRef) bool {
	j, w := at.job, at.row()
	if j.dyn.by == nil || j.at(at.task).state != tFinished {
		return false
	}
	if !slices.ContainsFunc(j.rowData(at.task), func(ref comms.DatasetRef) bool { d := j.data[ref]; return d == nil || d.sealed }) {
		return false
	}
	w.line.depth = 0
	for i := range w.args {
		if from := w.args[i].from; from != nil && from.row.job != nil {
			w.line.depth = max(w.line.depth, from.row.row().line.depth+1)
		}
	}
	if w.line.anchor = w.line.depth >= mostLineage; w.line.anchor {
		w.line.depth = 0
		return false
	}
	return true
}

// endArgs ends the need of a row for its arguments. Where they came from stays known while the row may have to run again.
func (c *Core) endArgs(at rowRef) {
	w := at.row()
	args := w.args
	if at.job.dyn.host != nil && w.copyOf == nil && slices.ContainsFunc(args, func(a argument) bool { return !a.there }) {
		w.args = nil
		c.unread(at)
	}
	if !c.keepsLineage(at) {
		w.args = nil
	}
	for i := range args {
		a := &args[i]
		if w.args == nil || a.from != nil || a.data != nil {
			if ref := argRef(at.task, i); len(c.refs.list(at.job, ref)) > 0 {
				if a.from != nil {
					a.from.listed = true
				}
				c.refs.set(at.job, ref, nil)
			}
		}
		a.lost, a.hole = false, false
		if d := a.data; d != nil {
			a.data, a.there = nil, false
			c.freeData(at.job, d)
		}
	}
	if w.args == nil {
		c.leaveSources(args)
	}
}

// freeDropped frees what a row made that has ended, and that its parent has dropped. The row itself
// stays while others come from it, and the result of one that is the last of its chain.
func (c *Core) freeDropped(at rowRef) {
	w := at.row()
	switch {
	case w.held:
		return
	case w.line.deps == 0:
		c.forgetRow(at)
		return
	}
	if !w.line.anchor {
		c.freeRow(at)
	}
	if by := at.job.dyn.by; by != nil {
		if named, _ := by.calls.get(w.ref); named == at {
			by.calls.delete(w.ref)
		}
	}
}

// freeRow frees what a row made.
func (c *Core) freeRow(at rowRef) {
	j := at.job
	for _, ref := range j.rowData(at.task) {
		if d := j.data[ref]; d != nil {
			c.freeData(j, d)
			j.goneElement(ref)
		}
	}
}

// goneElement notes that an element of a stream is to be published again if its generator runs again.
func (j *job) goneElement(ref comms.DatasetRef) {
	if st := j.streams[outputKey{ref.Task, ref.Output}]; st != nil && ref.Element < st.next {
		st.lost[ref.Element] = true
	}
}

// lostOfRow takes the news that the bytes of a dataset of a row are gone.
func (c *Core) lostOfRow(j *job, ref comms.DatasetRef, why error) {
	if ref.Output >= argBase {
		c.loseArg(j, ref)
		return
	}
	j.goneElement(ref)
	switch w := j.dyn.rows.at(ref.Task); {
	case j.hosted() == nil:
		c.readAgain(rowRef{j, ref.Task}, ref)
	case w.copyOf != nil:
		c.endCopy(rowRef{j, ref.Task})
	default:
		c.sendBack(rowRef{j, ref.Task}, "what it returned is lost: "+why.Error())
	}
}

// loseArg notes that the bytes of an argument are gone.
func (c *Core) loseArg(j *job, ref comms.DatasetRef) {
	w, d := j.dyn.rows.at(ref.Task), j.data[ref]
	delete(j.data, ref)
	if d.lent != nil {
		c.endLoan(d.lent)
	}
	if ref.Output < argBase && j.hosted() != nil {
		c.sendBack(rowRef{j, ref.Task}, "it is lost: memory and disk have it no more")
		return
	}
	if ref.Output < argBase { // of a borrowed row: it borrows again when it is wanted
		c.readAgain(rowRef{j, ref.Task}, ref)
		return
	}
	if i := int(ref.Output - argBase); i < len(w.args) {
		w.args[i].lost, w.args[i].there, w.args[i].data = true, false, nil
		c.argsLost = append(c.argsLost, rowRef{j, ref.Task})
	}
}

// recompute has a row run again of which something that it made is gone and wanted. It tells why that cannot be.
func (c *Core) recompute(at rowRef) (why string) {
	j, w, t := at.job, at.row(), at.job.at(at.task)
	switch {
	case !w.value && !t.state.over(): // it runs
		return ""
	case j.stopped != nil:
		return "the task that called it has ended"
	case w.value:
		return fmt.Sprintf("value %s, put on agent %s at %s, is lost: memory and disk have it no more, and only its parent can put it again",
			j.rowName(at.task), c.cfg.Agent, time.Unix(0, w.made).UTC().Format(time.RFC3339))
	case w.line.anchor:
		return fmt.Sprintf("what %s returned is lost: memory and disk have it no more. It cannot run again: at most %d levels of calls are kept behind one, and it was the last of so many",
			j.rowName(at.task), mostLineage)
	}
	*t = task{attempt: comms.NextTry(t.attempt), state: tWaiting, flags: t.flags & fUnfused}
	w.line.again, w.at = true, ""
	j.unended++
	c.begin(j)
	c.reopenStreams(j, at.task)
	for i := range w.args {
		w.args[i].lost = !w.args[i].there
	}
	c.argsLost = append(c.argsLost, at) // the rows behind it come one after the other, and not by recursion
	c.wakeAt(c.now)
	return ""
}

// tryRow makes a row ready when all that it reads is there.
func (c *Core) tryRow(at rowRef) {
	t, w := at.job.at(at.task), at.row()
	if t.state != tWaiting {
		return
	}
	if slices.ContainsFunc(w.args, func(a argument) bool { return a.lost }) {
		c.argsLost = append(c.argsLost, at)
		c.wakeAt(c.now)
	}
	if t.missing, _ = w.missing(); t.missing == 0 && w.shape == borrowed {
		c.lendOn(at)
	} else if t.missing == 0 && w.shape.graph != nil {
		c.submitGraph(at)
	} else if t.missing == 0 {
		c.ready(at.job, entry{at.task, noTask, 0})
	}
}

// refill finds the arguments that a row has lost which has not begun. It tells whether there were any. One that is at another
// agent has perhaps read them: it is seen to when it comes home.
func (c *Core) refill(at rowRef) bool {
	j, t, w := at.job, at.job.at(at.task), at.row()
	switch t.state {
	case tWaiting, tReady, tDelayed, tPinning:
	default:
		return false
	}
	if w.shape == nil {
		return false
	}
	if j.hosted() != nil && slices.ContainsFunc(w.args, func(a argument) bool { return a.lost }) {
		c.sendBack(at, "what it reads is lost: memory and disk have it no more")
		return true
	}
	switch t.state {
	case tReady:
		c.withdrawRow(j.groupOf(at.task).class, at.task)
	case tPinning:
		c.dropUnplaced(j, at.task)
	}
	t.state = tWaiting
	for i := range w.args {
		if a := &w.args[i]; a.lost {
			a.lost = false
			c.find(at, i)
		}
		if t.state != tWaiting {
			return true // it has failed
		}
	}
	c.tryRow(at)
	return true
}

// find looks for the bytes of an argument: where they were, where the row has them that made
// them, or there when it has run again.
func (c *Core) find(at rowRef, i int) {
	a := &at.row().args[i]
	if at.row().shape == borrowed {
		c.readOrigin(at)
		return
	}
	if a.from == nil {
		c.lack(at, i, fmt.Sprintf("the value that its parent gave it as %s is lost: memory and disk have it no more", at.port(i)))
		return
	}
	if l := a.from.last; l != nil && c.lendAgain(at, i, l) {
		return
	}
	if a.from.row.job == nil {
		c.lack(at, i, fmt.Sprintf("the input of its parent that it reads as %s is lost: memory and disk have it no more", at.port(i)))
		return
	}
	c.passOn(a.from.row, reader{at, i, a.from.output, a.from.element})
}

// port is the name of the input that an argument is of.
func (r rowRef) port(arg int) string {
	w := r.row()
	return w.shape.group.Inputs[w.args[arg].port].Name
}

// lendAgain makes what an argument was before one again: others hold its bytes, or its job has it anew. The list of one that
// refers to datasets is that of its job.
func (c *Core) lendAgain(at rowRef, i int, l *loan) bool {
	if at.row().args[i].from.listed {
		o := c.byJob[l.job]
		if o == nil || o.life != l.life {
			return false
		}
		if d := o.data[l.desc.Ref]; d == nil || d.desc.Attempt != l.desc.Attempt {
			return false
		}
		c.passRefs(o, l.desc.Ref, at, i)
	}
	switch now := c.loans[l.key]; {
	case now != nil && !now.lost:
		c.giveLoan(at, i, now)
	case now == nil && c.led.Ref(l.key, 1) == nil:
		c.loans[l.key] = &loan{key: l.key, desc: l.desc, job: l.job, life: l.life}
		c.giveLoan(at, i, c.loans[l.key])
	default:
		o := c.byJob[l.job]
		if o == nil || o.life != l.life || o.dyn != nil {
			return false
		}
		d := o.data[l.desc.Ref]
		if d == nil || !d.sealed {
			return false
		}
		c.giveArg(at, i, o, d)
	}
	return true
}

// lack follows when only another run of the parent can bring an argument of a row. Rows that run again for it are what they
// were before, and lost. Rows that have not ended yet wait, and calls that are read: for those a run of the
// parent that has made them ends without blame, and the next brings what they lack with the same call. Of a parent that
// does not repeat itself they fail.
func (c *Core) lack(at rowRef, i int, why string) {
	by := at.job.dyn.by
	for work := []reader{{rowRef: at, arg: i}}; len(work) > 0; {
		to := work[len(work)-1]
		work = work[:len(work)-1]
		w := to.row()
		switch {
		case to.job.at(to.task).state != tWaiting:
		case w.shape == borrowed: // by another task
			c.failBorrowed(to.rowRef, &comms.TaskError{Kind: comms.ErrorStore, Agent: c.cfg.Agent, Message: why})
		case w.line.again:
			work = append(work, w.readers...)
			c.readsLack(to.rowRef, why)
			c.giveUpAgain(to.rowRef)
		default:
			w.args[to.arg].hole = true
			if by.run != nil && by.run.id != w.run && by.repeats() {
				continue // it is to come to it
			}
			if !c.restartParent(by, why) {
				c.fail(to.job, to.task, nil, &comms.TaskError{Kind: comms.ErrorStore, Message: why}, comms.Cause{Kind: comms.CauseMemory}, true)
			}
		}
	}
}

// failHoles fails a row that waits for what only another run of its parent could bring, as there is none that would.
func (c *Core) failHoles(at rowRef) {
	w := at.row()
	i := slices.IndexFunc(w.args, func(a argument) bool { return a.hole })
	if i < 0 || at.job.at(at.task).state != tWaiting || w.shape == borrowed {
		return
	}
	c.fail(at.job, at.task, nil, &comms.TaskError{Kind: comms.ErrorStore,
		Message: fmt.Sprintf("what its parent gave it as %s is lost: memory and disk have it no more, and no other run of the parent brings it", at.port(i))},
		comms.Cause{Kind: comms.CauseMemory}, true)
}

// giveUpAgain makes a row that was to run again what it was before: it has ended, and what it made is lost.
func (c *Core) giveUpAgain(at rowRef) {
	j, w, t := at.job, at.row(), at.job.at(at.task)
	for i := range w.args {
		a := &w.args[i]
		if a.from != nil && !a.there {
			c.stopReading(at, i)
		}
		if w.shape == borrowed {
			c.leaveOrigin(at)
		}
		a.lost = false
		if d := a.data; d != nil {
			a.data, a.there = nil, false
			c.freeData(j, d)
		}
	}
	delete(j.trouble, at.task)
	w.line.again, w.readers = false, nil
	t.state, t.missing, t.flags = tFinished, 0, t.flags|fReleased
	j.unended--
	c.touch(j)
	c.endCalls(j, at.task) // it may have run, and called, since
	c.maybeForget(at)
}

// stopReading ends that an argument waits for the row from which it comes.
func (c *Core) stopReading(at rowRef, i int) {
	if from := at.row().args[i].from.row; from.job != nil {
		w := from.row()
		w.readers = slices.DeleteFunc(w.readers, func(o reader) bool { return o.rowRef == at && o.arg == i })
	}
}

// readsLack ends the reads of a call that cannot run again without another run of its parent.
func (c *Core) readsLack(at rowRef, why string) {
	by := at.job.dyn.by
	for _, rd := range slices.Clone(by.reads) {
		if rd.of(at) && rd.waits() && !c.restartParent(by, why) {
			by.forgetRead(rd)
			c.answerRead(rd, &comms.TaskError{Kind: comms.ErrorStore, Agent: c.cfg.Agent, Message: "what a call returned cannot be read: " + why})
		}
	}
}

// restartParent ends the run of a parent, so that the next brings what is lost. It tells whether there will be one.
func (c *Core) restartParent(by *caller, why string) bool {
	r := by.run
	switch {
	case !by.repeats() || by.left:
		return false
	case r == nil || r.abort != nil:
		return true
	}
	r.lacks = why
	c.cancel(r, why)
	return true
}

// bring takes what a run of the parent says of a call that it meets, and that still waits: the arguments that are not there,
// unless they come from the same row.
func (c *Core) bring(by *caller, r *run, at rowRef, m *comms.CallItem) error {
	w := at.row()
	used := make([]bool, len(m.Inputs))
	for i := range m.Inputs {
		a, in := &w.args[i], &m.Inputs[i]
		if a.there || a.lost {
			continue
		}
		if !a.hole {
			from, ok := by.calls.get(in.Ref)
			if in.From != comms.FromCall || a.from == nil || ok && a.from.row == from {
				continue
			}
			c.stopReading(at, i)
		}
		a.hole = false
		c.partFrom(a)
		used[i] = true
		if err := c.callArgument(by, r, at, i, in); err != nil {
			return err
		}
		if at.job.at(at.task).state.over() {
			break
		}
	}
	for i := range m.Inputs {
		if in := &m.Inputs[i]; in.From == comms.FromValue && !used[i] {
			c.discardAll(r.ex, []comms.Desc{in.Data})
		}
	}
	c.tryRow(at)
	return nil
}

// cameElement follows when an element of a stream was published: the parent is told of a new one, and who waits for it has it,
// as a reference to it may be found before it is there, or it was lost and is published again.
func (c *Core) cameElement(at rowRef, d comms.Desc) {
	j := at.job
	if st := j.streams[outputKey{d.Ref.Task, d.Ref.Output}]; st == nil || d.Ref.Element >= st.next {
		c.tellElement(at, d)
	}
	w := at.row()
	var these []reader
	w.readers = slices.DeleteFunc(w.readers, func(to reader) bool {
		if to.output == d.Ref.Output && to.element == d.Ref.Element {
			these = append(these, to)
			return true
		}
		return false
	})
	for _, to := range these {
		c.passOn(at, to)
		c.tryRow(to.rowRef)
	}
	if j.dyn.by != nil {
		c.readOn(at)
	}
}

// checkLineage compares what is kept of rows that have ended with what comes from them.
func (j *job) checkLineage(deps map[rowRef]uint32) error {
	for t := range j.dyn.rows.n {
		at := rowRef{j, taskIndex(t)}
		w := at.row()
		if w.shape == nil && !w.value {
			continue
		}
		over := j.at(at.task).state.over()
		if w.line.deps != deps[at] {
			return fmt.Errorf("row %d has %d arguments of others that come from it, counted %d", t, deps[at], w.line.deps)
		}
		for i := range w.args {
			switch a := &w.args[i]; {
			case over && (a.data != nil || a.lost || a.hole), a.there && (a.lost || a.hole), a.lost && a.hole, a.hole && w.line.again:
				return fmt.Errorf("argument %d of row %d: over %v, there %v, lost %v, hole %v", i, t, over, a.there, a.lost, a.hole)
			}
		}
		switch {
		case !over:
		case len(w.args) > 0 && (w.failed != nil || w.line.anchor || j.dyn.by == nil):
			return fmt.Errorf("row %d has ended and cannot run again, and its %d arguments are kept", t, len(w.args))
		case w.dropped && !w.held && len(w.readers) == 0 && w.line.deps == 0:
			return fmt.Errorf("row %d has ended, no task needs it, and it is kept", t)
		case w.line.again:
			return fmt.Errorf("row %d has ended and counts as running again", t)
		}
	}
	return nil
}
