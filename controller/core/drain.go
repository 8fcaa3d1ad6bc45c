package core

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/controller/records"
	"github.com/cascade-run/cascade/dag"
)

// An agent that drains reports the tasks that it has begun (DrainStatus). Its other
// tasks go to other agents at a new epoch. Datasets that are needed and that only it has
// are taken by others, which report it (EventAdopted); so are those that it makes meanwhile,
// when it has no task left. It is dismissed when it is of no job any more, or when no
// agent could take its place.

// departure is what is known of an agent that leaves.
type departure struct {
	held      map[comms.JobID]inHand
	dismissed bool
	gone      bool // it has ended
}

// inHand is what an agent that leaves has begun of a job.
type inHand struct {
	life  uint64
	tasks []comms.Range
	over  []dag.TaskIndex // of these, those that start over elsewhere; sorted
}

// taking is a dataset that another agent must take.
type taking struct {
	ref    comms.DatasetRef
	from   string
	reader dag.TaskIndex // a task that reads it, when read
	read   bool
	by     int // part
}

// stays tells whether an agent is there and may be given work.
func (a *agent) stays() bool { return a.synced && a.leaving == nil }

// othersStay tells whether there is an agent that can take over from those that leave.
func (c *Core) othersStay() bool {
	for _, a := range c.agents {
		if a.stays() {
			return true
		}
	}
	return false
}

// expected tells whether an agent that is not there may come: it is away and not given
// up, or has not told yet what it has.
func (a *agent) expected() bool {
	return !a.synced && a.leaving == nil && (a.link != nil || !a.away.IsZero())
}

// othersMayCome tells whether an agent is expected that could take over.
func (c *Core) othersMayCome() bool {
	for _, a := range c.agents {
		if a.expected() {
			return true
		}
	}
	return false
}

// inHand takes the word of an agent that leaves.
func (c *Core) inHand(a *agent, m *comms.DrainStatus) {
	if !m.Leaving || c.cfg.Passive {
		return
	}
	for i := range m.Jobs {
		if err := checkHeld(m.Jobs[i].Held); err != nil {
			c.emit(CloseLink{Link: a.link.id, Why: fmt.Sprintf("agent %s says of job %s what it has begun: %v", a.row.Name, m.Jobs[i].Job, err)})
			return
		}
	}
	was := a.leaving
	a.leaving = &departure{held: map[comms.JobID]inHand{}, dismissed: was != nil && was.dismissed}
	c.changed()
	for i := range m.Jobs {
		h := &m.Jobs[i]
		a.leaving.held[h.Job] = inHand{life: h.JobIncarnation, tasks: h.Held}
	}
	c.departs = true
	c.reconsider()
	if m.Gone {
		a.leaving.gone, a.synced, a.row.Left = true, false, true
		c.emit(StoreAgent{a.row})
		c.abandon(a)
		return
	}
	if !c.othersStay() {
		return
	}
	for _, j := range c.sortedJobs() {
		if j.partOf(a.row.Name) != nil && j.stage != stagePreparing && j.rec.Cancel == "" {
			c.recover(j, "", false)
		}
	}
}

// checkHeld makes sure that ranges of tasks are in order and do not overlap. Tasks
// that do not exist do no harm: a core looks at those only that do.
func checkHeld(held []comms.Range) error {
	for i, r := range held {
		if r.First > r.Last {
			return fmt.Errorf("tasks %d to %d are no range", r.First, r.Last)
		}
		if i > 0 && r.First <= held[i-1].Last {
			return fmt.Errorf("tasks from %d on come behind those to %d", r.First, held[i-1].Last)
		}
	}
	return nil
}

// moves tells whether a part is of an agent that leaves and whose work others can take.
func (c *Core) moves(p *part) bool {
	a := c.agents[p.agent]
	return a != nil && a.leaving != nil && !p.gone && c.othersStay()
}

// held tells whether an agent that leaves has begun a task.
func (c *Core) held(j *job, p *part, t dag.TaskIndex) bool {
	a := c.agents[p.agent]
	if a == nil || a.leaving == nil || p.gone {
		return false
	}
	h := a.leaving.held[j.id]
	return h.life == j.rec.JobIncarnation && !contains(h.over, t) && slices.ContainsFunc(h.tasks, func(r comms.Range) bool { return r.First <= t && t <= r.Last })
}

// startOver takes tasks from agents that leave although they have begun them:
// their gangs start over.
func (c *Core) startOver(j *job, tasks []dag.TaskIndex) {
	for _, p := range j.parts {
		if a := c.agents[p.agent]; c.moves(p) && len(tasks) > 0 {
			h := a.leaving.held[j.id]
			h.over = tasks
			a.leaving.held[j.id] = h
		}
	}
}

// holds tells whether anything that an agent which leaves has begun of a job has not ended.
func (c *Core) holds(j *job, p *part) bool {
	h := c.agents[p.agent].leaving.held[j.id]
	if h.life != j.rec.JobIncarnation {
		return false
	}
	for _, r := range h.tasks {
		if j.states.anyOpen(r, func(t dag.TaskIndex) bool {
			k := j.ownerOf(t)
			return k != nobody && j.parts[k] == p
		}) {
			return true
		}
	}
	return false
}

// begun returns which tasks go on where they are without what they read being
// there for others; nil when no agent leaves.
func (j *job) begun(c *Core) func(dag.TaskIndex) bool {
	if !slices.ContainsFunc(j.parts, c.moves) {
		return nil
	}
	return func(t dag.TaskIndex) bool {
		k := j.ownerOf(t)
		return k != nobody && c.held(j, j.parts[k], t) && !j.states.get(t).Over()
	}
}

// isLeft tells whether a part has nothing any more that others need: its agent leaves.
func (c *Core) isLeft(j *job, p *part, run []dag.TaskIndex, takes []taking) bool {
	if !c.moves(p) || slices.ContainsFunc(takes, func(t taking) bool { return t.from == p.agent }) {
		return false
	}
	return !slices.ContainsFunc(run, func(t dag.TaskIndex) bool {
		k := j.ownerOf(t)
		return k != nobody && j.parts[k] == p && c.held(j, p, t)
	})
}

// relieves tells whether a job should be settled anew because an agent that leaves
// has ended all that it had begun of it, and others have what they were to take.
func (c *Core) relieves(j *job) bool {
	if j.stage != stageActive || j.assign != nil || j.ending != nil || j.rec.Cancel != "" || len(j.takes) > 0 {
		return false
	}
	return slices.ContainsFunc(j.parts, func(p *part) bool { return c.moves(p) && !c.holds(j, p) })
}

// toTake lists the datasets that only an agent has that leaves, and that are read
// by tasks that run or are outputs of the job, sorted.
func (c *Core) toTake(j *job, run []dag.TaskIndex, data map[comms.DatasetRef]records.Dataset) (out []taking) {
	if !slices.ContainsFunc(j.parts, c.moves) {
		return nil
	}
	running := map[dag.TaskIndex]struct{}{}
	for _, t := range run {
		running[t] = struct{}{}
	}
	seen := map[comms.DatasetRef]struct{}{}
	add := func(ref comms.DatasetRef, reader dag.TaskIndex, read bool) {
		d, ok := data[ref]
		_, runs := running[ref.Task]
		_, known := seen[ref]
		if !ok || known || runs || d.Desc.Place.Kind == comms.PlaceInline {
			return
		}
		if p := j.partOf(d.Agent); p != nil && c.moves(p) {
			seen[ref] = struct{}{}
			out = append(out, taking{ref: ref, from: d.Agent, reader: reader, read: read})
		}
	}
	begun := j.begun(c)
	for _, t := range run {
		if begun(t) {
			continue
		}
		inputs, err := neededBy(j.graph, t, j.states.get, j.states.Expand)
		if err != nil {
			continue // again says so
		}
		for i := range inputs {
			for _, src := range inputs[i].Sources {
				refs, _ := j.states.Expand(src)
				for _, ref := range refs {
					add(ref, t, true)
				}
			}
		}
	}
	for _, ref := range c.wantedExports(j) {
		add(ref, 0, false)
	}
	slices.SortFunc(out, func(x, y taking) int { return comms.DatasetRef.Compare(x.ref, y.ref) })
	return out
}

// takers decides who takes what: the agent of a task that reads it, or else the
// one with the most memory.
func (c *Core) takers(j *job, s *settlement, takes []taking) {
	s.takes, j.takes = takes, nil
	if len(takes) == 0 {
		return
	}
	j.takes = map[comms.DatasetRef]string{}
	rest := nobody
	for i := range takes {
		t := &takes[i]
		if k, ok := s.home[t.reader]; ok && t.read && k != nobody && !c.moves(s.parts[k]) {
			t.by = k
		} else {
			if rest == nobody {
				rest = s.add(c.roomiest(), j.rec.Epoch+1)
			}
			t.by = rest
		}
		j.takes[t.ref] = s.parts[t.by].agent
	}
}

// roomiest returns the agent with the most memory of those that stay.
func (c *Core) roomiest() *agent {
	return slices.MaxFunc(slices.DeleteFunc(c.sortedAgents(), func(a *agent) bool { return !a.stays() }),
		func(a, b *agent) int { return cmp.Compare(a.row.Total.Memory, b.row.Total.Memory) })
}

// takenBy lists what a part is to take.
func (s *settlement) takenBy(k int, data map[comms.DatasetRef]records.Dataset) (out []comms.Desc) {
	for _, t := range s.takes {
		if t.by == k {
			d := data[t.ref].Desc
			d.Place = comms.Place{Kind: comms.PlaceAgent, Where: t.from}
			out = append(out, d)
		}
	}
	return out
}

// dismissAll lets agents go that leave and that nothing keeps.
func (c *Core) dismissAll() {
	if !c.departs {
		return
	}
	c.departs = false
	for _, a := range c.sortedAgents() {
		switch {
		case a.leaving == nil || a.leaving.dismissed || !a.synced:
		case c.keeps(a):
			c.departs = true
		default:
			a.leaving.dismissed = true
			c.send(a.link, &comms.DrainAgent{Done: true})
		}
	}
}

// keeps tells whether a job is not done with an agent that leaves.
func (c *Core) keeps(a *agent) bool {
	if !c.othersStay() {
		return c.othersMayCome()
	}
	for _, j := range c.running {
		if j.partOf(a.row.Name) != nil || j.formerly(a.row.Name) {
			return true
		}
	}
	return false
}

// drain has an agent leave.
func (c *Core) drain(m *comms.Drain) (comms.Code, string) {
	a := c.agents[m.Agent]
	switch {
	case a == nil:
		return comms.CodeNotFound, "no agent " + m.Agent
	case a.link == nil:
		return comms.CodeUnavailable, "agent " + m.Agent + " is away: what it had of jobs goes to others after the grace"
	}
	c.send(a.link, &comms.DrainAgent{Grace: m.Grace, Reason: m.Reason})
	return comms.CodeOK, ""
}
