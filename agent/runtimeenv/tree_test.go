package runtimeenv

import (
	"archive/zip"
	"encoding/hex"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/zeebo/blake3"

	"github.com/cascade-run/cascade/dag"
)

func TestIgnore(t *testing.T) {
	list := parseIgnore([]byte("# a comment\n*.log\n!keep.log\n/top\nbuild/\ndocs/*.txt\n**/deep/*.c\n\\#odd\n"))
	for _, c := range []struct {
		name string
		dir  bool
		want bool
	}{
		{"a.log", false, true},
		{"sub/a.log", false, true},
		{"sub/keep.log", false, false},
		{"top", false, true},
		{"sub/top", false, false},
		{"build", true, true},
		{"sub/build", true, true},
		{"build", false, false},
		{"docs/a.txt", false, true},
		{"docs/sub/a.txt", false, false},
		{"x/y/deep/a.c", false, true},
		{"deep/a.c", false, true},
		{"#odd", false, true},
		{".git", true, true},
		{"sub/__pycache__", true, true},
		{"main.py", false, false},
	} {
		if got := list.ignores(c.name, c.dir); got != c.want {
			t.Errorf("%s: ignored %t", c.name, got)
		}
	}
}

func write(t *testing.T, dir string, files map[string]string) string {
	t.Helper()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func hashOf(t *testing.T, dir string) string {
	t.Helper()
	h := hasher{blake3.New()}
	if err := h.tree(dir); err != nil {
		t.Fatal(err)
	}
	return hex.EncodeToString(h.Sum(nil)[:8])
}

// A folder that is named by a link is the folder.
func TestTreeOfLink(t *testing.T) {
	dir := write(t, t.TempDir(), map[string]string{"a.py": "1", ".gitignore": "*.log\n", "b.log": ""})
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(dir, link); err != nil {
		t.Fatal(err)
	}
	files, err := listTree(link)
	if err != nil || len(files) != 2 || hashOf(t, link) != hashOf(t, dir) {
		t.Errorf("of the link: %v, %v", files, err)
	}
}

func TestTreeHash(t *testing.T) {
	files := map[string]string{"a.py": "1", "sub/b.py": "2", ".gitignore": "*.log\n"}
	dir := write(t, t.TempDir(), files)
	first := hashOf(t, dir)
	if hashOf(t, write(t, t.TempDir(), files)) != first {
		t.Error("the same files elsewhere have another hash")
	}
	for _, c := range []struct {
		what    string
		do      func() error
		changes bool
	}{
		{"an ignored file", func() error { return os.WriteFile(filepath.Join(dir, "x.log"), nil, 0o600) }, false},
		{"another text", func() error { return os.WriteFile(filepath.Join(dir, "a.py"), []byte("3"), 0o600) }, true},
		{"another mode", func() error { return os.Chmod(filepath.Join(dir, "a.py"), 0o700) }, true},
		{"another name", func() error { return os.Rename(filepath.Join(dir, "a.py"), filepath.Join(dir, "c.py")) }, true},
		{"a link", func() error { return os.Symlink("sub/b.py", filepath.Join(dir, "l.py")) }, true},
		{"a cache of Python", func() error { return os.Mkdir(filepath.Join(dir, "__pycache__"), 0o700) }, false},
	} {
		before := hashOf(t, dir)
		if err := c.do(); err != nil {
			t.Fatal(err)
		}
		if changed := hashOf(t, dir) != before; changed != c.changes {
			t.Errorf("%s: changed %t", c.what, changed)
		}
	}
	to := t.TempDir()
	if err := copyTree(dir, to); err != nil {
		t.Fatal(err)
	}
	if got, want := hashOf(t, to), hashOf(t, dir); got != want {
		t.Errorf("the copy has hash %s, want %s", got, want)
	}
	if err := os.Symlink("../outside", filepath.Join(dir, "out")); err != nil {
		t.Fatal(err)
	}
	if err := (hasher{blake3.New()}).tree(dir); err == nil || !strings.Contains(err.Error(), "out is a link to ../outside, outside of the folder") {
		t.Errorf("error %v", err)
	}
}

// A link's text may stay in the folder where the link, over others, does not.
func TestLinksOverLinks(t *testing.T) {
	for _, c := range []struct {
		what, target string
		ok           bool
	}{
		{"back up through a link", "d/e/l/../secret", false},
		{"up and down again", "d/e/l/d/a", true},
		{"to a file", "d/a", true},
		{"nowhere", "d/none", true},
		{"to itself", "x", true},
	} {
		top := t.TempDir()
		dir := write(t, filepath.Join(top, "job"), map[string]string{"d/a": "1", "d/e/b": "2"})
		write(t, top, map[string]string{"secret": "s"})
		for name, target := range map[string]string{"d/e/l": "../..", "x": c.target} {
			if err := os.Symlink(target, filepath.Join(dir, name)); err != nil {
				t.Fatal(err)
			}
		}
		_, err := listTree(dir)
		if ok := err == nil; ok != c.ok || !ok && !strings.Contains(err.Error(), "outside of the folder") {
			t.Errorf("%s: %v", c.what, err)
		}
	}
}

func makeZip(t *testing.T, name string, add func(*zip.Writer)) string {
	t.Helper()
	file, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	w := zip.NewWriter(file)
	add(w)
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
	return name
}

func TestUnpack(t *testing.T) {
	entry := func(name, text string, mode fs.FileMode) func(*zip.Writer) {
		return func(w *zip.Writer) {
			h := &zip.FileHeader{Name: name, Method: zip.Deflate}
			h.SetMode(mode)
			out, err := w.CreateHeader(h)
			if err == nil {
				_, err = out.Write([]byte(text))
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, c := range []struct {
		what string
		add  []func(*zip.Writer)
		want string // of the error; else names of files
	}{
		{"files", []func(*zip.Writer){entry("a.py", "1", 0o644), entry("sub/run", "2", 0o755)}, "a.py sub/run"},
		{"a way up", []func(*zip.Writer){entry("../evil", "1", 0o644)}, `the entry "../evil" leads out of it`},
		{"a way up inside", []func(*zip.Writer){entry("a/../../evil", "1", 0o644)}, "leads out of it"},
		{"from the root", []func(*zip.Writer){entry("/etc/evil", "1", 0o644)}, "leads out of it"},
		{"as Windows writes it", []func(*zip.Writer){entry(`..\evil`, "1", 0o644)}, "leads out of it"},
		{"a link, and a file through it", []func(*zip.Writer){entry("l", "..", 0o777|fs.ModeSymlink), entry("l/evil", "1", 0o644)}, `link "l": symlinkat`},
		{"a link that stays inside", []func(*zip.Writer){entry("l", "sub/a", 0o777|fs.ModeSymlink), entry("sub/a", "1", 0o644)}, "l sub/a"},
		{"a link that leads out", []func(*zip.Writer){entry("sub/l", "../../x.zip", 0o777|fs.ModeSymlink)}, `the link "sub/l" to "../../x.zip" leads out of it`},
		{"a link from the root", []func(*zip.Writer){entry("l", "/etc/passwd", 0o777|fs.ModeSymlink)}, "leads out of it"},
		{"links that lead out together", []func(*zip.Writer){entry("a/b", "..", 0o777|fs.ModeSymlink), entry("l", "a/b/../x.zip", 0o777|fs.ModeSymlink)}, "leads out of it"},
		{"a device", []func(*zip.Writer){entry("d", "", 0o600|fs.ModeDevice)}, "only files and folders"},
		{"twice the same", []func(*zip.Writer){entry("a", "1", 0o644), entry("a", "2", 0o644)}, "file exists"},
	} {
		t.Run(c.what, func(t *testing.T) {
			outer := t.TempDir()
			archive := makeZip(t, filepath.Join(outer, "x.zip"), func(w *zip.Writer) {
				for _, add := range c.add {
					add(w)
				}
			})
			to := filepath.Join(outer, "to")
			if err := os.Mkdir(to, 0o700); err != nil {
				t.Fatal(err)
			}
			err := unpack(archive, to)
			if err != nil {
				if !strings.Contains(err.Error(), c.want) {
					t.Errorf("error %v, want %q", err, c.want)
				}
				if left, _ := filepath.Glob(filepath.Join(outer, "*")); len(left) != 2 {
					t.Errorf("outside of the folder: %v", left)
				}
				return
			}
			files, err := listTree(to)
			if err != nil {
				t.Fatal(err)
			}
			var names []string
			for _, f := range files {
				names = append(names, f.name)
			}
			if !slices.Equal(names, strings.Fields(c.want)) {
				t.Errorf("unpacked %v, want %s", names, c.want)
			}
		})
	}
}

func TestFolders(t *testing.T) {
	job := write(t, t.TempDir(), map[string]string{
		"work/data.txt": "d", "pack/__init__.py": "", "pack/inner.py": "", "lib/one.py": "", "single.py": "", "tool": "",
	})
	if err := os.Chmod(filepath.Join(job, "tool"), 0o700); err != nil {
		t.Fatal(err)
	}
	makeZip(t, filepath.Join(job, "z.zip"), func(w *zip.Writer) {
		if _, err := w.Create("zipped.py"); err != nil {
			t.Fatal(err)
		}
	})
	cache := New(t.TempDir())
	defer cache.Close()
	act, err := cache.Prepare(t.Context(), dag.Environment{Name: "e", Source: job, Binary: "tool", WorkingDir: "work"}, nil)
	if err != nil || len(act.Command) != 1 || read(t, filepath.Join(act.Dir, "data.txt")) != "d" || len(act.Env) != 0 {
		t.Fatalf("activation %+v, %v", act, err)
	}
	if err := os.WriteFile(filepath.Join(job, "work/data.txt"), []byte("new"), 0o600); err != nil {
		t.Fatal(err)
	}
	if read(t, filepath.Join(act.Dir, "data.txt")) != "d" {
		t.Error("a change in the job's folder is seen by processes that run")
	}
	env := dag.Environment{Source: job, PyModules: []string{"pack", "lib", "single.py", "z.zip"}}
	modules := pyModules{}
	b := &Build{Dir: t.TempDir()}
	if err := modules.Create(t.Context(), env, b); err != nil {
		t.Fatal(err)
	}
	var got []string
	err = filepath.WalkDir(b.Dir, func(path string, entry fs.DirEntry, err error) error {
		if !entry.IsDir() {
			got = append(got, strings.TrimPrefix(path, b.Dir+"/"))
		}
		return err
	})
	want := []string{"0/pack/__init__.py", "0/pack/inner.py", "1/one.py", "2/single.py", "3/zipped.py"}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("modules %v, %v", got, err)
	}
	act = Activation{Env: []string{"PYTHONPATH=/x"}}
	if err := modules.Activate(env, "/d", &act); err != nil || act.Env[0] != "PYTHONPATH=/d/0:/d/1:/d/2:/d/3:/x" {
		t.Errorf("activation %v", act.Env)
	}
	for _, c := range []struct {
		env  dag.Environment
		want string
	}{
		{dag.Environment{WorkingDir: "nowhere"}, "working_dir: there is no "},
		{dag.Environment{WorkingDir: "single.py"}, "want a folder or a .zip"},
		{dag.Environment{PyModules: []string{"tool"}}, "tool: want a folder, a .py file, a .zip or a .whl"},
		{dag.Environment{PyModules: []string{"lib/one.py", "other/one.py"}}, "other/one.py are both module one, and Python would import the first"},
		{dag.Environment{Binary: "single.py"}, "want a file that can be executed"},
	} {
		c.env.Name, c.env.Source = "e", job
		if err := cache.Validate(c.env); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("error %v, want %q", err, c.want)
		}
	}
}
