package gcs

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/cascade-run/cascade/internal/statedir"
)

// LockedError says that another process has the store open.
type LockedError struct {
	Dir string
	PID int // 0 when it cannot be told
}

func (e *LockedError) Error() string {
	who := "another process"
	if e.PID > 0 {
		who = fmt.Sprintf("process %d", e.PID)
	}
	return fmt.Sprintf("store %s is in use by %s: stop it, or choose another state folder", e.Dir, who)
}

// lockDir takes the folder's lock, which the kernel releases when the process ends, however it ends.
func lockDir(dir string) (*os.File, error) {
	path := filepath.Join(dir, "lock")
	f, err := statedir.Lock(path)
	if errors.Is(err, statedir.ErrHeld) {
		e := &LockedError{Dir: dir}
		if b, err := os.ReadFile(path); err == nil {
			if pid, err := strconv.Atoi(strings.TrimSpace(string(b))); err == nil {
				e.PID = pid
			}
		}
		return nil, e
	}
	if err != nil {
		return nil, fmt.Errorf("lock store %s: %w", dir, err)
	}
	if err := f.Truncate(0); err != nil {
		return nil, errors.Join(fmt.Errorf("lock store: %w", err), f.Close())
	}
	if _, err := f.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0); err != nil {
		if errors.Is(err, unix.ENOSPC) {
			err = fmt.Errorf("%w: %w", ErrNoSpace, err)
		}
		return nil, errors.Join(fmt.Errorf("lock store: %w", err), f.Close())
	}
	return f, nil
}
