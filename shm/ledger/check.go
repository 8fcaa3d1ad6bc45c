package ledger

import (
	"fmt"
	"slices"
)

// Check recomputes every sum and cross-reference and returns the first that is wrong. It is for tests:
// its cost grows with everything that is known.
func (l *Ledger) Check() error {
	for _, f := range []func() error{l.checkSegments, l.checkDatasets, l.checkGrants, l.checkSums} {
		if err := f(); err != nil {
			return fmt.Errorf("ledger: %w", err)
		}
	}
	return nil
}

func (l *Ledger) checkSegments() error {
	for id, s := range l.segs {
		if s.id != id {
			return fmt.Errorf("segment %d is filed under %d", s.id, id)
		}
		if inPool := slices.Contains(l.pool, s); inPool && (len(s.regions) > 0 || !s.ready || s.kind != File || s.lent) {
			return fmt.Errorf("segment %d is in the pool and in use", id)
		} else if !inPool && s.ready && len(s.regions) == 0 && s.kind != Arena {
			return fmt.Errorf("segment %d is unused and not in the pool", id)
		}
		if s.kind == Arena != slices.Contains(l.arenas, s) {
			return fmt.Errorf("segment %d of kind %v is wrongly filed", id, s.kind)
		}
		var at, used int64
		listed := 0
		for _, r := range s.regions {
			if r.seg != s || r.off < at || r.off+r.n > s.size || r.n <= 0 || r.off%l.cfg.PageBytes != 0 || r.n%l.cfg.PageBytes != 0 {
				return fmt.Errorf("segment %d: region %d+%d overlaps, leaves the segment or its pages", id, r.off, r.n)
			}
			at, used = r.off+r.n, used+r.n
			if r.list != unlisted {
				listed++
			}
			if err := l.checkRegion(r); err != nil {
				return fmt.Errorf("segment %d, region %d+%d: %w", id, r.off, r.n, err)
			}
		}
		if listed != s.listed {
			return fmt.Errorf("segment %d counts %d listed regions, has %d", id, s.listed, listed)
		}
		if s.kind == Arena && used+s.free.free != s.size {
			return fmt.Errorf("segment %d: %d used and %d free of %d", id, used, s.free.free, s.size)
		}
		at = -1
		var free int64
		for _, e := range s.free.list {
			if e.off <= at || e.n <= 0 {
				return fmt.Errorf("segment %d: free range %d+%d overlaps or touches another", id, e.off, e.n)
			}
			at, free = e.off+e.n, free+e.n
		}
		if s.kind == Arena && (free != s.free.free || at > s.size) {
			return fmt.Errorf("segment %d: free ranges have %d bytes, counted %d", id, free, s.free.free)
		}
	}
	return nil
}

func (l *Ledger) checkRegion(r *region) error {
	if len(r.sets) == 0 && r.lease == nil {
		return fmt.Errorf("it has neither datasets nor a lease")
	}
	if r.lease != nil && l.leases[r.lease.id] != r.lease {
		return fmt.Errorf("its lease %d is over", r.lease.id)
	}
	if r.spare {
		return fmt.Errorf("still spared")
	}
	var pins, soft, busy, elsewhere int
	at := r.off
	for _, d := range r.sets {
		if d.reg != r || l.sets[d.key] != d || d.off < at || d.off+d.n > r.off+r.n {
			return fmt.Errorf("dataset %v at %d+%d is misplaced", d.key, d.off, d.n)
		}
		at = d.off + d.n
		pins, soft = pins+d.pins, soft+len(d.soft)
		if d.inFlight || d.state == Reading {
			busy++
		}
		if d.elsewhere {
			elsewhere++
		}
	}
	if pins != r.pins || soft != r.soft || busy != r.busy || elsewhere != r.elsewhere {
		return fmt.Errorf("counts pins %d soft %d busy %d elsewhere %d, has %d %d %d %d",
			r.pins, r.soft, r.busy, r.elsewhere, pins, soft, busy, elsewhere)
	}
	if r.held != (r.lease != nil || pins > 0) || (r.list != unlisted) != (!r.held && busy == 0) {
		return fmt.Errorf("held %v, on list %d with %d pins, %d busy", r.held, r.list, pins, busy)
	}
	return nil
}

func (l *Ledger) checkDatasets() error {
	pins, soft := map[*dataset]int{}, map[*dataset]int{}
	for _, g := range l.grants {
		for _, d := range g.pins {
			if g.req.Class == Prefetch {
				soft[d]++
			} else {
				pins[d]++
			}
		}
	}
	for k, d := range l.sets {
		switch {
		case d.key != k:
			return fmt.Errorf("dataset %v is filed under %v", d.key, k)
		case d.pins != pins[d] || len(d.soft) != soft[d]:
			return fmt.Errorf("dataset %v counts %d+%d pins, grants hold %d+%d", k, d.pins, len(d.soft), pins[d], soft[d])
		case (d.reg == nil) != (d.state == Spilled):
			return fmt.Errorf("dataset %v is %v with region %v", k, d.state, d.reg != nil)
		case (d.state == Spilled || d.state == Reading) && !d.backed:
			return fmt.Errorf("dataset %v is %v without a spill file", k, d.state)
		case d.state == InUse != (d.pins > 0) && (d.state == InUse || d.state == Evictable):
			return fmt.Errorf("dataset %v is %v with %d pins", k, d.state, d.pins)
		case d.refs == 0 && d.pins == 0 && d.state != Spilling && d.state != Reading:
			return fmt.Errorf("dataset %v has no reference and was not freed", k)
		case d.state != Reading && len(d.waiters) > 0:
			return fmt.Errorf("dataset %v is %v and awaited", k, d.state)
		}
	}
	return nil
}

func (l *Ledger) checkGrants() error {
	holds, grow := map[*holder]int{}, map[*holder]int{}
	for id, g := range l.grants {
		queued := slices.Contains(l.queues[g.req.Class], g)
		if g.req.ID != id || g.phase == over || queued != (g.phase == waiting) || !slices.Contains(g.own.grants, g) {
			return fmt.Errorf("request %d is misfiled in phase %d", id, g.phase)
		}
		if g.phase == waiting && (len(g.pins) > 0 || len(g.leases) > 0) {
			return fmt.Errorf("request %d waits and holds something", id)
		}
		if (g.phase == admitted) != (g.pending > 0) {
			return fmt.Errorf("request %d in phase %d has %d things to wait for", id, g.phase, g.pending)
		}
		for _, le := range g.leases {
			if l.leases[le.id] != le || le.reg.lease != le || le.g != g {
				return fmt.Errorf("lease %d of request %d is misfiled", le.id, id)
			}
		}
		holds[g.own] += len(g.leases)
		if g.req.Class != Prefetch {
			holds[g.own] += len(g.pins)
		}
		if queued && g.req.Class == Grow {
			grow[g.own]++
		}
	}
	for id, o := range l.owners {
		if o.holds != holds[o] || o.grow != grow[o] || len(o.grants) == 0 || o.id != id {
			return fmt.Errorf("owner %d counts %d holds and %d waits, has %d and %d", id, o.holds, o.grow, holds[o], grow[o])
		}
	}
	return nil
}

func (l *Ledger) checkSums() error {
	var total, held, evicting, pooled, spilled int64
	io := 0
	for _, s := range l.segs {
		total += s.size
		if !s.ready {
			io++
		}
		for _, r := range s.regions {
			if r.held {
				held += r.n
			}
			if r.evicting {
				evicting += r.n
			}
			io += r.busy
		}
	}
	for _, s := range l.pool {
		pooled += s.size
	}
	for _, d := range l.sets {
		if d.backed {
			spilled += d.n
		}
	}
	if total != l.total || held != l.held || evicting != l.evicting || pooled != l.pooled || spilled != l.spilled || io != l.io {
		return fmt.Errorf("sums total %d held %d evicting %d pooled %d spilled %d io %d, counted %d %d %d %d %d %d",
			l.total, l.held, l.evicting, l.pooled, l.spilled, l.io, total, held, evicting, pooled, spilled, io)
	}
	for id := elsewhereList; id < lists; id++ {
		for r := l.lists[id].head; r != nil; r = r.next {
			if r.list != id {
				return fmt.Errorf("region %d+%d of segment %d is on list %d and says %d", r.off, r.n, r.seg.id, id, r.list)
			}
		}
	}
	return nil
}
