package planner

import (
	"fmt"
	"hash/fnv"
	"slices"

	"github.com/cascade-run/cascade/dag"
)

// DefaultBuild is assumed for an environment that nobody has built yet, in seconds.
const DefaultBuild = 10.0

// EnvironmentID names what an environment installs: equal numbers, equal content. It is 0
// for one that installs nothing, which is everywhere at once.
func EnvironmentID(e *dag.Environment) uint64 {
	own := *e
	if own.Go == "" && own.Binary == "" && own.Python == nil && own.WorkingDir == "" && len(own.PyModules) == 0 &&
		own.Container == nil && len(own.Plugins) == 0 {
		return 0
	}
	own.Name, own.Vars = "", nil
	h := fnv.New64a()
	if own.Python != nil {
		fmt.Fprintf(h, "%+v", *own.Python)
	}
	if own.Container != nil {
		fmt.Fprintf(h, "%+v", *own.Container)
	}
	own.Python, own.Container = nil, nil
	fmt.Fprintf(h, "%+v", own)
	return max(h.Sum64(), 1)
}

// builds returns for each group and host after how many seconds its environment is
// there: all are made from the start of the job on. What no host has takes as long on
// each, and counts for none. It is nil when all are 0, and nil for groups of which that is so.
func (c *Cluster) builds(g *dag.Graph) (out [][]float64) {
	of := c.buildsOf(g)
	if of == nil {
		return nil
	}
	out = make([][]float64, len(g.Groups))
	for i := range g.Groups {
		name := g.Groups[i].Run.Environment
		k := slices.IndexFunc(g.Environments, func(e dag.Environment) bool { return e.Name == name })
		if name != "" && k >= 0 {
			out[i] = of[k]
		}
	}
	return out
}

// buildsOf is builds by environment.
func (c *Cluster) buildsOf(g *dag.Graph) (out [][]float64) {
	if !slices.ContainsFunc(c.Hosts, func(h Host) bool { return len(h.Built) > 0 }) {
		return nil
	}
	for k := range g.Environments {
		id := EnvironmentID(&g.Environments[k])
		has := func(h Host) bool { return slices.Contains(h.Built, id) }
		if id == 0 || !slices.ContainsFunc(c.Hosts, has) {
			continue
		}
		seconds, known := c.Builds[id]
		if !known {
			seconds = DefaultBuild
		}
		for h := range c.Hosts {
			if has(c.Hosts[h]) {
				continue
			}
			if out == nil {
				out = make([][]float64, len(g.Environments))
			}
			if out[k] == nil {
				out[k] = make([]float64, len(c.Hosts))
			}
			out[k][h] = seconds
		}
	}
	return out
}

// BuildsOn returns the seconds after which a host has all environments of a job that
// others of the cluster have already.
func (c *Cluster) BuildsOn(g *dag.Graph, host int) (most float64) {
	for _, of := range c.buildsOf(g) {
		if of != nil {
			most = max(most, of[host])
		}
	}
	return most
}
