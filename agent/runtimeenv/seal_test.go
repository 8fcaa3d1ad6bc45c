package runtimeenv

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cascade-run/cascade/dag"
)

// What is kept by its content cannot be written to by a user, is shared read-only for root, and is compiled.
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
			if err == nil && entry.IsDir() && info.Mode().Perm()&0o222 != 0 {
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
