package main

import (
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/cascade-run/cascade/cmd/internal/daemon"
)

// What is refused of a cluster says how to go on, and makes nothing; clean --all
// says that the authority stays.
func TestClusterRefusals(t *testing.T) {
	h := newHost(t)
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	h.expect(h.start("", "cluster", "token"), "exit 3", "no controller serves STATE on this host: start cascade-controller --state")
	removeSocket := leaveSocket(t, daemon.ControllerSocket(h.state))
	h.expect(h.start("", "cluster", "token"), "exit 3", "no controller serves STATE on this host: start cascade-controller --state")
	removeSocket()
	h.expect(h.start("", "cluster", "init", "--name", "a b"), "exit 2", `name "a b" in a certificate: want 1 to 128 bytes without blanks`)
	h.expect(h.start("", "cluster", "init", "--name", ".."), "exit 2", `name ".." in a certificate`)
	h.expect(h.start("", "cluster", "init", "--uses", "0"), "exit 2", "a token for 0 uses and 24h0m0s")
	h.expect(h.start("", "cluster", "init"), "cluster cascade: its authority is in", "The token admits 32 hosts")
	h.expect(h.start("", "clean", "--all", "--yes"), "removed its state; kept pki: rm -r STATE removes that")
	h.expect(h.start("", "cluster", "init"), "exit 2", "cluster cascade is there already", "cascade cluster token makes a token for more hosts")
	h.expect(h.start("", "cluster", "join", "127.0.0.1:1", "--token", "garbage"), "exit 2", `a token begins with "cascade1."`)
	token := regexp.MustCompile(`cascade1\.\S+`).FindString(h.start("", "cluster", "init", "--state", t.TempDir()).wait())
	h.expect(h.start("", "cluster", "join", "127.0.0.1:1", "--token", token), "exit 3", "connection refused", "is cascade-controller running there, and is its --listen this address and port?")
	left, err := filepath.Glob(filepath.Join(h.state, "*"))
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(left, " "); got != filepath.Join(h.state, "pki") {
		t.Errorf("the state folder has %s", got)
	}
	if err := os.RemoveAll(h.state); err != nil {
		t.Fatal(err)
	}
}

// leaveSocket makes a socket on which nobody listens, as a controller leaves it that is killed.
func leaveSocket(t *testing.T, address string) (remove func()) {
	t.Helper()
	path := strings.TrimPrefix(address, "ipc://")
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	l.SetUnlinkOnClose(false)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	return func() {
		if err := os.RemoveAll(filepath.Dir(path)); err != nil {
			t.Fatal(err)
		}
	}
}

func TestUserWithoutName(t *testing.T) {
	h := newHost(t)
	for _, name := range []string{"", " "} {
		if out := h.start("", "cluster", "user", name).wait(); !strings.Contains(out, "exit 2") || !strings.Contains(out, "the NAME is empty") {
			t.Errorf("%q: %s", name, out)
		}
	}
}
