package core

import (
	"cmp"
	"slices"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/dag"
	"github.com/cascade-run/cascade/internal/pq"
)

// Datasets are fetched in the order in which they are needed: of jobs in the order in
// which their ready tasks would run, and of one job first what is all that a task waits
// for, then what tasks read that wait for others, too, both in the order in which the
// tasks would run.
//
// Nothing waits for ever: each fetch is of a finite job, and jobs come before each other
// by what they have used, as when their tasks run.

// urgency is what a dataset is needed for. Less is more urgent.
type urgency uint8

const (
	neededNow   urgency = iota // no task is to begin with it: a run waits for it, or its holder leaves
	neededNext                 // a task waits for nothing but what is being fetched
	neededLater                // tasks that read it wait for others, too
	neededByNone
)

// need is how much a dataset is needed: by the task that needs it most.
type need struct {
	urgency  urgency
	priority int
	rank     float64
	task     taskIndex
}

func (a need) before(b need) bool {
	return cmp.Or(cmp.Compare(a.urgency, b.urgency), cmp.Compare(b.priority, a.priority), cmp.Compare(b.rank, a.rank), cmp.Compare(a.task, b.task)) < 0
}

// heardOrder is that in which the datasets of one job are to be fetched.
type heardOrder struct{}

func (heardOrder) Placed(h *heard, at int) { h.at = at }

func (heardOrder) Before(a, b *heard) bool {
	if a.need != b.need {
		return a.need.before(b.need)
	}
	return a.desc.Ref.Compare(b.desc.Ref) < 0
}

// restOrder is that of the datasets that are not to be fetched before some time.
type restOrder struct{}

func (restOrder) Before(a, b *heard) bool { return a.due.Before(b.due) }
func (restOrder) Placed(h *heard, at int) { h.at = at }

// needs is what is to be fetched for one job.
type needs struct {
	job   *job
	heard pq.Queue[*heard, heardOrder]
	at    int // among those of its owner
}

// needsOrder is that of the jobs of one tenant.
type needsOrder struct{}

func (needsOrder) Before(a, b *needs) bool { return a.job.sooner(b.job) < 0 }
func (needsOrder) Placed(n *needs, at int) { n.at = at }

// turn is the jobs of one tenant for which something is to be fetched.
type turn struct {
	jobs pq.Queue[*needs, needsOrder]
	at   int // in Core.turns
}

// turnOrder is that of the owners: by their first jobs.
type turnOrder struct{}

func (turnOrder) Before(a, b *turn) bool {
	return (needsOrder{}).Before(a.jobs.First(), b.jobs.First())
}
func (turnOrder) Placed(t *turn, at int) { t.at = at }

// wantPull queues a fetch.
func (c *Core) wantPull(h *heard) {
	j := h.job
	if h.state != hearTold || h.stale || h.queued || j.stopped != nil {
		return
	}
	c.expect(h, true)
	h.queued, h.rests = true, h.due.After(c.now)
	if h.rests {
		c.resting.Push(h)
		return
	}
	h.need = c.needOf(h)
	n, t := &j.needs, &j.tenant.turn
	n.job = j
	n.heard.Push(h)
	if n.heard.Len() > 1 {
		return
	}
	t.jobs.Push(n)
	if t.jobs.Len() == 1 {
		c.turns.Push(t)
	} else {
		c.turns.Fix(t.at)
	}
}

// unwant takes a fetch back that has not begun.
func (c *Core) unwant(h *heard) {
	if !h.queued {
		return
	}
	h.queued = false
	if h.rests {
		c.resting.Remove(h.at)
		return
	}
	n, t := &h.job.needs, &h.job.tenant.turn
	if n.heard.Len() > 1 {
		n.heard.Remove(h.at)
		return
	}
	if t.jobs.Len() > 1 {
		t.jobs.Remove(n.at)
		c.turns.Fix(t.at)
	} else {
		c.turns.Remove(t.at)
		t.jobs.Remove(n.at)
	}
	n.heard.Remove(h.at)
}

// unwantAll takes back what is to be fetched for a job.
func (c *Core) unwantAll(j *job) {
	if j.peers == nil {
		return
	}
	for _, h := range j.peers.heard {
		c.unwant(h)
	}
}

// wakePulls queues again what has rested for long enough.
func (c *Core) wakePulls() {
	for c.resting.Len() > 0 {
		h := c.resting.First()
		if h.due.After(c.now) {
			c.wakeAt(h.due)
			return
		}
		if h.yields > 0 && c.turns.Len() > 0 {
			return // what was given up comes after all others: what it waits for may wait for one of them
		}
		c.unwant(h)
		c.wantPull(h)
	}
}

// nextPull returns what is to be fetched next; nil when there is nothing.
func (c *Core) nextPull() *heard {
	if c.turns.Len() == 0 {
		return nil
	}
	return c.turns.First().jobs.First().heard.First()
}

// fixTurn follows what changed of a job, or its owner, that says whose turn it is.
func (c *Core) fixTurn(j *job) {
	t := &j.tenant.turn
	if j.needs.heard.Len() > 0 {
		t.jobs.Fix(j.needs.at)
	}
	if t.jobs.Len() > 0 {
		c.turns.Fix(t.at)
	}
}

// eachReader calls f with each task of this agent that reads a dataset. whole: it waits
// for all of a stream, or of a streamed group, to which the dataset belongs.
func (j *job) eachReader(ref comms.DatasetRef, f func(t taskIndex, whole bool)) {
	gs := j.groupOf(ref.Task)
	if !gs.read {
		return
	}
	edges := ofOutput(j.edgesOf(ref.Task), ref.Output)
	generated := gs.group.Outputs[ref.Output].Generate != dag.GenerateNone
	for i := range edges {
		e := &edges[i]
		whole := e.Kind == dag.SourceStream || e.Kind == dag.SourceGroup
		if (!generated || whole || e.Element == ref.Element) && j.awayAt(e.Consumer) == nil {
			f(e.Consumer, whole)
		}
	}
	for i := range j.instances(ref) {
		if j.awayAt(i) == nil {
			f(i, false)
		}
	}
}

// expect counts, for each task that reads a dataset, that it is to be fetched, or that
// it is so no more.
func (c *Core) expect(h *heard, comes bool) {
	if h.expected == comes {
		return
	}
	h.expected = comes
	j := h.job
	p := j.peers
	j.eachReader(h.desc.Ref, func(t taskIndex, whole bool) {
		switch {
		case whole:
		case comes:
			p.coming[t]++
			c.nearer(j, t)
		case p.coming[t] == 1:
			delete(p.coming, t)
		default:
			p.coming[t]--
		}
	})
}

// lacks returns how much a task waits for that is not being fetched.
func (j *job) lacks(t taskIndex) int { return int(j.tasks[t].missing) - int(j.peers.coming[t]) }

// needOf finds out for what a dataset is needed.
func (c *Core) needOf(h *heard) need {
	j, ref := h.job, h.desc.Ref
	best := need{urgency: neededByNone}
	consider := func(n need) {
		if n.before(best) {
			best = n
		}
	}
	if _, taken := j.takes[ref]; taken || j.dyn != nil {
		return need{}
	}
	j.eachReader(ref, func(t taskIndex, whole bool) {
		if int(t) >= len(j.tasks) || j.tasks[t].state == tAbsent || j.tasks[t].state.over() {
			return
		}
		n, slack := j.needBy(t, neededLater), 0
		if whole {
			slack = 1
		}
		if j.tasks[t].state == tWaiting && j.lacks(t) <= slack {
			n.urgency = neededNext
		}
		consider(n)
	})
	for _, s := range j.graph.SlotConsumers(ref.Task, ref.Output) {
		if i, err := j.graph.Instance(s, 0); err == nil && j.slotReads(s) { // elements that wait for it may come at any time
			consider(j.needBy(i, neededNext))
		}
	}
	return best
}

func (j *job) needBy(t taskIndex, u urgency) need {
	return need{u, j.groupOf(t).group.Priority, j.rank(t), t}
}

// nearer follows when a task waits for less that is not being fetched than before.
func (c *Core) nearer(j *job, t taskIndex) {
	if j.needs.heard.Len() == 0 || int(t) >= len(j.tasks) || j.tasks[t].state != tWaiting {
		return
	}
	lacks := j.lacks(t)
	if lacks > 1 {
		return
	}
	ins, err := j.inputs(t)
	if err != nil {
		return
	}
	n := j.needBy(t, neededNext)
	sooner := func(ref comms.DatasetRef) {
		if h := j.peers.heard[ref]; h != nil && h.queued && !h.rests && n.before(h.need) {
			h.need = n
			j.needs.heard.Fix(h.at)
		}
	}
	for _, in := range ins {
		for _, s := range in.Sources {
			switch s.Kind {
			case dag.SourceWhole, dag.SourceElement:
				if lacks <= 0 {
					sooner(comms.DatasetRef{Task: s.Task, Output: s.Output, Element: s.Element})
				}
			case dag.SourceStream, dag.SourceGroup:
				for _, h := range slices.Collect(j.needs.heard.All()) { // also what came before this agent heard how far the stream is
					if j.ofSource(h.desc.Ref, s) {
						sooner(h.desc.Ref)
					}
				}
			}
		}
	}
}

// ofSource tells whether a dataset is part of a stream, or of a streamed group, that is read as a whole.
func (j *job) ofSource(ref comms.DatasetRef, s dag.Source) bool {
	if s.Kind == dag.SourceStream {
		return ref.Task == s.Task && ref.Output == s.Output
	}
	slot, _, _ := j.graph.Slot(s.Task)
	of, _, instance := j.graph.Slot(ref.Task)
	return instance && of == slot && ref.Output == s.Output
}

// recountNeeds finds out anew for what all that is to be fetched for a job is needed.
func (c *Core) recountNeeds(j *job) {
	if j.needs.heard.Len() == 0 {
		return
	}
	for h := range j.needs.heard.All() {
		h.need = c.needOf(h)
	}
	j.needs.heard.FixAll()
}

// fixNeed finds out anew for what a dataset is needed.
func (c *Core) fixNeed(h *heard) {
	if h.queued && !h.rests {
		h.need = c.needOf(h)
		h.job.needs.heard.Fix(h.at)
	}
}
