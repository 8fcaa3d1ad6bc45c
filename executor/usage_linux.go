package executor

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The system calls of each run never wait, and the runtime is not told of them: see
// lookout in comms, whose timer the dispatch of the run has set.

// cpuTime returns the cpu time of this process in nanoseconds, all threads, without its children.
func cpuTime() int64 {
	var t unix.Timespec
	if _, _, errno := syscall.RawSyscall(unix.SYS_CLOCK_GETTIME, unix.CLOCK_PROCESS_CPUTIME_ID, uintptr(unsafe.Pointer(&t)), 0); errno != 0 {
		return 0
	}
	return t.Nano()
}

// nothingToRead tells that no descriptor has anything to read, nor has failed.
func nothingToRead(fds []unix.PollFd) bool {
	var now unix.Timespec
	n, _, errno := syscall.RawSyscall6(unix.SYS_PPOLL, uintptr(unsafe.Pointer(unsafe.SliceData(fds))), uintptr(len(fds)), uintptr(unsafe.Pointer(&now)), 0, 0, 0)
	return errno == 0 && n == 0
}
