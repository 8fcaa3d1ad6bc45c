package diskspace

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// ErrLow says that a write was refused because too little of the disk would stay free.
var ErrLow = errors.New("the disk is nearly full")

// DefaultCommit is below how many free bytes commits wait, unless it is told otherwise.
const DefaultCommit = 256 << 20

// Floors are the free bytes that each part leaves.
type Floors struct {
	Commit, // of the controller's store
	Keep, // of datasets that stay when an agent ends
	Grow, // of logs and environments
	Spill uint64 // of datasets that memory has no room for
}

// Above returns the floors of a disk on which commits wait below so many free bytes.
func Above(commit uint64) Floors {
	return Floors{Commit: commit, Keep: commit + commit/4, Grow: commit + commit/2, Spill: 2 * commit}
}

// Free returns the free bytes of the disk of a folder, as far as this user may have them.
func Free(dir string) (uint64, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return 0, fmt.Errorf("free space of %s: %w", dir, err)
	}
	return st.Bavail * uint64(st.Bsize), nil
}

// Leaves returns an error that matches ErrLow when less than floor of free would stay after a write of
// so many bytes to the disk of dir.
func Leaves(dir string, free, bytes, floor uint64) error {
	if free >= floor && free-floor >= bytes {
		return nil
	}
	return fmt.Errorf("%w: %d MiB are free in %s, of which %d MiB stay free for the ends of jobs: make room on that disk (cascade rm jobs JOB frees what is kept of a job), or name a folder on another with --state",
		ErrLow, free>>20, dir, floor>>20)
}

// Same tells whether two folders are on one disk.
func Same(a, b string) (bool, error) {
	var x, y unix.Stat_t
	if err := errors.Join(unix.Stat(a, &x), unix.Stat(b, &y)); err != nil {
		return false, fmt.Errorf("the disks of %s and %s: %w", a, b, err)
	}
	return x.Dev == y.Dev, nil
}
