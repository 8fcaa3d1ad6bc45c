package controller

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cascade-run/cascade/controller/core"
)

// The hook is told which job is late; one that fails is an error with its words, and
// none outlives the controller.
func TestLateHook(t *testing.T) {
	file := filepath.Join(t.TempDir(), "late")
	c := &Controller{quit: make(chan struct{})}
	c.cfg.LateHook = []string{"/bin/sh", "-c", `printf '%s: %s' "$CASCADE_JOB_NAME" "$CASCADE_LATE" >` + file}
	a := core.Warn{Job: testJob(1), Name: "forecast", Text: "b is predicted to end late"}
	if err := c.hook(a); err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(file); err != nil || string(b) != "forecast: b is predicted to end late" {
		t.Errorf("%q, %v", b, err)
	}
	c.cfg.LateHook = []string{"/bin/sh", "-c", "echo no pager; exit 3"}
	if err := c.hook(a); err == nil || !strings.Contains(err.Error(), "no pager") {
		t.Errorf("%v", err)
	}
	close(c.quit)
	c.cfg.LateHook = []string{"/bin/sleep", "3600"}
	if err := c.hook(a); err == nil {
		t.Error("a hook that sleeps for an hour ended well")
	}
}
