package client

import (
	"bytes"
	"syscall"
	"unsafe"
)

// kernelFolder is the name that the kernel has for the working folder. The call never
// waits, and the runtime is not told of it: it would wake its monitor for each submit.
// No name takes more than PATH_MAX, which is the room.
func kernelFolder(name *[4096]byte) ([]byte, error) {
	n, _, errno := syscall.RawSyscall(syscall.SYS_GETCWD, uintptr(unsafe.Pointer(&name[0])), uintptr(len(name)), 0)
	if errno != 0 {
		return nil, errno
	}
	if name[0] != '/' { // it lies outside our root, or is gone
		return nil, syscall.ENOENT
	}
	return bytes.TrimRight(name[:n], "\x00"), nil
}
