package core

import (
	"cmp"
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
	tReady                    // in its class's rows
	tDelayed                  // waits for its next attempt
	tAsked                    // ended before the job came here, and the controller is asked for what it made
	tAside                    // set aside for another agent, until the controller says whose it is
	tAway                     // a call that another agent runs, or is to run, or whose result is on its way here
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
	fLent                        // it left an unpublished value in its executor, for the next of its path
	fEnded                       // its end is committed and it is not released: the next of its path is not
	fElsewhere                   // it ended before the job came here: only the controller can have it run again
	fPromised                    // an instance that an Assign names, and whose element is not here yet
	fAwaited                     // a run behind it was given what it was still to make
	fUnborn                      // an absent instance that was skipped: its element never came
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

// tenantKey tells tenants apart. A job without one shares with its own calls only.
type tenantKey struct {
	name string
	job  comms.JobID // zero, if it has a name
}

func tenantOf(name string, job comms.JobID) tenantKey {
	if name != "" {
		job = comms.JobID{}
	}
	return tenantKey{name, job}
}

// tenant is those jobs that share one weight.
type tenant struct {
	tenantKey
	jobs   int // that are known
	queues []*queue
	weight float64
	used   float64 // cpu seconds granted, per unit of weight
	busy   int     // jobs that have not drained
	at     int     // in Core.busy, while it has any
	turn   turn
}

// job is a fragment of a job, as assigned.
type job struct {
	id       comms.JobID
	seq      int // order of arrival
	epoch    uint64
	life     uint64
	later    []FromController // of its successor: waits until nothing of this one runs
	graph    *dag.Graph
	dir      string
	static   int // number of static tasks
	tasks    []task
	trouble  map[taskIndex]*trouble
	groups   []groupState
	classes  []*class
	envs     map[envKey]*environment
	ranks    []float64
	fuse     []taskIndex // for each static task the next of a planned path, or noTask; nil without paths
	fused    []taskIndex // the one before
	priority int64
	tenant   *tenant
	used     float64 // as tenant.used
	registry []comms.FuncSig

	held     bool
	stopped  *stop    // nothing more starts; nil while it goes on
	dropped  bool     // forgotten: gone as soon as nothing runs
	session  bool     // a program runs its task
	dyn      *dynamic // its tasks, when they are calls; nil: they are a graph's
	depth    int      // of calls
	callers  map[taskIndex]*caller
	unended  int
	inflight int  // runs that exist, and calls at the root of which it is
	over     bool // drained was told
	active   bool // counted in its tenant's busy
	working  int  // in Core.working, while it is active
	adopted  bool // of an earlier incarnation: datasets without a graph
	fresh    bool // nothing was counted yet
	given    bool // it has, or had, datasets that came with an Assign, or of instances whose generator has started over

	data      map[comms.DatasetRef]*dataset
	takes     map[comms.DatasetRef]bool // datasets to be held here from now on, and whether they are still to come; until the next Assign
	enlarged  map[taskIndex]enlarged    // tasks for which more memory is held than their groups say
	ownGroups []*groupState             // what these have instead of their groups'
	larger    int64                     // bytes of memory for tasks on the largest agent; 0: none has more than this one
	gangs     map[taskIndex]*gang       // by their first members; those of which any member was ready
	peers     *peers                    // who has the other fragments; nil when this agent has all of it
	needs     needs
	wanted    exports
	streams   map[outputKey]*stream
	slots     []slot
	gates     map[taskIndex][]gate // of slots, by producer
	edgeCache map[taskIndex][]dag.Edge
	lastTask  taskIndex  // whose edges
	lastEdges []dag.Edge // were asked for last

	aside   []taskIndex // tasks in state tAside, sorted
	readied []entry     // since the last flush
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
	told      *executor // one that has kind: the last that was asked about
	checked   *pool     // whose registry was found to have the function
	with      []byte    // parameters that all tasks share
	varyWith  bool
	varyCmd   bool
	varyEnv   bool
	mean      float64 // predicted seconds; 0 unknown
	known     bool    // mean is measured
	first     taskIndex
	size      int         // static tasks, from first on
	list      []uint32    // its outputs
	behind    *groupState // of the task that followed one of this group last
	few       bool        // its graph has few groups
	step      bool        // its tasks can wait behind others in one run
	named     bool        // the names of its tasks go with each run
	alone     bool        // it shares its kind with groups like it
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

func (j *job) groupOf(t taskIndex) *groupState {
	if j.enlarged != nil {
		return j.ownGroup(t)
	}
	return j.sharedGroup(t)
}

// rank is a task's upward rank in seconds. Instances take their generator's: they end the need for its elements.
func (j *job) rank(t taskIndex) float64 {
	if int(t) >= j.static {
		if s := j.spec(t).Stream; s != nil {
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

// steer changes the course of a job.
func (c *Core) steer(j *job, m *comms.Steer) {
	switch m.Action {
	case comms.SteerHold:
		c.hold(j)
	case comms.SteerRelease:
		j.held = false
		c.offerAll(j)
		c.askFunctions(j)
	case comms.SteerRank:
		if m.Epoch == j.epoch && !j.adopted && j.stopped == nil {
			// An order that cannot be read is none: the one before holds.
			if ranks, err := comms.ReadRanks(m.Ranks); err == nil && ranks != nil {
				c.rerank(j, ranks)
			}
		}
	case comms.SteerCancel:
		c.stop(j, &comms.TaskError{Kind: comms.ErrorCancelled, Message: m.Reason, Agent: c.cfg.Agent}, comms.Cause{Kind: comms.CauseUser, Text: m.Reason})
	case comms.SteerForget:
		c.stop(j, &comms.TaskError{Kind: comms.ErrorCancelled, Message: "the job was forgotten", Agent: c.cfg.Agent}, comms.Cause{Kind: comms.CauseUser, Text: "forget"})
		j.dropped = true
	}
	c.touch(j)
}

// stop is why a job ends early: the error that its tasks end with, and the cause of that.
type stop struct {
	why   *comms.TaskError
	cause comms.Cause
}

// stop ends a job early: what has not started never will, what runs is cancelled.
func (c *Core) stop(j *job, why *comms.TaskError, cause comms.Cause) {
	if j.stopped != nil {
		return
	}
	j.stopped = &stop{why, cause}
	c.leaveAll(j)
	c.dropUnplaced(j, noTask)
	c.unwantAll(j)
	for i := range j.tasks {
		switch j.tasks[i].state {
		case tWaiting, tReady, tDelayed, tAside, tAway, tPinning:
			c.endUnrun(j, taskIndex(i))
		case tAsked:
			c.unask(j, taskIndex(i))
			c.touch(j)
		}
	}
	for _, ex := range c.execs {
		c.recall(ex, j, false)
		if len(ex.queue) > 0 && ex.queue[0].job == j && ex.queue[0].started {
			c.cancel(ex.queue[0], why.Message)
		}
	}
}

// halt is what a job was stopped for that has not come to its end here yet; nil when
// none. One that has may be given tasks because a client wants them again.
func (j *job) halt() *stop {
	if j.unended == 0 && j.inflight == 0 {
		return nil
	}
	return j.stopped
}

// upholds tells whether a task for whose failure a job was stopped has failed with an
// Assign, too: neither is it given out anew, nor does another agent have it, which
// says itself whether it fails. Whoever asked for another stop asks again.
func (j *job) upholds(m *comms.Assign, s *stop) bool {
	t := s.cause.Ref.Task
	if s.cause.Kind != comms.CauseTask || !j.overAt(t) || j.tasks[t].state != tFailed {
		return false
	}
	if k := slices.IndexFunc(m.Ended, func(e comms.Ended) bool { return e.First <= t && t <= e.Last }); k >= 0 {
		return m.Ended[k].How == comms.OutcomeFailed
	}
	if named(m, t) || m.Run == nil && len(m.Peers)+len(m.Ended) == 0 { // without ranges all is this agent's
		return true
	}
	slot, _, instance := j.graph.Slot(t)
	return instance && named(m, j.slots[slot].key.task) // the sender knows nothing of it yet
}

// endUnrun ends a task of a stopped job that does not run.
func (c *Core) endUnrun(j *job, t taskIndex) {
	kind, state := comms.EventSkipped, tSkipped
	e := &comms.TaskError{Kind: comms.ErrorSkipped, Message: j.stopped.why.Message, Task: j.taskName(t), Attempt: comms.Try(j.tasks[t].attempt), Agent: c.cfg.Agent}
	if j.stopped.why.Kind == comms.ErrorCancelled {
		kind, state, e.Kind = comms.EventCancelled, tCancelled, comms.ErrorCancelled
	}
	c.noteEnd(j, comms.Event{Kind: kind, Task: t, Attempt: j.tasks[t].attempt, Cause: j.stopped.cause, Error: e})
	c.end(j, t, state)
	c.todo = append(c.todo, ended{j, t})
}

// end moves a task to one of its ends.
func (c *Core) end(j *job, t taskIndex, state taskState) {
	j.tasks[t].state = state
	j.unended--
	c.touch(j)
	c.endCalls(j, t)
	if j.dyn != nil {
		c.endStay(rowRef{j, t})
		c.rowsEnded = append(c.rowsEnded, rowRef{j, t})
		return
	}
	c.instanceEnded(j, t)
	if j.peers != nil {
		c.offerEnd(j, t)
	}
}

func (c *Core) touch(j *job) {
	if !j.touched {
		j.touched = true
		c.touched = append(c.touched, j)
	}
}

// drained tells of the jobs that have come to their end, and takes forgotten ones out.
func (c *Core) drained() {
	for i := 0; i < len(c.touched); i++ { // a call that goes touches the root of it
		j := c.touched[i]
		j.touched = false
		if j.dyn != nil {
			c.restDynamic(j)
			continue
		}
		if j.unended == 0 && j.inflight == 0 && !j.over && !j.taking() {
			j.over = true
			clear(j.edgeCache)
			c.leaveAll(j)
			for _, cl := range j.classes {
				cl.clear() // of tasks that were ready and ended otherwise
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

// unlist takes a job out of the tables, and its tenant with the last.
func (c *Core) unlist(j *job) {
	c.dropPeers(j)
	c.unwork(j)
	if i, ok := slices.BinarySearchFunc(c.jobs, j.seq, func(o *job, seq int) int { return cmp.Compare(o.seq, seq) }); ok {
		c.jobs = slices.Delete(c.jobs, i, i+1)
	}
	delete(c.byJob, j.id)
	c.building -= j.building()
	if j.tenant.jobs--; j.tenant.jobs == 0 {
		delete(c.tenants, j.tenant.tenantKey)
	}
}
