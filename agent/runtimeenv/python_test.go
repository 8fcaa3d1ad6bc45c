package runtimeenv

import (
	"archive/zip"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cascade-run/cascade/dag"
	"github.com/cascade-run/cascade/internal/testing/smallfs"
)

func uvOf(c *Cache) *uvTool {
	i := slices.IndexFunc(c.plugins, func(p Plugin) bool { _, ok := p.(*uvTool); return ok })
	return c.plugins[i].(*uvTool)
}

// newPythonCache returns a cache in a folder of its own. uv and the base
// environment, which come from the index, it shares with all tests: they lie in the
// user's cache. Without Python the test is skipped.
func newPythonCache(t *testing.T) *Cache {
	t.Helper()
	if testing.Short() {
		t.Skip("builds environments from packages")
	}
	shared, err := os.UserCacheDir()
	if err == nil {
		shared = filepath.Join(shared, "cascade-test")
		common := New(shared)
		t.Cleanup(func() { _ = common.Close() })
		_, err = common.Prepare(t.Context(), dag.Environment{Python: &dag.Python{}}, nil)
		if err == nil {
			_, err = uvOf(common).find(t.Context(), dag.Environment{}, &Build{})
		}
	}
	if err != nil {
		if os.Getenv("CASCADE_REQUIRE_PYTHON") != "" {
			t.Fatal(err)
		}
		t.Skip("no Python environments on this host: ", err)
	}
	cache := New(t.TempDir())
	t.Cleanup(func() { _ = cache.Close() })
	for _, name := range []string{"uv", "python-base", "python-executor"} { // so what a test builds is the layers above
		if err := os.MkdirAll(filepath.Join(shared, name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(filepath.Join(shared, name), filepath.Join(cache.dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	return cache
}

// makeWheel writes a package of one module and returns the folder.
func makeWheel(t *testing.T, dir, name, version string, files map[string]string, requires ...string) string {
	t.Helper()
	info := name + "-" + version + ".dist-info/"
	all := map[string]string{
		name + ".py":      "version = \"" + version + "\"\n",
		info + "METADATA": "Metadata-Version: 2.1\nName: " + name + "\nVersion: " + version + "\n",
		info + "WHEEL":    "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
	}
	for _, r := range requires {
		all[info+"METADATA"] += "Requires-Dist: " + r + "\n"
	}
	maps.Copy(all, files)
	record := info + "RECORD,,\n"
	for path := range all {
		record += path + ",,\n"
	}
	all[info+"RECORD"] = record
	makeZip(t, filepath.Join(dir, name+"-"+version+"-py3-none-any.whl"), func(w *zip.Writer) {
		for path, text := range all {
			out, err := w.Create(path)
			if err == nil {
				_, err = out.Write([]byte(text))
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	})
	return dir
}

// fromWheels is an environment whose packages come from a folder alone.
func fromWheels(name, wheels string, pip ...string) dag.Environment {
	return dag.Environment{Name: name, Python: &dag.Python{Pip: pip, Wheels: wheels, Offline: true}}
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

// Real packages of the index; versions that exclude each other are there at one time.
func TestPythonEnvironment(t *testing.T) {
	cache := newPythonCache(t)
	act, err := cache.Prepare(t.Context(), pythonEnv("e", "Iniconfig == 2.0.*", "iniconfig!=1.0"), nil)
	if err != nil {
		t.Fatal(err)
	}
	if !act.Built || !act.Foreign || len(act.Keys) != 3 {
		t.Errorf("activation %+v", act)
	}
	layer := filepath.Join(cache.dir, "python", strings.TrimPrefix(act.Keys[2], "python-"))
	rec := readRecord("python", layer)
	if rec.What != "iniconfig!=1.0,==2.0.*" && rec.What != "iniconfig!=1.0 iniconfig==2.0.*" || !slices.Equal(rec.Packages, []string{"iniconfig 2.0.0"}) || rec.Bytes == 0 {
		t.Errorf("noted: %+v", rec)
	}
	if _, err := os.Stat(filepath.Join(layer, "requirements.txt")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the layer keeps the addresses of its packages: %v", err)
	}
	const code = `import cascade, iniconfig, msgpack, sys, zmq; from importlib.metadata import version; print(version("iniconfig"), sys.prefix)`
	other, err := cache.Prepare(t.Context(), pythonEnv("old", "iniconfig<2"), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		act     Activation
		version string
	}{{act, "2.0.0"}, {other, "1.1.1"}} {
		if got, want := runPython(t, c.act, code), c.version+" "+filepath.Dir(filepath.Dir(c.act.Command[0])); got != want {
			t.Errorf("in the environment: %s, want %s", got, want)
		}
	}
	if again, err := cache.Prepare(t.Context(), pythonEnv("again", "iniconfig!=1.0", "iniconfig==2.0.*"), nil); err != nil || again.Built {
		t.Errorf("the same requirements in another order: %+v, %v", again, err)
	}
}

// Tasks of one environment wait for one build; others build at the same time.
func TestPythonBuildsAtOnce(t *testing.T) {
	cache := newPythonCache(t)
	wheels := t.TempDir()
	for n := range 8 {
		makeWheel(t, wheels, "tiny", fmt.Sprint(n), nil)
	}
	var built [8]atomic.Int32
	var all sync.WaitGroup
	for n := range 8 + 31 { // 0 to 7 once, and one of them 31 times more
		all.Go(func() {
			own := cache
			if n = min(n, 8) % 8; n%2 == 1 { // as if another process of this host
				own = New(cache.dir)
				defer own.Close()
			}
			act, err := own.Prepare(t.Context(), fromWheels("e", wheels, fmt.Sprintf("tiny==%d", n)), nil)
			if err != nil {
				t.Error(err)
				return
			}
			if act.Built {
				built[n].Add(1)
				if got := runPython(t, act, "import tiny; print(tiny.version)"); got != fmt.Sprint(n) {
					t.Errorf("version %s in the environment of %d", got, n)
				}
			}
		})
	}
	all.Wait()
	for n := range built {
		if got := built[n].Load(); got != 1 {
			t.Errorf("environment %d was built %d times", n, got)
		}
	}
	left, err := filepath.Glob(filepath.Join(cache.dir, "python", ".*"))
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func TestPythonMistakes(t *testing.T) {
	cache := newPythonCache(t)
	wheels := makeWheel(t, t.TempDir(), "tiny", "1", nil)
	makeWheel(t, wheels, "upper", "1", nil, "tiny>5")
	for _, c := range []struct {
		what string
		env  dag.Environment
		want []string
	}{
		{"no such version", fromWheels("e", wheels, "tiny>1"), []string{`environment "e"`, "uv pip install: exit status 1", "tiny>1", "unsatisfiable"}},
		{"requirements that exclude each other", fromWheels("e", wheels, "tiny", "upper"), []string{"upper", "tiny>5"}},
		{"no such package", fromWheels("e", wheels, "nothing-like-it"), []string{"offline, from wheels", "nothing-like-it"}},
		{"no such interpreter", dag.Environment{Name: "e", Python: &dag.Python{Version: ">=3.99"}}, []string{"no interpreter for >=3.99; found: 3."}},
		{"no such folder", fromWheels("e", "/nowhere", "tiny"), []string{"wheels: there is no folder /nowhere"}},
	} {
		t.Run(c.what, func(t *testing.T) {
			_, err := cache.Prepare(t.Context(), c.env, again(t))
			if err == nil {
				t.Fatal("no error")
			}
			for _, w := range c.want {
				if !strings.Contains(err.Error(), w) {
					t.Errorf("%q is missing in: %v", w, err)
				}
			}
		})
	}
}

// An index that does not answer is named at once, without its password, and asked
// again until patience ends. What is there without it needs no index.
func TestPythonIndexAway(t *testing.T) {
	cache := newPythonCache(t)
	cache.patience = 0
	t.Setenv("UV_DEFAULT_INDEX", "http://user:hush-hush@127.0.0.1:9/simple")
	var told []string
	_, err := cache.Prepare(t.Context(), pythonEnv("e", "nothing-like-it"), func(text string) { told = append(told, text) })
	if err == nil || !strings.Contains(err.Error(), "the package index http://user:xxxxx@127.0.0.1:9/simple cannot be reached") || !strings.Contains(err.Error(), "tried 1 times in") {
		t.Errorf("error %v", err)
	}
	if len(told) != 2 || told[0] != "" || !strings.Contains(told[1], "cannot be reached") {
		t.Errorf("told %q", told)
	}
	if all := fmt.Sprint(err, told); strings.Contains(all, "hush") {
		t.Errorf("a password is told: %s", all)
	}
	env := fromWheels("e", makeWheel(t, t.TempDir(), "tiny", "1", nil), "tiny")
	env.Python.Offline = false
	if _, err := cache.Prepare(t.Context(), env, nil); err != nil {
		t.Errorf("wheels that are at hand: %v", err)
	}
}

// Offline nothing is asked of an index, neither for packages nor for uv itself.
func TestPythonOffline(t *testing.T) {
	cache := newPythonCache(t)
	var asked atomic.Int32
	index := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		http.NotFound(w, r)
	}))
	defer index.Close()
	t.Setenv("UV_DEFAULT_INDEX", index.URL+"/simple")
	t.Setenv("PIP_INDEX_URL", index.URL+"/simple")
	wheels := makeWheel(t, t.TempDir(), "tiny", "1", nil)
	if _, err := cache.Prepare(t.Context(), fromWheels("e", wheels, "tiny"), nil); err != nil {
		t.Errorf("from wheels: %v", err)
	}
	for _, from := range []string{wheels, ""} {
		if _, err := cache.Prepare(t.Context(), fromWheels("e", from, "nothing-like-it"), nil); err == nil || !strings.Contains(err.Error(), "offline, from wheels and what was downloaded before") {
			t.Errorf("what is not there, with the wheels %q: %v", from, err)
		}
		if err := uvOf(cache).Create(t.Context(), fromWheels("e", from, "tiny"), &Build{Dir: t.TempDir()}); err == nil || !strings.Contains(err.Error(), "pip install uv") {
			t.Errorf("uv, with the wheels %q: %v", from, err)
		}
	}
	if n := asked.Load(); n > 0 {
		t.Errorf("the index was asked %d times", n)
	}
	if _, err := cache.Prepare(t.Context(), pythonEnv("e", "nothing-like-it"), nil); err == nil || asked.Load() == 0 {
		t.Errorf("not offline: %v, and the index was asked %d times", err, asked.Load())
	}
}

// TestKilledBuild kills the process that builds; the next finds nothing of it.
func TestKilledBuild(t *testing.T) {
	if dir := os.Getenv("CASCADE_TEST_BUILD_IN"); dir != "" { // it is killed: what it made here would stay
		_, _ = New(dir).Prepare(t.Context(), fromWheels("e", os.Getenv("CASCADE_TEST_WHEELS"), "tiny"), nil)
		return
	}
	cache := newPythonCache(t)
	wheels := makeWheel(t, t.TempDir(), "tiny", "1", nil)
	env := fromWheels("e", wheels, "tiny")
	uv, err := uvOf(cache).find(t.Context(), env, &Build{})
	if err != nil {
		t.Fatal(err)
	}
	// This uv stops in the middle of an installation.
	bin := t.TempDir()
	began := filepath.Join(bin, "began")
	script := fmt.Sprintf("#!/bin/sh\nif [ \"$1\" = pip ]; then echo $$ > %s.new; mv %s.new %s; exec sleep 600; fi\nexec %s \"$@\"\n", began, began, began, uv)
	if err := os.WriteFile(filepath.Join(bin, "uv"), []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("/proc/self/exe", "-test.run=^TestKilledBuild$")
	cmd.Env = append(os.Environ(), "CASCADE_TEST_BUILD_IN="+cache.dir, "CASCADE_TEST_WHEELS="+wheels, "PATH="+bin+":"+os.Getenv("PATH"))
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var pid int
	for pid == 0 { // the test's own limit ends it
		if text, err := os.ReadFile(began); err == nil {
			_, _ = fmt.Sscan(string(text), &pid)
		}
		time.Sleep(time.Millisecond)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	half, err := filepath.Glob(filepath.Join(cache.dir, "python", ".build-*"))
	if err != nil || len(half) != 1 {
		t.Fatalf("a killed build leaves %v, %v", half, err)
	}
	for alive := true; alive; time.Sleep(time.Millisecond) {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		alive = err == nil && !strings.Contains(string(stat), ") Z ")
	}
	act, err := cache.Prepare(t.Context(), env, nil)
	if err != nil || !act.Built {
		t.Fatalf("the next build: %+v, %v", act, err)
	}
	if left, err := filepath.Glob(filepath.Join(cache.dir, "python", ".build-*")); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func TestDiskFull(t *testing.T) {
	if !smallfs.Enter(t) {
		return
	}
	cache := newPythonCache(t)
	if err := os.Mkdir(filepath.Join(cache.dir, "python"), 0o700); err != nil {
		t.Fatal(err)
	}
	smallfs.Tmpfs(t, filepath.Join(cache.dir, "python"), 1<<20)
	wheels := makeWheel(t, t.TempDir(), "large", "1", map[string]string{"large.txt": strings.Repeat("0123456789abcdef", 1<<17)})
	makeWheel(t, wheels, "tiny", "1", nil)
	_, err := cache.Prepare(t.Context(), fromWheels("e", wheels, "large"), again(t))
	if err == nil || !strings.Contains(err.Error(), "cascade rm environments") {
		t.Errorf("error %v", err)
	}
	if left, err := filepath.Glob(filepath.Join(cache.dir, "python", ".build-*")); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
	if _, err := cache.Prepare(t.Context(), fromWheels("e", wheels, "tiny"), nil); err != nil {
		t.Errorf("one that fits: %v", err)
	}
}

// again is told what a build waits for, which is none.
func again(t *testing.T) func(string) {
	return func(text string) {
		if text != "" {
			t.Errorf("a permanent error is tried again: %s", text)
		}
	}
}
