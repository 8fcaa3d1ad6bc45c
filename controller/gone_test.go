package controller

import (
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/internal/hostid"
)

// listen opens a socket at a free place.
func listen(t *testing.T, network, address string) net.Listener {
	t.Helper()
	ln, err := (&net.ListenConfig{}).Listen(t.Context(), network, address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ln.Close() }) // some are closed by then
	return ln
}

// What a process that was killed leaves are ports that refuse, and socket files nothing listens at.
func TestProcessesThatHaveEnded(t *testing.T) {
	dir := t.TempDir()
	dead := listen(t, "tcp", "127.0.0.1:0")
	_ = dead.Close()
	alive := listen(t, "tcp", "127.0.0.1:0")
	left := listen(t, "unix", filepath.Join(dir, "left.sock"))
	left.(*net.UnixListener).SetUnlinkOnClose(false)
	_ = left.Close()
	open := listen(t, "unix", filepath.Join(dir, "open.sock"))
	never := "ipc://" + filepath.Join(dir, "never.sock")
	tcp := func(ln net.Listener) string { return "tcp://" + ln.Addr().String() }
	ipc := func(ln net.Listener) string { return "ipc://" + ln.Addr().String() }
	here, elsewhere := []comms.Amount{{Name: hostid.Resource(), N: 1}}, []comms.Amount{{Name: "host-x", N: 1}}
	for _, c := range []struct {
		name      string
		addresses []string
		host      []comms.Amount
		gone      bool
	}{
		{"dead", []string{tcp(dead)}, elsewhere, true},
		{"alive", []string{tcp(alive)}, elsewhere, false},
		{"one of two", []string{tcp(dead), tcp(alive)}, elsewhere, false},
		{"socket", []string{ipc(left)}, here, true},
		{"open socket", []string{ipc(open), tcp(dead)}, here, false},
		{"socket and port", []string{ipc(left), tcp(dead)}, here, true},
		{"no socket", []string{never}, here, false},
		{"socket of another host", []string{ipc(left)}, elsewhere, false},
		{"in this process", []string{"inproc://agent-a"}, here, false},
		{"nonsense", []string{"tcp://", "x"}, here, false},
		{"none", nil, here, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := &comms.Register{Addresses: c.addresses}
			m.Total.Custom = c.host
			if door, gone := refuses(doorsOf(m)); gone != c.gone {
				t.Errorf("gone: %v (%v), want %v", gone, door, c.gone)
			}
		})
	}
	if _, err := os.Stat(filepath.Join(dir, "left.sock")); err != nil {
		t.Error(err)
	}
}
