package comms

import (
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rs/zerolog"

	"github.com/cascade-run/cascade/comms/pki"
)

// relay opens a relay to ln with anna's certificate.
func relay(t *testing.T, c cluster, m *pki.Member, ln *Listener) string {
	t.Helper()
	path := filepath.Join(socketFolder(t), "c")
	target := strings.TrimPrefix(ln.Addr(), "tcp://")
	r, err := NewRelay(path, &Security{Member: m, Expect: []pki.Role{pki.RoleController}}, func() string { return target }, zerolog.Nop())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
	return path
}

// A plain link over the Unix socket is anna's to the cluster.
func TestRelay(t *testing.T) {
	c := newCluster(t)
	hub, ln := c.hub(t, nil)
	path := relay(t, c, c.member(pki.RoleObserve, "anna"), ln)
	cfg := config(t, self("client", "x", 1), newRecorder())
	cfg.Replay = true
	l := dialTest(t, "ipc://"+path, cfg)
	if up := hub.next(t, "up"); up.peer.Grant != pki.RoleObserve || up.peer.Holder != "anna" {
		t.Errorf("the hub sees %+v", up.peer)
	}
	body := make([]byte, 3<<20)
	if err := l.Send([]byte("head"), body); err != nil {
		t.Fatal(err)
	}
	if m := hub.next(t, "message"); string(m.head) != "head" || len(m.body) != len(body) {
		t.Errorf("the hub hears %q with %d bytes", m.head, len(m.body))
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	folder, err := os.Stat(filepath.Dir(path))
	if err != nil || info.Mode()&os.ModeSocket == 0 || folder.Mode().Perm() != 0o700 {
		t.Errorf("the socket is %v in a folder %v, %v", info.Mode(), folder.Mode(), err)
	}
}

// A certificate that is not accepted closes the program's connection.
func TestRelayRefused(t *testing.T) {
	c, foreign := newCluster(t), newCluster(t)
	_, ln := c.hub(t, nil)
	path := relay(t, c, foreign.member(pki.RoleAdmin, "anna"), ln)
	conn, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if n, err := conn.Read(make([]byte, 1)); err == nil {
		t.Errorf("read %d bytes through a relay that nobody accepts", n)
	}
	cfg := config(t, self("client", "x", 1), newRecorder())
	cfg.Replay = true
	if l, err := Dial(context.Background(), "ipc://"+path, cfg); err == nil {
		t.Errorf("linked through it: %v", l.Close())
	}
}

// libzmq, which has no TLS, talks to a hub that requires it.
func TestPyzmqThroughRelay(t *testing.T) {
	py := python(t)
	c := newCluster(t)
	hub, ln := c.hub(t, func(cfg *Config) { cfg.Replay = true })
	hub.react = func(h happening) {
		if h.what == "message" {
			if err := h.link.Send(append([]byte("re:"), h.head...), h.body); err != nil {
				t.Errorf("echo: %v", err)
			}
		}
	}
	path := relay(t, c, c.member(pki.RoleSubmit, "anna"), ln)
	out, err := exec.Command(py, "testdata/peer.py", "dealer", "ipc://"+path, "20", "1000", "0").CombinedOutput()
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
