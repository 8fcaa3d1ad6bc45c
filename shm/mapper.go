package shm

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Mapper gives an executor (or an agent that moves data) views of segments and leases in them. Every segment is
// mapped once, read-only, and stays mapped for the next view: a get costs a look into a table. Leases have
// mappings of their own (see Lease). It is safe for concurrent use.
type Mapper struct {
	dir     string
	maxIdle int
	control *Control
	mu      sync.Mutex
	maps    map[string]*mapping
	idle    []*mapping // unused, oldest first
	old     []*mapping // replaced or forgotten, still in use
	leases  []*Lease
	stash   []piece     // writable mappings of ended leases, oldest first
	guards  []piece     // where leases were, inaccessible, oldest first
	stays   atomic.Bool // the kernel does not part a mapping from its pages
	closed  bool
}

type mapping struct {
	name  string
	mem   []byte
	refs  int
	entry int         // in the control page
	stale bool        // unmapped with its last use
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
	fail := func(err error) (Span, error) { return Span{}, fmt.Errorf("view %d+%d of %s: %w", off, n, name, err) }
	if off < 0 || n < 0 || off > off+n {
		return fail(ErrBounds)
	}
	if n == 0 {
		return Span{Bytes: []byte{}}, nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	mp, err := m.mapped(name, off+n)
	if err != nil {
		return fail(err)
	}
	if mp.refs == 0 {
		if i := slices.Index(m.idle, mp); i >= 0 {
			m.idle = slices.Delete(m.idle, i, i+1)
		}
	}
	mp.refs++
	mp.show(off, n, 1)
	return Span{mp.mem[off : off+n : off+n], m, mp, off}, nil
}

// mapped returns a mapping of at least need bytes of a file. One that is too small is replaced: a recycled
// file has grown.
func (m *Mapper) mapped(name string, need int64) (*mapping, error) {
	path := filepath.Join(m.dir, name)
	if mp := m.maps[name]; mp != nil && need <= int64(len(mp.mem)) {
		if strings.HasPrefix(name, "a") { // arenas never shrink; behind the end of a file is SIGBUS
			return mp, nil
		}
		if fi, err := os.Lstat(path); err != nil || need > fi.Size() {
			return nil, errors.Join(fmt.Errorf("the file has become too short: %w", ErrBounds), err)
		}
		return mp, nil
	}
	if m.closed {
		return nil, fmt.Errorf("mapper: %w", ErrClosed)
	}
	f, err := os.OpenFile(path, os.O_RDONLY|noFollow, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	prot := unix.PROT_READ
	if checked {
		prot = unix.PROT_NONE // until a view shows its pages
	}
	mem, err := mapRange(f, -1, need, prot)
	if err != nil {
		return nil, err
	}
	if old := m.maps[name]; old != nil {
		m.retire(old)
	}
	mp := &mapping{name: name, mem: mem, entry: m.control.note(name, unsafe.Pointer(unsafe.SliceData(mem)), int64(len(mem)), 0, false)}
	if checked {
		mp.live = map[int]int{}
	}
	m.maps[name] = mp
	return mp, nil
}

// mapRange maps the first n bytes (-1: all) of a file that must have at least need: behind the end of a file
// a mapping is a SIGBUS.
func mapRange(f *os.File, n, need int64, prot int) ([]byte, error) {
	fi, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if n < 0 {
		n = fi.Size()
	}
	if need > n || n > fi.Size() {
		return nil, fmt.Errorf("%d bytes wanted, the file has %d: %w", max(n, need), fi.Size(), ErrBounds)
	}
	if int64(int(n)) != n {
		return nil, fmt.Errorf("%d bytes do not fit this machine's addresses: %w", n, ErrBounds)
	}
	mem, err := unix.Mmap(int(f.Fd()), 0, int(n), prot, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("map %d bytes of %s: %w", n, f.Name(), err)
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
	mp.show(s.off, n, -1)
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

// Forget drops the mappings of a removed segment, at once or with the last view. Names are not used again, so
// that forgetting late costs only addresses.
func (m *Mapper) Forget(name string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.stash = slices.DeleteFunc(m.stash, func(p piece) bool {
		if p.name == name {
			p.unmap()
		}
		return p.name == name
	})
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
	Lease  bool   // through a lease of the process: in what it has sealed there, or after its end
}

// Owner tells which mapping an address lies in. It serves to say "wrote to input x" after a fault.
func (m *Mapper) Owner(addr uintptr) (Where, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, l := range m.leases {
		if off, ok := l.in(addr); ok {
			return Where{l.name, off, true}, true
		}
	}
	for _, p := range m.guards {
		if off, ok := p.in(addr); ok {
			return Where{p.name, off, true}, true
		}
	}
	for _, mp := range slices.AppendSeq(slices.Clone(m.old), maps.Values(m.maps)) {
		p := piece{ptr: unsafe.Pointer(unsafe.SliceData(mp.mem)), n: int64(len(mp.mem))}
		if off, ok := p.in(addr); ok {
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
		return fmt.Errorf("close mapper: %d mappings have views or leases", live)
	}
	m.closed = true
	var errs []error
	for _, mp := range m.maps {
		m.control.unnote(mp.entry)
		errs = append(errs, unix.Munmap(mp.mem))
	}
	for _, p := range slices.Concat(m.stash, m.guards) {
		p.unmap()
	}
	m.maps, m.idle, m.stash, m.guards = nil, nil, nil, nil
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

// show counts a view that begins or ends. In check builds the pages that no view shows are inaccessible.
func (mp *mapping) show(off, n int64, by int) {
	if !checked {
		return
	}
	page := int64(os.Getpagesize())
	for p := off / page; p <= (off+n-1)/page; p++ {
		prot := unix.PROT_READ
		if mp.live[int(p)] += by; mp.live[int(p)] == 0 {
			delete(mp.live, int(p))
			prot = unix.PROT_NONE
		}
		end := min((p+1)*page, int64(len(mp.mem)))
		if err := unix.Mprotect(mp.mem[p*page:end], prot); err != nil {
			panic(fmt.Sprintf("shm: protect page %d of %s: %v", p, mp.name, err))
		}
	}
}
