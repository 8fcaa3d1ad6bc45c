//go:build linux

package python_test

import (
	"fmt"
	"os"
	"testing"

	"github.com/cascade-run/cascade/cascadetest"
	"github.com/cascade-run/cascade/internal/testing/pyenv"
)

// A task is interrupted once, and then has its time to clean up; one that swallows the interrupt gets another, also one that keeps it.
func TestCleanUp(t *testing.T) {
	pyenv.Python(t)
	c := cascadetest.Start(t)
	dir := t.TempDir()
	job := submitText(t, c, "testdata/state", fmt.Appendf(nil, `job: cleanup
keep_going: true
environments: {py: {python: {}, py_modules: [./cleanup.py]}}
tasks:
  clean: {for: {how: [finally, except]}, run: "py:cleanup.clean", with: {mark: %[1]q, how: "${how}"}, timeout: 100ms}
  swallow: {run: "py:cleanup.swallow", with: {mark: %[1]q, how: swallow}, timeout: 100ms}
  keep: {run: "py:cleanup.keep", with: {mark: %[1]q, how: keep}, timeout: 100ms}
`, dir))
	const want = `clean[except] failed: timeout: it ran longer than its timeout of 0.1 s
clean[finally] failed: timeout: it ran longer than its timeout of 0.1 s
keep failed: timeout: it ran longer than its timeout of 0.1 s
swallow failed: timeout: it ran longer than its timeout of 0.1 s
`
	if got := outcome(t, c, job); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	var marks []string
	found, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range found {
		marks = append(marks, f.Name())
	}
	if got := fmt.Sprint(marks); got != "[except finally keep0 keep1 keep2 swallow0 swallow1 swallow2]" {
		t.Errorf("what the tasks left: %s", got)
	}
}
