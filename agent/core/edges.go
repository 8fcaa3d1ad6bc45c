package core

import (
	"fmt"
	"slices"
	"sort"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/dag"
)

// outputKey names an output of a task: a stream, when the task is a generator.
type outputKey struct {
	task   taskIndex
	output uint32
}

// edgesOf returns the edges that leave a task, by output and element. Those of a
// generator are asked for at each publication and kept while it runs.
func (j *job) edgesOf(t taskIndex) []dag.Edge {
	gs := j.groupOf(t)
	if !gs.read {
		return nil
	}
	if !gs.generator { // asked for several times in a row when a task starts or ends
		if j.lastEdges == nil || j.lastTask != t {
			j.lastTask, j.lastEdges = t, j.consumers(t)
		}
		return j.lastEdges
	}
	edges, ok := j.edgeCache[t]
	if !ok {
		edges = j.consumers(t)
		j.edgeCache[t] = edges
	}
	return edges
}

// ofOutput cuts out the edges of one output.
func ofOutput(edges []dag.Edge, output uint32) []dag.Edge {
	lo := sort.Search(len(edges), func(i int) bool { return edges[i].Output >= output })
	hi := lo + sort.Search(len(edges)-lo, func(i int) bool { return edges[lo+i].Output > output })
	return edges[lo:hi]
}

// ofElement cuts out the edges of one output that name an element.
func ofElement(edges []dag.Edge, element uint64) []dag.Edge {
	lo := sort.Search(len(edges), func(i int) bool { return edges[i].Element >= element })
	hi := lo + sort.Search(len(edges)-lo, func(i int) bool { return edges[lo+i].Element > element })
	return edges[lo:hi]
}

// resolve tells the consumers on edges of one kind that what they wait for is
// there, or (ok unset) never will be.
func (c *Core) resolve(j *job, edges []dag.Edge, kind dag.SourceKind, by comms.DatasetRef, ok bool) {
	for i := range edges {
		if edges[i].Kind == kind {
			c.resolveEdge(j, edges[i].Consumer, by, ok)
		}
	}
}

func (c *Core) resolveEdge(j *job, consumer taskIndex, by comms.DatasetRef, ok bool) {
	if int(consumer) >= len(j.tasks) {
		return
	}
	t := &j.tasks[consumer]
	switch t.state {
	case tWaiting:
		if !ok && !c.tolerates(j, consumer) {
			c.skip(j, consumer)
			return
		}
		if ok {
			t.missing--
		} else {
			// Counted anew: a count made since it failed has left it out already.
			t.missing, _ = c.countMissing(j, consumer)
		}
		if t.missing == 0 {
			c.ready(j, entry{consumer, by.Task, by.Output})
		} else {
			c.nearer(j, consumer)
		}
	case tQueued, tRunning: // behind its producer, on the same executor; when that failed it is returned
		if ok && t.missing > 0 {
			t.missing--
		}
	}
}

// ready puts a task whose inputs are there into its class.
func (c *Core) ready(j *job, e entry) {
	gs := j.groupOf(e.task)
	if j.stopped != nil {
		c.endUnrun(j, e.task)
		return
	}
	if gs.unfit != "" {
		if !c.missesHere(j, e.task) {
			kind := comms.ErrorSetup
			if _, own := j.enlarged[e.task]; own {
				kind = comms.ErrorMemory
			}
			c.fail(j, e.task, nil, &comms.TaskError{Kind: kind, Message: gs.unfit}, j.cause(e), true)
		}
		return
	}
	j.tasks[e.task].state = tReady
	if e.by != noTask {
		if len(j.readied) == 0 {
			c.readied = append(c.readied, j)
		}
		j.readied = append(j.readied, e)
	}
	if gs.ganged() {
		c.muster(j, e)
		return
	}
	c.push(gs.class, j.rowOf(e, 1))
}

// readyRow is ready for tasks of one group and rank that wait for nothing and
// that the assignment itself made ready.
func (c *Core) readyRow(j *job, first taskIndex, n int) {
	gs := j.groupOf(first)
	if j.stopped != nil || gs.unfit != "" {
		for i := range n { // the first may stop the job
			if t := first + taskIndex(i); j.tasks[t].state == tWaiting {
				c.ready(j, entry{t, noTask, 0})
			}
		}
		return
	}
	for i := range n {
		j.tasks[int(first)+i].state = tReady
	}
	if gs.ganged() {
		for i := range n {
			c.muster(j, entry{first + taskIndex(i), noTask, 0})
		}
		return
	}
	c.push(gs.class, j.rowOf(entry{first, noTask, 0}, uint32(n)))
}

// sourceState tells whether a source is there, or never will be.
type sourceState uint8

const (
	srcPending sourceState = iota
	srcThere
	srcFailed
)

// source looks at one source. n is how many datasets it stands for, as far as known.
func (c *Core) source(j *job, s dag.Source) (state sourceState, n int) {
	switch s.Kind {
	case dag.SourceStream:
		st := j.streams[outputKey{s.Task, s.Output}]
		switch {
		case st == nil && j.overAt(s.Task):
			return srcFailed, 0
		case st == nil || !st.ended, j.peers != nil && j.peers.flying[s.Task] > 0: // what was published of a failed one counts, too
			return srcPending, 0
		case st.failed || st.torn:
			return srcFailed, int(st.next) - len(st.lost)
		case len(st.lost) > 0:
			return srcPending, 0
		}
		return srcThere, int(st.next)
	case dag.SourceGroup:
		slot, _, _ := j.graph.Slot(s.Task)
		return j.slots[slot].state(j)
	}
	ref := comms.DatasetRef{Task: s.Task, Output: s.Output, Element: s.Element}
	if j.data[ref] != nil {
		return srcThere, 1
	}
	if st := j.streams[outputKey{s.Task, s.Output}]; st != nil && st.ended && s.Element >= st.next {
		return srcFailed, 0
	}
	if !j.overAt(s.Task) || j.tasks[s.Task].state == tFinished {
		return srcPending, 0
	}
	return srcFailed, 0
}

func (j *job) overAt(t taskIndex) bool { return int(t) < len(j.tasks) && j.tasks[t].state.over() }

// tolerates tells whether a task can still run although sources of it failed:
// every failed one belongs to a list that keeps Min of its datasets.
func (c *Core) tolerates(j *job, t taskIndex) bool {
	ins, err := j.inputs(t)
	return err == nil && !slices.ContainsFunc(ins, func(in dag.Input) bool { return c.fallsShort(j, in) })
}

// fallsShort tells whether sources of an input failed that the task cannot do without.
func (c *Core) fallsShort(j *job, in dag.Input) bool {
	failed, pending, there := 0, 0, 0
	for _, s := range in.Sources {
		state, n := c.source(j, s)
		switch state {
		case srcFailed:
			failed++
		case srcPending:
			pending++
		}
		there += n
	}
	return failed > 0 && (in.Min == 0 || pending == 0 && there < in.Min || there+pending < in.Min && !open(in))
}

// failedInput names what a task cannot do without and that never comes; of no task when
// all may come. Of a list with Min, which may lack several, it prefers what another agent
// was to make: of what failed here the controller has heard when it hears of this.
func (c *Core) failedInput(j *job, t taskIndex) comms.DatasetRef {
	by := comms.DatasetRef{Task: noTask}
	ins, _ := j.inputs(t)
	k := slices.IndexFunc(ins, func(in dag.Input) bool { return c.fallsShort(j, in) })
	if k < 0 {
		return by
	}
	for _, s := range ins[k].Sources {
		if state, _ := c.source(j, s); state != srcFailed {
			continue
		}
		if by = j.failed(s); ins[k].Min == 0 || j.peers != nil && j.endedAway(by.Task) {
			break
		}
	}
	return by
}

// failed names what did not come of a source that failed: of a streamed group an instance
// that did not end well or, when there is none, the stream.
func (j *job) failed(s dag.Source) comms.DatasetRef {
	if s.Kind != dag.SourceGroup {
		return comms.DatasetRef{Task: s.Task, Output: s.Output, Element: s.Element}
	}
	slot, _, _ := j.graph.Slot(s.Task)
	if sl := &j.slots[slot]; sl.bad == 0 {
		return comms.DatasetRef{Task: sl.key.task, Output: sl.key.output}
	}
	return comms.DatasetRef{Task: j.slots[slot].badAt, Output: s.Output}
}

// open tells whether an input may still get more datasets than it has sources.
func open(in dag.Input) bool {
	for _, s := range in.Sources {
		if s.Kind == dag.SourceStream || s.Kind == dag.SourceGroup {
			return true
		}
	}
	return false
}

// skip ends a task that never ran because something it needs failed.
func (c *Core) skip(j *job, t taskIndex) {
	cause, why := comms.Cause{Kind: comms.CauseNone}, "what it needs did not come"
	if by := c.failedInput(j, t); by.Task != noTask {
		cause = comms.Cause{Kind: comms.CauseTask, Ref: by}
		why = fmt.Sprintf("it needs %s, which did not deliver", j.taskName(by.Task))
	}
	if short := c.tooFew(j, t); short != "" {
		why = short
	}
	c.skipFor(j, t, cause, why)
}

// skipFor ends a task that will not run, and says why.
func (c *Core) skipFor(j *job, t taskIndex, cause comms.Cause, why string) {
	c.noteEnd(j, comms.Event{Kind: comms.EventSkipped, Task: t, Attempt: j.tasks[t].attempt, Cause: cause,
		Error: &comms.TaskError{Kind: comms.ErrorSkipped, Message: why,
			Task: j.taskName(t), Attempt: comms.Try(j.tasks[t].attempt), Agent: c.cfg.Agent}})
	c.end(j, t, tSkipped)
	c.todo = append(c.todo, ended{j, t})
}

// tooFew says which list of a task does not come to its Min; "" when none.
func (c *Core) tooFew(j *job, t taskIndex) string {
	ins, err := j.inputs(t)
	if err != nil {
		return ""
	}
	for _, in := range ins {
		failed, coming, there := 0, 0, 0
		for _, s := range in.Sources {
			state, n := c.source(j, s)
			there += n
			switch state {
			case srcFailed:
				failed++
			case srcPending:
				coming++
			}
		}
		switch {
		case in.Min == 0 || failed == 0 || there >= in.Min:
		case coming > 0:
			return fmt.Sprintf("input %s: %d of at least %d were there, and %d can still come", in.Name, there, in.Min, coming)
		default:
			return fmt.Sprintf("input %s: %d of at least %d were there", in.Name, there, in.Min)
		}
	}
	return ""
}

// outputsFailed tells the consumers of a task that ended badly that its unpublished
// outputs never come. Published outputs stay (the first publication wins).
func (c *Core) outputsFailed(j *job, t taskIndex) {
	if j.dyn != nil {
		return // rowEnded tells who waits
	}
	gs := j.groupOf(t)
	if gs.ganged() {
		c.disband(j, t)
	}
	edges := j.edgesOf(t)
	for o := range gs.group.Outputs {
		output := uint32(o)
		if gs.group.Outputs[o].Generate != dag.GenerateNone {
			c.streamFailed(j, t, output)
		}
		for _, e := range ofOutput(edges, output) {
			ref := comms.DatasetRef{Task: t, Output: output, Element: e.Element}
			if (e.Kind == dag.SourceWhole || e.Kind == dag.SourceElement) && j.data[ref] == nil {
				c.resolveEdge(j, e.Consumer, ref, false)
			}
		}
		for _, g := range j.gates[t] {
			ref := comms.DatasetRef{Task: t, Output: output, Element: g.source.Element}
			if g.source.Output == output && (g.source.Kind == dag.SourceWhole || g.source.Kind == dag.SourceElement) && j.data[ref] == nil {
				c.openGate(j, g.slot, ref, false)
			}
		}
	}
	delete(j.edgeCache, t)
}

// countMissing counts the edges of a waiting task that are not resolved.
func (c *Core) countMissing(j *job, t taskIndex) (missing uint32, failed bool) {
	if j.dyn != nil {
		return j.dyn.rows.at(t).missing()
	}
	ins, err := j.inputs(t)
	if err != nil {
		return 0, true
	}
	slot, _, instance := j.graph.Slot(t)
	for _, in := range ins {
		for _, s := range in.Sources {
			if instance && j.gated(slot, s) {
				continue
			}
			state, _ := c.source(j, s)
			switch state {
			case srcPending:
				missing++
			case srcFailed:
				failed = true
			}
		}
	}
	if instance {
		if j.slots[slot].pending > 0 {
			missing++
		}
		failed = failed || j.slots[slot].failed
	}
	return missing, failed
}

// recount computes from the ground up what the tasks of a job wait for and who
// needs its datasets: after an Assign, and after datasets were lost.
func (c *Core) recount(j *job) {
	c.recountSlots(j)
	c.recountGates(j)
	for _, ref := range j.sortedData() {
		d := j.data[ref]
		if d == nil { // freed with another
			continue
		}
		d.refs = j.countRefs(ref, d.given)
		if d.refs == 0 && !j.keeps(d) {
			c.freeData(j, d)
		}
	}
	if j.peers != nil {
		c.recountHeard(j)
	}
	fresh := j.fresh && len(j.data) == 0 && len(j.streams) == 0
	j.fresh = false
	if fresh {
		c.countFresh(j)
	}
	var first taskIndex // of a row of n that are ready
	n, near := 0, 0
	row := func() {
		if n > 0 {
			c.readyRow(j, first, n)
		}
		n = 0
	}
	defer row()
	for i := range j.tasks {
		t := taskIndex(i)
		s := &j.tasks[i]
		if s.state == tPinning {
			c.unplace(j, t)
		}
		if s.state != tWaiting && s.state != tReady && s.state != tDelayed {
			continue
		}
		failed := false
		if !fresh {
			s.missing, failed = c.countMissing(j, t)
		}
		switch {
		case failed && !c.tolerates(j, t):
			c.skip(j, t)
		case s.missing > 0 && s.state == tReady:
			s.state = tWaiting // its entry in the class is stale now
		case s.missing == 0 && s.state == tWaiting:
			group := j.graph.GroupNear(t, near)
			if n == 0 || group != near || t != first+taskIndex(n) || j.rank(t) != j.rank(first) || !j.alike(t, first) {
				row()
				first = t
			}
			near = group
			n++
		}
	}
	c.recountNeeds(j)
}

// countFresh counts the edges of a job of which nothing has run, by following
// them from the producers: cheaper than asking each task for its inputs. Tasks
// that are not this agent's and gave no dataset deliver when they are assigned.
func (c *Core) countFresh(j *job) {
	var edges []dag.Edge
	for i := range j.static {
		edges = j.graph.AppendConsumers(edges[:0], taskIndex(i))
		for _, e := range edges {
			if int(e.Consumer) < j.static {
				j.tasks[e.Consumer].missing++
			}
		}
	}
	for s := range j.graph.NumSlots() {
		i, err := j.graph.Instance(s, 0)
		if err != nil {
			continue
		}
		for _, e := range j.consumers(i) {
			if int(e.Consumer) < j.static {
				j.tasks[e.Consumer].missing++
			}
		}
	}
}
