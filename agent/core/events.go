package core

import (
	"slices"
	"time"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/dag"
)

// note appends an event of a job.
func (c *Core) note(j *job, e comms.Event) {
	if j.dyn != nil {
		c.noteRow(j, &e)
		return
	}
	if e.At == 0 {
		e.At = c.now.UnixNano()
	}
	c.ctl.note(j, e)
}

// noteEnd is note for an event that ends a task.
func (c *Core) noteEnd(j *job, e comms.Event) {
	c.noteEnds(j, e, nil)
}

// noteEnds is noteEnd for an event that ends tasks behind it too.
func (c *Core) noteEnds(j *job, e comms.Event, rest []step) {
	c.note(j, e)
	if j.dynamic() {
		return
	}
	c.ctl.noteEnds(j, &e, rest)
}

// tells decides, when nothing else is to do, whether to tell the controller now.
// While tasks run, what they did is told together with what they do next: a
// message and a commit of its own for each step of a chain would cost more than
// the steps. The end of a job, a failure, and what frees memory do not wait.
func (c *Core) tells() bool {
	if c.cfg.EventsFor <= 0 || c.ctl.urgent || c.squeezed || len(c.runs) == 0 {
		return true
	}
	if c.ctl.flushAt.IsZero() && c.untold() {
		c.ctl.flushAt = c.now.Add(c.cfg.EventsFor)
	}
	return !c.ctl.flushAt.IsZero() && !c.now.Before(c.ctl.flushAt)
}

// untold tells whether there is anything to flush.
func (c *Core) untold() bool {
	if c.ctl.pending > 0 || len(c.readied) > 0 {
		return true
	}
	for _, ex := range c.execs {
		if len(ex.queue) > 0 && ex.queue[0].started && !ex.queue[0].told {
			return true
		}
	}
	return false
}

// flush makes a numbered batch of what was noted and sends it within credit.
// Tasks that are still ready or running are announced first: a task that has ended
// meanwhile has announced all with its end.
func (c *Core) flush() {
	c.ctl.flushAt = time.Time{}
	for _, j := range c.readied {
		c.noteReady(j)
	}
	c.readied = c.readied[:0]
	for _, ex := range c.execs {
		if len(ex.queue) > 0 {
			c.noteStarted(ex.queue[0])
		}
	}
	if c.ctl.pending > 0 {
		c.ctl.cut(c.load(), c.tellFlows())
	}
	c.send()
}

func (c *Core) noteReady(j *job) {
	for _, e := range j.readied {
		if j.tasks[e.task].state == tReady {
			c.note(j, comms.Event{Kind: comms.EventReady, Task: e.task, Attempt: j.tasks[e.task].attempt, Cause: j.cause(e)})
		}
	}
	j.readied = j.readied[:0]
}

// noteStarted tells that a run has started, once, with the time at which it did.
func (c *Core) noteStarted(r *run) {
	if !r.started || r.told {
		return
	}
	r.told = true
	c.note(r.job, comms.Event{At: r.startedAt.UnixNano(), Kind: comms.EventStarted, Task: r.task, Attempt: r.attempt, Executor: r.ex.id, Cause: r.cause})
}

// send sends batches while there is credit.
func (c *Core) send() {
	for m := range c.ctl.next() {
		c.emit(ToController{m})
	}
}

// controllerUp greets a controller. One that did not know the agent is told what
// there is, as state, and then gets every event that was never committed: those
// that it has committed it knows by their numbers.
func (c *Core) controllerUp(resumed bool) {
	c.ctl.open, c.ctl.full = true, false
	if !resumed {
		c.emit(ToController{&comms.Register{
			Agent: c.cfg.Agent, Incarnation: c.cfg.Incarnation, Addresses: slices.Clone(c.cfg.Addresses),
			Total: c.cfg.Total, BootID: c.cfg.BootID, LastEvent: c.ctl.last, Takes: c.cfg.ForwardAfter > 0, Gathers: true,
			Platform: c.cfg.Platform, Store: c.cfg.Memory, Sessions: c.cfg.Sessions,
		}})
		c.unasked()
		for _, j := range c.jobs {
			if j.dynamic() {
				continue
			}
			c.emit(ToController{&comms.Snapshot{Jobs: []comms.JobState{c.jobState(j)}}})
		}
		c.emit(ToController{&comms.Snapshot{Done: true}})
		for _, j := range c.jobs {
			if len(j.aside) > 0 {
				c.tellAside(j)
			}
		}
		c.scales = scales{}
		c.sayAnew()
		if c.leaving != nil {
			c.leaving.told = nil
		}
		c.ctl.unsent = len(c.ctl.batches)
	}
	c.send()
}

// ending tells whether the event that nothing more of a job runs is on its way to
// the controller. Later events of the job, such as a spill, do not count: no second
// such event would follow.
func (c *Core) ending(j *job) bool {
	drained := func(e comms.Event) bool { return e.Kind == comms.EventDrained }
	if slices.ContainsFunc(j.events, drained) {
		return true
	}
	return slices.ContainsFunc(c.ctl.batches, func(b *batch) bool {
		return slices.ContainsFunc(b.msg.Jobs, func(je comms.JobEvents) bool {
			return je.Job == j.id && je.JobIncarnation == j.life && slices.ContainsFunc(je.Events, drained)
		})
	})
}

// jobState is a job's part of a Snapshot.
func (c *Core) jobState(j *job) comms.JobState {
	s := comms.JobState{Job: j.id, Epoch: j.epoch, JobIncarnation: j.life, Drained: j.over && !c.ending(j)}
	for _, ref := range j.sortedData() {
		d := j.data[ref]
		if d.copy {
			continue
		}
		desc := d.desc
		if info, ok := c.led.Dataset(j.key(d)); ok && d.sealed && info.OnDisk && info.Place.Segment == 0 {
			desc.Place = comms.Place{Kind: comms.PlaceDisk}
		}
		s.Datasets = append(s.Datasets, desc)
	}
	for i := range j.tasks {
		if j.tasks[i].state != tFinished || j.peers != nil && j.tasks[i].flags&fElsewhere != 0 {
			continue
		}
		t := dag.TaskIndex(i)
		if n := len(s.Finished); n > 0 && s.Finished[n-1].Last+1 == t {
			s.Finished[n-1].Last = t
		} else {
			s.Finished = append(s.Finished, comms.Range{First: t, Last: t})
		}
	}
	for _, ex := range c.execs {
		for _, r := range ex.queue {
			if r.job == j && r.started {
				s.Running = append(s.Running, r.task)
			}
		}
	}
	slices.Sort(s.Running)
	return s
}

// committed forgets events that are durable and ends the need for the inputs of
// the tasks that they ended.
func (c *Core) committed(upTo uint64) {
	for e := range c.ctl.committed(upTo) {
		c.endCommitted(e.job, e.task, e.attempt)
		for k := range e.rest {
			c.endCommitted(e.job, e.rest[k].task, e.rest[k].attempt)
		}
	}
}

// releasePath releases a task whose end is committed, unless a value that it left
// in its executor is all there is of an output: if the next of its path fails it
// runs again, and needs its inputs. With the last of a path those before it go too.
func (c *Core) releasePath(j *job, t taskIndex) {
	if next := along(j.fuse, t); next != noTask && j.tasks[t].flags&fLent != 0 && j.tasks[next].flags&fReleased == 0 {
		j.tasks[t].flags |= fEnded
		return
	}
	c.release(j, t)
	for t = along(j.fused, t); t != noTask && j.tasks[t].flags&(fLent|fEnded|fReleased) == fLent|fEnded; t = along(j.fused, t) {
		c.release(j, t)
	}
}

// endCommitted ends a task's need for its inputs, if it is at that attempt still.
func (c *Core) endCommitted(j *job, task taskIndex, attempt uint32) {
	t := &j.tasks[task]
	if t.state.over() && t.attempt == attempt && t.flags&fReleased == 0 {
		c.releasePath(j, task)
	}
}

func (c *Core) fromController(ev FromController) {
	switch m := ev.Msg.(type) {
	case *comms.Assign:
		if j := c.byJob[m.Job]; j != nil && (j.dropped || j.life != m.JobIncarnation) {
			c.succeed(j, ev)
			return
		}
		c.assign(m, ev.Graph, ev.Err)
	case *comms.Steer:
		if j := c.jobOf(m.Job, m.JobIncarnation, ev); j != nil {
			c.steer(j, m)
		} else if m.Action == comms.SteerForget && c.byJob[m.Job] == nil {
			c.emit(DropJob{m.Job}) // its logs may be here
		}
	case *comms.Retain:
		if j := c.jobOf(m.Job, m.JobIncarnation, ev); j != nil {
			c.retain(j, m.Keep)
		}
	case *comms.Committed:
		c.committed(m.UpTo)
	case *comms.DrainAgent:
		c.dismiss(m)
	case *comms.Accepted: // its end is told
	case *comms.Progress:
		c.submittedEnds(m)
	case *comms.Reply:
		c.notSubmitted(m)
	case *comms.There:
		c.there(m)
	case *comms.Meet:
		c.acquaint(&m.Host)
	case *comms.LoadSubscribe:
		c.weigh(m)
	case *comms.GangCommand:
		if j := c.jobOf(m.Job, m.JobIncarnation, ev); j != nil {
			c.gathered(j, m)
		}
	case *comms.StealRequest:
		if j := c.jobOf(m.Job, m.JobIncarnation, ev); j != nil {
			c.steal(j, m)
		} else if m.Share > 0 {
			c.emit(ToController{&comms.StealReply{Job: m.Job, JobIncarnation: m.JobIncarnation, Epoch: m.Epoch}})
		}
	}
}

// jobOf finds an incarnation of a job. Messages after the Assign of a successor wait with it.
func (c *Core) jobOf(id comms.JobID, life uint64, ev FromController) *job {
	j := c.byJob[id]
	switch {
	case j == nil:
		return nil
	case len(j.later) > 0:
		j.later = append(j.later, ev)
		return nil
	case j.life != life:
		return nil
	}
	return j
}

// succeed takes an Assign of a job of which an ended rest is here: of another
// incarnation, or of this one after it was forgotten. That rest is not asked for any
// more, and the ends of its tasks do not count. The successor begins when nothing of
// it runs, so that the two are not mixed.
func (c *Core) succeed(j *job, ev FromController) {
	j.later = append(j.later, ev)
	if j.adopted {
		c.drop(j)
		return
	}
	c.steer(j, &comms.Steer{Action: comms.SteerForget})
}
