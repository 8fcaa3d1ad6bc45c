package outfile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

// asUser has f see files as a user who is not root does.
func asUser(t *testing.T, f func()) {
	t.Helper()
	if os.Geteuid() != 0 {
		f()
		return
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // the thread ends with the goroutine
		if _, err := unix.SetfsuidRetUid(user); err != nil {
			t.Error(err)
			return
		}
		f()
	}()
	<-done
}

const user = 54321

// Write and open(2) agree on which files may be written.
func TestPermissionsOfAFileThatIsThere(t *testing.T) {
	for _, c := range []struct {
		name         string
		folder, file fs.FileMode
		right        bool
	}{
		{"both may be written", 0o700, 0o600, true},
		{"the folder may not be written", 0o500, 0o600, true},
		{"the file may not be written", 0o700, 0o400, false},
		{"neither may be written", 0o500, 0o400, false},
	} {
		above := t.TempDir()
		dir := filepath.Join(above, "folder")
		path := filepath.Join(dir, "file")
		if err := errors.Join(os.Chmod(filepath.Dir(above), 0o755), os.Chmod(above, 0o755), os.Mkdir(dir, 0o700)); err != nil {
			t.Fatal(err)
		}
		write(t, path, "old, and longer")
		err := errors.Join(os.Chmod(path, c.file), os.Chmod(dir, c.folder))
		if os.Geteuid() == 0 {
			err = errors.Join(err, os.Chown(path, user, -1), os.Chown(dir, user, -1))
		}
		if err != nil {
			t.Fatal(err)
		}
		asUser(t, func() { err = WriteBytes(path, []byte("new")) })
		want := "old, and longer"
		if c.right {
			want = "new"
		}
		if (err == nil) != c.right || !c.right && !errors.Is(err, fs.ErrPermission) {
			t.Errorf("%s: %v", c.name, err)
		}
		if err := errors.Join(os.Chmod(dir, 0o700), os.Chmod(path, 0o600)); err != nil {
			t.Fatal(err)
		}
		if got := read(t, path); got != want || entries(t, dir) != 1 {
			t.Errorf("%s: the file has %q, the folder %d names", c.name, got, entries(t, dir))
		}
	}
}

func TestRootKeepsTheOwner(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can give a file to another user")
	}
	path := filepath.Join(t.TempDir(), "file")
	write(t, path, "old")
	var is unix.Stat_t
	if err := errors.Join(os.Chown(path, user, user), WriteBytes(path, []byte("new")), unix.Stat(path, &is)); err != nil {
		t.Fatal(err)
	}
	if is.Uid != user || is.Gid != user || read(t, path) != "new" {
		t.Errorf("the file is of %d:%d and has %q", is.Uid, is.Gid, read(t, path))
	}
}
