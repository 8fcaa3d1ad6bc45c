package ledger

import (
	"cmp"
	"fmt"
	"slices"
)

func bySeq(g *grant, seq uint64) int { return cmp.Compare(g.seq, seq) }

func (l *Ledger) enqueue(g *grant) {
	q := &l.queues[g.req.Class]
	i, _ := slices.BinarySearchFunc(*q, g.seq, bySeq)
	*q = slices.Insert(*q, i, g)
	g.phase = waiting
	if g.req.Class == Grow {
		g.own.grow++
	}
}

func (l *Ledger) dequeue(g *grant) {
	q := &l.queues[g.req.Class]
	i, _ := slices.BinarySearchFunc(*q, g.seq, bySeq)
	*q = slices.Delete(*q, i, i+1)
	if g.req.Class == Grow {
		g.own.grow--
	}
}

// pump serves the queues until the first request that has to wait.
func (l *Ledger) pump() {
	for {
		var g *grant
		for _, q := range l.queues {
			if len(q) > 0 {
				g = q[0]
				break
			}
		}
		if g == nil {
			return
		}
		short, done := l.try(g)
		if done {
			continue
		}
		if short.bytes > 0 && l.makeRoom(g, short) {
			continue
		}
		if l.io > 0 || g.req.Class == Prefetch || !l.unstick(g, short) {
			return
		}
	}
}

// shortage is what a request could not get.
type shortage struct {
	kind  Kind
	bytes int64 // all that it needs of that kind; 0 when only the reserve is in its way
}

type need struct {
	kind Kind
	n    int64
	set  *dataset // to be read back, or
	spec int      // index of the lease
}

// try admits or fails a request (done), or says what is missing and leaves everything as it was.
func (l *Ledger) try(g *grant) (short shortage, done bool) {
	var needs []need
	var more int64
	defer l.spare(g, false)
	for _, k := range g.req.Pins {
		d := l.sets[k]
		if d == nil || d.refs == 0 {
			l.fail(g, fmt.Errorf("pin %v: %w dataset", k, ErrUnknown))
			return short, true
		}
		if d.reg != nil {
			if !d.reg.held && !d.reg.spare {
				d.reg.spare = true // counted once
				more += d.reg.n
			}
		} else if !slices.ContainsFunc(needs, func(n need) bool { return n.set == d }) {
			kind := d.kind
			if kind == Output || l.pages(d.n) > l.cfg.ArenaBytes {
				kind = File
			}
			needs = append(needs, need{kind, l.pages(d.n), d, 0})
		}
	}
	for i, s := range g.req.Leases {
		needs = append(needs, need{s.Kind, l.pages(s.Bytes), nil, i})
	}
	// Files go first: an arena is as large as what is left allows.
	slices.SortStableFunc(needs, func(a, b need) int { return cmp.Compare(b.kind, a.kind) })
	var byKind [3]int64
	for _, n := range needs {
		byKind[n.kind] += n.n
		more += n.n
	}
	if g.req.Class != Grow && l.held+more > l.limit-l.cfg.ReserveBytes && (l.held > 0 || g.req.Class == Prefetch) {
		return shortage{}, false
	}
	regions, failed := l.allocAll(needs, byKind[Arena])
	if regions == nil {
		short = shortage{failed, byKind[failed]}
		if failed != Arena {
			short.bytes = byKind[File] + byKind[Output]
		}
		return short, false
	}
	l.dequeue(g)
	l.admit(g, needs, regions)
	return shortage{}, true
}

// allocAll allocates a region for each need or changes nothing and tells the kind that failed.
func (l *Ledger) allocAll(needs []need, rest int64) (regions []*region, failed Kind) {
	mark := len(l.out)
	l.trying = true
	regions = make([]*region, len(needs))
	for i, n := range needs {
		regions[i] = l.alloc(n.kind, n.n, rest)
		if regions[i] == nil {
			for _, undo := range slices.Backward(l.undo) {
				undo()
			}
			l.out = l.out[:mark]
			regions, failed = nil, n.kind
			break
		}
		if n.kind == Arena {
			rest -= n.n
		}
	}
	l.trying = false
	clear(l.undo)
	l.undo = l.undo[:0]
	return regions, failed
}

// admit hands the allocated regions out.
func (l *Ledger) admit(g *grant, needs []need, regions []*region) {
	g.phase = admitted
	g.leases = make([]*lease, len(g.req.Leases))
	first := l.nextLease
	l.nextLease += LeaseID(len(g.leases))
	for i, n := range needs {
		r := regions[i]
		if d := n.set; d != nil {
			d.reg, d.off = r, r.off
			r.sets = []*dataset{d}
			if d.elsewhere {
				r.elsewhere++
			}
			r.busy++
			l.io++
			d.move(evRead)
			if r.seg.ready {
				l.read(d)
			} else {
				r.seg.reads = append(r.seg.reads, d)
			}
			continue
		}
		le := &lease{id: first + LeaseID(n.spec), g: g, reg: r}
		l.leases[le.id] = le
		g.leases[n.spec] = le
		g.own.holds++
		r.lease = le
		l.relist(r)
		if !r.seg.ready {
			r.seg.waiters = append(r.seg.waiters, g)
			g.pending++
		}
	}
	g.pins = make([]*dataset, len(g.req.Pins))
	for i, k := range g.req.Pins {
		d := l.sets[k]
		g.pins[i] = d
		l.pin(d, g)
		if d.state == Reading {
			d.waiters = append(d.waiters, g)
			g.pending++
		}
	}
	l.grantIfComplete(g)
}

func (l *Ledger) read(d *dataset) {
	d.inFlight = true
	l.emit(ReadBack{d.key, d.place()})
}

func (l *Ledger) grantIfComplete(g *grant) {
	if g.pending > 0 || g.phase != admitted {
		return
	}
	g.phase = granted
	e := Granted{ID: g.req.ID, Owner: g.req.Owner}
	for _, d := range g.pins {
		e.Pins = append(e.Pins, Pinned{d.key, d.reg.seg.kind, d.place()})
	}
	for _, le := range g.leases {
		e.Leases = append(e.Leases, Lease{le.id, le.reg.seg.kind, Place{le.reg.seg.id, le.reg.off, le.reg.n}})
	}
	l.emit(e)
}

// end takes a request out of the ledger with all that it holds.
func (l *Ledger) end(g *grant) {
	if g.phase == over {
		return
	}
	if g.phase == waiting {
		l.dequeue(g)
	}
	l.letGo(g)
	g.phase = over
	delete(l.grants, g.req.ID)
	g.own.grants = slices.DeleteFunc(g.own.grants, func(o *grant) bool { return o == g })
	if len(g.own.grants) == 0 {
		delete(l.owners, g.own.id)
	}
}

// letGo ends pins and leases.
func (l *Ledger) letGo(g *grant) {
	same := func(o *grant) bool { return o == g }
	if g.pending > 0 {
		for _, d := range g.pins {
			d.waiters = slices.DeleteFunc(d.waiters, same)
		}
		for _, le := range g.leases {
			le.reg.seg.waiters = slices.DeleteFunc(le.reg.seg.waiters, same)
		}
		g.pending = 0
	}
	pins, leases := g.pins, slices.Clone(g.leases)
	g.pins = nil
	for _, d := range pins {
		l.unpin(d, g)
	}
	for _, le := range leases {
		l.closeLease(le, 0)
	}
	g.leases = nil
}

func (l *Ledger) fail(g *grant, err error) {
	id := g.req.ID
	l.end(g)
	l.emit(Failed{id, err})
}

// revoke ends a prefetch because its memory is wanted.
func (l *Ledger) revoke(g *grant) {
	if g.phase == over {
		return
	}
	id := g.req.ID
	l.end(g)
	l.emit(Revoked{id})
}
