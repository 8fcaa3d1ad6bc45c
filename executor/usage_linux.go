package executor

import "golang.org/x/sys/unix"

// cpuTime returns the cpu time of this process in nanoseconds, all threads, without its children.
func cpuTime() int64 {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_PROCESS_CPUTIME_ID, &t); err != nil {
		return 0
	}
	return t.Nano()
}
