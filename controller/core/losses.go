package core

import (
	"slices"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/dag"
)

// Held is what an agent has of a job that has not ended: tasks that run there, and tasks
// that have yet to begin there.
type Held struct {
	Job           comms.JobID
	Runs, Waiting []comms.Range
}

// HeldBy lists what an agent has of jobs. The driver asks when its link breaks: to the core
// the agent is still there as long as it may come back.
func (c *Core) HeldBy(agent string) (all []Held) {
	for _, j := range c.sortedJobs() {
		if p := j.partOf(agent); p != nil && !p.gone && j.states != nil && j.ending == nil {
			runs, waiting := j.open(p)
			if len(runs)+len(waiting) > 0 {
				all = append(all, Held{Job: j.id, Runs: comms.Ranges(runs), Waiting: comms.Ranges(waiting)})
			}
		}
	}
	return all
}

// open lists the tasks of a part that have not ended: those that run, and the others. It looks
// at the tasks of the part, and at the instances that there are.
func (j *job) open(p *part) (runs, waiting []dag.TaskIndex) {
	k := slices.Index(j.parts, p)
	look := func(t dag.TaskIndex, s TaskState) {
		switch {
		case s.Over() || s == TaskAbsent || j.ownerOf(t) != k:
		case s == TaskRunning:
			runs = append(runs, t)
		default:
			waiting = append(waiting, t)
		}
	}
	if len(j.parts) == 1 {
		j.states.Each(look)
		return runs, waiting
	}
	for _, r := range p.run {
		for i := uint64(r.First); i <= uint64(r.Last) && i < uint64(len(j.states.static)); i++ {
			look(dag.TaskIndex(i), j.states.static[i])
		}
	}
	j.states.eachInstance(look)
	return runs, waiting
}

// Fate is what has become of what an agent had of a job.
type Fate uint8

// The fates.
const (
	FateEnded   Fate = iota // the job has ended or is to, or is not known any more: nothing of it goes on or restarts
	FateHeld                // the agent has it
	FateRestart             // the agent was given up, or others have its tasks: they restart
)

// FateOf tells what has become of what an agent had of a job, and which process of it has it.
func (c *Core) FateOf(agent string, id comms.JobID) (f Fate, incarnation uint64) {
	j := c.running[id]
	if j == nil || j.ending != nil || j.deleting || j.rec.Cancel != "" {
		return FateEnded, 0
	}
	if p := j.partOf(agent); p != nil && !p.gone {
		return FateHeld, p.incarnation
	}
	return FateRestart, 0
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

// lostWith names the agents that are gone: with them what starts over for no other cause was
// lost, or what it had produced.
func (j *job) lostWith() (names []string) {
	for _, p := range j.parts {
		if p.gone {
			names = append(names, p.agent)
		}
	}
	return names
}
