package core

import (
	"slices"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/dag"
)

const (
	noticeData  = 1024    // datasets in one Notice
	noticeBytes = 8 << 20 // of small datasets in one Notice, about
)

// offerData notes who may read a new dataset on other agents, and has it told to
// them. It tells how many they are.
func (c *Core) offerData(j *job, ref comms.DatasetRef) int {
	if j.peers == nil {
		return 0
	}
	all := j.readers(ref)
	if len(all) == 0 {
		return 0
	}
	j.peers.out[ref] = all
	for _, f := range all {
		f.data = append(f.data, ref)
	}
	c.mustTell(j)
	return len(all)
}

// withdrawData tells those who may still need a dataset of this agent that it is
// gone: it is announced to them again when it was recomputed.
func (c *Core) withdrawData(j *job, ref comms.DatasetRef) {
	if j.peers == nil || j.peers.out[ref] == nil {
		return
	}
	for _, f := range j.peers.out[ref] {
		f.data = append(f.data, ref)
	}
	c.endOffer(j, ref)
	c.mustTell(j)
}

// endOffer ends what other agents need of a dataset that is no more.
func (c *Core) endOffer(j *job, ref comms.DatasetRef) {
	for _, f := range j.peers.out[ref] {
		if j.counts(ref, f) {
			c.consumed(j, outputKey{ref.Task, ref.Output}, ref.Element)
		}
	}
	delete(j.peers.out, ref)
}

// offerEnd has the end of a task told to those whose tasks read it, and a failure
// that ends the job to all.
func (c *Core) offerEnd(j *job, t taskIndex) {
	if j.peers.anew[t] { // its end before is another one
		j.untellEnds()
	}
	how := outcomeOf(j.tasks[t].state)
	to := j.audience(t)
	if c.endsJob(j, t, how) {
		to = j.peers.list
	}
	for _, f := range to {
		f.tellEnd(j, t, how)
	}
	if len(to) > 0 {
		c.mustTell(j)
	}
}

// endsJob tells whether the end of a task stops all of its job.
func (c *Core) endsJob(j *job, t taskIndex, how comms.Outcome) bool {
	return how == comms.OutcomeFailed && !j.mayFail(t)
}

func outcomeOf(s taskState) comms.Outcome { return comms.OutcomeDone + comms.Outcome(s-tFinished) }

// tellEnd notes the end of a task, with those of its streams.
func (f *fragment) tellEnd(j *job, t taskIndex, how comms.Outcome) {
	for o, out := range j.groupOf(t).group.Outputs {
		if st := j.streams[outputKey{t, uint32(o)}]; st != nil && out.Generate != dag.GenerateNone {
			f.ends = append(f.ends, comms.StreamEnd{Task: t, Output: uint32(o), Count: st.next, Failed: st.failed || st.torn || how != comms.OutcomeDone})
		}
	}
	f.ended = append(f.ended, comms.Ended{First: t, Last: t, How: how})
}

// untellEnd takes back the end of a task that restarts where it was not announced yet:
// agents at a new epoch do not know that its outputs are gone, and would take all that
// the task made for announced.
func (j *job) untellEnd(t taskIndex) {
	if j.peers != nil {
		j.peers.anew[t] = true
	}
}

// untellEnds takes back all ends that are to be: at once, as many tasks restart together.
func (j *job) untellEnds() {
	anew := j.peers.anew
	if len(anew) == 0 {
		return
	}
	for _, f := range j.peers.list {
		f.ended = slices.DeleteFunc(f.ended, func(e comms.Ended) bool { return anew[e.First] })
		f.ends = slices.DeleteFunc(f.ends, func(e comms.StreamEnd) bool { return anew[e.Task] })
	}
	clear(anew)
}

// mustTell has a job's notices sent at the end of the step.
func (c *Core) mustTell(j *job) {
	if !slices.Contains(c.telling, j) {
		c.telling = append(c.telling, j)
	}
}

// tellPeers sends what peers must know, as far as they can be reached. The rest
// waits: it is names and not bytes. The fate of a job that was forgotten here is
// no news: its tasks may be others' at an epoch of which the peers have not heard.
func (c *Core) tellPeers() {
	telling := c.telling
	c.telling = nil
	for _, j := range telling {
		if j.peers == nil || j.dropped || c.byJob[j.id] != j {
			continue
		}
		j.untellEnds()
		for _, f := range j.peers.list {
			if f.listens() {
				c.tell(j, f)
			}
		}
	}
}

// tell sends all that was noted for one peer.
func (c *Core) tell(j *job, f *fragment) {
	if len(f.released) > 0 {
		c.emit(ToPeer{f.name, &comms.Released{Job: j.id, JobIncarnation: j.life, Epoch: j.epoch, Data: releasedRanges(f.released)}})
		f.released = nil
	}
	if len(f.data)+len(f.ended) == 0 {
		return
	}
	for data := f.data; ; {
		m := &comms.Notice{Job: j.id, JobIncarnation: j.life, Epoch: j.epoch}
		size := 0
		for len(data) > 0 && len(m.Datasets) < noticeData && size < noticeBytes {
			d := c.noticeOf(j, data[0])
			data = data[1:]
			size += descBytes + len(d.Place.Bytes)
			m.Datasets = append(m.Datasets, d)
		}
		if len(data) == 0 {
			m.Ends, m.Ended = f.ends, joinEnded(f.ended)
		}
		c.emit(ToPeer{f.name, m})
		if len(data) == 0 {
			break
		}
	}
	f.data, f.ends, f.ended = nil, nil, nil
}

// noticeOf describes a dataset for another agent: with its bytes when it is small,
// nowhere when it is gone.
func (c *Core) noticeOf(j *job, ref comms.DatasetRef) comms.Desc {
	d := j.data[ref]
	if d == nil {
		return comms.Desc{Ref: ref}
	}
	desc := d.desc
	if d.sealed {
		desc.Place = comms.Place{Kind: comms.PlaceAgent, Where: c.cfg.Agent}
	}
	return desc
}

// joinEnded sorts ends and joins neighbours. Of two ends of one task the last counts.
func joinEnded(all []comms.Ended) (out []comms.Ended) {
	slices.SortStableFunc(all, func(a, b comms.Ended) int { return int(int64(a.First) - int64(b.First)) })
	for _, e := range all {
		if n := len(out); n > 0 && e.First <= out[n-1].Last+1 && (e.How == out[n-1].How || e.First == out[n-1].Last && out[n-1].First == e.First) {
			out[n-1].Last, out[n-1].How = e.Last, e.How
			continue
		}
		out = append(out, e)
	}
	return out
}

// releasedRanges sorts names and joins consecutive elements.
func releasedRanges(refs []comms.DatasetRef) (out []comms.ReleasedRange) {
	slices.SortFunc(refs, comms.DatasetRef.Compare)
	for _, r := range slices.Compact(refs) {
		if n := len(out); n > 0 && out[n-1].Task == r.Task && out[n-1].Output == r.Output && out[n-1].Last+1 == r.Element {
			out[n-1].Last++
			continue
		}
		out = append(out, comms.ReleasedRange{Task: r.Task, Output: r.Output, First: r.Element, Last: r.Element})
	}
	return out
}

// tellAll notes for peers all that they may need: at a new epoch, and when a link
// came up that may have lost something. They release what they do not need any more.
func (c *Core) tellAll(j *job, to []*fragment) {
	j.untellEnds()
	for _, f := range to {
		f.data, f.ends, f.ended = nil, nil, nil // those that are in there are found anew
	}
	for _, ref := range sortedRefs(j.peers.out) {
		for _, f := range j.peers.out[ref] {
			if slices.Contains(to, f) {
				f.data = append(f.data, ref)
			}
		}
	}
	for i := range j.tasks {
		t, s := taskIndex(i), &j.tasks[i]
		if !s.state.over() || s.flags&fElsewhere != 0 {
			continue
		}
		how := outcomeOf(s.state)
		audience := j.peers.list
		if !c.endsJob(j, t, how) {
			audience = j.audience(t)
		}
		for _, f := range audience {
			if slices.Contains(to, f) {
				f.tellEnd(j, t, how)
			}
		}
	}
	c.mustTell(j)
}

// recountOut finds anew who may read what is here, at a new epoch.
func (c *Core) recountOut(j *job) {
	clear(j.peers.out)
	for _, ref := range j.sortedData() {
		if d := j.data[ref]; !d.given || d.kept {
			if all := j.readers(ref); len(all) > 0 {
				j.peers.out[ref] = all
			}
		}
	}
}

// releasedBy ends a peer's need for datasets that are here.
func (c *Core) releasedBy(agent string, m *comms.Released) {
	j := c.byJob[m.Job]
	if j == nil || j.life != m.JobIncarnation || j.epoch != m.Epoch || j.peers == nil {
		return // what it meant is told again at the epoch that counts
	}
	for _, r := range m.Data {
		if !j.valid(comms.DatasetRef{Task: r.Task, Output: r.Output}) {
			continue
		}
		// Of a range that is larger than what is here only that counts: the sender decides what it says.
		if r.Last-r.First >= uint64(len(j.peers.out)) {
			for _, ref := range sortedRefs(j.peers.out) {
				if ref.Task == r.Task && ref.Output == r.Output && ref.Element >= r.First && ref.Element <= r.Last {
					c.releasedOne(j, agent, ref)
				}
			}
			continue
		}
		for n := range r.Last - r.First + 1 { // not e <= r.Last, which may be the last number there is
			c.releasedOne(j, agent, comms.DatasetRef{Task: r.Task, Output: r.Output, Element: r.First + n})
		}
	}
}

func (c *Core) releasedOne(j *job, agent string, ref comms.DatasetRef) {
	all := j.peers.out[ref]
	i := slices.IndexFunc(all, func(f *fragment) bool { return f.name == agent })
	if i < 0 {
		return
	}
	if j.counts(ref, all[i]) {
		c.consumed(j, outputKey{ref.Task, ref.Output}, ref.Element)
	}
	if len(all) == 1 {
		delete(j.peers.out, ref)
	} else {
		j.peers.out[ref] = slices.Delete(slices.Clone(all), i, i+1)
	}
	c.deref(j, ref, 1)
}

// counts tells whether an agent's need for an element holds its generator back: it
// does when all of its consumers read nothing else of that stream, for others may
// need elements that are still to come before they end.
func (j *job) counts(ref comms.DatasetRef, f *fragment) bool {
	out := &j.groupOf(ref.Task).group.Outputs[ref.Output]
	if out.Generate == dag.GenerateNone {
		return false
	}
	edges := ofOutput(j.edgesOf(ref.Task), ref.Output)
	found := false
	for _, e := range ofElement(edges, ref.Element) {
		if e.Kind != dag.SourceElement || j.awayAt(e.Consumer) != f {
			continue
		}
		if !j.single(ref, e.Consumer) {
			return false
		}
		found = true
	}
	return found
}

// single tells whether a task reads one element of an output only.
func (j *job) single(ref comms.DatasetRef, consumer taskIndex) bool {
	ins, err := j.inputs(consumer)
	if err != nil {
		return false
	}
	for _, in := range ins {
		for _, s := range in.Sources {
			if s.Task == ref.Task && s.Output == ref.Output && (s.Kind != dag.SourceElement || s.Element != ref.Element) {
				return false
			}
		}
	}
	return true
}
