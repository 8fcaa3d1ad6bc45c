package core

import (
	"maps"
	"slices"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/controller/records"
	"github.com/cascade-run/cascade/dag"
)

// TaskState is where a task stands.
type TaskState uint8

// The states of a task; those from TaskDone on are ends.
const (
	TaskAbsent  TaskState = iota // an instance that does not exist yet
	TaskWaiting                  // for inputs
	TaskReady
	TaskRunning
	TaskDone
	TaskFailed
	TaskSkipped
	TaskCancelled
)

// Over tells whether the state is an end.
func (s TaskState) Over() bool { return s >= TaskDone }

func (s TaskState) String() string {
	return [...]string{"absent", "waiting", "ready", "running", "done", "failed", "skipped", "cancelled"}[s]
}

const pageSize = 1024 // instances of one page

type streamKey struct {
	task   dag.TaskIndex
	output uint32
}

// States is where each task of a job stands, as its events tell: a byte a task.
// It belongs to one goroutine.
type States struct {
	g       *dag.Graph
	static  []TaskState
	pages   map[uint32]*[pageSize]TaskState // instances
	attempt map[dag.TaskIndex]uint32        // the present attempt, where it is above 1
	first   map[dag.TaskIndex]uint32        // of instances: the attempt that their agent begins with, where it is above 1
	known   map[streamKey]uint64            // elements published of an open output
	ends    map[streamKey]uint64
	cut     map[dag.TaskIndex]bool        // cancelled while they ran, or skipped so
	lost    map[comms.DatasetRef]lostData // lost, and not published again
	owing   map[dag.TaskIndex]int         // of tasks, how many such promises there are
	broke   map[dag.TaskIndex]bool        // of these, those that have ended since unkept was called
	groups  []comms.GroupCounts
	open    uint64 // tasks that are there and not over
	totals  records.Totals
	since   map[dag.TaskIndex]uint64 // of tasks that were moved: what was noted at an earlier epoch is void
	torn    map[dag.TaskIndex]bool   // gangs that are to start over, by their first members
	tried   map[dag.TaskIndex]comms.GangTries
	epoch   uint64      // at which the events were noted that are applied now
	near    int         // group that was asked for last
	rows    []comms.End // scratch

	lineage lineage

	enlarged map[dag.TaskIndex]comms.Enlarged // tasks for which more memory is held than their groups say
	outgrown map[dag.TaskIndex]bool           // tasks that need more than their agent has; true: they wait for the controller
	missed   map[dag.TaskIndex]bool           // tasks that were skipped or cancelled for what counts no more, and wait for it too

	fatal []dag.TaskIndex // tasks that have failed and may not, since anything was given out anew

	early  map[dag.TaskIndex]dag.TaskIndex   // of tasks that were skipped or cancelled for one whose end was not known: that one
	behind map[dag.TaskIndex][]dag.TaskIndex // those by it; it may hold more
	lists  map[dag.TaskIndex]*doubts         // of early tasks that read lists: for what they may have been skipped
}

// NewStates returns the states of a job in which nothing has happened.
func NewStates(g *dag.Graph) *States {
	s := &States{g: g, static: make([]TaskState, g.NumTasks()), pages: map[uint32]*[pageSize]TaskState{},
		attempt: map[dag.TaskIndex]uint32{}, first: map[dag.TaskIndex]uint32{}, known: map[streamKey]uint64{}, ends: map[streamKey]uint64{},
		lost: map[comms.DatasetRef]lostData{}, owing: map[dag.TaskIndex]int{}, broke: map[dag.TaskIndex]bool{}, groups: make([]comms.GroupCounts, len(g.Groups))}
	for i := range g.Groups {
		s.groups[i].Group = g.Groups[i].Name
	}
	for i := range s.static {
		s.static[i] = TaskWaiting
	}
	for i := range g.Groups {
		if g.Groups[i].Stream == nil {
			_, n := g.GroupTasks(i)
			s.groups[i].Total = uint64(n)
		}
	}
	s.open, s.totals.Tasks = uint64(len(s.static)), uint64(len(s.static))
	return s
}

// Get returns a task's state and its present or last attempt, from 1.
func (s *States) Get(i dag.TaskIndex) (TaskState, uint32) {
	return s.get(i), max(s.attempt[i], 1)
}

func (s *States) get(i dag.TaskIndex) TaskState {
	if int(i) < len(s.static) {
		return s.static[i]
	}
	if p := s.pages[uint32(i)/pageSize]; p != nil {
		return p[uint32(i)%pageSize]
	}
	return TaskAbsent
}

// anyOpen tells whether is holds for a task of a range that exists and is not over.
// The range may be any: it takes time for tasks that exist only.
func (s *States) anyOpen(r comms.Range, is func(dag.TaskIndex) bool) bool {
	open := func(i uint64, st TaskState) bool {
		return st != TaskAbsent && !st.Over() && uint64(r.First) <= i && i <= uint64(r.Last) && is(dag.TaskIndex(i))
	}
	for i := uint64(r.First); i <= uint64(r.Last) && i < uint64(len(s.static)); i++ {
		if open(i, s.static[i]) {
			return true
		}
	}
	for page, states := range s.pages {
		at := uint64(page) * pageSize
		if at > uint64(r.Last) || at+pageSize <= uint64(r.First) {
			continue
		}
		for k, st := range states {
			if open(at+uint64(k), st) {
				return true
			}
		}
	}
	return false
}

// put moves a task to a state and keeps the counts.
func (s *States) put(i dag.TaskIndex, to TaskState) {
	from := s.get(i)
	if from == to {
		return
	}
	s.near = s.g.GroupNear(i, s.near)
	g := &s.groups[s.near]
	if n := counter(g, from); n != nil {
		*n--
	}
	if n := counter(g, to); n != nil {
		*n++
	}
	switch {
	case from == TaskAbsent:
		g.Total++
		s.totals.Tasks++
	case to == TaskAbsent:
		g.Total--
		s.totals.Tasks--
	}
	s.noteCut(i, from, to)
	was, is := from != TaskAbsent && !from.Over(), to != TaskAbsent && !to.Over()
	if was && !is {
		s.open--
		if s.owing[i] > 0 {
			s.broke[i] = true
		}
	} else if is && !was {
		s.open++
	}
	s.totals.Done += delta(from == TaskDone, to == TaskDone)
	s.totals.Failed += delta(from == TaskFailed, to == TaskFailed)
	s.set(i, to)
	s.noteEnd(i, to)
}

func (s *States) set(i dag.TaskIndex, to TaskState) {
	if int(i) < len(s.static) {
		s.static[i] = to
		return
	}
	p := s.pages[uint32(i)/pageSize]
	if p == nil {
		p = new([pageSize]TaskState)
		s.pages[uint32(i)/pageSize] = p
	}
	p[uint32(i)%pageSize] = to
}

// noteCut notes of a task that is cancelled whether it had begun.
func (s *States) noteCut(i dag.TaskIndex, from, to TaskState) {
	switch {
	case from == TaskRunning && to == TaskCancelled:
		s.cuts(i)
	case from == TaskCancelled:
		delete(s.cut, i)
	}
}

func (s *States) cuts(i dag.TaskIndex) {
	if s.cut == nil {
		s.cut = map[dag.TaskIndex]bool{}
	}
	s.cut[i] = true
}

// begun tells whether the present attempt at a task has begun, as far as is known. A
// gang is tried as one: that no start of a member was told yet says nothing, and to
// none of those that start over may it be the first try when it is not so to others.
func (s *States) begun(i dag.TaskIndex) bool {
	if s.g.Group(i).Gang != dag.GangNone {
		return true
	}
	switch st := s.get(i); st {
	case TaskRunning, TaskDone, TaskFailed:
		return true
	default:
		return s.cut[i]
	}
}

func delta(was, is bool) uint64 {
	switch {
	case is && !was:
		return 1
	case was && !is:
		return ^uint64(0)
	}
	return 0
}

func counter(g *comms.GroupCounts, s TaskState) *uint64 {
	switch s {
	case TaskReady:
		return &g.Ready
	case TaskRunning:
		return &g.Running
	case TaskDone:
		return &g.Done
	case TaskFailed:
		return &g.Failed
	case TaskSkipped:
		return &g.Skipped
	case TaskCancelled:
		return &g.Cancelled
	case TaskAbsent, TaskWaiting:
	}
	return nil
}

// exists tells whether a task number can be one of this graph's. An instance is
// made known by its generator's events, or by its own.
func (s *States) exists(i dag.TaskIndex) bool {
	if int(i) < len(s.static) {
		return true
	}
	_, _, ok := s.g.Slot(i)
	return ok
}

// At says of which batch the events are that Apply takes in next. A decision's
// own are of the epoch that begins with it.
func (s *States) At(b *records.Batch) {
	if s.epoch = b.Epoch; b.Agent == "" {
		s.epoch++
	}
}

// Apply takes an event in and tells whether it changed anything: a second copy,
// one of an attempt that was given up, and one that makes no sense do not.
func (s *States) Apply(e *comms.Event) bool {
	switch e.Kind {
	case comms.EventDrained, comms.EventEnv, comms.EventBuilding:
		return false
	case comms.EventCall:
		return true
	case comms.EventLost:
		return s.lose(e)
	case comms.EventSpilled:
		s.totals.Spilled += e.Count
		return true
	case comms.EventAdopted:
		return s.held(e)
	case comms.EventSteps:
		return s.applySteps(e)
	}
	if !s.exists(e.Task) {
		return false
	}
	old, attempt := s.Get(e.Task)
	if e.Attempt != 0 && e.Attempt < attempt || s.void(e.Task) {
		return false
	}
	// A task that was over starts again when the agent recomputes what was lost.
	// With a member of a gang that does, so does one that has failed.
	again := e.Kind == comms.EventRetry && (old == TaskDone || s.g.Group(e.Task).Gang != dag.GangNone)
	if old.Over() && e.Attempt <= attempt && !again && !(e.Kind == comms.EventStreamEnd || e.Kind == comms.EventPublished) {
		return false
	}
	if e.Attempt > 1 {
		s.attempt[e.Task] = e.Attempt
	}
	s.published(e)
	switch e.Kind {
	case comms.EventReady, comms.EventReclaimed:
		s.put(e.Task, TaskReady)
	case comms.EventStarted:
		s.put(e.Task, TaskRunning)
	case comms.EventPublished, comms.EventThrottled:
		if !old.Over() || e.Attempt > attempt {
			s.put(e.Task, TaskRunning)
		}
	case comms.EventFinished:
		s.put(e.Task, TaskDone)
		if s.reads(e.Task, &e.Cause); e.Executor == 0 && e.Cause.Text != "" {
			s.closes(e.Task)
		} else {
			s.leaves(e.Task, e.Outputs)
		}
	case comms.EventRetry:
		s.groups[s.g.GroupIndex(e.Task)].Retries++
		s.attempt[e.Task] = comms.NextTry(max(e.Attempt, attempt))
		s.put(e.Task, TaskWaiting)
		s.enlarge(e)
	case comms.EventTorn:
		s.tear(e)
	case comms.EventFailed:
		s.put(e.Task, TaskFailed)
		s.stops(e.Task)
	case comms.EventSkipped, comms.EventCancelled:
		switch {
		case s.inVain(e):
			s.miss(e.Task)
			s.missBehind(e.Task)
		case e.Kind == comms.EventSkipped:
			s.put(e.Task, TaskSkipped)
			s.endsFor(e)
		default:
			s.put(e.Task, TaskCancelled)
			s.endsFor(e)
		}
	case comms.EventStreamEnd:
		s.streamEnd(streamKey{e.Task, e.Output}, e.Count)
	}
	if u := e.Usage; u != nil {
		s.totals.TaskTime += max(0, u.Duration)
		s.totals.BytesOut += u.BytesOut
		s.totals.Copied += u.Copied
		s.totals.Device.Add(u.Device)
	}
	return true
}

// held takes in that an agent holds what another made. Of a task that was made to
// start over meanwhile it counts no more. Elements have the attempts that made them.
func (s *States) held(e *comms.Event) bool {
	if !s.exists(e.Task) || s.void(e.Task) || !s.get(e.Task).Over() {
		return false
	}
	generates := slices.ContainsFunc(s.g.Group(e.Task).Outputs, func(o dag.OutputDecl) bool { return o.Generate != dag.GenerateNone })
	if _, attempt := s.Get(e.Task); e.Attempt < attempt && !generates {
		return false
	}
	s.published(e)
	return true
}

// applySteps takes in ends of many tasks. Bytes that cannot be read are of none.
func (s *States) applySteps(e *comms.Event) bool {
	ends, err := comms.ReadEnds(e.Steps, s.rows[:0])
	if s.rows = ends; err != nil {
		return false
	}
	changed := false
	for i := range ends {
		t, attempt := ends[i].Task, ends[i].Attempt
		if !s.exists(t) {
			continue
		}
		old, present := s.Get(t)
		if attempt != 0 && attempt < present || old.Over() && attempt <= present || s.void(t) {
			continue
		}
		if attempt > 1 {
			s.attempt[t] = attempt
		}
		s.put(t, TaskDone)
		cause := e.Cause
		if i > 0 {
			cause.Number = 0 // it is the first's
		}
		s.reads(t, &cause)
		s.leaves(t, nil)
		u := &ends[i].Usage
		s.totals.TaskTime += u.Duration
		s.totals.BytesOut += u.BytesOut
		s.totals.Copied += u.Copied
		changed = true
	}
	return changed
}

// published notes the datasets that came with an event.
func (s *States) published(e *comms.Event) {
	for i := range e.Outputs {
		r := e.Outputs[i].Ref
		if l := s.lost[r]; !l.promised || s.epoch == 0 || s.epoch >= l.epoch { // else it is what has been let go since
			s.owe(r, false, false)
		}
		if s.exists(r.Task) {
			s.publishes(&e.Outputs[i])
		}
		if len(s.g.StreamSlots(r.Task, r.Output)) > 0 || s.isOpen(r) {
			s.elements(streamKey{r.Task, r.Output}, r.Element+1)
		}
	}
}

func (s *States) isOpen(r comms.DatasetRef) bool {
	if !s.exists(r.Task) {
		return false
	}
	outs := s.g.Group(r.Task).Outputs
	return int(r.Output) < len(outs) && outs[r.Output].Generate == dag.GenerateOpen
}

// maxJump is the most elements that one event can add to a stream: a number out
// of all proportion must not take all memory.
const maxJump = 1 << 24

// elements notes that a stream has at least n elements: their instances exist.
func (s *States) elements(k streamKey, n uint64) {
	old := s.known[k]
	if n <= old || n-old > maxJump {
		return
	}
	for _, slot := range s.g.StreamSlots(k.task, k.output) {
		for e := old; e < n; e++ {
			i, err := s.g.Instance(slot, e)
			if err != nil {
				n = e // no room for more tasks: the agent fails the generator
				break
			}
			if s.get(i) == TaskAbsent {
				s.put(i, TaskWaiting)
				if first := comms.Following(s.attempt[k.task]); first > 1 {
					s.first[i] = first
				}
			}
		}
	}
	s.known[k] = n
}

// streamEnd notes that a stream has n elements. When it had more in an earlier
// attempt, the tasks of those that have not run never will.
func (s *States) streamEnd(k streamKey, n uint64) {
	s.elements(k, n)
	s.ends[k] = n
	for _, slot := range s.g.StreamSlots(k.task, k.output) {
		for e := n; e < s.known[k]; e++ {
			if i, err := s.g.Instance(slot, e); err == nil && !s.get(i).Over() {
				s.put(i, TaskAbsent)
			}
		}
	}
	s.known[k] = min(s.known[k], n)
}

// Elements returns how many elements of a generator's output exist, and whether there will be no more.
func (s *States) Elements(task dag.TaskIndex, output uint32) (n uint64, ended bool) {
	if outs := s.g.Group(task).Outputs; int(output) < len(outs) && outs[output].Generate == dag.GenerateFixed {
		return outs[output].Count, true
	}
	k := streamKey{task, output}
	n, ended = s.ends[k]
	if !ended {
		n = s.known[k]
	}
	return n, ended
}

// Groups returns a copy of the counts of each group.
func (s *States) Groups() []comms.GroupCounts { return slices.Clone(s.groups) }

// Totals returns the sums over all tasks.
func (s *States) Totals() records.Totals { return s.totals }

// Open returns how many tasks exist and are not over.
func (s *States) Open() uint64 { return s.open }

// Each calls f for every task that exists, in order of the index.
func (s *States) Each(f func(dag.TaskIndex, TaskState)) {
	for i, st := range s.static {
		f(dag.TaskIndex(i), st)
	}
	s.eachInstance(f)
}

// eachInstance calls f for the instances that there are.
func (s *States) eachInstance(f func(dag.TaskIndex, TaskState)) {
	for _, page := range slices.Sorted(maps.Keys(s.pages)) {
		for i, st := range s.pages[page] {
			if st != TaskAbsent {
				f(dag.TaskIndex(page*pageSize+uint32(i)), st)
			}
		}
	}
}

// ended lists how tasks have ended, but for those of a set.
func (s *States) ended(but map[dag.TaskIndex]struct{}) (out []comms.Ended) {
	ends := map[TaskState]comms.Outcome{TaskDone: comms.OutcomeDone, TaskFailed: comms.OutcomeFailed, TaskSkipped: comms.OutcomeSkipped, TaskCancelled: comms.OutcomeCancelled}
	s.Each(func(t dag.TaskIndex, st TaskState) {
		how, over := ends[st]
		if _, not := but[t]; not || !over {
			return
		}
		if n := len(out); n > 0 && out[n-1].Last+1 == t && out[n-1].How == how {
			out[n-1].Last = t
		} else {
			out = append(out, comms.Ended{First: t, Last: t, How: how})
		}
	})
	return out
}

// streamEnds lists the open streams of tasks that are over, sorted. One whose
// generator ended badly has the elements that were published.
func (s *States) streamEnds() (out []comms.StreamEnd) {
	badly := func(t dag.TaskIndex) bool { return s.get(t).Over() && s.get(t) != TaskDone }
	for k, n := range s.ends { // it may be of an attempt before the one that failed
		out = append(out, comms.StreamEnd{Task: k.task, Output: k.output, Count: n, Failed: badly(k.task)})
	}
	for k, n := range s.known {
		if _, ended := s.ends[k]; !ended && badly(k.task) {
			out = append(out, comms.StreamEnd{Task: k.task, Output: k.output, Count: n, Failed: true})
		}
	}
	slices.SortFunc(out, func(a, b comms.StreamEnd) int {
		if a.Task != b.Task {
			return int(int64(a.Task) - int64(b.Task))
		}
		return int(int64(a.Output) - int64(b.Output))
	})
	return out
}

// Expand lists the datasets that a source stands for, and tells whether the list is complete.
func (s *States) Expand(src dag.Source) (refs []comms.DatasetRef, complete bool) {
	want, complete := uint64(1), true
	for d := range s.g.Datasets(src, func(t dag.TaskIndex, output uint32) uint64 {
		want, complete = s.Elements(t, output)
		return want
	}) {
		refs = append(refs, comms.DatasetRef(d))
	}
	return refs, complete && uint64(len(refs)) == want
}
