package main

import (
	"bufio"
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cascade-run/cascade/cmd/internal/daemon"
	"github.com/cascade-run/cascade/cmd/internal/helptest"
	"github.com/cascade-run/cascade/comms"
)

func TestHelpPage(t *testing.T) { helptest.Check(t, command(nil)) }

func TestBadInput(t *testing.T) {
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"--nosuch"}, daemon.ExitBadInput, "unknown flag"},
		{[]string{"surplus"}, daemon.ExitBadInput, "unknown command"},
		{[]string{"--durability", "maybe"}, daemon.ExitBadInput, "want crash"},
		{[]string{"--min-free", "much", "--state", "x"}, daemon.ExitBadInput, "--min-free"},
		{[]string{"--state", filepath.Join(t.TempDir(), "s"), "--listen", "tcp://127.0.0.1:0"}, daemon.ExitInfrastructure, "insecure-test-network"},
	} {
		var out, errs strings.Builder
		if code := run(c.args, &out, &errs, nil); code != c.code || !strings.Contains(errs.String(), c.want) {
			t.Errorf("%v: code %d, %q; want %d, %q", c.args, code, errs.String(), c.code, c.want)
		}
	}
}

type quiet struct{ up chan struct{} }

func (q quiet) Up(_ *comms.Link, _ comms.Identity, resumed bool) {
	if !resumed {
		close(q.up)
	}
}
func (q quiet) Message(*comms.Link, []byte, []byte) {}
func (q quiet) Credit(*comms.Link)                  {}
func (q quiet) Down(*comms.Link, error)             {}

func TestServesUntilSignal(t *testing.T) {
	dir, err := os.MkdirTemp("", "cascade") // a socket's path must be short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	signals := make(chan os.Signal, 1)
	r, w := io.Pipe()
	code := make(chan int, 1)
	var errs strings.Builder
	go func() {
		code <- run([]string{"--state", dir, "--durability=crash", "--min-free", "1MiB"}, w, &errs, signals)
		_ = w.Close() // ends the scan below when it never became ready
	}()
	lines := bufio.NewScanner(r)
	if !lines.Scan() {
		t.Fatalf("no address; code %d: %s", <-code, errs.String())
	}
	q := quiet{make(chan struct{})}
	l, err := comms.Dial(context.Background(), lines.Text(), comms.Config{Self: comms.Identity{Role: "client", Name: "c", Incarnation: 1}, Handler: q, Replay: true})
	if err != nil {
		t.Fatal(err)
	}
	<-q.up
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	signals <- os.Interrupt
	if c := <-code; c != daemon.ExitOK {
		t.Errorf("exit code %d: %s", c, errs.String())
	}
}

// The documents tell people to type what the command takes.
func TestDocumentedCommands(t *testing.T) {
	helptest.Documents(t, "../..", command(nil))
}
