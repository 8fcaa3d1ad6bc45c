package planner

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/cascade-run/cascade/dag"
)

// UntoldPlatform is the platform of a host whose agent tells none: it is of a version
// that cannot read a graph which names platforms, and gets no task of such a graph.
const UntoldPlatform = "untold"

// PlatformOf returns the platform of a host whose agent tells one, "" of those that tell none.
func PlatformOf(told string) string { return cmp.Or(told, UntoldPlatform) }

// serves tells whether binaries for the host's platform are there, as far as a
// group's environment is bound to platforms.
func (h *Host) serves(g *dag.Graph, grp *dag.Group) bool {
	switch h.Platform {
	case "":
		return true
	case UntoldPlatform:
		return !g.NamesPlatforms()
	}
	e := g.EnvironmentOf(grp)
	return e == nil || len(e.Binaries) == 0 || e.BinaryFor(h.Platform) != ""
}

// withoutBinary says that a group's environment has a binary for no host, of which
// there are some.
func withoutBinary(g *dag.Graph, grp *dag.Group, hosts []Host) string {
	e := g.EnvironmentOf(grp)
	if e == nil || len(e.Binaries) == 0 {
		return "the agents of all hosts are of an older version, which cannot read a job with binaries for platforms"
	}
	return fmt.Sprintf("no host has the platform of its binaries: environment %s has %s, the hosts are %s",
		e.Name, strings.Join(e.Platforms(), ", "), platformsOf(hosts))
}

// unserved names the first host that has enough for tasks and is of another platform.
func unserved(g *dag.Graph, grp *dag.Group, r *dag.Resources, hosts []Host) string {
	e := g.EnvironmentOf(grp)
	for i := range hosts {
		if h := &hosts[i]; e != nil && h.Platform != UntoldPlatform && !h.serves(g, grp) && h.fitsOne(r) {
			return fmt.Sprintf("; environment %s has no binary for %s, the platform of %s, which has enough", e.Name, h.Platform, h.Name)
		}
	}
	return ""
}

// platformsOf names the platforms of hosts, each once.
func platformsOf(hosts []Host) string {
	var all []string
	for i := range hosts {
		name := hosts[i].Platform
		if name == UntoldPlatform {
			name = "unknown (an older version of the agent)"
		}
		all = append(all, name)
	}
	slices.Sort(all)
	return strings.Join(slices.Compact(all), ", ")
}

// Unserved says for each environment of a graph that is bound to platforms, for people,
// which hosts have none of them: they get no task of it.
func Unserved(g *dag.Graph, hosts []Host) (all []string) {
	for i := range g.Environments {
		e := &g.Environments[i]
		at := map[string][]string{}
		for k := range hosts {
			if p := hosts[k].Platform; len(e.Binaries) > 0 && p != "" && e.BinaryFor(p) == "" {
				at[p] = append(at[p], hosts[k].Name)
			}
		}
		for _, p := range slices.Sorted(maps.Keys(at)) {
			names := strings.Join(at[p], ", ")
			if p == UntoldPlatform {
				all = append(all, fmt.Sprintf("environment %s has binaries for platforms, which agents of an older version do not know: %s", e.Name, names))
				continue
			}
			all = append(all, fmt.Sprintf("environment %s has no binary for %s: %s", e.Name, p, names))
		}
	}
	return all
}
