package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/cascade-run/cascade/agent/foreground"
	"github.com/cascade-run/cascade/executor"
)

// underDebugger has a debugger start the executor of a function, or the executor of a
// Python function start one itself.
func (x *activated) underDebugger(ctx context.Context, t *foreground.Task) error {
	if x.declared.Python != nil {
		t.Env = append(t.Env, executor.EnvDebug+"=1")
		return nil
	}
	dlv, err := exec.LookPath("dlv")
	if err != nil {
		return badInputf("replay --debug: a Go function runs under Delve, whose program is not there: %w; install it, or leave --debug out", err)
	}
	symbol, err := symbolOf(ctx, t.Program, t.Kind.Function)
	if err != nil {
		return badInputf("replay --debug: %w; name a program that has it with --executor", err)
	}
	script := filepath.Join(t.Folder, "dlv")
	if err := os.WriteFile(script, []byte("break "+symbol+"\ncontinue\n"), 0o600); err != nil {
		return fmt.Errorf("write the debugger's commands: %w", err)
	}
	t.Program = append([]string{dlv, "exec", "--init", script, t.Program[0], "--"}, t.Program[1:]...)
	return nil
}

// symbolOf asks an executor under which name a debugger knows one of its functions.
func symbolOf(ctx context.Context, program []string, function string) (string, error) {
	c := exec.CommandContext(ctx, program[0], program[1:]...)
	// One of an older version knows only the address, where no process listens.
	c.Env = slices.Concat(os.Environ(), []string{executor.EnvAddr + "=ipc:///none", executor.EnvWhere + "=" + function})
	out, err := c.Output()
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			err = errors.New(strings.TrimSpace(string(exit.Stderr)))
		}
		return "", fmt.Errorf("ask %s where function %s is: %w", program[0], function, err)
	}
	return strings.TrimSpace(string(out)), nil
}
