package statedir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/cascade-run/cascade/internal/safedir"
)

// ErrHeld says that another process holds a lock.
var ErrHeld = errors.New("another process holds the lock")

// Lock takes the lock file at path, which is made when it is not there, or fails
// with ErrHeld. A program that cleans a folder removes its lock file while it holds it: a
// file that was opened before that is no lock any more, and the one at path is taken.
func Lock(path string) (*os.File, error) {
	for {
		f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
		if err != nil {
			return nil, fmt.Errorf("open lock: %w", err)
		}
		if held, err := tryLock(f, path); err != nil || held {
			if err == nil {
				return f, nil
			}
			return nil, errors.Join(err, f.Close())
		}
		f.Close()
	}
}

// tryLock locks f, and tells whether it is (still) the file at path.
func tryLock(f *os.File, path string) (bool, error) {
	err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	switch {
	case errors.Is(err, unix.EINTR):
		return false, nil
	case errors.Is(err, unix.EWOULDBLOCK):
		return false, fmt.Errorf("%s: %w", path, ErrHeld)
	case err != nil:
		return false, fmt.Errorf("lock %s: %w", path, err)
	}
	mine, err := f.Stat()
	if err != nil {
		return false, fmt.Errorf("lock %s: %w", path, err)
	}
	there, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("lock %s: %w", path, err)
	}
	return os.SameFile(mine, there), nil
}

// Erase removes from dir what a daemon had put there under these names, then its
// lock file, and each folder that is empty then: it may hold files of others.
// The caller holds the lock until Erase returns.
func Erase(dir, lockName string, names ...string) error {
	for _, name := range names {
		if err := safedir.Remove(filepath.Join(dir, name)); err != nil {
			return fmt.Errorf("remove the state in %s: %w", dir, err)
		}
	}
	if err := os.Remove(filepath.Join(dir, lockName)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove the lock of %s: %w", dir, err)
	}
	// From here on another daemon may start.
	return removeEmpty(dir, filepath.Dir(lockName))
}

// removeEmpty removes the folder sub of dir and dir itself, unless they hold something.
func removeEmpty(dir, sub string) error {
	folders := []string{dir}
	if sub != "." {
		folders = []string{filepath.Join(dir, sub), dir}
	}
	for _, d := range folders {
		err := os.Remove(d)
		if errors.Is(err, unix.ENOTEMPTY) {
			return nil
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("remove the state folder: %w", err)
		}
	}
	return nil
}
