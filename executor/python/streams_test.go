//go:build linux

package python_test

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/cascade-run/cascade"
	"github.com/cascade-run/cascade/cascadetest"
	"github.com/cascade-run/cascade/dag"
	"github.com/cascade-run/cascade/internal/needs"
)

// What a generator yields is published while it goes on, and it waits when its consumers lag behind.
func TestGeneratorIsHeldBack(t *testing.T) {
	needs.Python(t)
	c := cascadetest.Start(t)
	dir, err := filepath.Abs("testdata/job")
	if err != nil {
		t.Fatal(err)
	}
	g, err := dag.ParseYAML("job.yaml", fmt.Appendf(nil, `job: held
params: {mark: %q}
environments:
  py: {python: {}, py_modules: [./streams.py]}
tasks:
  made: {run: "py:streams.made", with: {n: 60, mark: "${params.mark}"}, generates: {x: {count: "*", buffer: 3}}}
  look: {for: {i: "made.x[*]"}, run: "py:streams.look", in: {x: "made.x[${i}]"}, with: {mark: "${params.mark}"}, out: [ahead]}
  most: {run: "py:streams.most", in: {ahead: "look[*].ahead"}, with: {buffer: 3}, out: [text]}
outputs: [most.text]
`, t.TempDir()), dag.Override{}, dag.Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	const want = "most.text = 60 elements, never more than 3 + 2 ahead: True\n"
	if got := outcome(t, c, cascadetest.SubmitGraph(t, c, g, cascade.WithDir(dir))); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
