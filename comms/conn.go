package comms

import (
	"errors"
	"io"
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
	descriptors
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
	s := &socketStream{Conn: c}
	s.open(raw, raw)
	return s, nil
}

// Read implements net.Conn.
func (s *socketStream) Read(p []byte) (int, error) { return s.read(p) }

// descriptors reads one file descriptor and writes another, or the same, neither
// of which makes a system call wait. One caller of read at a time, and one of writeVec.
type descriptors struct {
	in, out syscall.RawConn
	look    lookout

	// Arguments and results of tryRead and tryWrite, here so that nothing is allocated.
	room     []byte
	got      int
	readErr  error
	tryRead  func(fd uintptr) bool
	vec      [][]byte
	wait     bool
	n        int
	err      error
	tryWrite func(fd uintptr) bool
}

func (d *descriptors) open(in, out syscall.RawConn) {
	d.in, d.out = in, out
	d.tryRead, d.tryWrite = d.attemptRead, d.attemptWrite
}

func (d *descriptors) read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	d.room, d.got, d.readErr = p, 0, nil
	err := d.in.Read(d.tryRead)
	d.room = nil
	switch {
	case err != nil:
		return 0, err
	case d.got == 0 && d.readErr == nil:
		return 0, io.EOF
	}
	return d.got, d.readErr
}

// attemptRead is called by the runtime with the descriptor, again each time it
// becomes readable while attemptRead returns false.
func (d *descriptors) attemptRead(fd uintptr) bool {
	for {
		n, err := d.look.read(int(fd), d.room)
		switch {
		case err == nil:
			d.got = n
		case errors.Is(err, unix.EINTR):
			continue
		case errors.Is(err, unix.EAGAIN):
			return false
		default:
			d.readErr = err
		}
		return true
	}
}

func (d *descriptors) writeVec(vec [][]byte, wait bool) (int, error) {
	d.vec, d.wait, d.n, d.err = vec, wait, 0, nil
	err := d.out.Write(d.tryWrite)
	d.vec = nil
	return d.n, errors.Join(err, d.err)
}

// attemptWrite is to writing what attemptRead is to reading.
func (d *descriptors) attemptWrite(fd uintptr) bool {
	for len(d.vec) > 0 {
		n, err := d.look.writev(int(fd), d.vec[:min(len(d.vec), maxIovecs)])
		switch {
		case err == nil:
			d.n += n
			d.vec = advance(d.vec, n)
		case errors.Is(err, unix.EINTR):
		case errors.Is(err, unix.EAGAIN):
			return !d.wait
		default:
			d.err = err
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
	var u *net.UnixConn
	switch c := c.(type) {
	case *net.UnixConn:
		u = c
	case interface{ socket() *net.UnixConn }: // its pipes came through it
		u = c.socket()
	default:
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
