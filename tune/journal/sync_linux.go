package journal

import (
	"os"
	"syscall"
)

// syncData writes the bytes and the length of the file to the disk.
func syncData(f *os.File) error { return syscall.Fdatasync(int(f.Fd())) }
