package comms

import (
	"context"
	"fmt"
	"os"
	"syscall"
)

// linkChild is the other process of benchmarks: it dials the address of
// CASCADE_LINK_CHILD and sends back what it gets, as a link or with bare
// system calls on a raw socket.
func linkChild() int {
	addr := os.Getenv("CASCADE_LINK_CHILD")
	if path := os.Getenv("CASCADE_LINK_RAW"); path != "" {
		return rawEcho(path)
	}
	e := &echo{}
	l, err := Dial(context.Background(), addr, Config{Self: self("executor", "child", 1), Handler: e, Replay: os.Getenv("CASCADE_LINK_REPLAY") != ""})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	<-l.Done()
	return 0
}

// echo sends every message back, from the goroutine that reads. A message
// with a body is only counted.
type echo struct{}

func (*echo) Up(*Link, Identity, bool) {}
func (*echo) Message(l *Link, head, body []byte) {
	if body == nil {
		_ = l.Queue(head, nil) // flushed when nothing more is there to read
	}
}
func (*echo) Credit(*Link)      {}
func (*echo) Down(*Link, error) {}

// rawEcho is what the kernel can do: blocking reads and writes, no runtime.
func rawEcho(path string) int {
	fd, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	if err == nil {
		err = syscall.Connect(fd, &syscall.SockaddrUnix{Name: path})
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	buf := make([]byte, 64<<10)
	for {
		n, err := syscall.Read(fd, buf)
		if n <= 0 || err != nil {
			return 0
		}
		if _, err := syscall.Write(fd, buf[:n]); err != nil {
			return 0
		}
	}
}
