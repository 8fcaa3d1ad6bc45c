package core

import (
	"maps"
	"slices"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/dag"
)

// endAway takes over how a task of a peer has ended, when all that it made and
// that is needed is here: what ended and is not here never comes.
func (c *Core) endAway(j *job, t taskIndex) {
	en := j.peers.ending[t]
	if en == nil || en.how == 0 || j.peers.flying[t] > 0 {
		return
	}
	delete(j.peers.ending, t)
	c.grow(j, comms.DatasetRef{Task: t})
	s := j.at(t)
	if s.state != tAbsent {
		return
	}
	var ends []uint32 // of streams that an Assign has not ended
	for _, e := range en.ends {
		st := j.stream(t, e.Output)
		if !st.ended {
			ends = append(ends, e.Output)
		}
		st.next, st.ended, st.failed = max(st.next, e.Count), true, e.Failed
	}
	s.state = tFinished + taskState(en.how-comms.OutcomeDone)
	s.flags |= fReleased | fElsewhere
	j.fresh = false
	if en.how != comms.OutcomeDone {
		c.todo = append(c.todo, ended{j, t})
	}
	if j.peers.quiet { // all is counted anew
		return
	}
	if s, element, ok := j.graph.Slot(t); ok && j.awayAt(t) == nil {
		c.lostJobs = append(c.lostJobs, j) // it was no agent's: all is counted anew
	} else if ok && j.exists(s, element) {
		c.awayEnded(j, s, t)
		if en.how != comms.OutcomeDone || !c.asksListed(j, t) {
			c.slotEnded(j, s)
		}
	}
	c.consumedAway(j, t)
	for _, e := range en.ends {
		for _, s := range j.graph.StreamSlots(t, e.Output) {
			told := j.slots[s].told // an Assign had ended the stream, and the last instance came before this
			c.recountSlot(j, s)
			j.slots[s].told = told
		}
	}
	if en.how != comms.OutcomeDone {
		return
	}
	for _, o := range ends {
		j.missUntold(t, o)
		c.streamThere(j, t, o)
	}
	for _, e := range en.ends {
		c.slotsEnded(j, outputKey{t, e.Output})
	}
	c.missingOf(j, t)
	delete(j.edgeCache, t)
}

// awayEnded counts an instance of a streamed group that has ended on another agent.
func (c *Core) awayEnded(j *job, s int, t taskIndex) {
	sl := &j.slots[s]
	sl.ended++
	sl.released++
	sl.judge(t, j.tasks[t].state)
}

// neverComes gives up outputs of an ended task that were not announced again. Lost
// ones are recomputed, unless that failed (all).
func (c *Core) neverComes(j *job, t taskIndex, all bool) {
	if !j.peers.unsure {
		return
	}
	for _, ref := range sortedRefs(j.peers.heard) {
		if h := j.peers.heard[ref]; ref.Task == t && h != nil && h.stale && (all || !h.gone) {
			delete(j.peers.heard, ref)
			c.forgetPull(h)
			c.expect(h, false)
			c.land(j, h)
		}
	}
}

// asksListed asks for what a finished instance of a peer made, when a task here waits for the
// list of all and the peer announced none: it had been released, as for missUntold. It tells
// whether it has asked.
func (c *Core) asksListed(j *job, t taskIndex) bool {
	for _, e := range j.edgesOf(t) {
		ref := comms.DatasetRef{Task: t, Output: e.Output}
		if e.Kind == dag.SourceGroup && j.waits(e.Consumer) && j.untold(ref) {
			c.askFor(j, ref)
			return true
		}
	}
	return false
}

// missingOf asks for an output of a peer's finished task that is needed here and was
// not announced: with the next epoch all is announced anew.
func (c *Core) missingOf(j *job, t taskIndex) {
	ask := func(consumer taskIndex, ref comms.DatasetRef) bool {
		if !j.waits(consumer) || !j.untold(ref) {
			return false
		}
		c.askFor(j, ref)
		return true
	}
	for _, e := range j.edgesOf(t) {
		if (e.Kind == dag.SourceWhole || e.Kind == dag.SourceElement) && ask(e.Consumer, comms.DatasetRef{Task: t, Output: e.Output, Element: e.Element}) {
			return
		}
	}
	for o := range j.groupOf(t).group.Outputs {
		st := j.streams[outputKey{t, uint32(o)}]
		if st == nil { // of such elements lost tells: what was made of one that had been released is gone
			continue
		}
		for _, e := range slices.Sorted(maps.Keys(st.lost)) {
			ref := comms.DatasetRef{Task: t, Output: uint32(o), Element: e}
			if slices.ContainsFunc(j.streamReaders(ref), func(r taskIndex) bool { return ask(r, ref) }) {
				return
			}
		}
	}
}

// missUntold counts the elements of a peer's stream that it did not announce as lost, when a
// task here waits for all: they had been released, and the peer has dropped them.
func (j *job) missUntold(t taskIndex, output uint32) {
	if !slices.ContainsFunc(ofOutput(j.edgesOf(t), output), func(e dag.Edge) bool {
		return e.Kind == dag.SourceStream && j.waits(e.Consumer)
	}) {
		return
	}
	st := j.stream(t, output)
	for e := range st.next {
		if ref := (comms.DatasetRef{Task: t, Output: output, Element: e}); j.untold(ref) {
			st.lost[e] = true
		}
	}
}

// waits tells whether a task is this agent's, and waits for what it reads.
func (j *job) waits(t taskIndex) bool { return int(t) < len(j.tasks) && j.tasks[t].state == tWaiting }

// untold tells whether a dataset of a peer is neither here nor was told of.
func (j *job) untold(ref comms.DatasetRef) bool {
	return j.data[ref] == nil && j.peers.heard[ref] == nil
}

// streamReaders lists the tasks that read an element as one of its stream, or for each one.
func (j *job) streamReaders(ref comms.DatasetRef) (readers []taskIndex) {
	for _, e := range ofOutput(j.edgesOf(ref.Task), ref.Output) {
		if e.Kind == dag.SourceStream {
			readers = append(readers, e.Consumer)
		}
	}
	for i := range j.instances(ref) {
		readers = append(readers, i)
	}
	return readers
}

// lostAway follows when a copy of a peer's dataset was lost here: it is fetched
// again from who holds it. It tells whether that is all there is to do.
func (c *Core) lostAway(j *job, d *dataset) bool {
	ref := d.desc.Ref
	if j.peers.old[ref] == d {
		delete(j.peers.old, ref)
		return true
	}
	h := j.peers.heard[ref]
	if !d.copy {
		return false
	}
	delete(j.data, ref)
	if h == nil { // who held it is not known any more
		if d.refs > 0 && j.stopped == nil {
			c.redo(j, ref)
		}
		c.lostJobs = append(c.lostJobs, j)
		return true
	}
	if st := j.streams[outputKey{ref.Task, ref.Output}]; st != nil {
		st.lost[ref.Element] = true
	}
	c.unend(j, ref.Task)
	h.state = hearTold
	c.wantHeard(j, h, true)
	c.lostJobs = append(c.lostJobs, j)
	return true
}

// unend takes back that a task elsewhere has ended: not all that it made is here.
func (c *Core) unend(j *job, t taskIndex) bool {
	s := j.at(t)
	if !s.state.over() || s.flags&fElsewhere == 0 {
		return false
	}
	en := j.peers.endingOf(t)
	en.how = outcomeOf(s.state)
	for o := range j.groupOf(t).group.Outputs {
		if st := j.streams[outputKey{t, uint32(o)}]; st != nil && st.ended {
			en.ends = append(en.ends, comms.StreamEnd{Task: t, Output: uint32(o), Count: st.next, Failed: st.failed})
			st.ended, st.failed = false, false
		}
	}
	badly := s.state != tFinished
	*s = task{attempt: s.attempt}
	if slot, element, ok := j.graph.Slot(t); ok && j.exists(slot, element) && !j.peers.quiet {
		sl := &j.slots[slot]
		sl.ended--
		sl.released--
		if sl.told, sl.done = false, false; badly {
			c.recountSlot(j, slot) // it may be the one of which it is known
		}
	}
	return true
}

// recountHeard looks anew at what is needed of others: after an Assign and after
// datasets were lost.
func (c *Core) recountHeard(j *job) {
	for _, ref := range sortedRefs(j.peers.heard) {
		h := j.peers.heard[ref]
		switch {
		case h == nil || h.stale || h.state == hearHere || h.state == hearLost:
		default:
			c.wantHeard(j, h, true)
		}
	}
	c.dropUnsure(j)
}

// dropUnsure gives up what waits to be told again and is needed no more.
func (c *Core) dropUnsure(j *job) {
	p := j.peers
	if !p.unsure {
		return
	}
	p.unsure = false
	for _, ref := range sortedRefs(p.old) {
		if j.countRefs(ref, true) == 0 {
			c.freeOld(j, ref)
		}
	}
	for _, ref := range sortedRefs(p.heard) {
		h := p.heard[ref]
		if h == nil || !h.stale {
			continue
		}
		if j.countRefs(ref, true) == 0 {
			c.unneeded(j, h)
		} else {
			p.unsure = true
		}
	}
	p.unsure = p.unsure || len(p.old) > 0
}
