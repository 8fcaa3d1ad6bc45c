package runtimeenv

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"
)

// tool is a program that helps to build.
type tool struct {
	name string // for messages
	dir  string // where it runs
	env  []string
	out  io.Writer // of its standard output; nil: it is returned
}

// foreign are variables of the agent that would lead uv or pip to another environment.
var foreign = []string{"VIRTUAL_ENV", "CONDA_PREFIX", "PYTHONPATH", "PYTHONHOME", "PYTHONSTARTUP", "UV_PROJECT_ENVIRONMENT",
	"UV_SYSTEM_PYTHON", "UV_PYTHON", "PIP_TARGET", "PIP_PREFIX", "PIP_USER", "PIP_REQUIRE_VIRTUALENV"}

// run runs a tool to its end. It dies with this process; when ctx ends, its process
// group dies with it.
func (t tool) run(ctx context.Context, path string, args ...string) ([]byte, error) {
	// A parent-death signal comes when the thread that started the child ends: keep the thread.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var stdout, all bytes.Buffer
	cmd := t.command(ctx, path, args...)
	cmd.Stdout, cmd.Stderr = &stdout, &all
	if t.out != nil {
		cmd.Stdout = t.out
	}
	err := cmd.Run()
	if err == nil {
		return stdout.Bytes(), nil
	}
	if ctx.Err() != nil {
		return nil, fmt.Errorf("%s: %w", t.name, ctx.Err())
	}
	output := strings.TrimSpace(all.String())
	if output == "" {
		output = strings.TrimSpace(stdout.String())
	}
	return nil, newToolError(t.name, withoutSecrets(output), err)
}

// command is a tool that was not started: in a group of its own, which is killed when ctx ends.
func (t tool) command(ctx context.Context, path string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Dir = t.dir
	cmd.Env = slices.DeleteFunc(os.Environ(), func(kv string) bool {
		name, _, _ := strings.Cut(kv, "=")
		return slices.Contains(foreign, name) || strings.HasPrefix(name, "CASCADE_")
	})
	cmd.Env = append(cmd.Env, "PWD="+t.dir, "NO_COLOR=1")
	cmd.Env = append(cmd.Env, t.env...)
	cmd.SysProcAttr = childAttr()
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 5 * time.Second
	return cmd
}

// ToolError says that a tool failed that builds environments.
type ToolError struct {
	Tool   string // such as "uv pip install"
	Output string // its own words, without passwords
	Err    error
	again  bool
}

func (e *ToolError) Error() string {
	return fmt.Sprintf("%s: %v\n%s", e.Tool, e.Err, e.Output)
}

// Unwrap returns the cause.
func (e *ToolError) Unwrap() error { return e.Err }

// Transient tells whether the same may succeed later: the index did not answer,
// or the tool was killed.
func (e *ToolError) Transient() bool { return e.again }

var (
	netTrouble = regexp.MustCompile(`(?i)error sending request|client error \(connect\)|connection (refused|reset|closed|aborted|error|broken|failed)|` +
		`timed? ?out|temporary failure in name resolution|failed to lookup address|dns error|could not resolve host|network is unreachable|no route to host|no such host|` +
		`(status code|HTTP error|status (client|server) error|http status)[^0-9]*(408|425|429|5[0-9][0-9])|incomplete ?read|unexpected eof|newconnectionerror`)
	diskFull   = regexp.MustCompile(`(?i)no space left on device|disk quota exceeded`)
	userinfo   = regexp.MustCompile(`([a-zA-Z][a-zA-Z0-9+.-]*://)[^/\s"'` + "`" + `]+@`)
	secretWord = regexp.MustCompile(`(?i)((?:token|password|passwd|secret|key|sig|signature)=)[^&\s"'` + "`" + `]+`)
)

func newToolError(name, output string, err error) *ToolError {
	e := &ToolError{Tool: name, Output: output, Err: err}
	var exit *exec.ExitError
	switch {
	case diskFull.MatchString(output):
		e.Output += "\nThe disk of the cache or of temporary files is full: cascade rm environments frees what is not in use."
	case errors.As(err, &exit) && exit.ExitCode() < 0: // killed
		e.again = true
	default:
		e.again = netTrouble.MatchString(output)
	}
	return e
}

// withoutSecrets removes user names, passwords and tokens from addresses.
func withoutSecrets(text string) string {
	return secretWord.ReplaceAllString(userinfo.ReplaceAllString(text, "${1}***@"), "${1}***")
}
