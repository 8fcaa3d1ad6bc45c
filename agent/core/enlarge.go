package core

import (
	"fmt"
	"math"
	"math/bits"
	"slices"
	"strings"

	"github.com/docker/go-units"

	"github.com/cascade-run/cascade/comms"
)

// The memory that a job states for a task is a prediction. A task that was ended because it
// took more is tried again with more held for it (decision 33). For all that ask what
// a task needs (classes, grants, kinds) it is of a group of its own then: one that
// differs in its need from the one in the graph, and is shared by the tasks of that
// group for which as much is held. The members of a gang have as much as each other.

// maxGrowths is how often what is held for a task grows, each time to twice as much at
// least, or to all that its host or memory_max allows: what takes more than eight times
// what was said of it most likely has no end.
const maxGrowths = 3

// enlarged is what is held for a task, which is more than its group says.
type enlarged struct {
	gs    *groupState
	times uint32  // that it grew
	tried []int64 // bytes that were held for attempts before, as far as this process knows
}

// ownGroup is groupOf of a job of which some task has more held for it.
func (j *job) ownGroup(t taskIndex) *groupState {
	if r, own := j.enlarged[t]; own {
		return r.gs
	}
	return j.sharedGroup(t)
}

// alike tells whether as much is held for two tasks of a group.
func (j *job) alike(a, b taskIndex) bool {
	return j.enlarged == nil || j.ownGroup(a) == j.ownGroup(b)
}

// growth is what follows from an attempt that took too much memory.
type growth struct {
	memory int64 // bytes for the next attempt; 0: there is none because of this
	away   bool  // at another agent: this one has less
}

// enlarge decides with how much memory a task is tried again of which an attempt was ended
// because it took too much, and adds that to the error. All members of a gang get as
// much as the one that took it, at most their share of what this host has.
func (c *Core) enlarge(j *job, t taskIndex, r *run, e *comms.TaskError) (g growth) {
	if r == nil || r.used == 0 || r.gs.need[resMemory] == 0 || j.stopped != nil {
		return growth{}
	}
	was, held, most, bound := j.enlarged[t], r.gs.need[resMemory], c.mostFor(j, t), r.gs.group.Resources.MemoryMax
	if bound == 0 {
		bound = math.MaxInt64
	}
	tried := append(slices.Clone(was.tried), held)
	want := min(max(2*held, coarse(r.used+r.used/4)), bound)
	switch {
	case was.times >= maxGrowths, held >= bound:
	case held < most:
		g.memory = min(want, most)
		c.setMemory(j, t, enlarged{gs: c.withMemory(j, t, g.memory), times: was.times + 1, tried: tried})
		e.Message += fmt.Sprintf("; tried again with %s", units.BytesSize(float64(g.memory)))
		if r.gs.ganged() {
			e.Message += " for each of its gang"
		}
		return g
	case r.gs.ganged():
	case j.larger > most && c.mayLeave(j, t):
		g.memory, g.away = min(want, j.larger), true
		e.Message += fmt.Sprintf("; tried again with %s on a host that has as much, if there is one: this one has %s", units.BytesSize(float64(g.memory)), units.BytesSize(float64(most)))
		return g
	}
	e.Message += "; it was tried with " + listBytes(tried)
	switch held {
	case bound:
		e.Message += ", its memory_max"
	case most:
		if r.gs.ganged() {
			e.Message += ", which is what this host has for each of its gang"
		} else {
			e.Message += ", which is all that tasks have on this host"
		}
	}
	e.Message += ": say in resources: memory what it needs"
	return growth{}
}

// coarse rounds bytes up to an eighth of the power of two below them: tasks of a group
// come to few amounts, and can take each other's place.
func coarse(n int64) int64 {
	unit := int64(1) << max(bits.Len64(uint64(n))-4, 20)
	return (n + unit - 1) / unit * unit
}

func listBytes(all []int64) string {
	var out []string
	for _, n := range all {
		out = append(out, units.BytesSize(float64(n)))
	}
	return strings.Join(out, ", ")
}

// mayLeave tells whether the controller can give a task to another agent alone: not a
// call, nor what streams, nor what has begun calls of its own.
func (c *Core) mayLeave(j *job, t taskIndex) bool {
	return !j.dynamic() && int(t) < j.static && !j.groupOf(t).generator && j.callers[t] == nil
}

// mostFor is the most memory that can be held for a task here: of a gang, beside as
// much for each other member that is here.
func (c *Core) mostFor(j *job, t taskIndex) int64 {
	if !j.groupOf(t).ganged() {
		return c.total[resMemory]
	}
	return c.total[resMemory] / int64(max(len(j.gangOf(t).here()), 1))
}

// setMemory holds more for a task, and for all others of its gang, from its next attempt on.
func (c *Core) setMemory(j *job, t taskIndex, r enlarged) {
	if j.enlarged == nil {
		j.enlarged = map[taskIndex]enlarged{}
	}
	j.enlarged[t] = r
	if !r.gs.ganged() {
		return
	}
	g := j.gangOf(t)
	g.gs = r.gs
	for _, m := range g.all() {
		j.enlarged[m] = r
	}
	if b := c.reservation; b != nil && b.gang == g {
		b.void = true
	}
}

// withMemory returns the state of a task's group for tasks for which so much is held.
func (c *Core) withMemory(j *job, t taskIndex, memory int64) *groupState {
	base := j.sharedGroup(t)
	for _, gs := range j.ownGroups {
		if gs.group == base.group && gs.need[resMemory] == memory {
			return gs
		}
	}
	gs := new(groupState)
	*gs = *base
	gs.need = slices.Clone(base.need)
	gs.need[resMemory] = memory
	if gs.unfit == "" && memory > c.total[resMemory] {
		gs.unfit = fmt.Sprintf("it took more memory than was held for it and was to be tried with %s, and no agent that can run it has as much: say in resources: memory what it needs",
			units.BytesSize(float64(memory)))
	}
	// Its tasks are where others of the group are not: none is found by its place in
	// the group, or goes behind another in one run.
	gs.size, gs.step, gs.alone = 0, false, false
	gs.kind, gs.told, gs.behind = nil, nil, nil
	gs.class = c.classFor(j, gs)
	j.ownGroups = append(j.ownGroups, gs)
	return gs
}

// beginWith has tasks of a group begin with more memory than the graph says, as far as
// this host has as much; gangs begin as beginGangs says.
func (c *Core) beginWith(gs *groupState, bytes uint64) {
	if n := int64(min(bytes, uint64(c.total[resMemory]))); gs.need[resMemory] > 0 && n > gs.need[resMemory] && !gs.ganged() {
		gs.need[resMemory] = n
	}
}

// beginGangs has the members of gangs begin with more memory than the graph says, as if
// they had come to hold it: fitGang takes back what this host has not for those that are here.
func (c *Core) beginGangs(j *job, memory []uint64) {
	for i := range min(len(memory), len(j.groups)) {
		gs, n := &j.groups[i], int64(min(memory[i], uint64(c.total[resMemory])))
		if !gs.ganged() || gs.need[resMemory] == 0 || n <= gs.need[resMemory] {
			continue
		}
		for first := gs.first; int(first) < int(gs.first)+gs.size; first += taskIndex(max(gs.group.GangSize(), 1)) {
			c.setMemory(j, first, enlarged{gs: c.withMemory(j, first, n)})
		}
	}
}

// setEnlarged takes over what tasks had come to hold on other agents, or with a process
// of this one that is gone.
func (c *Core) setEnlarged(j *job, m *comms.Assign) {
	j.larger = int64(min(m.Larger, math.MaxInt64))
	for _, r := range m.Enlarged {
		if int(r.Task) >= len(j.tasks) || r.Memory > math.MaxInt64 {
			continue
		}
		s, gs := j.tasks[r.Task].state, j.groupOf(r.Task)
		if gs.ganged() {
			c.enlargeGang(j, r)
			continue
		}
		if s != tWaiting && s != tAbsent || int64(r.Memory) <= gs.need[resMemory] {
			continue // it runs, or more is held for it already
		}
		c.setMemory(j, r.Task, enlarged{gs: c.withMemory(j, r.Task, int64(r.Memory)), times: r.Times, tried: j.enlarged[r.Task].tried})
	}
}

// enlargeGang takes over what a gang had come to hold for each member, which may have begun
// with more here. Of one that is on several agents each holds what it has for those that are there.
func (c *Core) enlargeGang(j *job, r comms.Enlarged) {
	begun := func(t taskIndex) bool { s := j.at(t).state; return s == tQueued || s == tRunning || s.over() }
	held := j.groupOf(r.Task).need[resMemory]
	memory := max(min(max(int64(r.Memory), held), c.mostFor(j, r.Task)), j.sharedGroup(r.Task).need[resMemory])
	if memory != held && !slices.ContainsFunc(j.gangOf(r.Task).here(), begun) {
		c.setMemory(j, r.Task, enlarged{gs: c.withMemory(j, r.Task, memory), times: r.Times, tried: j.enlarged[r.Task].tried})
	}
}

// fitGang has a gang that came to hold more hold what this host has for the members that
// are here now, and tells whether that is less.
func (c *Core) fitGang(g *gang) bool {
	r, own := g.job.enlarged[g.first]
	memory := max(c.mostFor(g.job, g.first), g.job.sharedGroup(g.first).need[resMemory])
	if !own || r.gs.need[resMemory] <= memory {
		return false
	}
	r.gs = c.withMemory(g.job, g.first, memory)
	c.setMemory(g.job, g.first, r)
	return true
}

// sendAway has the controller find an agent with more memory for a task. It gives the
// task back when there is none: then the task does not fit here, and fails.
func (c *Core) sendAway(j *job, t taskIndex, r *run, e *comms.TaskError, cause comms.Cause, g growth) {
	s := j.at(t)
	c.noteRetry(j, t, r, e, cause, g)
	c.note(j, comms.Event{Kind: comms.EventTorn, Task: t, Attempt: s.attempt,
		Cause: comms.Cause{Kind: comms.CauseMemory, Text: "it needs more memory than this agent has"}})
	s.state = tAside
}
