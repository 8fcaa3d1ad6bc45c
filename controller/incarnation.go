package controller

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/cascade-run/cascade/internal/outfile"
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
	if err := outfile.Replace(incarnationFile(state), fmt.Appendln(nil, n), 0o600); err != nil {
		return fmt.Errorf("note the number of this start: %w", err)
	}
	return nil
}
