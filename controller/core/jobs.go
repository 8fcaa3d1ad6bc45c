package core

import (
	"bytes"
	"slices"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/controller/records"
	"github.com/cascade-run/cascade/dag"
	"github.com/cascade-run/cascade/planner"
)

// stage is where a job is on its way through the controller.
type stage uint8

const (
	stagePreparing  stage = iota + 1 // its graph is being decoded and planned
	stageActive                      // waits for an agent, or runs on one
	stageRecovering                  // what must run again is being found out
	stageEnded
)

// job is what is known of a job. Of one that has ended, of which there may be a
// million, only what remains: the store has the rest.
type job struct {
	id       comms.JobID
	life     uint64 // see records.Job
	stage    stage
	durable  bool
	deleting bool
	unsaid   []pending                            // with deleting: batches that are acknowledged when it is deleted
	gone     bool                                 // not in Core.jobs any more
	remains  remains                              // once it has ended
	exports  map[comms.DatasetRef]records.Dataset // nil while there are none
	*live                                         // nil once it has ended
}

// remains is what is kept in memory of a job that has ended.
type remains struct {
	phase       comms.JobPhase
	stopped     bool // by the controller, whatever its agents had of it
	keep        bool
	graph       comms.Hash
	agent       string
	others      []string // the other agents, when they were several
	incarnation uint64
	epoch       uint64
	ended       int64
	stored      uint64
}

// live is what is known of a job that runs, or is about to run again.
type live struct {
	rec     records.Job // as it will be stored next; Phase is final only once that is durable
	waiters []waiter
	watches []*watch
	touched bool

	request *comms.Submit // without the graph
	graph   *dag.Graph
	bytes   []byte // encoded graph
	plan    *planner.Plan
	held    []int64      // bytes of memory with which tasks of each group begin, by the plan: see planner.Plan
	better  *improvement // a search for a better plan that is under way
	planned bool         // one was, and has ended
	late    string       // which deadlines the plan misses
	states  *States
	seen    map[string]records.Seen

	exported map[exportKey]bool        // outputs whose datasets are exports; instances by their slot's first
	elements map[comms.DatasetRef]bool // single elements that are
	result   bool                      // every export is there
	there    exportAt                  // the sources of exports before this one are there
	ending   *records.Job              // the end, while it is being stored

	recovering *recovery
	parts      []*part                        // who works on it; none while it waits for an agent
	hadMany    bool                           // several agents have it, or had: one may know an output of another that the controller does not
	owner      *owners                        // of tasks; nil until it is asked for
	assign     *orders                        // to be sent when what they rest on is durable
	adopt      map[comms.DatasetRef]adoptable // datasets of the earlier job that agents are to copy
	takes      map[comms.DatasetRef]string    // datasets on their way from agents that leave, and who is to hold them
	spare      *spare                         // tasks that an agent was asked to set aside for another
	patience   patience                       // of such requests
	redo       bool                           // resume when an agent that works on it is back
	former     []*part                        // who had it, until it is durable that it is theirs no more

	gatherings map[dag.TaskIndex]*gathering // gangs that several agents have, by their first members; until the next epoch
	split      map[dag.TaskIndex]bool       // of these, those of which some have started and others not
}

// exportAt is a place in an export.
type exportAt struct {
	export int
	at     place
}

type exportKey struct {
	task   dag.TaskIndex
	output uint32
}

// recovery is a Prepare under way for a job that is to go on.
type recovery struct {
	token  uint64                               // of the Prepare
	near   string                               // agent that should recompute what it lacks, and takes what has no agent; "" none
	fresh  map[comms.DatasetRef]records.Dataset // published since the Prepare
	lost   map[comms.DatasetRef]struct{}        // lost since
	rerun  []string                             // tasks asked for
	why    string
	reason RestartReason
	link   LinkID
	req    uint64
	ended  bool // the job had ended
	asked  bool // an agent asked for datasets that it does not have
	owed   bool // the job is to go on for another reason, too: also when what a client asked for is refused
}

// atEnd tells whether nothing of the job runs: it has ended, or its end is being
// stored. A request to rerun tasks changes nothing yet.
func (j *job) atEnd() bool {
	return j.live == nil || j.ending != nil || j.recovering != nil && j.recovering.ended
}

// prepared goes on with a job whose graph and plan are there, or ends it.
func (c *Core) prepared(ev *Prepared) {
	j := c.jobs[ev.Job]
	if j == nil {
		return
	}
	if j.live == nil {
		return
	}
	if r := j.recovering; r != nil && r.token == ev.Token {
		c.recovered(j, ev)
		return
	}
	if j.stage != stagePreparing || ev.Token != 0 {
		return // what it was for is past
	}
	if ev.Err != "" {
		c.refuse(j, ev.Code, ev.Err)
		return
	}
	if text := planner.Unfit(ev.Graph, c.cluster().Hosts, c.cfg.Spread); text != "" {
		c.refuse(j, comms.CodeBadRequest, text)
		return
	}
	if text := checkAgain(ev.Graph, j.request.Resume); text != "" {
		c.refuse(j, comms.CodeBadRequest, text)
		return
	}
	j.graph, j.bytes, j.plan = ev.Graph, ev.Bytes, ev.Plan
	j.stage = stageActive
	j.states = NewStates(j.graph)
	j.rec.Name = j.graph.Name
	j.rec.Totals = j.states.Totals()
	j.rec.Packages = PackagesOf(j.graph)
	c.findExports(j)
	c.warnLate(j, j.plan)
	var assign *comms.Assign
	var a *agent
	first := j.plan
	if j.rec.Phase == comms.JobQueued && j.rec.Cancel == "" && !j.resumes() && !c.planFirst(j) && !c.spreads(j) {
		if a = c.choose(j, j.graph); a != nil {
			assign = c.assignment(j, a)
		}
	}
	// The assignment need not wait for the disk: if the job is refused there, the
	// agent is told to forget it.
	c.emit(Create{Token: c.await(pending{what: onCreated, job: j}), Row: j.rec, Request: j.request, Graph: j.bytes})
	if assign != nil {
		c.sendAssign(a, j, j.parts[0], assign)
		c.improve(j, first, planner.Cluster{Hosts: []planner.Host{a.host()}}, false)
	}
	c.touch(j)
}

// PackagesOf names the packages that must be kept for a job.
func PackagesOf(g *dag.Graph) (all []comms.Hash) {
	for _, p := range g.Packages() {
		all = append(all, comms.PackageHash(p.Hash))
	}
	return all
}

// created ends a submit: the job is durable, or was refused.
func (c *Core) created(j *job, ev Stored) {
	if ev.Err != "" {
		c.forget(j, ev.Err)
		c.refuse(j, ev.Code, ev.Err)
		return
	}
	j.durable = true
	for _, w := range j.waiters {
		c.accept(j, w)
	}
	j.waiters = nil
	switch {
	case j.rec.Agent != "" || j.ending != nil:
	case j.rec.Cancel != "":
		c.endUnassigned(j)
	case c.spreads(j), j.planned, j.resumes(), c.shareable(j): // agents may have come since it was planned
		c.place(j)
	}
}

// findExports notes which outputs are exports.
func (c *Core) findExports(j *job) {
	j.exported, j.elements = nil, nil
	for i := range j.graph.Exports {
		if j.exported == nil {
			j.exported, j.elements = map[exportKey]bool{}, map[comms.DatasetRef]bool{}
		}
		for _, s := range j.graph.Exports[i].Sources {
			if s.Kind == dag.SourceElement {
				j.elements[comms.DatasetRef{Task: s.Task, Output: s.Output, Element: s.Element}] = true
			} else {
				j.exported[exportKey{s.Task, s.Output}] = true
			}
		}
	}
}

// have notes that a dataset that outlives the run is there.
func (j *job) have(d records.Dataset) {
	if j.exports == nil {
		j.exports = map[comms.DatasetRef]records.Dataset{}
	}
	j.exports[d.Desc.Ref] = d
}

func (j *job) isExport(r comms.DatasetRef) bool {
	if j.graph.Retain {
		return true
	}
	t := r.Task
	if slot, _, ok := j.graph.Slot(t); ok {
		t = dag.TaskIndex(j.graph.NumTasks() + slot)
	}
	return j.exported[exportKey{t, r.Output}] || j.elements[r]
}

// jobEvents takes in events of a running job.
func (c *Core) jobEvents(j *job, a *agent, b *batch, first uint64, epoch uint64, events []comms.Event) {
	commit := records.Commit{Job: j.id, Agent: a.row.Name, Seen: records.Seen{Incarnation: a.row.Incarnation, UpTo: first + uint64(len(events)) - 1},
		Batch: &records.Batch{Number: j.rec.Batches, Agent: a.row.Name, Incarnation: a.row.Incarnation, Epoch: epoch, At: c.now.UnixNano(),
			First: first, Events: events}}
	j.rec.Batches++
	j.states.At(commit.Batch)
	var drained *comms.Event
	lost, torn, p := false, false, j.partOf(a.row.Name)
	for i := range events {
		e := &events[i]
		switch e.Kind {
		case comms.EventDrained:
			drained, p.drained, p.runs = e, epoch, false
		case comms.EventBuilding, comms.EventEnv:
			c.environment(j, a, e)
		case comms.EventRetry: // it recomputes what it has lost and others need, and sends EventDrained again afterwards
			drained, p.drained = nil, 0
		}
		if !j.states.Apply(e) {
			continue
		}
		torn = torn || e.Kind == comms.EventTorn || (e.Kind == comms.EventSkipped || e.Kind == comms.EventCancelled) && j.states.missed[e.Task]
		lost = c.datasets(j, a, e, &commit) || e.Kind == comms.EventRetry && j.waitsInVain(e.Task, p) || lost
		if e.Kind == comms.EventFailed && e.Error != nil {
			commit.Tasks = append(commit.Tasks, records.Task{Task: uint32(e.Task), Error: *e.Error, At: e.At})
			if j.rec.Error == nil {
				j.rec.Error = e.Error
			}
		}
		if e.Kind == comms.EventSkipped && e.Error != nil && j.rec.Error == nil && e.Error.Kind != comms.ErrorSkipped && e.Error.Kind != comms.ErrorCancelled {
			j.rec.Error = e.Error
		}
	}
	lost = slices.ContainsFunc(j.states.unkept(), j.wanted) || lost
	j.rec.Totals = j.states.Totals()
	fails := c.compared(j, commit.Batch)
	mixed := j.mixed()
	stale := mixed && j.rec.Cancel == "" // see outdated
	j.result = !mixed && (j.result || j.complete())
	torn = c.findSplits(j) || torn
	c.touchWith(j, events)
	over := j.idle() && !j.rec.Homeless || j.rec.Cancel != "" && j.stopped()
	if drained != nil && over && !lost && !stale && c.drained(j, drained) {
		if j.rec.Cancel != "" && j.states.Open() > 0 { // tasks without an agent
			row := j.rec
			commit.Row = &row
			c.commitPart(j, a, b, onCommitted, commit)
			c.endUnassigned(j)
			return
		}
		c.end(j)
		commit.Row = j.ending
		c.commitPart(j, a, b, onEnded, commit)
		return
	}
	row := j.rec
	commit.Row = &row
	c.commitPart(j, a, b, onCommitted, commit)
	switch {
	case fails:
		c.stopAgents(j)
	case lost:
		c.recover(j, a.row.Name, true)
	case torn, stale, c.relieves(j), drained != nil && j.failsHomeless():
		c.recover(j, "", false)
	}
}

// datasets notes what an event says of exports. It tells whether something is lost
// that the controller must have recomputed. An agent recomputes by itself what it loses,
// but not what it was promised and never had, nor an output of the job that its new
// process has found: that process knows no epoch and so has no task.
func (c *Core) datasets(j *job, a *agent, e *comms.Event, commit *records.Commit) (lost bool) {
	r := j.recovering
	if r != nil {
		collect(r.fresh, e, a.row.Name)
	}
	if e.Kind == comms.EventLost {
		ref := e.Cause.Ref
		p := j.partOf(a.row.Name)
		delete(p.have, ref)
		delete(j.takes, ref)
		delete(j.adopt, ref)
		if r != nil {
			r.lost[ref] = struct{}{}
		}
		_, kept := j.exports[ref]
		if kept {
			delete(j.exports, ref)
			j.exportsChange()
			commit.Drop = append(commit.Drop, ref)
		}
		if kept && commit.Batch.Epoch == 0 && r == nil {
			return true
		}
		return (e.Cause.Kind == comms.CauseSubmit || e.Cause.Kind == comms.CauseDataset) && (len(j.parts) < 2 || j.states.get(ref.Task).Over() || !j.told(ref.Task, p))
	}
	for i := range e.Outputs {
		d := &e.Outputs[i]
		if e.Kind == comms.EventAdopted {
			delete(j.takes, d.Ref)
			delete(j.adopt, d.Ref)
		}
		if r != nil {
			delete(r.lost, d.Ref)
		}
		if j.isExport(d.Ref) {
			rec := records.Dataset{Desc: *d, Agent: a.row.Name}
			rec.Desc.Place.Bytes = bytes.Clone(d.Place.Bytes) // not the whole message that it came in
			j.have(rec)
			if commit.Datasets == nil { // perhaps every event has one
				commit.Datasets = make([]records.Dataset, 0, min(len(commit.Batch.Events), 64))
			}
			commit.Datasets = append(commit.Datasets, rec)
		}
	}
	return false
}

// waitsInVain tells whether an agent makes a task again by itself, because it has
// lost what the task made, and needs for it what others make: if the task is in no
// fragment, they do not know that it waits for that.
func (j *job) waitsInVain(t dag.TaskIndex, p *part) bool {
	if len(j.parts) < 2 || j.ownerOf(t) != nobody {
		return false
	}
	ins, err := j.graph.Inputs(t)
	if err != nil {
		return false
	}
	for i := range ins {
		for _, src := range ins[i].Sources {
			// The agent asks for outputs of tasks that had ended before the epoch began.
			if over := j.states.get(src.Task).Over() && j.ownerOf(src.Task) == nobody; !over && !j.told(src.Task, p) {
				return true
			}
		}
	}
	return false
}

// told tells whether the agent of a task knows that a part of the job needs its outputs.
func (j *job) told(t dag.TaskIndex, p *part) bool {
	k := j.ownerOf(t)
	if k == nobody || j.parts[k] == p {
		return k != nobody
	}
	return slices.ContainsFunc(j.graph.Consumers(t), func(e dag.Edge) bool {
		k := j.ownerOf(e.Consumer)
		return k != nobody && j.parts[k] == p && !j.states.get(e.Consumer).Over()
	})
}

// wanted tells whether a consumer of a dataset has not ended, or may restart as the task it ended for may.
// An agent that has dropped the dataset since then says so when it is to be read after all.
func (j *job) wanted(r comms.DatasetRef) bool {
	for _, e := range j.graph.Consumers(r.Task) {
		whole := e.Kind == dag.SourceStream || e.Kind == dag.SourceGroup || e.Kind == dag.SourceWhole
		if e.Output == r.Output && (whole || e.Element == r.Element) && j.states.unsure(e.Consumer) {
			return true
		}
	}
	for _, slot := range j.graph.StreamSlots(r.Task, r.Output) {
		if i, err := j.graph.Instance(slot, r.Element); err == nil && j.states.unsure(i) {
			return true
		}
	}
	for _, slot := range j.graph.SlotConsumers(r.Task, r.Output) {
		first, err := j.graph.Instance(slot, 0)
		if err != nil {
			continue
		}
		stream := j.graph.Group(first).Stream
		if stream == nil {
			return true
		}
		n, ended := j.states.Elements(stream.Generator, stream.Output)
		for e := range n {
			if i, err := j.graph.Instance(slot, e); err == nil && j.states.unsure(i) {
				return true
			}
		}
		if !ended {
			return true
		}
	}
	return false
}

// loaded takes in a job from the store.
func (c *Core) loaded(ev *Loaded) {
	j := &job{id: ev.Row.ID, life: ev.Row.JobIncarnation, durable: true}
	c.jobs[j.id] = j
	if ev.Row.Phase.Final() {
		if ev.Past != nil {
			for _, d := range ev.Past.Data {
				j.have(d)
			}
		}
		ev.Row.GraphHash = c.intern(ev.Row.GraphHash)
		c.lay(j, &ev.Row)
		return
	}
	j.live = &live{rec: ev.Row, seen: ev.Past.Seen}
	c.running[j.id] = j
	j.stage = stageActive
	j.request, j.graph, j.bytes, j.states = ev.Request, ev.Graph, ev.Bytes, ev.Past.States
	j.rec.Batches = max(j.rec.Batches, ev.Past.Batches)
	j.rec.Totals = j.states.Totals()
	j.states.takeDiffering() // it was reported
	j.parts, j.hadMany = partsOf(&j.rec, ev.Past.Given), len(ev.Past.Given) > 0
	c.findExports(j)
	for _, d := range ev.Past.Data {
		if j.isExport(d.Desc.Ref) {
			j.have(d)
		}
	}
	j.result = j.complete()
	for _, p := range j.parts {
		if c.agents[p.agent] == nil {
			// Not seen yet: it has Grace to come before another takes its jobs.
			c.agents[p.agent] = &agent{row: records.Agent{Name: p.agent}, away: c.now}
			c.changed()
		}
	}
	if j.rec.Cancel != "" && j.rec.Agent == "" {
		c.endUnassigned(j)
	}
}
