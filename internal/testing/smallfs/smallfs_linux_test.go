package smallfs

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

func TestTmpfsFills(t *testing.T) {
	if !Enter(t) {
		return
	}
	dir := Tmpfs(t, t.TempDir(), 1<<20)
	release := Fill(t, dir, 0)
	if err := os.WriteFile(filepath.Join(dir, "x"), make([]byte, 8192), 0o600); !errors.Is(err, unix.ENOSPC) {
		t.Errorf("write to a full file system: %v", err)
	}
	release()
	if err := os.WriteFile(filepath.Join(dir, "x"), make([]byte, 8192), 0o600); err != nil {
		t.Error(err)
	}
}

func TestReadOnly(t *testing.T) {
	if !Enter(t) {
		return
	}
	dir := t.TempDir()
	ReadOnly(t, dir)
	if err := os.WriteFile(filepath.Join(dir, "x"), nil, 0o600); !errors.Is(err, unix.EROFS) {
		t.Errorf("write: %v", err)
	}
}

func TestCut(t *testing.T) {
	if !Enter(t) {
		return
	}
	im := Ext4(t, t.TempDir(), 16<<20)
	write := func(name string, sync bool) {
		f, err := os.Create(filepath.Join(im.Dir, name))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if _, err := f.WriteString(name); err != nil {
			t.Fatal(err)
		}
		if sync {
			if err := f.Sync(); err != nil {
				t.Fatal(err)
			}
		}
	}
	write("synced", true)
	write("lost", false)
	im.Cut()
	if _, err := os.Create(filepath.Join(im.Dir, "late")); err == nil {
		t.Error("a write after the cut")
	}
	im.Restart()
	if text, err := os.ReadFile(filepath.Join(im.Dir, "synced")); string(text) != "synced" {
		t.Errorf("synced before the cut: %q, %v", text, err)
	}
	for _, name := range []string{"lost", "late"} {
		if _, err := os.Stat(filepath.Join(im.Dir, name)); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s is there after the cut: %v", name, err)
		}
	}
}
