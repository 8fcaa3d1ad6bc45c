package core

import (
	"github.com/cascade-run/cascade/comms"
)

// place gives a job that waits to an agent.
func (c *Core) place(j *job) {
	if !c.started || c.cfg.Passive || j.stage != stageActive || j.rec.Agent != "" || j.rec.Phase != comms.JobQueued || j.rec.Cancel != "" || j.ending != nil || j.deleting {
		return
	}
	a := c.choose(j, j.graph)
	if a == nil {
		c.touch(j) // what it waits for may be another thing now
		return
	}
	if j.plan == nil || j.rec.Batches > 0 { // something has happened to it before
		c.resume(j, a, nil)
		return
	}
	m := c.assignment(j, a)
	c.storeRow(j)
	c.sendAssign(a, j, m)
	c.touch(j)
}

// assignment moves a job to an agent, at a new epoch, and returns what to tell it.
func (c *Core) assignment(j *job, a *agent) *comms.Assign {
	j.rec.Epoch++
	j.rec.Agent, j.rec.Incarnation = a.row.Name, a.row.Incarnation
	if j.rec.Phase == comms.JobQueued {
		j.rec.Phase = comms.JobRunning
	}
	if j.rec.Started == 0 {
		j.rec.Started = c.now.UnixNano()
	}
	m := &comms.Assign{Job: j.id, Life: j.rec.Life, Epoch: j.rec.Epoch, Graph: j.bytes, Dir: j.rec.Dir, Priority: j.rec.Priority,
		Weight: j.rec.Weight, Owner: j.rec.Owner, Hold: j.rec.Phase == comms.JobHeld, Registry: j.request.Registry}
	if j.plan != nil {
		m.Ranks, m.Fuse, m.Seconds = sentRanks(j.plan.Ranks), j.plan.Fuse, j.plan.Seconds
		j.plan = nil // another assignment needs another plan
	}
	return m
}

// maxRanks is the most ranks that an Assign carries, nine bytes each: more would
// not fit a message.
const maxRanks = 6_000_000

// sentRanks leaves out ranks that tell nothing, being equal, or that are too
// many: then tasks go in the order of their numbers.
func sentRanks(ranks []float64) []float64 {
	if len(ranks) > maxRanks {
		return nil
	}
	for _, r := range ranks {
		if r != ranks[0] {
			return ranks
		}
	}
	return nil
}

// blobSize is the size from which a graph goes ahead of its Assign, in pieces of that size.
const blobSize = 1 << 20

func (c *Core) sendAssign(a *agent, j *job, m *comms.Assign) {
	if len(m.Graph) > blobSize {
		for at := 0; at < len(m.Graph); at += blobSize {
			piece := m.Graph[at:min(at+blobSize, len(m.Graph))]
			c.sendBody(a.link, &comms.Blob{Hash: j.rec.GraphHash, Offset: uint64(at), Total: uint64(len(m.Graph))}, piece)
		}
		m.Graph, m.GraphHash = nil, j.rec.GraphHash
	}
	j.told = m.Epoch
	c.send(a.link, m)
}

// sendKept sends an Assign that waited for its row to be durable, and what was
// asked of the job meanwhile: the agent was told that before it had the job so.
func (c *Core) sendKept(j *job, m *comms.Assign) {
	a := c.runsOn(j)
	if a == nil {
		return
	}
	m.Hold = j.rec.Phase == comms.JobHeld
	c.sendAssign(a, j, m)
	if j.rec.Cancel != "" {
		c.send(a.link, &comms.Steer{Job: j.id, Life: j.rec.Life, Action: comms.SteerCancel, Reason: j.rec.Cancel})
	}
}

// storeRow stores the row of a job; nothing waits for it.
func (c *Core) storeRow(j *job) {
	if !j.durable && j.stage == stagePreparing {
		return // Create stores it
	}
	row := j.rec
	c.emit(Store{Token: c.await(pending{what: onRow}), Commit: Commit{Job: j.id, Row: &row}})
}
