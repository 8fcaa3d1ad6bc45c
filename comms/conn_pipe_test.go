//go:build linux

package comms

import (
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rs/zerolog"
	"golang.org/x/sys/unix"
)

func descriptorsOf(t *testing.T) int {
	t.Helper()
	fds, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(fds)
}

// What is no pair of pipes is refused, its descriptors are closed, and an honest
// link stays as it was.
func TestOnlyPipesCarryALink(t *testing.T) {
	addr := "ipc://" + socketFolder(t) + "/s"
	hub, leaf := newRecorder(), newRecorder()
	hc, lc := config(t, self("agent", "a", 1), hub), config(t, self("executor", "e", 1), leaf)
	hc.Pipes, lc.Pipes = true, true
	hc.Log = hc.Log.Level(6) // refusals are expected here
	listenTest(t, addr, hc)
	link := dialTest(t, addr, lc)
	hub.next(t, "up")
	file, err := os.Create(filepath.Join(t.TempDir(), "file"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	f, p, q := int(file.Fd()), int(r.Fd()), int(w.Fd())
	before := descriptorsOf(t)
	for name, tt := range map[string]struct {
		first string
		fds   []int
	}{
		"no pipes":                 {"P", nil},
		"one pipe":                 {"P", []int{p}},
		"three ends":               {"P", []int{p, q, q}},
		"files":                    {"P", []int{f, f}},
		"a greeting that has ends": {"\xff", []int{p}},
		"the wrong ends":           {"P", []int{q, p}}, // which cannot be read and written
		"nothing":                  {"", nil},
	} {
		c, ok := rawDial(t, addr).(*net.UnixConn)
		if !ok {
			t.Fatal("no Unix socket")
		}
		if len(tt.first) > 0 {
			if _, _, err := c.WriteMsgUnix([]byte(tt.first), unix.UnixRights(tt.fds...), nil); err != nil {
				t.Fatal(err)
			}
		}
		if err := c.CloseWrite(); err != nil {
			t.Fatal(err)
		}
		if b, err := io.ReadAll(c); len(b) > 0 || err != nil && !errors.Is(err, unix.ECONNRESET) {
			t.Errorf("%s: answered %q, %v", name, b, err)
		}
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
		if after := descriptorsOf(t); after != before {
			t.Errorf("%s: %d descriptors were open, now %d", name, before, after)
		}
	}
	if err := link.Send([]byte("still here"), nil); err != nil {
		t.Fatal(err)
	}
	if m := hub.next(t, "message"); string(m.head) != "still here" {
		t.Errorf("got %q", m.head)
	}
}

// Where no pipe can be made the socket carries the link. The limit on files is the
// whole process's: the test lowers it for as long as pipes are offered.
func TestSocketWhenNoPipes(t *testing.T) {
	for _, spare := range []int{0, 2} { // descriptors that are left: none, and those of one pipe
		fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
		if err != nil {
			t.Fatal(err)
		}
		f := os.NewFile(uintptr(fds[0]), "socket")
		raw, err := net.FileConn(f)
		if err := errors.Join(err, f.Close(), unix.Close(fds[1])); err != nil {
			t.Fatal(err)
		}
		c, ok := raw.(*net.UnixConn)
		if !ok {
			t.Fatalf("a %T", raw)
		}
		var free []int // the lowest ones that are not open: new ones take these
		for range spare + 1 {
			fd, err := unix.FcntlInt(0, unix.F_DUPFD_CLOEXEC, 0)
			if err != nil {
				t.Fatal(err)
			}
			free = append(free, fd)
		}
		for _, fd := range free {
			if err := unix.Close(fd); err != nil {
				t.Fatal(err)
			}
		}
		var was unix.Rlimit
		if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &was); err != nil {
			t.Fatal(err)
		}
		low := was
		low.Cur = uint64(free[spare])
		if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &low); err != nil {
			t.Fatal(err)
		}
		got, err := offerPipes(c)
		if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &was); err != nil {
			t.Fatal(err)
		}
		if err != nil || got != net.Conn(c) {
			t.Errorf("%d descriptors left: the link goes by a %T, %v", spare, got, err)
		}
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// A listener that does not take pipes says why it refuses them.
func TestPipesMustBeTaken(t *testing.T) {
	addr := "ipc://" + socketFolder(t) + "/s"
	hc, lc := config(t, self("agent", "a", 1), newRecorder()), config(t, self("executor", "e", 1), newRecorder())
	lc.Pipes = true
	var said strings.Builder
	hc.Log = zerolog.New(&said)
	ln := listenTest(t, addr, hc)
	if l, err := Dial(t.Context(), addr, lc); err == nil {
		l.Abort(ErrClosed)
		t.Fatal("connected")
	}
	if err := ln.Close(); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(said.String(), "first byte 0x50") {
		t.Errorf("the listener says %q", said.String())
	}
}

// Both ends learn of the other's end, whoever goes first.
func TestPipesBreak(t *testing.T) {
	for _, first := range []string{"dialing", "listening"} {
		addr := "ipc://" + socketFolder(t) + "/s"
		hub, leaf := newRecorder(), newRecorder()
		hc, lc := config(t, self("agent", "a", 1), hub), config(t, self("executor", "e", 1), leaf)
		hc.Pipes, lc.Pipes = true, true
		listenTest(t, addr, hc)
		link := dialTest(t, addr, lc)
		up, other := hub.next(t, "up"), hub
		if first == "listening" {
			link, other = up.link, leaf
		}
		link.Abort(errors.New("enough"))
		if d := other.next(t, "down"); !errors.Is(d.err, ErrClosed) {
			t.Errorf("%s side first: the other sees %v", first, d.err)
		}
	}
}
