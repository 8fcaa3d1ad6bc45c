package sim

import "github.com/cascade-run/cascade/comms"

// put writes a word into the message, or into a lease. It is false while a lease is
// asked for.
func (x *executor) put(d *comms.Desc, word string) bool {
	w := x.w
	if x.lease == nil && !w.chance(w.fate.segment) {
		d.Place = comms.Place{Kind: comms.PlaceInline, Bytes: []byte(word)}
		return true
	}
	if x.lease == nil {
		x.ask(pick(w.rnd, uint64(4096), 4096, 3*4096, 40<<10))
		return false
	}
	d.Size = max(x.lease.Size, 1)
	x.fill(d, word)
	if bare := w.fate.hashless(word); !bare && d.Size <= x.kinds[x.cur.Kind].HashMax {
		d.Hash = comms.HashOf([]byte(word))
	} else if bare {
		w.oracle.bare[copyID{x.kinds[x.cur.Kind].Job, d.Ref, d.Attempt}] = true
	}
	return true
}

// ask asks for a lease.
func (x *executor) ask(size uint64) {
	x.token++
	x.asked = true
	x.send(&comms.LeaseReq{Token: x.token, Size: size, Run: x.cur.ID, File: x.w.chance(300)})
}

// fill writes a word into the lease. The next report returns the rest of that.
func (x *executor) fill(d *comms.Desc, word string) {
	l := x.lease
	x.lease = nil
	x.a.mem.write(x, l, word)
	d.Place = comms.Place{Kind: comms.PlaceSegment, Segment: l.Segment, Offset: l.Offset}
	x.back = append(x.back, &comms.Lease{Segment: l.Segment, Offset: l.Offset + l.Size}) // all of it was used
}

func (x *executor) granted(m *comms.Lease) {
	x.asked = false
	if m.Error != "" {
		x.w.oracle.blame(x.kinds[x.cur.Kind].Job)
		x.failed(comms.ErrorStore, m.Error)
		return
	}
	for _, y := range x.a.living() {
		if l := y.lease; y != x && l != nil && l.Segment == m.Segment && l.Offset < m.Offset+m.Size && m.Offset < l.Offset+l.Size {
			x.w.fail(x.kinds[x.cur.Kind].Job, "%s and %s are both granted segment %d at %d", x.name, y.name, m.Segment, m.Offset)
		}
	}
	x.lease = m
}
