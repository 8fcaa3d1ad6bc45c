package core

import (
	"cmp"
	"fmt"
	"slices"
	"sort"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/dag"
)

// assign takes a fragment of a job, or what replaces one.
func (c *Core) assign(m *comms.Assign, g *dag.Graph, bad string) {
	j := c.byJob[m.Job]
	if j != nil && m.Epoch <= j.epoch {
		return
	}
	ranks, fuse, why := readPlan(m, tasksKnown(j, g))
	if why != "" {
		c.refuse(m, why)
		return
	}
	if g == nil && (j == nil || j.adopted) {
		c.refuse(m, "graph of the job: "+bad)
		return
	}
	switch {
	case j == nil:
		j = c.newJob(m, tenantOf(m.Tenant, m.Job), g)
	case j.adopted:
		j = c.readopt(j, m, g)
	}
	if j.noted {
		c.flush() // what was noted is of the epoch before
	}
	j.epoch, j.takes = m.Epoch, nil
	if j.peers != nil || len(m.Peers)+len(m.Adopt) > 0 {
		c.setPeers(j, m)
	}
	c.leaveAll(j)
	c.giveAside(j)
	before := j.halt()
	c.newPlan(j, m, ranks, fuse)
	c.begin(j)
	c.knownEnds(j, m.Ended)
	c.knownData(j, m)
	c.take(j, m.Fetch)
	c.adoptAll(j, m.Adopt)
	c.newTurns(j)
	again := c.setTasks(j, m)
	c.setTries(j, m.Tried)
	c.setEnlarged(j, m)
	for _, t := range again {
		c.rebuild(j, t)
	}
	if j.peers != nil {
		c.recountOut(j)
	}
	c.recount(j)
	if before != nil && j.upholds(m, before) {
		c.stop(j, before.why, before.cause)
	}
	c.offerAll(j)
	c.askFunctions(j)
	c.touch(j)
	if j.peers != nil {
		c.greetPeers(j)
	}
	if len(m.Ended) > 0 {
		c.askMissing(j)
	}
	c.replayEarly(j)
}

// readPlan reads the ranks and fused paths of an Assign for a job of which so many
// tasks are known. It says why an Assign cannot be followed, empty when it can.
func readPlan(m *comms.Assign, known int) (ranks []float64, fuse [][]taskIndex, why string) {
	for _, e := range m.Ends {
		if e.Failed && e.Count > maxElements {
			return nil, nil, fmt.Sprintf("a generator is said to have published %d elements before it failed, and at most %d are looked for", e.Count, maxElements)
		}
	}
	if why := tooMany(m.Ended, known); why != "" {
		return nil, nil, why
	}
	for _, r := range m.Run {
		if int(r.Last) >= known+maxElements {
			return nil, nil, fmt.Sprintf("task number %d is to run, and at most %d are looked for beyond the %d that are known", r.Last, maxElements, known)
		}
	}
	ranks, err := comms.ReadRanks(m.Ranks)
	fuse, err2 := comms.ReadPaths(m.Fuse)
	if err = cmp.Or(err, err2); err != nil {
		return nil, nil, "the plan cannot be read: " + err.Error()
	}
	return ranks, fuse, ""
}

// newPlan takes over in which order and for whom a job's tasks run.
func (c *Core) newPlan(j *job, m *comms.Assign, ranks []float64, fuse [][]taskIndex) {
	j.priority, j.held, j.stopped = m.Priority, m.Hold, nil
	c.fixTurn(j)
	if ranks != nil {
		j.ranks = ranks
	}
	j.registry = m.Registry
	j.wanted.exact = false
	j.tenant.weight = float64(max(m.Weight, 1))
	if !c.cfg.Unfused {
		j.setFuse(fuse)
	}
	for i := range j.groups {
		if gs := &j.groups[i]; !gs.known && i < len(m.Seconds) {
			gs.mean = m.Seconds[i]
		}
	}
}

// maxElements is the most elements of a stream that are looked for one by one: a
// number out of all proportion in a message must not take all time and memory.
const maxElements = 1 << 24

// tasksKnown returns how many tasks of a job are known, given its Assign and its graph.
func tasksKnown(j *job, g *dag.Graph) int {
	n := 0
	if g != nil {
		n = g.NumTasks()
	}
	if j != nil {
		n = max(n, len(j.tasks))
	}
	return n
}

// tooMany tells why ends are refused: a task's number stands for all below it, and
// there is room for no more than maxElements beyond those that are known. Empty
// means that they are taken.
func tooMany(ended []comms.Ended, known int) string {
	for _, e := range ended {
		if int(e.Last) >= known+maxElements {
			return fmt.Sprintf("task number %d is said to have ended, and at most %d are looked for beyond the %d that are known", e.Last, maxElements, known)
		}
	}
	return ""
}

// refuse answers an Assign that cannot be followed.
func (c *Core) refuse(m *comms.Assign, why string) {
	j := &job{id: m.Job, life: m.JobIncarnation, epoch: m.Epoch}
	c.note(j, comms.Event{Kind: comms.EventDrained, Cause: comms.Cause{Kind: comms.CauseSubmit, Text: why},
		Error: &comms.TaskError{Kind: comms.ErrorInput, Message: why, Agent: c.cfg.Agent}})
}

func (c *Core) newJob(m *comms.Assign, of tenantKey, g *dag.Graph) *job {
	j := &job{id: m.Job, life: m.JobIncarnation, seq: 1, graph: g, dir: m.Dir, static: g.NumTasks(), tasks: make([]task, g.NumTasks()),
		trouble: map[taskIndex]*trouble{}, envs: map[envKey]*environment{}, data: map[comms.DatasetRef]*dataset{},
		streams: map[outputKey]*stream{}, gates: map[taskIndex][]gate{}, edgeCache: map[taskIndex][]dag.Edge{}}
	if n := len(c.jobs); n > 0 {
		j.seq = c.jobs[n-1].seq + 1
	}
	if c.tenants[of] == nil {
		c.tenants[of] = &tenant{tenantKey: of}
	}
	j.tenant = c.tenants[of]
	j.tenant.jobs++
	j.fresh = true
	c.jobs = append(c.jobs, j)
	c.byJob[j.id] = j
	c.newGroups(j, m.Memory)
	c.beginGangs(j, m.Memory)
	j.wanted = exportsOf(g)
	j.newSlots()
	c.newSession(j)
	c.submits.newJob(j)
	return j
}

// newGroups prepares what the tasks of each group share, some of which begin with more
// memory than the graph says.
func (c *Core) newGroups(j *job, memory []uint64) {
	g := j.graph
	j.groups = make([]groupState, len(g.Groups))
	for i := range g.Groups {
		gs := &j.groups[i]
		gs.group, gs.few = &g.Groups[i], len(g.Groups) <= fewInAll
		c.initGroup(gs)
		if i < len(memory) {
			c.beginWith(gs, memory[i])
		}
		if first, n := g.GroupTasks(i); gs.group.Stream == nil {
			gs.first, gs.size = taskIndex(first), n
		}
		gs.findStep()
		if len(g.Groups) > 1 {
			gs.findAlone()
		}
		gs.class = c.classFor(j, gs)
	}
	// All tasks of a group read from the same groups.
	for i := range g.Groups {
		first, n := g.GroupTasks(i)
		if n == 0 {
			continue
		}
		if st := g.Groups[i].Stream; st != nil {
			first += j.static
			j.groupOf(st.Generator).read = true
		}
		ins, err := g.Inputs(taskIndex(first))
		if err != nil {
			continue
		}
		for _, in := range ins {
			for _, s := range in.Sources {
				from := j.groupOf(s.Task)
				from.read = true
				from.file[s.Output] = from.file[s.Output] || g.Groups[i].Run.Command != nil
			}
		}
	}
}

// initGroup prepares what follows from a group alone.
func (c *Core) initGroup(gs *groupState) {
	gs.need, gs.unfit = c.need(gs.group.Resources)
	gs.file = make([]bool, len(gs.group.Outputs))
	gs.rooted = len(gs.group.Inputs) == 0 && gs.group.Stream == nil
	for o, out := range gs.group.Outputs {
		gs.generator = gs.generator || out.Generate != dag.GenerateNone
		gs.file[o] = gs.group.Run.Command != nil
	}
	gs.findConstants()
}

// along returns where a task's path leads, noTask when it is in none.
func along(path []taskIndex, t taskIndex) taskIndex {
	if int(t) < len(path) {
		return path[t]
	}
	return noTask
}

func (j *job) setFuse(paths [][]taskIndex) {
	j.fuse, j.fused = nil, nil
	if len(paths) > 0 {
		j.fuse, j.fused = slices.Repeat([]taskIndex{noTask}, j.static), slices.Repeat([]taskIndex{noTask}, j.static)
	}
	for _, p := range paths {
		for k := 1; k < len(p); k++ {
			if int(p[k-1]) < j.static && int(p[k]) < j.static {
				j.fuse[p[k-1]], j.fused[p[k]] = p[k], p[k-1]
			}
		}
	}
}

// setTasks brings the tasks in line with an Assign: those in Run are this
// agent's, others that have not ended are not any more. A task that ended here
// runs again only when the Assign gives it a higher attempt: else the sender did
// not know yet. So does an instance that was skipped before it came into being:
// else its inputs would be recomputed for nothing. A task that the Assign does not
// name has not ended, whatever was known of it: it starts over when there is an
// agent that can run it.
func (c *Core) setTasks(j *job, m *comms.Assign) (again []taskIndex) {
	run := m.Run
	if run == nil && len(m.Peers)+len(m.Ended) == 0 {
		run = []comms.Range{{First: 0, Last: taskIndex(max(j.static, 1) - 1)}}
		if j.static == 0 {
			run = nil
		}
	}
	mine := make([]bool, len(j.tasks))
	k := 0
	for _, r := range run {
		for i := uint64(r.First); i <= uint64(r.Last); i++ {
			attempt := uint32(1)
			if k < len(m.Attempts) {
				attempt = m.Attempts[k]
			}
			k++
			if i >= uint64(j.static) && !c.adoptInstance(j, i) {
				c.nextAttempt(j, i, attempt)
				continue
			}
			for uint64(len(mine)) <= i {
				mine = append(mine, false)
			}
			mine[i] = true
			t := &j.tasks[i]
			switch {
			case t.state == tAbsent && t.flags&fUnborn != 0 && attempt <= t.attempt:
				*t = task{attempt: t.attempt, state: tSkipped, flags: fReleased}
			case t.state == tAbsent:
				*t = task{attempt: attempt, state: tWaiting}
				j.unended++
				if !j.fresh || i >= uint64(j.static) { // its inputs may have been made here when no task here read them, and are gone then
					again = append(again, taskIndex(i))
				}
			case attempt > t.attempt:
				c.leaveGang(j, taskIndex(i))
				c.disown(j, taskIndex(i)) // it may not have ended
				c.restart(j, taskIndex(i), attempt, func(t taskIndex) bool { return named(m, t) })
				again = append(again, taskIndex(i))
			}
		}
	}
	for _, e := range m.Ended { // what runs again here without the sender's knowledge goes on
		for i := int(e.First); i <= min(int(e.Last), len(mine)-1); i++ {
			mine[i] = true
		}
	}
	for i := range j.tasks {
		if i < len(mine) && mine[i] || i >= j.static {
			continue
		}
		if t := taskIndex(i); j.tasks[t].state.over() {
			c.makeAbsent(j, t, false)
		} else {
			c.disown(j, t)
		}
	}
	return again
}

// knownEnds takes over how tasks have ended that this agent knows nothing of.
func (c *Core) knownEnds(j *job, all []comms.Ended) {
	for _, e := range all {
		if int(e.Last) >= j.static && (len(j.slots) == 0 || e.Last > noTask-1) || e.How < comms.OutcomeDone || e.How > comms.OutcomeCancelled {
			continue
		}
		c.grow(j, comms.DatasetRef{Task: e.Last})
		for t := e.First; t <= e.Last; t++ {
			if j.tasks[t].state == tAside { // another agent was given it at an epoch of which this one did not hear
				c.yield(j, t)
			}
			if s := &j.tasks[t]; s.state == tAsked {
				c.unask(j, t)
			} else if s.state == tAbsent {
				s.state = tFinished + taskState(e.How-comms.OutcomeDone)
				s.flags |= fReleased | fElsewhere
				j.fresh = false
				c.neverBegan(j, t, e.How)
				if e.How != comms.OutcomeDone && j.groupOf(t).ganged() { // the members that are here end with it
					c.todo = append(c.todo, ended{j, t})
				}
			}
		}
	}
}

// neverBegan ends the streams of a generator that ended badly: when it has made
// nothing, no message tells of them.
func (c *Core) neverBegan(j *job, t taskIndex, how comms.Outcome) {
	if gs := j.groupOf(t); how == comms.OutcomeDone || !gs.generator {
		return
	}
	for o, out := range j.groupOf(t).group.Outputs {
		if k := (outputKey{t, uint32(o)}); out.Generate != dag.GenerateNone && j.streams[k] == nil {
			st := j.stream(t, k.output)
			st.ended, st.failed = true, true
		}
	}
}

// disown gives up a task that another agent has now.
func (c *Core) disown(j *job, t taskIndex) {
	s := &j.tasks[t]
	if s.state == tAbsent || s.state.over() {
		return
	}
	c.leaveGang(j, t)
	if r := c.runOf(j, t); r != nil {
		if r.gang != nil { // the others of its gang do not wait for it
			c.kill(r.ex, "its gang starts over")
		} else {
			c.cancel(r, "the task was moved")
		}
		r.orphan = true
	}
	c.dropUnplaced(j, t)
	s.state = tAbsent
	j.unended--
	c.endCalls(j, t)
}

// restart runs a task again on request: what it made before
// counts no more. The instances that follow it and have not begun come into being
// anew, and so do those that have ended without the sender's knowledge (known says
// of which it has any): their ends are void with all that was noted of the stream.
// Those of which it knows that they have ended are not asked for.
func (c *Core) restart(j *job, t taskIndex, attempt uint32, known func(taskIndex) bool) {
	j.given = j.given || j.groupOf(t).generator
	c.forgetOutputs(j, t, func(ref comms.DatasetRef) {
		for _, s := range j.graph.StreamSlots(t, ref.Output) {
			i, err := j.graph.Instance(s, ref.Element)
			if err != nil || int(i) >= len(j.tasks) {
				continue
			}
			s := &j.tasks[i]
			void := s.state.over() && s.flags&fElsewhere == 0 && !known(i)
			if void || s.state != tAbsent && s.state != tQueued && s.state != tRunning && !s.state.over() {
				c.unmake(j, i)
			}
		}
	})
	c.again(j, t, attempt)
}

// named tells whether an Assign says of a task that it is to run or how it ended.
func named(m *comms.Assign, t taskIndex) bool {
	r := sort.Search(len(m.Run), func(k int) bool { return m.Run[k].Last >= t })
	e := sort.Search(len(m.Ended), func(k int) bool { return m.Ended[k].Last >= t })
	return r < len(m.Run) && m.Run[r].First <= t || e < len(m.Ended) && m.Ended[e].First <= t
}

// unmake takes an instance and its outputs out of existence; its attempt stays, to be counted on.
func (c *Core) unmake(j *job, i taskIndex) {
	c.disown(j, i)
	c.forgetOutputs(j, i, func(comms.DatasetRef) {})
	j.tasks[i] = task{attempt: j.tasks[i].attempt}
}

// forgetOutputs takes away all that a task has made, and calls also for each of it.
func (c *Core) forgetOutputs(j *job, t taskIndex, also func(comms.DatasetRef)) {
	for o := range j.groupOf(t).group.Outputs {
		k := outputKey{t, uint32(o)}
		n := uint64(1)
		if st := j.streams[k]; st != nil {
			n = st.next
			delete(j.streams, k)
		}
		for e := range n {
			ref := comms.DatasetRef{Task: t, Output: k.output, Element: e}
			if d := j.data[ref]; d != nil {
				c.freeData(j, d)
			}
			also(ref)
		}
	}
}

// again puts a task that has ended back to the start.
func (c *Core) again(j *job, t taskIndex, attempt uint32) {
	s := &j.tasks[t]
	*s = task{attempt: attempt, state: tWaiting, flags: s.flags & fUnfused}
	j.unended++
	delete(j.trouble, t)
	j.untellEnd(t)
	c.reopenStreams(j, t)
	c.begin(j)
}
