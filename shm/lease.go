package shm

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Lease is a writable mapping of a region that the agent leased to this process, with a bump allocator. It is
// safe for concurrent use; the slices that it returns are as safe as any others.
//
// Pages cost: to map one for the first time takes as long as to fill it several times over, and to change its
// protection about as long as to fill it. So the mapping of an ended lease is not unmapped or protected but
// moved to another address, which moves whole page tables and takes microseconds; slices that the task kept
// point to where nothing is any more. A later lease of the same region gets it back, at a third address.
type Lease struct {
	piece
	m    *Mapper
	mu   sync.Mutex
	mem  []byte // nil when closed
	used int64
	ro   int64          // bytes from the start that are read-only by now
	away unsafe.Pointer // where the pages of a whole sealed lease are mapped writable; nil: they are not

	ahead sync.WaitGroup // what maps pages beside the writer
	over  atomic.Bool    // it shall end
}

// piece is a mapping of a region, or the addresses where one was.
type piece struct {
	name    string
	base, n int64 // region in the segment
	ptr     unsafe.Pointer
	note    int // entry in the control page, -1 for none
}

// keptPieces bounds stash and guards.
const keptPieces = 64

func (p piece) in(addr uintptr) (off int64, ok bool) {
	from := uintptr(p.ptr)
	return p.base + int64(addr-from), addr >= from && int64(addr-from) < p.n
}

// unmap can only fail for addresses that are none of ours.
func (p piece) unmap() {
	if err := unix.MunmapPtr(p.ptr, uintptr(p.n)); err != nil {
		panic(fmt.Sprintf("shm: unmap %d+%d of %s: %v", p.base, p.n, p.name, err))
	}
}

// Lease maps a leased region. It must be whole pages, as the ledger's regions are.
func (m *Mapper) Lease(name string, off, n int64) (*Lease, error) {
	return m.lease(name, off, n, false)
}

// LeaseAhead is Lease for who writes from the start to the end, as bytes come: it does not wait until all pages are
// mapped, as that goes on beside the writer.
func (m *Mapper) LeaseAhead(name string, off, n int64) (*Lease, error) {
	return m.lease(name, off, n, true)
}

func (m *Mapper) lease(name string, off, n int64, ahead bool) (*Lease, error) {
	fail := func(err error) (*Lease, error) { return nil, fmt.Errorf("lease %d+%d of %s: %w", off, n, name, err) }
	page := int64(os.Getpagesize())
	if off < 0 || n < 1 || off > off+n || off%page != 0 || n%page != 0 {
		return fail(ErrBounds)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return fail(fmt.Errorf("mapper: %w", ErrClosed))
	}
	if slices.ContainsFunc(m.leases, func(l *Lease) bool { return l.name == name && off < l.base+l.n && l.base < off+n }) {
		return fail(errors.New("it overlaps an open lease of this process"))
	}
	ptr, fresh, err := m.mapWritable(name, off, n)
	if err != nil {
		return fail(err)
	}
	l := &Lease{piece: piece{name, off, n, ptr, m.control.note(name, ptr, n, off, true)}, m: m, mem: unsafe.Slice((*byte)(ptr), n)}
	m.leases = append(m.leases, l)
	switch {
	case !fresh || n < populateFrom:
	case ahead:
		l.populateAhead()
	default:
		populate(l.mem)
	}
	return l, nil
}

// mapWritable maps a region, or takes the mapping of it that was kept; fresh says that its pages are not mapped yet.
func (m *Mapper) mapWritable(name string, off, n int64) (ptr unsafe.Pointer, fresh bool, err error) {
	path := filepath.Join(m.dir, name)
	fi, err := os.Lstat(path)
	if err != nil {
		return nil, false, err
	}
	if off+n > fi.Size() { // behind the end a mapping is a SIGBUS
		return nil, false, fmt.Errorf("the file has %d bytes: %w", fi.Size(), ErrBounds)
	}
	if i := slices.IndexFunc(m.stash, func(p piece) bool { return p.name == name && p.base == off && p.n == n }); i >= 0 {
		p := m.stash[i]
		m.stash = slices.Delete(m.stash, i, i+1)
		if ptr, err = addresses(off, n); err == nil {
			err = move(p.ptr, n, ptr)
		}
		if err != nil {
			p.unmap()
			return nil, false, err
		}
		return ptr, false, nil
	}
	f, err := os.OpenFile(path, os.O_RDWR|noFollow, 0)
	if err != nil {
		return nil, false, err
	}
	defer f.Close()
	if ptr, err = addresses(off, n); err != nil {
		return nil, false, err
	}
	_, err = unix.MmapPtr(int(f.Fd()), off, ptr, uintptr(n), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_FIXED)
	if err != nil {
		piece{name, off, n, ptr, -1}.unmap()
		return nil, false, err
	}
	return ptr, true, nil
}

const (
	// populateFrom is the lease size from which pages are mapped in one go; below it a few faults are cheaper.
	populateFrom = 256 << 10
	// populateStep is after how many bytes it is looked whether the lease has ended: about a millisecond.
	populateStep = 16 << 20
)

// populateAhead maps the pages beside the caller. A caller that is faster maps its pages by faults.
func (l *Lease) populateAhead() {
	mem := l.mem
	l.ahead.Go(func() {
		for len(mem) > 0 && !l.over.Load() {
			n := min(len(mem), populateStep)
			populate(mem[:n])
			mem = mem[n:]
		}
	})
}

// addresses reserves n bytes of inaccessible addresses for a region at off of its file. Large ones get the same
// place within a huge page as in the file, so that move can take whole page tables, or whole tables of those.
func addresses(off, n int64) (unsafe.Pointer, error) {
	huge := int64(2 << 20)
	if n >= 1<<30 {
		huge = 1 << 30 // one entry of the table above: two moves instead of a thousand
	}
	slack := int64(0)
	if n >= huge {
		slack = huge
	}
	p, err := unix.MmapPtr(-1, 0, nil, uintptr(n+slack), unix.PROT_NONE, unix.MAP_PRIVATE|unix.MAP_ANON|unix.MAP_NORESERVE)
	if err != nil {
		return nil, fmt.Errorf("reserve %d bytes of addresses: %w", n, err)
	}
	if slack == 0 {
		return p, nil
	}
	head := (off - int64(uintptr(p)) + huge) & (huge - 1)
	at := unsafe.Add(p, head)
	if head > 0 {
		err = unix.MunmapPtr(p, uintptr(head))
	}
	if err == nil && head < slack {
		err = unix.MunmapPtr(unsafe.Add(at, n), uintptr(slack-head))
	}
	return at, err
}

// Name is the segment's.
func (l *Lease) Name() string { return l.name }

// Alloc returns n bytes aligned to align (a power of two, at most a page) and their offset in the segment,
// which is what Seal of the ledger wants. The bytes hold anything. The error is ErrLeaseFull when they do not fit.
func (l *Lease) Alloc(n, align int64) ([]byte, int64, error) {
	if n < 0 || align < 1 || align&(align-1) != 0 || align > int64(os.Getpagesize()) {
		return nil, 0, fmt.Errorf("allocate %d bytes aligned to %d in %s: %w", n, align, l.name, ErrBounds)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.mem == nil {
		return nil, 0, fmt.Errorf("allocate %d bytes in %s: lease: %w", n, l.name, ErrClosed)
	}
	at := (l.used + align - 1) &^ (align - 1)
	if at > int64(len(l.mem)) || n > int64(len(l.mem))-at {
		return nil, 0, fmt.Errorf("allocate %d bytes in %s, %d of %d are used: %w", n, l.name, l.used, len(l.mem), ErrLeaseFull)
	}
	l.used = at + n
	return l.mem[at : at+n : at+n], l.base + at, nil
}

// Shrink returns the tail of the latest allocation, which now ends at end (an offset in the segment):
// for writers that learn their size while they write.
func (l *Lease) Shrink(end int64) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if end-l.base < l.ro || end-l.base > l.used {
		return fmt.Errorf("shrink lease in %s to %d: it is used from %d to %d: %w", l.name, end, l.base+l.ro, l.base+l.used, ErrBounds)
	}
	l.used = end - l.base
	return nil
}

// Used is how many bytes of the region are allocated, and Free how many are left.
func (l *Lease) Used() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.used
}

// Free is how many bytes are left.
func (l *Lease) Free() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return int64(len(l.mem)) - l.used
}

// Seal makes all that was allocated read-only, as far as it fills whole pages; the next allocation begins
// on a page of its own when pageEnd is set, so that everything before it is protected. Call it before the
// datasets are published.
func (l *Lease) Seal(pageEnd bool) error {
	l.ahead.Wait() // it maps writable
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.mem == nil {
		return fmt.Errorf("seal lease in %s: %w", l.name, ErrClosed)
	}
	page := int64(os.Getpagesize())
	if pageEnd {
		l.used = min((l.used+page-1)/page*page, l.n)
	}
	to := l.used / page * page
	if to <= l.ro {
		return nil
	}
	if l.ro == 0 && to == l.n && l.n >= leaveFrom {
		l.leavePages()
	}
	if err := unix.Mprotect(l.mem[l.ro:to], unix.PROT_READ); err != nil {
		return fmt.Errorf("seal lease in %s: %w", l.name, err)
	}
	l.ro = to
	return nil
}

// leaveFrom is the lease size from which pages are not protected one by one: that takes 35 ms for a gibibyte.
const leaveFrom = 2 << 20

// leavePages moves the pages to another address and leaves the mapping there without any, so that to protect it
// costs nothing; whoever reads it maps again what he reads. Where the kernel does not do that nothing changes.
func (l *Lease) leavePages() {
	if l.m.stays.Load() {
		return
	}
	to, err := addresses(l.base, l.n)
	if err != nil {
		return
	}
	if err := leave(l.ptr, l.n, to); err != nil {
		l.m.stays.Store(true) // the reserved addresses may be another's by now: they are not unmapped
		return
	}
	l.away = to
}

// Close ends the lease: its slices must not be touched any more, and doing so faults. Closing twice has no
// effect. The agent learns of it by message, with Used.
func (l *Lease) Close() error {
	l.over.Store(true)
	l.ahead.Wait() // or it would map pages where nothing must be any more
	m := l.m
	m.mu.Lock()
	defer m.mu.Unlock()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.mem == nil {
		return nil
	}
	l.mem = nil
	m.leases = slices.DeleteFunc(m.leases, func(o *Lease) bool { return o == l })
	l.moveAway()
	if !guard(l.ptr, l.n) { // another mapping got the addresses
		m.control.unnote(l.note)
		return nil
	}
	m.guards = append(m.guards, l.piece)
	if len(m.guards) > keptPieces && !checked {
		m.control.unnote(m.guards[0].note)
		m.guards[0].unmap()
		m.guards = slices.Delete(m.guards, 0, 1)
	}
	return nil
}

// moveAway puts the mapping into the stash, or unmaps it when that fails.
func (l *Lease) moveAway() {
	if l.away != nil {
		l.unmap()
		l.keep(piece{l.name, l.base, l.n, l.away, -1})
		return
	}
	to, err := addresses(l.base, l.n)
	if err != nil {
		l.unmap()
		return
	}
	p := piece{l.name, l.base, l.n, to, -1}
	at := int64(0)
	for _, end := range []int64{l.ro, l.n} { // protected pages are a mapping of their own
		if err == nil && end > at {
			if err = move(unsafe.Add(l.ptr, at), end-at, unsafe.Add(to, at)); err == nil {
				at = end
			}
		}
	}
	if err == nil && l.ro > 0 {
		err = unix.Mprotect(unsafe.Slice((*byte)(to), l.ro), unix.PROT_READ|unix.PROT_WRITE)
	}
	if err != nil {
		if at < l.n { // only what was not moved: others may have the rest of the addresses by now
			piece{ptr: unsafe.Add(l.ptr, at), n: l.n - at}.unmap()
		}
		p.unmap()
		return
	}
	l.keep(p)
}

// keep puts a mapping of the lease's region into the stash.
func (l *Lease) keep(p piece) {
	l.m.stash = append(l.m.stash, p)
	if len(l.m.stash) > keptPieces {
		l.m.stash[0].unmap()
		l.m.stash = slices.Delete(l.m.stash, 0, 1)
	}
}
