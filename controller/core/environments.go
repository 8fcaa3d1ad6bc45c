package core

import (
	"maps"
	"slices"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/dag"
	"github.com/cascade-run/cascade/planner"
)

// Agents say in a job's events when they begin to build an environment and when it is
// there. From that the controller remembers who has what, and plans go by it. It is
// advice: what an agent has pruned since, it builds again.

// buildKey is an environment of a job that an agent builds.
type buildKey struct {
	job  comms.JobID
	name string
}

const (
	maxBuilt  = 256  // environments that are remembered of an agent: the last
	maxBuilds = 1024 // environments whose time is remembered: those built last
	inCache   = 0.1  // seconds: what took less was found in a cache, and says nothing of a build
)

// environment takes in that an agent begins to build an environment, or has it.
func (c *Core) environment(j *job, a *agent, e *comms.Event) {
	k := slices.IndexFunc(j.graph.Environments, func(x dag.Environment) bool { return x.Name == e.Cause.Text })
	if k < 0 {
		return
	}
	key := buildKey{j.id, e.Cause.Text}
	if e.Kind == comms.EventBuilding {
		if a.building == nil || len(a.building) == maxBuilds { // of jobs that went away meanwhile
			a.building = map[buildKey]int64{}
		}
		if e.Error == nil { // else it says what the build waits for, which has begun before
			a.building[key] = e.At
		}
		return
	}
	began, begun := a.building[key]
	delete(a.building, key)
	id := planner.EnvironmentID(&j.graph.Environments[k])
	if e.Error != nil || id == 0 || slices.Contains(a.built, id) {
		return
	}
	if begun {
		c.learnBuild(id, float64(e.At-began)/1e9)
	}
	a.built = append(slices.Clone(a.built), id) // plans look at the one before
	if len(a.built) > maxBuilt {
		a.built = a.built[1:]
	}
}

// learnBuild notes how long an environment took, which counts until it is built again.
func (c *Core) learnBuild(id uint64, seconds float64) {
	was, known := c.builds[id]
	if known && seconds < inCache && was > seconds {
		return
	}
	if c.builds == nil {
		c.builds = map[uint64]float64{}
	}
	c.builds[id] = max(seconds, 0)
	c.learned = append(slices.DeleteFunc(c.learned, func(o uint64) bool { return o == id }), id)
	if len(c.learned) > maxBuilds {
		delete(c.builds, c.learned[0])
		c.learned = c.learned[1:]
	}
}

// prefer returns the agent that a job goes to of those that could have it: the first
// unless another that is about as free needs less time for the job's environments.
func (c *Core) prefer(g *dag.Graph, able []*agent, first *agent, free map[string]int64) *agent {
	cl := planner.Cluster{Builds: c.builds}
	for _, a := range able {
		cl.Hosts = append(cl.Hosts, a.host())
	}
	best, least := first, cl.BuildsOn(g, slices.Index(able, first))
	for i, a := range able {
		has := free[a.row.Name]
		if b := cl.BuildsOn(g, i); b < least && has > 0 && 2*has >= free[first.row.Name] {
			best, least = a, b
		}
	}
	return best
}

// knownBuilds is for who does not step the core.
func (c *Core) knownBuilds() map[uint64]float64 { return maps.Clone(c.builds) }
