//go:build !linux

package executor

import "golang.org/x/sys/unix"

// cpuTime is not measured here: executors run on Linux.
func cpuTime() int64 { return 0 }

// nothingToRead is cautious here.
func nothingToRead([]unix.PollFd) bool { return false }
