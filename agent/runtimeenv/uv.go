package runtimeenv

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/cascade-run/cascade/dag"
)

// uvTool is uv for hosts that have none: a package of the index, in a folder of
// the cache. It is made when the first environment is built, never for one that is there.
type uvTool struct {
	cache *Cache
	slots chan struct{} // one for each uv that may run at a time
}

func (*uvTool) Name() string                                        { return "uv" }
func (*uvTool) Priority() int                                       { return 0 }
func (*uvTool) Applies(dag.Environment) bool                        { return false } // asked for by name alone
func (*uvTool) Validate(dag.Environment) error                      { return nil }
func (*uvTool) Delete(string) error                                 { return nil }
func (*uvTool) Activate(dag.Environment, string, *Activation) error { return nil }
func (*uvTool) Describe(dag.Environment) string                     { return "uv, which builds Python environments" }

// uvRequirement is what is asked of the index; with --relocatable and hard links since long.
const uvRequirement = "uv>=0.5"

// Key is the same for every environment: any interpreter can carry uv, which is a program.
func (u *uvTool) Key(context.Context, dag.Environment) (string, error) {
	return runtime.GOARCH + "-1", nil
}

// Create installs uv with pip into a folder.
func (u *uvTool) Create(ctx context.Context, env dag.Environment, b *Build) error {
	py, err := u.python().interpreters.find(ctx, "")
	if err != nil {
		return err
	}
	args := []string{"install", "--quiet", "--no-input", "--no-warn-script-location", "--no-compile", uvRequirement}
	if env.Python != nil && env.Python.Wheels != "" {
		args = append(args, "--find-links", absoluteIn(env.Source, env.Python.Wheels))
		if env.Python.Offline {
			args = append(args, "--no-index")
		}
	}
	// pip of the host writes into any folder; a host without pip has venv, which brings one.
	pip := []string{py.Path, "-m", "pip"}
	if exec.CommandContext(ctx, py.Path, "-m", "pip", "--version").Run() == nil {
		args = append(args, "--target", b.Dir)
	} else {
		if _, err := u.run(ctx, tool{name: "python -m venv", dir: b.Dir}, py.Path, "-m", "venv", b.Dir); err != nil {
			return fmt.Errorf("uv is neither on PATH nor in the cache, and this host's Python has neither pip nor venv to install it: %w", err)
		}
		pip = []string{filepath.Join(b.Dir, "bin", "python"), "-m", "pip"}
	}
	_, err = u.run(ctx, tool{name: "pip install uv", dir: b.Dir}, pip[0], slices.Concat(pip[1:], args)...)
	if err != nil {
		return err
	}
	b.Packages, err = u.version(ctx, filepath.Join(b.Dir, "bin", "uv"))
	return err
}

func (u *uvTool) python() *pythonBase {
	for _, p := range u.cache.plugins {
		if base, ok := p.(*pythonBase); ok {
			return base
		}
	}
	panic("runtimeenv: a cache without its Python plugin")
}

func (*uvTool) version(ctx context.Context, path string) ([]string, error) {
	out, err := exec.CommandContext(ctx, path, "--version").Output()
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", path, err)
	}
	name, rest, _ := strings.Cut(strings.TrimSpace(string(out)), " ")
	version, _, _ := strings.Cut(rest, " ")
	return []string{name + " " + version}, nil
}

// find returns the uv to use: that of PATH when it runs, else the cache's.
func (u *uvTool) find(ctx context.Context, env dag.Environment, b *Build) (string, error) {
	if path, err := exec.LookPath("uv"); err == nil {
		if _, err := u.version(ctx, path); err == nil {
			return path, nil
		}
	}
	dir, _, err := u.cache.prepare(ctx, u, env, b.Tell)
	if err != nil {
		return "", fmt.Errorf("get uv, which builds Python environments: %w", err)
	}
	return filepath.Join(dir, "bin", "uv"), nil
}

// tool is a program that helps to build.
type tool struct {
	name string // for messages
	dir  string // where it runs
	env  []string
}

// foreign are variables of the agent that would lead uv or pip to another environment.
var foreign = []string{"VIRTUAL_ENV", "CONDA_PREFIX", "PYTHONPATH", "PYTHONHOME", "PYTHONSTARTUP", "UV_PROJECT_ENVIRONMENT",
	"UV_SYSTEM_PYTHON", "UV_PYTHON", "PIP_TARGET", "PIP_PREFIX", "PIP_USER", "PIP_REQUIRE_VIRTUALENV"}

// run runs a tool to its end. It dies with this process, and its children with it
// when ctx ends.
func (u *uvTool) run(ctx context.Context, t tool, path string, args ...string) ([]byte, error) {
	select {
	case u.slots <- struct{}{}:
		defer func() { <-u.slots }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	// A parent-death signal comes when the thread that started the child ends: keep the thread.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var stdout, all bytes.Buffer
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = t.dir, &stdout, &all
	cmd.Env = slices.DeleteFunc(os.Environ(), func(kv string) bool {
		name, _, _ := strings.Cut(kv, "=")
		return slices.Contains(foreign, name) || strings.HasPrefix(name, "CASCADE_")
	})
	cmd.Env = append(cmd.Env, "PWD="+t.dir, "NO_COLOR=1")
	cmd.Env = append(cmd.Env, t.env...)
	cmd.SysProcAttr = childAttr()
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 5 * time.Second
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
	netTrouble = regexp.MustCompile(`(?i)error sending request|client error \(connect\)|connection (refused|reset|closed|aborted|error|broken)|` +
		`timed? ?out|temporary failure in name resolution|failed to lookup address|dns error|network is unreachable|no route to host|` +
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
		e.Output += "\nThe disk of the cache or of temporary files is full: cascade env prune frees what is not in use."
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

// absoluteIn returns path seen from dir.
func absoluteIn(dir, path string) string {
	if filepath.IsAbs(path) {
		return filepath.Clean(path)
	}
	return filepath.Join(dir, path)
}
