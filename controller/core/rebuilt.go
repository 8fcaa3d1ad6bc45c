package core

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/controller/records"
	"github.com/cascade-run/cascade/dag"
)

// A recomputed dataset is compared with the original: its sum is kept from when it was
// published first. The end of a task says what it has read. Where the present datasets
// differ from that, the task has read bytes that are lost: it is outdated, and the job's
// policy says what becomes of it (decision 34). All of it follows from events, so that
// the next controller knows it, too.

// lineage is what tasks have made and read, as sums.
type lineage struct {
	made  map[uint32]column      // by output: of each task; of those with elements, the first
	parts map[part64]*[64]uint64 // of other elements
	read  column

	again    bool                       // a task has started over, or something was published by another attempt than its first
	varies   map[dag.TaskIndex]bool     // tasks that have made other bytes than before
	unsaid   map[dag.TaskIndex]bool     // tasks that count as done and did not run in this job
	nowhere  map[comms.DatasetRef]bool  // recomputed when all had read it, and the sum that they read was never published
	suspects map[dag.TaskIndex]struct{} // tasks that may have read what is lost
	outdated map[dag.TaskIndex]bool     // tasks that have
	differs  []records.Difference       // since they were taken last
}

// part64 names 64 elements of an output.
type part64 struct {
	task   dag.TaskIndex
	output uint32
	at     uint64
}

// column is a number for each of many tasks, in pages that are made when one is not 0.
type column map[uint32]*[pageSize]uint64

func (c column) get(t dag.TaskIndex) uint64 {
	if p := c[uint32(t)/pageSize]; p != nil {
		return p[uint32(t)%pageSize]
	}
	return 0
}

func (c *column) set(t dag.TaskIndex, v uint64) {
	p := (*c)[uint32(t)/pageSize]
	if p == nil {
		if v == 0 {
			return
		}
		if *c == nil {
			*c = column{}
		}
		p = new([pageSize]uint64)
		(*c)[uint32(t)/pageSize] = p
	}
	p[uint32(t)%pageSize] = v
}

// bare stands for the sum of a dataset that was published and has none.
const bare = math.MaxUint64

// sum is that of a dataset as it was published last; 0: it has none.
func (l *lineage) sum(r comms.DatasetRef) uint64 {
	if s := l.heard(r); s != bare {
		return s
	}
	return 0
}

// heard is sum, or bare; 0: of the dataset nothing was heard.
func (l *lineage) heard(r comms.DatasetRef) uint64 {
	if r.Element == 0 {
		return l.made[r.Output].get(r.Task)
	}
	if p := l.parts[part64{r.Task, r.Output, r.Element / 64}]; p != nil {
		return p[r.Element%64]
	}
	return 0
}

// publishes takes in a dataset that an event tells of. A dataset without readers is not
// looked at: its past readers have read it as it was. One that had a hash and has none now
// counts as different: as a rule it is larger now, and a comparison is not possible.
func (s *States) publishes(d *comms.Desc) {
	l := &s.lineage
	l.again = l.again || d.Attempt > 1
	if d.Place.Kind == comms.PlaceNone {
		s.unread(d)
		return
	}
	delete(l.nowhere, d.Ref)
	heard, was, sum := l.heard(d.Ref), l.sum(d.Ref), d.Sum()
	l.setSum(d.Ref, cmp.Or(sum, bare))
	if was == sum && heard != 0 {
		return
	}
	if was != 0 {
		if l.varies == nil {
			l.varies = map[dag.TaskIndex]bool{}
		}
		l.varies[d.Ref.Task] = true
	}
	if was != 0 && sum != 0 {
		l.differs = append(l.differs, records.Difference{Ref: d.Ref, Attempt: d.Attempt, Was: was, Is: sum})
	}
	if was != 0 || d.Attempt > 1 { // an earlier attempt of which no event came may have been read
		s.readers(d.Ref, l.suspect)
	}
}

// unread takes in a recomputed dataset that has no readers any more. Of one of which no
// event came before, the readers have reported all that they can.
func (s *States) unread(d *comms.Desc) {
	l := &s.lineage
	if d.Attempt <= 1 || l.heard(d.Ref) != 0 {
		return
	}
	s.readers(d.Ref, func(dag.TaskIndex) {
		if l.nowhere == nil {
			l.nowhere = map[comms.DatasetRef]bool{}
		}
		l.nowhere[d.Ref] = true
	})
}

func (l *lineage) setSum(r comms.DatasetRef, sum uint64) {
	if r.Element == 0 {
		c := l.made[r.Output]
		if c == nil && sum != 0 {
			if l.made == nil {
				l.made = map[uint32]column{}
			}
			c = column{}
			l.made[r.Output] = c
		}
		c.set(r.Task, sum)
		return
	}
	at := part64{r.Task, r.Output, r.Element / 64}
	p := l.parts[at]
	if p == nil {
		if sum == 0 {
			return
		}
		if l.parts == nil {
			l.parts = map[part64]*[64]uint64{}
		}
		p = new([64]uint64)
		l.parts[at] = p
	}
	p[r.Element%64] = sum
}

func (l *lineage) suspect(t dag.TaskIndex) {
	if l.suspects == nil {
		l.suspects = map[dag.TaskIndex]struct{}{}
	}
	l.suspects[t] = struct{}{}
}

// reads takes in what a task that has ended well has read.
func (s *States) reads(t dag.TaskIndex, cause *comms.Cause) {
	l := &s.lineage
	read := cause.Number
	if cause.Kind == comms.CauseExecutor {
		read = 0
	}
	l.read.set(t, read)
	if read != 0 && l.again {
		l.suspect(t)
	}
}

// leaves takes in what a task has left in its executor as it ended: those of its outputs
// of which it says nothing. An attempt before may have published them; who reads them now
// says nothing of them either, and has what it had asked for.
func (s *States) leaves(t dag.TaskIndex, said []comms.Desc) {
	if !s.lineage.again && s.owing[t] == 0 {
		return
	}
	for o, decl := range s.g.Group(t).Outputs {
		if decl.Generate != dag.GenerateNone || slices.ContainsFunc(said, func(d comms.Desc) bool { return d.Ref.Output == uint32(o) }) {
			continue
		}
		ref := comms.DatasetRef{Task: t, Output: uint32(o)}
		if s.lineage.again {
			s.lineage.setSum(ref, 0)
		}
		s.owe(ref, false, false)
	}
}

// closes takes in that a task counts as done that did not run in this job: its outputs
// are not known, but for those that are said here, and it has read nothing of this job.
func (s *States) closes(t dag.TaskIndex) {
	if s.lineage.unsaid == nil {
		s.lineage.unsaid = map[dag.TaskIndex]bool{}
	}
	s.lineage.unsaid[t] = true
}

// startsOver takes in that a task restarts, so that what it has read counts no more. Its
// new outputs may be read before an event of them comes.
func (l *lineage) startsOver(t dag.TaskIndex) {
	l.again = true
	l.read.set(t, 0)
	delete(l.unsaid, t)
	delete(l.outdated, t)
}

// takeDiffering returns what differs that was not returned before.
func (s *States) takeDiffering() []records.Difference {
	d := s.lineage.differs
	s.lineage.differs = nil
	return d
}

// Outdated lists the tasks that are done and have read what is gone, sorted: those whose
// word on what they have read says so, and those behind them that have read what only
// one executor had.
func (s *States) Outdated() []dag.TaskIndex {
	l := &s.lineage
	for t := range l.suspects {
		is, known := s.isOutdated(t)
		if known {
			delete(l.suspects, t)
		}
		if is && l.outdated == nil {
			l.outdated = map[dag.TaskIndex]bool{}
		}
		if is {
			l.outdated[t] = true
		} else {
			delete(l.outdated, t)
		}
	}
	maps.DeleteFunc(l.outdated, func(t dag.TaskIndex, _ bool) bool { return s.get(t) != TaskDone }) // it is looked at when it has ended
	if len(l.outdated) == 0 {
		return nil
	}
	return s.withUnseen(slices.Collect(maps.Keys(l.outdated)))
}

// isOutdated tells whether a task has read what is lost; known is false as long as it
// runs, or an input of which no event came before is being made. A task that does not say
// what it has read has read what had no hash, or is of an older agent.
func (s *States) isOutdated(t dag.TaskIndex) (is, known bool) {
	if s.get(t) == TaskRunning { // it may end without a word on what it has read
		return false, false
	}
	if s.get(t) != TaskDone || s.lineage.unsaid[t] {
		return false, true
	}
	inputs, err := s.g.Inputs(t)
	if err != nil {
		return false, true
	}
	now, untold := uint64(0), false
	for i := range inputs {
		if inputs[i].Min > 0 {
			continue
		}
		for _, src := range inputs[i].Sources {
			refs, complete := s.Expand(src)
			if !complete {
				return false, false
			}
			for _, ref := range refs {
				sum := s.lineage.sum(ref)
				if sum == 0 && (!s.get(ref.Task).Over() || s.lineage.unsaid[ref.Task]) {
					return false, false
				}
				never := s.lineage.heard(ref) == 0 && s.get(ref.Task) != TaskDone // its maker has failed since
				now, untold = comms.Read(now, ref, sum), untold || never || s.lineage.nowhere[ref]
			}
		}
	}
	return now != s.lineage.read.get(t) && !untold, true
}

// withUnseen returns tasks, sorted, with those that are done and have read what these
// left in an executor, or what has no hash: whether that differs cannot be found later.
func (s *States) withUnseen(tasks []dag.TaskIndex) []dag.TaskIndex {
	seen := make(map[dag.TaskIndex]bool, len(tasks))
	for _, t := range tasks {
		seen[t] = true
	}
	for todo := slices.Clone(tasks); len(todo) > 0; {
		t := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		s.eachOutput(t, func(ref comms.DatasetRef) {
			if s.lineage.sum(ref) != 0 {
				return
			}
			s.readers(ref, func(r dag.TaskIndex) {
				if s.get(r) == TaskDone && !seen[r] {
					seen[r] = true
					todo = append(todo, r)
				}
			})
		})
	}
	return slices.Sorted(maps.Keys(seen))
}

// readersOfVarying lists, sorted, the tasks that are done and have read what tasks made
// that run again and have made other bytes before: they are expected to do so again. All
// who read those run together then, so that the bytes stay until the last has read them.
func (s *States) readersOfVarying(run []dag.TaskIndex) []dag.TaskIndex {
	found := map[dag.TaskIndex]bool{}
	for _, t := range run {
		if !s.lineage.varies[t] {
			continue
		}
		s.eachOutput(t, func(ref comms.DatasetRef) {
			s.readers(ref, func(r dag.TaskIndex) {
				if s.get(r) == TaskDone {
					found[r] = true
				}
			})
		})
	}
	if len(found) == 0 {
		return nil
	}
	return s.withUnseen(slices.Collect(maps.Keys(found)))
}

// eachOutput calls f for each dataset of a task that is known.
func (s *States) eachOutput(t dag.TaskIndex, f func(comms.DatasetRef)) {
	for o, decl := range s.g.Group(t).Outputs {
		n := uint64(1)
		if decl.Generate != dag.GenerateNone {
			n, _ = s.Elements(t, uint32(o))
		}
		for e := range n {
			f(comms.DatasetRef{Task: t, Output: uint32(o), Element: e})
		}
	}
}

// readers calls f for each task that reads a dataset, and exists.
func (s *States) readers(r comms.DatasetRef, f func(dag.TaskIndex)) {
	there := func(t dag.TaskIndex) {
		if s.get(t) != TaskAbsent {
			f(t)
		}
	}
	for _, e := range s.g.Consumers(r.Task) {
		whole := e.Kind == dag.SourceStream || e.Kind == dag.SourceGroup || e.Kind == dag.SourceWhole
		if e.Output == r.Output && (whole || e.Element == r.Element) {
			there(e.Consumer)
		}
	}
	for _, slot := range s.g.StreamSlots(r.Task, r.Output) {
		if i, err := s.g.Instance(slot, r.Element); err == nil {
			there(i)
		}
	}
	for _, slot := range s.g.SlotConsumers(r.Task, r.Output) {
		first, err := s.g.Instance(slot, 0)
		if err != nil || s.g.Group(first).Stream == nil {
			continue
		}
		stream := s.g.Group(first).Stream
		n, _ := s.Elements(stream.Generator, stream.Output)
		for e := range n {
			if i, err := s.g.Instance(slot, e); err == nil {
				there(i)
			}
		}
	}
}

// compared reports datasets of a batch's events that were recomputed and differ.
// It tells whether the job's policy has it fail for that.
func (c *Core) compared(j *job, b *records.Batch) (fails bool) {
	why := c.report(j, b)
	if why == nil || j.rec.Cancel != "" {
		return false
	}
	j.rec.Error, j.rec.Fails, j.rec.Cancel = why, true, why.Message
	return true
}

// report is compared without what becomes of the job: it returns the error of one that fails.
func (c *Core) report(j *job, b *records.Batch) *comms.TaskError {
	found := j.states.takeDiffering()
	if len(found) == 0 {
		return j.unheard()
	}
	b.Differs = found
	text := differing(j.graph, &found[0])
	if j.rec.Differs == 0 {
		j.rec.Differing = text
	}
	j.rec.Differs += uint64(len(found))
	c.emit(Differs{Job: j.id, Name: j.graph.Name, Tenant: j.rec.Tenant, Text: text, Datasets: len(found)})
	if j.graph.Rebuilt != dag.RebuiltFail {
		return nil
	}
	d := &found[0]
	return &comms.TaskError{Kind: comms.ErrorTask, Task: j.graph.TaskName(d.Ref.Task), Attempt: d.Attempt, Agent: b.Agent, Message: text +
		"; the job says rebuilt: fail. Make the task deterministic (a fixed seed, no time of day), or write rebuilt: rerun"}
}

// unheard tells why a job fails that is to fail when a recomputed dataset differs: a
// task has read bytes that were lost before an event of them came.
func (j *job) unheard() *comms.TaskError {
	if j.graph.Rebuilt != dag.RebuiltFail {
		return nil
	}
	for _, t := range j.states.Outdated() {
		if j.states.lineage.read.get(t) == 0 {
			continue // it does not say what it has read: that may be the same
		}
		name := j.graph.TaskName(t)
		return &comms.TaskError{Kind: comms.ErrorTask, Task: name, Message: fmt.Sprintf("task %s has read a dataset that was lost and recomputed, and has other bytes now, or no hash; "+
			"the job says rebuilt: fail. Make the tasks before it deterministic (a fixed seed, no time of day), or write rebuilt: rerun", name)}
	}
	return nil
}

// comparedLate reports of a job that has ended that a dataset it kept was recomputed and
// differs. All its readers have ended with the job.
func (c *Core) comparedLate(j *job, d *records.Dataset) {
	old := j.exports[d.Desc.Ref]
	if was, is := old.Desc.Sum(), d.Desc.Sum(); was != 0 && is != 0 && was != is {
		c.emit(Differs{Job: j.id, Text: fmt.Sprintf("a dataset that was kept was recomputed after the job's end, by attempt %d at task number %d, and differs", d.Desc.Attempt, d.Desc.Ref.Task), Datasets: 1})
	}
}

// differing says which dataset differs.
func differing(g *dag.Graph, d *records.Difference) string {
	return fmt.Sprintf("dataset %s was recomputed and differs: its hash begins with %016x, before with %016x", g.DatasetName(dag.Dataset(d.Ref)), d.Is, d.Was)
}

// outdated lists the tasks of a job that are to run again as they have read what is lost, sorted.
func (j *job) outdated() []dag.TaskIndex {
	if j.graph.Rebuilt == dag.RebuiltFail || j.graph.Rebuilt == dag.RebuiltAccept || j.rec.Cancel != "" {
		return nil
	}
	return j.states.Outdated()
}

// mixed tells whether tasks that are done have read two versions of a dataset, and the job's policy does not
// accept that. A job that is being cancelled stays so: nothing runs again in it. One that is to fail does.
func (j *job) mixed() bool {
	switch j.graph.Rebuilt {
	case dag.RebuiltAccept:
		return false
	case dag.RebuiltFail:
		return j.rec.Cancel != "" && (j.rec.Differs > 0 || len(j.states.Outdated()) > 0)
	}
	return len(j.states.Outdated()) > 0
}

// whyOutdated is why they do.
const whyOutdated = "it has read a dataset that was recomputed and differs"

// withVarying lists the tasks that are to run again as some of run do, which have varied
// before; sorted.
func (j *job) withVarying(run []dag.TaskIndex) []dag.TaskIndex {
	if j.graph.Rebuilt == dag.RebuiltFail || j.graph.Rebuilt == dag.RebuiltAccept || len(j.states.lineage.varies) == 0 {
		return nil
	}
	return j.states.readersOfVarying(run)
}
