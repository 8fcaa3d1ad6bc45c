package core

import (
	"slices"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/dag"
)

// fill puts tasks of a group that nothing feeds and nothing reads behind the one
// that was queued: they go in one message, and come back in one. While others
// have work too, it is chosen anew after each task who is next.
func (c *Core) fill(r *run, cl *class, ex *executor) {
	if !r.gs.step || !r.gs.rooted || r.cause.Kind != comms.CauseSubmit || cl.queue == nil || len(c.lines) > 1 ||
		cl.queue.line.queues.Len() > 1 || cl.queue.classes.Len() > 1 {
		return
	}
	j, depth := r.job, ex.depth()
	most := (cl.size+len(ex.pool.execs))/len(ex.pool.execs) - 1 // the others are to have as many
	before := r.mean
	for ; most > 0 && c.leaving == nil && c.supplied(ex, depth) && c.ctl.kept+len(c.runs)+c.behind < c.cfg.EventsKept; most-- {
		e, ok := c.head(cl)
		if !ok || e.by != noTask || e.task < r.gs.first || int(e.task-r.gs.first) >= r.gs.size || !c.lengthen(r, e.task, r.gs, 0) {
			break
		}
		c.pop(cl)
		depth++
	}
	c.charge(j, (r.mean-before)*float64(r.gs.need[resCPU])/1000)
	c.writeSteps(r, &ex.batch[len(ex.batch)-1])
}

// follow queues the successors of a run behind it before they are ready: a
// planned path as a whole, else the best successor as far as the supply goes. A
// successor waits for nothing but runs of this queue.
func (c *Core) follow(r *run, ex *executor) {
	if c.cfg.Unfused {
		return
	}
	j, depth, load := r.job, ex.depth(), ex.load
	defer func() { // those that became runs of their own are charged already
		c.charge(j, (ex.load-load)*float64(r.gs.need[resCPU])/1000)
	}()
	tail, gs := r.task, r.gs
	m := &ex.batch[len(ex.batch)-1]
	for !gs.generator && gs.read {
		next, planned := c.successor(j, tail, gs, ex)
		if next == noTask || planned && depth >= comms.MaxSteps ||
			!planned && (depth >= supplyMax || depth >= 2 && (ex.load == 0 || ex.load >= supplyFor.Seconds())) {
			break
		}
		var outputs, private []uint32
		e, one := j.oneEdge(tail)
		if one {
			outputs = gs.single(e.Output)
		} else {
			outputs = j.outputsTo(tail, next)
		}
		if planned {
			private = j.privateTo(tail, next, outputs)
		}
		if !r.keep(m, outputs, private) {
			break
		}
		behind := j.groupBehind(gs, next)
		if !one || !c.lengthen(r, next, behind, e.Output+1) {
			s := c.newRun(j, next, causeOf(tail, outputs[0]+1))
			s.live = true
			if !c.pin(s) || s.pinErr != nil || c.squeezed && s.pins != 0 { // not worth waiting for, or taken back at once
				c.dropRun(s)
				r.keep(m, nil, nil)
				break
			}
			c.writeSteps(r, m)
			before := ex.load
			if !c.enqueue(s, ex) {
				return
			}
			load += ex.load - before
			r, m = s, &ex.batch[len(ex.batch)-1]
		}
		tail, gs = next, behind
		depth++
	}
	c.writeSteps(r, m)
}

// successor returns the task that should follow one on its executor.
func (c *Core) successor(j *job, t taskIndex, gs *groupState, ex *executor) (next taskIndex, planned bool) {
	next = noTask
	want, hasPlan := noTask, false
	if int(t) < len(j.fuse) {
		want = j.fuse[t]
		hasPlan = want != noTask && j.tasks[t].flags&fUnfused == 0 && j.tasks[want].flags&fUnfused == 0
	}
	if hasPlan {
		if e, ok := j.oneEdge(t); ok && e.Consumer == want && c.canFollow(j, want, 1, gs, ex) {
			return want, true
		}
	}
	edges := j.edgesOf(t)
	for i, e := range edges {
		if e.Kind != dag.SourceWhole || int(e.Consumer) >= len(j.tasks) || j.tasks[e.Consumer].state != tWaiting {
			continue
		}
		if i > 0 && edges[i-1].Consumer == e.Consumer {
			continue
		}
		n := uint32(0)
		for _, f := range edges {
			if f.Consumer == e.Consumer && f.Kind == dag.SourceWhole {
				n++
			}
		}
		if !c.canFollow(j, e.Consumer, n, gs, ex) {
			continue
		}
		if hasPlan && e.Consumer == want {
			return want, true
		}
		if next == noTask || j.before(e.Consumer, next) < 0 {
			next = e.Consumer
		}
	}
	if hasPlan && !j.overAt(want) && next != want {
		return noTask, false
	}
	return next, false
}

// canFollow tells whether a task can be queued behind one of gs from which n edges lead to it.
func (c *Core) canFollow(j *job, t taskIndex, n uint32, gs *groupState, ex *executor) bool {
	if s := &j.tasks[t]; s.state != tWaiting || s.missing != n {
		return false
	}
	if _, own := j.enlarged[t]; own { // it needs more than what it would run with
		return false
	}
	to := j.groupBehind(gs, t)
	return to.class.env == gs.class.env && demandOf(to.need) == demandOf(gs.need) && !to.generator && !to.class.door && !to.ganged() && to.unfit == "" && c.fits(ex.grant, to.need) && c.usable(j, to, ex.pool) == ""
}

// outputsTo lists the outputs of a task that one consumer reads.
func (j *job) outputsTo(t, consumer taskIndex) []uint32 {
	var out []uint32
	for _, e := range j.edgesOf(t) {
		if e.Consumer == consumer && !slices.Contains(out, e.Output) {
			out = append(out, e.Output)
		}
	}
	return out
}

// privateTo lists those of outputs that only one consumer reads, now or later.
func (j *job) privateTo(t, consumer taskIndex, outputs []uint32) []uint32 {
	if e, ok := j.oneEdge(t); ok && e.Consumer == consumer && !j.hasWanted(comms.DatasetRef{Task: t, Output: e.Output}) {
		return outputs
	}
	var out []uint32
	edges := j.edgesOf(t)
	for _, o := range outputs {
		alone := !j.hasWanted(comms.DatasetRef{Task: t, Output: o}) && len(j.graph.SlotConsumers(t, o)) == 0
		for _, e := range ofOutput(edges, o) {
			alone = alone && e.Consumer == consumer
		}
		if alone {
			out = append(out, o)
		}
	}
	return out
}
