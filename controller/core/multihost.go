package core

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/dag"
)

// A multi-host gang starts when each of its agents holds what its members need. The
// agents report how far they are (GangStatus) and the controller commands (GangCommand):
//
//	ready ──▶ Reserve ──▶ reserved ──▶ Start ──▶ started
//	  ▲                      │
//	  └─────── Abort ◀───────┘  one of them cannot: the reservation slot is over
//
// Only one gang has the reservation slot at a time, so that no two hold each a part of
// what both need. Nothing of this is stored: the agents report anew to the next
// controller. A reservation ends with the job's epoch, unless the members have started.
// A gang of which some members have started and others not restarts.

// gathering is a gang that several agents have, on its way to its start.
type gathering struct {
	job    *job
	first  dag.TaskIndex
	size   int
	words  map[string]*comms.GangStatus // of agents: how far their members are; none: not ready. Once told to start: since then
	turn   uint64                       // its last; 0: it had none
	passed uint64                       // the turn that it gave up last: it comes behind others
	begun  bool                         // they were told to start
	doubt  bool                         // a link was lost since, perhaps with that
}

// muster takes an agent's word on its members of a gang.
func (c *Core) muster(a *agent, m *comms.GangStatus) {
	j := c.jobs[m.Job]
	if j == nil || j.live == nil || j.states == nil || j.life != m.JobIncarnation || j.rec.Epoch != m.Epoch || c.cfg.Passive || j.partOf(a.row.Name) == nil {
		return // of what is past
	}
	if why := wrongMuster(j.graph, m); why != "" {
		c.emit(CloseLink{Link: a.link.id, Why: fmt.Sprintf("agent %s says of job %s: %s", a.row.Name, m.Job, why)})
		return
	}
	g := j.gatherings[m.Task]
	if g == nil {
		g = &gathering{job: j, first: m.Task, words: map[string]*comms.GangStatus{}}
		_, g.size = j.graph.GangOf(m.Task)
		if j.gatherings == nil {
			j.gatherings = map[dag.TaskIndex]*gathering{}
		}
		j.gatherings[m.Task] = g
	}
	c.mustered = true
	switch {
	case m.State == comms.GangWaiting:
		delete(g.words, a.row.Name) // of one that was told to start: it starts
	case m.State == comms.GangReserved && m.Turn == g.turn && g.begun && !g.doubt: // it is about to be told
	case m.State == comms.GangReserved && (m.Turn != g.turn || c.turn != g) && !g.begun:
		delete(g.words, a.row.Name)
		c.tellGang(g, a, comms.GangAbort, m.Turn, nil)
	default:
		g.words[a.row.Name] = m
		if c.findSplits(j) {
			c.recover(j, "", false)
		}
	}
}

// wrongMuster tells what makes no sense in an agent's word.
func wrongMuster(g *dag.Graph, m *comms.GangStatus) string {
	if int(m.Task) >= g.NumTasks() {
		return fmt.Sprintf("a gang of task number %d, of %d", m.Task, g.NumTasks())
	}
	first, size := g.GangOf(m.Task)
	switch {
	case size == 0 || first != m.Task:
		return fmt.Sprintf("task number %d is not the first of a gang", m.Task)
	case m.State < comms.GangWaiting || m.State > comms.GangStarted:
		return fmt.Sprintf("the members of a gang are in state %d", m.State)
	case len(m.Members) > size:
		return fmt.Sprintf("%d members of a gang of %d", len(m.Members), size)
	}
	for _, at := range m.Members {
		if !comms.IsMemberAddress(at) {
			return fmt.Sprintf("a member of a gang is reached at %q: want host:port", at)
		}
	}
	return ""
}

// findSplits notes which gangs of a job must start over because some members have
// started and others wait: what told them to start was lost with a link or a
// controller. It tells whether there are any.
func (c *Core) findSplits(j *job) (found bool) {
	for first, g := range j.gatherings {
		if !g.isSplit() {
			continue
		}
		if j.split == nil {
			j.split = map[dag.TaskIndex]bool{}
		}
		j.split[first], found = true, true
		delete(j.gatherings, first)
	}
	return found
}

func (g *gathering) isSplit() bool {
	waits, started := false, g.begun
	for _, m := range g.words {
		waits = waits || m.State != comms.GangStarted
		started = started || m.State == comms.GangStarted
	}
	return waits && (started || slices.ContainsFunc(gangOf(g.job.graph, g.first), func(t dag.TaskIndex) bool { return g.job.states.get(t) == TaskDone }))
}

// hosting is an agent's part of a gang.
type hosting struct {
	agent   *agent
	members int
}

// hosts lists the agents of the members of a gang, by rank; nil while a member has
// none, or its agent has no link.
func (c *Core) hosts(g *gathering) (all []hosting) {
	for _, t := range gangOf(g.job.graph, g.first) {
		k := g.job.ownerOf(t)
		if k == nobody {
			return nil
		}
		a := c.here(g.job.parts[k])
		switch {
		case a == nil || g.job.parts[k].told != g.job.rec.Epoch:
			return nil
		case len(all) > 0 && all[len(all)-1].agent == a:
			all[len(all)-1].members++
		default:
			all = append(all, hosting{a, 1})
		}
	}
	return all
}

// goes tells whether a gathering is still one.
func (c *Core) goes(g *gathering) bool {
	j := g.job
	return j.live != nil && j.gatherings[g.first] == g && j.ending == nil && j.rec.Phase == comms.JobRunning && j.rec.Cancel == ""
}

// ready tells whether all agents could start their members of a gang.
func (g *gathering) ready(all []hosting) bool {
	return len(all) > 0 && !slices.ContainsFunc(all, func(h hosting) bool {
		m := g.words[h.agent.row.Name]
		return m == nil || m.State == comms.GangStarted
	})
}

// gather gives gangs their turns, one after the other, and has them start.
func (c *Core) gather() {
	for c.turn != nil || c.mustered {
		if c.turn == nil {
			c.mustered = false
			if c.turn = c.nextTurn(); c.turn == nil {
				return
			}
			c.turns++
			c.turn.turn = c.turns
			c.callAll(c.turn, comms.GangReserve, nil)
		}
		if !c.advance(c.turn) {
			return // some wait for what they lack
		}
		c.turn, c.mustered = nil, true
	}
}

// advance goes on with the gang that has the turn, and tells whether that is over.
func (c *Core) advance(g *gathering) (over bool) {
	if !c.goes(g) {
		return true
	}
	all := c.hosts(g)
	if !g.ready(all) {
		c.callAll(g, comms.GangAbort, nil)
		g.passed = g.turn
		clear(g.words)
		return true
	}
	members := g.members(all)
	if members == nil {
		return false
	}
	g.begun = true
	clear(g.words)
	c.callAll(g, comms.GangStart, members)
	return true
}

// members lists where to reach each member, by rank; nil while not all is held.
func (g *gathering) members(all []hosting) (out []string) {
	at := map[*agent]int{} // one may have members here and there
	for _, h := range all {
		m := g.words[h.agent.row.Name]
		from := at[h.agent]
		at[h.agent] += h.members
		if m.State != comms.GangReserved || at[h.agent] > len(m.Members) {
			return nil
		}
		out = append(out, m.Members[from:from+h.members]...)
	}
	return out
}

// nextTurn returns the gang whose turn it is of those of which all could start:
// by priority of the job, of the task, and who has not given way. nil: none.
func (c *Core) nextTurn() (best *gathering) {
	order := func(a, b *gathering) int {
		return cmp.Or(cmp.Compare(b.job.rec.Priority, a.job.rec.Priority),
			cmp.Compare(b.job.graph.Group(b.first).Priority, a.job.graph.Group(a.first).Priority), cmp.Compare(a.passed, b.passed))
	}
	for _, j := range c.sortedJobs() {
		for _, first := range slices.Sorted(maps.Keys(j.gatherings)) {
			g := j.gatherings[first]
			if !g.begun && c.goes(g) && j.stage == stageActive && g.ready(c.hosts(g)) && (best == nil || order(g, best) < 0) {
				best = g
			}
		}
	}
	return best
}

// callAll tells all who have members of a gang what to do.
func (c *Core) callAll(g *gathering, step comms.GangStep, members []string) {
	for k, p := range g.job.parts {
		has := slices.ContainsFunc(gangOf(g.job.graph, g.first), func(t dag.TaskIndex) bool { return g.job.ownerOf(t) == k })
		if a := c.here(p); has && a != nil {
			c.tellGang(g, a, step, g.turn, members)
		}
	}
}

func (c *Core) tellGang(g *gathering, a *agent, step comms.GangStep, turn uint64, members []string) {
	c.send(a.link, &comms.GangCommand{Job: g.job.id, JobIncarnation: g.job.life, Epoch: g.job.rec.Epoch, Task: g.first, Step: step, Turn: turn, Members: members})
}

// unmustered forgets what an agent has said of gangs: it is away.
func (c *Core) unmustered(a *agent) {
	for _, j := range c.running {
		for _, g := range j.gatherings {
			g.doubt = g.doubt || g.begun
			if g.words[a.row.Name] != nil {
				delete(g.words, a.row.Name)
				c.mustered = true
			}
		}
	}
}

// tear takes in that an attempt at a gang was lost. The first event of it counts:
// those of other members follow from it. A task that is in no gang has outgrown its
// agent.
func (s *States) tear(e *comms.Event) {
	first, size := s.g.GangOf(e.Task)
	switch {
	case size == 0:
		s.outgrow(e.Task, true)
		return
	case s.torn[first]:
		return
	}
	if s.torn == nil {
		s.torn, s.tried = map[dag.TaskIndex]bool{}, map[dag.TaskIndex]comms.GangTries{}
	}
	s.torn[first] = true
	if e.Error == nil {
		return
	}
	n := s.tried[first]
	n.Task = first
	if e.Error.Kind.Retryable() {
		n.Crashes++
	} else {
		n.Fails++
	}
	s.tried[first] = n
}

// tornGangs lists the gangs that are to start over, but those of which a member
// has ended for good: the others end with it.
func (s *States) tornGangs() []dag.TaskIndex {
	out := slices.Sorted(maps.Keys(s.torn))
	return slices.DeleteFunc(out, func(first dag.TaskIndex) bool { return s.gangFailed(first) })
}

// gangFailed tells whether a member of a gang has ended, and not well.
func (s *States) gangFailed(t dag.TaskIndex) bool {
	return slices.ContainsFunc(gangOf(s.g, t), func(m dag.TaskIndex) bool { st := s.get(m); return st.Over() && st != TaskDone })
}

// triesOf lists how often gangs among tasks were tried.
func (s *States) triesOf(tasks []dag.TaskIndex) (out []comms.GangTries) {
	for _, first := range slices.Sorted(maps.Keys(s.tried)) {
		_, size := s.g.GangOf(first)
		if slices.ContainsFunc(tasks, func(t dag.TaskIndex) bool { return first <= t && int(t) < int(first)+size }) {
			out = append(out, s.tried[first])
		}
	}
	return out
}
