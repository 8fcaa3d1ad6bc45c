package shm

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"golang.org/x/sys/unix"
)

// populateFrom is the lease size from which pages are mapped in one go; below it a fault or two are cheaper
// than the call.
const populateFrom = 256 << 10

// Lease is a writable mapping of a region that the agent leased to this process, with a bump allocator.
// It is safe for concurrent use; the slices that it returns are as safe as any others.
type Lease struct {
	m    *Mapper
	name string
	note int   // entry in the control page
	base int64 // of the region in the segment
	mu   sync.Mutex
	mem  []byte
	used int64
	ro   int64 // bytes from the start that are read-only by now
}

// Lease maps a leased region. off must be a multiple of the page size, as the ledger's regions are.
func (m *Mapper) Lease(name string, off, n int64) (*Lease, error) {
	f, err := os.OpenFile(filepath.Join(m.dir, name), os.O_RDWR|noFollow, 0)
	if err != nil {
		return nil, fmt.Errorf("map lease: %w", err)
	}
	defer f.Close()
	if n < 1 {
		return nil, fmt.Errorf("map lease of %d bytes in %s: %w", n, name, ErrBounds)
	}
	mem, err := mapRange(f, off, n, n, unix.PROT_READ|unix.PROT_WRITE)
	if err != nil {
		return nil, fmt.Errorf("map lease: %w", err)
	}
	if n >= populateFrom {
		populate(mem)
	}
	l := &Lease{m: m, name: name, base: off, mem: mem}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return nil, fmt.Errorf("map lease in %s: %w", name, errors.Join(ErrClosed, unix.Munmap(mem)))
	}
	l.note = m.control.note(name, mem, off, true)
	m.leases = append(m.leases, l)
	return l, nil
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

// Shrink gives back the tail of the latest allocation, which now ends at end (an offset in the segment):
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
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.mem == nil {
		return fmt.Errorf("seal lease in %s: %w", l.name, ErrClosed)
	}
	page := int64(os.Getpagesize())
	if pageEnd {
		l.used = min((l.used+page-1)/page*page, int64(len(l.mem)))
	}
	to := l.used / page * page
	if to <= l.ro {
		return nil
	}
	if err := unix.Mprotect(l.mem[l.ro:to], unix.PROT_READ); err != nil {
		return fmt.Errorf("seal lease in %s: %w", l.name, err)
	}
	l.ro = to
	return nil
}

// Close unmaps the lease; its slices must not be touched any more. Closing twice has no effect.
func (l *Lease) Close() error {
	l.m.mu.Lock()
	defer l.m.mu.Unlock()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.mem == nil {
		return nil
	}
	l.m.leases = slices.DeleteFunc(l.m.leases, func(o *Lease) bool { return o == l })
	l.m.control.unnote(l.note)
	mem := l.mem
	l.mem = nil
	if checked {
		// The addresses stay taken, so that a late write faults instead of hitting another mapping.
		if err := unix.Mprotect(mem, unix.PROT_NONE); err != nil {
			return fmt.Errorf("close lease in %s: %w", l.name, err)
		}
		return nil
	}
	if err := unix.Munmap(mem); err != nil {
		return fmt.Errorf("close lease in %s: %w", l.name, err)
	}
	return nil
}
