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
type workingDir struct{ cache *Cache }

func (workingDir) isSealed() {}

func (workingDir) Name() string                        { return "working_dir" }
func (workingDir) Priority() int                       { return 20 }
func (workingDir) Applies(env dag.Environment) bool    { return env.WorkingDir != "" }
func (workingDir) Delete(string) error                 { return nil }
func (workingDir) Describe(env dag.Environment) string { return env.WorkingDir }

func (workingDir) Validate(env dag.Environment) error {
	return checkSource("working_dir", env, env.WorkingDir, func(info fs.FileInfo) bool {
		return info.IsDir() || isArchive(info.Name())
	}, "want a folder or a .zip")
}

// checkSource checks what stands in an environment for a file; what a package has, its client has checked.
func checkSource(key string, env dag.Environment, text string, fits func(fs.FileInfo) bool, want string) error {
	if _, ok := dag.ParsePackage(text); ok {
		return nil
	}
	if a, ok := dag.ParseAddress(text); ok {
		return &absentError{key, withoutSecrets(a.URL) + " on this host: the client that submits a job fetches what is at an address, this one did not"}
	}
	name := absoluteIn(env.Source, text)
	info, err := os.Stat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return &absentError{key, name}
	case err != nil:
		return fmt.Errorf("%s: %w", key, err)
	case !fits(info):
		return fmt.Errorf("%s: %s: %s", key, name, want)
	}
	return nil
}

// absentError says that a file of an environment is not on this host.
type absentError struct{ key, name string }

func (e *absentError) Error() string { return fmt.Sprintf("%s: there is no %s", e.key, e.name) }

func (e *absentError) Is(target error) bool { return target == fs.ErrNotExist }

// Key hashes the folder's content.
func (workingDir) Key(_ context.Context, env dag.Environment) (string, error) {
	return treeKey("working_dir", env, env.WorkingDir)
}

// treeKey hashes folders, files and packages; names the key of the environment in errors.
func treeKey(what string, env dag.Environment, paths ...string) (string, error) {
	h := hasher{blake3.New()}
	h.text("cascade files 2")
	for _, text := range paths {
		if p, ok := dag.ParsePackage(text); ok {
			h.text("package", p.Hash)
			continue
		}
		name := absoluteIn(env.Source, text)
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
func (w workingDir) Create(ctx context.Context, env dag.Environment, b *Build) error {
	if err := w.cache.place(ctx, env, env.WorkingDir, b.Dir); err != nil {
		return fmt.Errorf("working_dir: %w", err)
	}
	return nil // tasks list the folder: what is compiled would be found there
}

// place puts the content of a folder, archive or package, or a file, into a folder.
func (c *Cache) place(ctx context.Context, env dag.Environment, text, to string) error {
	if p, ok := dag.ParsePackage(text); ok {
		return c.unpackPackage(ctx, p, to)
	}
	from := absoluteIn(env.Source, text)
	if info, err := os.Stat(from); err == nil && !info.IsDir() && isArchive(from) {
		return unpack(from, to)
	}
	return copyTree(from, to)
}

// Activate starts executors in the copy.
func (workingDir) Activate(env dag.Environment, dir string, act *Activation) error {
	act.Dir = dir
	act.Code = append(act.Code, dir)
	if env.Python != nil {
		act.addPythonPath(dir)
	}
	return nil
}

// pyModules makes modules importable.
type pyModules struct{ cache *Cache }

func (pyModules) isSealed() {}

func (pyModules) Name() string                        { return "py_modules" }
func (pyModules) Priority() int                       { return 30 }
func (pyModules) Applies(env dag.Environment) bool    { return len(env.PyModules) > 0 }
func (pyModules) Delete(string) error                 { return nil }
func (pyModules) Describe(env dag.Environment) string { return strings.Join(env.PyModules, " ") }

func (pyModules) Validate(env dag.Environment) error {
	var all []error
	named := map[string]string{}
	for _, m := range env.PyModules {
		path := absoluteIn(env.Source, m)
		if name := moduleName(path); name != "" {
			if other := named[name]; other != "" && other != path {
				all = append(all, fmt.Errorf("py_modules: %s and %s are both module %s, and Python would import the first: give one of them another name", other, path, name))
			}
			named[name] = path
		}
		all = append(all, checkSource("py_modules", env, m, func(info fs.FileInfo) bool {
			return info.IsDir() || isArchive(info.Name()) || strings.HasSuffix(info.Name(), ".py")
		}, "want a folder, a .py file, a .zip or a .whl"))
	}
	return errors.Join(all...)
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
	return treeKey("py_modules", env, env.PyModules...)
}

// Create lays each entry into a folder of its own, 0, 1, ...: the first that has a module wins.
func (m pyModules) Create(ctx context.Context, env dag.Environment, b *Build) error {
	for i, text := range env.PyModules {
		to := filepath.Join(b.Dir, fmt.Sprint(i))
		path := absoluteIn(env.Source, text) // a package has the module's folder in it
		if info, err := os.Stat(path); err == nil && info.IsDir() && moduleName(path) != "" {
			to = filepath.Join(to, moduleName(path))
		}
		if err := os.MkdirAll(to, 0o700); err != nil {
			return fmt.Errorf("py_modules: %w", err)
		}
		if err := m.cache.place(ctx, env, text, to); err != nil {
			return fmt.Errorf("py_modules: %w", err)
		}
	}
	return m.cache.compile(ctx, env, b)
}

// Activate puts the folders where Python looks first.
func (pyModules) Activate(env dag.Environment, dir string, act *Activation) error {
	paths := make([]string, len(env.PyModules))
	for i := range paths {
		paths[i] = filepath.Join(dir, fmt.Sprint(i))
	}
	act.Code = append(act.Code, paths...)
	act.addPythonPath(paths...)
	return nil
}
