package core

import (
	"cmp"
	"container/heap"
	"slices"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/dag"
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

// piled is what can be in a pile, and knows where it is in that.
type piled[T any] interface {
	before(other T) bool
	place() *int
}

var (
	_ piled[*heard]   = (*heard)(nil)
	_ piled[*resting] = (*resting)(nil)
	_ piled[*needs]   = (*needs)(nil)
	_ piled[*turn]    = (*turn)(nil)
)

// pile is a heap.
type pile[T piled[T]] []T

func (p pile[T]) Len() int           { return len(p) }
func (p pile[T]) Less(i, k int) bool { return p[i].before(p[k]) }
func (p pile[T]) Swap(i, k int)      { p[i], p[k] = p[k], p[i]; *p[i].place(), *p[k].place() = i, k }
func (p *pile[T]) Push(x any)        { t := x.(T); *t.place() = len(*p); *p = append(*p, t) }
func (p *pile[T]) Pop() any {
	n := len(*p) - 1
	t := (*p)[n]
	clear((*p)[n:])
	*p = (*p)[:n]
	return t
}

func (h *heard) place() *int { return &h.at }

func (h *heard) before(o *heard) bool {
	if h.need != o.need {
		return h.need.before(o.need)
	}
	return h.desc.Ref.Compare(o.desc.Ref) < 0
}

// resting is a dataset that is not to be fetched before some time.
type resting heard

func (h *resting) place() *int            { return &h.at }
func (h *resting) before(o *resting) bool { return h.due.Before(o.due) }

// needs is what is to be fetched for one job.
type needs struct {
	job   *job
	heard pile[*heard]
	at    int // among those of its owner
}

func (n *needs) place() *int          { return &n.at }
func (n *needs) before(o *needs) bool { return n.job.sooner(o.job) < 0 }

// turn is the jobs of one owner for which something is to be fetched.
type turn struct {
	jobs pile[*needs]
	at   int // in Core.turns
}

func (t *turn) place() *int         { return &t.at }
func (t *turn) before(o *turn) bool { return t.jobs[0].before(o.jobs[0]) }

// wantPull queues a fetch.
func (c *Core) wantPull(h *heard) {
	j := h.job
	if h.state != hearTold || h.stale || h.queued || j.stopped != nil {
		return
	}
	c.expect(h, true)
	h.queued, h.rests = true, h.due.After(c.now)
	if h.rests {
		heap.Push(&c.resting, (*resting)(h))
		return
	}
	h.need = c.needOf(h)
	n, t := &j.needs, &j.owner.turn
	n.job = j
	heap.Push(&n.heard, h)
	if len(n.heard) > 1 {
		return
	}
	heap.Push(&t.jobs, n)
	if len(t.jobs) == 1 {
		heap.Push(&c.turns, t)
	} else {
		heap.Fix(&c.turns, t.at)
	}
}

// unwant takes a fetch back that has not begun.
func (c *Core) unwant(h *heard) {
	if !h.queued {
		return
	}
	h.queued = false
	if h.rests {
		heap.Remove(&c.resting, h.at)
		return
	}
	n, t := &h.job.needs, &h.job.owner.turn
	if len(n.heard) > 1 {
		heap.Remove(&n.heard, h.at)
		return
	}
	if len(t.jobs) > 1 {
		heap.Remove(&t.jobs, n.at)
		heap.Fix(&c.turns, t.at)
	} else {
		heap.Remove(&c.turns, t.at)
		heap.Remove(&t.jobs, n.at)
	}
	heap.Remove(&n.heard, h.at)
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
	for len(c.resting) > 0 {
		h := (*heard)(c.resting[0])
		if h.due.After(c.now) {
			c.wakeAt(h.due)
			return
		}
		if h.yields > 0 && len(c.turns) > 0 {
			return // what was given up comes after all others: what it waits for may wait for one of them
		}
		c.unwant(h)
		c.wantPull(h)
	}
}

// nextPull returns what is to be fetched next; nil when there is nothing.
func (c *Core) nextPull() *heard {
	if len(c.turns) == 0 {
		return nil
	}
	return c.turns[0].jobs[0].heard[0]
}

// fixTurn follows what changed of a job, or its owner, that says whose turn it is.
func (c *Core) fixTurn(j *job) {
	t := &j.owner.turn
	if len(j.needs.heard) > 0 {
		heap.Fix(&t.jobs, j.needs.at)
	}
	if len(t.jobs) > 0 {
		heap.Fix(&c.turns, t.at)
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
	if _, taken := j.takes[ref]; taken || j.lends[ref] > 0 {
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
	if len(j.needs.heard) == 0 || int(t) >= len(j.tasks) || j.tasks[t].state != tWaiting {
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
			heap.Fix(&j.needs.heard, h.at)
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
				for _, h := range slices.Clone(j.needs.heard) { // also what came before this agent heard how far the stream is
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
	if len(j.needs.heard) == 0 {
		return
	}
	for _, h := range j.needs.heard {
		h.need = c.needOf(h)
	}
	heap.Init(&j.needs.heard)
}

// fixNeed finds out anew for what a dataset is needed.
func (c *Core) fixNeed(h *heard) {
	if h.queued && !h.rests {
		h.need = c.needOf(h)
		heap.Fix(&h.job.needs.heard, h.at)
	}
}
