package planner

import (
	"fmt"
	"hash/fnv"
	"io"
	"slices"

	"github.com/cascade-run/cascade/dag"
)

// DefaultBuild is assumed for an environment that no host has built yet, in seconds.
const DefaultBuild = 10.0

// EnvironmentID names what an environment installs: equal numbers, equal content. It is 0
// for one that installs nothing, which is everywhere at once.
func EnvironmentID(e *dag.Environment) uint64 {
	own := *e
	if own.Go == "" && own.Kind() != "binary" && own.Python == nil && own.WorkingDir == "" && len(own.PyModules) == 0 &&
		own.Container == nil && len(own.Plugins) == 0 {
		return 0
	}
	own.Name, own.Vars = "", nil
	h := fnv.New64a()
	describe(h, own)
	return max(h.Sum64(), 1)
}

// describe writes all that an environment says. The text is part of what profiles know
// a task by: a field that comes later is written only where it is set.
func describe(to io.Writer, e dag.Environment) {
	if e.Python != nil {
		fmt.Fprintf(to, "%+v", *e.Python)
	}
	if e.Container != nil {
		fmt.Fprintf(to, "%+v", *e.Container)
	}
	fmt.Fprintf(to, "%+v", struct {
		Name, Go, Binary string
		Python           *dag.Python
		WorkingDir       string
		PyModules        []string
		Vars             map[string]string
		Container        *dag.Container
		Plugins          []dag.Field
		Source           string
	}{e.Name, e.Go, e.Binary, nil, e.WorkingDir, e.PyModules, e.Vars, nil, e.Plugins, e.Source})
	if len(e.Binaries) > 0 {
		fmt.Fprintf(to, "%+v", e.Binaries)
	}
}

// builds returns for each group and host after how many seconds its environment is
// there: all are built from the start of the job on. One that no host has takes as long on
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
