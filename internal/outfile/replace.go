package outfile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Replace puts a file with these bytes in the place of what is at path, a link too, so that after a crash or a power
// loss the old file is there, or the new one, whole. It is for files of the program's own, in a folder of its own.
func Replace(path string, content []byte, perm fs.FileMode) error {
	f, err := createBeside(path, perm)
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
		err = Rename(f.Name(), path)
	}
	if err != nil {
		_ = os.Remove(f.Name()) // err says more; it is not there when the folder alone was not synced
	}
	return err
}

// Rename renames a file, whose content was synced, within a folder, and has that survive a power loss.
func Rename(from, to string) error {
	if err := os.Rename(from, to); err != nil {
		return err
	}
	dir, err := os.Open(filepath.Dir(to))
	if err != nil {
		return err
	}
	err = dir.Sync()
	if errors.Is(err, unix.EINVAL) { // its file system does not sync folders
		err = nil
	}
	return errors.Join(err, dir.Close())
}
