package core

import (
	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/controller/records"
	"github.com/cascade-run/cascade/dag"
)

// place gives a job that waits to an agent, or to several.
func (c *Core) place(j *job) {
	if !c.started || c.cfg.Passive || j.stage != stageActive || j.rec.Agent != "" || j.rec.Phase != comms.JobQueued || j.rec.Cancel != "" || j.ending != nil || j.deleting || j.better != nil {
		return
	}
	a := c.choose(j, j.graph)
	spreads := c.spreads(j)
	switch {
	case a == nil && !c.shareable(j):
		c.touch(j) // what it waits for may be another thing now
		return
	case (a == nil || spreads) && !j.durable:
		return // created comes back to it
	case j.plan == nil || j.rec.Epoch > 0 || j.rec.Batches > 0 || j.resumes(), // something has happened to it before: who had it forgets that first
		a == nil && !spreads: // the plan is for other hosts
		c.recover(j, "", false)
		return
	case spreads:
		c.share(j)
		return
	}
	m := c.assignment(j, a)
	c.storeRow(j)
	c.sendAssign(a, j, j.parts[0], m)
	c.touch(j)
}

// spreads tells whether the plan of a job is to cut it into fragments.
func (c *Core) spreads(j *job) bool { return c.cfg.Spread && j.plan != nil && j.plan.Homes != nil }

// share gives a job in which nothing has happened yet to several agents. They are
// told when it is durable who has what: a controller that knew only some of that
// would take a fragment for the whole.
func (c *Core) share(j *job) {
	run := make([]dag.TaskIndex, j.graph.NumTasks())
	for i := range run {
		run[i] = dag.TaskIndex(i)
	}
	s := c.settle(j, "", run, nil, nil)
	if len(s.parts) == 0 {
		return
	}
	batch := c.decision(j, s, nil, nil, "")
	c.hand(j, s, run, nil)
	c.storeDecision(j, batch, RestartLost, nil, pending{what: onRow, job: j, send: j.assign})
	c.touch(j)
}

// assignment moves a job to an agent, at a new epoch, and returns what to tell it.
func (c *Core) assignment(j *job, a *agent) *comms.Assign {
	c.begin(j, []*part{{agent: a.row.Name, incarnation: a.row.Incarnation, from: j.rec.Epoch + 1}})
	m := c.order(j, 0)
	j.plan = nil // another assignment needs another plan
	return m
}

// begin opens a new epoch of a job, with those who work on it.
func (c *Core) begin(j *job, parts []*part) {
	j.rec.Epoch++
	j.spare = nil // agents learn from their orders whose tasks are
	j.gatherings, j.split = nil, nil
	j.setParts(parts)
	if j.rec.Phase == comms.JobQueued {
		j.rec.Phase = comms.JobRunning
	}
	if j.rec.Started == 0 {
		j.rec.Started = c.now.UnixNano()
	}
}

// order is what a part of a job is told in any case.
func (c *Core) order(j *job, k int) *comms.Assign {
	m := &comms.Assign{Job: j.id, JobIncarnation: j.rec.JobIncarnation, Epoch: j.rec.Epoch, Graph: j.bytes, Dir: j.rec.Dir, Priority: j.rec.Priority,
		Weight: j.rec.Weight, Tenant: j.rec.Tenant, Hold: j.rec.Phase == comms.JobHeld, Registry: j.request.Registry, Larger: c.larger(j.parts[k].agent)}
	if j.plan != nil {
		j.held = j.plan.Held
		m.Ranks, m.Fuse, m.Seconds = sentRanks(j.plan.Order()), sentPaths(j.pathsOf(k, j.plan.Fuse)), j.plan.Seconds
	}
	for _, n := range j.held { // those who join the job later, too, are told
		m.Memory = append(m.Memory, uint64(n))
	}
	return m
}

// pathsOf returns what lies in a part of paths that are to be fused.
func (j *job) pathsOf(k int, paths [][]dag.TaskIndex) (out [][]dag.TaskIndex) {
	if len(j.parts) < 2 {
		return paths
	}
	for _, path := range paths {
		from := 0
		for i := 0; i <= len(path); i++ {
			if i < len(path) && j.ownerOf(path[i]) == k {
				continue
			}
			if i-from > 1 {
				out = append(out, path[from:i])
			}
			from = i + 1
		}
	}
	return out
}

// maxRanks is the most ranks that an Assign carries, ten bytes each where all
// differ: more would not fit a message.
const maxRanks = 6_000_000

// sentRanks leaves out ranks that tell nothing, being equal, or that are too
// many: then tasks go in the order of their numbers.
func sentRanks(ranks []float64) []byte {
	if len(ranks) > maxRanks {
		return nil
	}
	for _, r := range ranks {
		if r != ranks[0] {
			return comms.AppendRanks(nil, ranks)
		}
	}
	return nil
}

// sentPaths leaves out paths of more tasks than a message carries.
func sentPaths(paths [][]dag.TaskIndex) []byte {
	tasks := 0
	for _, p := range paths {
		tasks += len(p)
	}
	if tasks == 0 || tasks > maxRanks {
		return nil
	}
	return comms.AppendPaths(nil, paths)
}

// blobSize is the size from which a graph goes ahead of its Assign, in pieces of that size.
const blobSize = 1 << 20

func (c *Core) sendAssign(a *agent, j *job, p *part, m *comms.Assign) {
	if len(m.Graph) > blobSize {
		for at := 0; at < len(m.Graph); at += blobSize {
			piece := m.Graph[at:min(at+blobSize, len(m.Graph))]
			c.sendBody(a.link, &comms.Blob{Hash: j.rec.GraphHash, Offset: uint64(at), Total: uint64(len(m.Graph))}, piece)
		}
		m.Graph, m.GraphHash = nil, j.rec.GraphHash
	}
	p.told, p.fresh = m.Epoch, false
	c.send(a.link, m)
}

// sendKept sends each Assign that waited for its row to be durable, and what was
// asked of the job meanwhile: the agents were told that before they had the job so.
func (c *Core) sendKept(j *job, o *orders) {
	for k, p := range o.parts {
		a := c.here(p)
		if a == nil || a.row.Incarnation != p.incarnation {
			continue
		}
		m := o.to[k]
		m.Hold = j.rec.Phase == comms.JobHeld
		c.sendAssign(a, j, p, m)
		if j.rec.Cancel != "" {
			c.send(a.link, &comms.Steer{Job: j.id, JobIncarnation: j.rec.JobIncarnation, Action: comms.SteerCancel, Reason: j.rec.Cancel})
		}
	}
}

// storeRow stores the row of a job; nothing waits for it.
func (c *Core) storeRow(j *job) {
	if !j.durable && j.stage == stagePreparing {
		return // Create stores it
	}
	row := j.rec
	c.emit(Store{Token: c.await(pending{what: onRow}), Commit: records.Commit{Job: j.id, Row: &row}})
}
