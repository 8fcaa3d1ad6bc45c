package core

import (
	"maps"
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

// brokenGangs lists members of gangs that are to start over: those that have not
// ended and that their agent will not end, as its process is gone, or it leaves and
// has not begun them; and those of multi-host gangs where an attempt at a member was
// lost, or not all have started.
func (c *Core) brokenGangs(j *job) (out []dag.TaskIndex) {
	if !j.graph.HasGangs() || len(j.parts) == 0 {
		return nil
	}
	out = j.states.tornGangs()
	for _, first := range slices.Sorted(maps.Keys(j.split)) {
		if !j.states.gangFailed(first) {
			out = append(out, first)
		}
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

// placeGangs decides where the gangs of run go, which is sorted. A gang stays as it is
// when each of its members has an agent. Else it goes as a whole to one agent with room
// for all of them, or to as few as have it together; without that it gets no agent.
func (p *picker) placeGangs(run []dag.TaskIndex, owner func(dag.TaskIndex) int) {
	for i := 0; i < len(run); {
		first, size := p.j.graph.GangOf(run[i])
		n := i + 1
		for size > 0 && n < len(run) && int(run[n]) < int(first)+size {
			n++
		}
		if size > 0 {
			p.placeGang(run[i:n], owner)
		}
		i = n
	}
}

func (p *picker) placeGang(members []dag.TaskIndex, owner func(dag.TaskIndex) int) {
	var had []*agent // who has members, by rank
	whole := true
	for _, t := range members {
		k := owner(t)
		p.gangs[t] = k
		if whole = whole && k != nobody; k != nobody {
			had = append(had, p.c.agents[p.s.parts[k].agent])
		}
	}
	if whole {
		return
	}
	from := 0
	for _, h := range p.hostsFor(members, had) {
		for _, t := range members[from:min(from+h.members, len(members))] {
			p.gangs[t] = p.add(h.agent)
		}
		from = min(from+h.members, len(members))
	}
	for _, t := range members[from:] {
		p.gangs[t] = nobody
	}
}

// hostsFor finds agents with room for the members of a gang together: with the memory
// that they have come to hold, or begin with, or without such agents with what the graph says. nil: there are none.
func (p *picker) hostsFor(members []dag.TaskIndex, had []*agent) []hosting {
	if memory := max(p.j.states.enlarged[members[0]].Memory, p.j.beginsWith(members[0])); memory > 0 {
		if all := p.hostsWith(members, had, memory); all != nil {
			return all
		}
	}
	return p.hostsWith(members, had, 0)
}

// beginsWith returns with how much memory a task begins, as most of its group needed more than
// the graph says; 0: with that.
func (j *job) beginsWith(t dag.TaskIndex) uint64 {
	held := j.held
	if j.plan != nil {
		held = j.plan.Held
	}
	if gi := j.graph.GroupIndex(t); gi < len(held) {
		return uint64(held[gi])
	}
	return 0
}

// hostsWith finds agents with room for the members of a gang, and so much memory for each:
// one if there is one, first of those that had members.
func (p *picker) hostsWith(members []dag.TaskIndex, had []*agent, memory uint64) []hosting {
	room := func(a *agent) int {
		if a == nil || !a.stays() {
			return 0
		}
		h := a.host()
		n := h.Room(p.j.graph, members[0])
		if memory > 0 && h.Memory > 0 {
			n = min(n, int(uint64(h.Memory)/memory))
		}
		return n
	}
	first := append(had, p.c.agents[p.near])
	if plan := p.j.plan; p.c.spreads(p.j) && int(members[0]) < len(plan.Homes) && plan.Homes[members[0]] >= 0 {
		first = append(first, p.c.agents[plan.Hosts[plan.Homes[members[0]]]])
	}
	var others []hosting
	if p.c.cfg.Spread {
		for _, a := range p.c.sortedAgents() {
			if n := room(a); n > 0 {
				others = append(others, hosting{a, n})
			}
		}
	}
	slices.SortStableFunc(others, func(a, b hosting) int { return b.members - a.members })
	for _, a := range append(first, p.remaining()) {
		if room(a) >= len(members) {
			return []hosting{{a, len(members)}}
		}
	}
	sum := 0
	for i, h := range others {
		if sum += h.members; sum >= len(members) {
			return others[:i+1]
		}
	}
	return nil
}
