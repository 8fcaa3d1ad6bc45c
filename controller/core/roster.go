package core

import (
	"cmp"
	"slices"
	"time"
)

// roster is what follows from all agents together. It is found anew when one of them
// has changed, not for each Assign or Step that asks.
type roster struct {
	known   bool
	largest uint64    // most memory that tasks may occupy on one that is there or may come
	away    time.Time // when that began of the one that is away for longest; zero: none is
}

// changed notes that agents have come, gone, or are others now.
func (c *Core) changed() { c.roster.known = false }

func (c *Core) ofAll() *roster {
	if !c.roster.known {
		c.roster = c.takeRoster()
	}
	return &c.roster
}

func (c *Core) takeRoster() roster {
	r := roster{known: true}
	for _, a := range c.agents {
		if a.stays() || a.expected() {
			r.largest = max(r.largest, uint64(max(a.row.Total.Memory, 0)))
		}
		if a.isAway() && (r.away.IsZero() || a.away.Before(r.away)) {
			r.away = a.away
		}
	}
	return r
}

// isAway tells whether an agent is waited for.
func (a *agent) isAway() bool { return a.link == nil && !a.away.IsZero() }

// giveUpAway takes leave of agents that have been away for too long. All at once: after a
// restart they may be many, and each looked for in all jobs.
func (c *Core) giveUpAway() {
	first := c.ofAll().away
	if first.IsZero() || c.now.Before(first.Add(c.cfg.Grace)) {
		return
	}
	var lost []*agent
	for _, a := range c.agents {
		if a.isAway() && !c.now.Before(a.away.Add(c.cfg.Grace)) {
			lost = append(lost, a)
		}
	}
	slices.SortFunc(lost, func(a, b *agent) int { return cmp.Compare(a.row.Name, b.row.Name) })
	c.giveUpOn(lost...)
}

// giveUpOn takes leave of agents that are not there.
func (c *Core) giveUpOn(lost ...*agent) {
	for _, a := range lost {
		a.away = time.Time{}
	}
	c.changed()
	c.abandon(lost...)
	c.unexpect(lost)
}

// abandon gives what lost agents had of jobs to other agents, if there are any.
func (c *Core) abandon(lost ...*agent) {
	for _, a := range lost {
		c.emit(GaveUp{Agent: a.row.Name})
	}
	if c.cfg.Passive {
		return
	}
	names := map[string]bool{}
	for _, a := range lost {
		names[a.row.Name] = true
	}
	for _, j := range c.sortedJobs() {
		if j.ending != nil {
			continue
		}
		hit := false
		for _, p := range j.parts {
			if names[p.agent] {
				p.gone, p.have, hit = true, nil, true
			}
		}
		if hit && j.stage == stageActive {
			c.goOn(j)
		}
	}
}

// unexpect forgets agents that have not come in their time, and have nothing of a job.
func (c *Core) unexpect(lost []*agent) {
	strangers := map[string]bool{}
	for _, a := range lost {
		if a.row.Incarnation == 0 {
			strangers[a.row.Name] = true
		}
	}
	if len(strangers) == 0 {
		return
	}
	for _, j := range c.running {
		for _, p := range j.parts {
			delete(strangers, p.agent)
		}
	}
	for name := range strangers {
		delete(c.agents, name)
	}
	c.changed()
}
