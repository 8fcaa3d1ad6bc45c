// Package flock locks files among processes, with flock(2).
//
// A lock belongs to an open file: closing it ends the lock, as does the end of every
// process that has it. Files are closed in programs that are started (close-on-exec),
// unless they are given one (exec.Cmd.ExtraFiles), which then holds the lock, too.
//
// It is ours and not github.com/gofrs/flock, whose Close unlocks before it closes, which
// ends the lock of the programs that were given the file, too. That also locks no file
// that is open already, and fails where a signal interrupts it.
package flock

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// Mode is who else may lock a file.
type Mode int

// Modes.
const (
	Shared    Mode = unix.LOCK_SH // those who share it, too
	Exclusive Mode = unix.LOCK_EX // no other
)

// ErrHeld says that the lock of another open file forbids this one.
var ErrHeld = errors.New("another process holds the lock")

const poll = 10 * time.Millisecond

// Open opens a lock file, which it makes when it is not there. It follows no link.
func Open(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the lock: %w", err)
	}
	return f, nil
}

// TryFile locks an open file, or fails with ErrHeld.
func TryFile(f *os.File, mode Mode) error {
	for {
		err := unix.Flock(int(f.Fd()), int(mode)|unix.LOCK_NB)
		switch {
		case err == nil:
			return nil
		case errors.Is(err, unix.EINTR):
		case errors.Is(err, unix.EWOULDBLOCK):
			return fmt.Errorf("lock %s: %w", f.Name(), ErrHeld)
		default:
			return fmt.Errorf("lock %s: %w", f.Name(), err)
		}
	}
}

// Try opens the lock file at path and locks it, or fails with ErrHeld.
func Try(path string, mode Mode) (*os.File, error) {
	f, err := Open(path)
	if err != nil {
		return nil, err
	}
	if err := TryFile(f, mode); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// Wait opens the lock file at path and locks it, when that is possible. It waits until
// ctx ends.
func Wait(ctx context.Context, path string, mode Mode) (*os.File, error) {
	f, err := Open(path)
	if err != nil {
		return nil, err
	}
	for {
		if err = TryFile(f, mode); err == nil {
			return f, nil
		}
		if !errors.Is(err, ErrHeld) {
			return nil, errors.Join(err, f.Close())
		}
		again := time.NewTimer(poll) // a blocking flock cannot be given up
		select {
		case <-again.C:
		case <-ctx.Done():
			again.Stop()
			return nil, errors.Join(fmt.Errorf("lock %s: %w", path, context.Cause(ctx)), f.Close())
		}
	}
}
