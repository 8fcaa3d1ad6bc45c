package core

import (
	"fmt"
	"slices"
	"time"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/controller/records"
	"github.com/cascade-run/cascade/dag"
)

// watch is a client's subscription to a job.
type watch struct {
	link   *link
	req    uint64
	job    *job
	every  time.Duration
	events bool
	values bool // the first Progress with Result brings the small exports

	outputs  []string      // the exports that Result is about; empty: all
	wants    []dag.Source  // the same, once the graph is known
	at       place         // how far these are there
	kept     []comms.Event // to be told
	last     time.Time
	dirty    bool // has something to be told
	late     bool // is in Core.late
	over     bool
	accepted bool // Accepted stands for the first Progress
	result   bool // Result was told
}

func (w *watch) due() time.Time { return w.last.Add(w.every) }

// urgent tells whether the watcher must not wait: a result is there of which it
// was not told. One that asked for no more than that and the end waits for nothing else.
func (w *watch) urgent() bool { return !w.result && w.there() }

// there tells whether the result is there that the watch is about.
func (w *watch) there() bool {
	if len(w.outputs) == 0 {
		return w.job.result
	}
	return len(w.wants) > 0 && w.job.all(w.wants, &w.at) && !w.job.mixed()
}

func (c *Core) watch(l *link, m *comms.Watch) {
	c.watchJob(l, m.Job, &watch{link: l, req: m.Req, every: time.Duration(m.Every), events: m.Events, values: m.Values, outputs: m.Outputs})
}

// watchJob is also for one that was to be told how a job ended, which runs again.
func (c *Core) watchJob(l *link, id comms.JobID, w *watch) {
	j := c.jobs[id]
	if j == nil || j.deleting {
		c.reply(l, w.req, comms.CodeNotFound, fmt.Sprintf("no job %s", id))
		return
	}
	c.addWatch(l, j, w)
}

// addWatch tells how the job stands at once. A watch of a job that has ended ends
// with that; the store knows how.
func (c *Core) addWatch(l *link, j *job, w *watch) {
	if j.live == nil {
		c.askEnd(j, w)
		return
	}
	w.job, w.last, w.at = j, c.now, place{}
	if !c.findOutputs(w) {
		return
	}
	if r := j.recovering; r == nil || !r.ended { // else it is told when its row is there
		if !w.accepted || j.result {
			c.tell(w, false)
		}
	}
	if w.over {
		return
	}
	j.watches = append(j.watches, w)
	if l.watches == nil {
		l.watches = map[*watch]struct{}{}
	}
	l.watches[w] = struct{}{}
}

// findOutputs finds what a watch is about in its job's graph, when that is known. It
// returns false for a name that is no output: then the client is told, and the watch is over.
func (c *Core) findOutputs(w *watch) bool {
	if len(w.outputs) == 0 || len(w.wants) > 0 || w.job.states == nil {
		return true
	}
	for _, name := range w.outputs {
		src, err := w.job.exportsNamed(name)
		if err != nil {
			c.reply(w.link, w.req, comms.CodeNotFound, err.Error())
			return false
		}
		w.wants = append(w.wants, src...)
	}
	return true
}

// askEnd has a watcher told how its job ended, which only the store knows.
func (c *Core) askEnd(j *job, w *watch) {
	c.emit(Ask{Token: c.await(pending{what: onAnswered, link: w.link.id, watch: w}), Msg: &comms.Watch{Req: w.req, Job: j.id}})
}

func (c *Core) unwatch(w *watch) {
	w.over = true
	delete(w.link.watches, w)
	if w.job.live != nil {
		w.job.watches = slices.DeleteFunc(w.job.watches, func(o *watch) bool { return o == w })
	}
}

func (c *Core) touch(j *job) { c.touchWith(j, nil) }

// touchWith notes that a job's watchers have something to be told.
func (c *Core) touchWith(j *job, events []comms.Event) {
	for _, w := range j.watches {
		if w.events {
			for i := range events {
				events[i].Each(func(e *comms.Event) bool { w.kept = append(w.kept, *e); return true })
			}
			if drop := len(w.kept) - c.cfg.MaxEvents; drop > 0 {
				w.kept = slices.Clone(w.kept[drop:]) // the story has them all
			}
		}
	}
	if !j.touched {
		j.touched = true
		c.touched = append(c.touched, j)
	}
}

// tellWatchers sends what is due, and the first word of a result at once.
func (c *Core) tellWatchers() {
	for _, j := range c.touched {
		if j.live == nil {
			continue
		}
		j.touched = false
		for _, w := range slices.Clone(j.watches) { // one that is told the result may end
			switch {
			case !c.findOutputs(w):
				c.unwatch(w)
			case w.urgent() || w.every >= 0 && !c.now.Before(w.due()):
				c.tell(w, false)
			case w.every >= 0:
				c.tellLater(w)
			}
		}
	}
	c.touched = c.touched[:0]
	if c.due.IsZero() || c.now.Before(c.due) {
		return
	}
	c.due = time.Time{}
	late := c.late
	c.late = c.late[:0]
	for _, w := range late {
		w.late = false
		switch {
		case w.over || !w.dirty:
		case c.now.Before(w.due()):
			c.tellLater(w)
		default:
			c.tell(w, false)
		}
	}
	clear(late[len(c.late):])
}

// tellLater notes that a watcher has something to be told when it is due.
func (c *Core) tellLater(w *watch) {
	w.dirty = true
	if !w.late {
		w.late = true
		c.late = append(c.late, w)
	}
	if at := w.due(); c.due.IsZero() || at.Before(c.due) {
		c.due = at
	}
}

func (c *Core) tell(w *watch, final bool) {
	first, there := !w.result, w.there()
	w.dirty, w.last, w.result = false, c.now, there
	m := w.job.progress(final)
	if len(w.outputs) > 0 && !final && m.Phase != comms.JobQueued {
		m.Result = there
	}
	if w.values && first && m.Result {
		m.Values = w.inline()
	}
	m.Req, m.Events, m.Waits, m.Late = w.req, w.kept, c.waits(w.job), w.job.lateText()
	w.kept = nil
	c.send(w.link, m)
	if w.every == comms.UntilResult && m.Result && !final {
		c.unwatch(w)
	}
}

// finalWatch tells the end of a job, which is durable, and ends the watches.
func (c *Core) finalWatch(j *job) {
	for _, w := range j.watches {
		c.tell(w, true)
		w.over = true
		delete(w.link.watches, w)
	}
	j.watches = nil
}

// EndOf is what a watcher of a job that has ended is told. Of a row that has not, as
// the job ran again before the store was read, the core makes nothing but a watch.
func EndOf(r *records.Job, req uint64) *comms.Progress {
	m := progressOf(r)
	m.Req, m.Final, m.Result = req, true, r.Phase == comms.JobDone
	return m
}

func progressOf(r *records.Job) *comms.Progress {
	return &comms.Progress{Job: r.ID, Name: r.Name, Phase: r.Phase, Groups: r.Groups, Error: r.Why(), Started: r.Started, Ended: r.Ended, Ran: r.Ran,
		BytesOut: r.Totals.BytesOut, TaskTime: r.Totals.TaskTime, Spilled: r.Totals.Spilled, Copied: r.Totals.Copied, Device: r.Totals.Device,
		Differs: r.Differs, Differing: r.Differing}
}

func (j *job) progress(final bool) *comms.Progress {
	m := progressOf(&j.rec)
	m.Result, m.Final = j.result || final && j.rec.Phase == comms.JobDone, final
	if j.states != nil && m.Groups == nil {
		m.Groups = j.states.Groups()
	}
	if r := j.recovering; r != nil && r.ended && !final {
		m.Phase, m.Result = comms.JobQueued, false // about to run again
	}
	return m
}

// Bounds of the exports that come with the news that they are there.
const (
	maxValues     = 16
	maxValueBytes = 64 << 10 // of all together
)

// inline lists the exports that a watch is about and that are inline, when there are few of all:
// a client that has asked for one task's number then need not ask again.
func (w *watch) inline() (out []comms.LocatedData) {
	j := w.job
	if j.states == nil || len(j.exports) == 0 || len(w.wants) == 0 && len(j.exports) > maxValues || len(w.wants) > maxValues {
		return nil
	}
	var located []comms.LocatedData
	if len(w.wants) == 0 {
		located, _ = LocateExports(j.graph, j.states, j.exports)
	}
	for _, src := range w.wants {
		refs, _ := j.states.Expand(src)
		for _, ref := range refs {
			located = append(located, comms.LocatedData{Name: j.graph.DatasetName(dag.Dataset(ref)), Desc: j.exports[ref].Desc})
		}
	}
	size := 0
	for _, d := range located {
		if d.Desc.Place.Kind != comms.PlaceInline {
			continue
		}
		if size += len(d.Desc.Place.Bytes); size > maxValueBytes {
			return nil
		}
		d.Agent = ""
		out = append(out, d)
	}
	return out
}

// complete tells whether the job has exports and all are there. It runs with each
// batch of events: it ends at the first that is not, and begins there next time.
func (j *job) complete() bool {
	for ; j.there.export < len(j.graph.Exports); j.there = (exportAt{export: j.there.export + 1}) {
		if !j.all(j.graph.Exports[j.there.export].Sources, &j.there.at) {
			return false
		}
	}
	return len(j.graph.Exports) > 0
}

// place is how far sources of exports are there: all before one, and of that the elements before one.
type place struct {
	source  int
	element uint64
}

// all tells whether all datasets of sources of exports are there. It ends at the first that is
// not, and begins there next time.
func (j *job) all(sources []dag.Source, at *place) bool {
	for ; at.source < len(sources); *at = (place{source: at.source + 1}) {
		src := sources[at.source]
		n, ended := j.sizeOf(src)
		for ; at.element < n; at.element++ {
			ref, ok := j.datasetAt(src, at.element)
			if !ok {
				return false
			}
			if _, ok := j.exports[ref]; !ok {
				return false
			}
		}
		if !ended {
			return false
		}
	}
	return true
}

// sizeOf tells how many datasets of a source are known, and whether these are all.
func (j *job) sizeOf(src dag.Source) (n uint64, ended bool) {
	switch src.Kind {
	case dag.SourceStream:
		return j.states.Elements(src.Task, src.Output)
	case dag.SourceGroup:
		if st := j.graph.Group(src.Task).Stream; st != nil {
			return j.states.Elements(st.Generator, st.Output)
		}
		return 0, false
	}
	return 1, true
}

// datasetAt returns a dataset of a source; false when the graph does not have it.
func (j *job) datasetAt(src dag.Source, e uint64) (ref comms.DatasetRef, ok bool) {
	switch src.Kind {
	case dag.SourceStream:
		return comms.DatasetRef{Task: src.Task, Output: src.Output, Element: e}, true
	case dag.SourceGroup:
		slot, _, ok := j.graph.Slot(src.Task)
		if !ok {
			return ref, false
		}
		t, err := j.graph.Instance(slot, e)
		return comms.DatasetRef{Task: t, Output: src.Output}, err == nil
	}
	return comms.DatasetRef{Task: src.Task, Output: src.Output, Element: src.Element}, true
}

// exportsChange notes that exports that were there may be lost: the search for missing ones restarts.
func (j *job) exportsChange() {
	j.result, j.there = false, exportAt{}
	for _, w := range j.watches {
		w.at = place{}
	}
}
