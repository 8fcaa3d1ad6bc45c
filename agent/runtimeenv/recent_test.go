package runtimeenv

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cascade-run/cascade/dag"
)

// What was found holds for a second, for environments that say by content what they are.
func TestRecent(t *testing.T) {
	pkg := dag.Package{Hash: strings.Repeat("0a", 32), Name: "mod.py"}.String()
	for _, tt := range []struct {
		name  string
		env   dag.Environment
		looks int // at what is there, of three Prepare within a second and one after it
	}{
		{"python", dag.Environment{Python: &dag.Python{Version: "3.12", Pip: []string{"numpy"}}, Vars: map[string]string{"A": "1"}}, 2},
		{"variables", dag.Environment{Vars: map[string]string{"A": "1"}}, 2},
		{"packages", dag.Environment{WorkingDir: pkg, PyModules: []string{pkg}}, 2},
		{"folder of wheels", dag.Environment{Python: &dag.Python{Wheels: "wheels"}}, 4},
		{"folder", dag.Environment{WorkingDir: "work"}, 4},
		{"modules of a folder", dag.Environment{PyModules: []string{"mod.py"}}, 4},
		{"go", dag.Environment{Go: "./tasks"}, 4},
		{"binary", dag.Environment{Binary: "tasks"}, 4},
		{"image", dag.Environment{Container: &dag.Container{Image: "debian"}}, 4},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				looks := 0
				plugin := &fakePlugin{create: writeProgram, key: func() (string, error) { looks++; return "k", nil }}
				c := New(t.TempDir())
				c.plugins = []Plugin{plugin}
				defer c.Close()
				prepare := func() {
					act, err := c.Prepare(t.Context(), tt.env, nil)
					if err != nil || len(act.Command) != 1 || len(act.Keys) != 1 {
						t.Fatalf("prepared %+v, error %v", act, err)
					}
				}
				prepare()
				looks = 1 // a build looks twice
				prepare()
				prepare()
				time.Sleep(holds + 1)
				prepare()
				if looks != tt.looks {
					t.Errorf("looked %d times, want %d", looks, tt.looks)
				}
			})
		})
	}
}
