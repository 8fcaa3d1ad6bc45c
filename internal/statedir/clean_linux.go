package statedir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// takeTime bounds how long Take waits for the lock of a process that has ended.
const takeTime = 20 * time.Second

// Take takes the lock of a state folder, as its daemon would. When a living
// process has it the error is a *ServedError, unless force ends that one. After a
// dead one it waits: a child that the daemon was just starting has the lock, too,
// until it executes its program.
func Take(dir, lockName string, force bool) (lock *os.File, ended int, err error) {
	for begun := time.Now(); ; time.Sleep(5 * time.Millisecond) {
		r, err := Get(dir)
		if err != nil {
			return nil, ended, err
		}
		f, err := Lock(filepath.Join(dir, lockName))
		if err == nil {
			return f, ended, nil
		}
		if !errors.Is(err, ErrHeld) {
			return nil, ended, fmt.Errorf("take %s: %w", dir, err)
		}
		if force && ended == 0 {
			killed, err := r.Kill()
			if err != nil {
				return nil, 0, err
			}
			if killed {
				ended = r.PID
			}
		}
		if ended == 0 && !r.gone() || time.Since(begun) > takeTime {
			return nil, ended, &ServedError{dir, r.PID}
		}
	}
}

// RemoveLock removes a lock file unless a process holds it or it is not there.
// The caller holds the lock of the state folder, so that no process that would take it starts.
func RemoveLock(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR|unix.O_NOFOLLOW, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("remove the lock of a socket: %w", err)
	}
	defer f.Close()
	switch err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); {
	case errors.Is(err, unix.EWOULDBLOCK):
		return nil
	case err != nil:
		return fmt.Errorf("remove the lock of a socket: lock %s: %w", path, err)
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove the lock of a socket: %w", err)
	}
	return nil
}

// RemoveSockets removes the sockets of a record whose process is dead, with their
// locks, and returns those that were there.
func (r Record) RemoveSockets() (files []string, err error) {
	for _, path := range r.Sockets {
		err = errors.Join(err, RemoveLock(path+".lock"))
		info, e := os.Lstat(path)
		if errors.Is(e, fs.ErrNotExist) || e == nil && info.Mode().Type() != fs.ModeSocket {
			continue
		}
		if e == nil {
			e = os.Remove(path)
		}
		if e != nil {
			err = errors.Join(err, fmt.Errorf("remove socket: %w", e))
			continue
		}
		files = append(files, path)
	}
	return files, err
}
