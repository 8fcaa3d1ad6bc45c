package gcs

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cascade-run/cascade/controller/records"
)

// A commit whose large values Badger could not sync fails, and so does all that follows.
func TestUnsyncedValues(t *testing.T) {
	o := small(t.TempDir())
	o.Shards, o.Sync = 1, true
	s, err := Open(o)
	must(t, err)
	create(t, s, jobID(1), []byte("g"))
	s.shards[0].unsynced.Errorf("another error: %v", errors.New("x"))
	commit := func() error {
		return wait(func(d func(error)) { s.Commit(records.Commit{Job: jobID(1), Row: &records.Job{ID: jobID(1)}}, d) })
	}
	must(t, commit())
	s.shards[0].unsynced.Errorf(unsyncedText+": %v\n", errors.New("input/output error"))
	for range 2 {
		if err := commit(); err == nil || !strings.Contains(err.Error(), "input/output error") {
			t.Errorf("a commit that is not on disk: %v", err)
		}
	}
	_ = s.Close() // it failed
}

// Badger still says what we listen for.
func TestUnsyncedText(t *testing.T) {
	dir, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/dgraph-io/badger/v4").Output()
	if err != nil {
		t.Skipf("the module cannot be found: %v", err)
	}
	text, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(dir)), "value.go"))
	must(t, err)
	if !strings.Contains(string(text), `Errorf("`+unsyncedText) {
		t.Errorf("Badger's value log does not say %q any more: look how it tells that a sync failed", unsyncedText)
	}
}
