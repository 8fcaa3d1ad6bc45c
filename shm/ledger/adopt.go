package ledger

import (
	"cmp"
	"fmt"
	"slices"
)

// AdoptedSegment is a segment that a former agent left behind.
type AdoptedSegment struct {
	ID    SegmentID
	Kind  Kind
	Bytes int64
}

// AdoptedDataset is a sealed dataset of a former agent, as its store remembers it.
type AdoptedDataset struct {
	Key       Key
	Kind      Kind
	Place     Place // only Bytes counts when it is not in memory
	InMemory  bool
	OnDisk    bool // a verified spill file exists
	Refs      int
	Elsewhere bool
}

// Rejected is a dataset that could not be adopted, and why.
type Rejected struct {
	Key Key
	Err error
}

// Adopt takes over what survived a restart: datasets that store and segments agree on; where they do not, a
// copy on disk serves. Segments without a
// dataset are removed, and notes of datasets that were not adopted are struck. It must be the first call; all processes that could write to the segments must be dead.
func (l *Ledger) Adopt(segments []AdoptedSegment, datasets []AdoptedDataset) ([]Rejected, error) {
	if len(l.segs) > 0 || len(l.sets) > 0 || len(l.grants) > 0 {
		return nil, fmt.Errorf("adopt into a ledger that is in use: %w", ErrState)
	}
	segments, datasets = slices.Clone(segments), slices.Clone(datasets)
	slices.SortFunc(segments, func(a, b AdoptedSegment) int { return cmp.Compare(a.ID, b.ID) })
	for _, a := range segments {
		if l.segs[a.ID] != nil || a.ID == 0 || a.Kind > Output || a.Bytes < 0 {
			return nil, fmt.Errorf("adopt segment %d (%v, %d bytes): %w", a.ID, a.Kind, a.Bytes, ErrState)
		}
		s := &segment{id: a.ID, kind: a.Kind, size: l.pages(a.Bytes), ready: true, exists: true, lent: true} // the former agent may have
		if s.kind == Arena {
			s.size = a.Bytes / l.cfg.PageBytes * l.cfg.PageBytes
			s.free = newFreeList(s.size)
			l.arenas = append(l.arenas, s)
		}
		l.segs[s.id] = s
		l.total += s.size
		l.nextSegment = max(l.nextSegment, s.id+1)
	}
	slices.SortFunc(datasets, func(a, b AdoptedDataset) int {
		return cmp.Or(cmp.Compare(a.Place.Segment, b.Place.Segment), cmp.Compare(a.Place.Offset, b.Place.Offset),
			cmp.Compare(a.Place.Bytes, b.Place.Bytes), slices.Compare(a.Key[:], b.Key[:]))
	})
	var rejected []Rejected
	for _, a := range datasets {
		if err := l.adopt(a); err != nil {
			rejected = append(rejected, Rejected{a.Key, fmt.Errorf("adopt %v: %w", a.Key, err)})
		}
		if d := l.sets[a.Key]; a.InMemory && (d == nil || d.reg == nil) {
			l.emit(Strike{a.Key})
		}
	}
	for _, a := range segments {
		if s := l.segs[a.ID]; len(s.regions) == 0 {
			l.arenas = slices.DeleteFunc(l.arenas, func(o *segment) bool { return o == s })
			l.dropSegment(s)
		}
	}
	return rejected, nil
}

func (l *Ledger) adopt(a AdoptedDataset) error {
	if l.sets[a.Key] != nil {
		return ErrExists
	}
	if a.Refs < 1 || a.Place.Bytes < 0 || a.Kind > Output {
		return fmt.Errorf("%d references, %d bytes, %v: %w", a.Refs, a.Place.Bytes, a.Kind, ErrState)
	}
	d := &dataset{key: a.Key, kind: a.Kind, n: a.Place.Bytes, refs: a.Refs, backed: a.OnDisk, elsewhere: a.Elsewhere}
	var r *region
	err := fmt.Errorf("neither in memory nor on disk: %w", ErrState)
	if a.InMemory {
		r, err = l.adoptRegion(a.Place)
	}
	switch {
	case err != nil && !a.OnDisk:
		return err
	case r == nil:
		d.move(evAdoptSpill)
	default:
		d.reg, d.off, d.kind = r, a.Place.Offset, r.seg.kind
		r.sets = append(r.sets, d)
		if d.elsewhere {
			r.elsewhere++
		}
		d.move(evSeal)
		l.relist(r)
	}
	l.sets[d.key] = d
	if d.backed {
		l.spilled += d.n
	}
	return nil
}

// adoptRegion finds or makes the region of a place. Places come sorted, so only the last region of a
// segment can share a page with a new one, and then it is extended.
func (l *Ledger) adoptRegion(p Place) (*region, error) {
	s := l.segs[p.Segment]
	switch {
	case s == nil:
		return nil, fmt.Errorf("segment %d: %w", p.Segment, ErrUnknown)
	case p.Offset < 0 || p.Bytes > s.size || p.Offset > s.size-p.Bytes:
		return nil, fmt.Errorf("bytes %d+%d are outside of segment %d of %d bytes: %w", p.Offset, p.Bytes, s.id, s.size, ErrState)
	}
	if s.kind != Arena {
		if p.Offset != 0 || len(s.regions) > 0 {
			return nil, fmt.Errorf("segment %d is a file and holds one dataset at 0: %w", s.id, ErrState)
		}
		return l.addRegion(s, 0, s.size), nil
	}
	page := l.cfg.PageBytes
	from := p.Offset / page * page
	to := (p.Offset + p.Bytes + page - 1) / page * page
	var last *region
	if n := len(s.regions); n > 0 {
		last = s.regions[n-1]
		d := last.sets[len(last.sets)-1]
		if d.off+d.n > p.Offset {
			return nil, fmt.Errorf("bytes %d+%d overlap %v: %w", p.Offset, p.Bytes, d.key, ErrState)
		}
		if end := last.off + last.n; from < end || to == from {
			if to > end && !s.free.takeAt(end, to-end) {
				return nil, fmt.Errorf("bytes %d+%d: %w", end, to-end, ErrState)
			}
			last.n = max(last.n, to-last.off)
			return last, nil
		}
	}
	if to == from { // an empty dataset in no region yet
		if from == s.size {
			from -= page
		}
		to = from + page
	}
	if !s.free.takeAt(from, to-from) {
		return nil, fmt.Errorf("bytes %d+%d: %w", from, to-from, ErrState)
	}
	return l.addRegion(s, from, to-from), nil
}
