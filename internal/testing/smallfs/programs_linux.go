package smallfs

import (
	"debug/elf"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Programs makes a folder with the files of a small image, and returns it: programs of
// this host in /bin with the libraries that they and this test need, and no more.
func Programs(t *testing.T, programs ...string) string {
	t.Helper()
	dir := t.TempDir()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	copyLibraries(t, self, dir)
	for _, name := range programs {
		path, err := exec.LookPath(name)
		if err != nil {
			t.Skipf("no %s here: %v", name, err)
		}
		copyTo(t, path, filepath.Join(dir, "bin", name))
		copyLibraries(t, path, dir)
	}
	return dir
}

// copyLibraries copies what a program is linked to, and its loader, to their places below dir.
func copyLibraries(t *testing.T, program, dir string) {
	t.Helper()
	file, err := elf.Open(program)
	if err != nil {
		t.Fatalf("look at %s: %v", program, err)
	}
	defer func() { _ = file.Close() }() // it was only read
	for _, p := range file.Progs {
		if p.Type == elf.PT_INTERP {
			name, err := io.ReadAll(p.Open())
			if err != nil {
				t.Fatal(err)
			}
			loader := strings.TrimRight(string(name), "\x00")
			copyTo(t, loader, filepath.Join(dir, loader))
		}
	}
	names, err := file.ImportedLibraries()
	if err != nil {
		t.Fatalf("look at %s: %v", program, err)
	}
	for _, name := range names {
		path := library(t, name)
		if copyTo(t, path, filepath.Join(dir, path)) {
			copyLibraries(t, path, dir)
		}
	}
}

// library finds a library of this host, which the test needs.
func library(t *testing.T, name string) string {
	t.Helper()
	path := findLibrary(name)
	if path == "" {
		t.Skipf("library %s is at none of the usual places", name)
	}
	return path
}

// findLibrary finds a library of this host; "" for one that is at none of the usual places.
func findLibrary(name string) string {
	for _, pattern := range []string{"/lib/*-linux-gnu", "/usr/lib/*-linux-gnu", "/lib64", "/usr/lib64", "/lib", "/usr/lib"} {
		found, err := filepath.Glob(filepath.Join(pattern, name))
		if err == nil && len(found) > 0 {
			return found[0]
		}
	}
	return ""
}

// copyTo copies a file, links followed; false when it is there already.
func copyTo(t *testing.T, from, to string) bool {
	t.Helper()
	if _, err := os.Stat(to); err == nil {
		return false
	}
	content, err := os.ReadFile(from)
	if err == nil {
		err = os.MkdirAll(filepath.Dir(to), 0o755)
	}
	if err == nil {
		err = os.WriteFile(to, content, 0o755)
	}
	if err != nil && !errors.Is(err, fs.ErrExist) {
		t.Fatal(err)
	}
	return true
}
