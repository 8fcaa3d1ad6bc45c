package runtimeenv

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cascade-run/cascade/dag"
	"github.com/cascade-run/cascade/internal/testing/smallfs"
)

// imageOf makes an image whose python3 is a script of the shell; it has none without a script.
func imageOf(t *testing.T, script string) (image string) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("takes root, or user namespaces")
	}
	files := smallfs.Programs(t, "sh")
	if script != "" {
		if err := os.WriteFile(filepath.Join(files, "bin", "python3"), []byte("#!/bin/sh\n"+script), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	image, _ = smallfs.FakePodman(t, files, "id")
	return image
}

// says is a python3 that is of an implementation and a version.
func says(implementation, version string, msgpack bool) string {
	return fmt.Sprintf(`echo a warning >&2
echo '{"Path": "/bin/python3", "Implementation": %q, "Version": %q}'
echo '{"Msgpack": %t}'
`, implementation, version, msgpack)
}

func pythonIn(image, version string) dag.Environment {
	return dag.Environment{Name: "e", Container: &dag.Container{Image: image}, Python: &dag.Python{Version: version}}
}

// The python3 of an image is asked once what it is, and is what starts.
func TestImagePython(t *testing.T) {
	for version, want := range map[string][]string{
		"3.12.1": {"python3", "-P", "-m", "cascade.executor"},
		"3.10.4": {"python3", "-c", `import runpy, sys; del sys.path[0]; runpy.run_module("cascade.executor", run_name="__main__", alter_sys=True)`},
	} {
		t.Run(version, func(t *testing.T) {
			env := pythonIn(imageOf(t, says("cpython", version, true)), ">=3.10")
			cache := New(t.TempDir())
			defer cache.Close()
			act, err := cache.Prepare(t.Context(), env, nil)
			if err != nil {
				t.Fatal(err)
			}
			if !act.Built || !act.Foreign || act.Root == "" || !slices.Equal(act.Command, want) {
				t.Errorf("activation %+v", act)
			}
			modules := ""
			for _, kv := range act.Env {
				if path, ok := strings.CutPrefix(kv, "PYTHONPATH="); ok {
					modules = path
				}
			}
			if _, err := os.Stat(filepath.Join(modules, "cascade", "executor", "worker.py")); err != nil || !slices.Contains(act.Env, "PYTHONHOME=") {
				t.Errorf("its variables are %q: %v", act.Env, err)
			}
			if again, err := cache.Prepare(t.Context(), env, nil); err != nil || again.Built {
				t.Errorf("once more: %+v, %v", again, err)
			}
			env.Vars = map[string]string{"PATH": "/bin"} // by which another python3 may be found
			if other, err := cache.Prepare(t.Context(), env, nil); err != nil || !other.Built {
				t.Errorf("with another PATH: %+v, %v", other, err)
			}
		})
	}
}

func TestImagePythonMistakes(t *testing.T) {
	const none = "Python functions take an image with Python 3.10 or later as python3 in its PATH; that of localhost/cascade-test: "
	for _, c := range []struct{ name, script, version, want string }{
		{"none", "", "", none + "python3 in the image: ended with status 1\n"},
		{"broken", "echo no libpython >&2\nexit 127", "", none + "python3 in the image: ended with status 127\nno libpython"},
		{"silent", "echo something", "", none + "it does not say which Python it is, but: something"},
		{"old", says("cpython", "3.9.2", true), "", "has cpython 3.9.2 as /bin/python3; Python functions take CPython 3.10 or later: name another image"},
		{"excluded", says("cpython", "3.12.1", true), ">=3.13", "or later that is >=3.13: name another image"},
		{"other", says("pypy", "3.10.4", true), "", "has pypy 3.10.4"},
	} {
		t.Run(c.name, func(t *testing.T) {
			image := imageOf(t, c.script)
			cache := New(t.TempDir())
			defer cache.Close()
			_, err := cache.Prepare(t.Context(), pythonIn(image, c.version), nil)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want %s", err, c.want)
			}
			var passing transient
			if errors.As(err, &passing) && passing.Transient() {
				t.Errorf("it is tried again: %v", err)
			}
		})
	}
}

// An image without msgpack is lent the host's.
func TestImagePythonBorrows(t *testing.T) {
	image := imageOf(t, says("cpython", "3.12.1", false))
	cache := newPythonCache(t)
	act, err := cache.Prepare(t.Context(), pythonIn(image, ""), nil)
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(act.Env, func(kv string) bool { return strings.HasPrefix(kv, "PYTHONPATH=") })
	found := slices.ContainsFunc(filepath.SplitList(strings.TrimPrefix(act.Env[i], "PYTHONPATH=")), func(dir string) bool {
		_, err := os.Stat(filepath.Join(dir, "msgpack", "fallback.py"))
		return err == nil
	})
	if !found {
		t.Errorf("no msgpack in %s", act.Env[i])
	}
}
