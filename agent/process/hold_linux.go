package process

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/cascade-run/cascade/internal/flock"
)

// Hold opens a file whose lock tells that a process lives: pass it to Command.Hold of every program. EndHolders
// waits for them. The caller closes it after Start.
func Hold(path string) (*os.File, error) {
	f, err := flock.Try(path, flock.Shared)
	if err != nil {
		return nil, fmt.Errorf("hold %s for a program: %w", path, err)
	}
	return f, nil
}

// The reapers of an agent that died end their trees by themselves, which takes them milliseconds. Processes that
// still live after reapersTime are killed.
const (
	reapersTime = time.Second
	holdersPoll = 2 * time.Millisecond
)

// EndHolders returns when every process that holds a file (see Hold) is dead: those that an agent which was killed
// had started, and all that they had. Without such a file there are none.
func EndHolders(path string, limit time.Duration) error {
	f, err := os.OpenFile(path, os.O_RDWR|unix.O_NOFOLLOW, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("wait for the processes of the agent before: %w", err)
	}
	defer f.Close()
	begun := time.Now()
	for {
		// A lock belongs to an open file and ends with the last process that has it, so it cannot be had too early.
		err := flock.TryFile(f, flock.Exclusive)
		switch passed := time.Since(begun); {
		case err == nil:
			return nil
		case !errors.Is(err, flock.ErrHeld):
			return fmt.Errorf("wait for the processes of the agent before: %w", err)
		case passed > limit:
			return fmt.Errorf("processes %v of the agent before cannot be ended: end them, or start with another state folder", holders(f))
		case passed > reapersTime:
			for _, pid := range holders(f) {
				killHolder(f, pid)
			}
		}
		time.Sleep(holdersPoll)
	}
}

// Holders lists the processes that hold a file (see Hold). Without such a file there are none.
func Holders(path string) ([]int, error) {
	f, err := os.OpenFile(path, os.O_RDWR|unix.O_NOFOLLOW, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("look for the processes of an agent: %w", err)
	}
	defer f.Close()
	return holders(f), nil
}

// holders lists the other processes that have the file open.
func holders(f *os.File) (pids []int) {
	all, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return nil
	}
	for _, dir := range all {
		if pid, err := strconv.Atoi(filepath.Base(dir)); err == nil && pid != os.Getpid() && holds(pid, f) {
			pids = append(pids, pid)
		}
	}
	return pids
}

func holds(pid int, f *os.File) bool {
	want, err := f.Stat()
	if err != nil {
		return false
	}
	dir := fmt.Sprintf("/proc/%d/fd", pid)
	entries, err := os.ReadDir(dir)
	if err != nil {
		return false // it ended, or is another user's
	}
	for _, e := range entries {
		if fi, err := os.Stat(filepath.Join(dir, e.Name())); err == nil && os.SameFile(fi, want) {
			return true
		}
	}
	return false
}

// killHolder ends a process if it is still the one that holds the file: its id may name another by now.
func killHolder(f *os.File, pid int) {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return
	}
	defer func() { _ = unix.Close(fd) }() // nothing was written
	if holds(pid, f) {
		_ = unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0) // one that is dead by now is what we want
	}
}
