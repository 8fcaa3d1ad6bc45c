package comms

import "golang.org/x/sys/unix"

// solLocal is SOL_LOCAL of <sys/un.h>, which x/sys does not name.
const solLocal = 0

// socketUID asks the kernel who opened the other end (LOCAL_PEERCRED).
func socketUID(fd int) (int, error) {
	cred, err := unix.GetsockoptXucred(fd, solLocal, unix.LOCAL_PEERCRED)
	if err != nil {
		return -1, err
	}
	return int(cred.Uid), nil
}
