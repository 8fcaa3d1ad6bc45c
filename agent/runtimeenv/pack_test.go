package runtimeenv

import (
	"archive/zip"
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/cascade-run/cascade/dag"
)

// shelf is a source of packages in memory.
type shelf struct {
	mu      sync.Mutex
	bytes   map[string][]byte
	cut     int  // bytes after which a fetch breaks off, once
	damage  bool // one bit of the next fetch
	fetched []int64
}

var errCut = errors.New("the link broke")

func (s *shelf) put(t *testing.T, p *Pack, piece int) {
	t.Helper()
	var all []byte
	err := p.Send(t.Context(), piece, func(offset, total int64, b []byte) error {
		if total != p.bytes || int(offset) != len(all) || len(b) > piece {
			t.Errorf("a piece of %d bytes at %d, %d are there", len(b), offset, len(all))
		}
		all = append(all, b...)
		return nil
	})
	if err != nil || int64(len(all)) != p.bytes {
		t.Fatalf("%d bytes of %d: %v", len(all), p.bytes, err)
	}
	if s.bytes == nil {
		s.bytes = map[string][]byte{}
	}
	s.bytes[p.Hash] = all
}

func (s *shelf) Fetch(_ context.Context, p dag.Package, offset int64, to io.Writer) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fetched = append(s.fetched, offset)
	all := s.bytes[p.Hash][offset:]
	if s.cut > 0 {
		_, err := to.Write(all[:s.cut])
		s.cut = 0
		return errors.Join(err, errCut)
	}
	if s.damage {
		s.damage = false
		all = bytes.Clone(all)
		all[len(all)/2] ^= 1
	}
	_, err := to.Write(all)
	return err
}

// packed packs an environment's files and puts them on a shelf.
func packed(t *testing.T, env dag.Environment, s *shelf) (dag.Environment, []*Pack) {
	t.Helper()
	var p Packer
	out, err := p.Pack(t.Context(), env)
	if err != nil {
		t.Fatal(err)
	}
	for _, pack := range p.Packs() {
		s.put(t, pack, 64)
	}
	return out, p.Packs()
}

func TestPackedEnvironment(t *testing.T) {
	job := write(t, t.TempDir(), map[string]string{
		"work/data.txt": "d", "work/.cascadeignore": "*.log\n", "work/x.log": "", "work/bin/run": "#!", "tool": "#!tool",
		"pack/__init__.py": "", "pack/inner.py": "", "lib/one.py": "", "single.py": "",
	})
	for _, name := range []string{"work/bin/run", "tool"} {
		if err := os.Chmod(filepath.Join(job, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("data.txt", filepath.Join(job, "work/link")); err != nil {
		t.Fatal(err)
	}
	makeZip(t, filepath.Join(job, "z.zip"), func(w *zip.Writer) {
		if _, err := w.Create("zipped.py"); err != nil {
			t.Fatal(err)
		}
	})
	s := &shelf{}
	env := dag.Environment{Name: "e", Source: job, WorkingDir: "work", Binary: "tool", PyModules: []string{"pack", "lib", "single.py", "z.zip", "/not/here"}}
	out, packs := packed(t, env, s)
	if len(packs) != 6 || out.PyModules[4] != "/not/here" {
		t.Fatalf("%d packs, %v", len(packs), out)
	}
	if again, _ := packed(t, env, s); again.WorkingDir != out.WorkingDir {
		t.Errorf("packed twice: %s, %s", again.WorkingDir, out.WorkingDir)
	}
	if twice, more := packed(t, out, s); twice.WorkingDir != out.WorkingDir || len(more) != 0 {
		t.Errorf("packages are packed again: %v", twice)
	}

	cache := New(t.TempDir())
	defer cache.Close()
	cache.From(s)
	out.Source = "/elsewhere"
	act, err := cache.Prepare(t.Context(), dag.Environment{Name: "e", Source: "/elsewhere", WorkingDir: out.WorkingDir, Binary: out.Binary}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{act.Command[0]: "#!tool", act.Dir + "/data.txt": "d", act.Dir + "/link": "d", act.Dir + "/bin/run": "#!"} {
		if got := read(t, name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	for name, want := range map[string]fs.FileMode{act.Command[0]: 0o500, act.Dir + "/data.txt": 0o400, act.Dir + "/bin/run": 0o500} {
		if info, err := os.Stat(name); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: %v, %v", name, info.Mode(), err)
		}
	}
	if _, err := os.Stat(act.Dir + "/x.log"); err == nil {
		t.Error("an ignored file was shipped")
	}
	b := &Build{Dir: t.TempDir()}
	if err := (pyModules{cache}).Create(t.Context(), dag.Environment{PyModules: out.PyModules[:4]}, b); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"0/pack/__init__.py", "0/pack/inner.py", "1/one.py", "2/single.py", "3/zipped.py"} {
		if _, err := os.Stat(filepath.Join(b.Dir, name)); err != nil {
			t.Error(err)
		}
	}
	left, err := os.ReadDir(filepath.Join(cache.dir, packagesFolder))
	for _, f := range left {
		if !strings.HasSuffix(f.Name(), ".lock") {
			t.Errorf("%s stays behind", f.Name())
		}
	}
	if err != nil {
		t.Error(err)
	}
}

// A fetch goes on where one before was cut short, is made anew when what that
// brought is wrong, and fails when the bytes have another hash.
func TestFetchPackage(t *testing.T) {
	job := write(t, t.TempDir(), map[string]string{"work/data.txt": strings.Repeat("d", 1000)})
	for _, c := range []struct {
		what    string
		cut     int
		damage  bool
		before  string // in the cache
		want    []int64
		wantErr string
	}{
		{"in one go", 0, false, "", []int64{0}, ""},
		{"cut short", 100, false, "", []int64{0, 100}, ""},
		{"after wrong bytes", 0, false, "wrong", []int64{5, 0}, ""},
		{"damaged", 0, true, "", []int64{0}, "damaged on the way"},
	} {
		t.Run(c.what, func(t *testing.T) {
			s := &shelf{cut: c.cut, damage: c.damage}
			env, packs := packed(t, dag.Environment{Name: "e", Source: job, WorkingDir: "work"}, s)
			cache := New(t.TempDir())
			defer cache.Close()
			cache.From(s)
			write(t, cache.dir, map[string]string{filepath.Join(packagesFolder, packs[0].Hash): c.before})
			act, err := cache.Prepare(t.Context(), env, nil)
			if c.cut > 0 {
				if !errors.Is(err, errCut) {
					t.Errorf("error %v", err)
				}
				act, err = cache.Prepare(t.Context(), env, nil)
			}
			switch {
			case c.wantErr != "":
				if err == nil || !strings.Contains(err.Error(), c.wantErr) || !strings.Contains(err.Error(), packs[0].Hash) {
					t.Errorf("error %v", err)
				}
			case err != nil:
				t.Error(err)
			case len(read(t, act.Dir+"/data.txt")) != 1000:
				t.Error("the file is not whole")
			}
			if len(s.fetched) != len(c.want) || s.fetched[0] != c.want[0] || s.fetched[len(s.fetched)-1] != c.want[len(c.want)-1] {
				t.Errorf("fetched from %v, want %v", s.fetched, c.want)
			}
		})
	}
}

func TestPackChanges(t *testing.T) {
	job := write(t, t.TempDir(), map[string]string{"work/data.txt": "d", "work/link.txt": ""})
	var p Packer
	env := dag.Environment{Name: "e", Source: job, WorkingDir: "work"}
	if _, err := p.Pack(t.Context(), env); err != nil {
		t.Fatal(err)
	}
	write(t, job, map[string]string{"work/data.txt": "other"})
	if err := p.Packs()[0].Send(t.Context(), 1<<20, func(int64, int64, []byte) error { return errors.New("sent") }); !errors.Is(err, ErrChanged) {
		t.Errorf("error %v", err)
	}
	if err := os.Symlink("/etc/passwd", filepath.Join(job, "work/out")); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Pack(t.Context(), env); err == nil || !strings.Contains(err.Error(), "outside of the folder") {
		t.Errorf("error %v", err)
	}
	if _, err := p.Pack(t.Context(), dag.Environment{Name: "e", Source: job, Binary: "work/data.txt"}); err == nil || !strings.Contains(err.Error(), "want a file that can be executed") {
		t.Errorf("error %v", err)
	}
}
