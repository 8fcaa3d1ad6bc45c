// Package statedir finds state folders, and writes into each which process serves it and
// what that process has outside the folder: sockets and shared memory. A program that
// cleans up after a dead process finds both there.
//
//	daemon ──Put──▶ owner.json ──Get──▶ cascade clean: Kill, remove sockets and memory
//
// A record names a process by its number and the time of its start, so that no
// other process that got the number later is taken for it.
package statedir

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/cascade-run/cascade/internal/outfile"
)

// Record is what a daemon left in its state folder.
type Record struct {
	PID     int      `json:"pid"`
	Start   uint64   `json:"start"`             // clock ticks from boot to its start, as in /proc/PID/stat
	Boot    string   `json:"boot"`              // of the kernel: numbers and ticks restart with it
	Sockets []string `json:"sockets,omitempty"` // files
	Memory  string   `json:"memory,omitempty"`  // folder in shared memory
}

const fileName = "owner.json"

// Put records this process as the owner of dir. Its caller holds the folder's lock.
func Put(dir string, sockets []string, memory string) error {
	r := Record{PID: os.Getpid(), Boot: boot(), Sockets: sockets, Memory: memory}
	var err error
	if r.Start, err = startTime(r.PID); err != nil {
		return fmt.Errorf("record who serves %s: %w", dir, err)
	}
	text, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("record who serves %s: %w", dir, err)
	}
	if err := outfile.Replace(filepath.Join(dir, fileName), append(text, '\n'), 0o600); err != nil {
		return fmt.Errorf("record who serves %s: %w", dir, err)
	}
	return nil
}

// Get reads the record of a folder; an empty one when there is none.
func Get(dir string) (Record, error) {
	var r Record
	text, err := os.ReadFile(filepath.Join(dir, fileName))
	if errors.Is(err, os.ErrNotExist) {
		return r, nil
	}
	if err == nil {
		err = json.Unmarshal(text, &r)
	}
	if err != nil {
		return Record{}, fmt.Errorf("read who served %s: %w", dir, err)
	}
	return r, nil
}

// Remove removes the record of a folder: its owner has left nothing.
func Remove(dir string) error {
	if err := os.Remove(filepath.Join(dir, fileName)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("remove the record of who served %s: %w", dir, err)
	}
	return nil
}

// Sockets lists the files of the Unix sockets in a list of addresses, as a
// listener tells them.
func Sockets(addresses string) (files []string) {
	for _, a := range strings.Split(addresses, ",") {
		if path, ok := strings.CutPrefix(a, "ipc://"); ok {
			files = append(files, path)
		}
	}
	return files
}

// NobodyListens tells whether an error of who connects to a Unix socket is that of one
// which its owner has not opened yet, or has left: before it listens, and after it was
// killed, what connects is refused.
func NobodyListens(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ECONNREFUSED)
}

// Cleaned says what was removed of a daemon that had ended, or was ended.
type Cleaned struct {
	Owner   int      `json:"owner,omitempty"`   // the daemon itself, when it was ended
	Ended   []int    `json:"ended,omitempty"`   // processes that it had left
	Sockets []string `json:"sockets,omitempty"` // files
	Memory  string   `json:"memory,omitempty"`  // folder in shared memory
	Bytes   int64    `json:"bytes,omitempty"`   // that it took
}

// Nothing tells whether there was nothing to remove.
func (c Cleaned) Nothing() bool {
	return c.Owner == 0 && len(c.Ended) == 0 && len(c.Sockets) == 0 && c.Memory == ""
}

// ServedError says that a living process serves a state folder.
type ServedError struct {
	Dir string
	PID int // 0 when it cannot be told
}

func (e *ServedError) Error() string {
	who := "a process"
	if e.PID > 0 {
		who = fmt.Sprintf("process %d", e.PID)
	}
	return fmt.Sprintf("%s serves %s: stop it first, or end it and all its tasks with --force", who, e.Dir)
}
