//go:build !linux

package executor

// cpuTime is not measured here: executors run on Linux.
func cpuTime() int64 { return 0 }
