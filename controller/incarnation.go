package controller

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// Incarnations and the lives of jobs must grow with each start on the same state
// folder, also when the host's clock was set back in between. So the last one is
// kept in a file; a new one is the wall clock's nanoseconds, and at least one more.
func incarnationFile(state string) string { return filepath.Join(state, "incarnation") }

// nextIncarnation returns the number of this start.
func nextIncarnation(state string, now time.Time) (uint64, error) {
	next := uint64(now.UnixNano())
	text, err := os.ReadFile(incarnationFile(state))
	if errors.Is(err, os.ErrNotExist) {
		return next, nil
	}
	if err != nil {
		return 0, fmt.Errorf("read the number of the start before: %w", err)
	}
	last, err := strconv.ParseUint(strings.TrimSpace(string(text)), 10, 63)
	if err != nil {
		return 0, fmt.Errorf("read the number of the start before from %s: %w", incarnationFile(state), err)
	}
	return max(next, last+1), nil
}

// keepIncarnation notes the number for the next start. A crash leaves the old file or the new one.
func keepIncarnation(state string, n uint64) error {
	temp, err := os.CreateTemp(state, ".incarnation-")
	if err != nil {
		return fmt.Errorf("note the number of this start: %w", err)
	}
	_, err = fmt.Fprintln(temp, n)
	if err = errors.Join(err, temp.Sync(), temp.Close()); err == nil {
		err = os.Rename(temp.Name(), incarnationFile(state))
	}
	if err != nil {
		return fmt.Errorf("note the number of this start: %w", errors.Join(err, os.Remove(temp.Name())))
	}
	return nil
}
