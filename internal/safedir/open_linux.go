package safedir

import "golang.org/x/sys/unix"

// openFlags open a folder to look at it and go on from it, also one that may not be read.
const openFlags = unix.O_PATH | unix.O_DIRECTORY | unix.O_CLOEXEC
