package executor

import (
	"fmt"
	"slices"

	"github.com/cascade-run/cascade/comms"
)

// queue holds what has not started, in order. It is guarded by Executor.mu.
type queue struct {
	entries []entry
	head    int
	path    *path // what follows the run at hand; nil when that is the next entry
	spare   *run  // one that has ended and that nothing refers to: the next step reuses it
}

// entry is a run and the path behind it; run is nil when only the path is left.
type entry struct {
	run  *run
	path *path
}

// path is the steps behind a run. Each becomes a run when its turn comes.
type path struct {
	exec    *Executor
	steps   []comms.Step
	kinds   []*kind
	first   comms.RunID // of steps[0]
	at      int         // the next step
	removed []bool      // steps that will not start; nil: none
	value   liveValue   // what the run before the next step left for it
}

// newEntry makes an entry of a dispatched run.
func (e *Executor) newEntry(m *comms.Run) (entry, error) {
	r := &run{Run: *m, exec: e, kind: e.kinds[m.Kind]}
	if r.kind == nil {
		return entry{}, fmt.Errorf("run %d is of kind %d, which was not announced", m.ID, m.Kind)
	}
	if len(r.With) == 0 {
		r.With = r.kind.With
	}
	steps, err := comms.ReadSteps(m.Steps)
	if err != nil || len(steps) == 0 {
		return entry{run: r}, err
	}
	p := &path{exec: e, steps: steps, kinds: make([]*kind, len(steps)), first: m.ID + 1}
	for i := range steps {
		if p.kinds[i] = e.kinds[steps[i].Kind]; p.kinds[i] == nil {
			return entry{}, fmt.Errorf("run %d is of kind %d, which was not announced", p.first+comms.RunID(i), steps[i].Kind)
		}
	}
	r.path = p
	return entry{r, p}, nil
}

// run makes the run of a step.
func (p *path) run(i int) *run {
	r := p.exec.queue.spare
	if p.exec.queue.spare = nil; r == nil {
		r = &run{}
	} else {
		*r = run{}
	}
	s := &p.steps[i]
	r.ID, r.Kind, r.Task, r.Attempt, r.Name, r.With = p.first+comms.RunID(i), s.Kind, s.Task, s.Attempt, s.Name, s.With
	r.exec, r.kind, r.path, r.reads, r.keeps, r.only = p.exec, p.kinds[i], p, s.Reads, s.Keeps, s.Only
	if len(r.With) == 0 {
		r.With = r.kind.With
	}
	return r
}

// waits tells whether a step has not started and may.
func (p *path) waits(i int) bool {
	return i >= p.at && i < len(p.steps) && (p.removed == nil || !p.removed[i])
}

// wants tells whether the next step of a path reads an output of the run before it.
func (p *path) wants(output uint32) bool {
	return p != nil && p.waits(p.at) && p.steps[p.at].Reads == output+1
}

// dropValue gives up what a run that failed had left for the next step.
func (p *path) dropValue() (done []*hold) {
	if p == nil {
		return nil
	}
	p.exec.mu.Lock()
	defer p.exec.mu.Unlock()
	if p.value.hold != nil {
		done = append(done, p.value.hold)
	}
	p.value = liveValue{}
	return done
}

// next returns the run of the next step, nil at the end of the path. Steps whose
// input is not there are passed over: back has their numbers.
func (p *path) next() (r *run, back []comms.RunID) {
	for ; p.at < len(p.steps); p.at++ {
		i := p.at
		switch {
		case !p.waits(i):
			p.value = liveValue{}
		case p.steps[i].Reads > 0 && !p.value.there:
			back = append(back, p.first+comms.RunID(i))
		default:
			r = p.run(i)
			r.input, p.value = p.value, liveValue{}
			p.at++
			return r, back
		}
	}
	return nil, back
}

// remove takes a step out that has not started; false when there is none of this
// number. The caller drops the step's inputs.
func (p *path) remove(id comms.RunID) (done *hold, ok bool) {
	i := int(id - p.first)
	if id < p.first || !p.waits(i) {
		return nil, false
	}
	if p.removed == nil {
		p.removed = make([]bool, len(p.steps))
	}
	p.removed[i] = true
	if i == p.at && p.value.there {
		done, p.value = p.value.hold, liveValue{}
	}
	return done, true
}

func (q *queue) push(e entry) { q.entries = append(q.entries, e) }

// pop returns the next run, and the numbers of steps that cannot start.
func (q *queue) pop() (r *run, back []comms.RunID) {
	for {
		if q.path != nil {
			r, more := q.path.next()
			back = append(back, more...)
			if r != nil {
				return r, back
			}
			q.path = nil
		}
		if q.head == len(q.entries) {
			return nil, back
		}
		e := q.entries[q.head]
		q.entries[q.head] = entry{}
		if q.head++; q.head == len(q.entries) {
			q.entries, q.head = q.entries[:0], 0
		}
		q.path = e.path
		if e.run != nil {
			return e.run, back
		}
	}
}

// whole lists the runs of paths that have not started, and need no live value that is here.
func (q *queue) whole() (ids []comms.RunID) {
	for _, e := range q.entries[q.head:] {
		if e.run == nil {
			continue
		}
		alone := true
		e.run.eachLive(func(liveKey) { alone = false })
		if !alone {
			continue
		}
		ids = append(ids, e.run.ID)
		for i := 0; e.path != nil && i < len(e.path.steps); i++ {
			if e.path.waits(i) {
				ids = append(ids, e.path.first+comms.RunID(i))
			}
		}
	}
	return ids
}

// find returns a queued run that is no step, nil when there is none of this number.
func (q *queue) find(id comms.RunID) *run {
	for _, e := range q.entries[q.head:] {
		if e.run != nil && e.run.ID == id {
			return e.run
		}
	}
	return nil
}

// lives tells whether a run that has not started reads a live value of one for which on holds.
func (q *queue) lives(id comms.RunID, on func(comms.RunID) bool) bool {
	step := func(p *path) bool {
		return p != nil && id >= p.first && p.waits(int(id-p.first)) && p.steps[id-p.first].Reads > 0 && on(id-1)
	}
	if step(q.path) {
		return true
	}
	for _, e := range q.entries[q.head:] {
		if step(e.path) {
			return true
		}
	}
	found := false
	if r := q.find(id); r != nil {
		r.eachLive(func(k liveKey) { found = found || on(k.run) })
	}
	return found
}

// remove takes a run out that has not started; nil when there is none of this
// number. It needs live inputs no more.
func (q *queue) remove(id comms.RunID, live *liveValues) (r *run, done []*hold) {
	of := func(p *path) bool {
		if p == nil {
			return false
		}
		h, ok := p.remove(id)
		if ok {
			r = p.run(int(id - p.first))
		}
		if h != nil {
			done = append(done, h)
		}
		return ok
	}
	if of(q.path) {
		return r, done
	}
	for i := q.head; i < len(q.entries); i++ {
		e := &q.entries[i]
		if e.run == nil || e.run.ID != id {
			if of(e.path) {
				return r, done
			}
			continue
		}
		r = e.run
		if e.run = nil; e.path == nil {
			q.entries = slices.Delete(q.entries, i, i+1)
		}
		return r, live.forget(r)
	}
	return nil, nil
}
