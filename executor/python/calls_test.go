//go:build linux

package python_test

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/cascade-run/cascade/cascadetest"
	"github.com/cascade-run/cascade/internal/needs"
)

// The process of a task is killed when its calls have returned. The task runs again,
// makes the same calls, and gets what they returned: each has run once.
func TestCallerDies(t *testing.T) {
	needs.Python(t)
	c := cascadetest.Start(t)
	job := submitText(t, c, "testdata/job", fmt.Appendf(nil, `job: dies
environments:
  py: {python: {pip: [numpy]}, working_dir: .}
tasks:
  dies: {run: "py:calling.dies_once", with: {n: 3, mark: %q}, out: [counted]}
outputs: [dies.counted]
`, filepath.Join(t.TempDir(), "mark")))
	const want = "dies.counted = [1,1,1]\n"
	if got := outcome(t, c, job); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
