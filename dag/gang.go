package dag

import (
	"fmt"

	"go.yaml.in/yaml/v4"
)

// Gang says whether tasks of a group start together, as members of gangs that
// know each other's addresses, and where they run. The group's last axis is
// then Members: tasks that differ in it alone are one gang, so that its members
// are numbered one after another, in the order of their ranks.
type Gang uint8

// The kinds of Gang.
const (
	GangNone Gang = iota // each task starts by itself
	GangPack             // on one host that has room for all members, else on as few as have it together
)

// rankVar is the loop variable of the members of a gang.
const rankVar = "rank"

// maxMembers is the most members of one gang: each is told the addresses of all.
const maxMembers = 1024

// Members is the axis of a gang's members: ranks from 0 on. It is a group's last.
func Members(size int64) Axis { return Axis{Var: rankVar, N: size} }

// GangSize is how many members a gang of the group has; 0 when it is none.
func (grp *Group) GangSize() int {
	if n := len(grp.Axes); grp.Gang != GangNone && n > 0 {
		return grp.Axes[n-1].Len()
	}
	return 0
}

// loops is the axes that stand under for: all but that of a gang's members.
func (grp *Group) loops() []Axis {
	if n := len(grp.Axes); grp.Gang != GangNone && n > 0 {
		return grp.Axes[:n-1]
	}
	return grp.Axes
}

// GangOf returns the first member of a task's gang and how many it has, which
// follow each other; 0 when the task is in none.
func (g *Graph) GangOf(t TaskIndex) (first TaskIndex, size int) {
	gi := g.GroupIndex(t)
	size = g.Groups[gi].GangSize()
	if size == 0 {
		return t, 0
	}
	start, _ := g.GroupTasks(gi)
	at := int(t) - start
	return TaskIndex(start + at - at%size), size
}

// HasGangs tells whether any task of the graph is in a gang.
func (g *Graph) HasGangs() bool {
	for i := range g.Groups {
		if g.Groups[i].Gang != GangNone {
			return true
		}
	}
	return false
}

// gang reads gang: how many members start together.
func (j *jobFile) gang(gi int, n *yaml.Node, what string) {
	grp := &j.g.Groups[gi]
	grp.Gang = GangPack
	grp.Axes = append(grp.Axes, Members(max(1, j.whole(n, what, 1, maxMembers))))
}

// gang checks what cannot be a gang.
func (r *resolver) gang(gi int, grp *Group) {
	if grp.Gang == GangNone {
		return
	}
	last := len(grp.Axes) - 1
	switch {
	case grp.Gang > GangPack:
		r.report(gi, "gang", "", fmt.Errorf("a gang of unknown kind %d", grp.Gang))
	case last < 0 || grp.Axes[last].Var != rankVar || grp.Axes[last].Values != nil || grp.Axes[last].First != 0:
		r.report(gi, "gang", "", mistake("it is a gang, and its last loop is not that of its members", "add dag.Members(SIZE) as the last axis"))
	case grp.GangSize() < 1 || grp.GangSize() > maxMembers:
		r.report(gi, "gang", "", mistake(fmt.Sprintf("a gang of %d members", grp.GangSize()), fmt.Sprintf("from 1 to %d", maxMembers)))
	case grp.Stream != nil:
		r.report(gi, "gang", "", mistake("tasks that follow an open generator cannot be gangs", "collect the generator's elements first, or give it a fixed count"))
	}
	for i := range grp.Outputs {
		if grp.Outputs[i].Generate != GenerateNone {
			r.report(gi, "gang", "", mistake(fmt.Sprintf("a member of a gang cannot publish a series: output %q", clip(grp.Outputs[i].Name)), "return it as one dataset"))
		}
	}
}
