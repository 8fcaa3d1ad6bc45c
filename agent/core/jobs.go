package core

import (
	"fmt"
	"slices"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/dag"
)

type taskIndex = dag.TaskIndex

// taskState is where a task stands. Those from tFinished on are ends.
type taskState uint8

const (
	tAbsent  taskState = iota // not this agent's, or an instance that does not exist yet
	tWaiting                  // for inputs
	tReady                    // in its class's heap
	tDelayed                  // waits for its next attempt
	tAsked                    // ended before the job came here, and the controller is asked for what it made
	tPinning                  // its inputs are brought into memory
	tQueued                   // sent to an executor; inputs may still be missing when they are live values
	tRunning
	tFinished
	tFailed
	tSkipped
	tCancelled
)

func (s taskState) over() bool { return s >= tFinished }

// flags of a task.
const (
	fReleased  uint8 = 1 << iota // its end is committed: it needs its inputs no more
	fUnfused                     // its fused path failed: never again as part of one
	fLent                        // it left a value in its executor that nobody published, for the next of its path
	fEnded                       // its end is committed and it is not released: the next of its path is not
	fElsewhere                   // it ended before the job came here: only the controller can have it run again
	fPromised                    // an instance that an Assign names, and whose element is not here yet
)

// task is all that is kept for each task: 12 bytes.
type task struct {
	missing uint32 // edges whose datasets are not there
	attempt uint32
	state   taskState
	flags   uint8
}

// trouble is what is kept for the few tasks that had any.
type trouble struct {
	fails   int // attempts that count against retries
	crashes int
	story   []string
}

// owner is who shares the host by weight.
type owner struct {
	name   string
	jobs   int // that are known
	queues []*queue
	weight float64
	used   float64 // cpu seconds granted, per unit of weight
	busy   int     // jobs that have not drained
	at     int     // in Core.busy, while it has any
}

// job is a fragment of a job, as assigned.
type job struct {
	id       comms.JobID
	seq      int // order of arrival
	epoch    uint64
	life     uint64
	later    []FromController // of its next life: waits until nothing of this one runs
	graph    *dag.Graph
	dir      string
	static   int // number of static tasks
	tasks    []task
	trouble  map[taskIndex]*trouble
	groups   []groupState
	classes  []*class
	envs     map[string]*environment
	ranks    []float64
	fuse     []taskIndex // for each static task the next of a planned path, or noTask; nil without paths
	fused    []taskIndex // the one before
	priority int64
	owner    *owner
	used     float64 // as owner.used
	registry []comms.FuncSig

	held     bool
	stopped  *comms.TaskError // why nothing more starts; nil while it goes on
	dropped  bool             // forgotten: gone as soon as nothing runs
	unended  int
	inflight int  // runs that exist
	over     bool // drained was told
	active   bool // counted in its owner's busy
	adopted  bool // of an earlier incarnation: datasets without a graph
	fresh    bool // nothing was counted yet
	given    bool // it has, or had, datasets that came with an Assign

	data      map[comms.DatasetRef]*dataset
	wanted    exports
	streams   map[outputKey]*stream
	slots     []slot
	gates     map[taskIndex][]gate // of slots, by producer
	edgeCache map[taskIndex][]dag.Edge
	lastTask  taskIndex  // whose edges
	lastEdges []dag.Edge // were asked for last

	readied []entry // since the last flush
	events  []comms.Event
	ends    []taskEnd
	batch   int // how many events the last batch had
	noted   bool
	touched bool
}

// groupState is what the tasks of a group share.
type groupState struct {
	group     *dag.Group
	need      amounts
	unfit     string // why its tasks can never run here
	class     *class
	generator bool
	rooted    bool // has no inputs
	read      bool // a group reads or follows its outputs
	kind      *comms.Kind
	checked   *pool  // whose registry was found to have the function
	with      []byte // parameters that all tasks share
	varyWith  bool
	varyCmd   bool
	varyEnv   bool
	mean      float64 // predicted seconds; 0 unknown
	known     bool    // mean is measured
	first     taskIndex
	size      int         // static tasks, from first on
	list      []uint32    // its outputs
	behind    *groupState // of the task that followed one of this group last
	step      bool        // its tasks can wait behind others in one run
	named     bool        // the names of its tasks go with each run
	file      []bool      // outputs that commands read or write
}

func (j *job) at(t taskIndex) *task { return &j.tasks[t] }

// groupBehind is groupOf for a task that follows one of gs.
func (j *job) groupBehind(gs *groupState, t taskIndex) *groupState {
	if b := gs.behind; b != nil && t >= b.first && int(t-b.first) < b.size {
		return b
	}
	gs.behind = j.groupOf(t)
	return gs.behind
}

// single is a list of one output. It is shared.
func (gs *groupState) single(output uint32) []uint32 {
	if gs.list == nil {
		gs.list = make([]uint32, len(gs.group.Outputs))
		for i := range gs.list {
			gs.list[i] = uint32(i)
		}
	}
	return gs.list[output : output+1 : output+1]
}

// learn takes in what a run of a group took.
func (gs *groupState) learn(seconds float64) {
	if gs.known {
		gs.mean += (seconds - gs.mean) / 8
	} else {
		gs.mean, gs.known = seconds, true
	}
}

func (j *job) groupOf(t taskIndex) *groupState { return &j.groups[j.graph.GroupIndex(t)] }

// rank is a task's upward rank in seconds. Instances take their generator's: they end the need for its elements.
func (j *job) rank(t taskIndex) float64 {
	if int(t) >= j.static {
		if s := j.graph.Group(t).Stream; s != nil {
			t = s.Generator
		}
	}
	if int(t) < len(j.ranks) {
		return j.ranks[t]
	}
	return 0
}

func (j *job) troubleOf(t taskIndex) *trouble {
	if j.trouble[t] == nil {
		j.trouble[t] = &trouble{}
	}
	return j.trouble[t]
}

// assign takes a fragment of a job, or what replaces one.
func (c *Core) assign(m *comms.Assign, g *dag.Graph, bad string) {
	j := c.byJob[m.Job]
	if j != nil && m.Epoch <= j.epoch {
		return
	}
	if j == nil {
		if g == nil {
			c.refuse(m, bad)
			return
		}
		j = c.newJob(m, g)
	} else if j.adopted {
		if g == nil {
			c.refuse(m, bad)
			return
		}
		j = c.readopt(j, m, g)
	}
	if j.noted {
		c.flush() // what was noted is of the epoch before
	}
	j.epoch = m.Epoch
	c.leaveAll(j)
	j.priority, j.held, j.stopped, j.dropped = m.Priority, m.Hold, nil, false
	if m.Ranks != nil {
		j.ranks = m.Ranks
	}
	j.registry = m.Registry
	j.wanted.exact = false
	j.owner.weight = float64(max(m.Weight, 1))
	j.setFuse(m.Fuse)
	for i := range j.groups {
		if gs := &j.groups[i]; !gs.known && i < len(m.Seconds) {
			gs.mean = m.Seconds[i]
		}
	}
	c.begin(j)
	c.knownEnds(j, m.Ended)
	c.knownData(j, m)
	again := c.setTasks(j, m)
	for _, t := range again {
		c.rebuild(j, t)
	}
	c.recount(j)
	c.offerAll(j)
	c.askFunctions(j)
	c.touch(j)
}

// refuse answers an Assign whose graph could not be had.
func (c *Core) refuse(m *comms.Assign, why string) {
	j := &job{id: m.Job, life: m.Life, epoch: m.Epoch}
	c.note(j, comms.Event{Kind: comms.EventDrained, Cause: comms.Cause{Kind: comms.CauseSubmit, Text: why},
		Error: &comms.TaskError{Kind: comms.ErrorInput, Message: "graph of the job: " + why, Agent: c.cfg.Agent}})
}

func (c *Core) newJob(m *comms.Assign, g *dag.Graph) *job {
	j := &job{id: m.Job, life: m.Life, seq: 1, graph: g, dir: m.Dir, static: g.NumTasks(), tasks: make([]task, g.NumTasks()),
		trouble: map[taskIndex]*trouble{}, envs: map[string]*environment{}, data: map[comms.DatasetRef]*dataset{},
		streams: map[outputKey]*stream{}, gates: map[taskIndex][]gate{}, edgeCache: map[taskIndex][]dag.Edge{}}
	if n := len(c.jobs); n > 0 {
		j.seq = c.jobs[n-1].seq + 1
	}
	name := m.Owner
	if name == "" {
		name = "\x00" + m.Job.String() // without an owner a job shares with nobody
	}
	if c.owners[name] == nil {
		c.owners[name] = &owner{name: name}
	}
	j.owner = c.owners[name]
	j.owner.jobs++
	j.fresh = true
	c.jobs = append(c.jobs, j)
	c.byJob[j.id] = j
	c.newGroups(j)
	j.wanted = exportsOf(g)
	j.newSlots()
	return j
}

// newGroups prepares what the tasks of each group share.
func (c *Core) newGroups(j *job) {
	g := j.graph
	j.groups = make([]groupState, len(g.Groups))
	for i := range g.Groups {
		gs := &j.groups[i]
		gs.group = &g.Groups[i]
		gs.need, gs.unfit = c.need(gs.group.Resources)
		gs.file = make([]bool, len(gs.group.Outputs))
		gs.rooted = len(gs.group.Inputs) == 0 && gs.group.Stream == nil
		for o, out := range gs.group.Outputs {
			gs.generator = gs.generator || out.Generate != dag.GenerateNone
			gs.file[o] = gs.group.Run.Command != nil
		}
		gs.findConstants()
		if first, n := g.GroupTasks(i); gs.group.Stream == nil {
			gs.first, gs.size = taskIndex(first), n
		}
		gs.findStep()
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
// not know yet.
func (c *Core) setTasks(j *job, m *comms.Assign) (again []taskIndex) {
	run := m.Run
	if run == nil {
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
			case t.state == tAbsent:
				*t = task{attempt: attempt, state: tWaiting}
				j.unended++
			case attempt > t.attempt:
				c.disown(j, taskIndex(i)) // it may not have ended
				c.restart(j, taskIndex(i), attempt)
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
		c.disown(j, taskIndex(i))
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
			if s := &j.tasks[t]; s.state == tAsked {
				c.unask(j, t)
			} else if s.state == tAbsent {
				s.state = tFinished + taskState(e.How-comms.OutcomeDone)
				s.flags |= fReleased | fElsewhere
				j.fresh = false
			}
		}
	}
}

// disown gives up a task that another agent has now.
func (c *Core) disown(j *job, t taskIndex) {
	s := &j.tasks[t]
	if s.state == tAbsent || s.state.over() {
		return
	}
	if r := c.runOf(j, t); r != nil {
		c.cancel(r, comms.ErrorCancelled, "the task was moved")
		r.orphan = true
	}
	c.dropUnplaced(j, t)
	s.state = tAbsent
	j.unended--
}

// restart runs a task again because somebody asked for it: what it made before
// counts no more. The instances that follow it and have not begun come into being
// anew, those that have ended are not asked for.
func (c *Core) restart(j *job, t taskIndex, attempt uint32) {
	c.forgetOutputs(j, t, func(ref comms.DatasetRef) {
		for _, s := range j.graph.StreamSlots(t, ref.Output) {
			i, err := j.graph.Instance(s, ref.Element)
			if err != nil || int(i) >= len(j.tasks) {
				continue
			}
			if st := j.tasks[i].state; st != tAbsent && st != tQueued && st != tRunning && !st.over() {
				c.unmake(j, i)
			}
		}
	})
	c.again(j, t, attempt)
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
	c.reopenStreams(j, t)
	c.begin(j)
}

// steer changes the course of a job.
func (c *Core) steer(j *job, m *comms.Steer) {
	switch m.Action {
	case comms.SteerHold:
		c.hold(j)
	case comms.SteerRelease:
		j.held = false
		c.offerAll(j)
		c.askFunctions(j)
	case comms.SteerCancel:
		c.stop(j, &comms.TaskError{Kind: comms.ErrorCancelled, Message: m.Reason, Agent: c.cfg.Agent}, comms.Cause{Kind: comms.CauseUser, Text: m.Reason})
	case comms.SteerForget:
		c.stop(j, &comms.TaskError{Kind: comms.ErrorCancelled, Message: "the job was forgotten", Agent: c.cfg.Agent}, comms.Cause{Kind: comms.CauseUser, Text: "forget"})
		j.dropped = true
	}
	c.touch(j)
}

// stop ends a job early: what has not started never will, what runs is
// cancelled. why is the error that its tasks end with.
func (c *Core) stop(j *job, why *comms.TaskError, cause comms.Cause) {
	if j.stopped != nil {
		return
	}
	j.stopped = why
	c.leaveAll(j)
	c.dropUnplaced(j, noTask)
	for i := range j.tasks {
		switch j.tasks[i].state {
		case tWaiting, tReady, tDelayed, tPinning:
			c.endUnrun(j, taskIndex(i), cause)
		case tAsked:
			c.unask(j, taskIndex(i))
			c.touch(j)
		}
	}
	for _, ex := range c.execs {
		c.recall(ex, j, false)
		if len(ex.queue) > 0 && ex.queue[0].job == j && ex.queue[0].started {
			c.cancel(ex.queue[0], comms.ErrorCancelled, why.Message)
		}
	}
}

// endUnrun ends a task of a stopped job that does not run.
func (c *Core) endUnrun(j *job, t taskIndex, cause comms.Cause) {
	kind, state := comms.EventSkipped, tSkipped
	e := &comms.TaskError{Kind: comms.ErrorSkipped, Message: j.stopped.Message, Task: j.graph.TaskName(t), Attempt: j.tasks[t].attempt, Agent: c.cfg.Agent}
	if j.stopped.Kind == comms.ErrorCancelled {
		kind, state, e.Kind = comms.EventCancelled, tCancelled, comms.ErrorCancelled
	}
	c.noteEnd(j, comms.Event{Kind: kind, Task: t, Attempt: j.tasks[t].attempt, Cause: cause, Error: e})
	c.end(j, t, state)
	c.todo = append(c.todo, ended{j, t})
}

// end moves a task to one of its ends.
func (c *Core) end(j *job, t taskIndex, state taskState) {
	j.tasks[t].state = state
	j.unended--
	c.touch(j)
	c.instanceEnded(j, t)
}

func (c *Core) touch(j *job) {
	if !j.touched {
		j.touched = true
		c.touched = append(c.touched, j)
	}
}

// drained tells of the jobs that have come to their end, and takes forgotten ones out.
func (c *Core) drained() {
	for _, j := range c.touched {
		j.touched = false
		if j.unended == 0 && j.inflight == 0 && !j.over {
			j.over = true
			clear(j.edgeCache)
			c.leaveAll(j)
			for _, cl := range j.classes {
				cl.heap, cl.size = nil, 0 // of tasks that were ready and ended otherwise
			}
			c.rest(j)
			var counts [tCancelled + 1]uint64
			for i := range j.tasks {
				counts[j.tasks[i].state]++
			}
			c.note(j, comms.Event{Kind: comms.EventDrained, Count: counts[tFinished],
				Cause: comms.Cause{Kind: comms.CauseRun, Number: counts[tFailed] + counts[tSkipped] + counts[tCancelled],
					Text: fmt.Sprintf("%d finished, %d failed, %d skipped, %d cancelled", counts[tFinished], counts[tFailed], counts[tSkipped], counts[tCancelled])}})
		}
		if j.dropped && j.inflight == 0 {
			c.drop(j)
		}
	}
	c.touched = c.touched[:0]
}

// drop forgets a job with all of its datasets.
func (c *Core) drop(j *job) {
	c.keepOnly(j, nil)
	c.closeKinds(j)
	c.unlist(j)
	c.emit(DropJob{j.id})
	c.later = append(c.later, j.later...)
	j.later = nil
}

// unlist takes a job out of the tables, and its owner with the last.
func (c *Core) unlist(j *job) {
	c.jobs = slices.DeleteFunc(c.jobs, func(o *job) bool { return o == j })
	delete(c.byJob, j.id)
	if j.owner.jobs--; j.owner.jobs == 0 {
		delete(c.owners, j.owner.name)
	}
}

// closeKinds lets executors forget a job's groups.
func (c *Core) closeKinds(j *job) {
	for _, gs := range j.groups {
		for _, ex := range c.execs {
			if gs.kind == nil || !ex.kinds[gs.kind.ID] {
				continue
			}
			delete(ex.kinds, gs.kind.ID)
			if ex.state != exKilled {
				c.emit(ToExecutor{ex.id, &comms.Kind{ID: gs.kind.ID, Close: true}})
			}
		}
	}
}
