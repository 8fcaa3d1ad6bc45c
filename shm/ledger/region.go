package ledger

import "slices"

type listID uint8

const (
	unlisted      listID = iota // held or busy
	elsewhereList               // victims in this order: every dataset has a copy on another host,
	plainList                   // nothing special,
	softList                    // something was prefetched here
	lists
)

// regionList is a doubly linked list, least recently used first.
type regionList struct{ head, tail *region }

func (q *regionList) push(r *region) {
	r.prev, r.next = q.tail, nil
	if q.tail != nil {
		q.tail.next = r
	} else {
		q.head = r
	}
	q.tail = r
}

func (q *regionList) remove(r *region) {
	if r.prev != nil {
		r.prev.next = r.next
	} else {
		q.head = r.next
	}
	if r.next != nil {
		r.next.prev = r.prev
	} else {
		q.tail = r.prev
	}
	r.prev, r.next = nil, nil
}

func (q *regionList) toFront(r *region) {
	if q.head == r {
		return
	}
	q.remove(r)
	r.next, q.head.prev, q.head = q.head, r, r
}

// position returns where a dataset at off belongs among those of r.
func position(r *region, off int64) int {
	if n := len(r.sets); n == 0 || r.sets[n-1].off+r.sets[n-1].n <= off { // bump allocation: nearly always
		return n
	}
	i, _ := slices.BinarySearchFunc(r.sets, off, func(d *dataset, off int64) int {
		if d.off < off {
			return -1
		}
		return 1
	})
	return i
}

func (l *Ledger) addRegion(s *segment, off, n int64) *region {
	r := &region{seg: s, off: off, n: n}
	i, _ := slices.BinarySearchFunc(s.regions, off, func(r *region, off int64) int { return int(min(max(r.off-off, -1), 1)) })
	s.regions = slices.Insert(s.regions, i, r)
	return r
}

func (l *Ledger) unlinkRegion(r *region) {
	i := slices.Index(r.seg.regions, r)
	r.seg.regions = slices.Delete(r.seg.regions, i, i+1)
}

// relist brings the sums and the list of a region in line with its counters. Leaving and coming back puts
// it at the young end.
func (l *Ledger) relist(r *region) {
	if held := r.lease != nil || r.pins > 0; held != r.held {
		r.held = held
		if held {
			l.held += r.n
		} else {
			l.held -= r.n
		}
	}
	want := unlisted
	if !r.held && r.busy == 0 && len(r.sets) > 0 {
		switch {
		case r.soft > 0:
			want = softList
		case r.elsewhere == len(r.sets):
			want = elsewhereList
		default:
			want = plainList
		}
	}
	if r.list == want {
		return
	}
	if r.list != unlisted {
		l.lists[r.list].remove(r)
		r.seg.listed--
	}
	if r.list = want; want != unlisted {
		l.lists[want].push(r)
		r.seg.listed++
	}
}

// resize sets the size of a file's only region, which is the segment's size.
func (l *Ledger) resize(r *region, n int64) {
	if r.held {
		l.held += n - r.n
	}
	l.total += n - r.seg.size
	r.n, r.seg.size = n, n
}

// closeLease ends the writing of a region: its tail is cut off, and without datasets it is free.
func (l *Ledger) closeLease(le *lease, used int64) {
	r := le.reg
	delete(l.leases, le.id)
	le.g.own.holds--
	le.g.leases = slices.DeleteFunc(le.g.leases, func(o *lease) bool { return o == le })
	r.lease = nil
	if len(r.sets) == 0 {
		l.relist(r)
		l.freeRegion(r)
		return
	}
	if r.seg.kind == Arena {
		last := r.sets[len(r.sets)-1]
		keep := l.pages(max(min(used, r.n), last.off+last.n-r.off))
		if keep < r.n {
			if r.held {
				l.held -= r.n - keep
			}
			r.seg.free.put(r.off+keep, r.n-keep)
			l.reportFree(r.seg, r.off+keep, r.n-keep)
			r.n = keep
		}
	}
	l.relist(r)
}

func (l *Ledger) reportFree(s *segment, off, n int64) {
	if l.cfg.ReportFrees && s.ready {
		l.emit(FreedRange{Place{s.id, off, n}})
	}
}

// freeRegion gives an empty, unheld region back to its arena, the pool or the machine.
func (l *Ledger) freeRegion(r *region) {
	s := r.seg
	l.unlinkRegion(r)
	if s.kind == Arena {
		s.free.put(r.off, r.n)
		l.reportFree(s, r.off, r.n)
		return
	}
	if s.ready {
		l.retire(s)
	}
}

// retire puts an unused file into the pool, or removes it. A file that a command created is never recycled: the
// command may have left it open in a process of its own. Nor is a file that was lent.
func (l *Ledger) retire(s *segment) {
	if s.kind == Output || s.lent || s.size > l.cfg.PoolBytes || l.total > l.limit {
		l.dropSegment(s)
		return
	}
	for l.pooled+s.size > l.cfg.PoolBytes {
		l.dropPooled()
	}
	l.reportFree(s, 0, s.size)
	l.pool = append(l.pool, s)
	l.pooled += s.size
}

// detach takes a dataset out of memory.
func (l *Ledger) detach(d *dataset) {
	r := d.reg
	l.emit(Strike{d.key})
	for _, g := range slices.Clone(d.soft) {
		l.revoke(g)
	}
	i := slices.Index(r.sets, d)
	r.sets = slices.Delete(r.sets, i, i+1)
	if d.elsewhere {
		r.elsewhere--
	}
	d.reg, d.off = nil, 0
	l.relist(r)
	if len(r.sets) == 0 && r.lease == nil && r.busy == 0 {
		l.freeRegion(r)
	}
}

// freeIfDone frees a dataset without references and pins, unless disk work on it has to end first.
func (l *Ledger) freeIfDone(d *dataset) bool {
	if d.refs > 0 || d.pins > 0 || d.state == Spilling || d.state == Reading {
		return false
	}
	l.remove(d)
	l.emit(Freed{d.key})
	return true
}

// remove forgets a dataset together with its bytes.
func (l *Ledger) remove(d *dataset) {
	d.move(evFree)
	delete(l.sets, d.key)
	if d.reg != nil {
		l.detach(d)
	}
	l.dropSpill(d)
}

func (l *Ledger) dropSpill(d *dataset) {
	if !d.backed {
		return
	}
	d.backed = false
	l.spilled -= d.n
	l.spillErr = nil // space came back
	l.emit(DropSpill{d.key})
}

func (l *Ledger) pin(d *dataset, g *grant) {
	if g.req.Class == Prefetch {
		d.soft = append(d.soft, g)
		d.reg.soft++
	} else {
		d.pins++
		d.reg.pins++
		g.own.holds++
		d.move(evPin)
	}
	l.relist(d.reg)
}

func (l *Ledger) unpin(d *dataset, g *grant) {
	if g.req.Class == Prefetch {
		i := slices.Index(d.soft, g)
		d.soft = slices.Delete(d.soft, i, i+1)
		d.reg.soft--
		l.relist(d.reg)
		return
	}
	d.pins--
	d.reg.pins--
	g.own.holds--
	if d.pins == 0 {
		d.move(evUnpin)
	}
	l.relist(d.reg)
	l.freeIfDone(d)
}
