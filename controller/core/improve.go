package core

import (
	"slices"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/planner"
)

// improvement is a search for a better plan that is under way. Its result is for the
// epoch at which it began, and for the hosts that there were.
type improvement struct {
	token uint64
	epoch uint64
	hosts []string
	first *planner.Plan // in place of which it is looked for
}

// planFirst begins to look for a better plan of a job that no agent has yet, and
// tells whether it is to be waited for: where a task runs is decided once, and
// the search takes a hundredth of what the job takes.
func (c *Core) planFirst(j *job) bool {
	cl := c.cluster()
	return c.cfg.Spread && len(cl.Hosts) > 1 && c.improve(j, j.plan, cl, true)
}

// improve has a better plan looked for, where that can pay.
func (c *Core) improve(j *job, first *planner.Plan, cl planner.Cluster, urgent bool) bool {
	effort := c.cfg.Effort
	if effort.Evaluations == 0 {
		effort = planner.Worth(j.graph, first, &cl)
	}
	if effort.Evaluations == 0 || first.Contended || len(first.Ranks) > maxRanks {
		return false
	}
	c.token++
	j.better = &improvement{token: c.token, epoch: j.rec.Epoch, hosts: names(&cl), first: first}
	c.emit(Improve{Token: c.token, Job: j.id, Hash: j.rec.GraphHash, Graph: j.graph, First: first, Cluster: cl, Effort: effort, Urgent: urgent})
	return true
}

func names(cl *planner.Cluster) (out []string) {
	for i := range cl.Hosts {
		out = append(out, cl.Hosts[i].Name)
	}
	return out
}

// improved goes by a better plan: a job that no agent has yet is placed by it, the
// agents of one that runs are told in which order to go on. A plan for hosts or an
// epoch that are past is dropped.
func (c *Core) improved(ev *Improved) {
	j := c.jobs[ev.Job]
	if j == nil || j.live == nil || j.better == nil || j.better.token != ev.Token {
		return
	}
	b := j.better
	j.better = nil
	if ev.Plan != nil && j.rec.Epoch == b.epoch {
		c.warnLate(j, ev.Plan)
	}
	switch {
	case j.rec.Epoch != b.epoch || j.stage != stageActive || j.ending != nil:
	case j.rec.Agent != "":
		c.rerank(j, b.first, ev.Plan)
		return
	case ev.Plan != nil && j.plan != nil:
		if cl := c.cluster(); slices.Equal(names(&cl), b.hosts) {
			j.plan = ev.Plan
		}
	}
	j.planned = true
	c.place(j)
}

// rerank tells those who work on a job the order of a plan in place of the one
// that they have.
func (c *Core) rerank(j *job, old, now *planner.Plan) {
	if now == nil || j.assign != nil || old != nil && slices.Equal(old.Order(), now.Order()) {
		return
	}
	ranks := sentRanks(now.Order())
	if ranks == nil {
		return
	}
	for _, part := range j.parts {
		if a := c.here(part); a != nil && part.told == j.rec.Epoch {
			c.send(a.link, &comms.Steer{Job: j.id, JobIncarnation: j.rec.JobIncarnation, Action: comms.SteerRank, Reason: now.Method, Epoch: j.rec.Epoch, Ranks: ranks})
		}
	}
}

// warnLate warns watchers, and by the driver everyone else, that a plan misses
// deadlines. A warning is not repeated.
func (c *Core) warnLate(j *job, p *planner.Plan) {
	text := p.LateText(j.graph)
	if text == j.late {
		return
	}
	j.late = text
	c.touch(j)
	if text != "" {
		c.emit(Warn{Job: j.id, Name: j.graph.Name, Tenant: j.rec.Tenant, Text: text})
	}
}

func (j *job) lateText() string {
	if j.live == nil {
		return ""
	}
	return j.late
}

// departed orders a running job anew: tasks that have not started go by the durations
// that are known by now. Running tasks go on, and each task stays where it is.
func (c *Core) departed(id comms.JobID) {
	j := c.jobs[id]
	if j == nil || j.live == nil || j.better != nil || j.stage != stageActive || j.rec.Agent == "" || j.ending != nil || j.graph.NumTasks() > maxRanks {
		return
	}
	cl := c.cluster()
	c.token++
	j.better = &improvement{token: c.token, epoch: j.rec.Epoch, hosts: names(&cl)}
	c.emit(Improve{Token: c.token, Job: j.id, Hash: j.rec.GraphHash, Graph: j.graph, Cluster: cl})
}
