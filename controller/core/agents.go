package core

import (
	"fmt"
	"slices"
	"time"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/controller/records"
	"github.com/cascade-run/cascade/planner"
)

// agent is one that has ever registered.
type agent struct {
	row      records.Agent
	link     *link // nil while it is away
	synced   bool  // its snapshot is complete: it may be given work
	away     time.Time
	fresh    bool // this incarnation is new to us
	snapshot []comms.JobState
	intake   intake             // events of this incarnation
	leaving  *departure         // it leaves the cluster; nil while it stays
	work     workload           // how much it has to do
	weighed  bool               // it was asked how much work waits
	backlog  *comms.LoadReport  // what it said last of that; nil: nothing that still is so
	built    []uint64           // environments that it has, by planner.EnvironmentID
	building map[buildKey]int64 // when it began to build what is not there yet
	takes    bool               // it runs calls of other agents
	gathers  bool               // it starts members of gangs together with other agents
	sessions string             // where programs of its host open sessions
	build    string             // version of its program; "" unknown
	store    int64              // bytes that it has for datasets; 0 unknown
	uses     uses               // of its host
}

func (a *agent) host() planner.Host {
	h := HostOf(&a.row)
	h.Built, h.Alone, h.Store = a.built, !a.gathers, a.store
	return h
}

func (c *Core) fromAgent(l *link, m comms.Message) {
	if reg, ok := m.(*comms.Register); ok {
		c.register(l, reg)
		return
	}
	a := c.agents[l.name]
	if a == nil || a.link != l {
		switch m.(type) {
		case *comms.Events, *comms.Snapshot, *comms.DrainStatus, *comms.LoadReport, *comms.StealReply, *comms.Where, *comms.GangStatus, *comms.Use, *comms.Submit, *comms.Control:
			return // it was on its way when the link changed, and comes again behind Register
		}
		c.emit(CloseLink{Link: l.id, Why: fmt.Sprintf("agent %s sends %T before Register", l.name, m)})
		return
	}
	switch m := m.(type) {
	case *comms.Snapshot:
		a.snapshot = append(a.snapshot, m.Jobs...)
		if m.Done {
			c.synced(a)
		}
	case *comms.Events:
		c.events(a, m)
	case *comms.DrainStatus:
		c.inHand(a, m)
	case *comms.LoadReport:
		a.backlog = m
		c.even()
	case *comms.StealReply:
		c.spared(a, m)
	case *comms.Where:
		c.where(a, m)
	case *comms.Use:
		a.uses.add(c.now, m)
	case *comms.GangStatus:
		c.muster(a, m)
	case *comms.Submit: // a task of its runs a graph
		c.submit(l, m)
	case *comms.Control:
		c.control(l, m)
	default:
		c.emit(CloseLink{Link: l.id, Why: fmt.Sprintf("an agent sends no %T", m)})
	}
}

func (c *Core) register(l *link, m *comms.Register) {
	if m.Agent != l.name || m.Total.CPU <= 0 {
		c.emit(CloseLink{Link: l.id, Why: fmt.Sprintf("agent %q registers as %q with cpu %d", l.name, m.Agent, m.Total.CPU)})
		return
	}
	a := c.agents[m.Agent]
	if a == nil {
		a = &agent{}
		c.agents[m.Agent] = a
	}
	if a.row.Incarnation != m.Incarnation {
		a.fresh, a.intake, a.building = true, intake{}, nil
	}
	a.row = records.Agent{Name: m.Agent, Incarnation: m.Incarnation, Addresses: m.Addresses, Total: m.Total, BootID: m.BootID,
		Seen: c.now.UnixNano(), Platform: m.Platform}
	a.link, a.synced, a.snapshot, a.away, a.leaving = l, false, nil, time.Time{}, nil
	a.takes, a.gathers, a.store, a.sessions, a.build = m.Takes, m.Gathers, m.Store, m.Sessions, l.build
	c.changed()
	a.work = workload{cores: float64(m.Total.CPU) / 1000}
	c.unasked(a)
	c.emit(StoreAgent{a.row})
	if a.intake.committed > 0 {
		c.send(l, &comms.Committed{UpTo: a.intake.committed})
	}
}

// synced runs when an agent has told all that it has: jobs that it works on go
// on, those that it lost start again there, those that are over are cleaned up.
func (c *Core) synced(a *agent) {
	a.synced = true
	c.changed()
	has := map[comms.JobID]bool{}
	for i := range a.snapshot {
		js := &a.snapshot[i]
		j := c.jobs[js.Job]
		if j != nil && j.life != js.JobIncarnation {
			// Of a job that was lost before it was durable, or deleted, and submitted anew.
			c.disown(a, j, js.Job, js.JobIncarnation)
			continue
		}
		has[js.Job] = true
		switch {
		case j == nil || j.deleting:
			c.disown(a, j, js.Job, js.JobIncarnation)
		case j.atEnd():
			c.adoptEnded(j, a, js)
		case owns(j, a, js):
			c.adopt(j, a, js)
		case c.cfg.Passive: // it stays as it is
		case j.lastOn(a.row.Name):
			p := j.partOf(a.row.Name)
			p.gone, p.have = false, nil
			p.hear(js)
			if p.incarnation != a.row.Incarnation {
				p.lost(a, js.Datasets)
			}
			c.takeUp(j, a)
		default:
			c.disown(a, j, js.Job, js.JobIncarnation)
		}
	}
	if c.cfg.Passive {
		a.snapshot, a.fresh = nil, false
		return
	}
	for _, j := range c.sortedKept() {
		if j.lastOn(a.row.Name) && !has[j.id] {
			c.adoptKept(j, a, &comms.JobState{})
		}
	}
	for _, j := range c.sortedJobs() {
		p := j.partOf(a.row.Name)
		switch {
		case p == nil || has[j.id]:
		case j.atEnd():
			c.adoptKept(j, a, &comms.JobState{})
		default: // the agent does not know the job
			p.told, p.drained, p.gone, p.have = j.rec.Epoch, j.rec.Epoch, false, nil
			if p.incarnation != a.row.Incarnation || len(j.parts) > 1 {
				p.lost(a, nil)
			}
			c.takeUp(j, a)
		}
	}
	a.snapshot, a.fresh = nil, false
	for _, j := range c.sortedJobs() {
		switch {
		case j.stage == stageActive && j.ending == nil && (j.anyGone() || j.rec.Homeless):
			c.goOn(j)
		case !j.atEnd() && j.rec.Cancel == "" && (j.rec.Homeless || slices.ContainsFunc(j.parts, c.moves)):
			c.recover(j, "", false) // this agent can take over from one that leaves; of a job that goes on for a client, too: that may be refused
		default:
			c.place(j)
		}
	}
	c.weighAll()
}

// lost says that the process of an agent is gone; another came, which has datasets.
// That knows of no epoch: what it says of what it has found is not of an earlier one.
func (p *part) lost(a *agent, have []comms.Desc) {
	p.gone, p.have = true, map[comms.DatasetRef]comms.Desc{}
	if p.incarnation != a.row.Incarnation {
		p.from = 0
	}
	for i := range have {
		p.have[have[i].Ref] = have[i]
	}
}

// takeUp makes a job go on at an agent that never got the last Assign. One that is
// being cancelled ends when no other agent has to say that nothing of it runs: the
// agent has nothing of it to stop, or is told to, and may have said so long ago.
func (c *Core) takeUp(j *job, a *agent) {
	if j.rec.Cancel == "" || j.stage != stageActive && j.stage != stageRecovering || j.ending != nil || j.deleting {
		c.recover(j, a.row.Name, false)
		return
	}
	c.send(a.link, &comms.Steer{Job: j.id, JobIncarnation: j.rec.JobIncarnation, Action: comms.SteerCancel, Reason: j.rec.Cancel})
	if len(j.parts) < 2 || j.stopped() {
		c.endUnassigned(j)
	}
}

// owns tells whether the last Assign of a job went to this agent and its process
// still has it. A higher epoch than ours was sent, and not stored before a
// controller died; of a job on several agents each is stored before it is sent.
func owns(j *job, a *agent, js *comms.JobState) bool {
	if len(j.parts) > 1 {
		p := j.partOf(a.row.Name)
		return p != nil && js.Epoch == j.rec.Epoch && p.incarnation == a.row.Incarnation
	}
	if js.Epoch != j.rec.Epoch || js.Epoch == 0 {
		return js.Epoch > j.rec.Epoch
	}
	return j.rec.Agent == "" || j.rec.Agent == a.row.Name && j.rec.Incarnation == a.row.Incarnation
}

// adopt goes on with a job that the agent works on; what was asked of the job
// while the agent was away is asked again.
func (c *Core) adopt(j *job, a *agent, js *comms.JobState) {
	p := j.partOf(a.row.Name)
	was := p != nil && p.gone
	if was {
		p.gone, p.have = false, nil
	}
	if r := j.recovering; r != nil && (was || p == nil) && !j.anyGone() && (len(j.parts) < 2 || !r.asked) { // it was to go on elsewhere
		c.unrecover(j)
		c.giveUp(j)
		if l := c.links[r.link]; l != nil && len(r.rerun) > 0 {
			c.reply(l, r.req, comms.CodeUnavailable, "the job's agent has just come back: try again")
		}
	}
	if p == nil || j.rec.Epoch != js.Epoch {
		j.rec.Epoch = js.Epoch
		var from uint64
		if p != nil {
			from = p.from
		}
		p = &part{agent: a.row.Name, incarnation: a.row.Incarnation, from: from}
		j.setParts([]*part{p})
		if j.rec.Phase == comms.JobQueued {
			j.rec.Phase = comms.JobRunning
		}
		c.storeRow(j)
	}
	p.hear(js)
	switch {
	case j.rec.Cancel != "":
		c.send(a.link, &comms.Steer{Job: j.id, JobIncarnation: j.rec.JobIncarnation, Action: comms.SteerCancel, Reason: j.rec.Cancel})
	case j.rec.Phase == comms.JobHeld:
		c.send(a.link, &comms.Steer{Job: j.id, JobIncarnation: j.rec.JobIncarnation, Action: comms.SteerHold})
	default:
		c.send(a.link, &comms.Steer{Job: j.id, JobIncarnation: j.rec.JobIncarnation, Action: comms.SteerRelease})
	}
	switch {
	case j.recovering != nil:
	case j.redo, len(j.states.tornGangs())+len(j.states.outgrownTasks())+len(j.states.missedTasks())+len(j.outdated()) > 0:
		c.recover(j, "", false)
	case j.states.lacks(): // it said so to a controller before, which died
		c.recover(j, a.row.Name, true)
	default:
		c.overBefore(j)
	}
}

// adoptEnded deals with a job that has ended and that an agent still has.
func (c *Core) adoptEnded(j *job, a *agent, js *comms.JobState) {
	epoch := j.lastEpoch()
	if !j.lastOn(a.row.Name) {
		c.disown(a, j, js.Job, js.JobIncarnation)
		return
	}
	why := ""
	switch {
	case js.Epoch > *epoch: // a rerun that was never durable
		*epoch, why = js.Epoch, "the controller lost the request"
	case j.live == nil && j.remains.stopped && !js.Drained: // while it was away
		why = "the job was stopped"
	}
	if why != "" {
		c.send(a.link, &comms.Steer{Job: js.Job, JobIncarnation: js.JobIncarnation, Action: comms.SteerCancel, Reason: why})
	}
	c.adoptKept(j, a, js)
	if j.live == nil || j.ending == nil { // else when the end is durable: see ended
		c.retain(j, a)
	}
}

// lastEpoch returns the epoch at which a job was assigned last.
func (j *job) lastEpoch() *uint64 {
	if j.live == nil {
		return &j.remains.epoch
	}
	return &j.rec.Epoch
}

// adoptKept brings the rows of an ended job's datasets in line with what the
// agent that kept them still has.
func (c *Core) adoptKept(j *job, a *agent, js *comms.JobState) {
	if !a.fresh {
		return
	}
	have := map[comms.DatasetRef]*comms.Desc{}
	for i := range js.Datasets {
		have[js.Datasets[i].Ref] = &js.Datasets[i]
	}
	commit := records.Commit{Job: j.id}
	for _, d := range sortedData(j.exports) {
		now, old := have[d.Desc.Ref], d.Desc.Place.Kind
		switch {
		case d.Agent != a.row.Name && j.shared():
			continue
		case old == comms.PlaceInline || old == comms.PlaceNone && now == nil:
			continue
		case now == nil:
			d.Desc.Place = comms.Place{}
		default:
			d.Desc = *now
		}
		j.have(d)
		commit.Datasets = append(commit.Datasets, d)
	}
	if len(commit.Datasets) > 0 {
		c.emit(Store{Token: c.await(pending{what: onRow}), Commit: commit})
	}
}

// retain tells the agent which datasets of an ended job to keep.
func (c *Core) retain(j *job, a *agent) {
	keep := make([]comms.DatasetRef, 0, len(j.exports))
	for ref, d := range j.exports {
		if !j.shared() || d.Agent == a.row.Name {
			keep = append(keep, ref)
		}
	}
	slices.SortFunc(keep, comms.DatasetRef.Compare)
	c.send(a.link, &comms.Retain{Job: j.id, JobIncarnation: j.life, Keep: keep})
}

// goOn makes a job go on of which an agent is lost, or which has tasks for which
// there was no agent, if there is one now.
func (c *Core) goOn(j *job) {
	switch {
	case j.rec.Cancel != "":
		if j.stopped() {
			c.endUnassigned(j)
		}
	case j.losesSession():
		c.loseSession(j)
	case slices.ContainsFunc(j.parts, func(p *part) bool { return c.here(p) != nil }), c.choose(j, j.graph) != nil, c.shareable(j), j.fails():
		c.recover(j, "", false)
	}
}
