package shm

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Mapper gives an executor (or an agent that sends data) read-only views of segments. Mappings are made on
// demand and kept for the next view: a get costs a look into a table. It is safe for concurrent use.
type Mapper struct {
	dir     string
	maxIdle int
	control *Control
	mu      sync.Mutex
	maps    map[string]*mapping
	idle    []*mapping // unused, oldest first
	old     []*mapping // replaced by larger ones, still in use
	leases  []*Lease
	closed  bool
}

type mapping struct {
	name  string
	mem   []byte
	refs  int
	entry int         // in the control page
	stale bool        // forgotten or replaced: unmapped with its last view
	live  map[int]int // check builds: views for each page
}

// Span is a read-only view of a place. Its bytes must not be touched after Release.
type Span struct {
	Bytes []byte
	m     *Mapper
	of    *mapping
	off   int64
}

// NewMapper maps segments of a store's folder. At most maxIdle mappings are kept without a view; 0 means 256.
func NewMapper(dir string, maxIdle int) *Mapper {
	if maxIdle == 0 {
		maxIdle = 256
	}
	return &Mapper{dir: dir, maxIdle: maxIdle, maps: map[string]*mapping{}}
}

// Record notes all mappings made from now on in the executor's control page. Call it before the first.
func (m *Mapper) Record(c *Control) { m.control = c }

// View returns n bytes at off of the segment with this name (see SegmentName). The caller must hold a pin:
// without one the bytes may change or fault.
func (m *Mapper) View(name string, off, n int64) (Span, error) {
	if off < 0 || n < 0 || off > off+n {
		return Span{}, fmt.Errorf("view %d+%d of %s: %w", off, n, name, ErrBounds)
	}
	if n == 0 {
		return Span{Bytes: []byte{}}, nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	mp := m.maps[name]
	if mp == nil || off+n > int64(len(mp.mem)) {
		var err error
		if mp, err = m.mapFile(name, off+n); err != nil {
			return Span{}, fmt.Errorf("view %d+%d of %s: %w", off, n, name, err)
		}
	}
	if mp.refs == 0 {
		if i := slices.Index(m.idle, mp); i >= 0 {
			m.idle = slices.Delete(m.idle, i, i+1)
		}
	}
	mp.refs++
	mp.show(off, n)
	return Span{mp.mem[off : off+n : off+n], m, mp, off}, nil
}

// mapFile maps a file whole and puts it in the place of a smaller mapping (a recycled file may have grown).
func (m *Mapper) mapFile(name string, need int64) (*mapping, error) {
	if m.closed {
		return nil, fmt.Errorf("mapper: %w", ErrClosed)
	}
	f, err := os.OpenFile(filepath.Join(m.dir, name), os.O_RDONLY|noFollow, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	prot := unix.PROT_READ
	if checked {
		prot = unix.PROT_NONE // until a view shows its pages
	}
	mem, err := mapRange(f, 0, -1, need, prot)
	if err != nil {
		return nil, err
	}
	if old := m.maps[name]; old != nil {
		m.retire(old)
	}
	mp := &mapping{name: name, mem: mem, entry: m.control.note(name, mem, 0, false)}
	if checked {
		mp.live = map[int]int{}
	}
	m.maps[name] = mp
	return mp, nil
}

// mapRange maps n bytes (-1: all) of a file that must have at least need bytes from off on: behind the end
// of a file a mapping is a SIGBUS.
func mapRange(f *os.File, off, n, need int64, prot int) ([]byte, error) {
	fi, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if n < 0 {
		n = fi.Size() - off
	}
	if off < 0 || need > n || off > fi.Size()-n {
		return nil, fmt.Errorf("%d bytes wanted at %d, the file has %d: %w", max(n, need), off, fi.Size(), ErrBounds)
	}
	if int64(int(n)) != n {
		return nil, fmt.Errorf("%d bytes do not fit this machine's addresses: %w", n, ErrBounds)
	}
	mem, err := unix.Mmap(int(f.Fd()), off, int(n), prot, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("map %d bytes at %d of %s: %w", n, off, f.Name(), err)
	}
	return mem, nil
}

// Release ends the view. Releasing twice has no effect.
func (s *Span) Release() {
	m, mp := s.m, s.of
	if m == nil {
		return
	}
	n := int64(len(s.Bytes))
	s.m, s.of, s.Bytes = nil, nil, nil
	m.mu.Lock()
	defer m.mu.Unlock()
	mp.hide(s.off, n)
	if mp.refs--; mp.refs > 0 {
		return
	}
	if mp.stale {
		m.old = slices.DeleteFunc(m.old, func(o *mapping) bool { return o == mp })
		m.unmap(mp)
		return
	}
	m.idle = append(m.idle, mp)
	if len(m.idle) > m.maxIdle {
		mp := m.idle[0]
		m.idle = slices.Delete(m.idle, 0, 1)
		delete(m.maps, mp.name)
		m.unmap(mp)
	}
}

// Forget drops the mapping of a removed segment, at once or with its last view.
func (m *Mapper) Forget(name string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if mp := m.maps[name]; mp != nil {
		m.retire(mp)
	}
}

func (m *Mapper) retire(mp *mapping) {
	delete(m.maps, mp.name)
	if mp.refs > 0 {
		mp.stale = true
		m.old = append(m.old, mp)
		return
	}
	if i := slices.Index(m.idle, mp); i >= 0 {
		m.idle = slices.Delete(m.idle, i, i+1)
	}
	m.unmap(mp)
}

// Where is what an address belongs to.
type Where struct {
	Name   string // of the segment
	Offset int64  // within the segment
	Lease  bool   // in a writable mapping of this process, or one that it sealed
}

// Owner tells which mapping an address lies in. It serves to say "wrote to input x" after a fault.
func (m *Mapper) Owner(addr uintptr) (Where, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	in := func(mem []byte) (int64, bool) {
		if len(mem) == 0 {
			return 0, false
		}
		from := uintptr(unsafe.Pointer(unsafe.SliceData(mem)))
		return int64(addr - from), addr >= from && addr-from < uintptr(len(mem))
	}
	for _, l := range m.leases {
		if off, ok := in(l.mem); ok {
			return Where{l.name, l.base + off, true}, true
		}
	}
	for _, mp := range m.maps {
		if off, ok := in(mp.mem); ok {
			return Where{mp.name, off, false}, true
		}
	}
	for _, mp := range m.old {
		if off, ok := in(mp.mem); ok {
			return Where{mp.name, off, false}, true
		}
	}
	return Where{}, false
}

// Close unmaps everything. Views and leases must have ended: it refuses with an error while some live.
func (m *Mapper) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	live := len(m.old) + len(m.leases)
	for _, mp := range m.maps {
		if mp.refs > 0 {
			live++
		}
	}
	if live > 0 {
		return fmt.Errorf("close mapper: %d mappings have views or are leased", live)
	}
	m.closed = true
	var errs []error
	for _, mp := range m.maps {
		m.control.unnote(mp.entry)
		errs = append(errs, unix.Munmap(mp.mem))
	}
	m.maps, m.idle = nil, nil
	return errors.Join(errs...)
}

// unmap can only fail for a range that is not a mapping, which mp.mem is.
func (m *Mapper) unmap(mp *mapping) {
	m.control.unnote(mp.entry)
	if err := unix.Munmap(mp.mem); err != nil {
		panic(fmt.Sprintf("shm: unmap %s: %v", mp.name, err))
	}
	mp.mem = nil
}

// show and hide make the pages of a view accessible and, with the last view of a page, inaccessible again;
// in check builds only.
func (mp *mapping) show(off, n int64) { mp.count(off, n, 1) }
func (mp *mapping) hide(off, n int64) { mp.count(off, n, -1) }

func (mp *mapping) count(off, n int64, by int) {
	if !checked {
		return
	}
	page := os.Getpagesize()
	for p := int(off) / page; p <= int(off+n-1)/page; p++ {
		mp.live[p] += by
		prot := unix.PROT_READ
		if mp.live[p] == 0 {
			delete(mp.live, p)
			prot = unix.PROT_NONE
		} else if by < 0 || mp.live[p] > 1 {
			continue
		}
		end := min((p+1)*page, len(mp.mem))
		if err := unix.Mprotect(mp.mem[p*page:end], prot); err != nil {
			panic(fmt.Sprintf("shm: protect page %d of %s: %v", p, mp.name, err))
		}
	}
}
