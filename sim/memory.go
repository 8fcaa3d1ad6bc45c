package sim

import (
	"bytes"
	"errors"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/cascade-run/cascade/agent/core"
	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/shm/ledger"
)

// memory is an agent's shared memory and its folder of spill files. Instead of
// bytes it holds, for each place that was written to, the writer and its word. The
// effects of segments and those of spill files have a lane each, in order.
type memory struct {
	a     *agent
	segs  map[uint64]int64 // size of each segment that exists
	words map[place]string // what was last written at a place
	kinds map[uint64]ledger.Kind
	notes map[ledger.Key]note // the index of what is sealed: it outlives the agent, as segments and words do
	files map[ledger.Key]file // spill files: they outlive the agent, too
	free  [2]time.Duration    // when a lane has done what it was given
}

type place struct{ segment, offset uint64 }

type note struct {
	at   ledger.Place
	job  comms.JobID
	life uint64
	desc comms.Desc
}

type file struct {
	word string
	job  comms.JobID
	life uint64
	desc comms.Desc
	bad  bool // its bytes have changed
}

// drawRots makes tasks call much, and lose on disk what does not fit into memory.
func (f *fates) drawRots(seed uint64) {
	r := rand.New(rand.NewPCG(seed, 41))
	f.calls, f.segment, f.shm = pick(r, 700, 1000), pick(r, 700, 1000), pick(r, int64(96<<10), 128<<10)
	f.spillRot, f.healsRot = pick(r, 200, 500, 900), true
}

const (
	segmentLane = iota
	spillLane
)

var (
	errDiskFull = errors.New("no space left on device")
	errRot      = errors.New("the checksum differs")
)

func newMemory(a *agent) *memory {
	m := &memory{a: a, files: map[ledger.Key]file{}}
	m.clear()
	return m
}

// clear loses what is in memory.
func (m *memory) clear() {
	m.segs, m.kinds, m.words, m.notes = map[uint64]int64{}, map[uint64]ledger.Kind{}, map[place]string{}, map[ledger.Key]note{}
}

// restart tells what an incarnation before left.
func (m *memory) restart() (segments []core.Segment, sets []core.Adopted) {
	m.free = [2]time.Duration{}
	for _, n := range m.notes {
		if id := uint64(n.at.Segment); m.kinds[id] != ledger.Arena { // the driver finishes what a SealSegment had not done
			m.segs[id] = min(m.segs[id], n.at.Bytes)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(m.segs)) {
		segments = append(segments, core.Segment{AdoptedSegment: ledger.AdoptedSegment{ID: ledger.SegmentID(id), Kind: m.kinds[id], Bytes: m.segs[id]}, Path: m.a.path(id)})
	}
	for _, k := range m.sortedFiles() {
		f := m.files[k]
		sets = append(sets, core.Adopted{Job: f.job, JobIncarnation: f.life, Desc: f.desc, OnDisk: true})
	}
	for _, k := range sortedKeys(m.notes) {
		n := m.notes[k]
		if size, there := m.segs[uint64(n.at.Segment)]; !there || n.at.Offset+n.at.Bytes > size {
			m.a.w.fail(n.job, "%s has noted %v at %+v, in a segment of %d bytes", m.a.name, k, n.at, size)
		}
		sets = append(sets, core.Adopted{Job: n.job, JobIncarnation: n.life, Desc: n.desc, Place: n.at})
	}
	return segments, sets
}

func (m *memory) sortedFiles() []ledger.Key { return sortedKeys(m.files) }

func sortedKeys[V any](of map[ledger.Key]V) []ledger.Key {
	return slices.SortedFunc(maps.Keys(of), func(a, b ledger.Key) int { return bytes.Compare(a[:], b[:]) })
}

// keep spills a dataset for the next incarnation.
func (m *memory) keep(k core.Kept) {
	m.files[k.Key] = file{m.words[place{uint64(k.Place.Segment), uint64(k.Place.Offset)}], k.Job, k.JobIncarnation, k.Desc, false}
}

// rot changes bytes of all spill files that are there.
func (m *memory) rot() {
	for _, k := range m.sortedFiles() {
		f := m.files[k]
		m.a.w.tell("fault", []comms.JobID{f.job}, "spill file %v of %s rots", k, m.a.name)
		f.bad = true
		m.files[k] = f
	}
}

// at is what can be read at a place of a segment's file.
func (m *memory) at(path string, offset uint64) string {
	for seg := range m.segs {
		if m.a.path(seg) == path {
			return m.words[place{seg, offset}]
		}
	}
	return "no such segment"
}

// has tells whether a dataset is in memory or on disk.
func (m *memory) has(k ledger.Key) bool {
	_, sealed := m.notes[k]
	_, spilled := m.files[k]
	return sealed || spilled
}

// in plans an effect in a lane; answer, if not nil, goes to the core's inbox.
func (m *memory) in(lane int, do func() core.Event) {
	w := m.a.w
	m.free[lane] = max(m.free[lane], w.now) + w.between(0, time.Millisecond)
	m.a.after(m.free[lane]-w.now, func() {
		if ev := do(); ev != nil {
			w.tell(m.a.name, nil, "memory: %T %+v", ev, ev)
			m.a.post(func() { m.a.step(ev) })
		}
	})
}

func (m *memory) perform(act core.Memory) {
	w := m.a.w
	if _, often := act.Effect.(ledger.FreedRange); !often {
		w.tell(m.a.name, nil, "memory: %T %+v", act.Effect, act.Effect)
	}
	switch e := act.Effect.(type) {
	case ledger.CreateSegment:
		m.kinds[uint64(e.Segment)] = e.Kind
		m.in(segmentLane, func() core.Event { return m.resize(uint64(e.Segment), e.Bytes, w.chance(w.fate.diskFull)) })
	case ledger.ResizeSegment:
		m.in(segmentLane, func() core.Event { return m.resize(uint64(e.Segment), e.Bytes, false) })
	case ledger.SealSegment:
		m.in(segmentLane, func() core.Event { m.segs[uint64(e.Segment)] = e.Bytes; return nil })
	case ledger.RemoveSegment:
		m.in(segmentLane, func() core.Event { m.wipe(uint64(e.Segment)); return nil })
	case ledger.FreedRange: // over before anything else, as the ledger wants
		for p := range m.words {
			if p.segment == uint64(e.Place.Segment) && p.offset >= uint64(e.Place.Offset) && p.offset < uint64(e.Place.Offset+e.Place.Bytes) {
				m.words[p] = "freed memory"
			}
		}
	case ledger.Enter:
		job, _, _, _ := e.Key.Split()
		m.notes[e.Key] = note{e.Place, job, act.JobIncarnation, act.Desc}
	case ledger.Strike:
		delete(m.notes, e.Key)
	case ledger.Spill:
		m.in(spillLane, func() core.Event {
			if w.chance(w.fate.diskFull) {
				return core.SpillDone{Key: e.Key, Err: errDiskFull}
			}
			job, _, _, _ := e.Key.Split()
			m.files[e.Key] = file{m.words[place{uint64(e.From.Segment), uint64(e.From.Offset)}], job, act.JobIncarnation, act.Desc, false}
			return core.SpillDone{Key: e.Key, File: "spill"}
		})
	case ledger.ReadBack:
		m.in(spillLane, func() core.Event {
			if w.chance(w.fate.spillRot) || m.files[e.Key].bad {
				w.oracle.rotten(e.Key)
				return core.ReadBackDone{Key: e.Key, Err: errRot}
			}
			m.words[place{uint64(e.To.Segment), uint64(e.To.Offset)}] = m.files[e.Key].word
			return core.ReadBackDone{Key: e.Key}
		})
	case ledger.DropSpill:
		m.in(spillLane, func() core.Event { delete(m.files, e.Key); return nil })
	default:
		w.fail(comms.JobID{}, "the ledger asks for %T, which the driver does not know", act.Effect)
	}
}

func (m *memory) resize(seg uint64, bytes int64, fails bool) core.Event {
	if fails {
		return core.SegmentReady{Segment: seg, Err: errDiskFull}
	}
	m.segs[seg] = bytes
	sum := int64(0)
	for _, n := range m.segs {
		sum += n
	}
	if most := m.a.w.fate.shm; sum > most {
		m.a.w.fail(comms.JobID{}, "the segments of %s have %d bytes together, more than the %d that it may use", m.a.name, sum, most)
	}
	return core.SegmentReady{Segment: seg, Path: m.a.path(seg)}
}

func (m *memory) wipe(seg uint64) {
	delete(m.segs, seg)
	for p := range m.words {
		if p.segment == seg {
			delete(m.words, p)
		}
	}
}

// write is an executor's write into its lease.
func (m *memory) write(x *executor, l *comms.Lease, word string) {
	if size, ok := m.segs[uint64(l.Segment)]; !ok || l.Offset+l.Size > uint64(size) {
		m.a.w.fail(x.kinds[x.cur.Kind].Job, "%s writes to segment %d at %d+%d, which has %d bytes", x.name, l.Segment, l.Offset, l.Size, size)
	}
	m.words[place{uint64(l.Segment), l.Offset}] = word
}
