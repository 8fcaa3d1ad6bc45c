//go:build !linux

package safedir

import "golang.org/x/sys/unix"

const openFlags = unix.O_RDONLY | unix.O_DIRECTORY | unix.O_CLOEXEC
