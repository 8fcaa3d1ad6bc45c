package ledger

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"
)

type fataler interface {
	Fatal(...any)
	Fatalf(string, ...any)
}

// world is a naive driver and a naive user: segments are byte slices, spill files are copies, and every
// dataset remembers the bytes it was sealed with.
type world struct {
	t        fataler
	l        *Ledger
	capacity int64
	segs     map[SegmentID][]byte
	disk     map[Key][]byte
	content  map[Key][]byte
	todo     []Effect // asked of the driver, not answered
	granted  map[RequestID]Granted
	class    map[RequestID]Class
	owner    map[RequestID]Owner
	waiting  map[RequestID]bool
	open     map[LeaseID]Lease
	leaseOf  map[LeaseID]RequestID
	used     map[LeaseID]int64
	failed   map[RequestID]error
	gone     map[Key]bool
	notes    map[Key]Place // what Enter and Strike left
	overrun  int64         // bytes that outputs took beyond their estimate
	sound    bool          // the driver never fails and outputs keep to their estimate
	log      []string
}

func newWorld(t fataler, cfg Config) *world {
	l, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return &world{t: t, l: l, capacity: cfg.Capacity, segs: map[SegmentID][]byte{}, disk: map[Key][]byte{},
		content: map[Key][]byte{}, granted: map[RequestID]Granted{}, class: map[RequestID]Class{},
		owner: map[RequestID]Owner{}, waiting: map[RequestID]bool{}, open: map[LeaseID]Lease{},
		leaseOf: map[LeaseID]RequestID{}, used: map[LeaseID]int64{}, failed: map[RequestID]error{}, gone: map[Key]bool{}, notes: map[Key]Place{}}
}

func (w *world) bytes(p Place) []byte {
	b, ok := w.segs[p.Segment]
	if !ok || p.Offset+p.Bytes > int64(len(b)) {
		w.t.Fatalf("place %+v is outside of its segment of %d bytes (exists: %v)", p, len(b), ok)
	}
	return b[p.Offset : p.Offset+p.Bytes]
}

// busy calls f for every place that somebody may touch.
func (w *world) busy(f func(what string, p Place)) {
	for id, g := range w.granted {
		if w.class[id] == Prefetch {
			continue
		}
		for _, p := range g.Pins {
			f(fmt.Sprintf("pin of %v by request %d", p.Key, id), p.Place)
		}
	}
	for id, le := range w.open {
		f(fmt.Sprintf("lease %d", id), le.Place)
	}
}

func (w *world) mustBeIdle(what string, p Place) {
	w.busy(func(who string, q Place) {
		if p.Segment == q.Segment && p.Offset < q.Offset+q.Bytes && q.Offset < p.Offset+p.Bytes {
			w.t.Fatalf("%s of %+v under %s", what, p, who)
		}
	})
}

// drain performs the effects that need no answer and queues the others.
func (w *world) drain() {
	for _, e := range w.l.Take() {
		w.log = append(w.log, fmt.Sprintf("%T%+v", e, e))
		switch e := e.(type) {
		case CreateSegment:
			if _, ok := w.segs[e.Segment]; ok {
				w.t.Fatalf("segment %d made twice", e.Segment)
			}
			w.segs[e.Segment] = make([]byte, e.Bytes)
			w.todo = append(w.todo, e)
		case ResizeSegment:
			w.segs[e.Segment] = append(slices.Clone(w.segs[e.Segment]), make([]byte, e.Bytes)...)[:e.Bytes]
			w.todo = append(w.todo, e)
		case SealSegment:
			if e.Kind == File {
				w.segs[e.Segment] = w.segs[e.Segment][:e.Bytes]
			}
		case RemoveSegment:
			w.mustBeIdle("removal", Place{e.Segment, 0, int64(len(w.segs[e.Segment]))})
			delete(w.segs, e.Segment)
		case FreedRange:
			w.mustBeIdle("freeing", e.Place)
			b := w.segs[e.Place.Segment]
			end := min(e.Place.Offset+e.Place.Bytes, int64(len(b))) // a sealed file is cut to its bytes
			for i := e.Place.Offset; i < end; i++ {
				b[i] = 0xDB
			}
		case Spill, ReadBack:
			w.todo = append(w.todo, e)
		case DropSpill:
			if _, ok := w.disk[e.Key]; !ok {
				w.t.Fatalf("dropped a spill file of %v that does not exist", e.Key)
			}
			delete(w.disk, e.Key)
		case Enter:
			if _, twice := w.notes[e.Key]; twice {
				w.t.Fatalf("dataset %v is noted twice", e.Key)
			}
			w.notes[e.Key] = e.Place
		case Strike:
			delete(w.notes, e.Key)
		case Granted:
			w.grant(e)
		case Failed:
			delete(w.waiting, e.ID)
			w.failed[e.ID] = e.Err
			if w.sound && errors.Is(e.Err, ErrNoRoom) {
				w.t.Fatalf("request %d: %v, although disk and memory work", e.ID, e.Err)
			}
		case Revoked:
			if w.class[e.ID] != Prefetch {
				w.t.Fatalf("request %d of class %d was revoked", e.ID, w.class[e.ID])
			}
			delete(w.granted, e.ID)
			delete(w.waiting, e.ID)
		case Dropped:
			w.forget(e.Key)
		case Lost:
			w.forget(e.Key)
		case Freed:
			w.forget(e.Key)
		}
		w.mustMatch() // the process may die before the next effect
	}
	var sum int64
	for _, b := range w.segs {
		sum += w.l.pages(int64(len(b)))
	}
	if w.overrun == 0 && sum > w.capacity {
		w.t.Fatalf("%d bytes in segments, capacity %d", sum, w.capacity)
	}
	if err := w.l.Check(); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) forget(k Key) {
	for id, g := range w.granted {
		if w.class[id] != Prefetch && slices.ContainsFunc(g.Pins, func(p Pinned) bool { return p.Key == k }) {
			w.t.Fatalf("dataset %v went away while request %d pins it", k, id)
		}
	}
	delete(w.content, k)
	w.gone[k] = true
}

func (w *world) grant(e Granted) {
	delete(w.waiting, e.ID)
	for _, p := range e.Pins {
		if got := w.bytes(p.Place); !bytes.Equal(got, w.content[p.Key]) {
			w.t.Fatalf("dataset %v reads %x, sealed as %x", p.Key, got, w.content[p.Key])
		}
	}
	for _, le := range e.Leases {
		w.mustBeIdle("second lease", le.Place)
		if le.Kind == Output {
			w.segs[le.Place.Segment] = make([]byte, le.Place.Bytes)
		}
		w.open[le.ID] = le
		w.leaseOf[le.ID] = e.ID
	}
	w.granted[e.ID] = e
}

// answer completes the i-th thing that the driver was asked for.
func (w *world) answer(i int, ok bool) {
	e := w.todo[i]
	w.todo = slices.Delete(w.todo, i, i+1)
	bad := errors.New("injected")
	var err error
	switch e := e.(type) {
	case CreateSegment:
		if ok {
			err = w.l.SegmentReady(e.Segment)
		} else {
			delete(w.segs, e.Segment)
			err = w.l.SegmentFailed(e.Segment, bad)
		}
	case ResizeSegment:
		if ok {
			err = w.l.SegmentReady(e.Segment)
		} else {
			err = w.l.SegmentFailed(e.Segment, bad)
		}
	case Spill:
		if ok {
			w.disk[e.Key] = slices.Clone(w.bytes(e.From))
			err = w.l.SpillDone(e.Key)
		} else {
			err = w.l.SpillFailed(e.Key, bad)
		}
	case ReadBack:
		if ok {
			copy(w.bytes(e.To), w.disk[e.Key])
			err = w.l.ReadBackDone(e.Key)
		} else {
			err = w.l.ReadBackFailed(e.Key, bad)
		}
	}
	if err != nil {
		w.t.Fatal(err)
	}
	w.drain()
}

func (w *world) request(r Request) {
	w.waiting[r.ID] = true
	w.class[r.ID], w.owner[r.ID] = r.Class, r.Owner
	if err := w.l.Request(r); err != nil {
		w.t.Fatal(err)
	}
	w.drain()
}

func (w *world) release(id RequestID) {
	w.letGo(id)
	if err := w.l.Release(id); err != nil {
		w.t.Fatal(err)
	}
	w.drain()
}

func (w *world) letGo(id RequestID) {
	delete(w.granted, id)
	delete(w.waiting, id)
	for le, of := range w.leaseOf {
		if of == id {
			delete(w.open, le)
			delete(w.leaseOf, le)
		}
	}
}

// seal writes n pattern bytes behind what the lease already has and seals them.
func (w *world) seal(id LeaseID, k Key, n int64, refs int) {
	le := w.open[id]
	off := le.Place.Offset + w.used[id]
	data := bytes.Repeat([]byte{k[31]}, int(n))
	if le.Kind == Output {
		w.segs[le.Place.Segment] = data
		if over := w.l.pages(n) - le.Place.Bytes; over > 0 {
			w.overrun += over
		}
	} else {
		copy(w.bytes(Place{le.Place.Segment, off, n}), data)
	}
	w.used[id] += n
	w.content[k] = slices.Clone(data)
	if le.Kind != Arena {
		delete(w.open, id)
		delete(w.leaseOf, id)
	}
	if err := w.l.Seal(id, k, off, n, refs); err != nil {
		w.t.Fatal(err)
	}
	w.drain()
}

func key(i int) Key { return DatasetKey([16]byte{}, 0, uint32(i), uint64(i)) }

func sorted[K ~uint64, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }

func (w *world) keys() []Key {
	return slices.SortedFunc(maps.Keys(w.content), func(a, b Key) int { return bytes.Compare(a[:], b[:]) })
}

// quiet answers everything that is due.
func (w *world) quiet() {
	for len(w.todo) > 0 {
		w.answer(0, true)
	}
}

// mustProgress: with nothing due, whoever waits waits for somebody who runs.
func (w *world) mustProgress() {
	if len(w.todo) > 0 {
		return
	}
	stuck := map[Owner]bool{}
	wait := false
	for id := range w.waiting {
		wait = wait || w.class[id] != Prefetch
		if w.class[id] == Grow {
			stuck[w.owner[id]] = true
		}
	}
	if !wait {
		return
	}
	for id, g := range w.granted {
		leases := slices.ContainsFunc(g.Leases, func(le Lease) bool { _, ok := w.open[le.ID]; return ok })
		if (w.class[id] != Prefetch && len(g.Pins) > 0 || leases) && !stuck[w.owner[id]] {
			return
		}
	}
	w.t.Fatalf("requests %v wait for nobody; stats %+v", sorted(w.waiting), w.l.Stats())
}

// mustAdopt gives what a crash would leave now, the segments, the notes of Enter and the spill files, to a second
// ledger: it has every dataset that was in memory or on disk, with its bytes.
func (w *world) mustAdopt(cfg Config) {
	l, err := New(cfg)
	if err != nil {
		w.t.Fatal(err)
	}
	var segs []AdoptedSegment
	for _, id := range sorted(w.segs) {
		if s := w.l.segs[id]; s != nil {
			segs = append(segs, AdoptedSegment{id, s.kind, int64(len(w.segs[id]))})
		}
	}
	var sets []AdoptedDataset
	for _, k := range w.keys() {
		p, noted := w.notes[k]
		b, onDisk := w.disk[k]
		if i, ok := w.l.Dataset(k); !ok || noted != (i.State == Evictable || i.State == InUse || i.State == Spilling) || noted && p != i.Place {
			w.t.Fatalf("dataset %v is %+v; noted %v at %+v", k, i, noted, p)
		}
		if !noted {
			p.Bytes = int64(len(b))
		}
		if noted || onDisk {
			sets = append(sets, AdoptedDataset{Key: k, Place: p, InMemory: noted, OnDisk: onDisk, Refs: 1})
		}
	}
	rejected, err := l.Adopt(segs, sets)
	if err != nil || len(rejected) > 0 {
		w.t.Fatalf("adopt: %v, %v", err, rejected)
	}
	if err := l.Check(); err != nil {
		w.t.Fatal(err)
	}
	for _, s := range sets {
		if is, ok := l.Dataset(s.Key); !ok || is.Place != s.Place || (is.State == Spilled) == s.InMemory || is.OnDisk != s.OnDisk {
			w.t.Fatalf("dataset %+v was adopted as %+v", s, is)
		}
	}
	for _, e := range l.Take() {
		if strike, ok := e.(Strike); ok {
			w.t.Fatalf("%v was adopted and struck", strike.Key)
		}
	}
}

// mustMatch: what is noted is true, whatever else is under way.
func (w *world) mustMatch() {
	for k, p := range w.notes {
		if got := w.bytes(p); !bytes.Equal(got, w.content[k]) {
			w.t.Fatalf("dataset %v is noted at %+v, where %x is; sealed as %x", k, p, got, w.content[k])
		}
	}
}
