package core

import (
	"fmt"

	"github.com/cascade-run/cascade/comms"
)

// A handle of an actor in a value is a reference to a value that stands for the actor, which the actor's maker has put. That
// value lists the call of the process that has the actor. So what holds handles holds the process, by the rules of
// references; and when the last is gone the process is told, which may have other actors.
//
//	value with a handle ──lists──▶ stand-in ──lists──▶ process        stand-in forgotten ──▶ ActorFreed ──▶ process

// standIns is which actor each value stands for that is a stand-in, by the number that the process gives it.
type standIns struct{ of map[rowRef]uint64 }

// add notes that a value stands for an actor.
func (s *standIns) add(at rowRef, actor uint64) {
	if s.of == nil {
		s.of = map[rowRef]uint64{}
	}
	s.of[at] = actor
}

// endJob forgets the stand-ins of a job, whose processes end with it.
func (s *standIns) endJob(j *job) {
	for at := range s.of {
		if at.job == j {
			delete(s.of, at)
		}
	}
}

// check tells of stand-ins that are no values, or refer to no process.
func (s *standIns) check(rs *references) error {
	for at := range s.of {
		if list := rs.list(at.job, comms.DatasetRef{Task: at.task}); !at.row().value || len(list) != 1 {
			return fmt.Errorf("job %s: row %d stands for an actor, and is a value: %v, with %d references", at.job.id, at.task, at.row().value, len(list))
		}
	}
	return nil
}

// standIn notes that a value which a run has put stands for an actor.
func (c *Core) standIn(at rowRef, actor uint64) error {
	if list := c.refs.list(at.job, comms.DatasetRef{Task: at.task}); len(list) != 1 || list[0].row().shape == nil || list[0].row().shape == borrowed {
		return fmt.Errorf("value %v stands for actor %d, and refers to %d calls: want the one of the actor's process", at.row().ref, actor, len(list))
	}
	c.actors.add(at, actor)
	return nil
}

// freeActor follows when a stand-in is forgotten: no handle of the actor is left in a value, or with a task that has found one.
func (c *Core) freeActor(at rowRef) {
	actor := c.actors.of[at]
	if actor == 0 {
		return
	}
	delete(c.actors.of, at)
	p := c.refs.list(at.job, comms.DatasetRef{Task: at.task})[0]
	if p.job.dropped {
		return
	}
	if r := c.runOf(p.job, p.task); r != nil && r.ex.state != exKilled {
		c.emit(ToExecutor{r.ex.id, &comms.ActorFreed{Run: r.id, Actors: []uint64{actor}}})
	}
}
