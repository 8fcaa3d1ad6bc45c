package sim

import (
	"fmt"
	"maps"
	"slices"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/controller/core"
	"github.com/cascade-run/cascade/controller/records"
	"github.com/cascade-run/cascade/dag"
	"github.com/cascade-run/cascade/shm/ledger"
)

// oracle knows what was done and what was stored, and says when the two do not
// fit. It looks at no state of a core.
type oracle struct {
	w      *world
	facts  map[comms.JobID]*facts
	starts map[string]int // executors that did not come up, by agent
	makers map[copyName]string
	told   map[copyName]string
	gangs  gangStarts // since the last look
	calls  outcomes
	rows   int                          // datasets of called tasks that were lost
	waited int                          // tasks that were decided to wait for an agent with more memory
	words  map[copyID]map[string]string // by agent
	bare   map[copyID]bool              // those without a hash
	shared map[copyID]string            // the agent that said where it lies
}

// copyName is what other agents know a copy of a dataset by; agent is who made it
// last (makers), or "" (told).
type copyName struct {
	job     comms.JobID
	life    uint64
	ref     comms.DatasetRef
	attempt uint32
	agent   string
}

type jobLife struct {
	job  comms.JobID
	life uint64
}

type eventID struct {
	agent  string
	incarn uint64
	number uint64
}

// origin is where a copy of a dataset was made.
type origin struct {
	agent   string
	incarn  uint64
	attempt uint32
	inline  bool
	move    int // how often its job had been moved
	lost    bool
}

func newOracle(w *world) *oracle {
	return &oracle{w: w, starts: map[string]int{}, facts: map[comms.JobID]*facts{}, makers: map[copyName]string{}, told: map[copyName]string{}, calls: newOutcomes(),
		words: map[copyID]map[string]string{}, bare: map[copyID]bool{}, shared: map[copyID]string{}}
}

// makes sees an executor make a dataset.
func (o *oracle) makes(x *executor, job comms.JobID, d *comms.Desc) {
	o.makers[copyName{job, x.jobOf[x.cur.Kind].life, d.Ref, d.Attempt, sitting(x.a)}] = fmt.Sprintf("run %d of %s at incarnation %d", x.cur.ID, x.name, x.a.incarn)
}

// sitting names an agent as long as it is not started anew: what was made before is not what it has then.
func sitting(a *agent) string { return fmt.Sprintf("%s at incarnation %d", a.name, a.incarn) }

// tells sees an agent tell another of datasets: two that attempts at a task made
// never have one name, or bytes of both could be taken for one.
func (o *oracle) tells(a *agent, m *comms.Notice) {
	for i := range m.Datasets {
		d := &m.Datasets[i]
		name := copyName{m.Job, m.JobIncarnation, d.Ref, d.Attempt, ""}
		maker := o.makers[copyName{m.Job, m.JobIncarnation, d.Ref, d.Attempt, sitting(a)}]
		switch before := o.told[name]; {
		case d.Place.Kind == comms.PlaceNone || maker == "":
		case before == "":
			o.told[name] = maker
		case before != maker:
			o.w.fail(m.Job, "%s tells of %v, attempt %d, which %s made: %s made one of that name", a.name, d.Ref, d.Attempt, maker, before)
		}
	}
}

// add takes in a job that will be submitted.
func (o *oracle) add(id comms.JobID, g *dag.Graph) {
	f := &facts{g: g, behind: map[dag.TaskIndex]map[dag.TaskIndex]bool{}, stored: map[eventID]bool{}, done: map[dag.TaskIndex]uint32{},
		badly: map[dag.TaskIndex]badEnd{}, late: map[dag.TaskIndex]uint32{}, fence: map[dag.TaskIndex]uint32{}, since: map[dag.TaskIndex]uint64{}, highest: map[dag.TaskIndex]uint32{}, gone: map[dag.TaskIndex]uint32{}, made: map[comms.DatasetRef]origin{},
		begun: map[dag.TaskIndex]uint32{}, came: map[string]uint64{}, may: map[dag.TaskIndex]uint32{}, asked: map[dag.TaskIndex]bool{}, private: map[dag.TaskIndex]origin{}, aside: map[dag.TaskIndex]giver{}, lists: map[try]string{}, crashes: map[dag.TaskIndex]int{}, enlarged: map[dag.TaskIndex]int64{},
		varies: o.w.fate.varies > 0, reads: map[tryOf][]dataRead{}, read: map[dag.TaskIndex][]dataRead{}, current: map[comms.DatasetRef]uint32{}}
	o.facts[id] = f
}
func (o *oracle) agentDied(a *agent) {
	for _, f := range o.facts {
		f.left(a.name, a.incarn)
	}
}

func (o *oracle) rotten(k ledger.Key) {
	job, task, _, _ := k.Split()
	if f := o.facts[job]; f != nil {
		f.lost(dag.TaskIndex(task))
	} else {
		o.rows++
	}
}

// committed sees what is about to be stored.
func (o *oracle) committed(k *core.Kept, c *records.Commit) {
	f := o.facts[c.Job]
	o.differs(k, f, c)
	if r := c.Row; r != nil {
		moved := false
		for _, was := range workers(&k.Row) {
			if !slices.ContainsFunc(workers(r), func(is records.Assignment) bool { return is.Agent == was.Agent && is.Incarnation == was.Incarnation }) {
				f.left(was.Agent, was.Incarnation)
				moved = true
			}
		}
		if moved {
			f.moves++
		}
		for _, now := range workers(r) {
			if k.Row.Homeless && !r.Homeless || !slices.ContainsFunc(workers(&k.Row), func(was records.Assignment) bool { return was.Agent == now.Agent }) {
				f.came[now.Agent] = r.Epoch
			}
		}
		f.shared = f.shared || len(r.Assignments) > 1
		if r.Phase.Final() {
			f.ended = true
		}
	}
	b := c.Batch
	if b == nil {
		return
	}
	if int(b.Number) != len(k.Batches) {
		o.w.fail(c.Job, "batch %d is stored as number %d", b.Number, len(k.Batches))
	}
	row := c.Row
	if row == nil {
		row = &k.Row
	}
	o.smallest(k, row, b)
	if len(b.Reset) > 0 { // what lies in an executor alone, between two tasks of a path, is not for a job that is assigned anew
		for _, t := range slices.Sorted(maps.Keys(f.private)) {
			f.lost(t)
		}
	}
	if b.Why == steerReason || k.Row.Phase.Final() && len(b.Reset) > 0 {
		states := k.Past().States
		f.stay(states, b)
		states.Each(func(t dag.TaskIndex, s core.TaskState) {
			// Tasks that ended badly are retried for all that have not ended, whatever the client named. In a job that
			// had ended, such a one was cancelled while its agent was away, and the agent's tasks were never ended.
			if s != core.TaskAbsent && !s.Over() {
				for x := range f.withFollowers(f.needs(t)) {
					f.asked[x] = true
				}
			}
		})
	}
	f.unskip(k, b)
	for _, r := range b.Reset {
		for t := r.First; t <= r.Last; t++ {
			if attempt, done := f.done[t]; done && !f.mayRun(t) && !f.half(t) {
				o.w.fail(c.Job, "task %d is made to start over (%s): it has finished in attempt %d, and nothing of it was lost", t, b.Why, attempt)
			}
			if len(f.members(t)) > 1 && f.half(t) {
				f.lost(t) // its gang starts over
			}
			if _, done := f.done[t]; done || f.highest[t] > 0 { // else an agent may begin it meanwhile, and that counts
				f.fence[t], f.since[t] = max(f.highest[t], 1), b.Epoch+1
			}
			delete(f.done, t)
			f.another(t)
		}
	}
	for _, r := range b.Moved {
		for t := r.First; t <= r.Last; t++ {
			f.since[t] = b.Epoch + 1
			f.another(t)
		}
		f.startsOver(r)
	}
	for i := range b.Events {
		o.event(c.Job, f, b, b.First+uint64(i), &b.Events[i])
		o.waitsForMemory(c.Job, b, &b.Events[i])
	}
}

func (o *oracle) event(id comms.JobID, f *facts, b *records.Batch, number uint64, e *comms.Event) {
	key := eventID{b.Agent, b.Incarnation, number}
	if f.stored[key] && b.Agent != "" {
		o.w.fail(id, "event %d of %s is stored twice", number, b.Agent)
	}
	f.stored[key] = true
	e.Each(func(one *comms.Event) bool { o.oneEvent(id, f, b, one); return true })
}

// oneEvent takes in an event of one task.
func (o *oracle) oneEvent(id comms.JobID, f *facts, b *records.Batch, e *comms.Event) {
	gone := o.gone(b.Agent, b.Incarnation)
	switch e.Kind {
	case comms.EventAdopted: // by another agent than before
		for i := range e.Outputs {
			if from, ok := f.made[e.Outputs[i].Ref]; ok && from.attempt == e.Outputs[i].Attempt {
				from.agent, from.incarn = b.Agent, b.Incarnation
				f.made[e.Outputs[i].Ref] = from
			}
		}
		if gone {
			f.lost(e.Task)
		}
		return
	case comms.EventLost: // for the job, if who made it says so: others had copies
		if from, ok := f.made[e.Cause.Ref]; ok && from.agent == b.Agent {
			from.lost = true
			f.made[e.Cause.Ref] = from
		}
		return
	case comms.EventCall:
		o.called(id, e)
		return
	case comms.EventDrained, comms.EventEnv, comms.EventBuilding, comms.EventSpilled, comms.EventTorn:
		return
	}
	if e.Attempt != 0 && e.Attempt <= f.fence[e.Task] || b.Agent != "" && b.Epoch < f.since[e.Task] {
		return // of an attempt that was given up, as that of an agent which made a task again by itself
	}
	f.endsBadly(e)
	if e.Kind != comms.EventReady && e.Kind != comms.EventReclaimed {
		f.highest[e.Task] = max(f.highest[e.Task], e.Attempt)
	}
	for i := range e.Outputs {
		o.published(id, f, b, e, &e.Outputs[i])
	}
	switch e.Kind {
	case comms.EventFinished:
		if attempt, done := f.done[e.Task]; done && !f.mayRun(e.Task) {
			o.w.fail(id, "task %d finishes in attempt %d: it has finished in attempt %d, and nothing of it was lost", e.Task, e.Attempt, attempt)
		}
		f.done[e.Task], f.read[e.Task] = e.Attempt, f.reads[tryOf{b.Agent, try{e.Task, e.Attempt}}]
		if g := f.g.Group(e.Task); len(g.Outputs) > len(e.Outputs) && g.Outputs[0].Generate == dag.GenerateNone {
			f.private[e.Task] = origin{agent: b.Agent, incarn: b.Incarnation}
		} else {
			delete(f.private, e.Task)
		}
		if upTo, lost := f.gone[e.Task]; lost && e.Attempt > upTo {
			delete(f.gone, e.Task)
		}
		if upTo, lost := f.may[e.Task]; lost && e.Attempt > upTo && f.alone(e.Task) && !f.behindLost(e.Task) {
			delete(f.may, e.Task)
		}
	case comms.EventFailed:
		f.failures++
		o.failed(id, f, e)
		o.w.client.sawFailure(id)
	case comms.EventRetry:
		f.enlarge(e)
		delete(f.done, e.Task)
		o.w.client.sawFailure(id)
	case comms.EventSkipped, comms.EventCancelled:
		if e.Error == nil || e.Error.Message == "" {
			o.w.fail(id, "task %d has ended (%s) without a reason", e.Task, eventNames[e.Kind])
		} else if !f.cancel && f.failures == 0 && !f.blamed && !f.shared && f.since[e.Cause.Ref.Task] == 0 { // else its failure may be told later, or have been void
			o.w.fail(id, "task %d is %s although nothing failed: %s", e.Task, eventNames[e.Kind], e.Error.Message)
		}
	}
	if _, private := f.private[e.Task]; gone && (private || len(e.Outputs) > 0) {
		f.lost(e.Task) // stored after its maker's end
	}
}

// gone tells whether an incarnation of an agent is dead.
func (o *oracle) gone(agent string, incarn uint64) bool {
	for _, a := range o.w.agents {
		if a.name == agent {
			return a.incarn != incarn || !a.running
		}
	}
	return true
}

// published takes in a dataset of an event. The end of an attempt that was made for a loss may tell of the copy
// of an earlier one, which came back meanwhile.
func (o *oracle) published(id comms.JobID, f *facts, b *records.Batch, e *comms.Event, d *comms.Desc) {
	before, again := f.made[d.Ref]
	switch {
	case d.Ref.Task != e.Task:
		o.w.fail(id, "an event of task %d publishes %v", e.Task, d.Ref)
	case again && before.attempt == d.Attempt && e.Attempt <= d.Attempt && before.agent == b.Agent && before.incarn == b.Incarnation:
		o.w.fail(id, "%v is published twice by attempt %d", d.Ref, d.Attempt)
	case again && !before.lost && !f.mayRun(d.Ref.Task) && f.unbroken(d.Ref.Task, before, b):
		o.w.fail(id, "%v is published by attempt %d: attempt %d has published it, and it was not lost", d.Ref, d.Attempt, before.attempt)
	case d.Place.Kind == comms.PlaceInline && string(d.Place.Bytes) != o.word(b.Agent, id, d.Ref, d.Attempt):
		o.w.fail(id, "%v is published as %q", d.Ref, d.Place.Bytes)
	}
	if d.Place.Kind != comms.PlaceNone {
		f.current[d.Ref] = d.Attempt
		if o.w.fate.varies > 0 {
			o.shared[copyID{id, d.Ref, d.Attempt}] = b.Agent
		}
	}
	f.made[d.Ref] = origin{b.Agent, b.Incarnation, d.Attempt, d.Place.Kind == comms.PlaceInline, f.moves, false}
}

// unbroken tells whether a dataset that was made once had no cause to be
// recomputed: its task was done, or the agent that made it goes on. A generator that
// moves to another agent, and perhaps back, or to the next incarnation, repeats
// its elements, with equal bytes.
func (f *facts) unbroken(t dag.TaskIndex, before origin, b *records.Batch) bool {
	_, done := f.done[t]
	return done || before.agent == b.Agent && before.incarn == b.Incarnation && before.move == f.moves
}

// failed asks whether a task had a cause to fail.
func (o *oracle) failed(id comms.JobID, f *facts, e *comms.Event) {
	if e.Error == nil || e.Error.Message == "" {
		o.w.fail(id, "task %d has failed without a reason", e.Task)
		return
	}
	ok := false
	switch e.Error.Kind {
	case comms.ErrorTask:
		ok = f.blamed
	case comms.ErrorPoison, comms.ErrorCrash:
		// Messages of an executor before its link broke may not have come: then its agent blames the task that it knows of.
		crashes := 0
		for _, m := range f.members(e.Task) {
			crashes += f.crashes[m]
		}
		ok = crashes >= 3 || o.w.fate.linkBreaks > 0
	case comms.ErrorStore, comms.ErrorMemory:
		ok = o.w.fate.segment > 0 || o.starved(id, f, e)
	case comms.ErrorSetup:
		ok = f.blamed || o.starts[e.Error.Agent] >= 3
	case comms.ErrorCancelled:
		ok = f.cancel || f.failures > 1
	case comms.ErrorTimeout:
		ok = f.g.Group(e.Task).Timeout > 0
	}
	if !ok {
		o.w.fail(id, "task %d has failed for no cause: %s: %s", e.Task, e.Error.Kind, e.Error.Message)
	}
}

// blame says that a task of the job was given a cause to fail.
func (o *oracle) blame(id comms.JobID) {
	if f := o.facts[id]; f != nil { // else of a call that came from another agent, and goes back
		f.blamed = true
	}
}

func (o *oracle) deleted(id comms.JobID) { o.facts[id].deleted = true }

// toController sees what an agent tells.
func (o *oracle) toController(a *agent, m comms.Message) {
	if m, ok := m.(*comms.StealReply); ok {
		o.setAside(a, m)
		return
	}
	ev, ok := m.(*comms.Events)
	if !ok {
		return
	}
	n := ev.First
	for _, je := range ev.Jobs {
		for i := range je.Events {
			if e := &je.Events[i]; e.Kind == comms.EventLost && o.facts[je.Job] != nil { // else of a call that an incarnation before made
				o.facts[je.Job].lost(e.Cause.Ref.Task)
			} else if f := o.facts[je.Job]; f != nil && (e.Kind == comms.EventRetry || e.Kind == comms.EventTorn) && len(f.members(e.Task)) > 1 {
				f.lost(e.Task) // the others of its gang restart with it
			} else if f != nil && e.Kind == comms.EventFailed {
				f.late[e.Task] = max(f.late[e.Task], e.Attempt)
			}
			a.sent[n] = sentEvent{job: je.Job, life: je.JobIncarnation, epoch: je.Epoch}
			n++
		}
	}
}

// toExecutor sees what an agent has begun: this attempt does not recompute what is
// lost after that.
func (o *oracle) toExecutor(x *executor, m comms.Message) {
	switch m := m.(type) {
	case *comms.Cancel:
		x.ending = append(x.ending, m.Run)
	case *comms.Kind:
		if !m.Close && m.Function != callee {
			x.jobOf[m.ID] = jobLife{m.Job, x.a.lives[m.Job]}
		}
	case *comms.Dispatch:
		for i := range m.Runs {
			runs, _ := m.Runs[i].All() // the executor fails with those that cannot be read
			for k := range runs {
				r := &runs[k]
				f := o.facts[x.jobOf[r.Kind].job]
				if f == nil {
					continue // of a call
				}
				f.begun[r.Task] = max(f.begun[r.Task], r.Attempt)
				if at := variable(r, "CASCADE_GANG_MEMBERS"); at != "" {
					f.lists[try{r.Task, r.Attempt}] = at
				}
				if g, is := f.aside[r.Task]; is && g == giverOf(x.a, g.epoch) {
					o.w.fail(x.jobOf[r.Kind].job, "%s begins task %d, which it has set aside for another", x.a.name, r.Task)
				}
			}
		}
	}
}

// acknowledged sees that an agent may forget events: each must be in the store,
// unless it is of a job that has ended, was deleted, or is another agent's.
func (o *oracle) acknowledged(a *agent, upTo uint64) {
	for n := a.acked + 1; n <= upTo; n++ {
		sent, known := a.sent[n]
		job := sent.job
		k := o.w.controller.store.jobs[job]
		switch f := o.facts[job]; {
		case !known:
			o.w.fail(comms.JobID{}, "%s is told that its event %d is durable, which it has not sent", a.name, n)
			return
		case f == nil: // of what is left of a call that an incarnation before made or ran
		case f.stored[eventID{a.name, a.incarn, n}] || f.ended || f.refused || sent.forgotten || f != nil && sent.epoch < f.came[a.name] || k == nil || !worksOn(&k.Row, a) || k.Row.JobIncarnation != sent.life:
		default:
			o.w.fail(job, "%s is told that its event %d is durable, and it is not in the store", a.name, n)
			return
		}
	}
	a.acked = max(a.acked, upTo)
}

// started sees a run begin.
func (o *oracle) started(x *executor) {
	r, id := x.cur, x.kinds[x.cur.Kind].Job
	if x.isCall() {
		o.startsCall(x)
		o.resources(x.a)
		return
	}
	f := o.facts[id]
	k := o.w.controller.store.jobs[id]
	if k != nil && slices.ContainsFunc(workers(&k.Row), func(p records.Assignment) bool { return p.Agent == x.a.name && p.Incarnation == x.a.incarn }) {
		if attempt, done := f.done[r.Task]; done && r.Attempt > f.fence[r.Task] && !f.mayRun(r.Task) && !f.g.HasGangs() { // a gang that starts over takes what it reads along before anybody is told
			o.w.fail(id, "%s runs task %d, attempt %d: the store has that it finished in attempt %d", x.name, r.Task, r.Attempt, attempt)
		}
	}
	o.resources(x.a)
}

// stopped sees a run end; by the death of its executor when that does not run.
func (o *oracle) stopped(x *executor) {
	if k := x.kinds[x.cur.Kind]; x.why != "" && x.used == 0 && k.Function != callee {
		o.facts[x.kinds[x.cur.Kind].Job].crashes[x.cur.Task]++
	}
}

// resources sums what runs on an agent.
func (o *oracle) resources(a *agent) {
	o.devices(a)
	var used comms.Resources
	custom := map[string]int64{}
	for _, x := range a.living() {
		if x.cur == nil {
			continue
		}
		need := &x.kinds[x.cur.Kind].Resources
		if !x.held {
			used.CPU += need.CPU
		}
		used.Memory += need.Memory
		for _, n := range need.Custom {
			custom[n.Name] += n.N
		}
	}
	total := &a.cfg.Total
	over := used.CPU > total.CPU || used.Memory > total.Memory
	for _, n := range total.Custom {
		over = over || custom[n.Name] > n.N
	}
	if over {
		o.w.fail(comms.JobID{}, "%s runs more than it has: %+v %v of %+v", a.name, used, custom, *total)
	}
}

// mayMiss tells whether a task may start without some of its inputs.
func (o *oracle) mayMiss(id comms.JobID, t dag.TaskIndex) bool {
	return slices.ContainsFunc(o.facts[id].g.Group(t).Inputs, func(in dag.InputDecl) bool { return in.Min > 0 })
}

// ended looks at a job of which the client was told that it has ended.
func (o *oracle) ended(j *clientJob) {
	f, k := o.facts[j.id], o.w.controller.store.jobs[j.id]
	if k == nil {
		o.w.fail(j.id, "the job was accepted, and is not in the store")
		return
	}
	if k.Row.Phase != j.phase {
		o.w.fail(j.id, "the client was told that the job is %s, the store says %s", j.phase, k.Row.Phase)
		return
	}
	if k.Row.Phase == comms.JobCancelled {
		if !f.cancel {
			o.w.fail(j.id, "the job is cancelled, and no client asked for it")
		}
		return
	}
	past := k.Past()
	past.States.Each(func(t dag.TaskIndex, s core.TaskState) {
		if s != core.TaskAbsent && !s.Over() {
			o.w.fail(j.id, "the job is %s, and its task %s is %s", k.Row.Phase, k.Graph.TaskName(t), s)
		}
	})
	o.oneStart(j.id, f, past.States)
	o.fits(j.id, k, past)
	if k.Row.Fails {
		return
	}
	why := f.misses(past.States)
	switch {
	case k.Row.Phase == comms.JobDone && why != "":
		o.w.fail(j.id, "the job is done, and %s", why)
	case k.Row.Phase == comms.JobFailed && why == "" && !f.cancel:
		o.w.fail(j.id, "the job has failed, and all that it is for is there: %v", k.Row.Error)
	}
}

// misses says what keeps a job in which all tasks are over from being done, by the
// rule for users (docs/job-file.md, "End of a job"); "" when nothing does.
func (f *facts) misses(s *core.States) (why string) {
	g := f.g
	s.Each(func(t dag.TaskIndex, state core.TaskState) {
		switch {
		case state == core.TaskAbsent || state == core.TaskDone || why != "":
		case state == core.TaskFailed && !g.MayFail(g.GroupIndex(t)):
			why = fmt.Sprintf("its task %s has failed, and may not", g.TaskName(t))
		case len(g.Exports) == 0 && g.Sink(t) && !g.Group(t).KeepGoing:
			why = fmt.Sprintf("nothing depends on its task %s, which is %s", g.TaskName(t), state)
		}
	})
	for i := range g.Exports {
		for _, src := range g.Exports[i].Sources {
			refs, complete := s.Expand(src)
			for _, ref := range refs {
				state, _ := s.Get(ref.Task)
				// An element is there when it was made after its generator had to start over last, and was not lost since.
				element := g.Group(ref.Task).Outputs[ref.Output].Generate != dag.GenerateNone && f.made[ref].attempt > f.fence[ref.Task] && !f.made[ref].lost
				complete = complete && (state == core.TaskDone || element)
			}
			if !complete && why == "" {
				why = fmt.Sprintf("its output %s is not there", g.Exports[i].From.Text)
			}
		}
	}
	return why
}

// empty looks for what is left when every job was forgotten.
func (o *oracle) empty() {
	if n := len(o.w.controller.store.jobs); n > 0 {
		o.w.fail(comms.JobID{}, "%d jobs are in the store after they were forgotten", n)
	}
	for _, a := range o.w.agents {
		o.leftovers(a)
		for _, k := range a.mem.sortedFiles() {
			o.w.fail(a.mem.files[k].job, "spill file %v of %s is left behind", k, a.name)
			return
		}
		for k, n := range a.mem.notes {
			o.w.fail(n.job, "%s still has %v noted", a.name, k)
			return
		}
	}
}
