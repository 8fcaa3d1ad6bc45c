package core

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/controller/records"
	"github.com/cascade-run/cascade/dag"
)

// recover makes a job go on from what is still there: its parts say what that is.
// near names the agent that should make what it lacks and take what has no agent;
// asked: it waits for that.
func (c *Core) recover(j *job, near string, asked bool) {
	if j.live == nil || j.stage == stagePreparing || j.ending != nil || j.deleting {
		return
	}
	if j.rec.Cancel != "" && j.anyGone() && j.stopped() {
		c.endUnassigned(j) // nothing of it runs any more
		return
	}
	if j.losesSession() {
		c.loseSession(j)
		return
	}
	r := &recovery{near: near, asked: asked, owed: true}
	if old := j.recovering; old != nil {
		r.rerun, r.why, r.reason, r.link, r.req, r.ended = old.rerun, old.why, old.reason, old.link, old.req, old.ended
		r.near, r.asked = cmp.Or(near, old.near), asked || old.asked
	}
	c.prepareAgain(j, r)
}

func (c *Core) prepareAgain(j *job, r *recovery) {
	r.fresh, r.lost = map[comms.DatasetRef]records.Dataset{}, map[comms.DatasetRef]struct{}{}
	if old := j.recovering; old == nil {
		c.token++
		r.token = c.token
		p := Prepare{Token: r.token, Job: j.id, Graph: j.graph, Past: true, Cluster: c.cluster()}
		if !r.ended && j.resumes() {
			p.Resume = j.request.Resume
		}
		c.emit(p)
	} else {
		// One is under way. fresh has the events that came too late for it.
		r.token, r.fresh, r.lost = old.token, old.fresh, old.lost
	}
	j.recovering, j.assign = r, nil
	j.stage = stageRecovering
}

// rerun makes tasks run again with all that depends on them.
func (c *Core) rerun(j *job, m *comms.Control, link LinkID) (comms.Code, string) {
	switch {
	case len(m.Tasks) == 0:
		return comms.CodeBadRequest, "rerun: name at least one task"
	case j.live == nil:
	case j.rec.Cancel != "":
		return comms.CodeConflict, "the job is being cancelled"
	case j.stage == stagePreparing || j.stage == stageRecovering || j.ending != nil || j.assign != nil:
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
	c.prepareAgain(j, &recovery{rerun: m.Tasks, why: why, reason: RestartRequested, link: link, req: m.Req, ended: ended})
	return comms.CodeOK, ""
}

// unrecover ends the search for what must run again. A gang that came to be ready
// meanwhile has had no turn.
func (c *Core) unrecover(j *job) {
	j.recovering, j.stage = nil, stageActive
	c.mustered = c.mustered || len(j.gatherings) > 0
}

// recovered runs when it is known what the store has of a job that is to go on.
func (c *Core) recovered(j *job, ev *Prepared) {
	r := j.recovering
	j.redo = false
	c.unrecover(j)
	answer := func(code comms.Code, text string) {
		if l := c.links[r.link]; l != nil && len(r.rerun) > 0 {
			c.reply(l, r.req, code, text)
		}
	}
	// Nothing starts over. Events that came meanwhile of the job's end count now.
	stays := func() {
		c.giveUp(j)
		switch {
		case r.ended:
			c.stayEnded(j)
		case j.rec.Cancel != "" && j.stopped(), j.states.Open() == 0 && j.idle():
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
		stays()
		return
	}
	states := j.states
	if r.ended {
		states = ev.Past.States
		j.parts, j.hadMany = partsOf(&ev.Past.Row, ev.Past.Given), len(ev.Past.Given) > 0
		for _, p := range j.parts {
			p.fresh = true // of a job that has ended nothing runs
		}
		j.owner = nil
	}
	if away := c.away(j); away != "" && !r.ended {
		j.redo = true
		c.giveUp(j)
		answer(comms.CodeUnavailable, fmt.Sprintf("agent %s, which works on the job, is away", away))
		return
	}
	if !r.ended && j.resumes() {
		c.takeOver(j, r, ev.Earlier)
		states = j.states
	}
	data, published := c.surviving(j, r, ev, states)
	var set []dag.TaskIndex
	if len(r.rerun) > 0 {
		var code comms.Code
		var text string
		if set, code, text = c.toRerun(j, ev.Graph, states, r); text != "" {
			answer(code, text)
			if r.ended || !j.behind() && !r.owed && !c.relieves(j) {
				stays()
				c.place(j) // agents that came meanwhile may be those that it waits for
				return
			}
			r.rerun, r.why, r.reason = nil, "", RestartLost // the job goes on without
		}
	}
	if len(r.rerun) == 0 {
		if t, stopped := states.stopper(c.brokenGangs(j)); stopped {
			c.fail(j, t)
			return
		}
	}
	j.plan = ev.Plan
	if r.ended {
		c.reopen(j, ev)
	}
	c.again(j, r, data, published, set)
}

// away names an agent that works on a job and is not there, but may come back; "" none.
func (c *Core) away(j *job) string {
	for _, p := range j.parts {
		if !p.gone && c.here(p) == nil {
			return p.agent
		}
	}
	return ""
}

// toRerun returns the tasks that must start over when a client asks for some of
// them, or why they cannot. The tasks of an agent that is lost do not run.
func (c *Core) toRerun(j *job, g *dag.Graph, states *States, r *recovery) (set []dag.TaskIndex, code comms.Code, text string) {
	roots, text := findTasks(g, states, r.rerun)
	if text != "" {
		return nil, comms.CodeBadRequest, text
	}
	set = descendants(states, roots, func(dag.TaskIndex) bool { return true })
	for _, t := range set {
		if states.get(t) != TaskRunning || r.ended {
			continue
		}
		if k := j.ownerOf(t); k != nobody && !j.parts[k].gone {
			return nil, comms.CodeConflict, fmt.Sprintf("task %s runs now and depends on them: wait for it, or cancel the job", g.TaskName(t))
		}
	}
	return set, comms.CodeOK, ""
}

// stayEnded lays a job that was to run again and does not.
func (c *Core) stayEnded(j *job) {
	for _, w := range slices.Clone(j.watches) {
		c.unwatch(w)
		c.askEnd(j, &watch{link: w.link, req: w.req, every: w.every, events: w.events, values: w.values, accepted: w.accepted})
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
	j.rec.Ran = int64(progressOf(&j.rec).Took())
	j.rec.Started = 0
	j.rec.Phase, j.rec.Ended, j.rec.Cancel, j.rec.Fails, j.rec.Error, j.rec.Groups = comms.JobQueued, 0, "", false, nil, nil
	j.states.takeDiffering() // it was reported
	c.findExports(j)
}

// surviving returns the datasets that can be used. Of an agent that has told all
// it has, that; of one that goes on what rules say that it keeps: exports, and
// datasets with a consumer that has not ended. Inline datasets are in the store.
// published names all that was ever there.
func (c *Core) surviving(j *job, r *recovery, ev *Prepared, states *States) (data map[comms.DatasetRef]records.Dataset, published map[comms.DatasetRef]struct{}) {
	probe := job{live: &live{graph: ev.Graph, states: states}}
	c.findExports(&probe)
	data, published = map[comms.DatasetRef]records.Dataset{}, map[comms.DatasetRef]struct{}{}
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
		p, keep := j.partOf(d.Agent), false
		switch {
		case p == nil || !p.gone && c.here(p) == nil:
		case p.gone:
			now, ok := p.have[ref]
			if a := c.agents[p.agent]; ok && a.synced {
				keep, data[ref] = true, records.Dataset{Desc: now, Agent: d.Agent}
			}
		case r.ended:
			now, kept := j.exports[ref]
			keep = kept && now.Desc.Place.Kind != comms.PlaceNone
		default:
			keep = probe.isExport(ref) || probe.wanted(ref)
		}
		if !keep {
			delete(data, ref)
		}
	}
	if !r.ended {
		c.adoptables(j, data)
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
func (c *Core) again(j *job, r *recovery, data map[comms.DatasetRef]records.Dataset, published map[comms.DatasetRef]struct{}, set []dag.TaskIndex) {
	set = c.startsAnew(j, r, set)
	grown := j.states.grownTasks()
	var run, closed, redo []dag.TaskIndex
	var takes []taking
	var s *settlement
	for more := set; s == nil || len(more) > 0; {
		set, run, closed = c.anew(j, r, data, published, set, more)
		takes = c.toTake(j, run, data)
		s = c.settle(j, r.near, run, takes, grown)
		redo = j.redone(run, s.moved, data)
		more = j.states.missWith(redo, s.moved)
		more = j.wholeGangs(more, more)
	}
	c.takers(j, s, takes)
	c.toAdopt(j, s, data)
	if s.left && len(takes)+len(s.adopts) == 0 && s.idle(j, run) {
		s.parts = nil // an agent that is given no tasks, and told of none, would take all
	}
	reset := union(redo, set)
	c.touch(j)
	batch := c.decision(j, s, closed, &resetting{redo, reset}, r.why)
	forget(data, comms.Ranges(reset)) // what they made before counts no more
	forget(data, comms.Ranges(s.moved))
	j.exportsChange()
	var drop []comms.DatasetRef
	for ref := range j.exports {
		if _, ok := data[ref]; !ok {
			delete(j.exports, ref)
			drop = append(drop, ref)
		}
	}
	slices.SortFunc(drop, comms.DatasetRef.Compare)
	if len(run) == 0 && len(s.adopts) == 0 {
		if batch != nil {
			c.storeDecision(j, batch, r.reason, drop, pending{what: onRow, job: j})
		}
		j.result = j.complete()
		c.endUnassigned(j)
		return
	}
	p := pending{what: onRow, job: j, former: j.leave(s.parts)}
	if len(r.rerun) > 0 {
		p.link, p.req = r.link, r.req
	}
	if len(s.parts) == 0 {
		j.setParts(nil) // waits for any agent
		j.rec.Homeless = false
		j.rec.Epoch++ // those before have nothing to say any more
		j.spare = nil
		if j.rec.Phase == comms.JobRunning {
			j.rec.Phase = comms.JobQueued
		}
	} else {
		// The agents are told when this is durable. Else a new controller, which would
		// not know of it, could count on datasets that are being recomputed.
		c.hand(j, s, run, data)
		p.send = j.assign
	}
	c.storeDecision(j, batch, r.reason, drop, p)
}

// anew makes more start over, and what goes with that, and returns it with set, which has
// done so before, and what must run then: see needed.
func (c *Core) anew(j *job, r *recovery, data map[comms.DatasetRef]records.Dataset, published map[comms.DatasetRef]struct{}, set, more []dag.TaskIndex) (all, run, closed []dag.TaskIndex) {
	cut := map[dag.TaskIndex]bool{} // what had been skipped or cancelled, and has started over
	for first := true; first || len(more) > 0; first = false {
		unrun := j.states.endedWith(more, cut)
		for _, t := range more {
			cut[t] = cut[t] || j.states.endedForOthers(t)
		}
		j.states.Reset(comms.Ranges(more), j.rec.Epoch+1)
		forget(data, comms.Ranges(more))
		set = union(set, more)
		run, closed = c.needed(j, r, data, published)
		if unrun = union(unrun, j.states.endedWith(run, cut)); len(r.rerun) > 0 {
			unrun = nil // a client has only that run which was asked for
		}
		more = union(j.halfGangs(run), j.withVarying(run), j.states.missedTasks(), unrun)
		more = j.wholeGangs(more, more)
	}
	return set, run, closed
}

// redone lists the tasks of run, but for those that move, that start over: they had
// ended, or had begun on an agent that does not go on with them.
func (j *job) redone(run, moved []dag.TaskIndex, data map[comms.DatasetRef]records.Dataset) (redo []dag.TaskIndex) {
	made := map[dag.TaskIndex]struct{}{}
	for ref := range data {
		made[ref.Task] = struct{}{}
	}
	for _, t := range run {
		st := j.states.get(t)
		_, begun := made[t] // by an attempt that failed, and the next has not begun: its agent's next process frees that
		begun = begun || st == TaskRunning
		if k := j.ownerOf(t); st.Over() || begun && (k == nobody || j.parts[k].gone) && !contains(moved, t) {
			redo = append(redo, t)
		}
	}
	return redo
}

// startsAnew returns set with all that starts over without being asked for: gangs that
// cannot go on, tasks that wait for the controller, and what has read what is gone. It
// notes in r why, where nothing else has begun the recovery.
func (c *Core) startsAnew(j *job, r *recovery, set []dag.TaskIndex) []dag.TaskIndex {
	because := func(reason RestartReason, why string) {
		if r.reason == RestartLost {
			r.reason = reason
		}
		r.why = cmp.Or(r.why, why)
	}
	if broken := j.wholeGangs(nil, c.brokenGangs(j)); len(broken) > 0 {
		c.startOver(j, broken)
		set = j.wholeGangs(set, broken)
		because(RestartGang, "")
	}
	grown, missed := j.states.outgrownTasks(), j.states.missedTasks()
	switch set = j.wholeGangs(union(set, grown, missed), missed); {
	case len(grown) > 0:
		because(RestartMemory, "needs more memory than its agent has")
	case len(missed) > 0:
		because(RestartUpstream, "the failure for which it ended counts no more")
	}
	if stale := j.outdated(); len(stale) > 0 {
		set = j.wholeGangs(union(set, stale), stale)
		because(RestartInput, whyOutdated)
	}
	return set
}

// union joins lists of tasks into one, sorted.
func union(lists ...[]dag.TaskIndex) []dag.TaskIndex {
	all := slices.Concat(lists...)
	slices.Sort(all)
	return slices.Compact(all)
}

// needed returns the tasks that must run so that the job comes to its end, and
// those that need not although they have not ended, as far as is known: their
// agent is gone, and all that would have read their outputs has ended.
func (c *Core) needed(j *job, r *recovery, data map[comms.DatasetRef]records.Dataset, published map[comms.DatasetRef]struct{}) (run, closed []dag.TaskIndex) {
	spare := j.unread()
	var targets []dag.TaskIndex
	j.states.Each(func(t dag.TaskIndex, s TaskState) {
		if _, not := spare[t]; !s.Over() && !not {
			targets = append(targets, t)
		}
	})
	l := &Lineage{Graph: j.graph, Again: len(r.rerun) > 0, State: j.states.get, Expand: j.states.Expand, Begun: j.begun(c), LivesOn: c.livesOn(j), Available: func(ref comms.DatasetRef) bool {
		_, ok := data[ref]
		return ok
	}, Published: func(ref comms.DatasetRef) bool {
		_, ok := published[ref]
		return ok
	}}
	wanted := slices.DeleteFunc(c.wantedExports(j), func(ref comms.DatasetRef) bool {
		return j.states.get(ref.Task) != TaskDone && !l.Published(ref) // it never was there
	})
	run, err := l.Needed(targets, wanted)
	if err != nil { // a graph that was valid before
		panic(fmt.Sprintf("controller/core: job %s: %v", j.id, err))
	}
	for _, t := range run {
		delete(spare, t)
	}
	maps.DeleteFunc(spare, func(t dag.TaskIndex, _ struct{}) bool { return j.states.get(t).Over() }) // it ended early
	return run, slices.Sorted(maps.Keys(spare))
}

// livesOn returns whether an agent goes on with a task and with one before it, so that
// it has what the one left to the other in an executor, or recomputes that by itself
// when the executor dies. The end of the first was told before that of the second.
// Neither is so of a task that starts over with the epoch that is being decided, or of
// one of an agent that leaves: what of those goes on has begun.
func (c *Core) livesOn(j *job) func(reader, producer dag.TaskIndex) bool {
	return func(reader, producer dag.TaskIndex) bool {
		k, from := j.ownerOf(reader), j.ownerOf(producer)
		if k == nobody || from != k && from != nobody || j.states.get(reader).Over() || j.states.since[reader] > j.rec.Epoch {
			return false
		}
		p := j.parts[k]
		return c.here(p) != nil && !p.fresh && !c.moves(p)
	}
}

// unread finds tasks of agents that are gone that have not ended, as far as is
// known, although all who would read what they make surely have: the consumer's end
// was told, and the producer's end was lost with its agent.
func (j *job) unread() map[dag.TaskIndex]struct{} {
	spare := map[dag.TaskIndex]struct{}{}
	if len(j.parts) < 2 || !j.anyGone() {
		return spare
	}
	over := func(t dag.TaskIndex) bool { _, is := spare[t]; return is || !j.states.unsure(t) }
	order := j.graph.Order()
	for i := len(order) - 1; i >= 0; i-- {
		t := order[i]
		if int(t) >= j.graph.NumTasks() || over(t) || j.states.endedFor(t) {
			continue
		}
		if k := j.ownerOf(t); k == nobody || !j.parts[k].gone {
			continue
		}
		consumers := j.graph.Consumers(t)
		plain := len(consumers) > 0
		for o, out := range j.graph.Group(t).Outputs {
			n := uint32(o)
			plain = plain && out.Generate == dag.GenerateNone && len(j.graph.SlotConsumers(t, n)) == 0 && !j.isExport(comms.DatasetRef{Task: t, Output: n})
		}
		if plain && !slices.ContainsFunc(consumers, func(e dag.Edge) bool { return !over(e.Consumer) }) {
			spare[t] = struct{}{}
		}
	}
	return spare
}

// wantedExports lists the exports of tasks that are done, and of those that ended
// badly and may: what they had published by then counts.
func (c *Core) wantedExports(j *job) (out []comms.DatasetRef) {
	for i := range j.graph.Exports {
		for _, src := range j.graph.Exports[i].Sources {
			refs, _ := j.states.Expand(src)
			for _, ref := range refs {
				state := j.states.get(ref.Task)
				if state == TaskDone || state.Over() && j.graph.MayFail(j.graph.GroupIndex(ref.Task)) {
					out = append(out, ref)
				}
			}
		}
	}
	return out
}
