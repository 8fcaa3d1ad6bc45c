package shm

import (
	"bytes"
	"errors"
	"os"
	"testing"
	"unsafe"

	"github.com/cascade-run/cascade/shm/ledger"
)

func newMapper(t testing.TB, s *Store, idle int) *Mapper {
	m := NewMapper(s.Dir(), idle)
	t.Cleanup(func() {
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	})
	return m
}

// numbers shows bytes as numbers, without a copy.
func numbers(b []byte) []int64 {
	return unsafe.Slice((*int64)(unsafe.Pointer(unsafe.SliceData(b))), len(b)/8)
}

func TestViewsAreCheckedAgainstTheFile(t *testing.T) {
	s := openStore(t, t.TempDir(), System{})
	m := newMapper(t, s, 0)
	must(t, s.Create(1, ledger.File, 8192))
	must(t, s.Seal(1, ledger.File, 5000))
	for _, c := range []struct {
		off, n int64
		ok     bool
	}{{0, 5000, true}, {0, 0, true}, {4999, 1, true}, {5000, 0, true}, {5000, 1, false}, {0, 5001, false}, {-1, 2, false},
		{0, -1, false}, {1 << 62, 1 << 62, false}, {1, 1<<63 - 1, false}} {
		v, err := m.View("f1", c.off, c.n)
		if (err == nil) != c.ok || err != nil && !errors.Is(err, ErrBounds) {
			t.Errorf("View(%d, %d): %v", c.off, c.n, err)
		}
		if err == nil && (int64(len(v.Bytes)) != c.n || cap(v.Bytes) != len(v.Bytes)) {
			t.Errorf("View(%d, %d) has %d bytes of %d", c.off, c.n, len(v.Bytes), cap(v.Bytes))
		}
		v.Release()
		v.Release()
	}
	if _, err := m.View("f2", 0, 1); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("view of a missing segment: %v", err)
	}
}

func TestRecycledFileIsMappedAnew(t *testing.T) {
	s := openStore(t, t.TempDir(), System{})
	m := newMapper(t, s, 0)
	must(t, s.Create(1, ledger.File, 4096))
	fill(t, m, "f1", 0, pattern(4096))
	small, err := m.View("f1", 0, 4096)
	must(t, err)
	must(t, s.Resize(1, 1<<20))
	big := bytes.Repeat(pattern(1<<12), 1<<8)
	fill(t, m, "f1", 0, big)
	large, err := m.View("f1", 0, 1<<20)
	must(t, err)
	if !bytes.Equal(large.Bytes, big) || !bytes.Equal(small.Bytes, big[:4096]) {
		t.Error("views differ from the file")
	}
	addr := uintptr(unsafe.Pointer(&small.Bytes[100]))
	if w, ok := m.Owner(addr); !ok || w != (Where{"f1", 100, false}) {
		t.Errorf("owner of the old view: %+v %v", w, ok)
	}
	small.Release()
	large.Release()
	m.Forget("f1")
	if w, ok := m.Owner(addr); ok {
		t.Errorf("owner of an unmapped address: %+v", w)
	}
}

func TestIdleMappingsAreBounded(t *testing.T) {
	s := openStore(t, t.TempDir(), System{})
	m := newMapper(t, s, 2)
	for id := range ledger.SegmentID(5) {
		must(t, s.Create(id+1, ledger.File, 4096))
		v, err := m.View(SegmentName(ledger.File, id+1), 0, 10)
		must(t, err)
		v.Release()
	}
	if len(m.maps) != 2 || len(m.idle) != 2 {
		t.Errorf("%d mappings, %d idle", len(m.maps), len(m.idle))
	}
}

func TestLease(t *testing.T) {
	page := int64(os.Getpagesize())
	s := openStore(t, t.TempDir(), System{})
	m := newMapper(t, s, 0)
	must(t, s.Create(1, ledger.Arena, 8*page))
	l, err := m.Lease("a1", 2*page, 2*page)
	must(t, err)
	type result struct {
		off int64
		err error
	}
	for i, c := range []struct {
		n, align int64
		want     result
	}{{10, 8, result{2 * page, nil}}, {8, 64, result{2*page + 64, nil}}, {0, 1, result{2*page + 72, nil}},
		{page, page, result{3 * page, nil}}, {1, 1, result{0, ErrLeaseFull}}, {0, 1, result{4 * page, nil}},
		{1 << 62, 8, result{0, ErrLeaseFull}}, {-1, 8, result{0, ErrBounds}}, {1, 3, result{0, ErrBounds}}, {1, 2 * page, result{0, ErrBounds}}} {
		b, off, err := l.Alloc(c.n, c.align)
		if off != c.want.off || !errors.Is(err, c.want.err) || err == nil && int64(len(b)) != c.n {
			t.Errorf("%d: Alloc(%d, %d) = %d bytes at %d, %v; want %+v", i, c.n, c.align, len(b), off, err, c.want)
		}
	}
	if l.Used() != 2*page || l.Free() != 0 {
		t.Errorf("used %d, free %d", l.Used(), l.Free())
	}
	must(t, l.Shrink(3*page+100))
	if l.Used() != page+100 {
		t.Errorf("used %d after Shrink", l.Used())
	}
	must(t, l.Seal(true))
	if l.Used() != 2*page {
		t.Errorf("used %d after Seal to the end of the page", l.Used())
	}
	if err := l.Shrink(2 * page); !errors.Is(err, ErrBounds) {
		t.Errorf("sealed bytes were given back: %v", err)
	}
	if err := m.Close(); err == nil {
		t.Error("the mapper closed under a lease")
	}
	must(t, l.Close())
	must(t, l.Close())
	if _, _, err := l.Alloc(1, 1); !errors.Is(err, ErrClosed) {
		t.Errorf("allocation in a closed lease: %v", err)
	}
	for _, c := range [][2]int64{{0, 9 * page}, {8 * page, page}, {-page, page}, {0, 0}} {
		if _, err := m.Lease("a1", c[0], c[1]); !errors.Is(err, ErrBounds) {
			t.Errorf("lease of %v: %v", c, err)
		}
	}
}

// A large lease that is sealed as a whole is read where it was, and its pages are there for the next lease of the region.
func TestSealWhole(t *testing.T) {
	s := openStore(t, roots(t)["tmpfs"], System{})
	m := newMapper(t, s, 0)
	const n = leaveFrom + 8192
	must(t, s.Create(1, ledger.File, n))
	for round := range 3 {
		l, err := m.Lease("f1", 0, n)
		must(t, err)
		b, _, err := l.Alloc(n, 8)
		must(t, err)
		for i := range b {
			if want := byte((i * round) >> 8); b[i] != want {
				t.Fatalf("round %d: byte %d is %d, the round before wrote %d", round, i, b[i], want)
			}
			b[i] = byte((i * (round + 1)) >> 8)
		}
		must(t, l.Seal(true))
		if l.away == nil && !m.stays.Load() {
			t.Error("its pages are where they were")
		}
		if _, fault := catchFault(func() { b[n/2] = 1 }); !fault {
			t.Error("a sealed lease can be written to")
		}
		for i := 0; i < n; i += 1000 {
			if want := byte((i * (round + 1)) >> 8); b[i] != want {
				t.Fatalf("round %d: byte %d is %d when it is sealed, want %d", round, i, b[i], want)
			}
		}
		must(t, l.Close())
		if _, fault := catchFault(func() { _ = bytes.Count(b, []byte{0}) }); !fault {
			t.Error("a closed lease can be read")
		}
	}
}

// TestHugeDataset uses a dataset of more than 4 GiB, of which only some pages exist: the file is not reserved.
func TestHugeDataset(t *testing.T) {
	if testing.Short() {
		t.Skip("maps 5 GiB")
	}
	const n = 5<<30 + 24
	const size = (n + 4095) / 4096 * 4096
	sparse := System{Reserve: func(_ string, f *os.File, off, n int64) error { return f.Truncate(off + n) }}
	s := openStore(t, roots(t)["tmpfs"], sparse)
	m := newMapper(t, s, 0)
	must(t, s.Create(1, ledger.File, size))
	const tail = size - (1 << 20) // beyond 4 GiB
	for _, off := range []int64{0, tail} {
		l, err := m.Lease("f1", off, 1<<20)
		must(t, err)
		b, at, err := l.Alloc(min(1<<20, n-off), 8)
		must(t, err)
		v := numbers(b)
		for i := range v {
			v[i] = at/8 + int64(i)
		}
		must(t, l.Close())
	}
	must(t, s.Seal(1, ledger.File, n))
	r, err := m.View("f1", 0, n)
	must(t, err)
	defer r.Release()
	v := numbers(r.Bytes)
	for _, i := range []int{1, 1<<17 - 1, tail / 8, n/8 - 1} {
		if v[i] != int64(i) {
			t.Errorf("number %d is %d", i, v[i])
		}
	}
	if v[1<<29+5] != 0 {
		t.Error("something was written between")
	}
	if _, err := m.View("f1", n-8, 9); !errors.Is(err, ErrBounds) {
		t.Errorf("a view behind the end: %v", err)
	}
	p, err := m.View("f1", tail, 8)
	must(t, err)
	if p.Bytes[0] != r.Bytes[tail] {
		t.Error("views differ")
	}
	p.Release()
}

func TestLeaseOfTheSameRegionIsTheSameMapping(t *testing.T) {
	for _, n := range []int64{64 << 10, 4 << 20} { // below and above a huge page
		s := openStore(t, t.TempDir(), System{})
		m := newMapper(t, s, 0)
		page := int64(os.Getpagesize())
		must(t, s.Create(1, ledger.Arena, n+page))
		var first *byte
		for round := range keptPieces + 10 {
			l, err := m.Lease("a1", page, n)
			must(t, err)
			b, _, err := l.Alloc(n, 1)
			must(t, err)
			if round == 0 {
				first = &b[0]
			} else if b[0] != byte(round-1) || b[n-1] != byte(round) || round < keptPieces && &b[0] == first {
				t.Fatalf("%d bytes, round %d: %d %d", n, round, b[0], b[n-1])
			}
			b[0], b[n-1] = byte(round), byte(round+1)
			if round%3 == 1 { // a part is protected when the lease ends
				must(t, l.Shrink(page+n/2))
				must(t, l.Seal(false))
			}
			must(t, l.Close())
			if _, fault := catchFault(func() { b[0] = 1 }); !fault && round < keptPieces {
				t.Fatal("a closed lease can be written")
			}
		}
		if len(m.stash) != 1 {
			t.Errorf("%d mappings are kept", len(m.stash))
		}
		if len(m.guards) > keptPieces && !checked {
			t.Errorf("%d address ranges are kept", len(m.guards))
		}
		v, err := m.View("a1", page, n)
		must(t, err)
		if v.Bytes[0] != keptPieces+9 {
			t.Errorf("the view has %d", v.Bytes[0])
		}
		v.Release()
		l, err := m.Lease("a1", page, n)
		must(t, err)
		if _, err := m.Lease("a1", n, page); err == nil {
			t.Error("an overlapping lease was mapped")
		}
		must(t, l.Close())
	}
}

// TestLeaseAhead: pages that are mapped beside their writer hold what he writes, and the end of the lease ends that, too.
func TestLeaseAhead(t *testing.T) {
	const n = 2*populateStep + 4096
	s := openStore(t, t.TempDir(), System{})
	m := newMapper(t, s, 0)
	must(t, s.Create(1, ledger.File, n))
	for round := range 3 {
		l, err := m.LeaseAhead("f1", 0, n)
		must(t, err)
		b, _, err := l.Alloc(n, 1)
		must(t, err)
		for at := 0; at < n && round < 2; at += 4096 { // in the last round it ends at once
			b[at] = byte(round + 1)
		}
		must(t, l.Close())
		if _, fault := catchFault(func() { b[n-1] = 1 }); !fault {
			t.Fatal("a closed lease can be written")
		}
		v, err := m.View("f1", 0, n)
		must(t, err)
		for at := 0; at < n; at += 4096 {
			if v.Bytes[at] != byte(min(round, 1)+1) {
				t.Fatalf("round %d: byte %d is %d", round, at, v.Bytes[at])
			}
		}
		v.Release()
		m.Forget("f1") // so that the next mapping has no pages
	}
}
