package comms

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"go.uber.org/goleak"

	"github.com/cascade-run/cascade/comms/pki"
)

func TestMain(m *testing.M) {
	if os.Getenv("CASCADE_LINK_CHILD") != "" {
		os.Exit(linkChild())
	}
	goleak.VerifyTestMain(m)
}

// happening is one call of a Handler.
type happening struct {
	what    string // up, message, credit, down
	link    *Link
	peer    Identity
	resumed bool
	head    []byte
	body    []byte
	err     error
}

// recorder is a Handler that keeps what happened, for tests to wait on.
type recorder struct {
	mu     sync.Mutex
	more   *sync.Cond
	events []happening
	react  func(happening) // runs in the link's goroutine, before the event is recorded
}

func newRecorder() *recorder {
	r := &recorder{}
	r.more = sync.NewCond(&r.mu)
	return r
}

func (r *recorder) add(h happening) {
	if r.react != nil {
		r.react(h)
	}
	r.mu.Lock()
	r.events = append(r.events, h)
	r.mu.Unlock()
	r.more.Broadcast()
}

func (r *recorder) Up(l *Link, p Identity, resumed bool) {
	r.add(happening{what: "up", link: l, peer: p, resumed: resumed})
}
func (r *recorder) Message(l *Link, head, body []byte) {
	r.add(happening{what: "message", link: l, head: head, body: body})
}
func (r *recorder) Credit(l *Link)          { r.add(happening{what: "credit", link: l}) }
func (r *recorder) Down(l *Link, err error) { r.add(happening{what: "down", link: l, err: err}) }

// next waits for the next event of one kind and drops what came before it.
func (r *recorder) next(t testing.TB, what string) happening {
	t.Helper()
	over := false
	late := time.AfterFunc(patience, func() {
		r.mu.Lock()
		over = true
		r.mu.Unlock()
		r.more.Broadcast()
	})
	defer late.Stop()
	r.mu.Lock()
	defer r.mu.Unlock()
	for {
		for i, e := range r.events {
			if e.what == what {
				r.events = r.events[i+1:]
				return e
			}
		}
		if over {
			t.Fatalf("no %s within %v; events: %+v", what, patience, r.events)
		}
		r.more.Wait()
	}
}

// count waits until n events of one kind are there and returns them.
func (r *recorder) count(t testing.TB, what string, n int) []happening {
	t.Helper()
	out := make([]happening, 0, n)
	for len(out) < n {
		out = append(out, r.next(t, what))
	}
	return out
}

func self(role, name string, incarnation uint64) Identity {
	return Identity{Role: role, Name: name, Incarnation: incarnation, PID: os.Getpid(), Build: "test", Features: []string{"a", "b"}}
}

// patience only keeps a failing test from hanging.
const patience = 4 * time.Minute

// config is a link configuration for tests. Nobody is given up for being slow but where a
// test says so: a busy host may keep all of a test waiting.
func config(t testing.TB, id Identity, h Handler) Config {
	return Config{Self: id, Handler: h, InsecureTestNetwork: true, RetryMin: time.Millisecond,
		HandshakeTimeout: patience, HeartbeatTimeout: patience,
		Log: zerolog.New(zerolog.NewTestWriter(t)).Level(zerolog.ErrorLevel)}
}

// socketFolder is a short folder of mode 0700: t.TempDir is wider and long.
func socketFolder(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "link")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

func listenTest(t testing.TB, addr string, cfg Config) *Listener {
	t.Helper()
	ln, err := Listen(addr, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	return ln
}

func dialTest(t testing.TB, addr string, cfg Config) *Link {
	t.Helper()
	l, err := Dial(context.Background(), addr, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

func TestMessagesTravelOnEveryTransport(t *testing.T) {
	for _, scheme := range []string{"inproc", "ipc", "pipes", "socket for one that takes pipes", "tcp", "tls"} {
		for _, replay := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/replay=%t", scheme, replay), func(t *testing.T) {
				addr := "ipc://" + socketFolder(t) + "/s"
				switch scheme {
				case "inproc":
					addr = "inproc://hub"
				case "tcp", "tls":
					addr = "tcp://127.0.0.1:0"
				}
				hub, leaf := newRecorder(), newRecorder()
				hub.react = func(h happening) {
					if h.what == "message" {
						if err := h.link.Send(append([]byte("re:"), h.head...), h.body); err != nil {
							t.Errorf("echo: %v", err)
						}
					}
				}
				inproc := NewInproc()
				hc, lc := config(t, self("controller", "c", 7), hub), config(t, self("agent", "a1", 3), leaf)
				hc.Inproc, lc.Inproc, hc.Replay, lc.Replay = inproc, inproc, replay, replay
				hc.CloseTimeout, lc.CloseTimeout = patience, patience
				hc.Pipes, lc.Pipes = strings.Contains(scheme, "pipes"), scheme == "pipes"
				if scheme == "tls" {
					c := newCluster(t)
					secure(&hc, c.member(pki.RoleController, "c"))
					secure(&lc, c.member(pki.RoleAgent, "a1"), pki.RoleController)
				}
				ln := listenTest(t, addr, hc)
				l := dialTest(t, ln.Addr(), lc)
				if up := hub.next(t, "up"); up.peer.Name != "a1" || up.peer.Incarnation != 3 || up.resumed || len(up.peer.Features) != 2 {
					t.Errorf("hub sees %+v", up)
				}
				if up := leaf.next(t, "up"); up.peer.Role != "controller" || up.peer.Incarnation != 7 || up.resumed {
					t.Errorf("leaf sees %+v", up)
				}
				sizes := []int{0, 1, 255, 256, 4096, 4097, 70_000, 3 << 20}
				for _, n := range sizes {
					body := make([]byte, n)
					for i := range body {
						body[i] = byte(i * 7)
					}
					if err := l.Queue([]byte(fmt.Sprint(n)), body); err != nil {
						t.Fatal(err)
					}
					if err := l.Send(body, nil); err != nil {
						t.Fatal(err)
					}
				}
				for _, n := range sizes {
					m := leaf.next(t, "message")
					if string(m.head) != fmt.Sprint("re:", n) || len(m.body) != n || m.body == nil || (n > 0 && m.body[n-1] != byte((n-1)*7)) {
						t.Fatalf("size %d: head %q, body of %d bytes", n, m.head, len(m.body))
					}
					if m = leaf.next(t, "message"); len(m.head) != n+3 || m.body != nil {
						t.Fatalf("size %d: head of %d bytes, body %v", n, len(m.head), m.body != nil)
					}
				}
				if err := l.Close(); err != nil {
					t.Error(err)
				}
				if d := hub.next(t, "down"); !errors.Is(d.err, ErrClosed) || !errors.Is(d.err, errPeerClosed) {
					t.Errorf("hub's end: %v", d.err)
				}
				if err := l.Send([]byte("x"), nil); !errors.Is(err, ErrClosed) {
					t.Errorf("send after close: %v", err)
				}
			})
		}
	}
}

func TestNearestEndpointWins(t *testing.T) {
	dir := socketFolder(t)
	addr := "tcp://127.0.0.1:1,ipc://" + dir + "/s,inproc://hub"
	inproc := NewInproc()
	hub, leaf := newRecorder(), newRecorder()
	cfg := config(t, self("controller", "c", 1), hub)
	cfg.Inproc = inproc
	lc := config(t, self("client", "x", 1), leaf)
	lc.Inproc = inproc

	ln := listenTest(t, "inproc://hub", cfg)
	dialTest(t, addr, lc)
	hub.next(t, "up")
	ln.Close()

	ln = listenTest(t, "ipc://"+dir+"/s", cfg)
	dialTest(t, addr, lc)
	hub.next(t, "up")
	ln.Close()

	_, err := Dial(context.Background(), addr, lc)
	if err == nil || !strings.Contains(err.Error(), "tcp://127.0.0.1:1") || !strings.Contains(err.Error(), "ipc://") {
		t.Errorf("dial with nobody there: %v", err)
	}
}

func TestAddressMistakes(t *testing.T) {
	cfg := config(t, self("agent", "a", 1), newRecorder())
	cfg.InsecureTestNetwork = false
	wide := filepath.Join(socketFolder(t), "wide")
	if err := os.Mkdir(wide, 0o755); err != nil {
		t.Fatal(err)
	}
	taken := filepath.Join(socketFolder(t), "taken")
	listenTest(t, "ipc://"+taken, cfg)
	for addr, want := range map[string]string{
		"":                                     "want inproc://name",
		"nowhere":                              "want inproc://name, ipc:///path or tcp://host:port, such as tcp://10.0.0.1:7420",
		"udp://x":                              "unknown scheme",
		"ipc://relative/path":                  "must be absolute",
		"ipc:///" + strings.Repeat("x", 107):   "at most 107",
		"tcp://localhost":                      "missing port",
		"tcp://127.0.0.1:0":                    "plain TCP is refused",
		"inproc://x":                           "Config.Inproc is nil",
		"ipc://" + wide + "/s":                 "chmod 700",
		"ipc://" + taken:                       "another process listens",
		"ipc://" + socketFolder(t) + ",tcp://": "want inproc://name",
	} {
		if ln, err := Listen(addr, cfg); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Listen(%q): %v, want %q", addr, err, want)
			if err == nil {
				ln.Close()
			}
		}
	}
}

func TestStaleSocketIsReplaced(t *testing.T) {
	path := filepath.Join(socketFolder(t), "s")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	l.SetUnlinkOnClose(false)
	cfg := config(t, self("agent", "a", 1), newRecorder())
	if _, err := Listen("ipc://"+path, cfg); err == nil || !strings.Contains(err.Error(), "answers there") {
		t.Errorf("with a living owner: %v", err)
	}
	l.Close()
	listenTest(t, "ipc://"+path, cfg)
}

// Whoever found the listener just before it closed is told at once.
func TestInprocDialMeetsClose(t *testing.T) {
	p := NewInproc()
	if _, err := p.listen("x"); err != nil {
		t.Fatal(err)
	}
	l := p.names["x"]
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	p.names["x"] = l
	for range 100 {
		if _, err := p.dial("x"); err == nil {
			t.Fatal("a closed listener was dialed")
		}
	}
}

// Of a range of ports the first that is free is taken.
func TestPortRange(t *testing.T) {
	taken := listenTest(t, "tcp://127.0.0.1:0", config(t, self("controller", "c", 1), newRecorder()))
	_, port, _ := strings.Cut(strings.TrimPrefix(taken.Addr(), "tcp://"), ":")
	first, err := strconv.Atoi(port)
	if err != nil {
		t.Fatal(err)
	}
	if first > 65000 {
		t.Skip("too few ports above the one that the kernel chose")
	}
	ln := listenTest(t, fmt.Sprintf("tcp://127.0.0.1:%d-%d", first, first+500), config(t, self("controller", "d", 1), newRecorder()))
	got := 0
	if _, err := fmt.Sscanf(ln.Addr(), "tcp://127.0.0.1:%d", &got); err != nil || got <= first || got > first+500 {
		t.Errorf("it listens at %s, %v", ln.Addr(), err)
	}
	for address, want := range map[string]string{
		fmt.Sprintf("tcp://127.0.0.1:%d-%d", first, first): "every port",
		taken.Addr():              "address already in use: end the program that listens there",
		"tcp://192.0.2.1:9":       "it is no address of this host",
		"tcp://127.0.0.1:9-8":     "want a range",
		"tcp://127.0.0.1:0-8":     "want a range",
		"tcp://127.0.0.1:1-99999": "want a range",
	} {
		if ln, err := Listen(address, config(t, self("controller", "e", 1), newRecorder())); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, %v; want %q", address, ln, err, want)
		}
	}
}

func TestTCPAddress(t *testing.T) {
	for in, want := range map[string]string{
		"head": "tcp://head:7420", "head:1": "tcp://head:1", "tcp://head": "tcp://head:7420", "::1": "tcp://[::1]:7420", "[::1]:5": "tcp://[::1]:5",
		"": "", "ipc:///x": "", "a b": "", "a/b": "", ":1": "",
	} {
		if got, err := TCPAddress(in); got != want || (err == nil) != (want != "") {
			t.Errorf("%q is %q, %v; want %q", in, got, err, want)
		}
	}
}

// Who sets one of the two times of heartbeats gets the other with it.
func TestHeartbeatDefaults(t *testing.T) {
	for _, c := range []struct{ every, timeout, wantEvery, wantTimeout time.Duration }{
		{0, 0, 2 * time.Second, 10 * time.Second},
		{0, time.Second, 200 * time.Millisecond, time.Second},
		{5 * time.Millisecond, 0, 5 * time.Millisecond, 25 * time.Millisecond},
		{time.Second, time.Minute, time.Second, time.Minute},
	} {
		cfg := config(t, self("agent", "a", 1), newRecorder())
		cfg.HeartbeatEvery, cfg.HeartbeatTimeout = c.every, c.timeout
		got, err := cfg.withDefaults()
		if err != nil || got.HeartbeatEvery != c.wantEvery || got.HeartbeatTimeout != c.wantTimeout {
			t.Errorf("every %v, timeout %v: %v, %v, %v", c.every, c.timeout, got.HeartbeatEvery, got.HeartbeatTimeout, err)
		}
	}
}
