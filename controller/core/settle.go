package core

import (
	"fmt"
	"maps"
	"slices"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/controller/records"
	"github.com/cascade-run/cascade/dag"
	"github.com/cascade-run/cascade/planner"
)

// orders are the Assigns of an epoch, one for each part.
type orders struct {
	spare *spare // what moves because an agent is idle; nil: nothing
	parts []*part
	to    []*comms.Assign
}

// settlement says who is to run which tasks from now on.
type settlement struct {
	parts  []*part
	hosts  []planner.Host
	home   map[dag.TaskIndex]int // part of each task that runs; nil when there is one part
	moved  []dag.TaskIndex       // tasks that another agent had, or a process that is gone, sorted
	takes  []taking              // what agents that leave have and others take
	adopts []adopting            // what agents copy from an earlier job
	left   bool                  // there are tasks that no agent can run
	grown  []dag.TaskIndex       // tasks that need more memory than their agent has, sorted
	waits  []dag.TaskIndex       // of these, those that no agent has, and one with as much may come; sorted
}

// settle decides which agent runs each task of run, which is sorted. Tasks of an agent
// that is there stay with it; the others go where the plan says, or else where there is
// room. near names the agent that recomputes what has ended before.
// Instances go where their generator goes, whatever else speaks for another agent, and
// it goes where instances of it are.
// An agent that drains keeps what it has begun; without that, and without datasets
// that others have yet to take, it is not of the job any more. grown, which is sorted,
// are tasks that need more memory than their agent has.
func (c *Core) settle(j *job, near string, run []dag.TaskIndex, takes []taking, grown []dag.TaskIndex) *settlement {
	s := &settlement{grown: grown}
	stays := make([]int, len(j.parts))
	for i, p := range j.parts {
		a := c.agents[p.agent]
		if stays[i] = nobody; a != nil && a.synced && (!p.gone || p.have != nil) && !c.isLeft(j, p, run, takes) {
			stays[i] = s.add(a, p.from)
			is := s.parts[stays[i]]
			is.told, is.drained, is.runs, is.fresh = p.told, p.drained, p.runs, p.fresh || p.gone
		}
	}
	pick := &picker{c: c, j: j, s: s, near: near, grown: grown, placed: map[dag.TaskIndex]int{}, beside: map[dag.TaskIndex]int{}, gangs: map[dag.TaskIndex]int{}}
	taken := c.taken(j, s)
	if len(j.parts) < 2 && len(s.parts) == 1 && !c.moves(s.parts[0]) && taken == nil && s.hosts[0].Runs(j.graph) && !c.crampedOn(j, &s.hosts[0], grown) {
		if j.hadMany && len(j.parts) == 1 && j.parts[0].gone {
			s.moved = slices.DeleteFunc(slices.Clone(run), func(t dag.TaskIndex) bool { return j.states.get(t).Over() })
		}
		return s // its agent is there: it has them all
	}
	owner := func(t dag.TaskIndex) int {
		if taken != nil {
			if k := taken(t); k != nobody {
				return k
			}
		}
		if k := j.ownerOf(t); k != nobody && (!c.moves(j.parts[k]) || c.held(j, j.parts[k], t)) {
			if k = stays[k]; k != nobody && (len(j.parts) < 2 && !s.hosts[k].Suits(j.graph, t) || c.cramped(j, &s.hosts[k], t, grown)) {
				return nobody // this is no task for it, and it is the only agent of the job, or another has the memory
			}
			return k
		}
		return nobody
	}
	if j.graph.NumSlots() > 0 {
		for i := len(run) - 1; i >= 0; i-- {
			if st := j.graph.Group(run[i]).Stream; st != nil {
				if k := owner(run[i]); k != nobody {
					pick.beside[st.Generator] = k
				}
			}
		}
	}
	if j.graph.HasGangs() {
		pick.placeGangs(run, owner)
	}
	for _, t := range run {
		k := owner(t)
		if at, bound := pick.withGenerator(t); bound {
			k = at
		} else if at, member := pick.gangs[t]; member {
			k = at
		} else {
			if k != nobody && pick.besides(t) != nobody {
				k = pick.besides(t)
			}
			if k == nobody || near != "" && j.states.get(t).Over() {
				k = pick.home(t, k)
			}
		}
		pick.placed[t] = k
		s.left = s.left || k == nobody
		if k == nobody && contains(grown, t) && c.hosted(j, t) {
			s.waits, c.expects = append(s.waits, t), true
		}
	}
	s.home = pick.placed
	if len(s.parts) > 1 || j.hadMany {
		for _, t := range run {
			old := j.ownerOf(t)
			if len(j.parts) == 0 || j.states.get(t).Over() {
				continue
			}
			if old == nobody { // without an agent, or one is recomputing it by itself
				s.moved = append(s.moved, t)
				continue
			}
			// A lost process may have announced to others what the controller does not know.
			if p := j.parts[old]; p.gone && j.hadMany || s.home[t] == nobody || s.parts[s.home[t]].agent != p.agent {
				s.moved = append(s.moved, t)
			}
		}
	}
	return s
}

// add makes a part for an agent, which came in at an epoch, and returns its index.
func (s *settlement) add(a *agent, from uint64) int {
	if k := slices.IndexFunc(s.parts, func(p *part) bool { return p.agent == a.row.Name }); k >= 0 {
		return k
	}
	s.parts = append(s.parts, &part{agent: a.row.Name, incarnation: a.row.Incarnation, from: from, fresh: true})
	s.hosts = append(s.hosts, a.host())
	return len(s.parts) - 1
}

// unbegun lists the tasks that move and do not restart, as they had not begun, by the agent
// that gets them, and how many they are.
func (s *settlement) unbegun(j *job, restart []dag.TaskIndex) (out []records.Assignment, n int) {
	to := map[string][]dag.TaskIndex{}
	for _, t := range s.moved {
		if st := j.states.get(t); st == TaskRunning || st.Over() || j.states.cut[t] || contains(restart, t) {
			continue
		}
		name := ""
		if k := s.home[t]; k != nobody {
			name = s.parts[k].agent
		}
		to[name] = append(to[name], t)
		n++
	}
	for _, name := range slices.Sorted(maps.Keys(to)) {
		out = append(out, records.Assignment{Agent: name, Run: comms.Ranges(to[name])})
	}
	return out, n
}

// idle tells whether no agent has anything to do, and nothing has ended before.
func (s *settlement) idle(j *job, run []dag.TaskIndex) bool {
	running := make(map[dag.TaskIndex]struct{}, len(run))
	for _, t := range run {
		if running[t] = struct{}{}; s.home[t] != nobody {
			return false
		}
	}
	return len(run) > 0 && len(j.states.ended(running)) == 0
}

// picker finds agents for tasks that have none.
type picker struct {
	c      *Core
	j      *job
	s      *settlement
	near   string
	grown  []dag.TaskIndex
	placed map[dag.TaskIndex]int
	beside map[dag.TaskIndex]int // of generators: the part that has instances of it
	gangs  map[dag.TaskIndex]int // of members of gangs: the part that has them, or that of no agent
	chosen bool
	rest   *agent // for what the plan does not place
}

// withGenerator returns the part of the generator that an instance follows, when
// that runs, too: it makes all of them, so that no other agent may have one. Instances
// of a generator without an agent have none.
func (p *picker) withGenerator(t dag.TaskIndex) (k int, bound bool) {
	st := p.j.graph.Group(t).Stream
	if st == nil {
		return nobody, false
	}
	k, bound = p.placed[st.Generator]
	return k, bound
}

func (p *picker) besides(t dag.TaskIndex) int {
	if k, ok := p.beside[t]; ok && p.s.hosts[k].Suits(p.j.graph, t) {
		return k
	}
	return nobody
}

// home returns the part for a task; now is the one that has it, or that of no agent.
func (p *picker) home(t dag.TaskIndex, now int) int {
	if k := p.besides(t); k != nobody {
		return k
	}
	suits := func(a *agent) bool {
		if a == nil || !a.stays() {
			return false
		}
		h := a.host()
		return p.j.suits(&h, t) || contains(p.grown, t) && h.Suits(p.j.graph, t) && !p.c.hosted(p.j, t) // where it fails
	}
	if p.near != "" && (p.j.states.get(t).Over() || now == nobody && len(p.j.parts) > 1 && p.j.ownerOf(t) == nobody) {
		if a := p.c.agents[p.near]; suits(a) {
			return p.add(a)
		}
	}
	if now != nobody {
		return now
	}
	if plan := p.j.plan; p.c.spreads(p.j) && int(t) < len(plan.Homes) && plan.Homes[t] >= 0 {
		if a := p.c.agents[plan.Hosts[plan.Homes[t]]]; suits(a) {
			return p.add(a)
		}
	}
	if a := p.remaining(); suits(a) {
		return p.add(a)
	}
	if !p.c.cfg.Spread {
		return nobody
	}
	for _, a := range p.c.sortedAgents() {
		if suits(a) {
			return p.add(a)
		}
	}
	return nobody
}

// remaining is the agent for what the plan does not place; nil when there is none.
func (p *picker) remaining() *agent {
	if !p.chosen {
		p.chosen = true
		if p.rest = p.c.agents[p.near]; p.rest == nil || !p.rest.stays() {
			p.rest = p.c.choose(p.j, p.j.graph)
		}
	}
	return p.rest
}

func (p *picker) add(a *agent) int { return p.s.add(a, p.j.rec.Epoch+1) }

// resetting is tasks that start over.
type resetting struct {
	now []dag.TaskIndex // their states have not been reset
	all []dag.TaskIndex
}

// decision brings the states in line with what was decided, and returns the record
// of it, nil when there is nothing to record. It is stored together with the job's
// new epoch: neither may be known without the other.
func (c *Core) decision(j *job, s *settlement, closed []dag.TaskIndex, over *resetting, why string) *records.Batch {
	b := &records.Batch{Number: j.rec.Batches, Epoch: j.rec.Epoch, At: c.now.UnixNano(), Moved: comms.Ranges(s.moved), Granting: records.GrantBegun}
	restarts := len(s.moved) > 0
	if over != nil {
		var unbegun int
		b.Unbegun, unbegun = s.unbegun(j, over.all)
		restarts = len(over.all) > 0 || unbegun < len(s.moved)
		j.states.Reset(comms.Ranges(over.now), b.Epoch+1)
		b.Reset = comms.Ranges(over.all)
	}
	j.states.move(b.Moved, b.Epoch+1, b.Granting)
	j.states.At(b)
	for _, t := range closed {
		_, attempt := j.states.Get(t)
		e := comms.Event{Kind: comms.EventFinished, Task: t, Attempt: attempt, At: b.At,
			Cause: comms.Cause{Kind: comms.CauseTask, Text: "its agent is gone, and all its consumers have ended"}}
		j.states.Apply(&e)
		b.Events = append(b.Events, e)
	}
	j.sayGrown(b, s)
	j.rec.Totals = j.states.Totals()
	if j.rec.Error != nil {
		if i, ok := j.graph.Lookup(j.rec.Error.Task); ok && !j.states.get(i).Over() {
			j.rec.Error = nil // its task has another chance
		}
	}
	if len(b.Reset)+len(b.Moved)+len(b.Events) == 0 && len(s.parts) < 2 {
		return nil
	}
	if b.Why = why; why == "" && len(b.Reset)+len(b.Moved) > 0 {
		if b.Lost = j.lostWith(); len(b.Lost) == 0 && restarts {
			b.Why = "its attempt or outputs were lost and are needed"
		}
	}
	j.rec.Batches++
	return b
}

// storeDecision stores a batch with the row that goes with it.
func (c *Core) storeDecision(j *job, b *records.Batch, reason RestartReason, drop []comms.DatasetRef, p pending) {
	if b != nil {
		b.Given = given(j.parts)
	}
	row := j.rec
	c.emit(Store{Token: c.await(p), Commit: records.Commit{Job: j.id, Row: &row, Batch: b, Drop: drop}, Graph: j.graph, Reason: reason})
}

func contains(sorted []dag.TaskIndex, t dag.TaskIndex) bool {
	_, found := slices.BinarySearch(sorted, t)
	return found
}

// hand opens a new epoch in which each part of a settlement has its tasks of run,
// and keeps what they are to be told until it is durable. data is nil of a job in
// which nothing has happened.
func (c *Core) hand(j *job, s *settlement, run []dag.TaskIndex, data map[comms.DatasetRef]records.Dataset) {
	spare := j.spare
	c.begin(j, s.parts)
	j.rec.Homeless = s.left
	mine := make([][]dag.TaskIndex, len(s.parts))
	if s.home == nil {
		mine[0] = run
	}
	for _, t := range run {
		if k, ok := s.home[t]; ok && k != nobody {
			mine[k] = append(mine[k], t)
		}
	}
	if len(s.parts) > 1 {
		for k, p := range s.parts {
			p.run = comms.Ranges(mine[k])
		}
	}
	o := &orders{parts: s.parts, to: make([]*comms.Assign, len(s.parts)), spare: spare}
	rest := c.common(j, run, data)
	for k := range s.parts {
		m := c.order(j, k)
		m.Peers = c.peersOf(s.parts, k)
		m.Run = comms.Ranges(mine[k])
		if data != nil {
			m.Attempts, m.Ends, m.Ended = make([]uint32, len(mine[k])), rest.ends, rest.ended
			for i, t := range mine[k] {
				_, m.Attempts[i] = j.states.Get(t)
			}
			m.Datasets = c.inputs(j, s.parts[k].agent, mine[k], rest.running, data)
			m.Fetch = s.takenBy(k, data)
			m.Tried = j.states.triesOf(mine[k])
			m.Enlarged = j.states.enlargedOf(mine[k])
			m.Adopt = s.adoptedBy(k, j.request.Resume)
		}
		o.to[k] = m
	}
	if data != nil && len(s.parts) > 1 {
		keepForOthers(o.to, s.parts, data)
	}
	j.plan = nil // another assignment needs another plan
	j.assign = o
}

// keepForOthers names to each agent what others were told that it has. It may be a
// process that has found that in memory and has no task that reads it.
func keepForOthers(to []*comms.Assign, parts []*part, data map[comms.DatasetRef]records.Dataset) {
	for k, p := range parts {
		for i, m := range to {
			if i == k {
				continue
			}
			for _, d := range m.Datasets {
				if d.Place.Kind == comms.PlaceAgent && d.Place.Where == p.agent && data[d.Ref].Desc.Place.Kind != comms.PlaceAgent {
					to[k].Datasets = append(to[k].Datasets, data[d.Ref].Desc)
				}
			}
		}
		byRef := func(x, y comms.Desc) int { return comms.DatasetRef.Compare(x.Ref, y.Ref) }
		slices.SortFunc(to[k].Datasets, byRef)
		to[k].Datasets = slices.CompactFunc(to[k].Datasets, func(x, y comms.Desc) bool { return x.Ref == y.Ref })
	}
}

// known is what all parts are told of how the job stands.
type known struct {
	running map[dag.TaskIndex]struct{}
	ends    []comms.StreamEnd
	ended   []comms.Ended
}

func (c *Core) common(j *job, run []dag.TaskIndex, data map[comms.DatasetRef]records.Dataset) (k known) {
	if data == nil {
		return k
	}
	k.running = make(map[dag.TaskIndex]struct{}, len(run))
	for _, t := range run {
		k.running[t] = struct{}{}
	}
	k.ends = slices.DeleteFunc(j.states.streamEnds(), func(e comms.StreamEnd) bool {
		_, again := k.running[e.Task]
		return again
	})
	k.ended = j.states.ended(k.running)
	return k
}

// peersOf lists the other parts for one.
func (c *Core) peersOf(parts []*part, k int) (out []comms.Assignment) {
	for i, p := range parts {
		if i != k {
			out = append(out, comms.Assignment{Agent: p.agent, Incarnation: p.incarnation, Addresses: c.agents[p.agent].row.Addresses, Run: p.run})
		}
	}
	return out
}

// inputs lists the datasets that tasks read at an agent and that no task makes
// which runs, with where they are.
func (c *Core) inputs(j *job, agent string, tasks []dag.TaskIndex, running map[dag.TaskIndex]struct{}, data map[comms.DatasetRef]records.Dataset) (out []comms.Desc) {
	told := map[comms.DatasetRef]struct{}{}
	tell := func(src dag.Source) {
		refs, _ := j.states.Expand(src)
		for _, ref := range refs {
			_, runs := running[ref.Task]
			if _, again := told[ref]; again || runs {
				continue
			}
			told[ref] = struct{}{}
			d, ok := data[ref]
			if !ok {
				continue // its producer failed
			}
			if d.Agent == agent && d.Desc.Place.Kind == comms.PlaceAgent {
				continue // it is to copy it: see toAdopt
			}
			desc := d.Desc
			if d.Agent != agent && desc.Place.Kind != comms.PlaceInline {
				desc.Place = comms.Place{Kind: comms.PlaceAgent, Where: d.Agent}
			}
			out = append(out, desc)
		}
	}
	for _, t := range tasks {
		inputs, err := neededBy(j.graph, t, j.states.get, j.states.Expand)
		if err != nil {
			panic(fmt.Sprintf("controller/core: job %s: %v", j.id, err))
		}
		for i := range inputs {
			for _, src := range inputs[i].Sources {
				tell(src)
			}
		}
	}
	slices.SortFunc(out, func(x, y comms.Desc) int { return comms.DatasetRef.Compare(x.Ref, y.Ref) })
	return out
}
