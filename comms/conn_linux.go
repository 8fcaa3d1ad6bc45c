package comms

import "golang.org/x/sys/unix"

// socketUID asks the kernel who opened the other end (SO_PEERCRED).
func socketUID(fd int) (int, error) {
	cred, err := unix.GetsockoptUcred(fd, unix.SOL_SOCKET, unix.SO_PEERCRED)
	if err != nil {
		return -1, err
	}
	return int(cred.Uid), nil
}
