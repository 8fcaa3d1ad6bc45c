package runtimeenv

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

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
	b.Tell("fetches uv, which builds Python environments")
	py, err := u.python().interpreters.find(ctx, "")
	if err != nil {
		return err
	}
	args := []string{"install", "--quiet", "--no-input", "--no-warn-script-location", "--no-compile", uvRequirement}
	if env.Python != nil && env.Python.Wheels != "" {
		args = append(args, "--find-links", absoluteIn(env.Source, env.Python.Wheels))
	}
	if env.Python != nil && env.Python.Offline {
		args = append(args, "--no-index")
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
	dir, fetched, err := u.cache.prepare(ctx, u, env, b.Tell)
	if err != nil {
		return "", fmt.Errorf("get uv, which builds Python environments: %w", err)
	}
	if fetched {
		b.Tell("installs packages") // or it would say until the end of the build that it fetches uv
	}
	return filepath.Join(dir, "bin", "uv"), nil
}

// run runs a tool to its end, as one of few at a time.
func (u *uvTool) run(ctx context.Context, t tool, path string, args ...string) ([]byte, error) {
	select {
	case u.slots <- struct{}{}:
		defer func() { <-u.slots }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	return t.run(ctx, path, args...)
}

// absoluteIn returns path seen from dir.
func absoluteIn(dir, path string) string {
	if filepath.IsAbs(path) {
		return filepath.Clean(path)
	}
	return filepath.Join(dir, path)
}
