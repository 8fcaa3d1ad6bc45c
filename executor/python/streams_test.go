//go:build linux

package python_test

import (
	"fmt"
	"testing"

	"github.com/cascade-run/cascade/cascadetest"
	"github.com/cascade-run/cascade/internal/testing/pyenv"
)

// What a generator yields is published while it goes on, and it waits when its consumers lag behind.
func TestGeneratorIsHeldBack(t *testing.T) {
	pyenv.Python(t)
	c := cascadetest.Start(t)
	job := submitText(t, c, "testdata/job", fmt.Appendf(nil, `job: held
params: {mark: %q}
environments:
  py: {python: {}, py_modules: [./streams.py]}
tasks:
  made: {run: "py:streams.made", with: {n: 60, mark: "${params.mark}"}, generates: {x: {count: "*", buffer: 3}}}
  look: {for: {i: "made.x[*]"}, run: "py:streams.look", in: {x: "made.x[${i}]"}, with: {mark: "${params.mark}"}, out: [ahead]}
  most: {run: "py:streams.most", in: {ahead: "look[*].ahead"}, with: {buffer: 3}, out: [text]}
outputs: [most.text]
`, t.TempDir()))
	const want = "most.text = 60 elements, never more than 3 + 2 ahead: True\n"
	if got := outcome(t, c, job); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
