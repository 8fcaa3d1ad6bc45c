package core

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/dag"
	"github.com/cascade-run/cascade/planner"
)

// shareable tells whether the agents that are there have enough for a job together.
func (c *Core) shareable(j *job) bool {
	if !c.cfg.Spread {
		return false
	}
	hosts := c.cluster().Hosts
	return len(hosts) > 1 && planner.Homeless(j.graph, hosts) == ""
}

// choose returns the agent with most free cores that can run each of a job's
// tasks, nil when there is none. Where each job runs on one agent it also has as
// much memory as is held for each.
func (c *Core) choose(j *job, g *dag.Graph) *agent {
	var able []*agent
	for _, a := range c.sortedAgents() {
		if h := a.host(); a.stays() && h.Runs(g) && (c.cfg.Spread || j.holdsAll(&h)) {
			able = append(able, a)
		}
	}
	if len(able) < 2 {
		return append(able, nil)[0]
	}
	free := map[string]int64{}
	for _, a := range able {
		free[a.row.Name] = a.row.Total.CPU
	}
	for _, o := range c.running {
		if o != j && o.states != nil {
			for _, p := range o.parts { // as if each had as many
				free[p.agent] -= int64(min(o.states.Open(), 1<<20)) * 1000 / int64(len(o.parts))
			}
		}
	}
	best := able[0]
	for _, a := range able[1:] {
		if free[a.row.Name] > free[best.row.Name] {
			best = a
		}
	}
	return c.prefer(g, able, best, free)
}

// awayFrom names the agents of a running job when none of them is there, or says why
// no other has taken it over.
func (c *Core) awayFrom(j *job) string {
	if c.cfg.Passive || j.stage != stageActive || j.rec.Phase != comms.JobRunning || len(j.parts) == 0 || j.rec.Homeless {
		return ""
	}
	var names []string
	for _, p := range j.parts {
		if a := c.agents[p.agent]; a != nil && a.link != nil {
			return ""
		}
		names = append(names, p.agent)
	}
	if !slices.ContainsFunc(j.parts, func(p *part) bool { return !p.gone }) && c.othersStay() {
		if text := c.unheld(j); text != "" {
			return text
		}
	}
	if len(names) == 1 {
		return fmt.Sprintf("agent %s is away", names[0])
	}
	return fmt.Sprintf("agents %s are away", strings.Join(names, ", "))
}

// waits says why nothing that happens to a job can be stored, why a queued one that
// is on no agent does not start, or which agents a running one has lost, "" when it goes on.
func (c *Core) waits(j *job) string {
	text, unplaced := c.stands(j)
	if unplaced {
		return cmp.Or(c.unfit(j.graph, c.cluster().Hosts), c.unheld(j))
	}
	return text
}

// stands is waits without what only a look at all agents tells: unplaced is true
// of a job that is on no agent, or of which some tasks are.
func (c *Core) stands(j *job) (text string, unplaced bool) {
	if c.paused != "" && j.stage != stageEnded {
		return c.paused, false
	}
	if away := c.awayFrom(j); away != "" {
		return away, false
	}
	if c.cfg.Passive || j.stage != stageActive || j.rec.Phase != comms.JobQueued && !j.rec.Homeless || j.rec.Agent != "" && !j.rec.Homeless || j.recovering != nil || j.ending != nil {
		return "", false
	}
	return "", true
}

// waiting says of all jobs that wait for something what that is. Of many with one
// graph it is found out once.
func (c *Core) waiting() map[comms.JobID]string {
	out := map[comms.JobID]string{}
	hosts, known := c.cluster().Hosts, map[comms.Hash]string{}
	for id, j := range c.running {
		text, unplaced := c.stands(j)
		if unplaced {
			var looked bool
			if text, looked = known[j.rec.GraphHash]; !looked {
				text = c.unfit(j.graph, hosts)
				known[j.rec.GraphHash] = text
			}
			text = cmp.Or(text, c.unheld(j))
		}
		if text != "" {
			out[id] = text
		}
	}
	return out
}

// unfit says why hosts, which are the agents that are there, cannot run a job; "" when they can.
func (c *Core) unfit(g *dag.Graph, hosts []planner.Host) string {
	if c.cfg.Spread && len(hosts) > 1 {
		return planner.Homeless(g, hosts)
	}
	for i := range hosts {
		if hosts[i].Runs(g) {
			return ""
		}
	}
	if len(hosts) == 0 {
		return "no agent has joined the controller"
	}
	if text := planner.Unfit(g, hosts, false); text != "" {
		return text
	}
	return "no host has enough for all tasks, which run on one"
}
