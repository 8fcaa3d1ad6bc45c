package planner

import (
	"slices"

	"github.com/cascade-run/cascade/dag"
)

// A better plan than the first is looked for where that can pay: for jobs of some
// tasks, that take a while, and of whose tasks more than half have been seen before.
const (
	steerTasks   = 50
	steerSeconds = 1.0
	steerPart    = 0.01 // of what the job is predicted to take goes into the search,
	steerMost    = 2.0  // and no more seconds than these
	nodeSeconds  = 5e-6 // what one node takes in one evaluation: measured 3.3e-6 with 100,000
	steerLeast   = 4    // evaluations: fewer find nothing
	steerEnough  = 2000
)

// Worth tells how long to look for a better plan than the first that Order or
// Spread returned; no evaluations: it cannot pay. It looks at each task only of
// jobs with much work.
func Worth(g *dag.Graph, p *Plan, c *Cluster) Effort {
	if p.Contended || g.NumTasks() < steerTasks || len(c.Hosts) == 0 {
		return Effort{}
	}
	work, guessed, cores := 0.0, 0, 0.0
	for i := range g.Groups {
		_, n := g.GroupTasks(i)
		if p.Seconds[i] == 0 {
			guessed += n
		}
		work += p.Seconds[i] * Cores(&g.Groups[i]) * float64(n)
	}
	if work < steerSeconds || guessed*2 > g.NumTasks() {
		return Effort{}
	}
	for i := range c.Hosts {
		cores += float64(c.Hosts[i].CPU) / 1000
	}
	takes := work / cores
	for _, r := range p.Ranks {
		takes = max(takes, r)
	}
	if takes < steerSeconds {
		return Effort{}
	}
	n := int(min(takes*steerPart, steerMost) / nodeSeconds / float64(g.NumTasks()))
	if n < steerLeast {
		return Effort{}
	}
	return Effort{Evaluations: min(n, steerEnough)}
}

// Better looks for a better plan than the first, from the profiles on which that
// rests. With several hosts Homes is nil, as that of Spread, when one of them has
// enough for each task and is about as good as all together: then the plan is for that.
func Better(g *dag.Graph, first *Plan, c Cluster, e Effort) (*Plan, error) {
	if c.learn(first.known); len(c.Hosts) > 1 && c.Latency == 0 {
		c.Latency = DefaultLatency
	}
	all, err := Best(g, first.known, c, e)
	if err != nil || len(c.Hosts) < 2 {
		return all, err
	}
	one := largest(g, &c)
	if one == nil {
		return all, nil
	}
	e.Evaluations = max(e.Evaluations/4, 1)
	alone, err := Best(g, first.known, Cluster{Hosts: []Host{*one}, Bandwidth: c.Bandwidth, Latency: c.Latency}, e)
	if err != nil {
		return nil, err
	}
	alone.of = c.kept()
	alone.Makespan += c.BuildsOn(g, slices.IndexFunc(c.Hosts, func(h Host) bool { return h.Name == one.Name }))
	if alone.beyond && !all.beyond {
		return all, nil // some task needs the store of another host
	}
	if alone.Makespan <= all.Makespan*(1+spreadPart)+spreadSeconds {
		return alone, nil
	}
	return all, nil
}

// Order returns by what tasks go that wait for a place: the highest first.
func (p *Plan) Order() []float64 {
	if p.Contended {
		return p.Turns
	}
	return p.Ranks
}
