package command

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// shield hides the files of a program's inputs behind read-only mounts, in a mount namespace that only the program
// gets. A file's mode binds everybody but root, so it is for root: a user without the right to mount has no need
// of it, except root in a container that withholds the right (CAP_SYS_ADMIN). Such a mount can be neither written
// through nor renamed or removed. It costs some 100 us a program, most of it to end the namespace, and 10 us a file;
// nothing stays behind.
type shield struct {
	home *os.File // the namespace that the thread came from; nil before the first use
	off  bool     // the right is missing
}

// raise puts the calling thread into a namespace of its own where files can only be read. It tells whether lower
// must be called when the program was started.
func (s *shield) raise(files []string) (up bool, err error) {
	if s.off || len(files) == 0 || os.Geteuid() != 0 {
		return false, nil
	}
	if s.home == nil {
		if s.home, err = os.Open("/proc/thread-self/ns/mnt"); err != nil {
			s.off = true
			return false, nil // without /proc there is no shield, and the modes must do
		}
	}
	if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
		s.off = errors.Is(err, unix.EPERM)
		if s.off {
			return false, nil
		}
		return false, fmt.Errorf("make a mount namespace: %w", err)
	}
	// Mounts made here must not show in the namespace that it was copied from.
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return true, fmt.Errorf("separate the mounts: %w", err)
	}
	for _, f := range files {
		err := unix.Mount(f, f, "", unix.MS_BIND, "")
		if err == nil {
			err = unix.Mount("", f, "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY, "")
		}
		if err != nil {
			return true, fmt.Errorf("make %s read-only: %w", f, err)
		}
	}
	return true, nil
}

// lower brings the thread back. cwd is where it was: changing the namespace leaves it in the root.
func (s *shield) lower(cwd *os.File) error {
	if err := unix.Setns(int(s.home.Fd()), unix.CLONE_NEWNS); err != nil {
		return fmt.Errorf("leave the mount namespace: %w", err)
	}
	if err := unix.Fchdir(int(cwd.Fd())); err != nil {
		return fmt.Errorf("return to the working folder: %w", err)
	}
	return nil
}

func (s *shield) close() {
	if s.home != nil {
		s.home.Close()
	}
}

// behind starts a program behind a shield, from the thread that it is called on, which must be locked.
func (s *shield) behind(files []string, start func() error) error {
	cwd, err := os.Open(".")
	if err != nil {
		return fmt.Errorf("open the working folder: %w", err)
	}
	defer cwd.Close()
	up, err := s.raise(files)
	if err == nil {
		err = start()
	}
	if up {
		if lerr := s.lower(cwd); lerr != nil {
			s.off = true // this thread stays where the files are read-only; other threads are not concerned
			err = errors.Join(err, lerr)
		}
	}
	return err
}
