package runtimeenv

import (
	"cmp"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/cascade-run/cascade/executor/python"
)

// downloadWheels fetches wheels as somebody does for hosts without internet: with pip. It skips the
// test where no index is reached. It returns the interpreter that they are for, too.
func downloadWheels(t *testing.T, requirements ...string) (wheels, interpreter string) {
	t.Helper()
	cache := newPythonCache(t)
	it, err := uvOf(cache).python().interpreters.find(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	uv, err := uvOf(cache).find(t.Context(), pythonEnv("e"), &Build{})
	if err != nil {
		t.Fatal(err)
	}
	wheels = t.TempDir()
	venv := filepath.Join(t.TempDir(), "venv")
	for _, args := range [][]string{
		{uv, "venv", "--quiet", "--seed", "--python", it.Path, venv}, // a pip, though the host may have none
		append([]string{filepath.Join(venv, "bin", "python"), "-m", "pip", "download", "--quiet", "--only-binary", ":all:", "--dest", wheels}, requirements...),
	} {
		cmd := exec.CommandContext(t.Context(), args[0], args[1:]...)
		cmd.Env = append(os.Environ(), IndexVars(it.Path)...)
		if index := cmp.Or(os.Getenv("PIP_INDEX_URL"), os.Getenv("UV_DEFAULT_INDEX")); index != "" {
			cmd.Env = append(cmd.Env, "PIP_INDEX_URL="+index)
		}
		out, err := cmd.CombinedOutput()
		switch {
		case err == nil:
		case os.Getenv("CASCADE_REQUIRE_PYTHON") != "":
			t.Fatalf("%s: %v\n%s", args[:3], err, out)
		default:
			t.Skipf("no wheels from an index here: %s: %v\n%s", args[:3], err, out)
		}
	}
	return wheels, it.Path
}

// A host that has a Python, and else nothing of all it needs, makes an environment from a
// folder of wheels, in an empty cache: uv and the base come from there as well. Without one
// of them it fails and says so. The index is never asked.
func TestPythonFromWheelsAlone(t *testing.T) {
	wheels, interpreter := downloadWheels(t, append(python.Requirements(), uvRequirement)...)
	makeWheel(t, wheels, "tiny", "1", nil)
	var asked atomic.Int32
	index := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		http.NotFound(w, r)
	}))
	defer index.Close()
	for variable, text := range map[string]string{"UV_DEFAULT_INDEX": index.URL + "/simple", "PIP_INDEX_URL": index.URL + "/simple",
		"UV_CACHE_DIR": t.TempDir(), "PATH": t.TempDir(), "CASCADE_PYTHON": interpreter} {
		t.Setenv(variable, text)
	}
	cache := New(t.TempDir())
	defer cache.Close()
	var told []string
	act, err := cache.Prepare(t.Context(), fromWheels("e", wheels, "tiny"), func(text string) { told = append(told, text) })
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"", "fetches uv, which builds Python environments", "installs packages"}; !slices.Equal(told, want) {
		t.Errorf("told %q, want %q", told, want)
	}
	if out := runPython(t, act, "import tiny, zmq, msgpack; print(tiny.version, bool(zmq.zmq_version()))"); out != "1 True" {
		t.Errorf("it prints %q", out)
	}
	zmq, err := filepath.Glob(filepath.Join(wheels, "pyzmq-*.whl"))
	if err != nil || len(zmq) != 1 {
		t.Fatalf("the wheels have %v, %v", zmq, err)
	}
	if err := os.Remove(zmq[0]); err != nil {
		t.Fatal(err)
	}
	t.Setenv("UV_CACHE_DIR", t.TempDir())
	empty := New(t.TempDir())
	defer empty.Close()
	if _, err := empty.Prepare(t.Context(), fromWheels("e", wheels, "tiny"), nil); err == nil || !strings.Contains(err.Error(), "pyzmq") {
		t.Errorf("without a wheel of pyzmq: %v", err)
	}
	if n := asked.Load(); n > 0 {
		t.Errorf("the index was asked %d times", n)
	}
}
