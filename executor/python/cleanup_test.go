//go:build linux

package python_test

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/cascade-run/cascade"
	"github.com/cascade-run/cascade/cascadetest"
	"github.com/cascade-run/cascade/internal/testing/pyenv"
)

// A task that is cancelled is interrupted once, and then has its time to clean up; one that swallows the interrupt gets another,
// also one that keeps it.
func TestCleanUp(t *testing.T) {
	pyenv.Python(t)
	c := cascadetest.Start(t, cascade.WithCPU(4)) // all at once
	dir := t.TempDir()
	if err := syscall.Mkfifo(filepath.Join(dir, "waits"), 0o600); err != nil {
		t.Fatal(err)
	}
	waits, err := os.OpenFile(filepath.Join(dir, "waits"), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer waits.Close()
	job := submitText(t, c, "testdata/state", fmt.Appendf(nil, `job: cleanup
environments: {py: {python: {}, py_modules: [./cleanup.py]}}
tasks:
  clean: {for: {how: [finally, except]}, run: "py:cleanup.clean", with: {mark: %[1]q, how: "${how}"}}
  swallow: {run: "py:cleanup.swallow", with: {mark: %[1]q, how: swallow}}
  keep: {run: "py:cleanup.keep", with: {mark: %[1]q, how: keep}}
`, dir))
	if _, err := io.ReadFull(waits, make([]byte, 4)); err != nil { // each of them does
		t.Fatal(err)
	}
	if err := job.Cancel(t.Context(), "enough"); err != nil {
		t.Fatal(err)
	}
	const want = `clean[except] cancelled: cancelled: enough
clean[finally] cancelled: cancelled: enough
keep cancelled: cancelled: enough
swallow cancelled: cancelled: enough
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
	if got := fmt.Sprint(marks); got != "[except finally keep0 keep1 keep2 swallow0 swallow1 swallow2 waits]" {
		t.Errorf("what the tasks left: %s", got)
	}
}
