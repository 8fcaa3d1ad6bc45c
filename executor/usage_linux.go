package executor

import (
	"bytes"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// cpuTime returns the cpu time of this process in nanoseconds, all threads, without its children.
func cpuTime() int64 {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_PROCESS_CPUTIME_ID, &t); err != nil {
		return 0
	}
	return t.Nano()
}

// privateMemory returns a process's anonymous resident memory in bytes (RssAnon
// of /proc/PID/status): what it holds alone. Mapped datasets and shared
// libraries are not in it. 0 when it cannot be read.
func privateMemory(pid string) uint64 {
	b, err := os.ReadFile("/proc/" + pid + "/status")
	if err != nil {
		return 0
	}
	_, rest, ok := bytes.Cut(b, []byte("RssAnon:"))
	if !ok {
		return 0
	}
	line, _, _ := bytes.Cut(rest, []byte("kB"))
	n, err := strconv.ParseUint(string(bytes.TrimSpace(line)), 10, 64)
	if err != nil {
		return 0
	}
	return n << 10
}
