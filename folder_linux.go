package cascade

import (
	"bytes"
	"syscall"
	"unsafe"
)

// kernelFolder is the name that the kernel has for the working folder. The call never
// waits, and the runtime is not told of it: it would wake its monitor for each submit.
func kernelFolder() (string, error) {
	var name [4096]byte // PATH_MAX: the kernel gives no longer ones
	n, _, errno := syscall.RawSyscall(syscall.SYS_GETCWD, uintptr(unsafe.Pointer(&name[0])), uintptr(len(name)), 0)
	if errno != 0 {
		return "", errno
	}
	if name[0] != '/' { // it lies outside our root, or is gone
		return "", syscall.ENOENT
	}
	return string(bytes.TrimRight(name[:n], "\x00")), nil
}
