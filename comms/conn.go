package comms

import (
	"errors"
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// stream is a byte stream that can be written without waiting.
type stream interface {
	net.Conn
	// writeVec writes the segments of vec in order and cuts from them, in place,
	// what is written. With wait it returns when all is; without, as soon as
	// nothing more fits. One caller at a time.
	writeVec(vec [][]byte, wait bool) (n int, err error)
}

// socketStream is a Unix or TCP socket.
type socketStream struct {
	net.Conn
	raw syscall.RawConn

	// Arguments and results of attempt, here so that a write allocates nothing.
	vec  [][]byte
	wait bool
	n    int
	err  error
	try  func(fd uintptr) bool
}

// newSocketStream wraps a *net.UnixConn or *net.TCPConn.
func newSocketStream(c net.Conn) (*socketStream, error) {
	sc, ok := c.(syscall.Conn)
	if !ok {
		return nil, errors.New("connection has no file descriptor")
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return nil, err
	}
	s := &socketStream{Conn: c, raw: raw}
	s.try = s.attempt
	return s, nil
}

func (s *socketStream) writeVec(vec [][]byte, wait bool) (int, error) {
	s.vec, s.wait, s.n, s.err = vec, wait, 0, nil
	err := s.raw.Write(s.try)
	s.vec = nil
	return s.n, errors.Join(err, s.err)
}

// attempt is called by the runtime with the descriptor, again each time it
// becomes writable while attempt returns false.
func (s *socketStream) attempt(fd uintptr) bool {
	for len(s.vec) > 0 {
		var n int
		var err error
		if len(s.vec) == 1 {
			n, err = unix.Write(int(fd), s.vec[0])
		} else {
			n, err = unix.Writev(int(fd), s.vec[:min(len(s.vec), maxIovecs)])
		}
		switch {
		case err == nil:
			s.n += n
			s.vec = advance(s.vec, n)
		case errors.Is(err, unix.EINTR):
		case errors.Is(err, unix.EAGAIN):
			return !s.wait
		default:
			s.err = err
			return true
		}
	}
	return true
}

// maxIovecs is the kernel's bound of segments in one write (IOV_MAX).
const maxIovecs = 1024

// advance drops the first n bytes of vec, in place.
func advance(vec [][]byte, n int) [][]byte {
	for len(vec) > 0 && n >= len(vec[0]) {
		n -= len(vec[0])
		vec[0] = nil
		vec = vec[1:]
	}
	if n > 0 {
		vec[0] = vec[0][n:]
	}
	return vec
}

// peerUID returns the user at the other end of a Unix socket, -1 for others.
func peerUID(c net.Conn) (int, error) {
	u, ok := c.(*net.UnixConn)
	if !ok {
		return -1, nil
	}
	raw, err := u.SyscallConn()
	if err != nil {
		return -1, err
	}
	uid, inner := -1, error(nil)
	if err := raw.Control(func(fd uintptr) { uid, inner = socketUID(int(fd)) }); err != nil {
		return -1, err
	}
	return uid, inner
}
