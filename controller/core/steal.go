package core

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/dag"
	"github.com/cascade-run/cascade/planner"
)

// Where several agents are, each reports how much work waits there (LoadReport). When
// one has nothing to do and another more than it can begin soon, the other is asked to
// set ready tasks of a job aside (StealRequest). It will not begin the tasks that it
// returns (StealReply): the job is placed anew at a new epoch, in which the idle agent
// has these tasks. It is the same kind of move as that of the tasks of an agent that
// drains, and has no other way to end: the epoch is durable, or the tasks are where they
// were.

const (
	// thrift is how many times the duration of a move it must save at least.
	thrift = 4
	// weighEvery is how often an agent says how much waits there, at most.
	weighEvery = 5 * time.Millisecond
	// leastPause and mostPause bound how long a job is left alone of which an agent could give nothing.
	leastPause, mostPause = 20 * time.Millisecond, 5 * time.Second
)

// spare is a request to an agent for tasks that another could begin sooner.
type spare struct {
	giver, taker string
	asked        time.Time
	tasks        []comms.Range // what the giver has set aside; none before it has answered
}

// patience is what is known of the moves of a job.
type patience struct {
	cost  float64       // seconds that a move took; an exponential average
	pause time.Duration // doubled each time that nothing could be had
	until time.Time     // when the job may be looked at again
}

// steals tells whether idle agents take work of others.
func (c *Core) steals() bool { return c.cfg.Spread && c.cfg.Steal > 0 && !c.cfg.Passive }

// weighAll asks the agents how much work waits there, when they are several.
func (c *Core) weighAll() {
	if !c.steals() {
		return
	}
	all := slices.DeleteFunc(c.sortedAgents(), func(a *agent) bool { return !a.stays() })
	for _, a := range all {
		if len(all) > 1 && !a.weighed {
			a.weighed = true
			c.send(a.link, &comms.LoadSubscribe{Every: int64(min(c.cfg.Steal, weighEvery))})
		}
	}
}

// wait is how long a core of an agent has work for, in seconds.
func (a *agent) wait() float64 {
	if a.backlog == nil {
		return 0
	}
	seconds := a.backlog.Busy
	for i := range a.backlog.Jobs {
		seconds += a.backlog.Jobs[i].Seconds
	}
	return seconds / a.cores()
}

func (a *agent) cores() float64 { return float64(max(a.row.Total.CPU, 1)) / 1000 }

// idle tells whether an agent has nothing to do for a core of its own.
func (a *agent) idle() bool {
	return a.stays() && a.backlog != nil && len(a.backlog.Jobs) == 0 && a.backlog.Free >= min(1000, a.row.Total.CPU)
}

// even has loaded agents give work to idle ones, one move of a job at a time.
func (c *Core) even() {
	c.evenAt = time.Time{}
	if !c.steals() {
		return
	}
	agents := c.sortedAgents()
	idle := slices.DeleteFunc(slices.Clone(agents), func(a *agent) bool { return !a.idle() || c.takes(a) })
	if len(idle) == 0 {
		return
	}
	slices.SortStableFunc(agents, func(a, b *agent) int { return cmp.Compare(b.wait(), a.wait()) })
	slices.SortStableFunc(idle, func(a, b *agent) int { return cmp.Compare(b.backlog.Free, a.backlog.Free) })
	for _, giver := range agents {
		if !giver.stays() || giver.backlog == nil {
			continue
		}
		for i := range giver.backlog.Jobs {
			if j := c.jobs[giver.backlog.Jobs[i].Job]; len(idle) > 0 && c.mayMove(j, &giver.backlog.Jobs[i]) && c.ask(j, giver, idle, giver.backlog.Jobs[i].Seconds) {
				idle = idle[1:]
			}
		}
	}
}

// takes tells whether an agent is about to be given work.
func (c *Core) takes(a *agent) bool {
	for _, j := range c.running {
		if j.spare != nil && j.spare.taker == a.row.Name {
			return true
		}
	}
	return false
}

// mayMove tells whether tasks of a job may change hands: all who work on it are
// there and agree on its epoch, and nothing else happens to it.
func (c *Core) mayMove(j *job, l *comms.JobLoad) bool {
	if j == nil || j.live == nil || j.stage != stageActive || !j.durable || j.assign != nil || j.ending != nil || j.deleting || j.spare != nil ||
		j.rec.Cancel != "" || j.rec.Phase != comms.JobRunning || j.life != l.JobIncarnation || j.rec.Epoch != l.Epoch || len(j.takes) > 0 || j.rec.Homeless {
		return false
	}
	if slices.ContainsFunc(j.parts, func(p *part) bool { return c.here(p) == nil || p.told != j.rec.Epoch || c.moves(p) }) {
		return false
	}
	if c.now.Before(j.patience.until) {
		if c.evenAt.IsZero() || j.patience.until.Before(c.evenAt) {
			c.evenAt = j.patience.until
		}
		return false
	}
	return true
}

// ask asks an agent for the part of a job's ready tasks, which take so many core
// seconds, that would end sooner on the first of the idle agents, if all of them
// get as much as they can do while it does the rest.
func (c *Core) ask(j *job, giver *agent, idle []*agent, seconds float64) bool {
	cores, taker := giver.cores(), idle[0]
	for _, a := range idle {
		cores += a.cores()
	}
	part := min(seconds, giver.wait()*giver.cores()*taker.cores()/cores)
	least := max(c.cfg.Steal.Seconds(), c.cfg.Thrift*j.patience.cost)
	if part/giver.cores() < least {
		return false
	}
	j.spare = &spare{giver: giver.row.Name, taker: taker.row.Name, asked: c.now}
	c.send(giver.link, &comms.StealRequest{Job: j.id, JobIncarnation: j.life, Epoch: j.rec.Epoch, Share: part / seconds, Least: least,
		Bandwidth: cmp.Or(taker.work.told.Bandwidth, c.cfg.Bandwidth, planner.DefaultBandwidth),
		Total:     taker.row.Total, Platform: taker.row.Platform})
	return true
}

// spared takes in that an agent has set tasks aside. A reply of a past epoch is ignored;
// tasks that were not asked for, or are not any more, the agent may keep.
func (c *Core) spared(a *agent, m *comms.StealReply) {
	j := c.jobs[m.Job]
	if j == nil || j.live == nil || j.life != m.JobIncarnation || j.rec.Epoch != m.Epoch || c.cfg.Passive {
		return
	}
	if err := checkHeld(m.Tasks); err != nil {
		c.emit(CloseLink{Link: a.link.id, Why: fmt.Sprintf("agent %s says of job %s what it has set aside: %v", a.row.Name, m.Job, err)})
		return
	}
	s := j.spare
	switch {
	case s == nil || s.giver != a.row.Name:
		c.keep(j, a)
	case s.tasks != nil: // said again, to the same controller
	case len(m.Tasks) == 0:
		j.spare = nil
		j.patience.pause = min(max(2*j.patience.pause, leastPause), mostPause)
		j.patience.until = c.now.Add(j.patience.pause)
		c.even()
	default:
		s.tasks = m.Tasks
		if j.recovering == nil {
			c.recover(j, "", false)
			if j.recovering != nil {
				j.recovering.why = fmt.Sprintf("%s is idle and takes what %s has not begun", s.taker, s.giver)
			}
		}
	}
}

// keep tells an agent that what it has set aside is its own.
func (c *Core) keep(j *job, a *agent) {
	c.send(a.link, &comms.StealRequest{Job: j.id, JobIncarnation: j.life, Epoch: j.rec.Epoch})
}

// giveUp ends a move that did not come to a new epoch.
func (c *Core) giveUp(j *job) {
	s := j.spare
	if s == nil {
		return
	}
	j.spare = nil
	if a := c.agents[s.giver]; a != nil && a.synced {
		c.keep(j, a)
	}
}

// unasked forgets what was asked of an agent that is away, and has not answered.
func (c *Core) unasked(a *agent) {
	a.backlog, a.weighed = nil, false
	c.unmustered(a)
	for _, j := range c.running {
		if j.spare != nil && j.spare.giver == a.row.Name && j.spare.tasks == nil {
			j.spare = nil
		}
	}
}

// taken returns which part of a settlement takes a task that its agent has set aside,
// nil when there is no such task.
func (c *Core) taken(j *job, s *settlement) func(dag.TaskIndex) int {
	if j.spare == nil || len(j.spare.tasks) == 0 {
		return nil
	}
	tasks, giver, taker := j.spare.tasks, j.partOf(j.spare.giver), c.agents[j.spare.taker]
	if giver == nil || giver.gone || taker == nil || !taker.stays() {
		return nil
	}
	host := taker.host()
	return func(t dag.TaskIndex) int {
		i, _ := slices.BinarySearchFunc(tasks, t, func(r comms.Range, t dag.TaskIndex) int { return cmp.Compare(r.Last, t) })
		k := j.ownerOf(t)
		if i == len(tasks) || t < tasks[i].First || k == nobody || j.parts[k] != giver || j.states.get(t).Over() || !j.suits(&host, t) ||
			j.graph.Group(t).Stream != nil {
			return nobody
		}
		return s.add(taker, j.rec.Epoch+1)
	}
}

// moved runs when a move is durable, and the agents are told.
func (c *Core) moved(j *job, s *spare) {
	p := &j.patience
	took := c.now.Sub(s.asked).Seconds()
	if p.cost == 0 {
		p.cost = took
	}
	p.cost += (took - p.cost) / 4
	p.pause, p.until = 0, c.now.Add(time.Duration(p.cost*float64(time.Second)))
	for _, name := range []string{s.giver, s.taker} { // they say it anew with the new epoch
		if a := c.agents[name]; a != nil {
			a.backlog = nil
		}
	}
}
