package shm

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/cascade-run/cascade/shm/ledger"
)

func openIndex(t testing.TB, s *Store) (*Index, map[ledger.Key]Note) {
	t.Helper()
	x, list, err := s.OpenIndex()
	must(t, err)
	notes := map[ledger.Key]Note{}
	for _, n := range list {
		notes[n.Key] = n
	}
	if len(notes) != len(list) {
		t.Fatalf("%d notes of %d datasets", len(list), len(notes))
	}
	return x, notes
}

// TestIndexAfterCrash makes notes and strikes them, and dies in the midst of one: after any prefix of the bytes
// that it would have written, in order. The next agent finds all that was whole before, and nothing else.
func TestIndexAfterCrash(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		root, err := os.MkdirTemp("", "index")
		must(t, err)
		defer os.RemoveAll(root)
		s, err := OpenStore(Options{Root: root, Name: "t"})
		must(t, err)
		defer s.Close()
		want := map[ledger.Key]Note{}
		for life := range rapid.IntRange(1, 4).Draw(t, "lives") {
			x, list, err := s.OpenIndex()
			must(t, err)
			got := map[ledger.Key]Note{}
			for _, n := range list {
				got[n.Key] = n
			}
			if !maps.EqualFunc(got, want, sameNote) || len(list) != len(want) {
				t.Fatalf("%d notes were left, %d are found: %v, %v", len(want), len(list), want, got)
			}
			next := 0
			for range rapid.IntRange(0, 60).Draw(t, "steps") {
				k := testKey(rapid.IntRange(0, 20).Draw(t, "key"))
				next++
				if _, there := want[k]; there {
					x.Strike(k)
					delete(want, k)
					continue
				}
				n := Note{k, ledger.Place{Segment: ledger.SegmentID(next), Offset: int64(next) << 40, Bytes: 7}, make([]byte, rapid.SampledFrom([]int{0, 1, 56, 57, 300, 9000}).Draw(t, "meta"))}
				for i := range n.Meta {
					n.Meta[i] = byte(i * next)
				}
				must(t, x.Enter(n.Key, n.Place, n.Meta))
				want[k] = n
			}
			before := bytes.Clone(x.mem)
			must(t, x.Enter(testKey(100), ledger.Place{Segment: 1}, bytes.Repeat([]byte{byte(life + 1)}, 200)))
			if len(x.mem) == len(before) {
				tear(before, x.mem, rapid.IntRange(0, 1).Draw(t, "mark") == 1, rapid.IntRange(0, 272).Draw(t, "written"))
			} else {
				x.Strike(testKey(100))
			}
			must(t, x.Close())
		}
	})
}

func sameNote(a, b Note) bool {
	return a.Key == b.Key && a.Place == b.Place && bytes.Equal(a.Meta, b.Meta)
}

// tear undoes what was written in mem since before, apart from the first bytes of each note that changed; with
// mark it leaves the mark, which no crash does.
func tear(before, mem []byte, mark bool, written int) {
	first := -1
	for i := range mem {
		if mem[i] == before[i] {
			continue
		}
		if first < 0 {
			first = i / slotBytes * slotBytes
		}
		at := i - first
		if isMark := at < 8; isMark && !mark || !isMark && (at >= written || written == 272) {
			mem[i] = before[i]
		}
	}
	if mark && written == 272 { // the body as it was, with the mark of another
		mem[first+9] ^= 1
	}
}

// TestIndexGrows: notes survive the growth of the file, and a full tmpfs is an error.
func TestIndexGrows(t *testing.T) {
	full := false
	s := openStore(t, t.TempDir(), System{Reserve: func(op string, f *os.File, off, n int64) error {
		if full {
			return os.ErrDeadlineExceeded
		}
		return reserve(f, off, n)
	}})
	x, _ := openIndex(t, s)
	n := 0
	for ; len(x.mem) < 4*indexStart; n++ {
		must(t, x.Enter(testKey(n), ledger.Place{Segment: 1, Bytes: int64(n)}, []byte("f64")))
	}
	full = true
	var err error
	for err == nil {
		n++
		err = x.Enter(testKey(n), ledger.Place{}, nil)
	}
	x.Strike(testKey(0))
	must(t, x.Enter(testKey(n), ledger.Place{}, []byte("f32")))
	count := len(x.at)
	must(t, x.Close())
	x, notes := openIndex(t, s)
	defer x.Close()
	if len(notes) != count || notes[testKey(1000)].Place.Bytes != 1000 {
		t.Errorf("%d notes of %d", len(notes), count)
	}
}

// TestConfirm: what the segments do not bear out is struck.
func TestConfirm(t *testing.T) {
	s := openStore(t, t.TempDir(), System{})
	must(t, s.Create(1, ledger.Arena, 8192))
	must(t, s.Create(2, ledger.File, 8192))
	must(t, s.Create(3, ledger.File, 4096))
	x, _ := openIndex(t, s)
	defer x.Close()
	var notes []Note
	for i, p := range []ledger.Place{{Segment: 1, Bytes: 8192}, {Segment: 1, Offset: 8000, Bytes: 193}, {Segment: 2, Bytes: 5000}, {Segment: 3, Bytes: 4097},
		{Segment: 4, Bytes: 1}, {Segment: 1, Offset: -1, Bytes: 1}, {Segment: 1, Offset: 1, Bytes: 1<<63 - 1}} {
		must(t, x.Enter(testKey(i), p, nil))
		notes = append(notes, Note{testKey(i), p, nil})
	}
	good, why := s.Confirm(x, notes)
	if len(good) != 2 || good[0].Key != testKey(0) || good[1].Key != testKey(2) || len(why) != 5 || len(x.at) != 2 {
		t.Errorf("good %v, others %v, %d notes", good, why, len(x.at))
	}
	if fi, err := os.Stat(s.Path(ledger.File, 2)); err != nil || fi.Size() != 5000 || fi.Mode().Perm() != 0o400 {
		t.Errorf("the file is %v, %v", fi, err)
	}
}

const (
	crashRegions = 16
	crashBytes   = 1 << 12
)

// noteForEver is a process that fills regions, notes them, strikes them and fills them with something else, until
// it is killed.
func noteForEver(dir string) error {
	s := &Store{dir: dir, sys: System{}.withDefaults()}
	x, notes, err := s.OpenIndex()
	if err != nil {
		return err
	}
	key := make([]int, crashRegions) // what each region holds
	for _, n := range notes {
		_, _, _, e := n.Key.Split()
		key[n.Place.Offset/crashBytes] = int(e)
	}
	arena, err := NewMapper(dir, 0).Lease("a1", 0, crashRegions*crashBytes)
	if err != nil {
		return err
	}
	mem, _, err := arena.Alloc(crashRegions*crashBytes, 64)
	if err != nil {
		return err
	}
	fmt.Println("begun")
	for i := 1; ; i++ {
		r := rand.IntN(crashRegions)
		x.Strike(testKey(key[r]))
		key[r] = i*crashRegions + r
		b := mem[r*crashBytes : (r+1)*crashBytes]
		for at := range b {
			b[at] = byte(key[r] * 31)
		}
		if err := x.Enter(testKey(key[r]), ledger.Place{Segment: 1, Offset: int64(r) * crashBytes, Bytes: crashBytes}, make([]byte, rand.IntN(100))); err != nil {
			return err
		}
	}
}

// TestIndexOfAKilledProcess kills a process that notes as fast as it can: each note that it leaves is true.
func TestIndexOfAKilledProcess(t *testing.T) {
	s := openStore(t, filepath.Join(t.TempDir()), System{})
	must(t, s.Create(1, ledger.Arena, crashRegions*crashBytes))
	m := newMapper(t, s, 0)
	exe, err := os.Executable()
	must(t, err)
	lives, found := 100, 0
	if testing.Short() {
		lives = 20
	}
	for range lives {
		cmd := exec.Command(exe)
		cmd.Env = append(os.Environ(), "CASCADE_SHM_TEST_INDEX="+s.Dir())
		cmd.Stderr = os.Stderr
		out, err := cmd.StdoutPipe()
		must(t, err)
		must(t, cmd.Start())
		if _, err := io.ReadFull(out, make([]byte, 6)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Duration(rand.IntN(2_000_000))) // the moment is what is random
		must(t, cmd.Process.Kill())
		_ = cmd.Wait() // it was killed
		x, notes := openIndex(t, s)
		found += len(notes)
		for k, n := range notes {
			_, _, _, e := k.Split()
			v, err := m.View("a1", n.Place.Offset, n.Place.Bytes)
			must(t, err)
			if !bytes.Equal(v.Bytes, bytes.Repeat([]byte{byte(e * 31)}, crashBytes)) {
				t.Fatalf("dataset %d is noted at %+v, and its bytes are not there", e, n.Place)
			}
			v.Release()
		}
		must(t, x.Close())
	}
	if found < lives {
		t.Errorf("%d notes after %d lives", found, lives)
	}
}

// FuzzIndex reads any file: no note leaves the file, and none is found twice.
func FuzzIndex(f *testing.F) {
	s := openStore(f, f.TempDir(), System{})
	x, _ := openIndex(f, s)
	for i := range 3 {
		must(f, x.Enter(testKey(i), ledger.Place{Segment: 1, Offset: int64(i), Bytes: 5}, make([]byte, 100*i)))
	}
	f.Add(bytes.Clone(x.mem[:1024]))
	must(f, x.Close())
	f.Fuzz(func(t *testing.T, b []byte) {
		x := &Index{mem: make([]byte, indexHead+(len(b)+slotBytes-1)/slotBytes*slotBytes), at: map[ledger.Key]extent{}}
		copy(x.mem[indexHead:], b)
		notes := x.load()
		if len(notes) != len(x.at) {
			t.Fatalf("%d notes of %d keys", len(notes), len(x.at))
		}
	})
}
