package outfile

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"
)

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// entries is how many names a folder has: what was written beside a file must not stay.
func entries(t *testing.T, dir string) int {
	t.Helper()
	all, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	return len(all)
}

func TestLinksAreFollowed(t *testing.T) {
	dir := t.TempDir()
	for _, sub := range []string{"real", "other"} {
		if err := os.Mkdir(filepath.Join(dir, sub), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	write(t, filepath.Join(dir, "real/there"), "old")
	for name, to := range map[string]string{"link": "real/there", "dangling": "real/new", "twice": "link", "folder": "real", "loop": "loop", "far": "none/x"} {
		if err := os.Symlink(to, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	tests := []struct {
		path, file string
		fails      error
	}{
		{path: "link", file: "real/there"},
		{path: "dangling", file: "real/new"},
		{path: "twice", file: "real/there"},
		{path: "folder/x", file: "real/x"},
		{path: "other/../folder/y", file: "real/y"},
		{path: "loop", fails: unix.ELOOP},
		{path: "far", fails: fs.ErrNotExist},
	}
	for _, tt := range tests {
		err := WriteBytes(filepath.Join(dir, tt.path), []byte(tt.path))
		if !errors.Is(err, tt.fails) {
			t.Errorf("%s: %v, want %v", tt.path, err, tt.fails)
		}
		if tt.fails != nil {
			continue
		}
		if got := read(t, filepath.Join(dir, tt.file)); got != tt.path {
			t.Errorf("%s: %s has %q", tt.path, tt.file, got)
		}
		if got, err := Resolve(filepath.Join(dir, tt.path)); err != nil || got != filepath.Join(dir, tt.file) {
			t.Errorf("%s is resolved to %s, %v", tt.path, got, err)
		}
	}
	for name := range map[string]bool{"link": true, "dangling": true, "twice": true} {
		if info, err := os.Lstat(filepath.Join(dir, name)); err != nil || info.Mode().Type() != fs.ModeSymlink {
			t.Errorf("%s is no link any more: %v, %v", name, info, err)
		}
	}
}

func TestAPipeIsWrittenInto(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pipe")
	if err := unix.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := Check(path); err != nil {
		t.Error(err)
	}
	got := make(chan string)
	go func() {
		b, err := os.ReadFile(path)
		got <- string(b)
		if err != nil {
			t.Error(err)
		}
	}()
	if err := WriteBytes(path, []byte("text")); err != nil {
		t.Fatal(err)
	}
	if g := <-got; g != "text" {
		t.Errorf("the reader of the pipe got %q", g)
	}
	if info, err := os.Lstat(path); err != nil || info.Mode().Type() != fs.ModeNamedPipe {
		t.Errorf("the pipe is %v now, %v", info, err)
	}
}

// A device of the test's own takes root: the null device shows as a link what is not replaced.
func TestADeviceIsWrittenInto(t *testing.T) {
	path := filepath.Join(t.TempDir(), "null")
	if err := os.Symlink(os.DevNull, path); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(Check(path), WriteBytes(path, []byte("text"))); err != nil {
		t.Error(err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode()&fs.ModeDevice == 0 {
		t.Fatalf("the device is %v now, %v", info, err)
	}
}

// A path of an open file is written at the position of that file, and not over its beginning.
func TestDescriptorsAreWrittenInto(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	f, err := os.Create(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteString("before "); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{"/dev/fd", "/proc/self/fd"} {
		path := filepath.Join(dir, strconv.Itoa(int(f.Fd())))
		if err := errors.Join(Check(path), WriteBytes(path, []byte("text "))); err != nil {
			t.Errorf("%s: %v", path, err)
		}
	}
	for path, want := range map[string]int{"/dev/stdout": 1, "/dev/../dev/stderr": 2, "/dev/fd/0": 0} {
		if fd, ok := descriptor(path); !ok || fd != want {
			t.Errorf("%s stands for descriptor %d, %t", path, fd, ok)
		}
	}
	if got := read(t, file); got != "before text text " {
		t.Errorf("the file has %q", got)
	}
	if _, err := Create("/dev/fd/99999", 0o666); !errors.Is(err, unix.EBADF) {
		t.Errorf("a descriptor that is not open: %v", err)
	}
}

// A failure leaves what was there, and nothing beside it.
func TestAFailureLeavesTheFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "file")
	write(t, path, "old")
	failure := errors.New("half of it")
	err := Write(path, 0o666, func(w io.Writer) error {
		_, err := io.WriteString(w, "new")
		return errors.Join(err, failure)
	})
	if !errors.Is(err, failure) || read(t, path) != "old" || entries(t, dir) != 1 {
		t.Errorf("%v; the file has %q, the folder %d names", err, read(t, path), entries(t, dir))
	}
	if err := WriteBytes(filepath.Join(dir, "none", "x"), nil); err == nil || err.Error() != "open "+filepath.Join(dir, "none", "x")+": no such file or directory" {
		t.Errorf("in a folder that is not there: %v", err)
	}
	if err := WriteBytes(path, []byte("new")); err != nil || read(t, path) != "new" || entries(t, dir) != 1 {
		t.Errorf("%v; the file has %q, the folder %d names", err, read(t, path), entries(t, dir))
	}
}

func TestModesFollowTheUmask(t *testing.T) {
	dir := t.TempDir()
	tests := []struct {
		umask int
		perm  fs.FileMode
		there fs.FileMode // of a file that is replaced
		want  fs.FileMode
	}{
		{umask: 0o077, perm: 0o666, want: 0o600},
		{umask: 0o002, perm: 0o666, want: 0o664},
		{umask: 0o022, perm: 0o666, want: 0o644},
		{umask: 0o022, perm: 0o600, want: 0o600},
		{umask: 0o022, perm: 0o666, there: 0o600, want: 0o600},
		{umask: 0o077, perm: 0o666, there: 0o664, want: 0o664},
		{umask: 0o022, perm: 0o600, there: 0o644, want: 0o600},
	}
	for _, tt := range tests {
		path := filepath.Join(dir, "file")
		if tt.there != 0 {
			write(t, path, "old")
			if err := os.Chmod(path, tt.there); err != nil {
				t.Fatal(err)
			}
		}
		before := unix.Umask(tt.umask)
		err := Write(path, tt.perm, func(io.Writer) error { return nil })
		unix.Umask(before)
		info, statErr := os.Stat(path)
		if err := errors.Join(err, statErr); err != nil {
			t.Fatal(err)
		}
		if info.Mode().Perm() != tt.want {
			t.Errorf("%+v: mode %o", tt, info.Mode().Perm())
		}
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
}

func TestCheck(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "file"), "")
	tests := map[string]bool{"new": true, "a/b/c": true, "file": true, "file/x": false, ".": false}
	for path, right := range tests {
		if err := Check(filepath.Join(dir, path)); (err == nil) != right {
			t.Errorf("%s: %v", path, err)
		}
	}
}
