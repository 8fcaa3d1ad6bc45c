//go:build linux

package python_test

import (
	"os/exec"
	"testing"

	"github.com/cascade-run/cascade/internal/testing/pyenv"
)

// Searches of cascade.tune: what trainables report, how trials end, own searchers, and a search whose processes are all
// killed, which goes on in a folder that was moved.
func TestTune(t *testing.T) {
	pyenv.Python(t)
	python, env := interpreter(t)
	dir := t.TempDir()
	if out, err := exec.Command("go", "build", "-o", dir, "../../cmd/cascade").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	same(t, "testdata/tuning.golden", prints(t, ".", env, python, "testdata/tuning.py", dir, t.TempDir()))
}
