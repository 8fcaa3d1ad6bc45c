package perf

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

const relayName = "round trip of 64 bytes over Unix sockets (Go's net) through a second process to a third, p50"

// netRTT is the median round trip from this process to another, what a call of another process costs at least; with
// relayed through a second process to a third, what one by way of an agent does.
func netRTT(n int, relayed bool) (median time.Duration, err error) {
	near, far, err := socketPair()
	if err != nil {
		return 0, fmt.Errorf("baseline: %w", err)
	}
	var parts []*exec.Cmd
	start := func(part string, files ...*os.File) {
		c, failed := startPart(part, files...)
		if err = errors.Join(err, failed); c != nil {
			parts = append(parts, c)
		}
	}
	if relayed {
		left, right, failed := socketPair()
		if failed != nil {
			return 0, errors.Join(fmt.Errorf("baseline: %w", failed), near.Close(), far.Close())
		}
		start(partRelay, far, left)
		far = right
	}
	if start(partEcho, far); err == nil {
		median, err = netRoundTrips(near, n)
	}
	err = errors.Join(err, near.Close()) // the others end with it, one by the other
	for _, c := range parts {
		err = errors.Join(err, c.Wait())
	}
	if err != nil {
		return 0, fmt.Errorf("baseline: round trip to another process: %w", err)
	}
	return median, nil
}

// netRoundTrips is the median round trip over a socket whose other side echoes; f stays open.
func netRoundTrips(f *os.File, n int) (median time.Duration, err error) {
	c, err := net.FileConn(f)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	var b [64]byte
	took := make([]time.Duration, 0, n)
	for i := range n + n/10 {
		began := time.Now()
		if _, err := c.Write(b[:]); err != nil {
			return 0, err
		}
		if _, err := io.ReadFull(c, b[:]); err != nil {
			return 0, err
		}
		if i >= n/10 { // warm
			took = append(took, time.Since(began))
		}
	}
	slices.Sort(took)
	return took[len(took)/2], nil
}

func socketPair() (a, b *os.File, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	if err != nil {
		return nil, nil, err
	}
	for _, fd := range fds {
		unix.CloseOnExec(fd)
		if err := unix.SetNonblock(fd, true); err != nil {
			return nil, nil, errors.Join(err, unix.Close(fds[0]), unix.Close(fds[1]))
		}
	}
	return os.NewFile(uintptr(fds[0]), "socket"), os.NewFile(uintptr(fds[1]), "socket"), nil
}

// passOn is the second process: it passes on what comes from either side, until one ends.
func passOn() error {
	left, err := net.FileConn(os.NewFile(3, "left"))
	if err != nil {
		return err
	}
	right, err := net.FileConn(os.NewFile(4, "right"))
	if err != nil {
		return err
	}
	over := make(chan error, 2)
	go func() { over <- pump(left, right) }()
	go func() { over <- pump(right, left) }()
	return <-over
}

// sendBack is the third process.
func sendBack() error {
	c, err := net.FileConn(os.NewFile(3, "socket"))
	if err != nil {
		return err
	}
	return pump(c, c)
}

// pump copies by plain reads and writes: io.Copy would splice sockets inside the kernel.
func pump(to io.Writer, from io.Reader) error {
	b := make([]byte, 4096)
	for {
		n, err := from.Read(b)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if _, err := to.Write(b[:n]); err != nil {
			return err
		}
	}
}
