package sim

import (
	"fmt"
	"hash/fnv"
	"maps"
	"math/rand/v2"
	"slices"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/controller/core"
	"github.com/cascade-run/cascade/controller/records"
	"github.com/cascade-run/cascade/dag"
)

// With Options.Varies the bytes that a task makes depend on those that it reads, and some
// tasks make others in each attempt. The oracle knows which attempt has read what, and what
// that was: at the end of a job all must fit together, or its policy has it failed.

// drawVaries decides how many tasks vary, of a thousand. As drawDrains it draws from
// numbers of its own.
func (f *fates) drawVaries(seed uint64) {
	r := rand.New(rand.NewPCG(seed, 30))
	f.varies = pick(r, 1000, 500, 200)
	f.rebuilt = pick(r, dag.RebuiltDefault, dag.RebuiltRerun, dag.RebuiltRerun, dag.RebuiltFail, dag.RebuiltAccept)
	f.bare = pick(r, 0, 300, 700)
}

// hashless tells whether bytes have no hash in shared memory, as those are that are too many.
func (f *fates) hashless(word string) bool {
	h := fnv.New64a()
	fmt.Fprint(h, word)
	return int(h.Sum64()>>32%1000) < f.bare
}

// copyID names what one attempt has made.
type copyID struct {
	job     comms.JobID
	ref     comms.DatasetRef
	attempt uint32
}

// word is what the bytes of a dataset are that an attempt has made, for an agent that has them:
// as it made them itself, else as they were told of, else as any has made them.
func (o *oracle) word(agent string, job comms.JobID, ref comms.DatasetRef, attempt uint32) string {
	if o.w.fate.varies == 0 {
		return wordOf(job, ref)
	}
	id := copyID{job, ref, attempt}
	by := o.words[id]
	for _, maker := range append([]string{agent, o.shared[id]}, slices.Sorted(maps.Keys(by))...) {
		if word, made := by[maker]; made {
			return word
		}
	}
	return ""
}

// wrote notes what an agent has made. Another may use the same number: it has had the job before, does not
// know that it has lost it, and what it does counts no more.
func (o *oracle) wrote(agent string, id copyID, word string) {
	if o.words[id] == nil {
		o.words[id] = map[string]string{}
	}
	o.words[id][agent] = word
}

// made tells whether some attempt has made a dataset so: a kept dataset of a job that has
// ended may be lost and recomputed while the client reads it.
func (o *oracle) made(d comms.DatasetID, word string) bool {
	for id, by := range o.words {
		if id.job == d.Job && id.ref == d.DatasetRef && slices.Contains(slices.Collect(maps.Values(by)), word) {
			return true
		}
	}
	return false
}

// word is what the run at hand writes into a dataset.
func (x *executor) word(k *comms.Kind, ref comms.DatasetRef) string {
	word := wordOf(k.Job, ref)
	if x.w.fate.varies == 0 {
		return word
	}
	r, o := x.cur, x.w.oracle
	h := fnv.New64a()
	for _, in := range r.Inputs {
		for i := range in.Data {
			if d := &in.Data[i]; d.Place.Kind != comms.PlaceNone {
				fmt.Fprint(h, o.word(x.a.name, k.Job, d.Ref, d.Attempt), " ")
			}
		}
	}
	if x.w.fate.variable(k.Job, r.Task) {
		fmt.Fprint(h, r.Attempt)
	}
	word = fmt.Sprintf("%s~%x", word, h.Sum64())
	o.wrote(x.a.name, copyID{k.Job, ref, r.Attempt}, word)
	return word
}

// variable tells whether a task makes other bytes in each attempt.
func (f *fates) variable(job comms.JobID, t dag.TaskIndex) bool {
	h := fnv.New64a()
	fmt.Fprint(h, job, t)
	return int(h.Sum64()>>32%1000) < f.varies
}

// reads notes what a run has read that succeeds: it is called at its end.
func (x *executor) reads(r *comms.Run, k *comms.Kind) {
	f := x.w.oracle.facts[k.Job]
	if x.w.fate.varies == 0 || f == nil || k.Function == callee {
		return
	}
	for o := range k.Outputs { // private outputs have a word, too
		if slices.Contains(r.Private, uint32(o)) {
			x.word(k, comms.DatasetRef{Task: r.Task, Output: uint32(o)})
		}
	}
	var of []dataRead
	for i, in := range r.Inputs {
		if f.g.Group(r.Task).Inputs[i].Min > 0 {
			continue
		}
		for _, d := range in.Data {
			of = append(of, dataRead{d, x.w.oracle.word(x.a.name, k.Job, d.Ref, d.Attempt)})
		}
	}
	f.reads[tryOf{x.a.name, try{r.Task, r.Attempt}}] = of
}

// tryOf is what an agent tries, of which another may use the same number: see wrote.
type tryOf struct {
	agent string
	try
}

// dataRead is a dataset and what it was when it was read.
type dataRead struct {
	comms.Desc
	word string
}

// fits tells what of a job that is done does not fit together.
func (o *oracle) fits(id comms.JobID, k *core.Kept, past *core.Past) {
	f := o.facts[id]
	if o.w.fate.varies == 0 || k.Row.Phase != comms.JobDone {
		return
	}
	if k.Graph.Rebuilt == dag.RebuiltAccept {
		return
	}
	past.States.Each(func(t dag.TaskIndex, s core.TaskState) {
		attempt, known := f.done[t]
		read := f.read[t]
		if s != core.TaskDone || !known || o.untold(id, f, read) || k.Graph.Rebuilt == dag.RebuiltFail && o.silent(id, read) {
			return
		}
		for i := range read {
			d := &read[i]
			now, there := f.current[d.Ref]
			if o.private(id, &d.Desc) {
				now, there = f.done[d.Ref.Task]
			}
			if o.bare[copyID{id, d.Ref, d.Attempt}] && o.bare[copyID{id, d.Ref, now}] {
				continue // neither can be compared
			}
			if was, is := d.word, o.word("", id, d.Ref, now); there && now != d.Attempt && was != is {
				o.w.fail(id, "task %d is done in attempt %d, which has read %v of attempt %d, %q; it was recomputed by attempt %d, %q", t, attempt, d.Ref, d.Attempt, was, now, is)
			}
		}
	})
}

// private tells whether what was read was in its reader's executor, and no other has had it.
func (o *oracle) private(id comms.JobID, d *comms.Desc) bool {
	return d.Place.Kind == comms.PlaceLive && o.shared[copyID{id, d.Ref, d.Attempt}] == ""
}

// untold tells whether an attempt has read something of which no event ever told where it lies. One
// number stands for all that it has read, so that a comparison is not possible.
func (o *oracle) untold(id comms.JobID, f *facts, read []dataRead) bool {
	return slices.ContainsFunc(read, func(d dataRead) bool {
		_, told := f.current[d.Ref]
		return !told && d.Place.Kind != comms.PlaceNone && !o.private(id, &d.Desc)
	})
}

// silent tells whether the end of a task says nothing of what it has read: none of that has a
// hash. A job does not fail for what may be the same.
func (o *oracle) silent(id comms.JobID, read []dataRead) bool {
	return !slices.ContainsFunc(read, func(d dataRead) bool { return !o.bare[copyID{id, d.Ref, d.Attempt}] && !o.private(id, &d.Desc) })
}

// differs sees what is stored of recomputed datasets.
func (o *oracle) differs(k *core.Kept, f *facts, c *records.Commit) {
	if r := c.Row; r != nil {
		f.blamed = f.blamed || r.Fails
		switch {
		case k.Row.Phase.Final() && !r.Phase.Final():
			f.differed = k.Row.Differs // a client has asked for a rerun: the job has failed for these
		case r.Phase == comms.JobDone && k.Graph.Rebuilt == dag.RebuiltFail && r.Differs > f.differed:
			o.w.fail(c.Job, "the job is to fail when something differs; it is done, and %s", r.Differing)
		}
	}
	if b := c.Batch; b != nil && o.w.fate.varies == 0 && (len(b.Differs) > 0 || b.Why == whyOutdated) {
		o.w.fail(c.Job, "datasets are said to differ, and each attempt makes the same: %v, %s", b.Differs, b.Why)
	}
}

// whyOutdated is why a task restarts that has read what is lost.
const whyOutdated = "it has read a dataset that was recomputed and differs"
