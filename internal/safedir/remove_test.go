//go:build linux

package safedir_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cascade-run/cascade/internal/safedir"
	"github.com/cascade-run/cascade/internal/testing/asuser"
)

// Folders that may not be written, read or entered are removed too; what links lead to stays as it was.
func TestRemove(t *testing.T) {
	if !asuser.Enter(t) {
		return
	}
	base := t.TempDir()
	top, other := filepath.Join(base, "top"), filepath.Join(base, "other")
	t.Cleanup(func() { _ = os.Chmod(other, 0o700) })
	for _, dir := range []string{filepath.Join(top, "sealed", "below"), filepath.Join(top, "withheld"), other} {
		if err := errors.Join(os.MkdirAll(dir, 0o700), os.WriteFile(filepath.Join(dir, "file"), nil, 0o400)); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(os.Symlink(other, filepath.Join(top, "sealed", "link")),
		os.Chmod(filepath.Join(top, "sealed", "below"), 0o500), os.Chmod(filepath.Join(top, "sealed"), 0o500),
		os.Chmod(filepath.Join(top, "withheld"), 0), os.Chmod(other, 0o500)); err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second time there is nothing
		if err := safedir.Remove(top); err != nil {
			t.Error(err)
		}
	}
	if _, err := os.Lstat(top); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("it is there: %v", err)
	}
	if info, err := os.Stat(other); err != nil || info.Mode().Perm() != 0o500 {
		t.Errorf("the folder that a link leads to: %v, %v", info, err)
	}
	if _, err := os.Stat(filepath.Join(other, "file")); err != nil {
		t.Error(err)
	}
	if err := safedir.Remove(filepath.Join(other, "file")); err == nil || !strings.Contains(err.Error(), "permission denied") {
		t.Errorf("below a folder that is not ours to change: %v", err)
	}
}
