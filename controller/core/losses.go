package core

import (
	"slices"
	"strings"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/dag"
)

// Held is what an agent has of a job that has not ended: tasks that run there, and tasks
// that have yet to begin there.
type Held struct {
	Job           comms.JobID
	Incarnation   uint64 // of the agent's process that has it
	Runs, Waiting []comms.Range
}

// HeldBy lists what an agent has of jobs. The driver asks when its link breaks: to the core
// the agent is still there as long as it may come back.
func (c *Core) HeldBy(agent string) (all []Held) {
	for _, j := range c.sortedJobs() {
		k := slices.IndexFunc(j.parts, func(p *part) bool { return p.agent == agent && !p.gone })
		if k < 0 || j.states == nil || j.ending != nil {
			continue
		}
		var runs, waiting []dag.TaskIndex
		j.states.Each(func(t dag.TaskIndex, s TaskState) {
			switch {
			case s.Over() || s == TaskAbsent || j.ownerOf(t) != k:
			case s == TaskRunning:
				runs = append(runs, t)
			default:
				waiting = append(waiting, t)
			}
		})
		if len(runs)+len(waiting) > 0 {
			all = append(all, Held{Job: j.id, Incarnation: j.parts[k].incarnation, Runs: comms.Ranges(runs), Waiting: comms.Ranges(waiting)})
		}
	}
	return all
}

// Open tells whether any of these tasks of a job has yet to end.
func (c *Core) Open(job comms.JobID, tasks []comms.Range) bool {
	j := c.running[job]
	if j == nil || j.states == nil || j.ending != nil {
		return false
	}
	return slices.ContainsFunc(tasks, func(r comms.Range) bool {
		return j.states.anyOpen(r, func(dag.TaskIndex) bool { return true })
	})
}

// whyLost says why tasks start over for which there is no other cause: with which agents
// they, or what they had made, were lost.
func (j *job) whyLost() string {
	var names []string
	for _, p := range j.parts {
		if p.gone {
			names = append(names, p.agent)
		}
	}
	switch len(names) {
	case 0:
		return "rebuilds what was lost"
	case 1:
		return LostWith + names[0]
	}
	return LostWith + names[0] + " and others: " + strings.Join(names[1:], ", ")
}

// LostWith begins the cause of a start over for the loss of an agent; its name follows.
const LostWith = "lost with agent "

// Loss is that the link of an agent broke which had tasks of a job. Times are wall-clock
// nanoseconds.
type Loss struct {
	At            int64
	Agent         string
	Why           string // how the link broke
	Grace         int64  // nanoseconds for which its tasks wait for it
	Runs, Waiting []comms.Range
	Back          int64 // when it was there again; 0: it has not come
}
