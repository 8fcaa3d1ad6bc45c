package core

import (
	"fmt"
	"slices"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/dag"
)

// resume makes a job go on at an agent from what is still there. have is what the
// agent said that it has; nil with a job that it never stopped working on.
func (c *Core) resume(j *job, a *agent, have []comms.Desc) {
	if j.live == nil || j.stage == stagePreparing || j.ending != nil || j.deleting {
		return
	}
	if j.rec.Cancel != "" && j.rec.Incarnation != a.row.Incarnation {
		c.endUnassigned(j) // nothing of it runs any more
		return
	}
	r := &resumption{agent: a.row.Name}
	if old := j.resuming; old != nil {
		r.rerun, r.why, r.link, r.req, r.ended, r.drained, r.asked = old.rerun, old.why, old.link, old.req, old.ended, old.drained, old.asked
	}
	if j.rec.Agent != a.row.Name || j.rec.Incarnation != a.row.Incarnation {
		r.haveSet = true
		r.have = map[comms.DatasetRef]comms.Desc{}
		for i := range have {
			r.have[have[i].Ref] = have[i]
		}
	}
	c.prepareAgain(j, r)
}

func (c *Core) prepareAgain(j *job, r *resumption) {
	r.fresh, r.lost = map[comms.DatasetRef]DatasetRecord{}, map[comms.DatasetRef]struct{}{}
	if old := j.resuming; old == nil {
		c.token++
		r.token = c.token
		c.emit(Prepare{Token: r.token, Job: j.id, Graph: j.graph, Past: true, Cluster: c.cluster()})
	} else {
		// One is under way. What it does not see, fresh has seen.
		r.token, r.fresh, r.lost = old.token, old.fresh, old.lost
	}
	j.resuming, j.assign = r, nil
	j.stage = stageResuming
}

// rerun makes tasks run again with all that depends on them.
func (c *Core) rerun(j *job, m *comms.Control, link LinkID) (comms.Code, string) {
	switch {
	case len(m.Tasks) == 0:
		return comms.CodeBadRequest, "rerun: name at least one task"
	case j.live == nil:
	case j.rec.Cancel != "":
		return comms.CodeConflict, "the job is being cancelled"
	case j.stage == stagePreparing || j.stage == stageResuming || j.ending != nil:
		return comms.CodeUnavailable, "the job is between two states: try again"
	}
	why := m.Reason
	if why == "" {
		why = "rerun by a client"
	}
	ended := j.live == nil
	if ended {
		c.revive(j)
	}
	c.prepareAgain(j, &resumption{rerun: m.Tasks, why: why, link: link, req: m.Req, ended: ended})
	return comms.CodeOK, ""
}

// resumed runs when it is known what the store has of a job that is to go on.
func (c *Core) resumed(j *job, ev *Prepared) {
	r := j.resuming
	j.resuming, j.redo = nil, false
	j.stage = stageActive
	answer := func(code comms.Code, text string) {
		if l := c.links[r.link]; l != nil && len(r.rerun) > 0 {
			c.reply(l, r.req, code, text)
		}
	}
	// Nothing starts over. What was said meanwhile of the job's end counts now.
	stays := func() {
		switch {
		case r.ended:
			c.stayEnded(j)
		case (r.drained || j.idle()) && (j.states.Open() == 0 || j.rec.Cancel != ""):
			c.endUnassigned(j)
		}
	}
	if ev.Err != "" {
		answer(ev.Code, ev.Err)
		stays()
		return
	}
	if j.rec.Cancel != "" && !r.ended {
		answer(comms.CodeConflict, "the job is being cancelled")
		r.drained = r.drained || r.haveSet || j.rec.Agent == "" // nothing of it runs any more
		stays()
		return
	}
	states := j.states
	if r.ended {
		states = ev.Past.States
	}
	a := c.resumesOn(j, r, ev.Graph)
	if a == nil && !r.haveSet && !r.ended && j.rec.Agent != "" {
		j.redo = true
		answer(comms.CodeUnavailable, fmt.Sprintf("agent %s, which works on the job, is away", j.rec.Agent))
		return
	}
	data, published := c.surviving(j, r, ev, states, a)
	var set []dag.TaskIndex
	if len(r.rerun) > 0 {
		var code comms.Code
		var text string
		if set, code, text = toRerun(ev.Graph, states, r); text != "" {
			answer(code, text)
			if !r.haveSet && !r.asked {
				stays()
				return
			}
			r.rerun = nil // the job goes on without
		}
	}
	j.plan = ev.Plan
	if r.ended {
		c.reopen(j, ev)
	}
	c.again(j, r, a, data, published, set)
}

// toRerun returns the tasks that must start over when somebody asks for some of
// them, or why they cannot. What an agent that is gone was running does not run.
func toRerun(g *dag.Graph, states *States, r *resumption) (set []dag.TaskIndex, code comms.Code, text string) {
	roots, text := findTasks(g, states, r.rerun)
	if text != "" {
		return nil, comms.CodeBadRequest, text
	}
	set = descendants(states, roots)
	for _, t := range set {
		if states.get(t) == TaskRunning && !r.haveSet {
			return nil, comms.CodeConflict, fmt.Sprintf("task %s runs now and depends on them: wait for it, or cancel the job", g.TaskName(t))
		}
	}
	return set, comms.CodeOK, ""
}

// resumesOn returns the agent on which a job is to go on: the one that was meant,
// or another when that one is gone and does not work on the job; nil when there is none.
func (c *Core) resumesOn(j *job, r *resumption, g *dag.Graph) *agent {
	if a := c.agents[r.target(j)]; a != nil && a.synced {
		return a
	}
	if !r.haveSet && !r.ended && j.rec.Agent != "" {
		return nil
	}
	return c.choose(j, g)
}

// target is the name of the agent that was meant.
func (r *resumption) target(j *job) string {
	if r.agent != "" {
		return r.agent
	}
	return j.rec.Agent
}

// stayEnded lays a job that was to run again and does not.
func (c *Core) stayEnded(j *job) {
	for _, w := range slices.Clone(j.watches) {
		c.unwatch(w)
		c.emit(Ask{Token: c.await(pending{what: onAnswered, link: w.link.id}), Msg: &comms.Watch{Req: w.req, Job: j.id}})
	}
	c.lay(j, &j.rec)
}

// reopen makes a job that had ended one that runs.
func (c *Core) reopen(j *job, ev *Prepared) {
	epoch, stored := j.rec.Epoch, j.rec.Stored
	j.rec = ev.Past.Row
	j.rec.Epoch, j.rec.Stored = max(j.rec.Epoch, epoch), stored
	j.request, j.graph, j.bytes, j.states = ev.Past.Request, ev.Graph, ev.Bytes, ev.Past.States
	j.rec.Batches = max(j.rec.Batches, ev.Past.Batches)
	j.seen = ev.Past.Seen // an agent that was not told so repeats what is stored
	j.rec.Phase, j.rec.Ended, j.rec.Cancel, j.rec.Error, j.rec.Groups = comms.JobQueued, 0, "", nil, nil
	c.findExports(j)
}

// surviving returns the datasets that agent a can use. Of an agent that has told
// all it has, that; else what rules say that an agent keeps: exports, and
// datasets with a consumer that has not ended. What is inline is in the store.
// published names all that was ever there.
func (c *Core) surviving(j *job, r *resumption, ev *Prepared, states *States, a *agent) (data map[comms.DatasetRef]DatasetRecord, published map[comms.DatasetRef]struct{}) {
	meant := a != nil && a.row.Name == r.target(j)
	probe := job{live: &live{graph: ev.Graph, states: states}}
	c.findExports(&probe)
	data, published = map[comms.DatasetRef]DatasetRecord{}, map[comms.DatasetRef]struct{}{}
	for _, d := range ev.Past.Data {
		data[d.Desc.Ref] = d
	}
	for ref := range states.lost {
		published[ref] = struct{}{}
	}
	for ref, d := range r.fresh {
		data[ref] = d
	}
	for ref := range data {
		published[ref] = struct{}{}
	}
	for ref := range r.lost {
		published[ref] = struct{}{}
		if _, again := r.fresh[ref]; !again {
			delete(data, ref)
		}
	}
	for ref, d := range data {
		if d.Desc.Place.Kind == comms.PlaceInline {
			continue
		}
		if _, lost := states.lost[ref]; lost {
			delete(data, ref)
			continue
		}
		keep := meant && d.Agent == a.row.Name
		switch {
		case !meant:
		case r.haveSet:
			now, ok := r.have[ref]
			if keep = ok; ok {
				data[ref] = DatasetRecord{Desc: now, Agent: a.row.Name}
			}
		case r.ended:
			now, kept := j.exports[ref]
			keep = keep && kept && now.Desc.Place.Kind != comms.PlaceNone
		default:
			keep = keep && (probe.isExport(ref) || probe.wanted(ref))
		}
		if !keep {
			delete(data, ref)
		}
	}
	return data, published
}

// findTasks resolves names of tasks and of families.
func findTasks(g *dag.Graph, s *States, names []string) (out []dag.TaskIndex, problem string) {
	for _, name := range names {
		tasks, ok := Choose(g, name)
		if !ok {
			return nil, fmt.Sprintf("no task %q in job %s", name, g.Name)
		}
		if i, one := tasks.One(); one {
			if s.get(i) == TaskAbsent {
				return nil, fmt.Sprintf("task %s never came to be", name)
			}
			out = append(out, i)
			continue
		}
		s.Each(func(i dag.TaskIndex, st TaskState) {
			if st != TaskAbsent && tasks.Has(i) {
				out = append(out, i)
			}
		})
	}
	slices.Sort(out)
	return slices.Compact(out), ""
}

// again makes set start over, finds what else must run, stores the decision and
// assigns the job anew.
func (c *Core) again(j *job, r *resumption, a *agent, data map[comms.DatasetRef]DatasetRecord, published map[comms.DatasetRef]struct{}, set []dag.TaskIndex) {
	j.states.Reset(ranges(set))
	forget(data, ranges(set))
	var targets []dag.TaskIndex
	j.states.Each(func(t dag.TaskIndex, s TaskState) {
		if !s.Over() {
			targets = append(targets, t)
		}
	})
	l := &Lineage{Graph: j.graph, Again: len(r.rerun) > 0, State: j.states.get, Expand: j.states.Expand, Available: func(ref comms.DatasetRef) bool {
		_, ok := data[ref]
		return ok
	}, Published: func(ref comms.DatasetRef) bool {
		_, ok := published[ref]
		return ok
	}}
	run, err := l.Needed(targets, c.wantedExports(j))
	if err != nil { // a graph that was valid before
		panic(fmt.Sprintf("controller/core: job %s: %v", j.id, err))
	}
	var redo []dag.TaskIndex
	for _, t := range run {
		if s := j.states.get(t); s.Over() || s == TaskRunning && r.haveSet {
			redo = append(redo, t)
		}
	}
	j.states.Reset(ranges(redo))
	reset := append(redo, set...)
	slices.Sort(reset)
	forget(data, ranges(reset)) // what they made before counts no more
	j.result, j.there = false, exportAt{}
	var drop []comms.DatasetRef
	for ref := range j.exports {
		if _, ok := data[ref]; !ok {
			delete(j.exports, ref)
			drop = append(drop, ref)
		}
	}
	slices.SortFunc(drop, comms.DatasetRef.Compare)
	c.touch(j)
	if len(run) == 0 {
		j.result = j.complete()
		c.endUnassigned(j)
		return
	}
	p := pending{what: onRow, job: j.id}
	if len(r.rerun) > 0 {
		p.link, p.req = r.link, r.req
	}
	batch := c.resetBatch(j, reset, r.why) // of the epoch that ends
	if a == nil {
		j.rec.Agent = "" // waits for any agent
		j.rec.Epoch++    // the one before has nothing to say any more
		if j.rec.Phase == comms.JobRunning {
			j.rec.Phase = comms.JobQueued
		}
	} else {
		// The agent is told when this is durable. Else a new controller, which would
		// not know of it, could count on datasets that are being made again.
		j.assign = c.assignAgain(j, a, run, data)
		p.send = j.assign
	}
	row := j.rec
	c.emit(Store{Token: c.await(p), Commit: Commit{Job: j.id, Row: &row, Batch: batch, Drop: drop}, Graph: j.graph})
}

// wantedExports lists the exports of tasks that are done.
func (c *Core) wantedExports(j *job) (out []comms.DatasetRef) {
	for i := range j.graph.Exports {
		for _, src := range j.graph.Exports[i].Sources {
			refs, _ := j.states.Expand(src)
			for _, ref := range refs {
				if j.states.get(ref.Task) == TaskDone {
					out = append(out, ref)
				}
			}
		}
	}
	return out
}

// resetBatch is the record that tasks started over, nil when none did. It is
// stored together with the job's new epoch: neither may be known without the other.
func (c *Core) resetBatch(j *job, tasks []dag.TaskIndex, why string) *Batch {
	j.rec.Totals = j.states.Totals()
	if j.rec.Error != nil {
		if i, ok := j.graph.Lookup(j.rec.Error.Task); ok && !j.states.get(i).Over() {
			j.rec.Error = nil // its task has another chance
		}
	}
	if len(tasks) == 0 {
		return nil
	}
	if why == "" {
		why = "rebuilds what was lost"
	}
	b := &Batch{Number: j.rec.Batches, Epoch: j.rec.Epoch, At: c.now.UnixNano(), Reset: ranges(tasks), Why: why}
	j.rec.Batches++
	return b
}

// assignAgain moves the tasks of run to an agent, with the datasets that they read.
func (c *Core) assignAgain(j *job, a *agent, run []dag.TaskIndex, data map[comms.DatasetRef]DatasetRecord) *comms.Assign {
	m := c.assignment(j, a)
	m.Run = ranges(run)
	m.Attempts = make([]uint32, len(run))
	running := make(map[dag.TaskIndex]struct{}, len(run))
	for i, t := range run {
		_, m.Attempts[i] = j.states.Get(t)
		running[t] = struct{}{}
	}
	m.Ends = j.states.streamEnds()
	m.Ends = slices.DeleteFunc(m.Ends, func(e comms.StreamEnd) bool {
		_, again := running[e.Task]
		return again
	})
	m.Ended = j.states.ended(running)
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
			desc := d.Desc
			if d.Agent != a.row.Name && desc.Place.Kind != comms.PlaceInline {
				desc.Place = comms.Place{Kind: comms.PlaceAgent, Where: d.Agent}
			}
			m.Datasets = append(m.Datasets, desc)
		}
	}
	for _, t := range run {
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
	slices.SortFunc(m.Datasets, func(x, y comms.Desc) int { return x.Ref.Compare(y.Ref) })
	return m
}
