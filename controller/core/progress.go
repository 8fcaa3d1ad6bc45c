package core

import (
	"fmt"
	"slices"
	"time"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/dag"
)

// watch is a client's subscription to a job.
type watch struct {
	link   *link
	req    uint64
	job    *job
	every  time.Duration
	events bool

	kept   []comms.Event // to be told
	last   time.Time
	dirty  bool
	result bool // Result was told
}

func (w *watch) due() time.Time { return w.last.Add(w.every) }

func (c *Core) watch(l *link, m *comms.Watch) {
	j := c.jobs[m.Job]
	if j == nil || j.deleting {
		c.reply(l, m.Req, comms.CodeNotFound, fmt.Sprintf("no job %s", m.Job))
		return
	}
	c.addWatch(l, j, &watch{link: l, req: m.Req, every: time.Duration(max(m.Every, 0)), events: m.Events})
}

// addWatch tells how the job stands at once. A watch of a job that has ended ends with that.
func (c *Core) addWatch(l *link, j *job, w *watch) {
	w.job = j
	c.tell(w, j.stage == stageEnded)
	if j.stage == stageEnded {
		return
	}
	j.watches = append(j.watches, w)
	l.watches = append(l.watches, w)
}

func (c *Core) unwatch(w *watch) {
	if w.job != nil {
		w.job.watches = slices.DeleteFunc(w.job.watches, func(o *watch) bool { return o == w })
	}
	w.link.watches = slices.DeleteFunc(slices.Clone(w.link.watches), func(o *watch) bool { return o == w })
	c.late = slices.DeleteFunc(c.late, func(o *watch) bool { return o == w })
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
		j.touched = false
		for _, w := range j.watches {
			if !w.dirty {
				w.dirty = true
				c.late = append(c.late, w)
			}
		}
	}
	c.touched = c.touched[:0]
	if len(c.late) == 0 {
		return
	}
	still := c.late[:0]
	for _, w := range c.late {
		if c.now.Before(w.due()) && !(w.job.result && !w.result) {
			still = append(still, w)
			continue
		}
		c.tell(w, false)
	}
	clear(c.late[len(still):])
	c.late = still
}

func (c *Core) tell(w *watch, final bool) {
	w.dirty, w.last, w.result = false, c.now, w.job.result
	m := w.job.progress(final)
	m.Req, m.Events = w.req, w.kept
	w.kept = nil
	c.send(w.link, m)
}

// finalWatch tells the end of a job, which is durable, and ends the watches.
func (c *Core) finalWatch(j *job) {
	for _, w := range slices.Clone(j.watches) {
		c.tell(w, true)
		c.unwatch(w)
	}
}

func (j *job) progress(final bool) *comms.Progress {
	r := &j.rec
	m := &comms.Progress{Job: j.id, Name: r.Name, Phase: r.Phase, Result: j.result || final && r.Phase == comms.JobDone, Final: final,
		Groups: r.Groups, Error: r.Error, Started: r.Started, Ended: r.Ended,
		BytesOut: r.Totals.BytesOut, TaskTime: r.Totals.TaskTime, Spilled: r.Totals.Spilled, Copied: r.Totals.Copied}
	if j.states != nil && m.Groups == nil {
		m.Groups = j.states.Groups()
	}
	if r := j.resuming; r != nil && r.ended && !final {
		m.Phase, m.Result = comms.JobQueued, false // about to run again
	}
	return m
}

// complete tells whether the job has exports and all are there. It ends at the
// first that is not: it runs with each batch of events.
func (j *job) complete() bool {
	for i := range j.graph.Exports {
		for _, src := range j.graph.Exports[i].Sources {
			if src.Kind == dag.SourceWhole {
				if _, ok := j.exports[comms.DatasetRef{Task: src.Task, Output: src.Output}]; !ok {
					return false
				}
				continue
			}
			refs, complete := j.states.Expand(src)
			if !complete {
				return false
			}
			for _, ref := range refs {
				if _, ok := j.exports[ref]; !ok {
					return false
				}
			}
		}
	}
	return len(j.graph.Exports) > 0
}
