package netlab

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// line joins a host to the switch where the kernel cannot delay packets. Each end is
// a TAP device, and this process carries the frames between them: those that the host
// sends it holds for a time first.
type line struct {
	host, port *os.File
	ends       chan error // of the two directions
}

const (
	largestFrame = 10 + 14 + 64<<10 // a header of offloading, one of Ethernet, and what the kernel sends as one
	frames       = 1 << 14          // that a line holds in each direction
	offloaded    = 1 | 2 | 4        // TUN_F_CSUM, TUN_F_TSO4, TUN_F_TSO6 of linux/if_tun.h
	queued       = 10_000           // frames that wait in a device for this process, which others may keep from running
)

// newLine makes both devices, which are down, and starts to carry frames.
func newLine(host, bridge netns.NsHandle, port string, delay time.Duration) (*line, error) {
	l := &line{ends: make(chan error, 2)}
	var err error
	if l.host, err = openTAP(host, "eth0"); err != nil {
		return nil, err
	}
	if l.port, err = openTAP(bridge, port); err != nil {
		return nil, errors.Join(err, l.host.Close())
	}
	go func() { l.ends <- carry(l.port, l.host, delay) }()
	go func() { l.ends <- carry(l.host, l.port, 0) }()
	return l, nil
}

// openTAP makes a TAP device in a network namespace. It ends with the file. Segments and
// checksums are left to its reader, who passes frames on as they are: this is what lets
// TCP send 64 KiB at once, as over a veth.
func openTAP(space netns.NsHandle, name string) (f *os.File, err error) {
	err = onThread(func() error {
		if err := netns.Set(space); err != nil {
			return fmt.Errorf("enter its namespace: %w", err)
		}
		const path = "/dev/net/tun"
		fd, err := unix.Open(path, unix.O_RDWR|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
		if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENODEV) {
			return fmt.Errorf("%w: open %s: %w", ErrNoDelay, path, err)
		}
		if err != nil {
			return fmt.Errorf("open %s: %w", path, err)
		}
		r, err := unix.NewIfreq(name)
		if err == nil {
			r.SetUint16(unix.IFF_TAP | unix.IFF_NO_PI | unix.IFF_VNET_HDR)
			err = unix.IoctlIfreq(fd, unix.TUNSETIFF, r)
		}
		if err == nil {
			err = unix.IoctlSetInt(fd, unix.TUNSETOFFLOAD, offloaded)
		}
		if err != nil {
			return errors.Join(err, unix.Close(fd))
		}
		f = os.NewFile(uintptr(fd), path)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("make the TAP device %s: %w", name, err)
	}
	return f, nil
}

// lengthen sets how many frames wait in a device for the line, and returns the device.
func lengthen(at *netlink.Handle, name string) (netlink.Link, error) {
	link, err := at.LinkByName(name)
	if err == nil {
		err = at.LinkSetTxQLen(link, queued)
	}
	return link, err
}

// close ends the devices, and with them what still is on its way.
func (l *line) close() error {
	err := errors.Join(l.host.Close(), l.port.Close())
	return errors.Join(err, <-l.ends, <-l.ends)
}

// held is a frame on its way.
type held struct {
	due   time.Time
	frame []byte
}

// carry writes to one end what it reads at the other, in that order and each frame no
// sooner than delay after it was read. It ends when either end is closed.
func carry(to io.Writer, from io.Reader, delay time.Duration) error {
	way, gone := make(chan held, frames), make(chan struct{})
	wrote := make(chan error, 1)
	go func() {
		defer close(gone)
		wrote <- deliver(to, way)
	}()
	err := collect(way, gone, from, delay)
	close(way)
	return errors.Join(err, <-wrote)
}

func collect(way chan<- held, gone <-chan struct{}, from io.Reader, delay time.Duration) error {
	buffer := make([]byte, largestFrame)
	for {
		n, err := from.Read(buffer)
		if errors.Is(err, os.ErrClosed) || errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read a frame: %w", err)
		}
		select {
		case way <- held{time.Now().Add(delay), bytes.Clone(buffer[:n])}:
		case <-gone:
			return nil
		}
	}
}

func deliver(to io.Writer, way <-chan held) error {
	for h := range way {
		time.Sleep(time.Until(h.due))
		_, err := to.Write(h.frame)
		if errors.Is(err, os.ErrClosed) {
			return nil
		}
		if err != nil && !errors.Is(err, unix.EIO) { // the device is down: a cut link
			return fmt.Errorf("write a frame: %w", err)
		}
	}
	return nil
}
