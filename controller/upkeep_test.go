package controller

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cascade-run/cascade/comms"
)

// Upkeep removes packages that no submit named, stores what was learned of tasks,
// and leaves the store as it was.
func TestUpkeep(t *testing.T) {
	dir := t.TempDir()
	c := startController(t, dir, comms.NewInproc())
	stale, fresh := filepath.Join(c.blobs.dir, strings.Repeat("0a", 32)), filepath.Join(c.blobs.dir, "73"+strings.Repeat("0b", 32))
	for _, name := range []string{stale, fresh} {
		if err := os.WriteFile(name, []byte("package"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	old := time.Now().Add(-2 * c.cfg.Unclaimed)
	if err := os.Chtimes(stale, old, old); err != nil {
		t.Fatal(err)
	}
	c.upkeep()
	c.work.Wait()
	if _, err := os.Stat(stale); !os.IsNotExist(err) {
		t.Errorf("the old package is still there: %v", err)
	}
	if _, err := os.Stat(fresh); err != nil {
		t.Errorf("a new package is gone: %v", err)
	}
	for _, err := range c.store.Jobs() {
		if err != nil {
			t.Errorf("the store after its upkeep: %v", err)
		}
	}
}
