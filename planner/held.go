package planner

import (
	"math"
	"slices"

	"github.com/cascade-run/cascade/dag"
	"github.com/cascade-run/cascade/profiles"
)

// heldMemory finds with how much memory tasks of each group begin of which most needed
// more than the graph says when they ran last: what they had then, at most memory_max,
// and no more than the largest host has that can run them; 0 for other groups, nil when
// there are none. Gangs, generators and what follows their elements share a host, which
// must have room for all: they begin with what the graph says.
func heldMemory(g *dag.Graph, p profiles.Snapshot, hosts []Host) []int64 {
	held := make([]int64, len(g.Groups))
	var able [][]bool
	for i := range g.Groups {
		grp := &g.Groups[i]
		if grp.Resources.Memory == 0 || grp.Stream != nil || grp.GangSize() > 0 ||
			slices.ContainsFunc(grp.Outputs, func(o dag.OutputDecl) bool { return o.Generate != dag.GenerateNone }) {
			continue
		}
		most := int64(min(p.Predict(SignatureOf(g, i)).Held, math.MaxInt64/2))
		if most <= grp.Resources.Memory {
			continue
		}
		if grp.Resources.MemoryMax > 0 {
			most = min(most, grp.Resources.MemoryMax)
		}
		if able == nil {
			able = ableHosts(g, hosts)
		}
		if most = min(most, largestMemory(hosts, able[i])); most > grp.Resources.Memory {
			held[i] = most
		}
	}
	if !slices.ContainsFunc(held, func(n int64) bool { return n > 0 }) {
		return nil
	}
	return held
}

// largestMemory returns how much memory the largest has of some hosts.
func largestMemory(hosts []Host, some []bool) (most int64) {
	for h := range hosts {
		switch {
		case !some[h]:
		case hosts[h].Memory == 0:
			return math.MaxInt64
		default:
			most = max(most, hosts[h].Memory)
		}
	}
	return most
}

// able is ableHosts, where hosts must have the memory, too, with which tasks begin.
func (n *nodes) able(hosts []Host) [][]bool {
	able := ableHosts(n.g, hosts)
	for i, memory := range n.held {
		for h := range hosts {
			able[i][h] = able[i][h] && (hosts[h].Memory == 0 || hosts[h].Memory >= memory)
		}
	}
	return able
}
