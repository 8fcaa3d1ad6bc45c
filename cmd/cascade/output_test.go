package main

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
)

// ended runs the command as a process of its own and returns its exit code and what it wrote to stderr.
func (h *host) ended(stdout, stderr io.Writer, args ...string) int {
	h.t.Helper()
	self, err := os.Executable()
	if err != nil {
		h.t.Fatal(err)
	}
	c := exec.Command(self, args...)
	c.Env = append(os.Environ(), asCommand+"=1", "CASCADE_STATE="+h.state)
	c.Stdout, c.Stderr = stdout, stderr
	var exit *exec.ExitError
	if err := c.Run(); err != nil && !errors.As(err, &exit) {
		h.t.Fatal(err)
	}
	if status := c.ProcessState.Sys().(syscall.WaitStatus); status.Signaled() {
		h.t.Errorf("%s was ended by %s", args, status.Signal())
	}
	return c.ProcessState.ExitCode()
}

// A job goes on when its progress is not read any more; a command that only prints ends quietly.
func TestOutputThatIsNotRead(t *testing.T) {
	h := newHost(t)
	h.write("job.yaml", "job: unread\ntasks: {a: {command: \"echo 1\", out: [x], stdout: x}}\noutputs: [{from: a.x, to: x.txt}]\n")
	h.write("bad.yaml", "job: bad\ntasks: {a: {command: \"exit 7\"}}\n")
	r, unread, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer unread.Close()
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args string
		code int
		file bool // the job's output is there
	}{
		{"run job.yaml", exitOK, true},
		{"run job.yaml --json", exitOK, true},
		{"run bad.yaml", exitFailed, false},
		{"run bad.yaml --json", exitFailed, false},
		{"rerun last", exitFailed, false},
		{"ls jobs", exitPipe, false},
		{"ls jobs --json", exitPipe, false},
		{"status last", exitPipe, false},
		{"status last --watch", exitPipe, false},
		{"story last a", exitPipe, false},
		{"validate job.yaml", exitPipe, false},
		{"schema", exitPipe, false},
		{"help", exitPipe, false},
		{"get last a.x", exitBadInput, false}, // nothing is printed
	} {
		_ = os.Remove("x.txt")
		if code := h.ended(unread, unread, strings.Fields(c.args)...); code != c.code {
			t.Errorf("%s: exit %d, want %d", c.args, code, c.code)
		}
		if _, err := os.Stat("x.txt"); (err == nil) != c.file {
			t.Errorf("%s: the output: %v", c.args, err)
		}
	}
}

// A failed write of output is an error of the command, and not the end of the job.
func TestOutputThatIsFull(t *testing.T) {
	h := newHost(t)
	h.write("job.yaml", "job: full\ntasks: {a: {command: \"echo 1\", out: [x], stdout: x}}\noutputs: [{from: a.x, to: x.txt}]\n")
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skip(err)
	}
	defer full.Close()
	for _, args := range []string{"run job.yaml", "run job.yaml --json", "ls jobs", "ls jobs --json", "validate job.yaml", "get last a.x"} {
		var said strings.Builder
		if code := h.ended(full, &said, strings.Fields(args)...); code != exitInfrastructure {
			t.Errorf("%s: exit %d", args, code)
		}
		if want := "write /dev/stdout: no space left on device\n"; !strings.HasSuffix(said.String(), want) && !strings.Contains(args, "--json") {
			t.Errorf("%s: said %q", args, said.String())
		}
		if strings.HasPrefix(args, "run") {
			if err := os.Remove("x.txt"); err != nil {
				t.Errorf("%s: %v", args, err)
			}
		}
	}
}
