package shm

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"

	"github.com/cascade-run/cascade/internal/diskspace"
	"github.com/cascade-run/cascade/internal/safedir"
	"github.com/cascade-run/cascade/shm/ledger"
)

// Errors that the package wraps.
var (
	// ErrCorrupt: a spill file is not what was written.
	ErrCorrupt = errors.New("corrupt spill file")
	// ErrBounds: a range leaves its file, mapping or lease.
	ErrBounds = errors.New("outside of the shared memory")
	// ErrClosed: the store, mapper or lease is closed.
	ErrClosed = errors.New("closed")
	// ErrLeaseFull: the lease has no room for the allocation.
	ErrLeaseFull = errors.New("lease is full")
)

// Options say where a store lives.
type Options struct {
	Root     string           // tmpfs folder; "" means DefaultRoot
	Name     string           // of the agent; letters, digits, '-', '_' and '.'; all users of the host can see it
	SpillDir string           // folder on disk for spill files, made when missing
	Floors   diskspace.Floors // free bytes of its disk that spilled datasets leave; zero: none
	System   System
}

// Store performs the ledger's effects on files. Calls for different segments and keys may run at the same
// time; calls for one segment must keep the ledger's order.
type Store struct {
	dir, spill string
	floors     diskspace.Floors
	sys        System
	lockFile   *os.File
	mu         sync.Mutex
	closed     bool
}

const lockName = "lock"

// OpenStore makes or takes over the folder cascade-<uid>-<name>. Files that a former agent of the same name left
// in it stays until Close or RemoveStale; a second living agent of this name is refused.
func OpenStore(o Options) (*Store, error) {
	if o.Root == "" {
		o.Root = DefaultRoot
	}
	if !validName(o.Name) {
		return nil, fmt.Errorf("open store: name %q: use letters, digits, '-', '_' and '.' only", o.Name)
	}
	s := &Store{sys: o.System.withDefaults(), spill: o.SpillDir, floors: o.Floors}
	s.dir = filepath.Join(o.Root, fmt.Sprintf("cascade-%d-%s", os.Getuid(), o.Name))
	// /dev/shm is open to all users: a folder of this name may be another user's trap.
	if err := safedir.Private(s.dir); err != nil {
		return nil, fmt.Errorf("open store: %w", err)
	}
	if s.spill != "" {
		if err := safedir.Own(s.spill); err != nil {
			return nil, fmt.Errorf("open store: spill folder: %w", err)
		}
	}
	var err error
	s.lockFile, err = s.sys.Open("open:lock", filepath.Join(s.dir, lockName), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open store: %w", err)
	}
	if err := lock(s.lockFile); err != nil {
		s.lockFile.Close()
		return nil, fmt.Errorf("open store: %w", err)
	}
	return s, nil
}

func validName(name string) bool {
	ok := func(c rune) bool {
		return c == '-' || c == '_' || c == '.' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
	}
	return name != "" && len(name) <= 100 && !bytes.ContainsFunc([]byte(name), func(c rune) bool { return !ok(c) })
}

// Dir is the folder of the segments; executors get it once.
func (s *Store) Dir() string { return s.dir }

// SegmentName is the file name of a segment within Dir.
func SegmentName(kind ledger.Kind, id ledger.SegmentID) string {
	return kind.String()[:1] + strconv.FormatUint(uint64(id), 10)
}

// Path is where a segment is, or where a command shall write an output.
func (s *Store) Path(kind ledger.Kind, id ledger.SegmentID) string {
	return filepath.Join(s.dir, SegmentName(kind, id))
}

// OutputFolder is the folder in which a command writes an output, given the path of its segment. Files
// that the command leaves there beside the output are removed with the folder.
func OutputFolder(segment string) string { return segment + outputFolder }

const outputFolder = ".d"

// RemoveOutputFolders removes what commands left that were killed together with their agent.
func (s *Store) RemoveOutputFolders() error {
	dirs, err := filepath.Glob(filepath.Join(s.dir, ledger.Output.String()[:1]+"[0-9]*"+outputFolder))
	for _, dir := range dirs {
		err = errors.Join(err, safedir.Remove(dir))
	}
	if err != nil {
		return fmt.Errorf("remove folders of outputs: %w", err)
	}
	return nil
}

func parseName(name string) (kind ledger.Kind, id ledger.SegmentID, ok bool) {
	n, err := strconv.ParseUint(name[min(1, len(name)):], 10, 64)
	for kind = ledger.Arena; kind <= ledger.Output; kind++ {
		if err == nil && name == SegmentName(kind, ledger.SegmentID(n)) {
			return kind, ledger.SegmentID(n), true
		}
	}
	return 0, 0, false
}

// find returns the path of an existing segment, whatever its kind.
func (s *Store) find(id ledger.SegmentID) (string, error) {
	for kind := ledger.Arena; kind <= ledger.Output; kind++ {
		p := s.Path(kind, id)
		if _, err := os.Lstat(p); err == nil {
			return p, nil
		}
	}
	return "", fmt.Errorf("segment %d in %s: %w", id, s.dir, fs.ErrNotExist)
}

// Create makes a segment with all its bytes reserved, so that a full tmpfs is an error here and not a
// SIGBUS later. After an error nothing is left behind.
func (s *Store) Create(id ledger.SegmentID, kind ledger.Kind, n int64) error {
	path := s.Path(kind, id)
	f, err := s.sys.Open("create:open", path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return fmt.Errorf("create segment %d of %d bytes: %w", id, n, err)
	}
	defer f.Close()
	if err := s.sys.Reserve("create:reserve", f, 0, n); err != nil {
		return errors.Join(fmt.Errorf("create segment %d: reserve %d bytes of %s: %w", id, n, s.dir, err), s.sys.Remove("create:remove", path))
	}
	return nil
}

// Resize prepares a recycled file for n bytes: pages that it has stay warm, missing ones are reserved. All pages
// below its present end are there: Create reserved them, and to go over them again takes as long as to write to
// them. When nothing has to be done to the size it costs two system calls.
func (s *Store) Resize(id ledger.SegmentID, n int64) error {
	path := s.Path(ledger.File, id)
	err := s.sys.Chmod("resize:chmod", path, 0o600)
	if err != nil {
		return fmt.Errorf("resize segment %d: %w", id, err)
	}
	fi, err := os.Lstat(path)
	if err != nil {
		return fmt.Errorf("resize segment %d: %w", id, err)
	}
	if fi.Size() == n {
		return nil
	}
	f, err := s.sys.Open("resize:open", path, os.O_RDWR, 0)
	if err != nil {
		return fmt.Errorf("resize segment %d: %w", id, err)
	}
	defer f.Close()
	if err := s.sys.Truncate("resize:truncate", f, n); err != nil {
		return fmt.Errorf("resize segment %d to %d bytes: %w", id, n, err)
	}
	if fi.Size() < n {
		if err := s.sys.Reserve("resize:reserve", f, fi.Size(), n-fi.Size()); err != nil {
			return fmt.Errorf("resize segment %d: reserve %d bytes: %w", id, n-fi.Size(), err)
		}
	}
	return nil
}

// Fits tells whether a recycled file has exactly this size, so that Resize has next to nothing to do.
func (s *Store) Fits(id ledger.SegmentID, n int64) bool {
	fi, err := os.Lstat(s.Path(ledger.File, id))
	return err == nil && fi.Size() == n
}

// Seal cuts a file segment to its dataset's exact length and makes it read-only, so that any program of
// this user can open it. The writer must have unmapped it.
func (s *Store) Seal(id ledger.SegmentID, kind ledger.Kind, n int64) error {
	path := s.Path(kind, id)
	fi, err := os.Lstat(path)
	switch {
	case err != nil:
	case fi.Size() < n:
		err = fmt.Errorf("it has %d bytes, not %d: %w", fi.Size(), n, ErrBounds)
	case fi.Size() > n:
		err = s.cut(path, n)
	case fi.Mode().Perm()&0o222 == 0: // SealOutput has done it
		return nil
	}
	if err == nil {
		err = s.sys.Chmod("seal:chmod", path, 0o400)
	}
	if err != nil {
		return fmt.Errorf("seal segment %d: %w", id, err)
	}
	return nil
}

func (s *Store) cut(path string, n int64) error {
	f, err := s.sys.Open("seal:open", path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	return errors.Join(s.sys.Truncate("seal:truncate", f, n), f.Close())
}

// SealOutput takes over a file that a command wrote, as the segment that was leased for it, and returns
// its length. The file is moved in when it lies elsewhere on the same file system, else copied. Symbolic
// links and special files are refused: their content is not the task's.
func (s *Store) SealOutput(id ledger.SegmentID, path string) (int64, error) {
	fail := func(err error) (int64, error) { return 0, fmt.Errorf("seal output %s: %w", path, err) }
	fi, err := os.Lstat(path)
	if err != nil {
		return fail(err)
	}
	if !fi.Mode().IsRegular() {
		return fail(fmt.Errorf("it is not a regular file but %s", FileKind(fi.Mode())))
	}
	to := s.Path(ledger.Output, id)
	if path != to {
		var err error
		if links(fi) > 1 { // another name could still change it
			err = s.copyIn(to, path)
		} else if err = s.sys.Rename("output:rename", path, to); isCrossDevice(err) {
			err = s.copyIn(to, path)
		}
		if err != nil {
			return fail(err)
		}
	}
	if err := s.sys.Chmod("output:chmod", to, 0o400); err != nil {
		return fail(err)
	}
	if fi, err = os.Lstat(to); err != nil {
		return fail(err)
	}
	return fi.Size(), nil
}

// copyIn copies a whole file into a new file of the store.
func (s *Store) copyIn(to, from string) error {
	src, err := s.sys.Open("output:source", from, os.O_RDONLY, 0)
	if err != nil {
		return err
	}
	defer src.Close()
	fi, err := src.Stat()
	if err != nil {
		return err
	}
	dst, err := s.sys.Open("output:open", to, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	defer dst.Close()
	if n := fi.Size(); n > 0 {
		if err = s.sys.Reserve("output:reserve", dst, 0, n); err == nil {
			err = s.copy("output", dst, 0, src, 0, n, nil)
		}
	}
	if err != nil {
		return errors.Join(err, s.sys.Remove("output:remove", to))
	}
	return nil
}

func (s *Store) openSegment(op string, id ledger.SegmentID, flag int) (*os.File, error) {
	path, err := s.find(id)
	if err != nil {
		return nil, err
	}
	return s.sys.Open(op, path, flag, 0)
}

// Remove gives a segment's memory back, even when a process still maps it, and removes its file, of an
// output also its folder. A file that a reader has locked is removed alone: the machine gets its memory back
// with the end of the reader's mapping. A file that is not there is no error.
func (s *Store) Remove(id ledger.SegmentID) error {
	path, err := s.find(id)
	output := s.Path(ledger.Output, id)
	if errors.Is(err, fs.ErrNotExist) {
		return safedir.Remove(OutputFolder(output)) // its executor died, unless there was never any
	}
	if err != nil {
		return err
	}
	err = s.removePath(path)
	if path == output {
		err = errors.Join(err, safedir.Remove(OutputFolder(output)))
	}
	return err
}

func (s *Store) removePath(path string) error {
	fi, err := os.Lstat(path)
	if err != nil {
		return fmt.Errorf("remove segment: %w", err)
	}
	if fi.Mode().IsRegular() && fi.Size() > 0 {
		err = s.sys.Chmod("remove:chmod", path, 0o600)
		var f *os.File
		if err == nil {
			f, err = s.sys.Open("remove:open", path, os.O_RDWR, 0)
		}
		if err == nil {
			defer f.Close() // not before the name is gone: who opens the file meanwhile must not get a lock
			if !viewed(f) {
				err = s.sys.Punch("remove:punch", f, fi.Size())
			}
		}
	}
	if err := errors.Join(err, s.sys.Remove("remove:unlink", path)); err != nil {
		return fmt.Errorf("remove segment: %w", err)
	}
	return nil
}

// Segments lists what is in the folder, for ledger.Adopt.
func (s *Store) Segments() ([]ledger.AdoptedSegment, error) {
	entries, err := os.ReadDir(s.dir)
	if err != nil {
		return nil, fmt.Errorf("list segments: %w", err)
	}
	var out []ledger.AdoptedSegment
	for _, e := range entries {
		kind, id, ok := parseName(e.Name())
		fi, err := e.Info()
		if !ok || err != nil || !fi.Mode().IsRegular() {
			continue
		}
		out = append(out, ledger.AdoptedSegment{ID: id, Kind: kind, Bytes: fi.Size()})
	}
	slices.SortFunc(out, func(a, b ledger.AdoptedSegment) int { return int(min(max(int64(a.ID)-int64(b.ID), -1), 1)) })
	return out, nil
}

// RemoveStale removes all segments: for a start after which nothing shall be adopted.
func (s *Store) RemoveStale() error {
	segs, err := s.Segments()
	if err != nil {
		return err
	}
	var errs []error
	for _, a := range segs {
		errs = append(errs, s.removePath(s.Path(a.Kind, a.ID)))
	}
	return errors.Join(errs...)
}

// Do performs one effect that the ledger asks of its driver. meta is the descriptor to store with a Spill.
// The caller answers the ledger with the result; effects that are news for the caller are an error.
func (s *Store) Do(e ledger.Effect, meta []byte) error {
	switch e := e.(type) {
	case ledger.CreateSegment:
		return s.Create(e.Segment, e.Kind, e.Bytes)
	case ledger.ResizeSegment:
		return s.Resize(e.Segment, e.Bytes)
	case ledger.SealSegment:
		return s.Seal(e.Segment, e.Kind, e.Bytes)
	case ledger.RemoveSegment:
		return s.Remove(e.Segment)
	case ledger.Spill:
		return s.Spill(e.Key, meta, e.From)
	case ledger.ReadBack:
		return s.ReadBack(e.Key, e.To)
	case ledger.DropSpill:
		return s.DropSpill(e.Key)
	case ledger.FreedRange:
		return s.Poison(e.Place)
	}
	return fmt.Errorf("shm: %T is not for the store", e)
}

// Poison overwrites a freed range, in check builds only.
func (s *Store) Poison(p ledger.Place) error {
	if !checked {
		return nil
	}
	path, err := s.find(p.Segment)
	var fi fs.FileInfo
	if err == nil {
		fi, err = os.Lstat(path)
	}
	if err == nil && fi.Mode().Perm()&0o200 == 0 { // a sealed file in the pool; its next user gets it through Resize
		err = s.sys.Chmod("poison:chmod", path, 0o600)
	}
	if err != nil {
		return fmt.Errorf("poison: %w", err)
	}
	p.Bytes = min(p.Bytes, max(0, fi.Size()-p.Offset)) // a sealed file ends with its dataset
	f, err := s.sys.Open("poison:open", path, os.O_RDWR, 0)
	if err != nil {
		return fmt.Errorf("poison: %w", err)
	}
	defer f.Close()
	bad := bytes.Repeat([]byte{poison}, 1<<16)
	for off := p.Offset; off < p.Offset+p.Bytes; off += int64(len(bad)) {
		if _, err := s.sys.Write("poison:write", f, bad[:min(int64(len(bad)), p.Offset+p.Bytes-off)], off); err != nil {
			return fmt.Errorf("poison: %w", err)
		}
	}
	return nil
}

// poison is what freed bytes read as in check builds.
const poison = 0xDB

// Close removes all segments and the folder. Spill files stay: ListSpilled and DropSpill care for them.
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	err := s.RemoveStale()
	if rerr := safedir.Remove(s.dir); rerr != nil {
		err = errors.Join(err, rerr)
	}
	if err := errors.Join(err, s.lockFile.Close()); err != nil {
		return fmt.Errorf("close store: %w", err)
	}
	return nil
}

// Leave closes the store and keeps the segments, for the next agent of the same name.
func (s *Store) Leave() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	return s.lockFile.Close()
}

// FileKind names what a file is that is no regular one.
func FileKind(mode fs.FileMode) string {
	switch {
	case mode.IsDir():
		return "a folder"
	case mode&fs.ModeSymlink != 0:
		return "a symbolic link"
	case mode&fs.ModeNamedPipe != 0:
		return "a pipe"
	case mode&fs.ModeSocket != 0:
		return "a socket"
	case mode&fs.ModeDevice != 0:
		return "a device"
	}
	return "a special file"
}
