package smallfs

import (
	"debug/elf"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// hostPython is the Python of a Linux distribution, whose library lies beside it. Others, of
// pyenv or uv, are programs with files at many places.
const hostPython = "/usr/bin/python3"

// notCopied are folders of Python's library that no task of a test uses.
var notCopied = []string{"test", "__pycache__", "idlelib", "tkinter", "lib2to3", "ensurepip", "turtledemo", "pydoc_data", "site-packages", "dist-packages"}

// Python adds the Python of this host with its library, and no packages, to the files of
// an image that Programs made: python3 in /bin. It skips the test where there is none.
func Python(t *testing.T, dir string) {
	t.Helper()
	program, err := filepath.EvalSymlinks(hostPython)
	if err != nil {
		t.Skipf("no %s here: %v", hostPython, err)
	}
	lib := filepath.Join(filepath.Dir(filepath.Dir(program)), "lib", filepath.Base(program))
	if _, err := os.Stat(filepath.Join(lib, "os.py")); err != nil {
		t.Skipf("the library of %s is not where it is usually: %v", program, err)
	}
	copyTo(t, program, filepath.Join(dir, program))
	copyLibraries(t, program, dir)
	if err := os.Symlink(program, filepath.Join(dir, "bin", "python3")); err != nil {
		t.Fatal(err)
	}
	err = filepath.WalkDir(lib, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && (slices.Contains(notCopied, entry.Name()) || strings.HasPrefix(entry.Name(), "config-")):
			return fs.SkipDir
		case strings.HasSuffix(path, ".so"):
			if isWhole(path) {
				copyTo(t, path, filepath.Join(dir, path))
				copyLibraries(t, path, dir)
			}
		case entry.Type().IsRegular():
			copyTo(t, path, filepath.Join(dir, path))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// isWhole tells whether all that a module of Python is linked to is on this host.
func isWhole(path string) bool {
	file, err := elf.Open(path)
	if err != nil {
		return false
	}
	names, err := file.ImportedLibraries()
	return errors.Join(err, file.Close()) == nil && !slices.ContainsFunc(names, func(name string) bool { return findLibrary(name) == "" })
}
