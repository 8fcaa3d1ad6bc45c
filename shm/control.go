package shm

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The control page is a file in shared memory through which the agent learns, after the death of an
// executor, which step it was in and what its addresses meant. Little-endian:
//
//	 0  8  "cascade1"
//	 8  8  count of steps begun; step number c is in slot c%2
//	16 16  slot 0: run uint64, phase uint32, attempt uint32
//	32 16  slot 1
//	48  4  number of entries in the table of mappings
//	64     the table, 64 bytes each:
//	       0 8 address, 8 8 length (0: the entry is free; written last when taken, first when freed),
//	       16 8 offset in the segment, with bit 63 set for a lease, 24 40 name of the segment, zero-padded
//
// A writer fills slot (count+1)%2 and then stores count+1, as one aligned word. So the slot that count points to
// is complete whenever the writer dies. A program in another language writes the same bytes.
const (
	controlMagic   = "cascade1"
	controlBytes   = 64 << 10
	controlEntries = controlBytes/64 - 1
	controlName    = 40
	leaseBit       = 1 << 63
)

// Step is what an executor is about to do.
type Step struct {
	Run     uint64 // number of the task's dispatch, chosen by the agent
	Phase   uint32 // step within a fused path
	Attempt uint32
}

// Control is a mapped control page: written by one executor, read by the agent.
type Control struct {
	mu  sync.Mutex // of the table, in the executor
	mem []byte
}

// ControlPath is the control page of executor n.
func (s *Store) ControlPath(n uint64) string {
	return filepath.Join(s.dir, fmt.Sprintf("c%d", n))
}

// CreateControl makes the page, for the agent. A page of the same path is replaced.
func (s *Store) CreateControl(path string) (*Control, error) {
	fail := func(err error) (*Control, error) { return nil, fmt.Errorf("create control page: %w", err) }
	if err := s.sys.Remove("control:remove", path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fail(err)
	}
	f, err := s.sys.Open("control:open", path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return fail(err)
	}
	defer f.Close()
	head := make([]byte, 64)
	copy(head, controlMagic)
	binary.LittleEndian.PutUint32(head[48:], controlEntries)
	err = s.sys.Reserve("control:reserve", f, 0, controlBytes)
	if err == nil {
		_, err = s.sys.Write("control:write", f, head, 0)
	}
	if err != nil {
		return fail(errors.Join(err, s.sys.Remove("control:remove", path)))
	}
	return mapControl(f)
}

// OpenControl maps the page that the agent made, for the executor.
func OpenControl(path string) (*Control, error) {
	f, err := os.OpenFile(path, os.O_RDWR|noFollow, 0)
	if err != nil {
		return nil, fmt.Errorf("open control page: %w", err)
	}
	defer f.Close()
	return mapControl(f)
}

func mapControl(f *os.File) (*Control, error) {
	mem, err := mapRange(f, controlBytes, controlBytes, unix.PROT_READ|unix.PROT_WRITE)
	if err != nil {
		return nil, fmt.Errorf("open control page: %w", err)
	}
	if string(mem[:8]) != controlMagic || binary.LittleEndian.Uint32(mem[48:]) != controlEntries {
		return nil, errors.Join(fmt.Errorf("open control page: %s is of another version", f.Name()), unix.Munmap(mem))
	}
	return &Control{mem: mem}, nil
}

func (c *Control) word(off int) *atomic.Uint64 {
	return (*atomic.Uint64)(unsafe.Pointer(&c.mem[off]))
}

func (s Step) pack() uint64 { return uint64(s.Phase) | uint64(s.Attempt)<<32 }

// Begin notes a step. One goroutine at a time may call it. It costs a few nanoseconds.
func (c *Control) Begin(s Step) {
	n := c.word(8).Load() + 1
	slot := 16 + int(n%2)*16
	c.word(slot).Store(s.Run)
	c.word(slot + 8).Store(s.pack())
	c.word(8).Store(n)
}

// Last returns the latest step and how many were begun; with none, the step means nothing.
func (c *Control) Last() (s Step, steps uint64) {
	for {
		n := c.word(8).Load()
		slot := 16 + int(n%2)*16
		run, rest := c.word(slot).Load(), c.word(slot+8).Load()
		// The slot is written again for step n+2, which begins only after n+1 was counted.
		if c.word(8).Load() == n {
			return Step{run, uint32(rest), uint32(rest >> 32)}, n
		}
	}
}

// note enters a mapping into the table and returns its entry, or -1 when it is full: the agent then can not
// name what the process touched, and nothing worse.
func (c *Control) note(name string, ptr unsafe.Pointer, n, base int64, lease bool) int {
	if c == nil || len(name) > controlName {
		return -1
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range controlEntries {
		at := 64 + i*64
		if c.word(at+8).Load() != 0 {
			continue
		}
		c.word(at).Store(uint64(uintptr(ptr)))
		off := uint64(base)
		if lease {
			off |= leaseBit
		}
		c.word(at + 16).Store(off)
		var padded [controlName]byte
		copy(padded[:], name)
		for j := 0; j < controlName; j += 8 {
			c.word(at + 24 + j).Store(binary.NativeEndian.Uint64(padded[j:]))
		}
		c.word(at + 8).Store(uint64(n))
		return i
	}
	return -1
}

func (c *Control) unnote(i int) {
	if c != nil && i >= 0 {
		c.word(64 + i*64 + 8).Store(0)
	}
}

// Find tells what an address meant in the executor that writes this page.
func (c *Control) Find(addr uintptr) (Where, bool) {
	for i := range controlEntries {
		at := 64 + i*64
		from, n := c.word(at).Load(), c.word(at+8).Load()
		if uint64(addr) < from || uint64(addr)-from >= n {
			continue
		}
		var name [controlName]byte
		for j := 0; j < controlName; j += 8 {
			binary.NativeEndian.PutUint64(name[j:], c.word(at+24+j).Load())
		}
		off := c.word(at + 16).Load()
		return Where{
			Name:   string(bytes.TrimRight(name[:], "\x00")),
			Offset: int64(off&math.MaxInt64 + uint64(addr) - from),
			Lease:  off&leaseBit != 0,
		}, true
	}
	return Where{}, false
}

// Close unmaps the page; the file stays until the store is closed or CreateControl replaces it.
func (c *Control) Close() error {
	mem := c.mem
	c.mem = nil
	if mem == nil {
		return nil
	}
	if err := unix.Munmap(mem); err != nil {
		return fmt.Errorf("close control page: %w", err)
	}
	return nil
}
