package main

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/cascade-run/cascade/agent/process"
	"github.com/cascade-run/cascade/agent/runtimeenv"
	"github.com/cascade-run/cascade/dag"
	"github.com/cascade-run/cascade/executor/python"
)

//go:embed systems/*.py systems/*.sh systems/kernel.c
var files embed.FS

// place is where everything lies that runners need.
type place struct {
	dir     string // programs, runners, the Python client
	version string // of the clone
	cores   int
	cache   *runtimeenv.Cache
	pythons map[string]runtimeenv.Activation // by system
}

// prepare builds the programs and makes the virtual environments. Systems that
// cannot be had here are told with their reason; the others can be started.
func prepare(ctx context.Context, dir string, cores int, of []system, say func(string)) (p place, missing map[string]error, err error) {
	p = place{dir: dir, cores: cores, pythons: map[string]runtimeenv.Activation{}}
	missing = map[string]error{}
	clone, err := root()
	if err != nil {
		return p, nil, err
	}
	p.version = commit(ctx, clone)
	if slices.ContainsFunc(of, func(s system) bool { return s.ours }) {
		build := exec.CommandContext(ctx, "go", "build", "-o", dir+string(filepath.Separator), modulePath+"/cmd/cascade",
			modulePath+"/cmd/cascade-controller", modulePath+"/cmd/cascade-agent", modulePath+"/cmd/cascade-executor", modulePath+"/benchmarks/peers/systems/cascade-runner")
		build.Dir = clone
		if out, err := build.CombinedOutput(); err != nil {
			return p, nil, fmt.Errorf("build Cascade, in a clone of it: %w\n%s", err, out)
		}
	}
	if err := errors.Join(extract(files, "systems", filepath.Join(dir, "systems")), extract(python.Files, ".", filepath.Join(dir, "python"))); err != nil {
		return p, nil, err
	}
	compile := exec.CommandContext(ctx, "cc", "-O2", "-ffp-contract=off", "-shared", "-fPIC", "-o", p.kernel(), filepath.Join(dir, "systems", "kernel.c"))
	if out, err := compile.CombinedOutput(); err != nil {
		return p, nil, fmt.Errorf("compile the kernel of computing tasks: %w\n%s", err, out)
	}
	cache, err := runtimeenv.DefaultDir()
	if err != nil {
		return p, nil, err
	}
	p.cache = runtimeenv.New(cache)
	for _, s := range of {
		if s.file == "" {
			continue
		}
		if len(s.start) > 0 {
			if _, err := exec.LookPath(s.start[0]); err != nil {
				missing[s.name] = fmt.Errorf("%w: apt-get install %s", err, s.apt)
				continue
			}
		}
		say("environment of " + s.name)
		p.pythons[s.name], err = p.cache.Prepare(ctx, dag.Environment{Name: s.name, Python: &dag.Python{Pip: s.pip}}, say)
		if err == nil && s.ours { // that of its tasks, which hosts without a way out cannot build
			_, err = p.cache.Prepare(ctx, dag.Environment{Name: "python", Python: &dag.Python{Pip: []string{numpy, gymnasium}}}, say)
		}
		if err != nil {
			if ctx.Err() != nil || os.Getenv("CASCADE_REQUIRE_PYTHON") != "" {
				return p, nil, fmt.Errorf("make the environment of %s: %w", s.name, err)
			}
			missing[s.name] = err
		}
	}
	return p, missing, nil
}

// commit is what is measured: "-dirty" where files of the clone differ from it, but for those that
// this command writes. A clone without git has none.
func commit(ctx context.Context, clone string) string {
	git := func(words ...string) (string, error) {
		cmd := exec.CommandContext(ctx, "git", words...)
		cmd.Dir = clone
		out, err := cmd.Output()
		return strings.TrimSpace(string(out)), err
	}
	name, err := git("rev-parse", "--short", "HEAD")
	if err != nil {
		return "unknown"
	}
	changed, err := git("status", "--porcelain", "--untracked-files=no", "--", ".", ":(exclude)benchmarks/peers/results.*", ":(exclude)docs/benchmarks-*")
	if err != nil || changed != "" {
		name += "-dirty"
	}
	return name
}

const modulePath = "github.com/cascade-run/cascade"

// kernel is the library that computing tasks call.
func (p place) kernel() string { return filepath.Join(p.dir, "kernel.so") }

// extract writes the files of one folder, and of those below it.
func extract(from fs.FS, root, to string) error {
	err := fs.WalkDir(from, root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		at := filepath.Join(to, rel)
		if d.IsDir() {
			return os.MkdirAll(at, 0o700)
		}
		b, err := fs.ReadFile(from, path)
		if err != nil {
			return err
		}
		return os.WriteFile(at, b, 0o600)
	})
	if err != nil {
		return fmt.Errorf("write the runners: %w", err)
	}
	return nil
}

// alike are variables that all systems get: libraries of linear algebra take one
// thread in each worker, hashes do not differ from process to process.
var alike = []string{"OMP_NUM_THREADS=1", "OPENBLAS_NUM_THREADS=1", "MKL_NUM_THREADS=1", "PYTHONHASHSEED=0", "PYTHONUNBUFFERED=1"}

// command starts the runner of a system.
func (p place) command(s system, dir, socket string, on hosts) process.Command {
	own := []string{"PEERS_SOCKET=" + socket, "PEERS_DIR=" + dir, "PEERS_CORES=" + strconv.Itoa(p.cores), "PEERS_SYSTEM=" + s.name, "PEERS_TUNING=" + s.tuning,
		"PEERS_PROGRAMS=" + p.dir, "PEERS_VERSION=" + p.version, "PEERS_NUMPY=" + numpy, "PEERS_GYMNASIUM=" + gymnasium, "PEERS_KERNEL=" + p.kernel(), "TMPDIR=" + dir}
	env := slices.DeleteFunc(os.Environ(), func(kv string) bool {
		name, _, _ := strings.Cut(kv, "=")
		return strings.HasPrefix(name, "PYTHON") || strings.HasPrefix(name, "RAY_") || strings.HasPrefix(name, "DASK_") || name == "TMPDIR"
	})
	env = append(append(env, alike...), own...)
	start := s.start
	if on.count() > 0 {
		env = append(env, on.variable())
		if s.far != nil {
			start = s.far
		}
	}
	if s.file == "" {
		return started(dir, env, on.enter([]string{filepath.Join(p.dir, "cascade-runner")}))
	}
	act := p.pythons[s.name]
	for _, kv := range act.Env {
		if !strings.HasPrefix(kv, "PYTHONPATH=") { // the executor's modules are no business of peers
			env = append(env, kv)
		}
	}
	paths := []string{filepath.Join(p.dir, "systems")}
	if s.ours {
		paths = append(paths, filepath.Join(p.dir, "python"))
	}
	env = append(env, "PYTHONPATH="+strings.Join(paths, string(filepath.ListSeparator)))
	env = append(env, runtimeenv.IndexVars(act.Command[0])...) // earthkit-workflows makes environments with uv
	words := append(slices.Clone(start), act.Command[0], filepath.Join(p.dir, "systems", s.file))
	fill := strings.NewReplacer("{cores}", strconv.Itoa(p.cores), "{hosts}", strings.Join(on.addresses(), ","), "{programs}", p.dir)
	for i := range words {
		words[i] = fill.Replace(words[i])
	}
	return started(dir, env, on.enter(words))
}

// started is the command of some words; the first is a program in the path, or a path.
func started(dir string, env, words []string) process.Command {
	c := process.Command{Dir: dir, Env: env, Path: words[0], Args: words[1:]}
	if path, err := exec.LookPath(c.Path); err == nil {
		c.Path = path
	}
	return c
}
