package comms

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// unixStream is a Unix socket that is not in the poller of the Go runtime. That
// one asks for everything that can happen to a descriptor, and Linux tells the
// writer of a Unix socket of each read at the other end, because the buffer has
// room then: with every message a thread of the process that had sent it woke
// for nothing. Here an epoll instance that is itself in the runtime's poller asks
// for what somebody waits for: always for input, for room only while a write waits.
type unixStream struct {
	local, remote net.Addr
	sock          *os.File        // closed last; guards the descriptor against use after its end
	raw           syscall.RawConn // of sock
	input         *watch

	// Of who reads. The functions are here so that a read allocates nothing.
	rbuf      []byte
	rn        int
	rerr      error
	tryRead   func(fd uintptr) bool // in input's raw connection
	readOnce  func(fd uintptr)      // in raw
	vec       [][]byte              // of who writes, as the next ones
	wn        int
	werr      error
	tryWrite  func(fd uintptr) bool
	writeOnce func(fd uintptr)

	mu       sync.Mutex
	room     *watch // while a write waits
	deadline time.Time
	closed   bool
}

// watch is an epoll instance that becomes readable when something happens to one socket.
type watch struct {
	file *os.File
	raw  syscall.RawConn
}

// quiet takes a Unix socket out of the runtime's poller; other streams it returns
// as they are. No deadline may be set, and nobody may use st any more.
func quiet(st stream) (stream, error) {
	s, ok := st.(*socketStream)
	if !ok {
		return st, nil
	}
	c, ok := s.Conn.(*net.UnixConn)
	if !ok {
		return st, nil
	}
	u, err := newUnixStream(c)
	if err != nil {
		return nil, fmt.Errorf("poll Unix socket: %w", err)
	}
	return u, c.Close()
}

func newUnixStream(c *net.UnixConn) (*unixStream, error) {
	conn, err := c.SyscallConn()
	if err != nil {
		return nil, err
	}
	fd, inner := -1, error(nil)
	if err := conn.Control(func(old uintptr) { fd, inner = unix.FcntlInt(old, unix.F_DUPFD_CLOEXEC, 0) }); err != nil || inner != nil {
		return nil, errors.Join(err, inner)
	}
	// What is in blocking mode stays out of the poller; the mode is the socket's, not the descriptor's.
	if err := unix.SetNonblock(fd, false); err != nil {
		return nil, errors.Join(err, unix.Close(fd))
	}
	s := &unixStream{local: c.LocalAddr(), remote: c.RemoteAddr(), sock: os.NewFile(uintptr(fd), "socket")}
	s.tryRead, s.readOnce, s.tryWrite, s.writeOnce = s.attemptRead, s.readNow, s.attemptWrite, s.writeNow
	if err = unix.SetNonblock(fd, true); err == nil {
		if s.raw, err = s.sock.SyscallConn(); err == nil {
			s.input, err = newWatch(s.raw, unix.EPOLLIN|unix.EPOLLRDHUP)
		}
	}
	if err != nil {
		return nil, errors.Join(err, s.sock.Close())
	}
	return s, nil
}

func newWatch(sock syscall.RawConn, events uint32) (*watch, error) {
	ep, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("make epoll instance: %w", err)
	}
	var inner error
	err = sock.Control(func(fd uintptr) {
		inner = unix.EpollCtl(ep, unix.EPOLL_CTL_ADD, int(fd), &unix.EpollEvent{Events: events | unix.EPOLLET, Fd: int32(fd)})
	})
	if err = errors.Join(err, inner, unix.SetNonblock(ep, true)); err != nil {
		return nil, errors.Join(err, unix.Close(ep))
	}
	w := &watch{file: os.NewFile(uintptr(ep), "epoll")}
	if w.raw, err = w.file.SyscallConn(); err == nil {
		err = w.file.SetReadDeadline(time.Time{}) // fails if the runtime does not poll it
	}
	if err != nil {
		return nil, errors.Join(err, w.file.Close())
	}
	return w, nil
}

// Read implements net.Conn.
func (s *unixStream) Read(p []byte) (int, error) {
	s.rbuf, s.rn, s.rerr = p, 0, nil
	err := s.input.raw.Read(s.tryRead)
	s.rbuf = nil
	switch {
	case s.rn > 0 || len(p) == 0:
		return s.rn, nil
	case s.rerr != nil:
		return 0, ended(s.rerr)
	case err != nil:
		return 0, ended(err)
	}
	return 0, io.EOF
}

// attemptRead is called by the runtime, again whenever input has come, while it returns false.
func (s *unixStream) attemptRead(uintptr) bool {
	if err := s.raw.Control(s.readOnce); err != nil {
		s.rerr = err
	}
	if errors.Is(s.rerr, unix.EAGAIN) {
		s.rerr = nil
		return false
	}
	return true
}

func (s *unixStream) readNow(fd uintptr) {
	for {
		s.rn, s.rerr = unix.Read(int(fd), s.rbuf)
		if !errors.Is(s.rerr, unix.EINTR) {
			return
		}
	}
}

// Write implements net.Conn.
func (s *unixStream) Write(p []byte) (int, error) { return s.writeVec([][]byte{p}, true) }

func (s *unixStream) writeVec(vec [][]byte, wait bool) (int, error) {
	s.vec, s.wn, s.werr = vec, 0, nil
	var err error
	if !s.attemptWrite(0) && wait {
		err = s.awaitRoom()
	}
	s.vec = nil
	if err = errors.Join(err, s.werr); err != nil {
		err = ended(err)
	}
	return s.wn, err
}

// attemptWrite writes what fits and tells whether that was all, or all that ever will be.
func (s *unixStream) attemptWrite(uintptr) bool {
	if err := s.raw.Control(s.writeOnce); err != nil {
		s.werr = err
	}
	return len(s.vec) == 0 || s.werr != nil
}

func (s *unixStream) writeNow(fd uintptr) {
	n, err := writeSome(int(fd), &s.vec)
	s.wn += n
	if !errors.Is(err, unix.EAGAIN) {
		s.werr = err
	}
}

// awaitRoom goes on writing whenever the peer has made room, until all is written.
func (s *unixStream) awaitRoom() error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return net.ErrClosed
	}
	w, err := newWatch(s.raw, unix.EPOLLOUT)
	if err == nil && !s.deadline.IsZero() {
		err = w.file.SetReadDeadline(s.deadline)
	}
	s.room = w
	s.mu.Unlock()
	if err == nil {
		err = w.raw.Read(s.tryWrite)
	}
	s.mu.Lock()
	s.room = nil
	s.mu.Unlock()
	if w != nil {
		_ = w.file.Close() // perhaps closed by Close
	}
	return err
}

// ended makes a use after Close look as it does with other connections.
func ended(err error) error {
	if errors.Is(err, os.ErrClosed) {
		return net.ErrClosed
	}
	return err
}

// Close implements net.Conn.
func (s *unixStream) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return net.ErrClosed
	}
	s.closed = true
	if s.room != nil {
		_ = s.room.file.Close() // ends the wait
	}
	return errors.Join(s.input.file.Close(), s.sock.Close())
}

// LocalAddr implements net.Conn.
func (s *unixStream) LocalAddr() net.Addr { return s.local }

// RemoteAddr implements net.Conn.
func (s *unixStream) RemoteAddr() net.Addr { return s.remote }

// SetDeadline implements net.Conn.
func (s *unixStream) SetDeadline(t time.Time) error {
	return errors.Join(s.SetReadDeadline(t), s.SetWriteDeadline(t))
}

// SetReadDeadline implements net.Conn.
func (s *unixStream) SetReadDeadline(t time.Time) error { return s.input.file.SetReadDeadline(t) }

// SetWriteDeadline implements net.Conn.
func (s *unixStream) SetWriteDeadline(t time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.deadline = t
	if s.room != nil {
		return s.room.file.SetReadDeadline(t)
	}
	return nil
}
