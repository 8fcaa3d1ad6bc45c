package shm

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync/atomic"
	"unsafe"

	"github.com/zeebo/xxh3"
	"golang.org/x/sys/unix"

	"github.com/cascade-run/cascade/shm/ledger"
)

// The index is a file beside the segments. It says which of their bytes are sealed, so that an agent which starts
// after another was killed can go on with them. Little-endian:
//
//	 0  8  "cindex01"
//	64     slots of 64 bytes; a note takes one or more, from its first byte on:
//	       0 8 mark, 8 4 slots, 12 4 length of the descriptor, 16 32 key, 48 8 segment, 56 8 offset, 64 8 bytes,
//	       72 descriptor
//
// A mark is the xxh3-64 of all that follows it in the note, with the number of its slot as seed, and 1 where that
// is 0. It is one aligned word, written after everything else and set to 0 before anything else changes: however
// the writer dies, a note is whole or is none. A process that dies has done its stores in program order, so
// nothing has to be flushed.
const (
	indexMagic  = "cindex01"
	indexName   = "index"
	indexStart  = 64 << 10
	slotBytes   = 64
	noteHead    = 72
	maxNoteMeta = 64 << 10
)

// Index notes what is sealed. One goroutine at a time may use it.
type Index struct {
	sys  System
	f    *os.File
	mem  []byte
	at   map[ledger.Key]extent
	free map[int][]int // first slots of struck notes, by their number of slots
	end  int           // slots from here on were never used
}

// extent is where a note is, in slots.
type extent struct{ first, slots int }

// Note is one sealed dataset.
type Note struct {
	Key   ledger.Key
	Place ledger.Place
	Meta  []byte // descriptor
}

// OpenIndex opens the index of the store's folder, or makes an empty one, and returns what a former agent noted.
// A file that is not an index is replaced: the datasets that it noted are lost, and recomputed.
func (s *Store) OpenIndex() (*Index, []Note, error) {
	path := filepath.Join(s.dir, indexName)
	fail := func(err error) (*Index, []Note, error) {
		return nil, nil, fmt.Errorf("open index of sealed datasets: %w", err)
	}
	f, err := s.sys.Open("index:open", path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return fail(err)
	}
	x := &Index{sys: s.sys, f: f, at: map[ledger.Key]extent{}, free: map[int][]int{}}
	fi, err := f.Stat()
	if err == nil && fi.Size()%slotBytes == 0 && fi.Size() >= indexStart {
		err = x.remap(fi.Size())
	}
	if err == nil && (x.mem == nil || string(x.mem[:8]) != indexMagic) {
		err = errors.Join(x.unmap(), s.sys.Truncate("index:truncate", f, 0), x.grow(indexStart))
		if err == nil {
			copy(x.mem, indexMagic)
		}
	}
	if err != nil {
		return fail(errors.Join(err, x.Close()))
	}
	return x, x.load(), nil
}

func (x *Index) remap(n int64) error {
	mem, err := mapRange(x.f, n, n, unix.PROT_READ|unix.PROT_WRITE)
	if err == nil {
		err = x.unmap()
		x.mem = mem
	}
	return err
}

func (x *Index) unmap() error {
	mem := x.mem
	if x.mem = nil; mem == nil {
		return nil
	}
	return unix.Munmap(mem)
}

// grow reserves memory before it is mapped: a full tmpfs is an error and no SIGBUS.
func (x *Index) grow(n int64) error {
	if err := x.sys.Reserve("index:reserve", x.f, 0, n); err != nil {
		return fmt.Errorf("reserve %d bytes: %w", n, err)
	}
	return x.remap(n)
}

// Close lets go of the file, which stays.
func (x *Index) Close() error {
	if err := errors.Join(x.unmap(), x.f.Close()); err != nil {
		return fmt.Errorf("close index of sealed datasets: %w", err)
	}
	return nil
}

// slots returns the bytes of n slots from first on, nil when the file has fewer.
func (x *Index) slots(first, n int) []byte {
	from := indexHead + first*slotBytes
	if first < 0 || n < 0 || n > (len(x.mem)-from)/slotBytes {
		return nil
	}
	return x.mem[from : from+n*slotBytes]
}

const indexHead = 64

func (x *Index) mark(first int) *atomic.Uint64 {
	return (*atomic.Uint64)(unsafe.Pointer(&x.mem[indexHead+first*slotBytes]))
}

func noteMark(body []byte, first int) uint64 { return max(1, xxh3.HashSeed(body, uint64(first))) }

// Enter notes that a sealed dataset lies at a place. An error means that it is not noted, and so not adopted by a
// successor; nothing else suffers.
func (x *Index) Enter(k ledger.Key, p ledger.Place, meta []byte) error {
	fail := func(err error) error { return fmt.Errorf("note sealed dataset %v: %w", k, err) }
	if _, ok := x.at[k]; ok {
		return fail(fs.ErrExist)
	}
	if len(meta) > maxNoteMeta {
		return fail(fmt.Errorf("its descriptor of %d bytes is longer than %d: %w", len(meta), maxNoteMeta, ErrBounds))
	}
	n := (noteHead + len(meta) + slotBytes - 1) / slotBytes
	first, err := x.take(n)
	if err != nil {
		return fail(err)
	}
	b := x.slots(first, n)
	x.mark(first).Store(0) // a slot that lay within another note may hold anything
	le := binary.LittleEndian
	le.PutUint32(b[8:], uint32(n))
	le.PutUint32(b[12:], uint32(len(meta)))
	copy(b[16:], k[:])
	le.PutUint64(b[48:], uint64(p.Segment))
	le.PutUint64(b[56:], uint64(p.Offset))
	le.PutUint64(b[64:], uint64(p.Bytes))
	copy(b[noteHead:], meta)
	x.mark(first).Store(noteMark(b[8:noteHead+len(meta)], first))
	x.at[k] = extent{first, n}
	return nil
}

// take finds n slots in a row: those of a struck note, or behind the last.
func (x *Index) take(n int) (int, error) {
	if free := x.free[n]; len(free) > 0 {
		x.free[n] = free[:len(free)-1]
		return free[len(free)-1], nil
	}
	if x.slots(x.end, n) == nil {
		if err := x.grow(2 * int64(len(x.mem))); err != nil {
			return 0, err
		}
	}
	x.end += n
	return x.end - n, nil
}

// Strike ends a note; without one it has no effect.
func (x *Index) Strike(k ledger.Key) {
	e, ok := x.at[k]
	if !ok {
		return
	}
	x.mark(e.first).Store(0)
	delete(x.at, k)
	x.free[e.slots] = append(x.free[e.slots], e.first)
}

// load reads all whole notes.
func (x *Index) load() (notes []Note) {
	total := (len(x.mem) - indexHead) / slotBytes
	for i := 0; i < total; {
		note, n, ok := x.read(i)
		if _, twice := x.at[note.Key]; !ok || twice {
			i++ // what is not noted is free once a note lies behind it; the few slots between are never used again
			continue
		}
		x.at[note.Key] = extent{i, n}
		notes = append(notes, note)
		i += n
		x.end = i
	}
	return notes
}

// read reads the note that begins at a slot, if there is one. Every length is checked before it is used.
func (x *Index) read(first int) (note Note, n int, ok bool) {
	mark := x.mark(first).Load()
	if mark == 0 {
		return note, 0, false
	}
	le := binary.LittleEndian
	head := x.slots(first, 1)
	n, meta := int(le.Uint32(head[8:])), int(le.Uint32(head[12:]))
	b := x.slots(first, n)
	if meta > maxNoteMeta || n != (noteHead+meta+slotBytes-1)/slotBytes || b == nil || noteMark(b[8:noteHead+meta], first) != mark {
		return note, 0, false
	}
	note.Key = ledger.Key(b[16:48])
	note.Place = ledger.Place{Segment: ledger.SegmentID(le.Uint64(b[48:])), Offset: int64(le.Uint64(b[56:])), Bytes: int64(le.Uint64(b[64:]))}
	note.Meta = append([]byte(nil), b[noteHead:noteHead+meta]...)
	return note, n, true
}

// Confirm tells which notes the segments bear out, and finishes what was under way when the agent died: a file of
// a dataset is cut to its length and made read-only. All processes that could write must be dead. why says what
// is wrong with the others, which are struck.
func (s *Store) Confirm(x *Index, notes []Note) (good []Note, why []error) {
	for _, n := range notes {
		if err := s.confirm(n); err != nil {
			x.Strike(n.Key)
			why = append(why, fmt.Errorf("dataset %v at %d+%d of segment %d: %w", n.Key, n.Place.Offset, n.Place.Bytes, n.Place.Segment, err))
			continue
		}
		good = append(good, n)
	}
	return good, why
}

func (s *Store) confirm(n Note) error {
	p := n.Place
	if p.Offset < 0 || p.Bytes < 0 || p.Offset > p.Offset+p.Bytes {
		return ErrBounds
	}
	path, err := s.find(p.Segment)
	if err != nil {
		return err
	}
	fi, err := os.Lstat(path)
	switch kind, _, _ := parseName(filepath.Base(path)); {
	case err != nil:
		return err
	case !fi.Mode().IsRegular() || p.Offset+p.Bytes > fi.Size():
		return fmt.Errorf("it is %v of %d bytes: %w", fi.Mode(), fi.Size(), ErrBounds)
	case kind != ledger.Arena:
		return s.Seal(p.Segment, kind, p.Bytes)
	}
	return nil
}
