//go:build linux

package python_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cascade-run/cascade/cascadetest"
	"github.com/cascade-run/cascade/internal/testing/pyenv"
)

// The process of a task is killed when its calls have returned. The task runs again,
// makes the same calls, and gets what they returned: each has run once.
func TestCallerDies(t *testing.T) {
	pyenv.Python(t)
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

// An input that is passed on to two calls reaches both, in the first try, also when the task
// before has left it in the process and not in the store: most of these chains do.
func TestPassedOnTwice(t *testing.T) {
	pyenv.Python(t)
	c := cascadetest.Start(t)
	job := submitText(t, c, "testdata/job", []byte(`job: twice
environments:
  py: {python: {pip: [numpy]}, working_dir: .}
tasks:
  ramp: {for: {i: "0..7"}, run: "py:calling.ramp", with: {n: 1000}, out: [x]}
  twice: {for: {i: "0..7"}, run: "py:calling.passed_on_twice", in: {x: "ramp[${i}].x"}, out: [seen]}
outputs: ["twice[*].seen"]
`))
	var want strings.Builder
	for i := range 8 {
		fmt.Fprintf(&want, "twice[%d].seen = [2,3,1]\n", i)
	}
	if got := outcome(t, c, job); got != want.String() {
		t.Errorf("got %s, want %s", got, want.String())
	}
}
