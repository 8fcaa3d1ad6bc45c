//go:build linux

package main

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"go.uber.org/goleak"

	"github.com/cascade-run/cascade/cmd/internal/daemon"
	"github.com/cascade-run/cascade/cmd/internal/helptest"
	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/dag"
	"github.com/cascade-run/cascade/executor"
	"github.com/cascade-run/cascade/internal/samehost"
)

func TestMain(m *testing.M) {
	executor.Main()
	goleak.VerifyTestMain(m)
}

func TestHelpPage(t *testing.T) { helptest.Check(t, command(nil)) }

// controller accepts agents and tells when one has registered.
type controller struct {
	registered chan *comms.Register
	refuse     error
}

func (c *controller) listen(t *testing.T) string {
	t.Helper()
	c.registered = make(chan *comms.Register, 1)
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	ln, err := comms.Listen("ipc://"+filepath.Join(dir, "c.sock"), comms.Config{
		Self:    comms.Identity{Role: "controller", Name: "controller", Incarnation: 1, PID: os.Getpid()},
		Handler: c, Replay: true,
		CheckPeer: func(comms.Identity, int) error { return c.refuse },
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	return ln.Addr()
}

func (c *controller) Up(*comms.Link, comms.Identity, bool) {}
func (c *controller) Credit(*comms.Link)                   {}
func (c *controller) Down(*comms.Link, error)              {}
func (c *controller) Message(_ *comms.Link, head, _ []byte) {
	if m, err := comms.Decode(head); err == nil {
		if r, ok := m.(*comms.Register); ok {
			c.registered <- r
		}
	}
}

func TestSignalEndsTheAgent(t *testing.T) {
	c := &controller{}
	signals := make(chan os.Signal, 2)
	address, state := c.listen(t), t.TempDir()
	code := make(chan int, 1)
	var stderr bytes.Buffer
	go func() {
		code <- run([]string{"--controller", address, "--name", "a1", "--state", state, "--cpu", "0.5", "--memory", "1GiB", "--store", "16MiB", "--resource", "licence=2,disk=0.5"}, &stderr, &stderr, signals)
	}()
	select {
	case r := <-c.registered:
		// Behind what it was told come its own resource and that of its host.
		if want := []comms.Amount{{Name: "disk", N: 500}, {Name: "licence", N: 2000}, {Name: dag.AgentResource("a1"), N: samehost.Amount}, {Name: samehost.Resource(), N: samehost.Amount}}; r.Agent != "a1" || !slices.Equal(r.Total.Custom, want) {
			t.Errorf("agent %q registered with %v", r.Agent, r.Total.Custom)
		}
	case n := <-code:
		t.Fatalf("it ended with %d: %s", n, &stderr)
	}
	// The state folder belongs to one agent, and so does the certificate in it.
	for _, at := range [][]string{{"--controller", "ipc:///x", "--name", "a1"}, {"--join", "127.0.0.1:1", "--token", "any", "--name", "a2"}} {
		var second bytes.Buffer
		if n := run(append(at, "--state", state), &second, &second, nil); n != daemon.ExitInfrastructure || !strings.Contains(second.String(), "another agent uses it") {
			t.Errorf("a second agent, %q: exit code %d: %s", at, n, &second)
		}
	}
	signals <- syscall.SIGTERM
	if n := <-code; n != daemon.ExitOK {
		t.Errorf("exit code %d: %s", n, &stderr)
	}
}

// What is asked for goes to standard output, where pagers and scripts read it.
func TestHelpIsOutput(t *testing.T) {
	for _, flag := range []string{"--help", "--version"} {
		var stdout, stderr bytes.Buffer
		if code := run([]string{flag}, &stdout, &stderr, nil); code != daemon.ExitOK || stdout.Len() == 0 || stderr.Len() != 0 {
			t.Errorf("%s: exit code %d, %d bytes of output, errors: %s", flag, code, stdout.Len(), &stderr)
		}
	}
}

func TestExitCodes(t *testing.T) {
	refusing := &controller{refuse: errors.New("not you")}
	for _, c := range []struct {
		name string
		args []string
		code int
		want string
	}{
		{"no controller", nil, daemon.ExitBadInput, "--controller is missing"},
		{"unknown flag", []string{"--nosuch"}, daemon.ExitBadInput, "unknown flag: --nosuch; see cascade-agent --help"},
		{"bad size", []string{"--controller", "ipc:///x", "--memory", "much"}, daemon.ExitBadInput, `--memory "much": want a size such as 4GiB`},
		{"resource of its own flag", []string{"--controller", "ipc:///x", "--resource", "gpu=1"}, daemon.ExitBadInput, "--resource gpu=1: it is said by --gpus"},
		{"bad resource", []string{"--controller", "ipc:///x", "--resource", "licence=some"}, daemon.ExitBadInput, "--resource licence=some: want a number above 0"},
		{"no number", []string{"--gpus", "x"}, daemon.ExitBadInput, "--gpus x: want a whole number; see cascade-agent --help"},
		{"argument", []string{"x"}, daemon.ExitBadInput, `unknown command "x"`},
		{"bad name", []string{"--controller", "ipc:///x", "--name", "a b", "--state", t.TempDir()}, daemon.ExitBadInput, `agent name "a b"`},
		{"damaged token", []string{"--join", "127.0.0.1:1", "--token", "cascade1.x", "--name", "a3", "--state", t.TempDir()}, daemon.ExitBadInput, "read the token (--token, CASCADE_TOKEN): the token is cut off"},
		{"no token", []string{"--join", "127.0.0.1:1", "--name", "a3", "--state", t.TempDir()}, daemon.ExitBadInput, "a token is needed to join the cluster at 127.0.0.1:1; cascade cluster token"},
		{"refused", []string{"--controller", refusing.listen(t), "--name", "a2", "--state", t.TempDir(), "--warm", "-1"}, daemon.ExitInfrastructure, "not you"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var stderr bytes.Buffer
			if code := run(c.args, &stderr, &stderr, nil); code != c.code || !strings.Contains(stderr.String(), c.want) {
				t.Errorf("exit code %d, want %d; %q is to be in: %s", code, c.code, c.want, &stderr)
			}
		})
	}
}

// The documents tell people to type what the command takes.
func TestDocumentedCommands(t *testing.T) {
	helptest.Documents(t, "../..", command(nil))
}
