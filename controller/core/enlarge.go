package core

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/docker/go-units"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/controller/records"
	"github.com/cascade-run/cascade/dag"
	"github.com/cascade-run/cascade/planner"
)

// A task that was ended because it took more memory than was held for it is retried by
// its agent with more, which says so (EventRetry, Count) and, when the host has no more,
// leaves it to the controller (EventTorn). The memory that is held for a task follows from
// its events, and its next agent gets it (Assign.Enlarged). A task that does not fit where
// it is goes to an agent that has as much. While none is there and one may come, which is
// away or not back since the controller started, the task has no agent: the decision says
// EventTorn again, so that it is decided anew. Without one
// it stays, or goes to any agent that has enough but for that, which says that it does not fit.
// Then, too, the decision says EventTorn: a controller that starts before the task has ended
// there would take it for one that fits nowhere because its agent is lost.
// A task that fits nowhere because its agent is lost has no agent until one with as much is there.
// Where each job runs on one agent (without Spread), the agent that takes a job over has as
// much as is held for each task. An agent that comes back with less goes on with the
// others, and that task goes to another that has as much: the job comes to be on two.

// enlarge takes in how much is held for the next attempt at a task, and at each other of its gang.
func (s *States) enlarge(e *comms.Event) {
	delete(s.outgrown, e.Task) // it has run
	if e.Count == 0 {
		return
	}
	if s.enlarged == nil {
		s.enlarged = map[dag.TaskIndex]comms.Enlarged{}
	}
	before := s.enlarged[e.Task]
	for _, t := range append(gangOf(s.g, e.Task), e.Task) {
		s.enlarged[t] = comms.Enlarged{Task: t, Memory: max(e.Count, before.Memory), Times: before.Times + 1}
	}
}

// outgrow takes in that a task needs more memory than its agent has; waits: for the controller.
func (s *States) outgrow(t dag.TaskIndex, waits bool) {
	if s.outgrown == nil {
		s.outgrown = map[dag.TaskIndex]bool{}
	}
	s.outgrown[t] = waits
}

// outgrownTasks lists the tasks that wait to start over for that, sorted.
func (s *States) outgrownTasks() []dag.TaskIndex {
	return slices.DeleteFunc(s.grownTasks(), func(t dag.TaskIndex) bool { return !s.outgrown[t] })
}

// grownTasks lists also those that were sent where they fail, until they begin or end.
func (s *States) grownTasks() []dag.TaskIndex {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(s.outgrown)), func(t dag.TaskIndex) bool { st := s.get(t); return st.Over() || st == TaskRunning })
}

// stuck returns those of the tasks that have outgrown their agents that go where they fail.
func (s *settlement) stuck(j *job) []dag.TaskIndex {
	return slices.DeleteFunc(slices.Clone(s.grown), func(t dag.TaskIndex) bool {
		k, runs := s.home[t]
		return s.home != nil && !runs || k == nobody || j.states.holds(&s.hosts[k], t)
	})
}

// sayGrown writes into a decision which tasks have outgrown their agents still.
func (j *job) sayGrown(b *records.Batch, s *settlement) {
	say := func(t dag.TaskIndex, waits bool, why string) {
		_, attempt := j.states.Get(t)
		e := comms.Event{Kind: comms.EventTorn, Task: t, Attempt: attempt, At: b.At, Cause: comms.Cause{Kind: comms.CauseMemory, Text: why}}
		j.states.Apply(&e)
		j.states.outgrow(t, waits)
		b.Events = append(b.Events, e)
	}
	j.states.outgrown = nil
	for _, t := range s.waits { // what it asked for is not answered yet
		say(t, true, "no agent that is here has as much memory, and one that has may come back")
	}
	for _, t := range s.stuck(j) {
		say(t, false, "no agent has as much memory: it goes where it fails")
	}
}

// enlargedOf lists what is held for tasks among some, which are sorted.
func (s *States) enlargedOf(tasks []dag.TaskIndex) (out []comms.Enlarged) {
	for t, r := range s.enlarged {
		if contains(tasks, t) {
			out = append(out, r)
		}
	}
	slices.SortFunc(out, func(a, b comms.Enlarged) int { return cmp.Compare(a.Task, b.Task) })
	return out
}

// holds tells whether a host has as much memory as is held for a task.
func (s *States) holds(h *planner.Host, t dag.TaskIndex) bool {
	r, own := s.enlarged[t]
	return !own || h.Memory == 0 || r.Memory <= uint64(h.Memory)
}

// suits tells whether a host has enough for a task, and for what is held for it.
func (j *job) suits(h *planner.Host, t dag.TaskIndex) bool {
	return h.Suits(j.graph, t) && j.states.holds(h, t)
}

// hosted tells whether an agent is there, or may come, that suits a task and has as much
// memory as is held for it.
func (c *Core) hosted(j *job, t dag.TaskIndex) bool {
	for _, a := range c.agents {
		if h := a.host(); (a.stays() || a.expected()) && j.suits(&h, t) {
			return true
		}
	}
	return false
}

// holdsAll tells whether a host has as much memory as is held for each task of a job. A
// gang makes do with what its group says.
func (j *job) holdsAll(h *planner.Host) bool {
	for t := range j.states.enlarged {
		if !j.ganged(t) && !j.states.get(t).Over() && !j.states.holds(h, t) {
			return false
		}
	}
	return true
}

// cramped tells whether more memory is held for a task than a host has that counts as
// its own, so that it must not stay: another host has as much, which may not have come
// yet, or the task has no agent. grown are tasks that have outgrown their agent.
func (c *Core) cramped(j *job, h *planner.Host, t dag.TaskIndex, grown []dag.TaskIndex) bool {
	return !j.states.holds(h, t) && (c.cfg.Spread && c.hosted(j, t) || j.mayBeNobodys(t) && !contains(grown, t) && !j.ganged(t))
}

// mayBeNobodys tells whether the process that had a task is lost. The only agent of a job
// counts as having all its tasks, also those that it was not given.
func (j *job) mayBeNobodys(t dag.TaskIndex) bool {
	k := j.ownerOf(t)
	return k != nobody && j.parts[k].gone || len(j.parts) == 1 && j.rec.Homeless
}

func (j *job) ganged(t dag.TaskIndex) bool {
	_, size := j.graph.GangOf(t)
	return size > 0
}

// crampedOn tells whether a task of a job is cramped on a host.
func (c *Core) crampedOn(j *job, h *planner.Host, grown []dag.TaskIndex) bool {
	for t := range j.states.enlarged {
		if !j.states.get(t).Over() && c.cramped(j, h, t, grown) {
			return true
		}
	}
	return false
}

// unheld says which task of a job that has no agent for some waits for one with as much
// memory as is held for it; "" when none does.
func (c *Core) unheld(j *job) string {
	if len(j.states.enlarged) == 0 {
		return ""
	}
	hosts := c.cluster().Hosts
	for _, t := range slices.Sorted(maps.Keys(j.states.enlarged)) {
		suits := func(h planner.Host) bool { return j.suits(&h, t) }
		if !j.states.get(t).Over() && !slices.ContainsFunc(hosts, suits) {
			text := fmt.Sprintf("task %s: it took more memory than its job says and is to be tried with %s, which no agent has that is here",
				j.graph.TaskName(t), units.BytesSize(float64(j.states.enlarged[t].Memory)))
			if c.hosted(j, t) {
				text += "; one that has may come back"
			}
			return text
		}
	}
	return ""
}

// larger returns how much memory tasks may occupy on the largest agent that is there or
// may come; 0: on none more than on this one.
func (c *Core) larger(name string) uint64 {
	own := c.agents[name]
	if !c.cfg.Spread || own == nil {
		return 0
	}
	if most := c.ofAll().largest; most > uint64(max(own.row.Total.Memory, 0)) {
		return most
	}
	return 0
}

// expect takes in an agent that a controller before this one knew: it has Grace to come,
// unless it has left.
func (c *Core) expect(r *records.Agent) {
	if r.Left {
		return
	}
	c.agents[r.Name] = &agent{row: records.Agent{Name: r.Name, Total: r.Total, Addresses: r.Addresses, Platform: r.Platform}, away: c.now}
	c.changed()
}

// reconsider goes on with jobs of which a task waits for an agent with more memory
// that is not expected any more.
func (c *Core) reconsider() {
	if !c.expects {
		return
	}
	c.expects = false
	for _, j := range c.sortedJobs() {
		if j.states == nil || j.rec.Cancel != "" || j.ending != nil {
			continue
		}
		switch grown := j.states.outgrownTasks(); {
		case len(grown) == 0:
		case j.stage == stageActive && slices.ContainsFunc(grown, func(t dag.TaskIndex) bool { return !c.hosted(j, t) }):
			c.goOn(j)
		default:
			c.expects = true
		}
	}
}
