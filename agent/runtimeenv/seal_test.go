package runtimeenv

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/cascade-run/cascade/dag"
	"github.com/cascade-run/cascade/internal/safedir"
)

// Environments that are kept by their content are read-only in folders and files, and compiled.
func TestEnvironmentsAreSealed(t *testing.T) {
	cache := newPythonCache(t)
	t.Setenv("PYTHONDONTWRITEBYTECODE", "1")
	source := t.TempDir()
	for name, text := range map[string]string{"wd/pkg/tool.py": "value = 1\n", "wd/data.txt": "data", "mod/mod.py": "value = 2\n", "mod/broken.py": "def f(:\n"} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(source, name)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(source, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	env := pythonEnv("e")
	env.Source, env.WorkingDir, env.PyModules = source, "wd", []string{"mod"}
	act, err := cache.Prepare(t.Context(), env, nil)
	if err != nil {
		t.Fatal(err)
	}
	compiled := map[string]bool{}
	for _, dir := range act.ReadOnly {
		err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			info, err := entry.Info()
			if err == nil && entry.Type()&fs.ModeSymlink == 0 && info.Mode().Perm()&0o222 != 0 && info.Sys().(*syscall.Stat_t).Nlink == 1 {
				t.Errorf("%s has mode %s", path, info.Mode())
			}
			if module, _, ok := strings.Cut(filepath.Base(path), ".cpython-"); ok && strings.HasSuffix(path, ".pyc") {
				compiled[module] = true
			}
			return err
		})
		if err != nil {
			t.Error(err)
		}
	}
	if compiled["tool"] {
		t.Error("working_dir has files that are not the user's")
	}
	for _, module := range []string{"mod", "worker", "fallback"} { // the job's, the executor's, that of a package
		if !compiled[module] {
			t.Errorf("module %s was not compiled", module)
		}
	}
	if len(act.ReadOnly) != 4 || len(act.Code) != 2 {
		t.Errorf("shared are %q, and the job's files are in %q", act.ReadOnly, act.Code)
	}
	if out := runPython(t, act, "import mod; from pkg import tool; print(tool.value + mod.value)"); out != "3" {
		t.Errorf("it prints %q", out)
	}
	if _, err := cache.Prepare(t.Context(), dag.Environment{Name: "files", WorkingDir: "wd", Source: source}, nil); err != nil {
		t.Errorf("without Python: %v", err)
	}
}

// A file of several names may be one of uv's cache, which keeps its modes.
func TestSeal(t *testing.T) {
	dir, cache := filepath.Join(t.TempDir(), "environment"), filepath.Join(t.TempDir(), "cached")
	plain, script, linked := filepath.Join(dir, "plain"), filepath.Join(dir, "script"), filepath.Join(dir, "linked")
	if err := errors.Join(os.Mkdir(dir, 0o700), os.WriteFile(plain, nil, 0o644), os.WriteFile(script, nil, 0o755), os.WriteFile(cache, nil, 0o644),
		os.Link(cache, linked), os.Symlink(cache, filepath.Join(dir, "symbolic")), seal(dir)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = safedir.Remove(dir) })
	for path, want := range map[string]fs.FileMode{dir: 0o500, plain: 0o444, script: 0o555, linked: 0o644} {
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode().Perm() != want {
			t.Errorf("%s has mode %s, want %s", path, info.Mode(), want)
		}
	}
}
