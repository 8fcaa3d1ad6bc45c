package core

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/dag"
	"github.com/cascade-run/cascade/shm/ledger"
)

// dataset is one final dataset that is here. It is kept as long as it has
// references (consumers whose ends are not committed) or is an output of the job.
type dataset struct {
	desc   comms.Desc
	refs   int
	sealed bool  // its bytes are the ledger's; else they are in desc
	given  bool  // it came with an Assign, or from a peer: only consumers that are here count
	copy   bool  // it was fetched: another agent has it, too
	kept   bool  // an Assign says that this agent has it for all
	lent   *loan // its bytes are those of a dataset of another job; nil: its own
}

// keeps tells whether a dataset stays without references. A copy of what a call has made elsewhere becomes this agent's
// own when all outputs of the call are here (cameHome), and is kept until then.
func (j *job) keeps(d *dataset) bool { return (!d.copy || j.dynamic()) && j.hasWanted(d.desc.Ref) }

// exports is what a job keeps after its end.
type exports struct {
	whole   map[outputKey]bool // all elements, or the one dataset
	element map[comms.DatasetRef]bool
	slot    map[outputKey]bool // of each instance; task is the slot
	keep    map[comms.DatasetRef]bool
	exact   bool // Retain was heard: only keep counts
	all     bool // the job keeps every dataset
}

func exportsOf(g *dag.Graph) exports {
	x := exports{all: g.Retain, whole: map[outputKey]bool{}, element: map[comms.DatasetRef]bool{}, slot: map[outputKey]bool{}}
	for i := range g.Exports {
		for _, s := range g.Exports[i].Sources {
			switch s.Kind {
			case dag.SourceElement:
				x.element[comms.DatasetRef{Task: s.Task, Output: s.Output, Element: s.Element}] = true
			case dag.SourceGroup:
				slot, _, _ := g.Slot(s.Task)
				x.slot[outputKey{taskIndex(slot), s.Output}] = true
			default:
				x.whole[outputKey{s.Task, s.Output}] = true
			}
		}
	}
	return x
}

// has tells whether a dataset is kept without a reader.
func (x *exports) has(g *dag.Graph, r comms.DatasetRef) bool {
	if x.exact {
		return x.keep[r]
	}
	return x.all || x.output(g, r)
}

// output tells whether a dataset is an output of the job: one that is lost is recomputed.
func (x *exports) output(g *dag.Graph, r comms.DatasetRef) bool {
	if x.exact {
		return x.keep[r]
	}
	if x.whole[outputKey{r.Task, r.Output}] || len(x.element) > 0 && x.element[r] {
		return true
	}
	if len(x.slot) == 0 {
		return false
	}
	slot, _, ok := g.Slot(r.Task)
	return ok && x.slot[outputKey{taskIndex(slot), r.Output}]
}

// sortedData returns the names of a job's datasets in order.
func (j *job) sortedData() []comms.DatasetRef {
	refs := make([]comms.DatasetRef, 0, len(j.data))
	for r := range j.data {
		refs = append(refs, r)
	}
	slices.SortFunc(refs, comms.DatasetRef.Compare)
	return refs
}

// Key names a dataset's bytes in the ledger. The last digits of both halves of the
// attempt's number are part of it: when a task runs again, a copy that is still
// being read and the new one exist side by side.
func Key(job comms.JobID, d *comms.Desc) ledger.Key {
	attempt := uint64(d.Attempt&0xff)<<8 | uint64(d.Attempt>>16&0xff)
	return ledger.DatasetKey(job, uint32(d.Ref.Task), d.Ref.Output, d.Ref.Element|attempt<<attemptShift)
}

const attemptShift = 48 // no generator makes 2^48 elements

func (j *job) key(d *dataset) ledger.Key {
	if d.lent != nil {
		return d.lent.key
	}
	return Key(j.id, &d.desc)
}

// dataset finds the dataset whose bytes a key names; nil when it was given up.
func (c *Core) dataset(k ledger.Key) (*job, *dataset) {
	id, task, output, element := k.Split()
	j := c.byJob[id]
	if j == nil {
		return nil, nil
	}
	ref := comms.DatasetRef{Task: taskIndex(task), Output: output, Element: element &^ (0xffff << attemptShift)}
	if d := j.data[ref]; d != nil && j.key(d) == k {
		return j, d
	}
	if j.peers != nil { // a copy of an attempt before may be beside what was made here
		if d := j.peers.old[ref]; d != nil && j.key(d) == k {
			return j, d
		}
	}
	return j, nil
}

// countRefs counts who may still read a dataset: consumers whose ends are not
// committed, instances bound to it, and streamed groups that read it beside their stream.
func (j *job) countRefs(r comms.DatasetRef, given bool) int {
	if j.dyn != nil {
		return j.rowRefs(r)
	}
	refs := 0
	if _, taken := j.takes[r]; taken {
		refs++
	}
	if !j.groupOf(r.Task).read {
		return refs
	}
	edges := ofOutput(j.edgesOf(r.Task), r.Output)
	generated := j.groupOf(r.Task).group.Outputs[r.Output].Generate != dag.GenerateNone
	named := edges
	if generated && len(edges) > 0 {
		named = ofElement(edges, r.Element)
		for i := range edges {
			if edges[i].Kind == dag.SourceStream && !j.released(edges[i].Consumer, given) {
				refs++
			}
		}
	}
	for i := range named {
		if named[i].Kind != dag.SourceStream && !j.released(named[i].Consumer, given) {
			refs++
		}
	}
	for i := range j.instances(r) {
		if !j.released(i, given) {
			refs++
		}
	}
	if len(j.slots) > 0 {
		for _, s := range j.graph.SlotConsumers(r.Task, r.Output) {
			if j.slotReads(s) {
				refs++
			}
		}
	}
	if j.peers != nil {
		refs += len(j.peers.out[r])
	}
	return refs
}

// released tells whether a consumer needs its inputs no more: its end is
// committed, or (given) it ended before the dataset came here and is no instance
// that is still to be.
func (j *job) released(t taskIndex, given bool) bool {
	if j.peers != nil && (j.awayAt(t) != nil || j.peers.endsLater(t)) {
		return true // its agent has one reference for all of its tasks
	}
	if int(t) >= len(j.tasks) || j.tasks[t].state == tAbsent {
		return given && (int(t) >= len(j.tasks) || j.tasks[t].flags&fPromised == 0)
	}
	return j.tasks[t].flags&fReleased != 0
}

// publish takes a dataset that a run has made. The first publication wins: one
// that is there already stays, and the new one's memory is freed with its lease.
// fresh tells whether it was new.
func (c *Core) publish(r *run, d comms.Desc) (fresh bool, err error) {
	j := r.job
	d.Ref.Task, d.Attempt = r.task, r.attempt
	if int(d.Ref.Output) >= len(r.group().group.Outputs) {
		return false, fmt.Errorf("it published output %d of %d", d.Ref.Output, len(r.group().group.Outputs))
	}
	if j.data[d.Ref] != nil {
		return false, c.discard(r, d)
	}
	if j.peers != nil && !j.dropped {
		c.offerData(j, d.Ref)
	}
	refs := j.countRefs(d.Ref, false)
	if refs == 0 && !j.hasWanted(d.Ref) || j.dropped {
		return true, c.discard(r, d)
	}
	data := &dataset{desc: d, refs: refs}
	switch d.Place.Kind {
	case comms.PlaceInline:
		data.desc.Place.Bytes = bytes.Clone(d.Place.Bytes) // the message's buffer is large and may be used again
	case comms.PlaceSegment:
		// It is known before the ledger looks for room: a spill must find its descriptor.
		data.sealed, j.data[d.Ref] = true, data
		if err := c.seal(r.ex, j.key(data), d); err != nil {
			delete(j.data, d.Ref)
			return false, err
		}
	default:
		return false, fmt.Errorf("it published output %d at a place of kind %d", d.Ref.Output, d.Place.Kind)
	}
	j.data[d.Ref] = data
	return true, nil
}

// deref takes references of a dataset away; without any it is freed.
func (c *Core) deref(j *job, ref comms.DatasetRef, n int) {
	d := j.data[ref]
	if d == nil {
		if j.peers != nil {
			c.derefHeard(j, ref)
		}
		return
	}
	d.refs = max(0, d.refs-n)
	if d.refs == 0 && !j.keeps(d) {
		c.freeData(j, d)
	}
}

// freeData forgets a dataset. Pins that are still held keep its bytes until they end.
func (c *Core) freeData(j *job, d *dataset) {
	delete(j.data, d.desc.Ref)
	if d.refs > 0 {
		c.goneWhileRead(j, &d.desc)
	}
	if d.lent != nil {
		c.endLoan(d.lent)
		return
	}
	if d.sealed {
		c.must(c.led.Unref(j.key(d), 1))
		c.effects()
	}
	c.freedOffer(j, d)
	if j.peers != nil {
		c.endOffer(j, d.desc.Ref)
		if d.copy {
			c.freedCopy(j, d.desc.Ref)
		}
	}
}

// release ends a task's need for its inputs: its end is committed. All of its references
// are taken away before anything is freed: of what is on its way and needed no more the
// task has ended, and then others are counted anew, without this task.
func (c *Core) release(j *job, t taskIndex) {
	j.tasks[t].flags |= fReleased
	if j.dyn != nil {
		return // rowEnded has ended its need
	}
	none := len(j.data) == 0 && (j.peers == nil || len(j.peers.heard)+len(j.peers.old) == 0)
	if none && int(t) < j.static || j.groupOf(t).rooted {
		return
	}
	over := make([]comms.DatasetRef, 0, 8)
	if !none {
		over = j.unreadInputs(over, t)
	}
	slot, element, instance := j.graph.Slot(t)
	if instance {
		over = j.unreadElement(over, slot, element)
	}
	for _, ref := range over {
		c.deref(j, ref, 0)
	}
	if instance {
		c.instanceReleased(j, slot, element)
	}
	if j.peers != nil {
		c.dropUnsure(j)
	}
}

// unreadInputs takes away the references of a task, but those that its whole slot has
// and that of the element it came into being for, as unread does.
func (j *job) unreadInputs(over []comms.DatasetRef, t taskIndex) []comms.DatasetRef {
	ins, err := j.inputs(t)
	if err != nil {
		return over
	}
	slot, element, instance := j.graph.Slot(t)
	for _, in := range ins {
		for _, s := range in.Sources {
			if instance && (j.gated(slot, s) || j.bound(slot, element, s)) {
				continue
			}
			switch s.Kind {
			case dag.SourceStream:
				if st := j.streams[outputKey{s.Task, s.Output}]; st != nil {
					for e := range st.next {
						over = j.unread(over, comms.DatasetRef{Task: s.Task, Output: s.Output, Element: e})
					}
				}
			case dag.SourceGroup:
				for _, ref := range j.wholeGroup(s) {
					over = j.unread(over, ref)
				}
			default:
				over = j.unread(over, comms.DatasetRef{Task: s.Task, Output: s.Output, Element: s.Element})
			}
		}
	}
	return over
}

// unread takes one reference of a dataset away, and adds it to those that may be free
// now: here without any, or not here.
func (j *job) unread(over []comms.DatasetRef, ref comms.DatasetRef) []comms.DatasetRef {
	if d := j.data[ref]; d != nil {
		if d.refs = max(0, d.refs-1); d.refs > 0 {
			return over
		}
	}
	return append(over, ref)
}

// retain replaces what is kept of an ended job.
func (c *Core) retain(j *job, keep []comms.DatasetRef) {
	if j.unended > 0 {
		return // it was assigned again; the sender did not know
	}
	j.wanted.exact = true
	j.wanted.keep = map[comms.DatasetRef]bool{}
	for _, r := range keep {
		j.wanted.keep[r] = true
	}
	c.keepOnly(j, j.wanted.keep)
	if j.peers != nil { // its data is not read any more
		c.dropPeers(j)
		c.lostJobs = append(c.lostJobs, j)
	}
	if j.over && j.inflight == 0 && len(j.data) == 0 && len(j.later) == 0 {
		// Nothing but its logs is here, and those need no job: of a million small jobs nothing stays.
		c.closeKinds(j)
		c.unlist(j)
	}
}

// keepOnly frees all datasets of a job but some.
func (c *Core) keepOnly(j *job, keep map[comms.DatasetRef]bool) {
	for _, ref := range j.sortedData() {
		if d := j.data[ref]; d != nil && (!keep[ref] || d.copy) {
			c.freeData(j, d)
		}
	}
}

// knownData takes over the datasets an Assign names. Bytes in the message are
// taken as they are; what is said to lie in this host's memory must be known
// here, else it is lost and the sender learns so.
func (c *Core) knownData(j *job, m *comms.Assign) {
	var missing []comms.DatasetRef
	for _, d := range m.Datasets {
		if !j.valid(d.Ref) {
			continue
		}
		away := j.peers != nil && d.Place.Kind == comms.PlaceAgent && d.Place.Where != c.cfg.Agent
		have := j.data[d.Ref]
		if have != nil && have.desc.Attempt < d.Attempt && (away || d.Place.Kind == comms.PlaceInline) {
			c.freeData(j, have) // its task has run again: who reads it from now on reads what there is
			have = nil
		}
		if have != nil && !(away && have.copy) {
			if j.peers != nil && d.Place.Kind != comms.PlaceInline && have.desc.Attempt == d.Attempt {
				have.kept, have.copy = true, false
			}
			continue
		}
		c.grow(j, d.Ref)
		if t := j.at(d.Ref.Task); j.groupOf(d.Ref.Task).ganged() && j.hasMember(d.Ref.Task) && !t.state.over() && d.Attempt < t.attempt {
			continue // its gang has started over here, which the sender did not know
		}
		if away {
			c.hear(j, d.Place.Where, d)
			continue
		}
		if d.Place.Kind != comms.PlaceInline {
			missing = append(missing, d.Ref)
			continue
		}
		d.Place.Bytes = bytes.Clone(d.Place.Bytes)
		if j.peers != nil && j.peers.old[d.Ref] != nil {
			c.freeOld(j, d.Ref) // a peer had told it, and need not again
		}
		j.data[d.Ref] = &dataset{desc: d, given: true}
		j.given = true
	}
	for _, e := range m.Ends {
		if !j.valid(comms.DatasetRef{Task: e.Task, Output: e.Output}) {
			continue
		}
		if t := j.at(e.Task); t.state == tAbsent || t.flags&fElsewhere != 0 { // else it is known here
			st := j.stream(e.Task, e.Output)
			st.next, st.ended, st.failed = e.Count, true, e.Failed
			for n := range e.Count {
				ref := comms.DatasetRef{Task: e.Task, Output: e.Output, Element: n}
				if (e.Failed || len(m.Ended) > 0) && j.data[ref] == nil && (j.peers == nil || j.peers.heard[ref] == nil) {
					st.lost[n], st.torn = true, e.Failed
				}
			}
		}
	}
	for ref := range j.data {
		if j.groupOf(ref.Task).group.Outputs[ref.Output].Generate != dag.GenerateNone {
			st := j.stream(ref.Task, ref.Output)
			st.next = max(st.next, ref.Element+1)
			delete(st.lost, ref.Element)
		}
	}
	for _, ref := range missing {
		c.askFor(j, ref)
	}
}

// askFor tells the controller that a dataset of a task that ended before the job
// came here is needed and not here. It may have the bytes, or has the task run again.
func (c *Core) askFor(j *job, ref comms.DatasetRef) {
	t := j.at(ref.Task)
	c.note(j, comms.Event{Kind: comms.EventLost, Task: ref.Task, Output: ref.Output,
		Cause: comms.Cause{Kind: comms.CauseSubmit, Ref: ref, Text: "not on this agent, and needed"}})
	if j.groupOf(ref.Task).group.Outputs[ref.Output].Generate != dag.GenerateNone {
		j.stream(ref.Task, ref.Output).lost[ref.Element] = true
	}
	if t.state == tFinished && (t.flags&fElsewhere != 0 || j.groupOf(ref.Task).ganged() && j.gangOf(ref.Task).asks()) {
		t.state = tAsked
		j.unended++
		c.begin(j)
		c.lostJobs = append(c.lostJobs, j)
	}
}

// unask makes a task one again that has ended elsewhere.
func (c *Core) unask(j *job, t taskIndex) {
	j.tasks[t].state = tFinished
	j.unended--
	c.lostJobs = append(c.lostJobs, j)
	c.touch(j)
}

// valid tells whether a name from outside can exist in the graph.
func (j *job) valid(r comms.DatasetRef) bool {
	if int(r.Task) >= j.static && j.graph.NumSlots() == 0 {
		return false
	}
	return int(r.Output) < len(j.spec(r.Task).Outputs)
}
