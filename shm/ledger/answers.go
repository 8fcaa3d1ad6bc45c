package ledger

import (
	"fmt"
	"slices"
)

// SegmentReady answers CreateSegment and ResizeSegment.
func (l *Ledger) SegmentReady(id SegmentID) error {
	s := l.segs[id]
	if s == nil || s.ready {
		return fmt.Errorf("segment %d ready: %w", id, ErrState)
	}
	s.ready, s.exists = true, true
	l.io--
	for _, d := range s.reads {
		l.read(d)
	}
	waiters := s.waiters
	s.reads, s.waiters = nil, nil
	for _, g := range waiters {
		g.pending--
		l.grantIfComplete(g)
	}
	if s.kind == File && len(s.regions) == 0 { // its request ended meanwhile
		l.retire(s)
	}
	l.pump()
	return nil
}

// SegmentFailed answers CreateSegment and ResizeSegment: the machine has less memory than promised. The
// requests that counted on it queue again in their old order, under a limit of what exists, until Retry.
func (l *Ledger) SegmentFailed(id SegmentID, err error) error {
	s := l.segs[id]
	if s == nil || s.ready {
		return fmt.Errorf("segment %d failed: %w", id, ErrState)
	}
	l.io--
	again := slices.Clone(s.waiters)
	for _, d := range s.reads {
		again = append(again, d.waiters...)
	}
	for _, g := range again {
		if g.phase == admitted {
			l.letGo(g)
			l.enqueue(g)
		}
	}
	for _, d := range s.reads {
		l.io--
		d.move(evReadUndo)
		d.reg.busy--
		l.detach(d)
		l.freeIfDone(d)
	}
	s.reads = nil
	l.arenas = slices.DeleteFunc(l.arenas, func(o *segment) bool { return o == s })
	delete(l.segs, id)
	l.total -= s.size
	if s.exists {
		l.emit(RemoveSegment{id})
	}
	l.limit = min(l.limit, max(l.total, 0))
	l.createErr = err
	l.pump()
	return nil
}

// SpillDone answers Spill.
func (l *Ledger) SpillDone(k Key) error {
	d, err := l.spillEnd(k)
	if err != nil {
		return err
	}
	d.backed = true
	l.spilled += d.n
	l.settle(d.reg)
	l.pump()
	return nil
}

// SpillFailed answers Spill: the dataset stays in memory. No other spill starts before Retry, or before
// a spill file is dropped.
func (l *Ledger) SpillFailed(k Key, cause error) error {
	d, err := l.spillEnd(k)
	if err != nil {
		return err
	}
	l.spillErr = cause
	l.settle(d.reg)
	l.pump()
	return nil
}

func (l *Ledger) spillEnd(k Key) (*dataset, error) {
	d := l.sets[k]
	if d == nil || d.state != Spilling || !d.inFlight {
		return nil, fmt.Errorf("spill of %v ended: %w", k, ErrState)
	}
	d.inFlight = false
	d.reg.busy--
	l.io--
	return d, nil
}

// settle decides about a region whose last spill has ended.
func (l *Ledger) settle(r *region) {
	if r.busy > 0 {
		return
	}
	r.evicting = false
	l.evicting -= r.n
	stay := r.pins > 0 || slices.ContainsFunc(r.sets, func(d *dataset) bool { return !d.backed && d.refs > 0 })
	r.busy++ // the region must not vanish under the loop
	for _, d := range slices.Clone(r.sets) {
		switch {
		case d.refs == 0 && d.pins == 0:
			l.remove(d)
			l.emit(Freed{d.key})
		case !stay:
			d.move(evForget)
			l.detach(d)
		case d.state == Spilling && d.pins > 0:
			d.move(evKeepPinned)
		case d.state == Spilling:
			d.move(evKeep)
		}
	}
	r.busy--
	l.relist(r)
	if len(r.sets) == 0 {
		l.freeRegion(r)
	}
}

// ReadBackDone answers ReadBack. The spill file is kept: another eviction is then free.
func (l *Ledger) ReadBackDone(k Key) error {
	d, err := l.readEnd(k)
	if err != nil {
		return err
	}
	if d.refs == 0 && d.pins == 0 {
		l.remove(d)
		l.emit(Freed{k})
		l.pump()
		return nil
	}
	if d.pins > 0 {
		d.move(evReadDone)
	} else {
		d.move(evReadIdle)
	}
	l.emit(Enter{k, d.place()})
	if s := d.reg.seg; s.kind != Arena {
		l.emit(SealSegment{s.id, s.kind, d.n})
	}
	l.relist(d.reg)
	waiters := d.waiters
	d.waiters = nil
	for _, g := range waiters {
		g.pending--
		l.grantIfComplete(g)
	}
	l.pump()
	return nil
}

// ReadBackFailed answers ReadBack: the dataset is lost, and so are the requests that wait for it.
func (l *Ledger) ReadBackFailed(k Key, cause error) error {
	d, err := l.readEnd(k)
	if err != nil {
		return err
	}
	l.emit(Lost{k, cause})
	d.refs = 0
	for _, g := range slices.Clone(d.waiters) {
		if g.phase == admitted {
			l.fail(g, fmt.Errorf("input %v: %w: %w", k, ErrLost, cause))
		}
	}
	l.remove(d)
	l.pump()
	return nil
}

func (l *Ledger) readEnd(k Key) (*dataset, error) {
	d := l.sets[k]
	if d == nil || d.state != Reading || !d.inFlight {
		return nil, fmt.Errorf("read back of %v ended: %w", k, ErrState)
	}
	d.inFlight = false
	d.reg.busy--
	l.io--
	return d, nil
}
