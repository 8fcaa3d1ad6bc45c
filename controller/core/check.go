package core

import (
	"fmt"
	"slices"

	"github.com/cascade-run/cascade/dag"
)

// Check verifies every cross-reference of the core and returns the first that does
// not hold. Tests and the simulator call it after each step; its cost grows with the state.
func (c *Core) Check() error {
	for id, l := range c.links {
		if l.id != id {
			return fmt.Errorf("link %d is kept as %d", l.id, id)
		}
		if !l.full && len(l.queue) > 0 {
			return fmt.Errorf("link %d has room, and %d messages wait", id, len(l.queue))
		}
		for w := range l.watches {
			if w.job.live == nil || w.link != l || !slices.Contains(w.job.watches, w) || c.jobs[w.job.id] != w.job {
				return fmt.Errorf("link %d has a watch that its job does not know", id)
			}
		}
	}
	for name, a := range c.agents {
		if a.row.Name != name {
			return fmt.Errorf("agent %s is kept as %s", a.row.Name, name)
		}
		if a.link != nil && c.links[a.link.id] != a.link {
			return fmt.Errorf("agent %s has a link that is gone", name)
		}
		if a.synced && a.link == nil {
			return fmt.Errorf("agent %s is synced without a link", name)
		}
		last := a.intake.committed
		for _, b := range a.intake.batches {
			if b.upTo <= last {
				return fmt.Errorf("agent %s: batch up to %d after %d", name, b.upTo, last)
			}
			last = b.upTo
		}
		if len(a.intake.batches) > 0 && last != a.intake.received {
			return fmt.Errorf("agent %s: received %d, last batch %d", name, a.intake.received, last)
		}
	}
	if is := c.takeRoster(); c.roster.known && (c.roster.largest != is.largest || !c.roster.away.Equal(is.away)) {
		return fmt.Errorf("of all agents %+v is known, and is %+v", c.roster, is)
	}
	for id, j := range c.jobs {
		if err := c.checkJob(j); err != nil {
			return fmt.Errorf("job %s: %w", id, err)
		}
	}
	for _, w := range c.late {
		if !w.late || !w.over && w.dirty && w.due().Before(c.due) {
			return fmt.Errorf("a watch of job %s waits too long", w.job.id)
		}
	}
	return nil
}

func (c *Core) checkJob(j *job) error {
	if (j.stage == stageEnded) != (j.live == nil) || (j.live == nil) == (c.running[j.id] == j) {
		return fmt.Errorf("is at stage %d, and live %v, running %v", j.stage, j.live != nil, c.running[j.id] == j)
	}
	if j.live == nil {
		if !j.remains.phase.Final() {
			return fmt.Errorf("has ended and is %s", j.remains.phase)
		}
		return nil
	}
	switch {
	case j.stage == stageActive && (j.rec.Phase.Final() || j.states == nil || j.graph == nil || j.request == nil):
		return fmt.Errorf("is active and %s", j.rec.Phase)
	case (j.stage == stageRecovering) != (j.recovering != nil):
		return fmt.Errorf("stage %d, recovering %v", j.stage, j.recovering)
	case j.rec.Agent != "" && j.rec.Epoch == 0:
		return fmt.Errorf("is assigned at no epoch")
	}
	if len(j.parts) == 0 != (j.rec.Agent == "") || len(j.parts) > 0 && j.parts[0].agent != j.rec.Agent || len(j.parts) > 1 && len(j.parts) != len(j.rec.Assignments) {
		return fmt.Errorf("%d parts, row: agent %q, fragments %v", len(j.parts), j.rec.Agent, j.rec.Assignments)
	}
	for k, p := range j.parts {
		if j.states != nil && c.agents[p.agent] == nil {
			return fmt.Errorf("agent %s of part %d is not known", p.agent, k)
		}
		if len(j.parts) > 1 && p.incarnation != j.rec.Assignments[k].Incarnation {
			return fmt.Errorf("agent %s: incarnation %d, row %d", p.agent, p.incarnation, j.rec.Assignments[k].Incarnation)
		}
	}
	for _, w := range j.watches {
		if _, ok := w.link.watches[w]; w.job != j || !ok {
			return fmt.Errorf("has a watch that its link does not know")
		}
	}
	if j.states != nil {
		return j.states.check()
	}
	return nil
}

// check counts everything again.
func (s *States) check() error {
	want := NewStates(s.g)
	for i := range want.static {
		want.put(dag.TaskIndex(i), TaskAbsent)
	}
	s.Each(func(i dag.TaskIndex, st TaskState) { want.put(i, st) })
	for i := range s.groups {
		a, b := s.groups[i], want.groups[i]
		a.Retries = 0
		if a != b {
			return fmt.Errorf("counts %+v, want %+v", a, b)
		}
	}
	if len(s.early) == 0 && (s.early != nil || s.behind != nil || s.lists != nil) {
		return fmt.Errorf("no task ended early, and what is kept of %d is", len(s.behind))
	}
	for t := range s.early {
		if st := s.get(t); st != TaskSkipped && st != TaskCancelled {
			return fmt.Errorf("task %d ended early, and is %s", t, st)
		}
	}
	if s.open != want.open || s.totals.Tasks != want.totals.Tasks || s.totals.Done != want.totals.Done || s.totals.Failed != want.totals.Failed {
		return fmt.Errorf("totals %+v open %d, want %+v open %d", s.totals, s.open, want.totals, want.open)
	}
	return nil
}
