package core

import (
	"slices"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/controller/records"
	"github.com/cascade-run/cascade/dag"
)

// part is what one agent does of a job that runs: all of it, or a fragment.
type part struct {
	agent       string
	incarnation uint64        // of the agent when it was assigned
	from        uint64        // epoch at which the agent came in: what it says of an earlier one is void; 0 none is
	run         []comms.Range // tasks; not looked at when the job has one part
	told        uint64        // epoch that the agent has: of the Assign that was sent last, or its own word
	drained     uint64        // epoch at which it said last that nothing more runs
	runs        bool          // it runs something since it said so: what it says again of an earlier end is void
	fresh       bool          // nothing of the job runs at the agent before it is told of the next epoch
	gone        bool          // nothing of the job runs there: its process has ended, or it is away for too long
	have        map[comms.DatasetRef]comms.Desc
	// have: what the process has that came after one that is gone; nil while none came.
}

// idle tells whether all has ended that the agent was told to run.
func (p *part) idle() bool { return !p.gone && p.drained > 0 && p.drained == p.told }

// hear takes in what an agent's snapshot says of the job: whether it has come to its end
// there. It may have begun something anew since it said so. A process that knows of no epoch
// has found datasets, and was never told what to run.
func (p *part) hear(js *comms.JobState) {
	p.told, p.runs = js.Epoch, len(js.Running) > 0 && !js.Drained
	p.fresh = p.fresh || js.Epoch == 0
	switch {
	case js.Drained:
		p.drained = js.Epoch
	case p.runs:
		p.drained = 0
	}
}

// partsOf returns the parts of a job as they were stored.
func partsOf(r *records.Job, given []records.Assignment) []*part {
	if r.Agent == "" {
		return nil
	}
	if len(r.Assignments) == 0 {
		return []*part{{agent: r.Agent, incarnation: r.Incarnation}}
	}
	out := make([]*part, len(r.Assignments))
	for i, f := range r.Assignments {
		out[i] = &part{agent: f.Agent, incarnation: f.Incarnation, from: f.From}
		if k := slices.IndexFunc(given, func(g records.Assignment) bool { return g.Agent == f.Agent }); k >= 0 {
			out[i].run = given[k].Run
		}
	}
	return out
}

// setParts says who works on a job from now on, in the row too.
func (j *job) setParts(parts []*part) {
	j.parts, j.owner = parts, nil
	j.hadMany = j.hadMany || len(parts) > 1
	j.rec.Agent, j.rec.Incarnation, j.rec.Assignments = "", 0, nil
	if len(parts) == 0 {
		return
	}
	j.rec.Agent, j.rec.Incarnation = parts[0].agent, parts[0].incarnation
	if len(parts) > 1 || parts[0].from > 1 { // its agent may have had it before, and say so to the next controller
		for _, p := range parts {
			j.rec.Assignments = append(j.rec.Assignments, records.Assignment{Agent: p.agent, Incarnation: p.incarnation, From: p.from})
		}
	}
}

// given lists who has which tasks, for the store; nil of a job on one agent.
func given(parts []*part) (out []records.Assignment) {
	if len(parts) < 2 {
		return nil
	}
	for _, p := range parts {
		out = append(out, records.Assignment{Agent: p.agent, Incarnation: p.incarnation, From: p.from, Run: p.run})
	}
	return out
}

// partOf returns the part of an agent, or nil.
func (j *job) partOf(name string) *part {
	if j.live == nil {
		return nil
	}
	for _, p := range j.parts {
		if p.agent == name {
			return p
		}
	}
	return nil
}

// lastOn tells whether a job, or a fragment of it, was assigned to this agent last.
func (j *job) lastOn(name string) bool {
	if j.live != nil {
		return j.partOf(name) != nil
	}
	return j.remains.agent == name || slices.Contains(j.remains.others, name)
}

// idle tells whether all has ended that agents are to run. One that was away when it
// was to be told of the present epoch has said nothing of that.
func (j *job) idle() bool {
	if len(j.parts) == 0 || j.assign != nil {
		return false
	}
	return !slices.ContainsFunc(j.parts, func(p *part) bool { return !p.idle() || len(j.parts) > 1 && p.told != j.rec.Epoch })
}

// stopped tells whether nothing of the job runs, for whatever reason.
func (j *job) stopped() bool {
	return j.assign == nil && !slices.ContainsFunc(j.parts, func(p *part) bool { return !p.idle() && !p.gone && !p.fresh })
}

// behind tells whether a part is not what the job's row says: its process is
// gone, or it was not told of the last epoch.
func (j *job) behind() bool {
	return slices.ContainsFunc(j.parts, func(p *part) bool { return p.gone || p.told != j.rec.Epoch })
}

func (j *job) anyGone() bool {
	return slices.ContainsFunc(j.parts, func(p *part) bool { return p.gone })
}

// shared tells whether several agents worked on a job last.
func (j *job) shared() bool {
	if j.live == nil {
		return len(j.remains.others) > 0
	}
	return len(j.parts) > 1
}

// The constant is the index of no part.
const nobody = -1

// owners says which part has each task of a job on several agents.
type owners struct {
	static   []int16
	instance map[dag.TaskIndex]int16 // those that were named
}

// ownerOf returns the index of the part that has a task, or that of no part.
// Instances that no part names are where their generator is.
func (j *job) ownerOf(t dag.TaskIndex) int {
	if len(j.parts) < 2 {
		return len(j.parts) - 1
	}
	if j.owner == nil {
		j.owner = findOwners(j.graph, j.parts)
	}
	if int(t) < len(j.owner.static) {
		return int(j.owner.static[t])
	}
	if k, ok := j.owner.instance[t]; ok {
		return int(k)
	}
	if st := j.graph.Group(t).Stream; st != nil {
		return int(j.owner.static[st.Generator])
	}
	return nobody
}

func findOwners(g *dag.Graph, parts []*part) *owners {
	o := &owners{static: slices.Repeat([]int16{nobody}, g.NumTasks()), instance: map[dag.TaskIndex]int16{}}
	for k, p := range parts {
		for _, r := range p.run {
			for i := uint64(r.First); i <= uint64(r.Last); i++ {
				if i < uint64(len(o.static)) {
					o.static[i] = int16(k)
				} else {
					o.instance[dag.TaskIndex(i)] = int16(k)
				}
			}
		}
	}
	return o
}

// here returns the agent of a part that can be spoken to, nil when it is away or another process.
func (c *Core) here(p *part) *agent {
	if a := c.agents[p.agent]; a != nil && a.synced && !p.gone {
		return a
	}
	return nil
}

// forget tells all agents that a job was given to that there is no such job: also
// the next process of one, which has what it found of the job in memory.
func (c *Core) forget(j *job, why string) {
	for _, p := range j.parts {
		if a := c.agents[p.agent]; a != nil && a.link != nil {
			c.send(a.link, &comms.Steer{Job: j.id, JobIncarnation: j.rec.JobIncarnation, Action: comms.SteerForget, Reason: why})
		}
	}
}

// leave notes who has a job no more when these parts have it, and returns them.
func (j *job) leave(parts []*part) []*part {
	former := slices.DeleteFunc(slices.Clone(j.parts), func(p *part) bool {
		return slices.ContainsFunc(parts, func(o *part) bool { return o.agent == p.agent })
	})
	j.former = append(j.former, former...)
	return former
}

// forgetFormer tells those who had a job to forget it: it is durable that they have it
// no more. One that leaves, too: its gang may have started over without it.
func (c *Core) forgetFormer(j *job, former []*part) {
	for _, p := range former {
		if j.live != nil {
			j.former = slices.DeleteFunc(j.former, func(o *part) bool { return o == p })
		}
		if a := c.agents[p.agent]; a != nil && a.link != nil {
			c.send(a.link, &comms.Steer{Job: j.id, JobIncarnation: j.life, Action: comms.SteerForget, Reason: "it has been taken from this agent"})
		}
	}
}

// formerly tells whether an agent had a job, and it is not durable yet that it has it no more.
func (j *job) formerly(name string) bool {
	return j.live != nil && slices.ContainsFunc(j.former, func(p *part) bool { return p.agent == name })
}

// disown tells an agent to forget a job, j if it is that life of it, which is not its
// any more. Before that is durable it could not be told: what it has cancelled would count
// for a controller that does not know of it. Then forgetFormer tells it, or deleted.
func (c *Core) disown(a *agent, j *job, id comms.JobID, life uint64) {
	if j != nil && j.life == life && (j.formerly(a.row.Name) || j.deleting && j.lastOn(a.row.Name)) {
		return
	}
	c.send(a.link, &comms.Steer{Job: id, JobIncarnation: life, Action: comms.SteerForget})
}

// steer tells all agents that work on a job, and are there, to change its course;
// it returns how many.
func (c *Core) steer(j *job, action comms.SteerAction, why string) (told int) {
	if j.live == nil {
		return 0
	}
	for _, p := range j.parts {
		if a := c.here(p); a != nil {
			c.send(a.link, &comms.Steer{Job: j.id, JobIncarnation: j.rec.JobIncarnation, Action: action, Reason: why})
			told++
		}
	}
	return told
}
