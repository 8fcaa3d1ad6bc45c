package runtimeenv

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/cascade-run/cascade/dag"
)

// needPython skips a test where there is no Python, and has uv on PATH: all tests
// share one in the user's cache, so that a host without uv gets it once.
func needPython(t *testing.T) {
	t.Helper()
	base, err := os.UserCacheDir()
	if err == nil {
		tools := New(filepath.Join(base, "cascade-test"))
		t.Cleanup(func() { _ = tools.Close() })
		uv := tools.plugins[0].(*uvTool)
		var path string
		path, err = uv.find(t.Context(), dag.Environment{}, &Build{})
		t.Setenv("PATH", filepath.Dir(path)+string(filepath.ListSeparator)+os.Getenv("PATH"))
	}
	if err == nil {
		return
	}
	if os.Getenv("CASCADE_REQUIRE_PYTHON") != "" {
		t.Fatal(err)
	}
	t.Skip("no Python environments on this host: ", err)
}

func pythonEnv(name string, pip ...string) dag.Environment {
	return dag.Environment{Name: name, Python: &dag.Python{Pip: pip}}
}

// runPython runs code as an executor of the environment would.
func runPython(t *testing.T, act Activation, code string) string {
	t.Helper()
	cmd := exec.Command(act.Command[0], "-P", "-c", code)
	if len(act.Command) < 4 {
		cmd = exec.Command(act.Command[0], "-c", "import sys; del sys.path[0]\n"+code)
	}
	cmd.Dir = act.Dir
	cmd.Env = append(os.Environ(), act.Env...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("python: %v\n%s", err, out)
	}
	return strings.TrimSpace(string(out))
}

func TestPythonEnvironment(t *testing.T) {
	needPython(t)
	cache := New(t.TempDir())
	defer cache.Close()
	act, err := cache.Prepare(t.Context(), pythonEnv("e", "Iniconfig == 2.0.*", "iniconfig!=1.0"), nil)
	if err != nil {
		t.Fatal(err)
	}
	if !act.Built || !act.Foreign || len(act.Keys) != 3 {
		t.Errorf("activation %+v", act)
	}
	got := runPython(t, act, `import cascade, iniconfig, msgpack, sys, zmq; from importlib.metadata import version; print(version("iniconfig"), sys.prefix)`)
	if want := "2.0.0 " + filepath.Dir(filepath.Dir(act.Command[0])); got != want {
		t.Errorf("in the environment: %s, want %s", got, want)
	}
	if _, err := cache.Prepare(context.Background(), pythonEnv("again", "iniconfig!=1.0", "iniconfig==2.0.*"), nil); err != nil {
		t.Fatal(err)
	}
	var built atomic.Int32
	var all sync.WaitGroup
	for range 32 {
		all.Go(func() {
			again, err := cache.Prepare(t.Context(), pythonEnv("new", "iniconfig==1.1.1"), nil)
			if err != nil {
				t.Error(err)
			}
			if again.Built {
				built.Add(1)
			}
		})
	}
	all.Wait()
	if built.Load() != 1 {
		t.Errorf("%d of 32 who needed the same environment built it", built.Load())
	}
}
