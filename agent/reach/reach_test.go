package reach

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"go.uber.org/goleak"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/comms/pki"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// host is a Reach, with a folder for doors and one for processes.
type host struct {
	*Reach
	inside string
}

func start(t *testing.T, name string) *host { return startWith(t, name, nil) }

// startWith uses TLS if secure is not nil.
func startWith(t *testing.T, name string, secure *comms.Security) *host {
	t.Helper()
	dir, err := os.MkdirTemp("", "reach") // t.TempDir is too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	h := &host{inside: filepath.Join(dir, "scratch")}
	if err := os.Mkdir(h.inside, 0o700); err != nil {
		t.Fatal(err)
	}
	h.Reach, err = New(Config{
		Self:   comms.Identity{Role: "agent", Name: name, Incarnation: 1, PID: os.Getpid(), Build: "test"},
		Listen: "tcp://127.0.0.1:0", Security: secure, InsecureTestNetwork: secure == nil, Doors: dir, Inside: h.inside,
		Log: zerolog.New(zerolog.NewTestWriter(t)).Level(zerolog.ErrorLevel),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(h.Close(), os.RemoveAll(dir)); err != nil {
			t.Error(err)
		}
	})
	return h
}

// process listens as a process of a host, and has serve treat each of its connections.
func (h *host) process(t *testing.T, serve func(net.Conn)) string {
	t.Helper()
	path := filepath.Join(h.inside, fmt.Sprintf("%d.sock", rand.Uint32()))
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	var work sync.WaitGroup
	work.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			work.Go(func() { serve(c); _ = c.Close() })
		}
	})
	t.Cleanup(func() { _ = l.Close(); work.Wait() })
	return "ipc://" + path
}

func dial(t *testing.T, door string) net.Conn {
	t.Helper()
	c, err := net.Dial("unix", strings.TrimPrefix(door, "ipc://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// TestBytesArrive sends and receives much at the same time through several doors, whose ends come from either side.
func TestBytesArrive(t *testing.T) {
	a, b := start(t, "a"), start(t, "b")
	echo := a.process(t, func(c net.Conn) { _, _ = io.Copy(c, c) })
	sent := make([]byte, 5<<20)
	_, _ = rand.NewChaCha8([32]byte{7}).Read(sent) // never fails
	says := a.process(t, func(c net.Conn) { _, _ = c.Write(sent) })
	var work sync.WaitGroup
	for range 4 {
		work.Go(func() {
			door, err := b.Open(t.Context(), "a", a.Addr(), echo)
			if err != nil {
				t.Error(err)
				return
			}
			c := dial(t, door)
			go func() { _, _ = c.Write(sent) }()
			got := make([]byte, len(sent))
			if _, err := io.ReadFull(c, got); err != nil || !bytes.Equal(got, sent) {
				t.Errorf("the echo is another: %v", err)
			}
			_ = c.Close()
		})
		work.Go(func() {
			door, err := b.Open(t.Context(), "a", a.Addr(), says)
			if err != nil {
				t.Error(err)
				return
			}
			if got, err := io.ReadAll(dial(t, door)); err != nil || !bytes.Equal(got, sent) {
				t.Errorf("%d of %d bytes came before the end: %v", len(got), len(sent), err)
			}
		})
	}
	work.Wait()
	for _, h := range []*host{a, b} { // a link ends behind its connections
		for l := range h.all() {
			<-l.Done()
		}
	}
	if left, _ := filepath.Glob(filepath.Join(b.cfg.Doors, "door-*")); len(left) > 0 {
		t.Errorf("doors are left: %v", left)
	}
}

// TestOverTLS asks agents of one cluster, and as one whose certificate is revoked while it is served.
func TestOverTLS(t *testing.T) {
	authority, err := pki.NewAuthority("test", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	secure := func(role pki.Role, name string) *comms.Security {
		m, err := authority.Enrol(role, name, time.Now)
		if err != nil {
			t.Fatal(err)
		}
		return &comms.Security{Member: m}
	}
	var revoked atomic.Bool
	of := secure(pki.RoleAgent, "a")
	of.Revoked = func(string) bool { return revoked.Load() }
	a, b := startWith(t, "a", of), startWith(t, "b", secure(pki.RoleAgent, "b"))
	echo := a.process(t, func(c net.Conn) { _, _ = io.Copy(c, c) })
	door, err := b.Open(t.Context(), "a", a.Addr(), echo)
	if err != nil {
		t.Fatal(err)
	}
	c := dial(t, door)
	if _, err := c.Write([]byte("hello")); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(c, make([]byte, 5)); err != nil {
		t.Fatal(err)
	}
	if _, err := startWith(t, "person", secure(pki.RoleAdmin, "person")).Open(t.Context(), "a", a.Addr(), echo); err == nil {
		t.Error("a person was led to a process")
	}
	revoked.Store(true)
	a.Recheck(time.Now())
	if n, err := io.ReadAll(c); err != nil || len(n) > 0 {
		t.Errorf("behind its revocation it reads %q, %v", n, err)
	}
	if _, err := b.Open(t.Context(), "a", a.Addr(), echo); err == nil {
		t.Error("an agent was led to a process behind its revocation")
	}
}

// TestNoWay asks for what cannot be reached.
func TestNoWay(t *testing.T) {
	a, b := start(t, "a"), start(t, "b")
	outside := filepath.Join(a.cfg.Doors, "outside.sock")
	l, err := net.Listen("unix", outside)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	closed := start(t, "closed")
	if err := closed.Close(); err != nil {
		t.Fatal(err)
	}
	mute, err := net.Listen("tcp", "127.0.0.1:0") // its backlog takes connections
	if err != nil {
		t.Fatal(err)
	}
	defer mute.Close()
	for _, row := range []struct {
		name, agent, at, address, want string
		gone                           bool
	}{
		{"a process that has ended", "a", a.Addr(), "ipc://" + a.inside + "/7/actors.sock", "it is gone: the process has ended", true},
		{"a socket that is no process's", "a", a.Addr(), "ipc://" + outside, "no process of this host that can be reached", true},
		{"a way out of the folder", "a", a.Addr(), "ipc://" + a.inside + "/../outside.sock", "no process of this host that can be reached", true},
		{"no socket", "a", a.Addr(), "tcp://127.0.0.1:1", "no process of this host that can be reached", true},
		{"another agent", "c", a.Addr(), "ipc:///x", "agent c was expected, and agent a answers", false},
		{"an agent that is gone", "closed", closed.Addr(), "ipc:///x", "reach agent closed", true},
		{"an agent that is stopped", "mute", "tcp://" + mute.Addr().String(), "ipc:///x", "reach agent mute", false},
		{"no address", "a", "", "ipc:///x", "agent a leads no links of other hosts to its processes", true},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		door, err := b.Open(ctx, row.agent, row.at, row.address)
		cancel()
		if err == nil || !strings.Contains(err.Error(), row.want) || errors.Is(err, ErrGone) != row.gone {
			t.Errorf("%s: %q, %v; want %q", row.name, door, err, row.want)
		}
	}
}

// TestSlowReaderHoldsItsOwn has a process that does not read: its caller cannot write without end, another is served.
func TestSlowReaderHoldsItsOwn(t *testing.T) {
	a, b := start(t, "a"), start(t, "b")
	over := make(chan struct{})
	deaf := a.process(t, func(net.Conn) { <-over })
	defer close(over)
	echo := a.process(t, func(c net.Conn) { _, _ = io.Copy(c, c) })
	door, err := b.Open(t.Context(), "a", a.Addr(), deaf)
	if err != nil {
		t.Fatal(err)
	}
	slow := dial(t, door)
	if err := slow.SetWriteDeadline(time.Now().Add(500 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	n, err := slow.Write(make([]byte, 256<<20))
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("%d bytes went to a process that does not read: %v", n, err)
	}
	if door, err = b.Open(t.Context(), "a", a.Addr(), echo); err != nil {
		t.Fatal(err)
	}
	c := dial(t, door)
	if _, err := c.Write([]byte("hello")); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, 5)
	if _, err := io.ReadFull(c, got); err != nil || string(got) != "hello" {
		t.Errorf("another gets %q, %v", got, err)
	}
}

// TestCloseEndsAll closes an agent's Reach while links go through it, and while one opens a door.
func TestCloseEndsAll(t *testing.T) {
	for _, which := range []string{"that of the caller", "that of the process"} {
		a, b := start(t, "a"), start(t, "b")
		ended := make(chan struct{}, 2)
		process := a.process(t, func(c net.Conn) {
			_, _ = io.Copy(io.Discard, c)
			ended <- struct{}{}
		})
		door, err := b.Open(t.Context(), "a", a.Addr(), process)
		if err != nil {
			t.Fatal(err)
		}
		c := dial(t, door)
		if _, err := b.Open(t.Context(), "a", a.Addr(), process); err != nil { // no caller comes
			t.Fatal(err)
		}
		closed := b
		if which == "that of the process" {
			closed = a
		}
		if err := closed.Close(); err != nil {
			t.Errorf("%s: %v", which, err)
		}
		if _, err := io.ReadAll(c); err != nil && !strings.Contains(err.Error(), "reset") {
			t.Errorf("%s: the caller sees %v", which, err)
		}
		<-ended
		<-ended
		if _, err := closed.Open(t.Context(), "a", a.Addr(), process); err == nil {
			t.Errorf("%s: it still opens doors", which)
		}
	}
}
