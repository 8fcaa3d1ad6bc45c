package shm

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/cascade-run/cascade/internal/diskspace"
	"github.com/cascade-run/cascade/shm/ledger"
)

// roots are a tmpfs and an ordinary folder: the store must work on both.
func roots(t *testing.T) map[string]string {
	tmpfs, err := os.MkdirTemp(DefaultRoot, "cascade-test-")
	if err != nil {
		t.Skipf("no %s: %v", DefaultRoot, err)
	}
	t.Cleanup(func() { os.RemoveAll(tmpfs) })
	return map[string]string{"tmpfs": tmpfs, "disk": t.TempDir()}
}

func openStore(t testing.TB, root string, sys System) *Store {
	t.Helper()
	s, err := OpenStore(Options{Root: root, Name: "t", SpillDir: filepath.Join(root, "spill"), System: sys})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func must(t interface {
	Helper()
	Fatal(...any)
}, err error,
) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func testKey(i int) ledger.Key { return ledger.DatasetKey([16]byte{1}, 2, 3, uint64(i)) }

// fill leases a region, writes data there and closes it.
func fill(t testing.TB, m *Mapper, name string, off int64, data []byte) {
	t.Helper()
	page := int64(os.Getpagesize())
	l, err := m.Lease(name, off, (int64(len(data))+page-1)/page*page)
	must(t, err)
	b, at, err := l.Alloc(int64(len(data)), 64)
	must(t, err)
	if at != off {
		t.Fatalf("allocated at %d, leased at %d", at, off)
	}
	copy(b, data)
	must(t, l.Seal(false))
	must(t, l.Close())
}

func pattern(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i*7 + i>>8)
	}
	return b
}

func TestLifeOfADataset(t *testing.T) {
	for name, root := range roots(t) {
		t.Run(name, func(t *testing.T) {
			s := openStore(t, root, System{})
			m := NewMapper(s.Dir(), 0)
			data := pattern(3<<20 + 17)
			must(t, s.Create(1, ledger.Arena, 8<<20))
			fill(t, m, "a1", 1<<20, data)
			v, err := m.View("a1", 1<<20, int64(len(data)))
			must(t, err)
			if !bytes.Equal(v.Bytes, data) {
				t.Fatal("the view differs from what was written")
			}
			v.Release()
			place := ledger.Place{Segment: 1, Offset: 1 << 20, Bytes: int64(len(data))}
			must(t, s.Spill(testKey(1), []byte("f64[3]"), place))
			must(t, s.Create(2, ledger.File, 4<<20))
			must(t, s.ReadBack(testKey(1), ledger.Place{Segment: 2, Bytes: int64(len(data))}))
			got, err := os.ReadFile(s.Path(ledger.File, 2)) // as a command would
			must(t, err)
			if !bytes.Equal(got, data) {
				t.Fatal("the file differs from what was written")
			}
			if fi, _ := os.Stat(s.Path(ledger.File, 2)); fi.Mode().Perm() != 0o400 {
				t.Fatalf("sealed file has mode %v", fi.Mode())
			}
			must(t, s.Seal(2, ledger.File, int64(len(data)))) // a second time changes nothing
			list, bad, err := s.ListSpilled()
			if err != nil || len(bad) > 0 || len(list) != 1 || string(list[0].Meta) != "f64[3]" || list[0].Bytes != place.Bytes || list[0].Key != testKey(1) {
				t.Fatalf("ListSpilled: %v %v %v", list, bad, err)
			}
			must(t, s.Resize(2, 8<<20)) // recycled for a larger dataset
			fill(t, m, "f2", 0, pattern(8<<20))
			must(t, s.Remove(2))
			must(t, s.Remove(2))
			must(t, s.DropSpill(testKey(1)))
			must(t, s.DropSpill(testKey(1)))
			must(t, m.Close())
		})
	}
}

// The folder of an output goes with the output, also when the output never came.
func TestFoldersOfOutputs(t *testing.T) {
	s := openStore(t, t.TempDir(), System{})
	folder := func(id ledger.SegmentID) string {
		dir := OutputFolder(s.Path(ledger.Output, id))
		must(t, os.MkdirAll(filepath.Join(dir, "sub"), 0o700))
		must(t, os.WriteFile(filepath.Join(dir, "sub", "left"), []byte("x"), 0o400))
		must(t, os.Chmod(filepath.Join(dir, "sub"), 0))
		return dir
	}
	with, without, swept := folder(1), folder(2), folder(3)
	must(t, os.WriteFile(s.Path(ledger.Output, 1), []byte("12345"), 0o400))
	must(t, os.WriteFile(s.Path(ledger.Output, 4), []byte("12345"), 0o400))
	if segs, err := s.Segments(); err != nil || len(segs) != 2 {
		t.Errorf("segments are %v, %v", segs, err)
	}
	must(t, s.Remove(1))
	must(t, s.Remove(2))
	for _, dir := range []string{with, without} {
		if _, err := os.Lstat(dir); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %v", dir, err)
		}
	}
	must(t, s.RemoveOutputFolders())
	if _, err := os.Lstat(swept); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%s: %v", swept, err)
	}
	if _, err := os.Lstat(s.Path(ledger.Output, 4)); err != nil {
		t.Errorf("a sealed output went with them: %v", err)
	}
}

func TestStoreIsExclusiveAndAdoptable(t *testing.T) {
	root := t.TempDir()
	o := Options{Root: root, Name: "x"}
	s, err := OpenStore(o)
	must(t, err)
	if _, err := OpenStore(o); err == nil || !strings.Contains(err.Error(), "another agent") {
		t.Fatalf("a second agent was let in: %v", err)
	}
	must(t, s.Create(7, ledger.Arena, 1<<16))
	must(t, s.Create(9, ledger.File, 5000))
	must(t, os.WriteFile(filepath.Join(s.Dir(), "a007"), nil, 0o600)) // not a name of ours
	must(t, s.Leave())
	s, err = OpenStore(o)
	must(t, err)
	segs, err := s.Segments()
	must(t, err)
	want := []ledger.AdoptedSegment{{ID: 7, Kind: ledger.Arena, Bytes: 1 << 16}, {ID: 9, Kind: ledger.File, Bytes: 5000}}
	if fmt.Sprint(segs) != fmt.Sprint(want) {
		t.Fatalf("segments %v, want %v", segs, want)
	}
	must(t, s.Close())
	if _, err := os.Stat(s.Dir()); !os.IsNotExist(err) {
		t.Fatalf("folder remains after Close: %v", err)
	}
}

func TestOpenStoreRefuses(t *testing.T) {
	root := t.TempDir()
	must(t, os.Symlink(t.TempDir(), filepath.Join(root, fmt.Sprintf("cascade-%d-link", os.Getuid()))))
	must(t, os.Mkdir(filepath.Join(root, fmt.Sprintf("cascade-%d-open", os.Getuid())), 0o755))
	for _, name := range []string{"", "a/b", "..\x00", "link", "open"} {
		if s, err := OpenStore(Options{Root: root, Name: name}); err == nil {
			s.Close()
			t.Errorf("opened as %q", name)
		}
	}
}

func TestOutputs(t *testing.T) {
	root := t.TempDir()
	s := openStore(t, root, System{})
	write := func(path string) string {
		must(t, os.WriteFile(path, []byte("made by a command"), 0o644))
		return path
	}
	inPlace := write(s.Path(ledger.Output, 1))
	outside := write(filepath.Join(root, "out.txt"))
	linked := write(filepath.Join(root, "linked.txt"))
	must(t, os.Link(linked, filepath.Join(root, "other")))
	for i, path := range []string{inPlace, outside, linked} {
		id := ledger.SegmentID(i + 1)
		n, err := s.SealOutput(id, path)
		if err != nil || n != 17 {
			t.Fatalf("SealOutput(%s) = %d, %v", path, n, err)
		}
		must(t, s.Do(ledger.SealSegment{Segment: id, Kind: ledger.Output, Bytes: n}, nil))
		fi, err := os.Stat(s.Path(ledger.Output, id))
		must(t, err)
		if fi.Mode().Perm() != 0o400 || links(fi) != 1 {
			t.Errorf("%s: mode %v, %d names", path, fi.Mode(), links(fi))
		}
	}
	must(t, os.Symlink("/etc/passwd", filepath.Join(root, "sly")))
	for _, path := range []string{filepath.Join(root, "sly"), root, filepath.Join(root, "missing")} {
		if _, err := s.SealOutput(9, path); err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("SealOutput(%s): %v", path, err)
		}
	}
}

// failing returns a System in which the call with this label fails.
func failing(label string, cause error) System {
	sys := System{}.withDefaults()
	fail := func(op string) error {
		if op == label {
			return &os.PathError{Op: op, Path: "injected", Err: cause}
		}
		return nil
	}
	return System{
		Open: func(op, path string, flag int, perm os.FileMode) (*os.File, error) {
			if err := fail(op); err != nil {
				return nil, err
			}
			return sys.Open(op, path, flag, perm)
		},
		Reserve: func(op string, f *os.File, off, n int64) error {
			return errors.Join(fail(op), sys.Reserve(op, f, off, n))
		},
		Truncate: func(op string, f *os.File, n int64) error { return errors.Join(fail(op), sys.Truncate(op, f, n)) },
		Chmod: func(op, path string, perm os.FileMode) error {
			return errors.Join(fail(op), sys.Chmod(op, path, perm))
		},
		Rename: func(op, from, to string) error {
			if err := fail(op); err != nil {
				return err
			}
			return sys.Rename(op, from, to)
		},
		Read: func(op string, f *os.File, b []byte, off int64) (int, error) {
			n, err := sys.Read(op, f, b, off)
			if ferr := fail(op); ferr != nil {
				return n / 2, ferr
			}
			return n, err
		},
		Write: func(op string, f *os.File, b []byte, off int64) (int, error) {
			if err := fail(op); err != nil {
				n, _ := sys.Write(op, f, b[:len(b)/2], off)
				return n, err
			}
			return sys.Write(op, f, b, off)
		},
	}
}

func TestFullMemoryAndDiskAreErrors(t *testing.T) {
	for label, cause := range map[string]error{
		"create:open": syscall.EMFILE, "create:reserve": syscall.ENOSPC, "resize:reserve": syscall.ENOSPC,
		"resize:truncate": syscall.EIO, "seal:truncate": syscall.EIO, "seal:chmod": syscall.EPERM,
		"spill:open": syscall.ENOSPC, "spill:read": syscall.EIO, "spill:write": syscall.ENOSPC, "spill:header": syscall.ENOSPC,
		"spill:rename": syscall.ENOSPC, "readback:open": syscall.EMFILE, "readback:read": syscall.EIO, "readback:write": syscall.ENOSPC,
	} {
		t.Run(label, func(t *testing.T) {
			root := t.TempDir()
			good, k := openStore(t, root, System{}), testKey(1)
			op, _, _ := strings.Cut(label, ":")
			place := ledger.Place{Segment: 1, Bytes: 3 << 20}
			if op != "create" {
				must(t, good.Create(1, ledger.File, 4<<20))
			}
			if op == "readback" {
				must(t, good.Spill(k, nil, place))
			}
			must(t, good.Leave())
			s := openStore(t, root, failing(label, cause))
			err := s.Do(map[string]ledger.Effect{
				"create": ledger.CreateSegment{Segment: 1, Kind: ledger.File, Bytes: 4 << 20}, "resize": ledger.ResizeSegment{Segment: 1, Bytes: 5 << 20},
				"seal": ledger.SealSegment{Segment: 1, Kind: ledger.File, Bytes: 100}, "spill": ledger.Spill{Key: k, From: place},
				"readback": ledger.ReadBack{Key: k, To: place},
			}[op], nil)
			if !errors.Is(err, cause) {
				t.Fatalf("error %v does not wrap %v", err, cause)
			}
			if op == "create" {
				if segs, _ := s.Segments(); len(segs) > 0 {
					t.Errorf("segments %v remain", segs)
				}
			}
			if files, _ := filepath.Glob(filepath.Join(root, "spill", "*")); op == "spill" && len(files) > 0 {
				t.Errorf("files %v remain", files)
			}
		})
	}
}

func TestReserveMoreThanThereIs(t *testing.T) {
	for name, root := range roots(t) {
		t.Run(name, func(t *testing.T) {
			s := openStore(t, root, System{})
			if err := s.Create(1, ledger.Arena, 1<<50); err == nil {
				t.Fatal("a petabyte was reserved")
			}
			if segs, _ := s.Segments(); len(segs) > 0 {
				t.Errorf("segments %v remain", segs)
			}
		})
	}
}

func TestCorruptSpillFiles(t *testing.T) {
	s := openStore(t, t.TempDir(), System{})
	must(t, s.Create(1, ledger.Arena, 1<<16))
	k, place := testKey(1), ledger.Place{Segment: 1, Bytes: 10000}
	must(t, s.Spill(k, []byte("meta"), place))
	sound, err := os.ReadFile(s.SpillPath(k))
	must(t, err)
	for name, spoil := range map[string]func(b []byte) []byte{
		"empty":           func(b []byte) []byte { return nil },
		"cut in header":   func(b []byte) []byte { return b[:50] },
		"cut in data":     func(b []byte) []byte { return b[:len(b)-1] },
		"longer":          func(b []byte) []byte { return append(b, 0) },
		"magic":           func(b []byte) []byte { b[0]++; return b },
		"algorithm":       func(b []byte) []byte { b[8]++; return b },
		"key":             func(b []byte) []byte { b[20]++; return b },
		"descriptor":      func(b []byte) []byte { b[spillHead]++; return b },
		"huge descriptor": func(b []byte) []byte { b[15] = 0xFF; return b },
		"huge data":       func(b []byte) []byte { b[55] = 0xFF; return b },
		"data":            func(b []byte) []byte { b[len(b)/2]++; return b },
		"checksum":        func(b []byte) []byte { b[60]++; return b },
	} {
		t.Run(name, func(t *testing.T) {
			must(t, os.WriteFile(s.SpillPath(k), spoil(bytes.Clone(sound)), 0o600))
			err := s.ReadBack(k, place)
			if !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), s.SpillPath(k)) {
				t.Fatalf("ReadBack: %v", err)
			}
			list, bad, err := s.ListSpilled()
			if err != nil || len(list)+len(bad) != 1 || (name == "data") != (len(list) == 1) {
				t.Fatalf("ListSpilled: %v, %v, %v", list, bad, err)
			}
		})
	}
	must(t, os.WriteFile(s.SpillPath(testKey(2)), sound, 0o600)) // under another name
	must(t, os.WriteFile(s.SpillPath(testKey(3))+spillTemp, sound[:20], 0o600))
	must(t, os.WriteFile(s.SpillPath(k), sound, 0o600))
	list, bad, err := s.ListSpilled()
	if err != nil || len(list) != 1 || len(bad) != 1 || !strings.Contains(bad[0].Error(), s.SpillPath(testKey(2))) {
		t.Fatalf("ListSpilled: %v, %v, %v", list, bad, err)
	}
	if _, err := os.Stat(s.SpillPath(testKey(3)) + spillTemp); !os.IsNotExist(err) {
		t.Errorf("unfinished spill file remains: %v", err)
	}
}

func FuzzSpillHeader(f *testing.F) {
	f.Add(spillHeader{key: testKey(1), meta: []byte("f64[2 3]"), n: 5}.encode(), int64(spillHead+8+5))
	f.Add([]byte(spillMagic), int64(8))
	f.Fuzz(func(t *testing.T, b []byte, size int64) {
		h, err := decodeSpillHeader(bytes.NewReader(b), size)
		if err == nil && !bytes.HasPrefix(b, h.encode()) && len(b) >= spillHead {
			again, err := decodeSpillHeader(bytes.NewReader(h.encode()), size)
			if err != nil || again.n != h.n || again.key != h.key || !bytes.Equal(again.meta, h.meta) {
				t.Fatalf("header %+v encodes to %+v, %v", h, again, err)
			}
		}
	})
}

func TestSealTwiceAsAnOrdinaryUser(t *testing.T) { // who, unlike root, can not open a file of mode 0444 for writing
	s := openStore(t, t.TempDir(), failing("seal:open", os.ErrPermission))
	must(t, os.WriteFile(s.Path(ledger.File, 1), []byte("12345"), 0o444))
	must(t, s.Seal(1, ledger.File, 5))
	if err := s.Seal(1, ledger.File, 4); !errors.Is(err, os.ErrPermission) {
		t.Errorf("sealed with another length: %v", err)
	}
}

func TestSpillLeavesRoomOnTheDisk(t *testing.T) {
	const size = 1 << 20
	free := uint64(0)
	root := t.TempDir()
	s, err := OpenStore(Options{Root: root, Name: "t", SpillDir: filepath.Join(root, "spill"), Floors: diskspace.Above(16 << 20),
		System: System{Free: func(string, string) (uint64, error) { return free, nil }}})
	must(t, err)
	defer s.Close()
	must(t, s.Create(1, ledger.File, size))
	place := ledger.Place{Segment: 1, Bytes: size}
	for _, c := range []struct {
		free        uint64
		spill, keep bool
	}{
		{32<<20 + size + 1<<10, true, true},
		{32<<20 + size, false, true}, // the header has no room
		{20<<20 + size + 1<<10, false, true},
		{20<<20 + size, false, false},
		{0, false, false},
	} {
		free = c.free
		for what, err := range map[string]error{"spill": s.Spill(testKey(1), nil, place), "keep": s.Keep(testKey(2), nil, place)} {
			if want := map[string]bool{"spill": c.spill, "keep": c.keep}[what]; (err == nil) != want || err != nil && !errors.Is(err, diskspace.ErrLow) {
				t.Errorf("%s with %d bytes free: %v", what, c.free, err)
			}
		}
	}
}

// Who keeps a shared lock on a sealed file sees its bytes whatever becomes of the store; without one they are gone at once.
func TestLockedFilesKeepTheirBytes(t *testing.T) {
	data := pattern(3 * 4096)
	for _, tt := range []struct {
		name   string
		locked bool
		end    func(s *Store) error
	}{
		{"removed without a lock", false, func(s *Store) error { return s.Remove(1) }},
		{"removed", true, func(s *Store) error { return s.Remove(1) }},
		{"removed by a successor", true, func(s *Store) error { return s.RemoveStale() }},
		{"the store ends", true, (*Store).Close},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := openStore(t, roots(t)["tmpfs"], System{Punch: func(_ string, f *os.File, n int64) error {
				late, err := os.Open(f.Name())
				must(t, err)
				if unix.Flock(int(late.Fd()), unix.LOCK_SH|unix.LOCK_NB) == nil {
					t.Error("a reader locks a file whose bytes go")
				}
				return errors.Join(punch(f, n), late.Close())
			}})
			must(t, s.Create(1, ledger.File, int64(len(data))))
			path := s.Path(ledger.File, 1)
			must(t, os.WriteFile(path, data, 0))
			must(t, s.Seal(1, ledger.File, int64(len(data))))
			f, err := os.Open(path)
			must(t, err)
			defer f.Close()
			view, err := unix.Mmap(int(f.Fd()), 0, len(data), unix.PROT_READ, unix.MAP_SHARED)
			must(t, err)
			if tt.locked {
				must(t, unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB))
			}
			must(t, tt.end(s))
			if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("the file is there: %v", err)
			}
			if same := bytes.Equal(view, data); same != tt.locked {
				t.Errorf("the bytes are what they were: %v, want %v", same, tt.locked)
			}
			must(t, unix.Munmap(view))
		})
	}
}
