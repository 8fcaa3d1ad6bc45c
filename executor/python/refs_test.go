//go:build linux

package python_test

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/cascade-run/cascade/cascadetest"
	"github.com/cascade-run/cascade/internal/testing/pyenv"
)

// Futures are in values: a program, tasks and what these return hold them, through tries that fail and processes that die, and
// when nothing does all is freed.
func TestFuturesInValues(t *testing.T) {
	dir := programs(t)
	program(t, "refs", dir, filepath.Join(t.TempDir(), "state"))
}

// The results of a task of a graph outlive its calls: a future, or the handle of an actor, in one of them is refused.
func TestFutureInResultOfGraph(t *testing.T) {
	pyenv.Python(t)
	c := cascadetest.Start(t)
	for _, run := range []string{"futures.leaks, with: {n: 3}", "futures.leaks_actor"} {
		job := submitText(t, c, "testdata/job", fmt.Appendf(nil, `job: leaks
environments:
  py: {python: {pip: [numpy]}, working_dir: .}
tasks:
  leaks: {run: py:%s, out: [said]}
outputs: [leaks.said]
`, run))
		const want = "leaks failed: error: it returned a future or the handle of an actor, which only a task may that another task or a session has called\n"
		if got := outcome(t, c, job); got != want {
			t.Errorf("%s: got %s, want %s", run, got, want)
		}
	}
}
