package ledger

import (
	"errors"
	"fmt"
	"slices"
)

func (l *Ledger) room() int64 { return l.limit - l.total }

// alloc finds a region of n bytes (whole pages) without evicting anything, or returns nil. Each change is
// noted in l.undo. rest is what the request still needs of arenas, this region included: a new arena is
// made large enough for it.
func (l *Ledger) alloc(kind Kind, n, rest int64) *region {
	if kind == Arena {
		return l.allocArena(n, rest)
	}
	if kind == File {
		if r := l.allocPooled(n); r != nil {
			return r
		}
	}
	if !l.makeSpace(n) {
		return nil
	}
	s := l.addSegment(kind, n)
	return l.undoable(l.addRegion(s, 0, n))
}

// onUndo notes how to take back a change, should the request fail to get the rest of what it needs.
func (l *Ledger) onUndo(f func()) {
	if l.trying {
		l.undo = append(l.undo, f)
	}
}

func (l *Ledger) undoable(r *region) *region {
	l.onUndo(func() {
		l.unlinkRegion(r)
		if r.seg.kind == Arena {
			r.seg.free.put(r.off, r.n)
		}
	})
	return r
}

func (l *Ledger) allocArena(n, rest int64) *region {
	for _, s := range l.arenas {
		if off, ok := s.free.take(n); ok {
			return l.undoable(l.addRegion(s, off, n))
		}
	}
	want := max(l.cfg.ArenaBytes, rest)
	for l.room() < want && len(l.pool) > 0 {
		l.dropPooled()
	}
	for l.room() < n && l.dropEmptyArena() {
	}
	// Less than a whole arena is better than none.
	size := min(want, l.room()/l.cfg.PageBytes*l.cfg.PageBytes)
	if size < n {
		return nil
	}
	s := l.addSegment(Arena, size)
	off, _ := s.free.take(n)
	return l.undoable(l.addRegion(s, off, n))
}

// allocPooled recycles the warm file whose size is nearest: cutting one is free, extending costs fresh pages.
func (l *Ledger) allocPooled(n int64) *region {
	best := -1
	for i, s := range l.pool {
		if best < 0 || abs(s.size-n) < abs(l.pool[best].size-n) {
			best = i
		}
	}
	if best < 0 {
		return nil
	}
	s, old := l.pool[best], l.pool[best].size
	if n-old > l.available(File)-old { // then a new file would not fit either
		return nil
	}
	l.pool = slices.Delete(l.pool, best, best+1)
	l.pooled -= old
	l.onUndo(func() {
		l.pool = slices.Insert(l.pool, best, s)
		l.pooled += old
	})
	l.makeSpace(n - old)
	l.total += n - old
	s.size, s.ready = n, false
	l.io++
	l.emit(ResizeSegment{s.id, n})
	l.onUndo(func() {
		l.total -= n - old
		s.size, s.ready = old, true
		l.io--
	})
	return l.undoable(l.addRegion(s, 0, n))
}

func abs(n int64) int64 { return max(n, -n) }

// makeSpace frees room for a segment by giving up unused ones.
func (l *Ledger) makeSpace(n int64) bool {
	for l.room() < n && len(l.pool) > 0 {
		l.dropPooled()
	}
	for l.room() < n && l.dropEmptyArena() {
	}
	return l.room() >= n
}

func (l *Ledger) addSegment(kind Kind, n int64) *segment {
	s := &segment{id: l.nextSegment, kind: kind, size: n}
	l.nextSegment++
	l.segs[s.id] = s
	l.total += n
	switch kind {
	case Output: // made by the command itself
		s.ready = true
	case Arena:
		s.free = newFreeList(n)
		l.arenas = append(l.arenas, s)
		fallthrough
	default:
		l.io++
		l.emit(CreateSegment{s.id, kind, n})
	}
	l.onUndo(func() {
		delete(l.segs, s.id)
		l.arenas = slices.DeleteFunc(l.arenas, func(o *segment) bool { return o == s })
		l.total -= n
		if kind != Output {
			l.io--
		}
	})
	return s
}

// dropPooled removes the segment that has been in the pool for longest.
func (l *Ledger) dropPooled() {
	s := l.pool[0]
	l.pool = slices.Delete(l.pool, 0, 1)
	l.pooled -= s.size
	l.onUndo(func() {
		l.pool = slices.Insert(l.pool, 0, s)
		l.pooled += s.size
	})
	l.dropSegment(s)
}

func (l *Ledger) dropEmptyArena() bool {
	for i := len(l.arenas) - 1; i >= 0; i-- {
		s := l.arenas[i]
		if len(s.regions) > 0 || !s.ready {
			continue
		}
		l.arenas = slices.Delete(l.arenas, i, i+1)
		l.onUndo(func() { l.arenas = slices.Insert(l.arenas, i, s) })
		l.dropSegment(s)
		return true
	}
	return false
}

// dropSegment gives an unused segment back to the machine.
func (l *Ledger) dropSegment(s *segment) {
	delete(l.segs, s.id)
	l.total -= s.size
	l.emit(RemoveSegment{s.id})
	l.onUndo(func() {
		l.segs[s.id] = s
		l.total += s.size
	})
}

// spare marks the inputs of a request, which are the last that should make room for it.
func (l *Ledger) spare(g *grant, on bool) {
	for _, k := range g.req.Pins {
		if d := l.sets[k]; d != nil && d.reg != nil {
			d.reg.spare = on
		}
	}
}

// makeRoom evicts until the shortage could be met, counting what is on its way out. It reports whether
// something became free at once, so that another try makes sense.
func (l *Ledger) makeRoom(g *grant, short shortage) (freed bool) {
	l.spare(g, true)
	defer l.spare(g, false)
	for l.available(short.kind)+l.evicting < short.bytes || (!freed && l.evicting == 0) {
		r := l.victim(short.kind, g.req.Class != Prefetch)
		if r == nil {
			return freed
		}
		if short.kind == Arena {
			freed = l.evict(r) || freed
			continue
		}
		for _, r := range slices.Clone(r.seg.regions) { // a file needs whole segments
			freed = l.evict(r) || freed
		}
	}
	return freed
}

// available is an upper bound of what can be had without evicting.
func (l *Ledger) available(kind Kind) int64 {
	n := l.room() + l.pooled
	for _, s := range l.arenas {
		if kind == Arena || len(s.regions) == 0 && s.ready {
			n += s.free.free
		}
	}
	return n
}

// victim picks the next region to evict: copies that exist elsewhere, least recently used, prefetched.
func (l *Ledger) victim(kind Kind, soft bool) *region {
	for id := elsewhereList; id < lists; id++ {
		if id == softList && !soft {
			continue
		}
		for r := l.lists[id].head; r != nil; r = r.next {
			if kind == Arena && l.movable(r, soft) {
				return r
			}
			if kind != Arena && r.seg.listed == len(r.seg.regions) &&
				!slices.ContainsFunc(r.seg.regions, func(r *region) bool { return !l.movable(r, soft) }) {
				return r
			}
		}
	}
	return nil
}

func (l *Ledger) movable(r *region, soft bool) bool {
	if r.spare || r.list == softList && !soft {
		return false
	}
	return l.spillErr == nil || !slices.ContainsFunc(r.sets, func(d *dataset) bool { return !d.backed && !d.elsewhere })
}

// evict empties a listed region: at once where every dataset has another copy, else by spilling.
func (l *Ledger) evict(r *region) (freed bool) {
	for _, d := range slices.Clone(r.sets) {
		for _, g := range slices.Clone(d.soft) {
			l.revoke(g)
		}
	}
	spills := slices.ContainsFunc(r.sets, func(d *dataset) bool { return !d.backed && !d.elsewhere })
	if spills {
		r.evicting = true
		l.evicting += r.n
	}
	for _, d := range slices.Clone(r.sets) {
		switch {
		case spills && d.backed: // goes with the others when they are written
		case d.backed:
			d.move(evForget)
			l.detach(d)
		case d.elsewhere:
			l.remove(d)
			l.emit(Dropped{d.key})
		default:
			d.move(evSpill)
			d.inFlight = true
			r.busy++
			l.io++
			l.relist(r)
			l.emit(Spill{d.key, d.place()})
		}
	}
	return !spills
}

// unstick is called when the first request waits, no answer of the driver is due and nothing can be
// evicted. It reports whether something changed.
func (l *Ledger) unstick(g *grant, short shortage) bool {
	// A run that asks for little may be what the first waits for, through a value that it borrows of a run that has
	// ended. Those that pass take only what is free now: the first does not wait for ever.
	if g.req.Class == Grow && l.tryOthers(g) {
		return true
	}
	for _, o := range l.owners {
		if o.holds > 0 && o.grow == 0 { // this holder runs and will release; what fits meanwhile need not wait for that
			return l.mustWait(g, short) && l.pass(g)
		}
	}
	if l.held == 0 {
		// Even the inputs may move, to be read back next to each other.
		for id := elsewhereList; id < lists; id++ {
			for r := l.lists[id].head; r != nil; r = r.next {
				if l.movable(r, true) {
					l.evict(r)
					return l.io == 0
				}
			}
		}
		if l.dropUnused() {
			return true
		}
	}
	if l.tryOthers(g) {
		return true
	}
	if l.held == 0 {
		l.fail(g, l.noRoom(short))
		return true
	}
	young := l.queues[Grow][len(l.queues[Grow])-1]
	l.fail(young, l.stuck())
	return true
}

// Unstick fails the youngest request for more memory. The caller knows what the
// ledger cannot: that those who hold memory and ask for none will not end by
// themselves, because they wait for those who ask.
func (l *Ledger) Unstick() {
	if q := l.queues[Grow]; len(q) > 0 && l.io == 0 {
		l.fail(q[len(q)-1], l.stuck())
		l.pump()
	}
}

// dropUnused removes all warm files and empty arenas, so that the next try starts from nothing.
func (l *Ledger) dropUnused() bool {
	dropped := false
	for len(l.pool) > 0 {
		l.dropPooled()
		dropped = true
	}
	for l.dropEmptyArena() {
		dropped = true
	}
	return dropped
}

// tryOthers lets later requests pass one that can not be served: each that ends gives memory back.
func (l *Ledger) tryOthers(first *grant) bool {
	for _, g := range slices.Clone(l.queues[first.req.Class]) {
		if g == first || g.phase != waiting {
			continue
		}
		if _, done := l.try(g); done {
			return true
		}
	}
	return false
}

// mustWait tells whether a request could not be served either if no other request had passed it: memory is too full
// for it with what was granted before it was asked for. Passing ends when the holders of that release enough, so that
// the request is served when those that passed it until then have ended.
func (l *Ledger) mustWait(first *grant, short shortage) bool {
	old := map[*region]bool{}
	segs := map[*segment]bool{}
	var held int64
	hold := func(r *region) {
		if r == nil || old[r] {
			return
		}
		old[r] = true
		switch {
		case short.kind == Arena:
			held += r.n
		case !segs[r.seg]: // a file needs whole segments
			segs[r.seg] = true
			held += r.seg.size
		}
	}
	for _, g := range l.grants {
		if g.seq >= first.seq || g.req.Class == Prefetch {
			continue
		}
		for _, d := range g.pins {
			hold(d.reg)
		}
		for _, le := range g.leases {
			hold(le.reg)
		}
	}
	for _, k := range first.req.Pins {
		if d := l.sets[k]; d != nil && d.reg != nil {
			hold(d.reg)
		} else if d != nil {
			held += l.pages(d.n)
		}
	}
	for _, s := range first.req.Leases {
		held += l.pages(s.Bytes)
	}
	limit := l.limit
	if first.req.Class != Grow {
		limit -= l.cfg.ReserveBytes
	}
	return held > limit
}

// pass serves a request behind the first one that can be served, making room where it needs some. It reports
// whether something changed.
func (l *Ledger) pass(first *grant) bool {
	for class := first.req.Class; class <= Start; class++ {
		for _, g := range slices.Clone(l.queues[class]) {
			if g == first || g.phase != waiting {
				continue
			}
			short, done := l.try(g)
			if done || short.bytes > 0 && l.makeRoom(g, short) {
				return true
			}
			if l.io > 0 {
				return false // what is on its way out is for this one
			}
		}
	}
	return false
}

func (l *Ledger) stuck() error {
	err := fmt.Errorf("%d of %d bytes are held: %w", l.held, l.limit, ErrStuck)
	return errors.Join(err, l.spillErr, l.createErr)
}

func (l *Ledger) noRoom(short shortage) error {
	err := fmt.Errorf("%d bytes wanted of %v, limit %d: %w", short.bytes, short.kind, l.limit, ErrNoRoom)
	return errors.Join(err, l.spillErr, l.createErr)
}
