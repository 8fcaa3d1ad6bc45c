package controller

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/internal/samehost"
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

// ownAddress returns an address of this host that is not a loopback one; "" when it has none.
func ownAddress(t *testing.T) string {
	t.Helper()
	all, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range all {
		if n, ok := a.(*net.IPNet); ok && n.IP.To4() != nil && !n.IP.IsLoopback() && !n.IP.IsLinkLocalUnicast() {
			return n.IP.String()
		}
	}
	return ""
}

// A process that was killed leaves ports that refuse, and socket files at which nothing listens.
// Only a door that has answered says so: one that never did may be out of reach.
func TestProcessesThatHaveEnded(t *testing.T) {
	dir := t.TempDir()
	dead := listen(t, "tcp", "127.0.0.1:0")
	alive := listen(t, "tcp", "127.0.0.1:0")
	closed := listen(t, "tcp", "127.0.0.1:0")
	_ = closed.Close()
	left := listen(t, "unix", filepath.Join(dir, "left.sock"))
	left.(*net.UnixListener).SetUnlinkOnClose(false)
	open := listen(t, "unix", filepath.Join(dir, "open.sock"))
	tcp := func(ln net.Listener) string { return "tcp://" + ln.Addr().String() }
	ipc := func(ln net.Listener) string { return "ipc://" + ln.Addr().String() }
	stale := "ipc://" + filepath.Join(dir, "stale.sock")
	never := "ipc://" + filepath.Join(dir, "never.sock")
	old := listen(t, "unix", filepath.Join(dir, "stale.sock"))
	old.(*net.UnixListener).SetUnlinkOnClose(false)
	_ = old.Close()
	here, elsewhere := []comms.Amount{{Name: samehost.Resource(), N: 1}}, []comms.Amount{{Name: "host-x", N: 1}}
	type ended struct {
		name      string
		addresses []string
		host      []comms.Amount
		gone      bool
	}
	cases := []ended{
		{"dead", []string{tcp(dead)}, here, true},
		{"alive", []string{tcp(alive)}, here, false},
		{"one of two", []string{tcp(dead), tcp(alive)}, here, false},
		{"never reached", []string{tcp(closed)}, here, false},
		{"never reached, and alive", []string{tcp(closed), tcp(alive)}, here, false},
		{"never reached, and dead", []string{tcp(closed), tcp(dead)}, here, true},
		{"loopback of another host", []string{tcp(dead)}, elsewhere, false},
		{"any address, of another host", []string{fmt.Sprintf("tcp://0.0.0.0:%d", dead.Addr().(*net.TCPAddr).Port)}, elsewhere, false},
		{"socket", []string{ipc(left)}, here, true},
		{"open socket", []string{ipc(open), tcp(dead)}, here, false},
		{"socket and port", []string{ipc(left), tcp(dead)}, here, true},
		{"socket that never answered", []string{stale}, here, false},
		{"no socket", []string{never}, here, false},
		{"socket of another host", []string{ipc(left)}, elsewhere, false},
		{"in this process", []string{"inproc://agent-a"}, here, false},
		{"nonsense", []string{"tcp://", "x"}, here, false},
		{"none", nil, here, false},
	}
	var far net.Listener
	if own := ownAddress(t); own != "" {
		far = listen(t, "tcp", net.JoinHostPort(own, "0"))
		cases = append(cases, ended{"dead on another host", []string{tcp(far)}, elsewhere, true})
	}
	proven := make([][]comms.Endpoint, len(cases))
	for i, c := range cases {
		m := &comms.Register{Addresses: c.addresses}
		m.Total.Custom = c.host
		proven[i] = answering(doorsOf(m))
	}
	for _, ln := range []net.Listener{dead, left, far} {
		if ln != nil {
			_ = ln.Close()
		}
	}
	for i, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			if door, gone := refuses(proven[i]); gone != c.gone {
				t.Errorf("gone: %v (%v), want %v", gone, door, c.gone)
			}
		})
	}
	if _, err := os.Stat(filepath.Join(dir, "left.sock")); err != nil {
		t.Error(err)
	}
}
