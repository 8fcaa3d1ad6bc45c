package statedir

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Kill ends the recorded process with SIGKILL if it still lives. It tells whether it did.
func (r Record) Kill() (bool, error) {
	if r.PID <= 0 || r.Boot != boot() {
		return false, nil
	}
	fd, err := unix.PidfdOpen(r.PID, 0)
	if errors.Is(err, unix.ESRCH) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("end process %d: %w", r.PID, err)
	}
	defer func() { _ = unix.Close(fd) }() // nothing was written
	// The descriptor is of whoever has the number now; what counts is when that one started.
	if at, err := startTime(r.PID); err != nil || at != r.Start {
		return false, nil
	}
	if err := unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0); err != nil && !errors.Is(err, unix.ESRCH) {
		return false, fmt.Errorf("end process %d: %w", r.PID, err)
	}
	return true, nil
}

// gone tells whether there is no process with the recorded number any more.
func (r Record) gone() bool {
	return r.PID > 0 && (r.Boot != boot() || errors.Is(unix.Kill(r.PID, 0), unix.ESRCH))
}

func boot() string {
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

// startTime is the 22nd field of /proc/PID/stat; the second is in parentheses and
// may hold any byte.
func startTime(pid int) (uint64, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(fields) < 20 {
		return 0, fmt.Errorf("/proc/%d/stat has %d fields", pid, len(fields)+2)
	}
	return strconv.ParseUint(string(fields[19]), 10, 64)
}
