package shm

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/cascade-run/cascade/shm/ledger"
)

// host is the least of an agent: a ledger and a store, with every effect performed at once.
type host struct {
	t       testing.TB
	l       *ledger.Ledger
	s       *Store
	granted map[ledger.RequestID]ledger.Granted
	failed  map[ledger.RequestID]error
	did     map[string]int
}

func newHost(t testing.TB, root string, capacity int64) *host {
	l, err := ledger.New(ledger.Config{Capacity: capacity, ArenaBytes: 256 << 10, LargeBytes: 128 << 10, PageBytes: int64(os.Getpagesize()), ReportFrees: checked})
	must(t, err)
	return &host{t, l, openStore(t, root, System{}), map[ledger.RequestID]ledger.Granted{}, map[ledger.RequestID]error{}, map[string]int{}}
}

// settle performs effects until there are none.
func (h *host) settle() {
	for {
		effects := h.l.Take()
		if len(effects) == 0 {
			return
		}
		for _, e := range effects {
			h.did[fmt.Sprintf("%T", e)]++
			switch e := e.(type) {
			case ledger.CreateSegment:
				h.answer(h.s.Do(e, nil), func() error { return h.l.SegmentReady(e.Segment) }, func(err error) error { return h.l.SegmentFailed(e.Segment, err) })
			case ledger.ResizeSegment:
				h.answer(h.s.Do(e, nil), func() error { return h.l.SegmentReady(e.Segment) }, func(err error) error { return h.l.SegmentFailed(e.Segment, err) })
			case ledger.Spill:
				h.answer(h.s.Do(e, []byte("u8")), func() error { return h.l.SpillDone(e.Key) }, func(err error) error { return h.l.SpillFailed(e.Key, err) })
			case ledger.ReadBack:
				h.answer(h.s.Do(e, nil), func() error { return h.l.ReadBackDone(e.Key) }, func(err error) error { return h.l.ReadBackFailed(e.Key, err) })
			case ledger.SealSegment, ledger.RemoveSegment, ledger.DropSpill, ledger.FreedRange:
				must(h.t, h.s.Do(e, nil))
			case ledger.Granted:
				h.granted[e.ID] = e
			case ledger.Failed:
				h.failed[e.ID] = e.Err
			}
		}
		must(h.t, h.l.Check())
	}
}

func (h *host) answer(err error, ok func() error, failed func(error) error) {
	if err != nil {
		must(h.t, failed(err))
	} else {
		must(h.t, ok())
	}
}

func (h *host) request(r ledger.Request) ledger.Granted {
	h.t.Helper()
	must(h.t, h.l.Request(r))
	h.settle()
	g, ok := h.granted[r.ID]
	if !ok {
		h.t.Fatalf("request %d was not granted: %v, %+v", r.ID, h.failed[r.ID], h.l.Stats())
	}
	return g
}

// dataset is what key i holds.
func dataset(i int) []byte {
	return bytes.Repeat([]byte{byte(i), byte(i >> 8), 7}, 1+i*977%(60<<10))
}

// TestMoreDataThanMemory writes datasets of several times the capacity and reads all of them, in arenas and
// files, by views and as a command would.
func TestMoreDataThanMemory(t *testing.T) {
	for name, root := range roots(t) {
		t.Run(name, func(t *testing.T) {
			h := newHost(t, root, 1<<20)
			m := newMapper(t, h.s, 8)
			id := ledger.RequestID(0)
			const n = 60
			var total int64
			for i := range n {
				data := dataset(i)
				total += int64(len(data))
				id++
				spec := ledger.LeaseSpec{Bytes: int64(len(data)), Kind: []ledger.Kind{ledger.Arena, ledger.File, ledger.Output}[i%3]}
				g := h.request(ledger.Request{ID: id, Owner: 1, Class: ledger.Start, Leases: []ledger.LeaseSpec{spec}})
				le := g.Leases[0]
				off := le.Place.Offset
				if le.Kind == ledger.Output {
					must(t, os.WriteFile(h.s.Path(le.Kind, le.Place.Segment), data, 0o644))
					_, err := h.s.SealOutput(le.Place.Segment, h.s.Path(le.Kind, le.Place.Segment))
					must(t, err)
				} else {
					fill(t, m, SegmentName(le.Kind, le.Place.Segment), off, data)
				}
				must(t, h.l.Seal(le.ID, testKey(i), off, int64(len(data)), 1))
				must(t, h.l.Release(id))
				h.settle()
			}
			if total < 2<<20 || h.did["ledger.Spill"] == 0 {
				t.Fatalf("only %d bytes, %v", total, h.did)
			}
			for i := range n {
				id++
				g := h.request(ledger.Request{ID: id, Owner: 2, Class: ledger.Start, Pins: []ledger.Key{testKey(i)}})
				p := g.Pins[0]
				v, err := m.View(SegmentName(p.Kind, p.Place.Segment), p.Place.Offset, p.Place.Bytes)
				must(t, err)
				if !bytes.Equal(v.Bytes, dataset(i)) {
					t.Fatalf("dataset %d differs", i)
				}
				v.Release()
				if i%3 > 0 {
					if b, err := os.ReadFile(h.s.Path(p.Kind, p.Place.Segment)); err != nil || !bytes.Equal(b, dataset(i)) {
						t.Fatalf("file of dataset %d differs: %v", i, err)
					}
				}
				must(t, h.l.Release(id))
				must(t, h.l.Forget(testKey(i)))
				h.settle()
			}
			if files, _ := filepath.Glob(filepath.Join(root, "spill", "*")); len(files) > 0 {
				t.Errorf("spill files remain: %v", files)
			}
			if st := h.l.Stats(); st.Held != 0 || st.Datasets != 0 || st.Spilled != 0 {
				t.Errorf("something remains: %+v", st)
			}
		})
	}
}

// TestRestart lets a second agent adopt what a first one left.
func TestRestart(t *testing.T) {
	root := t.TempDir()
	h := newHost(t, root, 512<<10)
	m := newMapper(t, h.s, 0)
	const n = 40
	var known []ledger.AdoptedDataset
	for i := range n {
		data := dataset(i)
		id := ledger.RequestID(i + 1)
		g := h.request(ledger.Request{ID: id, Owner: 1, Class: ledger.Start, Leases: []ledger.LeaseSpec{{Bytes: int64(len(data))}}})
		le := g.Leases[0]
		fill(t, m, SegmentName(le.Kind, le.Place.Segment), le.Place.Offset, data)
		must(t, h.l.Seal(le.ID, testKey(i), le.Place.Offset, int64(len(data)), 1))
		must(t, h.l.Release(id))
		h.settle()
	}
	for i := range n {
		d, _ := h.l.Dataset(testKey(i))
		known = append(known, ledger.AdoptedDataset{Key: d.Key, Kind: d.Kind, Place: d.Place, InMemory: d.State == ledger.Evictable, Refs: 1})
	}
	must(t, h.s.Leave()) // a crash would leave the same

	h = newHost(t, root, 512<<10)
	spilled, bad, err := h.s.ListSpilled()
	if err != nil || len(bad) > 0 || len(spilled) == 0 {
		t.Fatalf("spilled %v, %v, %v", spilled, bad, err)
	}
	for i := range known {
		for _, f := range spilled {
			known[i].OnDisk = known[i].OnDisk || f.Key == known[i].Key
		}
	}
	segs, err := h.s.Segments()
	must(t, err)
	rejected, err := h.l.Adopt(segs, known)
	if err != nil || len(rejected) > 0 {
		t.Fatalf("adopt: %v, %v", rejected, err)
	}
	h.settle()
	m = newMapper(t, h.s, 0)
	for i := range n {
		id := ledger.RequestID(100 + i)
		p := h.request(ledger.Request{ID: id, Owner: 1, Class: ledger.Start, Pins: []ledger.Key{testKey(i)}}).Pins[0]
		v, err := m.View(SegmentName(p.Kind, p.Place.Segment), p.Place.Offset, p.Place.Bytes)
		must(t, err)
		if !bytes.Equal(v.Bytes, dataset(i)) {
			t.Fatalf("dataset %d differs", i)
		}
		v.Release()
		must(t, h.l.Release(id))
		h.settle()
	}
}

// TestFullMachine lets memory and disk fail under the ledger: requests fail, nothing else does.
func TestFullMachine(t *testing.T) {
	for _, label := range []string{"resize:reserve", "spill:write", "readback:write"} {
		t.Run(label, func(t *testing.T) {
			root := t.TempDir()
			h := newHost(t, root, 1<<20)
			m := newMapper(t, h.s, 0)
			for i := range 4 {
				id := ledger.RequestID(i + 1)
				le := h.request(ledger.Request{ID: id, Owner: 1, Class: ledger.Start, Leases: []ledger.LeaseSpec{{Bytes: 256 << 10}}}).Leases[0]
				fill(t, m, SegmentName(le.Kind, le.Place.Segment), 0, dataset(i))
				must(t, h.l.Seal(le.ID, testKey(i), 0, int64(len(dataset(i))), 1))
				must(t, h.l.Release(id))
				h.settle()
			}
			broken := failing(label, os.ErrDeadlineExceeded)
			h.s.sys = broken.withDefaults()
			must(t, h.l.Request(ledger.Request{ID: 10, Owner: 2, Class: ledger.Start, Leases: []ledger.LeaseSpec{{Bytes: 1 << 20}}}))
			h.settle()
			if label == "readback:write" {
				must(t, h.l.Release(10))
				must(t, h.l.Request(ledger.Request{ID: 10, Owner: 2, Class: ledger.Start, Pins: []ledger.Key{testKey(0)}}))
				h.settle()
			}
			if h.failed[10] == nil {
				t.Fatalf("granted %+v with %+v", h.granted[10], h.l.Stats())
			}
			h.s.sys = System{}.withDefaults()
			h.l.Retry()
			h.request(ledger.Request{ID: 11, Owner: 2, Class: ledger.Start, Pins: []ledger.Key{testKey(3)}, Leases: []ledger.LeaseSpec{{Bytes: 512 << 10}}})
		})
	}
}
