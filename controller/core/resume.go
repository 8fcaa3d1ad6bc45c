package core

import (
	"fmt"
	"slices"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/controller/records"
	"github.com/cascade-run/cascade/dag"
)

// A job that resumes from an earlier one takes over what has not changed: those
// tasks are done from the start, by a decision that is stored before any agent is
// told. Their outputs are the new job's own from then on: small datasets are in the
// decision, of others the agent that has them makes a copy (Assign.Adopt) and says
// so (EventAdopted). Until then they count as there; when it turns out that they are
// not, their tasks run again like those of any dataset that was lost.

// adoptable is a dataset of an ended job that is to become one of this job.
type adoptable struct {
	desc    comms.Desc // as it is to be known here
	agent   string     // that has it
	from    comms.DatasetRef
	attempt uint32 // that made from
}

// resumes tells whether a job in which nothing has happened takes over results of
// an earlier one.
func (j *job) resumes() bool { return j.request.Resume != nil && j.rec.Batches == 0 }

// checkResume tells what is wrong with the job from which another is to resume.
func (c *Core) checkResume(r *comms.Resume) (comms.Code, string) {
	if r == nil {
		return comms.CodeOK, ""
	}
	switch old := c.jobs[r.Job]; {
	case old == nil || old.deleting:
		return comms.CodeNotFound, fmt.Sprintf("resume: no job %s", r.Job)
	case old.live != nil:
		return comms.CodeConflict, fmt.Sprintf("resume: job %s has not ended: wait for it, or cancel it", r.Job)
	}
	return comms.CodeOK, ""
}

// checkAgain tells which of the tasks that are to run again there is not.
func checkAgain(g *dag.Graph, r *comms.Resume) string {
	if r != nil {
		for _, name := range r.Again {
			if _, ok := Choose(g, name); !ok {
				return fmt.Sprintf("resume: no task %q in job %s", name, g.Name)
			}
		}
	}
	return ""
}

// takeOver decides what a job takes over, and stores that. e is nil when nothing is
// known of the earlier job any more.
func (c *Core) takeOver(j *job, r *recovery, e *Earlier) {
	id := j.request.Resume.Job
	if e == nil {
		e = &Earlier{Why: []records.Reason{{Text: fmt.Sprintf("job %s is not there any more", id), Tasks: allOf(j.graph)}}}
	}
	have := c.offered(id)
	b := &records.Batch{Number: j.rec.Batches, Epoch: j.rec.Epoch, At: c.now.UnixNano(), Granting: records.GrantBegun}
	gone := map[dag.TaskIndex]struct{}{} // tasks that must recompute what is not there
	for more := true; more; {
		more = false
		c.assume(j, r, e, b, have, gone)
		data, published := map[comms.DatasetRef]records.Dataset{}, map[comms.DatasetRef]struct{}{}
		c.counted(j, r, data)
		run, _ := c.needed(j, r, data, published)
		for _, t := range run {
			if _, known := gone[t]; !known && j.states.get(t).Over() {
				gone[t], more = struct{}{}, true
			}
		}
	}
	b.Reasons = reasons(j.graph, e, gone)
	j.rec.Batches++
	j.rec.Totals = j.states.Totals()
	commit := records.Commit{Job: j.id, Batch: b}
	for _, d := range sortedData(r.fresh) {
		if j.isExport(d.Desc.Ref) {
			j.have(d)
			commit.Datasets = append(commit.Datasets, d)
		}
	}
	row := j.rec
	commit.Row = &row
	c.emit(Store{Token: c.await(pending{what: onRow}), Commit: commit, Graph: j.graph})
	c.touch(j)
}

func allOf(g *dag.Graph) []comms.Range {
	if g.NumTasks() == 0 {
		return nil
	}
	return []comms.Range{{Last: dag.TaskIndex(g.NumTasks() - 1)}}
}

// offered lists the datasets of an ended job that can be had, by task.
func (c *Core) offered(id comms.JobID) map[dag.TaskIndex][]records.Dataset {
	have := map[dag.TaskIndex][]records.Dataset{}
	old := c.jobs[id]
	if old == nil || old.live != nil || old.deleting {
		return have
	}
	for _, d := range sortedData(old.exports) {
		if c.canAdopt(&d) {
			have[d.Desc.Ref.Task] = append(have[d.Desc.Ref.Task], d)
		}
	}
	return have
}

// canAdopt tells whether a dataset of an ended job is where it can be copied.
func (c *Core) canAdopt(d *records.Dataset) bool {
	switch d.Desc.Place.Kind {
	case comms.PlaceInline:
		return true
	case comms.PlaceNone:
		return false
	}
	a := c.agents[d.Agent]
	return a != nil && a.stays()
}

// assume brings the job to where it stands when all tasks that can be taken over are
// but those that must run for what is gone, and writes that into the decision.
func (c *Core) assume(j *job, r *recovery, e *Earlier, b *records.Batch, have map[dag.TaskIndex][]records.Dataset, gone map[dag.TaskIndex]struct{}) {
	j.states, j.adopt = NewStates(j.graph), map[comms.DatasetRef]adoptable{}
	r.fresh = map[comms.DatasetRef]records.Dataset{}
	b.Events = nil
	runs := func(t dag.TaskIndex) bool {
		_, is := gone[t]
		return is
	}
	cause := comms.Cause{Text: fmt.Sprintf("taken from job %s", j.request.Resume.Job)}
	for _, end := range e.Ends {
		if !runs(end.Task) {
			b.Events = append(b.Events, comms.Event{Kind: comms.EventStreamEnd, Task: end.Task, Attempt: 1, At: b.At, Cause: cause, Output: end.Output, Count: end.Count})
		}
	}
	for _, p := range e.Same {
		if st := j.graph.Group(p.Task).Stream; runs(p.Task) || st != nil && runs(st.Generator) {
			continue
		}
		ev := comms.Event{Kind: comms.EventFinished, Task: p.Task, Attempt: 1, At: b.At, Cause: cause}
		for _, d := range have[p.From] {
			desc := d.Desc
			desc.Ref.Task, desc.Attempt = p.Task, 1
			if desc.Place.Kind == comms.PlaceInline {
				ev.Outputs = append(ev.Outputs, desc)
				r.fresh[desc.Ref] = records.Dataset{Desc: desc}
				continue
			}
			desc.Place = comms.Place{Kind: comms.PlaceAgent, Where: d.Agent}
			j.adopt[desc.Ref] = adoptable{desc: desc, agent: d.Agent, from: d.Desc.Ref, attempt: d.Desc.Attempt}
		}
		b.Events = append(b.Events, ev)
	}
	j.states.At(b)
	for i := range b.Events {
		j.states.Apply(&b.Events[i])
	}
}

// counted adds to data what was taken over: what is in the store, and what is to be copied.
func (c *Core) counted(j *job, r *recovery, data map[comms.DatasetRef]records.Dataset) {
	for ref, d := range r.fresh {
		data[ref] = d
	}
	c.adoptables(j, data)
}

// adoptables adds to data what is still to be copied from the earlier job.
func (c *Core) adoptables(j *job, data map[comms.DatasetRef]records.Dataset) {
	if len(j.adopt) == 0 {
		return
	}
	old := c.jobs[j.request.Resume.Job]
	for ref, a := range j.adopt {
		if old == nil || old.live != nil || old.deleting || j.states.get(ref.Task) != TaskDone {
			continue
		}
		if d, ok := old.exports[a.from]; ok && c.canAdopt(&d) && d.Agent == a.agent {
			data[ref] = records.Dataset{Desc: a.desc, Agent: a.agent}
		}
	}
}

// mostReasons is how many reasons are kept of a job; what many tasks have in common is one.
const mostReasons = 1000

// reasons says of each task that runs why it does.
func reasons(g *dag.Graph, e *Earlier, gone map[dag.TaskIndex]struct{}) []records.Reason {
	why := slices.Clone(e.Why)
	var again []dag.TaskIndex
	for t := range gone {
		again = append(again, t)
	}
	if slices.Sort(again); len(again) > 0 {
		why = append(why, records.Reason{Text: "its outputs are not kept any more and are needed", Tasks: comms.Ranges(again)})
	}
	if len(why) > mostReasons {
		rest := records.Reason{Text: "what it reads runs again, or it has changed: there are too many reasons to keep each"}
		for _, w := range why[mostReasons-1:] {
			rest.Tasks = append(rest.Tasks, w.Tasks...)
		}
		slices.SortFunc(rest.Tasks, func(a, b comms.Range) int { return int(int64(a.First) - int64(b.First)) })
		why = append(why[:mostReasons-1], rest)
	}
	return why
}

// adopting is a dataset that an agent is to copy.
type adopting struct {
	adoptable
	by int // part
}

// toAdopt decides which datasets of the earlier job agents copy: each the one that
// has it. Datasets without readers are left, unless the job keeps all that it makes.
func (c *Core) toAdopt(j *job, s *settlement, data map[comms.DatasetRef]records.Dataset) {
	var refs []comms.DatasetRef
	for ref := range j.adopt {
		if _, counts := data[ref]; counts && (j.isExport(ref) || j.wanted(ref)) {
			refs = append(refs, ref)
		} else {
			delete(j.adopt, ref)
		}
	}
	slices.SortFunc(refs, comms.DatasetRef.Compare)
	for _, ref := range refs {
		a := j.adopt[ref]
		s.adopts = append(s.adopts, adopting{a, s.add(c.agents[a.agent], j.rec.Epoch+1)})
	}
}

// adoptedBy lists what a part is to copy.
func (s *settlement) adoptedBy(k int, earlier *comms.Resume) (out []comms.Adoption) {
	for _, a := range s.adopts {
		if a.by == k {
			out = append(out, comms.Adoption{Data: a.desc, From: comms.DatasetID{Job: earlier.Job, DatasetRef: a.from}, Attempt: a.attempt})
		}
	}
	return out
}
