//go:build linux

package netlab_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/cascade-run/cascade/internal/testing/netlab"
)

func lab(t *testing.T, c netlab.Config) *netlab.Lab {
	t.Helper()
	return labBy(t, netlab.New, c)
}

// labBy is lab with another way to make it.
func labBy(t *testing.T, makes func(netlab.Config) (*netlab.Lab, error), c netlab.Config) *netlab.Lab {
	t.Helper()
	l, err := makes(c)
	forbidden := errors.Is(err, unix.EPERM) || errors.Is(err, unix.EACCES) || errors.Is(err, unix.EROFS)
	switch {
	case (forbidden || errors.Is(err, netlab.ErrNoDelay)) && os.Getenv("CASCADE_REQUIRE_NETLAB") == "":
		t.Skip(err)
	case err != nil:
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	return l
}

// serve echoes lines on a host, from this process.
func serve(t *testing.T, h *netlab.Host) string {
	t.Helper()
	var l net.Listener
	address := net.JoinHostPort(h.Addr().String(), "7000")
	err := h.Do(func() (err error) {
		l, err = net.Listen("tcp", address)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = io.Copy(c, c) // ends with the connection, however that ends
			c.Close()
		}
	}()
	t.Cleanup(func() { l.Close(); <-done })
	return address
}

// patience only keeps a failing test from hanging.
const patience = 4 * time.Minute

// dial connects from a host. The connection is made in a thread of that host by
// the system call itself, not by a goroutine of the dialer.
func dial(h *netlab.Host, address string, within time.Duration) (c net.Conn, err error) {
	err = h.Do(func() error {
		c, err = (&net.Dialer{Timeout: within, FallbackDelay: -1}).Dial("tcp4", address)
		return err
	})
	return c, err
}

func TestHostsMeet(t *testing.T) {
	l := lab(t, netlab.Config{Hosts: 3})
	address := serve(t, l.Host(0))
	for i := range l.Hosts() {
		c, err := dial(l.Host(i), address, patience)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(c, "host %d\n", i)
		if line, err := bufio.NewReader(c).ReadString('\n'); err != nil || line != fmt.Sprintf("host %d\n", i) {
			t.Errorf("%q, %v", line, err)
		}
		c.Close()
	}
	if _, err := dial(l.Host(0), "192.0.2.1:7000", patience); !errors.Is(err, unix.ENETUNREACH) {
		t.Errorf("there is a way out of the lab: %v", err)
	}
}

// Tests of one program that run at a time have hosts of their own: the end of one
// lab kills nothing of another.
func TestLabsAreApart(t *testing.T) {
	first := lab(t, netlab.Config{Hosts: 1})
	lives := exec.Command("cat")
	in, err := lives.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := first.Host(0).Start(lives); err != nil {
		t.Fatal(err)
	}
	t.Run("another lab", func(t *testing.T) {
		if err := lab(t, netlab.Config{Hosts: 1}).Host(0).Freeze(); err != nil {
			t.Error(err)
		}
	})
	if err := in.Close(); err != nil {
		t.Error(err)
	}
	if err := lives.Wait(); err != nil {
		t.Errorf("a process on a host of the first lab: %v", err)
	}
}

// What a test that was killed has left frozen keeps no other from its hosts.
func TestFrozenRemains(t *testing.T) {
	owner, left := exec.Command("sleep", "1000"), exec.Command("sleep", "1000")
	if err := errors.Join(owner.Start(), left.Start()); err != nil {
		t.Fatal(err)
	}
	folder, state, frozen, thawed := "/sys/fs/cgroup", "/cgroup.freeze", "1", "0"
	if !netlab.Unified() {
		folder, state, frozen, thawed = folder+"/freezer", "/freezer.state", "FROZEN", "THAWED"
	}
	group := fmt.Sprintf("%s/cascade-netlab-%d-0", folder, owner.Process.Pid)
	made := os.Mkdir(group, 0o755)
	defer func() {
		_ = owner.Process.Kill()
		_ = left.Process.Kill()                          // which should be dead
		_ = os.WriteFile(group+state, []byte(thawed), 0) // and this gone
		_ = left.Wait()
		if err := os.Remove(group); made == nil && err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Error(err)
		}
	}()
	joined := os.WriteFile(group+"/cgroup.procs", []byte(strconv.Itoa(left.Process.Pid)), 0)
	froze := os.WriteFile(group+state, []byte(frozen), 0)
	killed := owner.Process.Kill() // from here on the group may be removed, by another program's lab, too
	_ = owner.Wait()
	lab(t, netlab.Config{Hosts: 1}) // or it is skipped
	if err := errors.Join(made, joined, froze, killed); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(group); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the group of a process that is gone: %v; want that it does not exist", err)
	}
}

func TestCutAndMend(t *testing.T) {
	l := lab(t, netlab.Config{Hosts: 2, Rate: 1_000_000_000})
	address := serve(t, l.Host(0))
	if err := l.Host(1).Cut(); err != nil {
		t.Fatal(err)
	}
	var timeout net.Error
	if c, err := dial(l.Host(1), address, 20*time.Millisecond); !errors.As(err, &timeout) {
		t.Errorf("through a cut link: %v, %v", c, err)
	}
	if err := l.Host(1).Mend(); err != nil {
		t.Fatal(err)
	}
	c, err := dial(l.Host(1), address, patience)
	if err != nil {
		t.Fatal(err)
	}
	c.Close()
}

// ticker prints a line now and then, and so does its child.
const ticker = `(while :; do echo child; sleep 0.01; done) & while :; do echo parent; sleep 0.01; done`

func TestFreezeThawKill(t *testing.T) {
	h := lab(t, netlab.Config{Hosts: 1}).Host(0)
	cmd := exec.Command("sh", "-c", ticker)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := h.Start(cmd); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	both := map[string]bool{}
	for len(both) < 2 && lines.Scan() {
		both[lines.Text()] = true
	}
	if err := h.Freeze(); err != nil {
		t.Fatal(err)
	}
	state, err := os.ReadFile(fmt.Sprintf("/proc/%d/wchan", cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("frozen in %q", state)
	if err := h.Slow(0.5); err != nil {
		t.Error(err)
	}
	if err := h.Thaw(); err != nil {
		t.Fatal(err)
	}
	if !lines.Scan() {
		t.Error("nothing is printed after the thaw")
	}
	if err := h.Slow(0); err != nil {
		t.Error(err)
	}
	if err := h.Kill(); err != nil {
		t.Fatal(err)
	}
	for lines.Scan() { // the end comes only when the child is dead too
	}
	var exit *exec.ExitError
	if err := cmd.Wait(); !errors.As(err, &exit) || exit.Success() {
		t.Errorf("killed, it ended with %v", err)
	}
	again := exec.Command("true")
	if err := h.Start(again); err != nil {
		t.Fatal(err)
	}
	if err := again.Wait(); err != nil {
		t.Errorf("after the kill: %v", err)
	}
}

// A link of 100 Mbit/s cannot move 20 MB in less than a second; half of that is
// asked, since the first burst is free. Faster hosts do not change it.
func TestRateBinds(t *testing.T) {
	l := lab(t, netlab.Config{Hosts: 2, Rate: 100_000_000})
	const size = 4 << 20
	if took := echoed(t, l.Host(1), serve(t, l.Host(0)), size, nil); took < size*8*time.Second/100_000_000/2 {
		t.Errorf("%d bytes crossed a link of 100 Mbit/s in %s", size, took)
	}
}

// ways are those in which packets are delayed. The first is that of this kernel.
var ways = []struct {
	name  string
	makes func(netlab.Config) (*netlab.Lab, error)
}{{"as this kernel can", netlab.New}, {"by lines", netlab.NewByLines}}

// A round trip takes at least two delays, however small what goes round. Datagrams come
// in the order in which they were sent.
func TestDelay(t *testing.T) {
	const delay = 10 * time.Millisecond
	for _, way := range ways {
		t.Run(way.name, func(t *testing.T) {
			l := labBy(t, way.makes, netlab.Config{Hosts: 2, Delay: delay})
			c, err := dial(l.Host(1), serve(t, l.Host(0)), 10*time.Second)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			back := bufio.NewReader(c)
			for range 5 {
				began := time.Now()
				fmt.Fprintln(c, "there and back")
				if line, err := back.ReadString('\n'); err != nil || line != "there and back\n" {
					t.Fatalf("%q, %v", line, err)
				}
				if took := time.Since(began); took < 2*delay {
					t.Errorf("a round trip over links of %s took %s", delay, took)
				}
			}
			inOrder(t, l, 100)
		})
	}
}

// inOrder sends n datagrams from one host to another at once.
func inOrder(t *testing.T, l *netlab.Lab, n int) {
	t.Helper()
	var to, from net.PacketConn
	for i, c := range []*net.PacketConn{&to, &from} {
		err := l.Host(i).Do(func() (err error) {
			*c, err = net.ListenPacket("udp4", net.JoinHostPort(l.Host(i).Addr().String(), "7001"))
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		defer (*c).Close()
	}
	for i := range n {
		if _, err := fmt.Fprint(datagrams{from, to.LocalAddr()}, i); err != nil {
			t.Fatal(err)
		}
	}
	buffer := make([]byte, 64)
	if err := to.SetReadDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	for i := range n {
		size, _, err := to.ReadFrom(buffer)
		if got := string(buffer[:size]); err != nil || got != strconv.Itoa(i) {
			t.Fatalf("datagram %d: %q, %v", i, got, err)
		}
	}
}

// datagrams sends each Write to one address.
type datagrams struct {
	net.PacketConn
	to net.Addr
}

func (d datagrams) Write(b []byte) (int, error) { return d.WriteTo(b, d.to) }

// A link with a delay has its rate, can be cut, also while much is on its way, and mended.
func TestDelayBesideRateAndCut(t *testing.T) {
	for _, way := range ways {
		t.Run(way.name, func(t *testing.T) {
			const rate, size = 100_000_000, 1 << 20
			l := labBy(t, way.makes, netlab.Config{Hosts: 2, Delay: 5 * time.Millisecond, Rate: rate})
			address := serve(t, l.Host(0))
			if took := echoed(t, l.Host(1), address, size, nil); took < size*8*time.Second/rate/2 {
				t.Errorf("%d bytes crossed a link of %d bit/s in %s", size, rate, took)
			}
			echoed(t, l.Host(1), address, size, func() {
				if err := l.Host(1).Cut(); err != nil {
					t.Error(err)
				}
				var timeout net.Error
				if c, err := dial(l.Host(1), address, 50*time.Millisecond); !errors.As(err, &timeout) {
					t.Errorf("through a cut link: %v, %v", c, err)
				}
				if err := l.Host(1).Mend(); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// echoed sends bytes to an echo, reads them back and returns how long that took. In the
// middle it calls half, if there is one.
func echoed(t *testing.T, from *netlab.Host, address string, size int64, half func()) time.Duration {
	t.Helper()
	c, err := dial(from, address, patience)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	began := time.Now()
	sent := make(chan error, 1)
	go func() {
		_, err := c.Write(make([]byte, size))
		sent <- err
	}()
	if half != nil {
		if _, err := io.CopyN(io.Discard, c, size/2); err != nil {
			t.Fatal(err)
		}
		half()
		size -= size / 2
	}
	if _, err := io.CopyN(io.Discard, c, size); err != nil {
		t.Fatal(err)
	}
	if err := <-sent; err != nil {
		t.Fatal(err)
	}
	return time.Since(began)
}

// A lab that cannot be made, here since the kernel has no netem and is asked for it, leaves
// nothing that another would meet.
func TestFailedLabLeavesNothing(t *testing.T) {
	lab(t, netlab.Config{Hosts: 1}) // or it is skipped
	groups := func() (all []string) {
		for _, pattern := range []string{"/sys/fs/cgroup/cascade-netlab-*", "/sys/fs/cgroup/*/cascade-netlab-*"} {
			found, err := filepath.Glob(fmt.Sprintf("%s%d-*", strings.TrimSuffix(pattern, "*"), os.Getpid()))
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, found...)
		}
		return all
	}
	before := groups()
	l, err := netlab.NewByNetem(netlab.Config{Hosts: 2, Rate: 1_000_000_000, Delay: time.Millisecond})
	if err == nil {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
		t.Skip("this kernel has netem")
	}
	if !errors.Is(err, unix.ENOENT) {
		t.Errorf("%v, want %v", err, unix.ENOENT)
	}
	if after := groups(); !slices.Equal(after, before) {
		t.Errorf("control groups %q, before %q", after, before)
	}
}
