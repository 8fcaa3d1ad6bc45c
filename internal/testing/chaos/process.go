//go:build linux

package chaos

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cascade-run/cascade/internal/testing/output"
)

// patience is how long a test waits for what must come. It only keeps a failing
// test from hanging.
const patience = 4 * time.Minute

// Process is a started command.
type Process struct {
	tb   testing.TB
	name string
	cmd  *exec.Cmd
	out  output.Buffer // standard output and error
	done chan struct{} // closed when it has ended
}

// PID returns the process's number.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Signal sends a signal; an ended process is no error.
func (p *Process) Signal(s syscall.Signal) {
	p.tb.Helper()
	if err := p.cmd.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		p.tb.Errorf("send %v to %s: %v", s, p.name, err)
	}
}

// Kill ends the process with SIGKILL and waits for its end.
func (p *Process) Kill() {
	p.tb.Helper()
	p.Signal(syscall.SIGKILL)
	p.Wait()
}

// Stop ends the process with SIGTERM and wants exit code 0.
func (p *Process) Stop() {
	p.tb.Helper()
	if p.Ended() {
		return
	}
	p.Signal(syscall.SIGTERM)
	if code := p.Wait(); code != 0 {
		p.tb.Errorf("%s ended with %d:\n%s", p.name, code, p.out.String())
	}
}

// Wait waits for the end and returns the exit code, -1 after a signal.
func (p *Process) Wait() int {
	p.tb.Helper()
	late := time.NewTimer(patience)
	defer late.Stop()
	select {
	case <-p.done:
	case <-late.C:
		p.tb.Errorf("%s has not ended in %v; its stacks follow", p.name, patience)
		_ = p.cmd.Process.Signal(syscall.SIGQUIT)
		<-p.done
		p.tb.Fatalf("%s:\n%s", p.name, p.out.String())
	}
	return p.cmd.ProcessState.ExitCode()
}

// Ended tells whether the process has ended.
func (p *Process) Ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// Output returns what the process wrote so far.
func (p *Process) Output() string { return p.out.String() }

// Await waits until the process has written the text. It fails the test when the
// process ends without it.
func (p *Process) Await(text string) {
	p.tb.Helper()
	p.AwaitTimes(text, 1)
}

// AwaitTimes is like Await for the n-th time of the text.
func (p *Process) AwaitTimes(text string, n int) {
	p.tb.Helper()
	p.awaitThat(fmt.Sprintf("%q", text), func(output string) bool { return strings.Count(output, text) >= n })
}

// awaitThat is like Await until what the process has written is such, which what describes.
func (p *Process) awaitThat(what string, such func(output string) bool) {
	p.tb.Helper()
	late := time.NewTimer(patience)
	defer late.Stop()
	for {
		got, more := p.out.Next()
		if such(got) {
			return
		}
		select {
		case <-more:
			continue
		case <-p.done:
			if such(p.out.String()) {
				return
			}
			p.tb.Fatalf("%s ended without saying %s:\n%s", p.name, what, p.out.String())
		case <-late.C:
			p.tb.Fatalf("%s has not said %s in %v:\n%s", p.name, what, patience, p.out.String())
		}
	}
}
