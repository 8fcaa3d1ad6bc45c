//go:build linux

package python_test

import (
	"testing"

	"github.com/cascade-run/cascade"
	"github.com/cascade-run/cascade/cascadetest"
	"github.com/cascade-run/cascade/internal/needs"
)

// What a task changes of its process ends with it: each of these looks, in one process, whether
// it is as the first found it, and then changes one thing.
func TestStateOfTheProcess(t *testing.T) {
	needs.Python(t)
	c := cascadetest.Start(t, cascade.WithCPU(1))
	job := submitText(t, c, "testdata/state", []byte(`job: state
environments: {py: {python: {}, py_modules: [./changes.py], env: {GIVEN: "yes"}}}
tasks:
  change:
    for:
      what: [folder, removed folder, mask, variables, all variables, other variables, streams, descriptors, paths, limits, signals, timer, warnings,
        logging, locale, sockets, context, interpreter, processes, temporary]
    run: "py:changes.change"
    with: {what: "${what}"}
    out: [found]
  series: {run: "py:changes.series", with: {n: 3}, in: {after: "change[*].found"}, generates: {i: 3}}
  again: {run: "py:changes.series", with: {n: 3}, in: {after: "series.i[*]"}, generates: {i: 3}}
  after: {run: "py:changes.after", in: {changes: "change[*].found", series: "again.i[*]"}, out: [found]}
outputs: [after.found]
`))
	const want = `after printed
  printed at the end
after.found = {"at the end":[],"left":{},"processes":1}
`
	if got := outcome(t, c, job); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// A process in which a task changed what cannot be set back, such as its user, is replaced.
func TestProcessIsReplaced(t *testing.T) {
	needs.Python(t)
	c := cascadetest.Start(t, cascade.WithCPU(1))
	job := submitText(t, c, "testdata/state", []byte(`job: replaced
environments: {py: {python: {}, py_modules: [./changes.py], env: {GIVEN: "yes"}}}
tasks:
  first: {run: "py:changes.change", with: {what: nothing}, out: [found]}
  second: {run: "py:changes.change", with: {what: for good}, in: {after: first.found}, out: [found]}
  third: {run: "py:changes.change", with: {what: nothing}, in: {after: second.found}, out: [found]}
  after: {run: "py:changes.processes", in: {a: first.found, b: second.found, c: third.found}, out: [found]}
outputs: [after.found]
`))
	const want = "after.found = {\"found\":[],\"processes\":[0,0,2]}\n"
	if got := outcome(t, c, job); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
