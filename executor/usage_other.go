//go:build !linux

package executor

// cpuTime is not measured here: executors run on Linux.
func cpuTime() int64 { return 0 }

// privateMemory is not measured here.
func privateMemory(string) uint64 { return 0 }
