package core

import (
	"bytes"
	"fmt"
	"slices"
	"time"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/dag"
)

// hearState is how far a dataset of another agent has come.
type hearState uint8

const (
	hearTold   hearState = iota // to be fetched when there is room
	hearRoom                    // the ledger was asked for room
	hearPulled                  // on its way
	hearHere                    // a copy is here
	hearLost                    // no agent has it: the controller was told
)

// heard is a dataset of another agent that tasks here read: from the news of it
// until the ends of all that read it are committed.
type heard struct {
	job      *job
	desc     comms.Desc
	from     []string // who holds it for this agent, and waits for Released
	state    hearState
	flying   bool // counted in peers.flying
	stale    bool // of the epoch before, or gone, and not told again
	gone     bool // its holder recomputes it, unless that fails
	queued   bool // to be fetched: in needs of its job, or in Core.resting
	rests    bool // in Core.resting
	expected bool // counted in peers.coming
	need     need
	at       int       // in needs of its job, or in Core.resting
	tries    int       // that have failed in a row
	yields   int       // that were given up for the memory they held
	due      time.Time // before which it is not fetched
	pull     *pull
	asked    bool            // other agents wait for its copy to be here
	origin   *comms.Adoption // what it is to be a copy of, here; nil: it is another agent's
	of       comms.DatasetID // its name there, when that is another than here
	made     uint32          // the attempt that made it there; of has it
}

// attempt is the one that made a dataset, where it is fetched from.
func (h *heard) attempt() uint32 {
	if h.of != (comms.DatasetID{}) {
		return h.made
	}
	return h.desc.Attempt
}

// name is a dataset's name where it is fetched from.
func (h *heard) name() comms.DatasetID {
	if h.of != (comms.DatasetID{}) {
		return h.of
	}
	return comms.DatasetID{Job: h.job.id, DatasetRef: h.desc.Ref}
}

func (c *Core) peerUp(ev PeerUp) {
	n := c.neighbour(ev.Agent)
	n.up, n.full, n.process = true, false, ev.Incarnation
	defer c.callsUp(n, ev.Resumed)
	for _, j := range c.jobs {
		if j.peers == nil {
			continue
		}
		for _, f := range j.peers.list {
			if f.neighbour == n && !ev.Resumed {
				c.tellAll(j, []*fragment{f})
			} else if f.neighbour == n {
				c.mustTell(j)
			}
		}
	}
}

func (c *Core) peerDown(ev PeerDown) {
	if n := c.neighbours[ev.Agent]; n != nil {
		n.up, n.full = false, false
		c.callsDown(n, ev.Over)
		c.unmeet(n)
	}
}

func (c *Core) peerFull(ev PeerFull) {
	n := c.neighbours[ev.Agent]
	if n == nil {
		return
	}
	if n.full = ev.Full; n.full {
		return
	}
	c.sayAll(n)
	for _, j := range c.jobs {
		if j.peers != nil {
			c.mustTell(j)
		}
	}
}

func (c *Core) fromPeer(ev FromPeer) {
	switch m := ev.Msg.(type) {
	case *comms.Notice:
		c.notice(ev.Agent, m)
	case *comms.Released:
		c.releasedBy(ev.Agent, m)
	case *comms.Grant:
		c.hostGrant(ev.Agent, m)
	case *comms.GrantReport:
		c.reported(ev.Agent, m)
	case *comms.GrantEnd:
		c.grantsEnded(ev.Agent, m)
	case *comms.GrantRecall:
		c.recalled(ev.Agent, m)
	}
}

// notice takes the news of a peer. Those of an epoch that is to come wait for it;
// those of one that is over are told again by whom they still concern.
func (c *Core) notice(from string, m *comms.Notice) {
	j := c.byJob[m.Job]
	if j == nil || j.adopted || j.life != m.JobIncarnation || m.Epoch > j.epoch {
		c.tooEarly(from, m)
		return
	}
	if m.Epoch < j.epoch || j.peers == nil || j.dropped || !slices.ContainsFunc(j.peers.list, func(f *fragment) bool { return f.name == from }) {
		return
	}
	if why := j.outOfProportion(m); why != "" {
		c.stop(j, &comms.TaskError{Kind: comms.ErrorInput, Message: fmt.Sprintf("agent %s: %s", from, why), Agent: c.cfg.Agent}, comms.Cause{Kind: comms.CauseNone})
		return
	}
	for _, d := range m.Datasets {
		c.hear(j, from, d)
	}
	for _, e := range m.Ends {
		if !j.valid(comms.DatasetRef{Task: e.Task, Output: e.Output}) || j.groupOf(e.Task).group.Outputs[e.Output].Generate == dag.GenerateNone {
			continue
		}
		en := j.peers.endingOf(e.Task)
		if k := slices.IndexFunc(en.ends, func(o comms.StreamEnd) bool { return o.Output == e.Output }); k >= 0 {
			en.ends[k] = e // it was recomputed, and has ended otherwise
		} else {
			en.ends = append(en.ends, e)
		}
	}
	for _, e := range m.Ended {
		c.hearEnds(j, e)
	}
}

// outOfProportion tells why a notice is refused whose numbers would take all time
// and memory, as tooMany does for an Assign.
func (j *job) outOfProportion(m *comms.Notice) string {
	for i := range m.Datasets {
		r, known := m.Datasets[i].Ref, uint64(0)
		if st := j.streams[outputKey{r.Task, r.Output}]; st != nil {
			known = st.next
		}
		if int(r.Task) >= len(j.tasks)+maxElements || r.Element >= known+maxElements {
			return fmt.Sprintf("element %d of task number %d is said to be published, and at most %d are looked for beyond the %d elements and %d tasks that are known",
				r.Element, r.Task, maxElements, known, len(j.tasks))
		}
	}
	for _, e := range m.Ends {
		known := uint64(0)
		if st := j.streams[outputKey{e.Task, e.Output}]; st != nil {
			known = st.next
		}
		if int(e.Task) >= len(j.tasks)+maxElements || e.Count > known+maxElements {
			return fmt.Sprintf("a stream of task number %d is said to have ended with %d elements, and at most %d are looked for beyond the %d elements and %d tasks that are known",
				e.Task, e.Count, maxElements, known, len(j.tasks))
		}
	}
	return tooMany(m.Ended, len(j.tasks))
}

func (c *Core) hearEnds(j *job, e comms.Ended) {
	if int(e.Last) >= j.static && (len(j.slots) == 0 || e.Last > noTask-1) || e.How < comms.OutcomeDone || e.How > comms.OutcomeCancelled {
		return
	}
	for t := e.First; t <= e.Last; t++ {
		asked := int(t) < len(j.tasks) && j.tasks[t].state == tAsked
		if asked { // a peer that had made it has done so again by itself
			c.unask(j, t)
			c.unend(j, t)
		}
		asked = asked || j.peers.endsLater(t) // and what was not all here is news, too
		if known := int(t) < len(j.tasks) && j.tasks[t].state != tAbsent; !asked && (known || j.awayAt(t) == nil) {
			if known || !j.peers.endsLater(t) {
				delete(j.peers.ending, t)
			}
			continue // an Assign said so, or it is this agent's
		}
		if c.endsJob(j, t, e.How) && j.stopped == nil {
			c.stop(j, &comms.TaskError{Kind: comms.ErrorSkipped, Message: fmt.Sprintf("the job stopped because %s failed", j.taskName(t))},
				comms.Cause{Kind: comms.CauseTask, Ref: comms.DatasetRef{Task: t}})
		}
		j.peers.endingOf(t).how = e.How
		c.neverComes(j, t, e.How != comms.OutcomeDone)
		c.endAway(j, t)
	}
}

// endsLater tells whether a task of a peer has ended of which not all is here.
func (p *peers) endsLater(t taskIndex) bool { return p.ending[t] != nil && p.ending[t].how != 0 }

func (j *job) endsLater(t taskIndex) bool { return j.peers != nil && j.peers.endsLater(t) }

func (p *peers) endingOf(t taskIndex) *ending {
	e := p.ending[t]
	if e == nil {
		e = &ending{}
		p.ending[t] = e
	}
	return e
}

// hear takes the news of one dataset of another agent.
func (c *Core) hear(j *job, from string, d comms.Desc) {
	if !j.valid(d.Ref) || d.Ref.Task > noTask-1 {
		return
	}
	p := j.peers
	h := p.heard[d.Ref]
	if d.Place.Kind == comms.PlaceNone {
		c.unhear(j, h, from)
		return
	}
	have, taken := j.data[d.Ref], j.takes[d.Ref]
	if _, here := j.takes[d.Ref]; here && !taken {
		return // its holder keeps it until the next epoch
	}
	if have != nil && !have.copy || int(d.Ref.Task) < len(j.tasks) && j.tasks[d.Ref.Task].state != tAbsent && j.tasks[d.Ref.Task].flags&fElsewhere == 0 {
		c.giveBack(j, d.Ref, from) // made here, or to be made here
		return
	}
	switch {
	case h == nil:
		h = &heard{job: j, desc: d}
		p.heard[d.Ref] = h
	case h.state == hearHere || h.desc.Attempt == d.Attempt && h.state != hearLost:
	case h.stale || h.state == hearLost || slices.Contains(h.from, from): // it was recomputed
		c.forgetPull(h)
		c.unwant(h)
		h.desc, h.state, h.from, h.tries, h.due = d, hearTold, nil, 0, time.Time{}
	default:
		c.giveBack(j, d.Ref, from)
		return
	}
	h.stale, h.gone = false, false
	if !slices.Contains(h.from, from) {
		h.from = append(h.from, from)
	}
	c.grow(j, d.Ref)
	if j.groupOf(d.Ref.Task).group.Outputs[d.Ref.Output].Generate != dag.GenerateNone {
		c.growStream(j, d.Ref)
		if j.data[d.Ref] == nil {
			j.streams[outputKey{d.Ref.Task, d.Ref.Output}].lost[d.Ref.Element] = true
		}
	}
	c.wantHeard(j, h, !p.quiet) // whose tasks there are is not known before an Assign is taken
}

// growStream makes an element one of the stream of another agent's generator.
func (c *Core) growStream(j *job, ref comms.DatasetRef) {
	st := j.stream(ref.Task, ref.Output)
	if ref.Element < st.next {
		return
	}
	slots := j.graph.StreamSlots(ref.Task, ref.Output)
	for ; st.next <= ref.Element; st.next++ {
		for _, s := range slots {
			if i, err := j.graph.Instance(s, st.next); err == nil && j.overAt(i) {
				c.awayEnded(j, s, i)
			}
		}
	}
}

// wantHeard decides what becomes of a dataset that was heard of: it is here, it is
// fetched, or (asked for when sure is set) not needed.
func (c *Core) wantHeard(j *job, h *heard, sure bool) {
	ref, p := h.desc.Ref, j.peers
	if d := j.data[ref]; d != nil {
		c.unwant(h)
		c.expect(h, false)
		h.state = hearHere
		if j.takes[ref] && d.copy && d.desc.Attempt == h.desc.Attempt {
			c.taken(j, d)
		}
		return
	}
	if d := p.old[ref]; d != nil {
		if d.desc.Attempt != h.desc.Attempt {
			c.freeOld(j, ref)
		} else {
			delete(p.old, ref)
			c.arrived(j, h, d)
			return
		}
	}
	if sure && j.countRefs(ref, true) == 0 {
		c.unneeded(j, h)
		return
	}
	if !h.flying {
		h.flying = true
		p.flying[ref.Task]++
		if c.unend(j, ref.Task) {
			c.lostJobs = append(c.lostJobs, j)
		}
	}
	if h.desc.Place.Kind == comms.PlaceInline {
		d := &dataset{desc: h.desc, given: true, copy: true}
		d.desc.Place.Bytes = bytes.Clone(d.desc.Place.Bytes)
		c.arrived(j, h, d)
		return
	}
	c.wantPull(h)
}

// arrived makes a copy a dataset of this agent, and tells its consumers.
func (c *Core) arrived(j *job, h *heard, d *dataset) {
	ref := h.desc.Ref
	c.unwant(h)
	h.state, h.tries = hearHere, 0
	h.desc.Place.Bytes = nil
	d.copy, d.given, j.given = true, true, true
	d.refs = j.countRefs(ref, true)
	j.data[ref] = d
	st := j.streams[outputKey{ref.Task, ref.Output}]
	if st != nil {
		delete(st.lost, ref.Element)
	}
	j.peers.landing = h.expected
	c.expect(h, false)
	if !j.peers.quiet {
		edges := ofOutput(j.edgesOf(ref.Task), ref.Output)
		if j.groupOf(ref.Task).group.Outputs[ref.Output].Generate == dag.GenerateNone {
			c.resolve(j, edges, dag.SourceWhole, ref, true)
			j.peers.landing = false
			c.resolveGates(j, dag.SourceWhole, ref, true)
		} else {
			c.resolve(j, ofElement(edges, ref.Element), dag.SourceElement, ref, true)
			for i := range j.instances(ref) { // an Assign named it
				c.resolveEdge(j, i, ref, true)
			}
			j.peers.landing = false
			c.resolveGates(j, dag.SourceElement, ref, true)
		}
		if st != nil && st.ended {
			c.streamThere(j, ref.Task, ref.Output)
		}
	}
	j.peers.landing = false
	c.land(j, h)
	if j.takes[ref] {
		c.taken(j, d)
	}
	if d.refs == 0 && j.data[ref] == d && !j.peers.quiet { // its consumers have ended while it came
		c.freeData(j, d)
	}
}

// land counts a dataset as one that is not on its way any more.
func (c *Core) land(j *job, h *heard) {
	if !h.flying {
		return
	}
	h.flying = false
	t := h.desc.Ref.Task
	if j.peers.flying[t]--; j.peers.flying[t] == 0 {
		delete(j.peers.flying, t)
		c.endAway(j, t)
	}
}

// unhear forgets a dataset that its holder has lost. When no other agent has it, it
// is announced again once it was recomputed.
func (c *Core) unhear(j *job, h *heard, from string) {
	if h == nil || h.state == hearHere {
		return
	}
	if h.from = slices.DeleteFunc(h.from, func(a string) bool { return a == from }); len(h.from) > 0 {
		return
	}
	// Not all that the task made is here, and it does not count as if it were: it stays on its way.
	c.forgetPull(h)
	c.unwant(h)
	h.state, h.stale, h.gone = hearTold, true, true
	j.peers.unsure = true
	if en := j.peers.ending[h.desc.Ref.Task]; en != nil && en.how > comms.OutcomeDone { // it is not recomputed
		c.neverComes(j, h.desc.Ref.Task, true)
	}
}

// giveBack tells an agent that its copy of a dataset is not needed here.
func (c *Core) giveBack(j *job, ref comms.DatasetRef, to string) {
	for _, f := range j.peers.list {
		if f.name == to {
			f.released = append(f.released, ref)
			c.mustTell(j)
		}
	}
}

// unneeded ends this agent's need for a dataset that it was told of.
func (c *Core) unneeded(j *job, h *heard) {
	ref := h.desc.Ref
	delete(j.peers.heard, ref)
	c.forgetPull(h)
	c.unwant(h)
	c.expect(h, false)
	for _, a := range h.from {
		c.giveBack(j, ref, a)
	}
	if st := j.streams[outputKey{ref.Task, ref.Output}]; st != nil {
		delete(st.lost, ref.Element)
	}
	c.land(j, h)
}

// derefHeard looks whether a dataset that is on its way is still needed.
func (c *Core) derefHeard(j *job, ref comms.DatasetRef) {
	h := j.peers.heard[ref]
	switch {
	case h == nil:
	case j.countRefs(ref, true) == 0:
		c.unneeded(j, h)
	default:
		c.fixNeed(h)
	}
}

// freedCopy follows when a copy was freed here.
func (c *Core) freedCopy(j *job, ref comms.DatasetRef) {
	if j.peers == nil {
		return
	}
	if h := j.peers.heard[ref]; h != nil {
		c.unneeded(j, h)
	}
}
