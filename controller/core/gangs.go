package core

import (
	"slices"

	"github.com/cascade-run/cascade/dag"
)

// The members of a gang start over together: when one of them is to run again, or
// by another process, all of them do, also those that had ended.

// gangOf lists the members of a task's gang; none when it is in no gang.
func gangOf(g *dag.Graph, t dag.TaskIndex) []dag.TaskIndex {
	first, size := g.GangOf(t)
	out := make([]dag.TaskIndex, size)
	for i := range out {
		out[i] = first + dag.TaskIndex(i)
	}
	return out
}

// wholeGangs returns set, sorted, with all members of the gangs of more.
func (j *job) wholeGangs(set, more []dag.TaskIndex) []dag.TaskIndex {
	if len(more) == 0 {
		return set
	}
	set = slices.Clone(set)
	for _, t := range more {
		set = append(set, gangOf(j.graph, t)...)
	}
	slices.Sort(set)
	return slices.Compact(set)
}

// brokenGangs lists members that have not ended and that their agent will not end:
// its process is gone, or it leaves and has not begun them.
func (c *Core) brokenGangs(j *job) (out []dag.TaskIndex) {
	if !j.graph.HasGangs() || len(j.parts) == 0 {
		return nil
	}
	for gi := range j.graph.Groups {
		first, n := j.graph.GroupTasks(gi)
		if j.graph.Groups[gi].GangSize() == 0 {
			continue
		}
		for t := dag.TaskIndex(first); t < dag.TaskIndex(first+n); t++ {
			if j.states.get(t).Over() {
				continue
			}
			k := j.ownerOf(t)
			if k == nobody || j.parts[k].gone || c.moves(j.parts[k]) && !c.held(j, j.parts[k], t) {
				out = append(out, t)
			}
		}
	}
	return out
}

// halfGangs lists the members of gangs of which some run that had ended.
func (j *job) halfGangs(run []dag.TaskIndex) (out []dag.TaskIndex) {
	if !j.graph.HasGangs() {
		return nil
	}
	for _, t := range run {
		if j.states.get(t).Over() {
			out = append(out, gangOf(j.graph, t)...)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}
