package core

import (
	"fmt"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/dag"
)

// slot is one task of a streamed group, for all elements.
type slot struct {
	key      outputKey // the stream it follows
	ended    uint64    // instances that have ended, well or not
	bad      uint64    // of these, not well
	badAt    taskIndex // one of those
	released uint64    // instances whose ends are committed
	done     bool      // stream and instances have ended and are committed: needs its other inputs no more
	told     bool      // consumers of the whole group were told
	pending  int       // inputs that all instances share and that are not there
	failed   bool      // such an input will never come
	looked   bool      // since the last count it was looked whether such inputs were freed
}

// gate is an input that all instances of a slot share.
type gate struct {
	slot   int
	source dag.Source
}

// newSlots finds what each slot follows and which inputs all of its instances
// share: those that are the same for two different elements.
func (j *job) newSlots() {
	n := j.graph.NumSlots()
	j.slots = make([]slot, n)
	for s := range n {
		i, err := j.graph.Instance(s, 0)
		if err != nil {
			continue
		}
		if st := j.spec(i).Stream; st != nil {
			j.slots[s].key = outputKey{st.Generator, st.Output}
		}
		for _, src := range j.sharedSources(s) {
			j.gates[src.Task] = append(j.gates[src.Task], gate{s, src})
		}
	}
}

// sharedSources returns the sources that instances of a slot have in common.
func (j *job) sharedSources(s int) []dag.Source {
	var shared []dag.Source
	zero, err0 := j.graph.Instance(s, 0)
	one, err1 := j.graph.Instance(s, 1)
	if err0 != nil || err1 != nil {
		return nil
	}
	a, err0 := j.inputs(zero)
	b, err1 := j.inputs(one)
	if err0 != nil || err1 != nil {
		return nil
	}
	for i := range a {
		for k := range a[i].Sources {
			if a[i].Sources[k] == b[i].Sources[k] {
				shared = append(shared, a[i].Sources[k])
			}
		}
	}
	return shared
}

// gated tells whether a source of an instance is one that all instances of its slot share.
func (j *job) gated(slot int, s dag.Source) bool {
	for _, g := range j.gates[s.Task] {
		if g.slot == slot && g.source == s {
			return true
		}
	}
	return false
}

// bound tells whether a source of an instance is the element that it came into being for.
func (j *job) bound(slot int, element uint64, s dag.Source) bool {
	k := j.slots[slot].key
	return s.Kind == dag.SourceElement && s.Task == k.task && s.Output == k.output && s.Element == element
}

// bind makes the instances that follow a stream for one more element, or tells
// those that wait until it is recomputed. Those that have ended before the
// stream restarted stay as they are.
func (c *Core) bind(j *job, ref comms.DatasetRef, again bool) {
	slots := j.graph.StreamSlots(ref.Task, ref.Output)
	var fresh []taskIndex
	for _, s := range slots {
		i, err := j.graph.Instance(s, ref.Element)
		if err != nil {
			return
		}
		c.grow(j, comms.DatasetRef{Task: i})
		if j.endsLater(i) && j.awayAt(i) == nil { // it has ended before, and what it made is on its way here
			c.lostJobs = append(c.lostJobs, j)
			continue
		}
		switch t := j.at(i); t.state {
		case tAbsent:
			if j.awayAt(i) != nil {
				break // an Assign gave it to another agent, which has it or whose word of its end is on its way
			}
			*t = task{attempt: max(comms.NextTry(t.attempt), comms.Following(j.tasks[ref.Task].attempt)), state: tWaiting}
			j.unended++
			fresh = append(fresh, i)
		case tWaiting:
			c.resolveEdge(j, i, ref, true)
		case tFinished, tFailed, tSkipped, tCancelled:
			if !again {
				c.countEnded(j, s, i)
			}
		}
	}
	for _, i := range fresh {
		if j.at(i).state != tWaiting {
			continue // one before it stopped the job, which ended it
		}
		c.rebuildShared(j, i)
		missing, failed := c.countMissing(j, i)
		j.at(i).missing = missing
		switch {
		case j.stopped != nil:
			c.endUnrun(j, i)
		case failed && !c.tolerates(j, i):
			c.skip(j, i)
		case missing == 0:
			c.ready(j, entry{i, ref.Task, ref.Output})
		default:
			c.nearer(j, i)
		}
	}
}

// rebuildShared has the inputs recomputed that an instance shares with all of its
// slot, when they were freed because the instances before it had ended.
func (c *Core) rebuildShared(j *job, i taskIndex) {
	s, _, _ := j.graph.Slot(i)
	sl := &j.slots[s]
	if sl.pending == 0 && sl.looked || j.stopped != nil { // a whole stream that was freed is not pending
		return
	}
	sl.looked = true
	gone := j.goneOf(j.sharedSources(s), true)
	for _, ref := range gone {
		c.redo(j, ref)
	}
	if len(gone) > 0 {
		c.recountGate(j, s)
		c.lostJobs = append(c.lostJobs, j)
	}
}

// grow makes room for an instance in the task table.
func (c *Core) grow(j *job, ref comms.DatasetRef) {
	if n := int(ref.Task) + 1 - len(j.tasks); n > 0 {
		j.tasks = append(j.tasks, make([]task, n)...)
	}
}

// adoptInstance makes room for an instance that an Assign names, unless its
// generator runs again: then it comes into being with its element, if it does.
func (c *Core) adoptInstance(j *job, i uint64) bool {
	if i > uint64(noTask)-1 || len(j.slots) == 0 {
		return false
	}
	slot, element, _ := j.graph.Slot(taskIndex(i))
	k := j.slots[slot].key
	if s := j.tasks[k.task].state; s != tAbsent && !s.over() && (j.streams[k] == nil || element >= j.streams[k].next) {
		return false
	}
	c.grow(j, comms.DatasetRef{Task: taskIndex(i)})
	return true
}

// nextAttempt keeps the attempt of an instance that comes into being later: with
// a lower one the controller would take what it reports for an earlier attempt's.
// One that is of an earlier attempt, ended or not, is no more; nor is one that has
// not begun, because its element may not come again.
func (c *Core) nextAttempt(j *job, i uint64, attempt uint32) {
	if i > uint64(noTask)-1 || len(j.slots) == 0 {
		return
	}
	c.grow(j, comms.DatasetRef{Task: taskIndex(i)})
	t := &j.tasks[i]
	begun := t.state == tQueued || t.state == tRunning || t.state.over()
	if t.state != tAbsent && (attempt > t.attempt || !begun) {
		c.unmake(j, taskIndex(i))
	}
	if t.state == tAbsent {
		t.attempt = max(t.attempt, attempt-1)
		t.flags = t.flags&^fUnborn | fPromised
	}
}

// unborn ends the promise of instances that will never be, because their stream
// has ended, and lists them.
func (c *Core) unborn(j *job, t taskIndex, output uint32) (all []taskIndex) {
	next := j.streams[outputKey{t, output}].next
	for _, s := range j.graph.StreamSlots(t, output) {
		for e := next; ; e++ {
			i, err := j.graph.Instance(s, e)
			if err != nil || int(i) >= len(j.tasks) {
				break
			}
			if k := &j.tasks[i]; k.flags&fPromised != 0 {
				k.flags &^= fPromised
				all = append(all, i)
			}
		}
	}
	if len(all) > 0 {
		c.lostJobs = append(c.lostJobs, j) // what was kept for them is free
	}
	return all
}

// skipUnborn tells that instances which an earlier agent knew of will not be: the
// generator ended badly before it made their elements again.
func (c *Core) skipUnborn(j *job, t taskIndex, output uint32) {
	for _, i := range c.unborn(j, t, output) {
		k := &j.tasks[i]
		k.attempt = comms.NextTry(k.attempt)
		k.flags |= fUnborn
		c.note(j, comms.Event{Kind: comms.EventSkipped, Task: i, Attempt: k.attempt, Cause: comms.Cause{Kind: comms.CauseTask, Ref: comms.DatasetRef{Task: t}},
			Error: &comms.TaskError{Kind: comms.ErrorSkipped, Message: fmt.Sprintf("it needs %s, which did not deliver", j.taskName(t)),
				Task: j.taskName(i), Attempt: comms.Try(k.attempt), Agent: c.cfg.Agent}})
	}
}

// skipUnfed skips the instances that wait for elements which an ended stream does not have. Each ran when its generator was
// restarted, with an element that it had made before, and is to run once more.
func (c *Core) skipUnfed(j *job, t taskIndex, output uint32) {
	next := j.streams[outputKey{t, output}].next
	for _, s := range j.graph.StreamSlots(t, output) {
		for e := next; ; e++ {
			i, err := j.graph.Instance(s, e)
			if err != nil || int(i) >= len(j.tasks) {
				break
			}
			if j.tasks[i].state == tWaiting {
				c.resolveEdge(j, i, comms.DatasetRef{Task: t, Output: output, Element: e}, false)
			}
		}
	}
}

// countEnded counts an instance that had ended when its element came to be.
func (c *Core) countEnded(j *job, s int, i taskIndex) {
	sl, t := &j.slots[s], &j.tasks[i]
	sl.ended++
	sl.judge(i, t.state)
	if t.flags&fReleased != 0 {
		sl.released++
	}
}

// instanceEnded counts the end of a streamed group's task.
func (c *Core) instanceEnded(j *job, t taskIndex) {
	c.consumedBy(j, t)
	s, element, ok := j.graph.Slot(t)
	if !ok || !j.exists(s, element) {
		return // its element comes again, and then it is counted
	}
	sl := &j.slots[s]
	sl.ended++
	sl.judge(t, j.tasks[t].state)
	c.slotEnded(j, s)
}

// judge counts an instance that has ended as one that did not end well, if it did not.
func (sl *slot) judge(t taskIndex, state taskState) {
	if state == tFinished {
		return
	}
	if sl.bad == 0 {
		sl.badAt = t
	}
	sl.bad++
}

func (c *Core) slotsEnded(j *job, k outputKey) {
	for _, s := range j.graph.StreamSlots(k.task, k.output) {
		c.slotEnded(j, s)
	}
}

// slotEnded tells the consumers of a whole streamed group when stream and instances have ended.
func (c *Core) slotEnded(j *job, s int) {
	sl := &j.slots[s]
	st := j.streams[sl.key]
	if st == nil || !st.ended || sl.ended < st.next || sl.told {
		return
	}
	sl.told = true
	zero, err := j.graph.Instance(s, 0)
	if err != nil {
		return
	}
	ok := !st.failed && sl.bad == 0
	for _, e := range j.consumers(zero) {
		if e.Kind == dag.SourceGroup {
			c.resolveEdge(j, e.Consumer, comms.DatasetRef{Task: zero, Output: e.Output}, ok)
		}
	}
	for o := range j.spec(zero).Outputs {
		c.resolveGates(j, dag.SourceGroup, comms.DatasetRef{Task: zero, Output: uint32(o)}, ok)
	}
	c.slotDone(j, s)
}

// state is a streamed group as a source.
func (sl *slot) state(j *job) (sourceState, int) {
	st := j.streams[sl.key]
	switch {
	case st == nil && j.overAt(sl.key.task):
		return srcFailed, 0
	case st == nil || !st.ended || sl.ended < st.next:
		return srcPending, 0
	case st.failed || sl.bad > 0:
		return srcFailed, int(sl.ended - sl.bad)
	}
	return srcThere, int(sl.ended)
}

// unreadElement counts an instance as released and takes away its reference of the
// element it followed, as unread does.
func (j *job) unreadElement(over []comms.DatasetRef, s int, element uint64) []comms.DatasetRef {
	sl := &j.slots[s]
	if j.exists(s, element) {
		sl.released++
	}
	return j.unread(over, comms.DatasetRef{Task: sl.key.task, Output: sl.key.output, Element: element})
}

// instanceReleased ends the need of a slot for what its instances share, if that was the last one.
func (c *Core) instanceReleased(j *job, s int, element uint64) {
	if j.exists(s, element) {
		c.slotDone(j, s)
	}
	if j.peers != nil && j.endedAway(j.slots[s].key.task) { // see slotReads
		for _, src := range j.sharedSources(s) {
			c.derefShared(j, src)
		}
	}
}

// exists tells whether an element that a slot follows was published, in the
// stream as it is now.
func (j *job) exists(s int, element uint64) bool {
	st := j.streams[j.slots[s].key]
	return st != nil && element < st.next
}

// slotDone ends a slot's need for the inputs that its instances share.
func (c *Core) slotDone(j *job, s int) {
	sl := &j.slots[s]
	if sl.done || !sl.told || sl.released < j.streams[sl.key].next {
		return
	}
	sl.done = true
	for _, src := range j.sharedSources(s) {
		c.derefShared(j, src)
	}
}

// derefShared drops a slot's need for a source that its instances share. A slot
// that reads one element of an output holds them all (dag.SlotConsumers).
func (c *Core) derefShared(j *job, src dag.Source) {
	if src.Kind == dag.SourceElement {
		src.Kind = dag.SourceStream
	}
	refs := j.expand(src)
	if src.Kind == dag.SourceGroup {
		refs = j.wholeGroup(src)
	}
	for _, ref := range refs {
		if d := j.data[ref]; d != nil {
			d.refs = j.countRefs(ref, d.given)
			c.deref(j, ref, 0)
		} else if j.peers != nil {
			c.derefHeard(j, ref)
		}
	}
}

// wholeGroup lists the datasets of a streamed group: also those of instances whose
// generator runs again and has not come, or never will come, to their elements.
func (j *job) wholeGroup(s dag.Source) []comms.DatasetRef {
	refs := j.expand(s)
	if !j.given && j.peers == nil {
		return refs
	}
	return append(refs, j.beyond(s, len(refs))...)
}

// beyond lists what is known of the datasets of a streamed group from element n
// on: of so many elements the stream itself is known.
func (j *job) beyond(s dag.Source, n int) (refs []comms.DatasetRef) {
	slot, _, _ := j.graph.Slot(s.Task)
	add := func(ref comms.DatasetRef) {
		at, element, ok := j.graph.Slot(ref.Task)
		if ok && at == slot && ref.Output == s.Output && element >= uint64(n) {
			refs = append(refs, ref)
		}
	}
	for _, ref := range j.sortedData() {
		add(ref)
	}
	if j.peers != nil {
		for _, ref := range sortedRefs(j.peers.heard) {
			if j.data[ref] == nil {
				add(ref)
			}
		}
	}
	return refs
}

// resolveGates opens the slots whose instances share a source, or fails them.
func (c *Core) resolveGates(j *job, kind dag.SourceKind, ref comms.DatasetRef, ok bool) {
	for _, g := range j.gates[ref.Task] {
		if g.source.Kind == kind && g.source.Output == ref.Output && g.source.Element == ref.Element {
			c.openGate(j, g.slot, ref, ok)
		}
	}
}

func (c *Core) openGate(j *job, s int, ref comms.DatasetRef, ok bool) {
	sl := &j.slots[s]
	if ok && sl.pending == 0 {
		return
	}
	if ok {
		sl.pending--
	} else {
		c.recountGate(j, s) // a count made since it failed has left it out already
	}
	if sl.pending > 0 && !sl.failed {
		return
	}
	for i := j.static + s; i < len(j.tasks); i += len(j.slots) {
		c.resolveEdge(j, taskIndex(i), ref, !sl.failed)
	}
}

// recountGates counts anew what slots wait for.
func (c *Core) recountGates(j *job) {
	for s := range j.slots {
		c.recountGate(j, s)
	}
}

func (c *Core) recountGate(j *job, s int) {
	sl := &j.slots[s]
	sl.pending, sl.failed = 0, false
	for _, src := range j.sharedSources(s) {
		switch state, _ := c.source(j, src); state {
		case srcPending:
			sl.pending++
		case srcFailed:
			sl.failed = true
		}
	}
}

// recountSlots counts anew how many instances of each slot have ended, and which
// elements have consumers that have not: after tasks went back to the start.
func (c *Core) recountSlots(j *job) {
	for s := range j.slots {
		c.recountSlot(j, s)
	}
	for k, st := range j.streams {
		if st.buffer == 0 {
			continue
		}
		clear(st.open)
		for e := range st.next {
			if n := j.openConsumers(comms.DatasetRef{Task: k.task, Output: k.output, Element: e}); n > 0 {
				st.open[e] = n
			}
		}
	}
}

func (c *Core) recountSlot(j *job, s int) {
	sl := &j.slots[s]
	sl.looked = false
	n := j.countSlot(s)
	sl.ended, sl.bad, sl.badAt, sl.released = n.ended, n.bad, n.badAt, n.released
	st := j.streams[sl.key]
	sl.told = st != nil && st.ended && sl.ended == st.next // consumers are counted anew, too
	sl.done = sl.told && sl.released == st.next
}

// countSlot counts the instances of a slot that have ended, those of them that
// ended badly, and those whose ends are committed.
func (j *job) countSlot(s int) (n slot) {
	st := j.streams[j.slots[s].key]
	for i, e := j.static+s, uint64(0); st != nil && e < st.next; i, e = i+len(j.slots), e+1 {
		if i >= len(j.tasks) || j.tasks[i].state == tAbsent { // another agent's, or no agent's: it has not ended
			continue
		}
		t := &j.tasks[i]
		if !t.state.over() { // one that is asked for had ended, and may run again
			continue
		}
		n.ended++
		n.judge(taskIndex(i), t.state)
		if t.flags&fReleased != 0 {
			n.released++
		}
	}
	return n
}
