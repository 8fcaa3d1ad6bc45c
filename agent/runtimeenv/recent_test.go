package runtimeenv

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cascade-run/cascade/dag"
)

// What was found holds for a second, if all is named by content or a file that rests.
func TestRecent(t *testing.T) {
	dir := t.TempDir()
	pkg := dag.Package{Hash: strings.Repeat("0a", 32), Name: "mod.py"}.String()
	file := filepath.Join(dir, "mod.py")
	if err := os.WriteFile(file, []byte("x = 1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	written := time.Now()
	modules := dag.Environment{PyModules: []string{file}}
	for i, tt := range []struct {
		name  string
		env   dag.Environment
		now   time.Duration // after the file was written
		looks int           // at what is there, of three Prepare within a second, one after it, and one when the file has changed
	}{
		{"python", dag.Environment{Python: &dag.Python{Version: "3.12", Pip: []string{"numpy"}}, Vars: map[string]string{"A": "1"}}, 0, 2},
		{"variables", dag.Environment{Vars: map[string]string{"A": "1"}}, 0, 2},
		{"packages", dag.Environment{WorkingDir: pkg, PyModules: []string{pkg}}, 0, 2},
		{"file", modules, time.Hour, 3},
		{"file that has just changed", modules, atRest / 2, 5},
		{"folder with modules", dag.Environment{PyModules: []string{dir}}, time.Hour, 5},
		{"file that is not there", dag.Environment{PyModules: []string{"mod.py"}}, time.Hour, 5},
		{"folder of wheels", dag.Environment{Python: &dag.Python{Wheels: "wheels"}}, time.Hour, 5},
		{"folder", dag.Environment{WorkingDir: dir}, time.Hour, 5},
		{"go", dag.Environment{Go: "./tasks"}, time.Hour, 5},
		{"binary", dag.Environment{Binary: "tasks"}, time.Hour, 5},
		{"image", dag.Environment{Container: &dag.Container{Image: "debian"}}, time.Hour, 5},
	} {
		t.Run(tt.name, func(t *testing.T) {
			looks, now := 0, written.Add(tt.now)
			c := New(t.TempDir())
			c.plugins = []Plugin{&fakePlugin{create: writeProgram, key: func() (string, error) { looks++; return "k", nil }}}
			c.recent.now = func() time.Time { return now }
			defer c.Close()
			prepare := func() {
				t.Helper()
				act, err := c.Prepare(t.Context(), tt.env, nil)
				if err != nil || len(act.Command) != 1 || len(act.Keys) != 1 {
					t.Fatalf("prepared %+v, error %v", act, err)
				}
			}
			prepare()
			looks = 1 // a build looks twice
			prepare()
			prepare()
			now = now.Add(holds + 1)
			prepare()
			if err := os.Chtimes(file, written, written.Add(-time.Duration(i+1)*time.Minute)); err != nil {
				t.Fatal(err)
			}
			prepare()
			if looks != tt.looks {
				t.Errorf("looked %d times, want %d", looks, tt.looks)
			}
		})
	}
}
