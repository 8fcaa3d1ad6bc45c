// Package outfile writes the files that a user names: outputs of a job, pictures, profiles, backups; and, with
// Replace, those of the program's own.
//
// A device, a pipe and all else that is no regular file is written into. A link is followed. A regular
// file is replaced by a complete new one, which keeps the owner where that is permitted. The mode of a new
// file is what the umask leaves of the mode asked for. When the file is writable and its folder is not, the
// file is truncated and written into; when that fails, its old contents are lost.
package outfile

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

const (
	maxLinks = 40 // as the kernel has it
	maxTries = 100
)

// File is a file that is being written. Commit puts it in place, Close without it leaves what was there.
type File struct {
	*os.File
	target string // that Commit replaces; "" when the file is written into
}

// Create opens the file of a path for writing. perm is the mode of a new regular file, before the umask;
// one that is replaced keeps its mode, as far as perm allows.
func Create(path string, perm fs.FileMode) (*File, error) {
	if fd, ok := descriptor(path); ok {
		f, err := duplicate(path, fd)
		return &File{File: f}, err
	}
	target, err := Resolve(path)
	if err != nil {
		return nil, err
	}
	old, err := os.OpenFile(target, os.O_WRONLY, 0) // what may not be written is not replaced either
	if errors.Is(err, fs.ErrNotExist) {
		f, err := createBeside(target, perm)
		return &File{File: f, target: target}, err
	}
	if err != nil {
		return nil, err
	}
	info, err := old.Stat()
	if err != nil {
		return nil, errors.Join(err, old.Close())
	}
	if !info.Mode().IsRegular() {
		return &File{File: old}, nil
	}
	f, err := createBeside(target, perm)
	if errors.Is(err, fs.ErrPermission) || errors.Is(err, unix.EROFS) {
		if err := old.Truncate(0); err != nil {
			return nil, errors.Join(err, old.Close())
		}
		return &File{File: old}, nil
	}
	if err := errors.Join(err, old.Close()); err != nil {
		return nil, err
	}
	if is, ok := info.Sys().(*syscall.Stat_t); ok {
		_ = f.Chown(int(is.Uid), int(is.Gid)) // only root may, in general
	}
	if err := f.Chmod(info.Mode().Perm() & perm); err != nil {
		return nil, errors.Join(err, f.Close(), os.Remove(f.Name()))
	}
	return &File{File: f, target: target}, nil
}

// createBeside creates a file of another name in the folder of target; its mode follows the umask, which
// os.CreateTemp does not do.
func createBeside(target string, perm fs.FileMode) (f *os.File, err error) {
	dir, name := filepath.Split(target)
	name = strings.ToValidUTF8(name[:min(len(name), 200)], "") // what is added has to fit into the longest name
	for range maxTries {
		f, err = os.OpenFile(dir+"."+name+"."+strconv.FormatUint(rand.Uint64(), 36), os.O_WRONLY|os.O_CREATE|os.O_EXCL, perm)
		if !errors.Is(err, fs.ErrExist) {
			break
		}
	}
	var failed *fs.PathError
	if errors.As(err, &failed) {
		failed.Path = target // which the user knows
	}
	return f, err
}

// Sync has what was written survive a power loss; a pipe or device keeps nothing.
func (f *File) Sync() error {
	err := f.File.Sync()
	if f.target == "" && errors.Is(err, unix.EINVAL) {
		return nil
	}
	return err
}

// Commit puts what was written in place.
func (f *File) Commit() error {
	err := f.File.Close()
	if f.target == "" {
		return err
	}
	if err == nil {
		err = os.Rename(f.Name(), f.target)
	}
	if err != nil {
		err = errors.Join(err, os.Remove(f.Name()))
	}
	f.target = ""
	return err
}

// Close drops what was written, unless it was committed.
func (f *File) Close() error {
	err := f.File.Close()
	if errors.Is(err, fs.ErrClosed) {
		err = nil
	}
	if f.target != "" {
		err = errors.Join(err, os.Remove(f.Name()))
		f.target = ""
	}
	return err
}

// Write has fill write the file of a path, which is as it was when fill fails.
func Write(path string, perm fs.FileMode, fill func(io.Writer) error) error {
	f, err := Create(path, perm)
	if err != nil {
		return err
	}
	if err := fill(f); err != nil {
		return errors.Join(err, f.Close())
	}
	return f.Commit()
}

// WriteBytes is Write of bytes, to a file that all may read whom the umask lets.
func WriteBytes(path string, b []byte) error {
	return Write(path, 0o666, func(w io.Writer) error {
		_, err := w.Write(b)
		return err
	})
}

// Check returns an error when the file of a path could not be written, as far as that can be told
// before: it is a folder, lies in none, or may not be written. Folders that are not there could be made.
func Check(path string) error {
	if _, ok := descriptor(path); ok {
		return nil
	}
	target, err := Resolve(path)
	if err != nil {
		return err
	}
	info, err := os.Stat(target)
	switch {
	case err == nil && info.IsDir():
		return fmt.Errorf("%s is a folder: end it with a slash, or name a file in it", path)
	case err == nil:
		if err := unix.Access(target, unix.W_OK); err != nil {
			return fmt.Errorf("write into %s: %w", target, err)
		}
		return nil
	}
	return CheckFolder(filepath.Dir(target))
}

// CheckFolder is Check for a folder that files are written into.
func CheckFolder(path string) error {
	for folder := path; ; folder = filepath.Dir(folder) {
		info, err := os.Stat(folder)
		switch {
		case err == nil && !info.IsDir():
			return fmt.Errorf("%s is no folder", folder)
		case err == nil:
			if err := unix.Access(folder, unix.W_OK|unix.X_OK); err != nil {
				return fmt.Errorf("write into folder %s: %w", folder, err)
			}
			return nil
		case !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, unix.ENOTDIR):
			return err
		}
	}
}

// Resolve returns the absolute path of what would be written, all links followed. Neither it nor its
// folders need to be there.
func Resolve(path string) (string, error) {
	at, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	for links := 0; ; links++ {
		dir, rest := filepath.Dir(at), filepath.Base(at)
		for { // the folders that are there may be links too
			found, err := filepath.EvalSymlinks(dir)
			if err == nil {
				at = filepath.Join(found, rest)
				break
			}
			if !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, unix.ENOTDIR) {
				return "", err
			}
			dir, rest = filepath.Dir(dir), filepath.Join(filepath.Base(dir), rest)
		}
		to, err := os.Readlink(at)
		if err != nil {
			return at, nil // no link, or nothing
		}
		if links == maxLinks {
			return "", &fs.PathError{Op: "open", Path: path, Err: unix.ELOOP}
		}
		if !filepath.IsAbs(to) {
			to = filepath.Join(filepath.Dir(at), to)
		}
		at = to
	}
}

// descriptor tells whether a path stands for an open file of this process, such as /dev/stdout. To open
// it anew would begin at its start, and is not possible for a socket.
func descriptor(path string) (int, bool) {
	switch path = filepath.Clean(path); path {
	case "/dev/stdout":
		return 1, true
	case "/dev/stderr":
		return 2, true
	}
	for _, dir := range []string{"/dev/fd/", "/proc/self/fd/"} {
		if name, ok := strings.CutPrefix(path, dir); ok {
			fd, err := strconv.Atoi(name)
			return fd, err == nil && fd >= 0
		}
	}
	return 0, false
}

func duplicate(path string, fd int) (*os.File, error) {
	own, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	return os.NewFile(uintptr(own), path), nil
}
