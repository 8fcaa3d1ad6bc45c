//go:build linux

package python_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/cascade-run/cascade/agent/runtimeenv"
	"github.com/cascade-run/cascade/dag"
	"github.com/cascade-run/cascade/internal/testing/pyenv"
	"github.com/cascade-run/cascade/internal/testing/tier"
)

// Executors and pools behave as those of the standard library do, also when the session or the program ends.
func TestPools(t *testing.T) {
	pyenv.Python(t)
	python, env := interpreter(t)
	env = append(env, "FOLDER="+t.TempDir())
	same(t, "testdata/pools.golden", prints(t, ".", env, python, "testdata/pools.py", programs(t)))
}

// CPython's own tests of executors pass.
func TestCPythonExecutorTests(t *testing.T) {
	tier.Nightly(t, "sleeps for 20 s")
	pyenv.Python(t)
	user, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	cache := runtimeenv.New(filepath.Join(user, "cascade", "environments"))
	t.Cleanup(func() {
		if err := cache.Close(); err != nil {
			t.Error(err)
		}
	})
	for _, version := range []string{"3.14", "3.13", "3.12", "3.11", "3.10"} {
		built, err := cache.Prepare(t.Context(), dag.Environment{Name: "client", Python: &dag.Python{Version: "==" + version + ".*", Pip: []string{"cloudpickle"}}}, nil)
		if err != nil {
			continue // there is no such interpreter
		}
		out := prints(t, ".", slices.Concat(os.Environ(), built.Env), built.Command[0], "testdata/cpython.py", programs(t))
		if strings.HasPrefix(out, "absent") {
			continue
		}
		if !regexp.MustCompile(`ran \d\d failed 0 skipped 0\n$`).MatchString(out) {
			t.Errorf("Python %s: %s", version, out)
		}
		return
	}
	t.Skip("no interpreter of this host has CPython's tests of executors (the package test)")
}

// The programs of docs/python-adapters.md that need no library print what it says.
func TestAdapterDocs(t *testing.T) { adapters(t, "executor.py", "pool.py", "ported.py") }

// Those that run joblib, scikit-learn, Dask and xarray do the same.
func TestAdapterLibraries(t *testing.T) {
	tier.Nightly(t, "installs scikit-learn, Dask and xarray")
	adapters(t, "forest.py", "arrays.py")
}

// adapters runs programs of the page, in an environment with all libraries that it names.
func adapters(t *testing.T, names ...string) {
	t.Helper()
	pyenv.Python(t)
	const page = "../../docs/python-adapters.md"
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if all := write(t, page, dir); len(all) != 5 {
		t.Fatalf("the page has %v", all)
	}
	var libraries []string
	if tier.Night() {
		libraries = []string{"joblib==1.6.0", "scikit-learn", "dask[array,dataframe]==2026.8.0", "xarray==2026.9.0"}
	}
	python, env := interpreter(t, libraries...)
	env = append(env, "PATH="+programs(t)+string(os.PathListSeparator)+os.Getenv("PATH"))
	for _, name := range names {
		_, after, _ := strings.Cut(string(text), "\n# "+name+"\n")
		_, want, _ := strings.Cut(after, "\n```text\n")
		want, _, _ = strings.Cut(want, "```")
		if got := prints(t, dir, env, python, name); got != want || want == "" {
			t.Errorf("%s printed\n%swant\n%s", name, got, want)
		}
	}
}
