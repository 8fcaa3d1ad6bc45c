//go:build linux

package python_test

import (
	"os/exec"
	"path/filepath"
	"testing"
)

// Futures are in values: a program, tasks and what these return hold them, through tries that fail and processes that die, and
// when nothing does all is freed.
func TestFuturesInValues(t *testing.T) {
	dir := programs(t)
	if out, err := exec.Command("go", "build", "-o", dir, "../../cmd/cascade").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	program(t, "refs", dir, filepath.Join(t.TempDir(), "state"))
}
