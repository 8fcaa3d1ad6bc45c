package core

import (
	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/shm/ledger"
)

// take notes the datasets that this agent is to hold from now on, because who has
// them leaves. One that waits, or is here, counts as read until the next Assign:
// only then is it known who else needs it.
func (c *Core) take(j *job, all []comms.Desc) {
	for _, d := range all {
		if !j.valid(d.Ref) || j.peers == nil || d.Place.Kind != comms.PlaceAgent {
			continue
		}
		if j.takes == nil {
			j.takes = map[comms.DatasetRef]bool{}
		}
		j.takes[d.Ref] = true
		if have := j.data[d.Ref]; have != nil && !have.copy {
			c.taken(j, have) // the word of it was lost
			continue
		}
		c.grow(j, d.Ref)
		c.begin(j) // it has something to do until they are here
		c.hear(j, d.Place.Where, d)
	}
}

// adoptAll notes the datasets that this agent is to copy from other jobs, and to
// hold: from then on they are as those that it takes from an agent that leaves.
func (c *Core) adoptAll(j *job, all []comms.Adoption) {
	for i := range all {
		a := &all[i]
		ref := a.Data.Ref
		if !j.valid(ref) || j.peers == nil {
			continue
		}
		if j.takes == nil {
			j.takes = map[comms.DatasetRef]bool{}
		}
		j.takes[ref] = true
		if have := j.data[ref]; have != nil && !have.copy {
			c.taken(j, have) // the word of it was lost
			continue
		}
		c.grow(j, ref)
		c.begin(j)
		c.hear(j, c.cfg.Agent, a.Data)
		if h := j.peers.heard[ref]; h != nil {
			h.origin = a
		}
	}
}

// originOf returns the bytes of which a dataset is to be a copy, and false when
// they are not here any more.
func (c *Core) originOf(a *comms.Adoption) (ledger.Key, bool) {
	j := c.byJob[a.From.Job]
	if j == nil {
		return ledger.Key{}, false
	}
	d := j.data[a.From.DatasetRef]
	if d == nil || !d.sealed || d.desc.Attempt != a.Attempt || d.desc.Size != a.Data.Size {
		return ledger.Key{}, false
	}
	return j.key(d), true
}

// taken makes a copy the dataset that counts, and tells the controller. The agent that
// had it keeps it until the controller knows: the next epoch takes it from there.
func (c *Core) taken(j *job, d *dataset) {
	ref := d.desc.Ref
	j.takes[ref] = false
	d.copy, d.given, d.kept, j.given = false, true, true, true
	if h := j.peers.heard[ref]; h != nil {
		c.land(j, h)
		delete(j.peers.heard, ref)
	}
	c.note(j, comms.Event{Kind: comms.EventAdopted, Task: ref.Task, Attempt: d.desc.Attempt,
		Cause: comms.Cause{Kind: comms.CauseDataset, Ref: ref}, Outputs: []comms.Desc{d.desc}})
	c.touch(j)
}

// taking tells whether a job waits for a dataset that is to be held here.
func (j *job) taking() bool {
	if j.peers == nil { // it was forgotten
		return false
	}
	for ref, waits := range j.takes {
		if h := j.peers.heard[ref]; waits && h != nil && h.state < hearHere && j.stopped == nil {
			return true
		}
	}
	return false
}
