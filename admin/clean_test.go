//go:build linux

package admin_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/cascade-run/cascade"
	"github.com/cascade-run/cascade/admin"
)

// Clean takes away the locks of sockets, and their folder, but no lock that is held.
func TestCleanLocks(t *testing.T) {
	run, state := t.TempDir(), t.TempDir()
	t.Setenv("XDG_RUNTIME_DIR", run)
	c, err := cascade.Local(t.Context(), cascade.WithState(state), cascade.WithStore(64<<20))
	if err != nil {
		t.Fatal(err)
	}
	locks := func() []string {
		found, err := filepath.Glob(filepath.Join(run, "cascade", "*", "*.lock"))
		if err != nil {
			t.Fatal(err)
		}
		return found
	}
	before := locks()
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	if len(before) < 2 {
		t.Fatalf("a cluster has these locks: %v", before)
	}
	for _, file := range before { // as after a kill
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o700), os.WriteFile(file, nil, 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	held, err := os.Open(before[0])
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.Flock(int(held.Fd()), unix.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	if _, err := admin.Clean(state); err != nil {
		t.Fatal(err)
	}
	if left := locks(); len(left) != 1 || left[0] != before[0] {
		t.Errorf("beside the held lock %s these are left: %v", before[0], left)
	}
	if err := held.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := admin.Clean(state); err != nil {
		t.Fatal(err)
	}
	if left, err := filepath.Glob(filepath.Join(run, "cascade", "*")); err != nil || len(left) != 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}
