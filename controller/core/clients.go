package core

import (
	"fmt"
	"slices"
	"time"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/controller/records"
	"github.com/cascade-run/cascade/dag"
	"github.com/cascade-run/cascade/planner"
)

func (c *Core) fromClient(l *link, m comms.Message) {
	switch m := m.(type) {
	case *comms.Submit:
		c.submit(l, m)
	case *comms.Control:
		c.control(l, m)
	case *comms.Watch:
		c.watch(l, m)
	case *comms.Query:
		c.query(l, m)
	case *comms.Locate:
		c.locate(l, m)
	case *comms.Drain:
		code, text := c.drain(m)
		c.reply(l, m.Req, code, text)
	default:
		c.emit(CloseLink{Link: l.id, Why: fmt.Sprintf("a client sends no %T", m)})
	}
}

// submit makes a job, or finds the one that the same submit made before.
func (c *Core) submit(l *link, m *comms.Submit) {
	if m.Job.IsZero() {
		c.reply(l, m.Req, comms.CodeBadRequest, "submit: the job has no ID")
		return
	}
	w := waiter{link: l.id, req: m.Req, watch: m.Watch, values: m.Values, every: m.Every}
	j := c.jobs[m.Job]
	switch {
	case j == nil:
		if code, text := c.checkResume(m.Resume); code != comms.CodeOK {
			c.reply(l, m.Req, code, text)
			return
		}
		c.newJob(m, w)
	case j.graphHash() != m.GraphHash:
		c.reply(l, m.Req, comms.CodeConflict, fmt.Sprintf("job %s exists with another graph: give the new job an ID of its own", m.Job))
	case !j.durable:
		w.again = true
		j.waiters = append(j.waiters, w)
	default:
		w.again = true
		c.accept(j, w)
	}
}

func (c *Core) newJob(m *comms.Submit, w waiter) {
	c.lives++
	j := &job{id: m.Job, life: c.cfg.Incarnation + c.lives, stage: stagePreparing, live: &live{waiters: []waiter{w}}}
	j.rec = records.Job{ID: m.Job, JobIncarnation: j.life, Phase: comms.JobQueued, Tenant: m.Tenant, Priority: m.Priority, Weight: m.Weight, Dir: m.Dir,
		Labels: m.Labels, GraphHash: c.intern(m.GraphHash), Submitted: c.now.UnixNano(), Keep: m.Keep}
	if m.Hold {
		j.rec.Phase = comms.JobHeld
	}
	request := *m
	request.Graph = nil
	j.request = &request
	c.jobs[j.id], c.running[j.id] = j, j
	c.emit(Prepare{Job: j.id, Submit: m, Cluster: c.cluster()})
}

// intern returns a hash that equals the last without memory of its own: of many
// jobs with one graph it is kept once.
func (c *Core) intern(h comms.Hash) comms.Hash {
	if h != c.graph {
		c.graph = h
	}
	return c.graph
}

func (j *job) graphHash() comms.Hash {
	if j.live == nil {
		return j.remains.graph
	}
	return j.rec.GraphHash
}

// waiter is a client that waits for Accepted, or steers a job that is not durable yet.
type waiter struct {
	link   LinkID
	req    uint64
	watch  bool
	values bool
	every  int64
	again  bool
	steers bool
}

func (c *Core) accept(j *job, w waiter) {
	l := c.links[w.link]
	if l == nil {
		return
	}
	if w.steers {
		c.reply(l, w.req, comms.CodeOK, "")
		return
	}
	c.send(l, &comms.Accepted{Req: w.req, Job: j.id, Again: w.again})
	if w.watch {
		every := c.cfg.WatchEvery
		if w.every != 0 {
			every = time.Duration(w.every)
		}
		c.addWatch(l, j, &watch{link: l, req: w.req, every: every, values: w.values, accepted: true})
	}
}

// refuse ends a job that never was.
func (c *Core) refuse(j *job, code comms.Code, text string) {
	for _, w := range j.waiters {
		c.reply(c.links[w.link], w.req, code, text)
	}
	for _, w := range slices.Clone(j.watches) {
		c.reply(w.link, w.req, code, text)
		c.unwatch(w)
	}
	delete(c.jobs, j.id)
	delete(c.running, j.id)
	j.gone = true
}

func (c *Core) control(l *link, m *comms.Control) {
	j := c.jobs[m.Job]
	if j == nil || j.deleting {
		c.reply(l, m.Req, comms.CodeNotFound, fmt.Sprintf("no job %s", m.Job))
		return
	}
	// Of a job that has ended only the store knows the owner: the driver has asked it.
	if l.tenant != "" && j.live != nil && j.rec.Tenant != l.tenant {
		c.reply(l, m.Req, comms.CodeDenied, fmt.Sprintf("job %s belongs to %s: only that tenant or an admin may do that", m.Job, j.rec.Tenant))
		return
	}
	var code comms.Code
	var text string
	switch m.Action {
	case comms.SteerCancel:
		code, text = c.cancel(j, m.Reason)
	case comms.SteerHold:
		code, text = c.hold(j)
	case comms.SteerRelease:
		code, text = c.release(j)
	case comms.SteerForget:
		if j.stage != stageEnded {
			code, text = comms.CodeConflict, "the job has not ended: cancel it first"
			break
		}
		c.delete(j, pending{link: l.id, req: m.Req})
		return
	case comms.SteerRerun:
		if c.cfg.Passive {
			code, text = comms.CodeUnavailable, "this controller answers questions only"
			break
		}
		if code, text = c.rerun(j, m, l.id); code == comms.CodeOK {
			return // answered when it is known what runs
		}
	default:
		code, text = comms.CodeBadRequest, fmt.Sprintf("unknown action %d", m.Action)
	}
	if code != comms.CodeOK {
		c.reply(l, m.Req, code, text)
		return
	}
	c.answerStored(j, l, m.Req)
}

// answerStored answers a Control that is carried out when all changes of the job up to
// now are durable: a controller that starts anew knows of it then. That goes also for
// what was asked for before: it may not be stored yet.
func (c *Core) answerStored(j *job, l *link, req uint64) {
	if j.stage == stagePreparing { // Create stores it
		j.waiters = append(j.waiters, waiter{link: l.id, req: req, steers: true})
		return
	}
	c.emit(Store{Token: c.await(pending{what: onRow, link: l.id, req: req}), Commit: records.Commit{Job: j.id}})
}

func (c *Core) cancel(j *job, why string) (comms.Code, string) {
	if j.live == nil {
		return comms.CodeConflict, fmt.Sprintf("the job has ended already: %s", j.remains.phase)
	}
	if j.ending != nil || j.rec.Phase.Final() {
		return comms.CodeConflict, fmt.Sprintf("the job has ended already: %s", j.rec.Phase)
	}
	if why == "" {
		why = "cancelled by a client"
	}
	if j.rec.Cancel != "" {
		return comms.CodeOK, ""
	}
	j.rec.Cancel = why
	if j.stage == stagePreparing {
		return comms.CodeOK, "" // ends when it is prepared
	}
	if c.cfg.Passive && j.stage == stageActive {
		c.endUnassigned(j)
		return comms.CodeOK, ""
	}
	if slices.ContainsFunc(j.parts, func(p *part) bool { return c.here(p) != nil }) {
		c.storeRow(j)
		c.stopAgents(j)
		return comms.CodeOK, ""
	}
	if j.stage == stageActive && j.stopped() { // of those that had it all are gone, if there were any
		c.endUnassigned(j)
		return comms.CodeOK, ""
	}
	c.storeRow(j) // told to the agent when it is back, unless it is given up before
	return comms.CodeOK, ""
}

// stopAgents has the agents of a job that is being cancelled end what they have of it.
func (c *Core) stopAgents(j *job) {
	c.steer(j, comms.SteerCancel, j.rec.Cancel)
	if j.stage == stageActive && j.stopped() {
		c.endUnassigned(j) // what there is to run was run
	}
}

func (c *Core) hold(j *job) (comms.Code, string) {
	if j.live == nil || j.ending != nil || j.rec.Phase.Final() || j.rec.Cancel != "" {
		return comms.CodeConflict, "the job has ended or is being cancelled"
	}
	if j.rec.Phase == comms.JobHeld {
		return comms.CodeOK, ""
	}
	j.rec.Phase = comms.JobHeld
	if j.stage != stagePreparing {
		c.storeRow(j)
	}
	c.steer(j, comms.SteerHold, "")
	c.touch(j)
	return comms.CodeOK, ""
}

func (c *Core) release(j *job) (comms.Code, string) {
	if j.live == nil {
		return comms.CodeConflict, fmt.Sprintf("the job is not held: it is %s", j.remains.phase)
	}
	if j.rec.Phase != comms.JobHeld {
		return comms.CodeConflict, fmt.Sprintf("the job is not held: it is %s", j.rec.Phase)
	}
	if j.ending != nil {
		return comms.CodeConflict, "the job has ended"
	}
	j.rec.Phase = comms.JobQueued
	if j.rec.Agent != "" {
		j.rec.Phase = comms.JobRunning
	}
	if j.stage == stagePreparing {
		return comms.CodeOK, ""
	}
	c.steer(j, comms.SteerRelease, "")
	c.storeRow(j)
	c.touch(j)
	c.place(j)
	return comms.CodeOK, ""
}

// query answers small questions from memory and leaves the others to the store.
func (c *Core) query(l *link, m *comms.Query) {
	var g *dag.Graph
	switch m.Kind {
	case comms.QueryAgents:
		c.emit(Ask{Token: c.await(pending{what: onAnswered, link: l.id}), Msg: m, Agents: c.agentRows()})
		return
	case comms.QueryUse:
		c.emit(Ask{Token: c.await(pending{what: onAnswered, link: l.id}), Msg: m, Uses: c.useRows()})
		return
	case comms.QueryJobs:
		c.emit(Ask{Token: c.await(pending{what: onAnswered, link: l.id}), Msg: m, Waits: c.waiting()})
		return
	case comms.QueryProfiles, comms.QueryLinks:
	default:
		if m.Job.IsZero() && m.Kind != comms.QueryDatasets && m.Kind != comms.QueryEnvironments {
			c.reply(l, m.Req, comms.CodeBadRequest, fmt.Sprintf("a query of %s needs a job", m.Kind))
			return
		}
		if !m.Job.IsZero() {
			j := c.jobs[m.Job]
			if j == nil || !j.durable {
				c.reply(l, m.Req, comms.CodeNotFound, fmt.Sprintf("no job %s", m.Job))
				return
			}
			if j.live != nil {
				g = j.graph
			}
		}
	}
	a := Ask{Token: c.await(pending{what: onAnswered, link: l.id}), Msg: m, Graph: g}
	if m.Kind == comms.QueryPlan {
		a.Cluster = c.cluster()
	}
	c.emit(a)
}

func (c *Core) agentRows() (rows []comms.AgentRow) {
	for _, a := range c.sortedAgents() {
		row := comms.AgentRow{Name: a.row.Name, State: a.stands(), Platform: a.row.Platform, Version: a.build, CPU: float64(a.row.Total.CPU) / 1000, Memory: a.row.Total.Memory,
			GPU: float64(a.row.Total.GPU) / 1000, Addresses: a.row.Addresses, Sessions: a.sessions, Use: a.uses.row()}
		for _, r := range a.row.Total.Custom {
			if row.Resources == nil {
				row.Resources = map[string]float64{}
			}
			row.Resources[r.Name] = float64(r.N) / 1000
		}
		for _, d := range a.row.Total.Devices {
			row.Devices = append(row.Devices, comms.DeviceRow(d))
		}
		seen := a.row.Seen
		if a.link != nil {
			seen = c.now.UnixNano()
		}
		if seen != 0 {
			row.Seen = time.Unix(0, seen).UTC().Format(time.RFC3339Nano)
		}
		for _, j := range c.running {
			if j.partOf(a.row.Name) != nil {
				row.Jobs++
				row.Running += j.runningOn(a.row.Name)
			}
		}
		rows = append(rows, row)
	}
	return rows
}

// runningOn counts the tasks of a job that run on an agent.
func (j *job) runningOn(name string) (n uint64) {
	if j.states == nil {
		return 0
	}
	if len(j.parts) < 2 {
		for _, g := range j.states.groups {
			n += g.Running
		}
		return n
	}
	j.states.Each(func(t dag.TaskIndex, s TaskState) {
		if s != TaskRunning {
			return
		}
		if k := j.ownerOf(t); k != nobody && j.parts[k].agent == name {
			n++
		}
	})
	return n
}

// locate answers for a running job's exports from memory, which may be ahead of
// the store, and leaves everything else to the store.
func (c *Core) locate(l *link, m *comms.Locate) {
	j := c.jobs[m.Job]
	if j == nil || !j.durable && j.stage == stagePreparing {
		c.reply(l, m.Req, comms.CodeNotFound, fmt.Sprintf("no job %s", m.Job))
		return
	}
	if j.live == nil || len(m.Names) > 0 || m.Partly || j.states == nil {
		ask := Ask{Token: c.await(pending{what: onAnswered, link: l.id}), Msg: m}
		if j.live != nil {
			ask.Graph = j.graph
		}
		c.emit(ask)
		return
	}
	located, missing := LocateExports(j.graph, j.states, j.exports)
	if len(missing) > 0 {
		c.reply(l, m.Req, comms.CodeUnavailable, fmt.Sprintf("output %s is not there yet", missing[0]))
		return
	}
	out := &comms.Located{Req: m.Req, Data: located}
	c.addresses(out)
	c.send(l, out)
}

// addresses says where the agents of located datasets are.
func (c *Core) addresses(m *comms.Located) {
	for i := range m.Data {
		if a := c.agents[m.Data[i].Agent]; a != nil {
			m.Data[i].Addresses = a.row.Addresses
		}
	}
}

// cluster is what plans are made for: the agents that are there.
func (c *Core) cluster() planner.Cluster {
	out := planner.Cluster{Bandwidth: c.cfg.Bandwidth}
	for _, a := range c.sortedAgents() {
		if a.stays() {
			out.Hosts = append(out.Hosts, a.host())
		}
	}
	if len(out.Hosts) > 1 {
		out.Builds = c.knownBuilds()
	}
	return out
}
