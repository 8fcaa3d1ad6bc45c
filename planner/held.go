package planner

import (
	"math"
	"slices"
	"sort"

	"github.com/cascade-run/cascade/dag"
	"github.com/cascade-run/cascade/profiles"
)

// heldMemory finds with how much memory tasks of each group begin of which most needed
// more than the graph says when they ran last: what they had then, at most memory_max,
// and no more than the largest host has that can run them, or hosts have for each member
// of a gang; 0 for other groups, nil when there are none. Generators and what follows their
// elements share a host, which must have room for all: they begin with what the graph says.
func heldMemory(g *dag.Graph, p profiles.Snapshot, hosts []Host) []int64 {
	held := make([]int64, len(g.Groups))
	var able [][]bool
	for i := range g.Groups {
		grp := &g.Groups[i]
		if grp.Resources.Memory == 0 || grp.Stream != nil ||
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
		if grp.GangSize() > 0 {
			most = gangMemory(g, grp, hosts, most)
		} else {
			if able == nil {
				able = ableHosts(g, hosts, nil)
			}
			most = min(most, largestMemory(hosts, able[i]))
		}
		if most > grp.Resources.Memory {
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

// gangMemory returns the most memory, to a mebibyte, for each member of a gang with which
// hosts have room for all of them at once, so much at most; what the graph says or less when
// they have no more than that.
func gangMemory(g *dag.Graph, grp *dag.Group, hosts []Host, most int64) int64 {
	steps := int(min((most-grp.Resources.Memory)>>20+1, math.MaxInt32))
	less := sort.Search(steps, func(k int) bool {
		with, room := withMemory(grp, most-int64(k)<<20), 0
		for h := range hosts {
			room += hosts[h].room(g, &with)
		}
		return room >= grp.GangSize()
	})
	return most - int64(less)<<20
}

// withMemory returns a group whose tasks begin with so much memory.
func withMemory(grp *dag.Group, memory int64) dag.Group {
	with := *grp
	with.Resources.Memory = max(memory, with.Resources.Memory)
	return with
}

// able is ableHosts, where hosts must have the memory, too, with which tasks begin.
func (n *nodes) able(hosts []Host) [][]bool { return ableHosts(n.g, hosts, n.held) }
