package runtimeenv

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/zeebo/blake3"

	"github.com/cascade-run/cascade/dag"
)

// workingDir gives executors a copy of a folder to start in. Python can import from it.
type workingDir struct{}

func (workingDir) Name() string                        { return "working_dir" }
func (workingDir) Priority() int                       { return 20 }
func (workingDir) Applies(env dag.Environment) bool    { return env.WorkingDir != "" }
func (workingDir) Delete(string) error                 { return nil }
func (workingDir) Describe(env dag.Environment) string { return env.WorkingDir }

func (workingDir) Validate(env dag.Environment) error {
	return checkSource("working_dir", absoluteIn(env.Source, env.WorkingDir), func(info fs.FileInfo) bool {
		return info.IsDir() || isArchive(info.Name())
	}, "want a folder or a .zip")
}

func checkSource(key, name string, fits func(fs.FileInfo) bool, want string) error {
	info, err := os.Stat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%s: there is no %s", key, name)
	case err != nil:
		return fmt.Errorf("%s: %w", key, err)
	case !fits(info):
		return fmt.Errorf("%s: %s: %s", key, name, want)
	}
	return nil
}

// Key hashes the folder's content.
func (workingDir) Key(_ context.Context, env dag.Environment) (string, error) {
	return treeKey("working_dir", absoluteIn(env.Source, env.WorkingDir))
}

// treeKey hashes folders and files; names the key of the environment in errors.
func treeKey(what string, paths ...string) (string, error) {
	h := hasher{blake3.New()}
	h.text("cascade files 1")
	for _, name := range paths {
		if what == "py_modules" {
			h.text(moduleName(name))
		}
		if err := h.tree(name); err != nil {
			return "", fmt.Errorf("%s: %w", what, err)
		}
	}
	return hex.EncodeToString(h.Sum(nil)[:16]), nil
}

// Create copies or unpacks.
func (workingDir) Create(_ context.Context, env dag.Environment, b *Build) error {
	if err := place(absoluteIn(env.Source, env.WorkingDir), b.Dir); err != nil {
		return fmt.Errorf("working_dir: %w", err)
	}
	return nil
}

// place puts the content of a folder or archive, or a file, into a folder.
func place(from, to string) error {
	if info, err := os.Stat(from); err == nil && !info.IsDir() && isArchive(from) {
		return unpack(from, to)
	}
	return copyTree(from, to)
}

// Activate starts executors in the copy.
func (workingDir) Activate(env dag.Environment, dir string, act *Activation) error {
	act.Dir = dir
	if env.Python != nil {
		act.addPythonPath(dir)
	}
	return nil
}

// pyModules makes modules importable.
type pyModules struct{}

func (pyModules) Name() string                        { return "py_modules" }
func (pyModules) Priority() int                       { return 30 }
func (pyModules) Applies(env dag.Environment) bool    { return len(env.PyModules) > 0 }
func (pyModules) Delete(string) error                 { return nil }
func (pyModules) Describe(env dag.Environment) string { return strings.Join(env.PyModules, " ") }

func (pyModules) Validate(env dag.Environment) error {
	var all []error
	for _, m := range env.PyModules {
		all = append(all, checkSource("py_modules", absoluteIn(env.Source, m), func(info fs.FileInfo) bool {
			return info.IsDir() || isArchive(info.Name()) || strings.HasSuffix(info.Name(), ".py")
		}, "want a folder, a .py file, a .zip or a .whl"))
	}
	return errors.Join(all...)
}

func modulePaths(env dag.Environment) (out []string) {
	for _, m := range env.PyModules {
		out = append(out, absoluteIn(env.Source, m))
	}
	return out
}

// moduleName is the name by which something is imported; "" for a place of modules.
func moduleName(path string) string {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		if _, err := os.Stat(filepath.Join(path, "__init__.py")); err != nil {
			return ""
		}
		return filepath.Base(path)
	}
	if name, ok := strings.CutSuffix(filepath.Base(path), ".py"); ok {
		return name
	}
	return ""
}

// Key hashes names and content of all modules, in order.
func (pyModules) Key(_ context.Context, env dag.Environment) (string, error) {
	return treeKey("py_modules", modulePaths(env)...)
}

// Create lays each entry into a folder of its own, 0, 1, ...: the first that has a module wins.
func (pyModules) Create(_ context.Context, env dag.Environment, b *Build) error {
	for i, path := range modulePaths(env) {
		to := filepath.Join(b.Dir, fmt.Sprint(i))
		if info, err := os.Stat(path); err == nil && info.IsDir() && moduleName(path) != "" {
			to = filepath.Join(to, moduleName(path))
		}
		if err := os.MkdirAll(to, 0o700); err != nil {
			return fmt.Errorf("py_modules: %w", err)
		}
		if err := place(path, to); err != nil {
			return fmt.Errorf("py_modules: %w", err)
		}
	}
	return nil
}

// Activate puts the folders where Python looks first.
func (pyModules) Activate(env dag.Environment, dir string, act *Activation) error {
	paths := make([]string, len(env.PyModules))
	for i := range paths {
		paths[i] = filepath.Join(dir, fmt.Sprint(i))
	}
	act.addPythonPath(paths...)
	return nil
}

// binaryPlugin starts a program that is an executor, a copy of it: who builds it
// anew changes no program that runs.
type binaryPlugin struct{}

func (binaryPlugin) Name() string                        { return "binary" }
func (binaryPlugin) Priority() int                       { return 10 }
func (binaryPlugin) Applies(env dag.Environment) bool    { return env.Binary != "" }
func (binaryPlugin) Delete(string) error                 { return nil }
func (binaryPlugin) Describe(env dag.Environment) string { return env.Binary }

func (binaryPlugin) Validate(env dag.Environment) error {
	return checkSource("binary", absoluteIn(env.Source, env.Binary), func(info fs.FileInfo) bool {
		return info.Mode().IsRegular() && info.Mode()&0o111 != 0
	}, "want a file that can be executed")
}

func (binaryPlugin) Key(_ context.Context, env dag.Environment) (string, error) {
	return treeKey("binary", absoluteIn(env.Source, env.Binary))
}

func (binaryPlugin) Create(_ context.Context, env dag.Environment, b *Build) error {
	if err := copyFile(absoluteIn(env.Source, env.Binary), filepath.Join(b.Dir, binaryName), 0o500); err != nil {
		return fmt.Errorf("binary: %w", err)
	}
	return nil
}

func (binaryPlugin) Activate(_ dag.Environment, dir string, act *Activation) error {
	act.Command = []string{filepath.Join(dir, binaryName)}
	return nil
}
