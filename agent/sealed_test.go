//go:build linux

package agent

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/cascade-run/cascade/internal/testing/asuser"
)

// A task of an ordinary user copies its working_dir, whose folders are read-only, to its scratch folder: that goes with
// its executor, with the next start, or with a clean-up, and environments go with the state.
func TestSealedFoldersAreRemoved(t *testing.T) {
	if !asuser.Enter(t) {
		return
	}
	state := t.TempDir()
	copied := func(dir string) string {
		t.Helper()
		sealed := filepath.Join(state, dir, "copy")
		if err := errors.Join(os.MkdirAll(sealed, 0o700), os.WriteFile(filepath.Join(sealed, "data"), nil, 0o400), os.Chmod(sealed, 0o500)); err != nil {
			t.Fatal(err)
		}
		return filepath.Join(state, dir)
	}
	gone := func(when, dir string) {
		t.Helper()
		if _, err := os.Lstat(dir); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s, %s is there: %v", when, dir, err)
		}
	}
	scratch := copied("scratch/1")
	if err := (executorFiles{scratch: scratch, control: filepath.Join(state, "none")}).remove(); err != nil {
		t.Error(err)
	}
	gone("after its executor's end", scratch)

	scratch = copied("scratch/2")
	s, _, err := openState(state)
	if err != nil {
		t.Fatal(err)
	}
	gone("after a start", scratch)

	scratch, cache := copied("scratch/3"), copied("cache/python/key")
	if err := s.close(); err != nil {
		t.Error(err)
	}
	if _, err := Clean(state, false, false); err != nil {
		t.Error(err)
	}
	gone("after a clean-up", scratch)
	if _, err := Clean(state, false, true); err != nil {
		t.Error(err)
	}
	gone("after a clean-up of all", cache)
}
