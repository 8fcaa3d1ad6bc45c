package runtimeenv

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"

	"github.com/zeebo/blake3"

	"github.com/cascade-run/cascade/dag"
	"github.com/cascade-run/cascade/executor/python"
)

// Python environments have three layers, each made once and shared by all above it:
//
//	the task's own code     working_dir, py_modules              by content
//	requirements            a virtual environment, by uv         by interpreter and requirements
//	base                    a virtual environment with pyzmq     by interpreter
//	                        and msgpack, and the executor
//
// The files of packages are hard links to uv's cache: a large wheel that many
// environments have lies on the disk once. Modules that a layer lacks are looked for in
// the one below it; so the requirements of a task are resolved without ours, and
// a version that they ask for wins.

func pythonPlugins(c *Cache) []Plugin {
	tool := &uvTool{cache: c, slots: make(chan struct{}, max(2, runtime.NumCPU()))}
	base := &pythonBase{uv: tool, interpreters: &interpreters{file: filepath.Join(c.dir, "interpreters.json")}}
	return []Plugin{tool, base, &imagePython{base: base}, pythonExecutor{base}, &pythonPlugin{base: base}, workingDir{c}, pyModules{c}, binaryPlugin{c}}
}

// pythonBase is the lowest layer: an interpreter with what the executor needs.
type pythonBase struct {
	uv           *uvTool
	interpreters *interpreters
}

func (*pythonBase) isSealed() {}

func (*pythonBase) Name() string        { return "python-base" }
func (*pythonBase) Priority() int       { return 5 }
func (*pythonBase) Delete(string) error { return nil }

// Applies: in a container the interpreter is the image's.
func (*pythonBase) Applies(env dag.Environment) bool {
	return env.Python != nil && env.Container == nil
}

func (*pythonBase) Validate(env dag.Environment) error {
	_, err := parseSpec(env.Python.Version)
	return err
}

// Describe names the interpreter.
func (p *pythonBase) Describe(env dag.Environment) string {
	it, err := p.interpreters.find(context.Background(), env.Python.Version)
	if err != nil {
		return "" // it was found a moment ago
	}
	return "Python " + it.Version + " at " + it.Path
}

// Key hashes what the interpreter is and what is put into it.
func (p *pythonBase) Key(ctx context.Context, env dag.Environment) (string, error) {
	it, err := p.interpreters.find(ctx, env.Python.Version)
	if err != nil {
		return "", err
	}
	h := hasher{blake3.New()}
	h.text("cascade python base 3", it.Path, it.Implementation, it.Version, it.Platform)
	h.text(python.Requirements()...)
	return hex.EncodeToString(h.Sum(nil)[:16]), nil
}

// Create makes a virtual environment.
func (p *pythonBase) Create(ctx context.Context, env dag.Environment, b *Build) error {
	it, err := p.interpreters.find(ctx, env.Python.Version)
	if err != nil {
		return err
	}
	return p.install(ctx, env, b, it.Path, python.Requirements(), true)
}

// install makes a virtual environment of an interpreter with packages in b.Dir.
// With anyVersion what uv has kept is as good as the newest, and the index is
// asked only for what is missing.
func (p *pythonBase) install(ctx context.Context, env dag.Environment, b *Build, interpreter string, requirements []string, anyVersion bool) error {
	uv, err := p.uv.find(ctx, env, b)
	if err != nil {
		return err
	}
	t := tool{name: "uv venv", dir: b.Dir, env: []string{"UV_PYTHON_DOWNLOADS=never", "UV_NO_PROGRESS=1"}}
	if _, err := p.uv.run(ctx, t, uv, "venv", "--quiet", "--relocatable", "--allow-existing", "--python", interpreter, b.Dir); err != nil {
		return err
	}
	if len(requirements) > 0 {
		if err := p.packages(ctx, env, b, t, uv, interpreter, requirements, anyVersion); err != nil {
			return err
		}
	}
	b.Packages, err = installed(b.Dir)
	return err
}

// packages installs requirements. An index that cannot be reached is said at once;
// then what uv has kept of earlier builds may be enough.
func (p *pythonBase) packages(ctx context.Context, env dag.Environment, b *Build, t tool, uv, interpreter string, requirements []string, anyVersion bool) (err error) {
	t.name = "uv pip install"
	args := []string{"pip", "install", "--quiet", "--compile-bytecode", "--python", filepath.Join(b.Dir, "bin", "python")}
	wheels := ""
	if env.Python.Wheels != "" {
		wheels = absoluteIn(env.Source, env.Python.Wheels)
		args = append(args, "--find-links", wheels)
	}
	list := filepath.Join(b.Dir, "requirements.txt")
	if err := os.WriteFile(list, []byte(strings.Join(requirements, "\n")+"\n"), 0o600); err != nil {
		return fmt.Errorf("write requirements: %w", err)
	}
	defer func() { err = errors.Join(err, os.Remove(list)) }() // addresses in it may have passwords
	args = append(args, "-r", list)
	try := func(more ...string) error {
		_, err := p.uv.run(ctx, t, uv, slices.Concat(args, more)...)
		return err
	}
	if env.Python.Offline {
		if wheels == "" {
			return offline(try("--offline"))
		}
		err := try("--offline", "--no-index")
		if err == nil || try("--offline") == nil {
			return nil
		}
		return offline(err)
	}
	if anyVersion && try("--offline") == nil {
		return nil
	}
	ix := findIndex(interpreter)
	t.env = append(t.env, ix.vars...)
	if ix.noIndex {
		return try("--no-index")
	}
	away := ix.reachable(ctx)
	if away == nil {
		t.env = append(t.env, "UV_HTTP_RETRIES=1") // we try again ourselves, and say so
		return try()
	}
	b.Tell(away.Error())
	if try("--offline") == nil {
		return nil
	}
	return away
}

func offline(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("offline, from wheels and what was downloaded before: %w", err)
}

// installed lists the packages of a virtual environment.
func installed(dir string) (out []string, err error) {
	found, err := filepath.Glob(filepath.Join(dir, "lib", "python3*", "site-packages", "*.dist-info"))
	for _, path := range found {
		name, version, _ := strings.Cut(strings.TrimSuffix(filepath.Base(path), ".dist-info"), "-")
		out = append(out, name+" "+version)
	}
	return out, err
}

// Activate starts the executor's module.
func (p *pythonBase) Activate(_ dag.Environment, dir string, act *Activation) error {
	site, err := sitePackages(dir)
	if err != nil {
		return err
	}
	version := strings.TrimPrefix(filepath.Base(filepath.Dir(site)), "python")
	act.startModule("", version)
	act.setVar("PYTHONHOME", "")
	act.setVar("PYTHONPATH", "")
	act.setHashSeed()
	act.useVenv(dir)
	return nil
}

// setHashSeed gives all executors of a job the same hashes of texts, so that what they sort or part by them agrees.
// The agent's own variable and the job's have the last word.
func (act *Activation) setHashSeed() {
	if os.Getenv(hashSeed) == "" {
		act.setVar(hashSeed, "0")
	}
}

const hashSeed = "PYTHONHASHSEED"

// startModule has an interpreter of this version start the executor's module. It does not look for modules
// in its working folder: what a task imports comes from what its key was made of.
func (act *Activation) startModule(interpreter, version string) {
	act.Command = []string{interpreter, "-P", "-m", python.Module}
	if compareVersions(version, "3.11") < 0 { // has no -P
		act.Command = []string{interpreter, "-c", fmt.Sprintf("import runpy, sys; del sys.path[0]; runpy.run_module(%q, run_name=\"__main__\", alter_sys=True)", python.Module)}
	}
	act.Foreign = true
}

// useVenv makes a virtual environment the one that is active.
func (act *Activation) useVenv(dir string) {
	bin := filepath.Join(dir, "bin")
	act.Command[0] = filepath.Join(bin, "python")
	act.setVar("VIRTUAL_ENV", dir)
	act.addPath(bin)
}

// setVar replaces a variable.
func (act *Activation) setVar(name, value string) {
	for i, kv := range act.Env {
		if strings.HasPrefix(kv, name+"=") {
			act.Env[i] = name + "=" + value
			return
		}
	}
	act.Env = append(act.Env, name+"="+value)
}

// addPythonPath puts folders where Python finds modules first, but for the executor's own.
func (act *Activation) addPythonPath(paths ...string) {
	act.setPythonPath(append(paths, act.pythonPath()...))
}

// extendPythonPath puts folders where Python finds modules of which there are no others.
func (act *Activation) extendPythonPath(paths ...string) {
	act.setPythonPath(append(act.pythonPath(), paths...))
}

// pythonPath lists where Python finds modules, but for the executor's own.
func (act *Activation) pythonPath() (paths []string) {
	for _, kv := range act.Env {
		if all, ok := strings.CutPrefix(kv, "PYTHONPATH="); ok {
			return slices.DeleteFunc(filepath.SplitList(all), func(p string) bool { return p == act.executor })
		}
	}
	return nil
}

func (act *Activation) setPythonPath(paths []string) {
	if act.executor != "" {
		paths = append([]string{act.executor}, paths...)
	}
	act.setVar("PYTHONPATH", strings.Join(paths, string(filepath.ListSeparator)))
}

// pythonPlugin is the layer of a task's own requirements.
type pythonPlugin struct{ base *pythonBase }

func (*pythonPlugin) isSealed() {}

func (*pythonPlugin) Name() string        { return "python" }
func (*pythonPlugin) Priority() int       { return 10 }
func (*pythonPlugin) Delete(string) error { return nil }

func (*pythonPlugin) Applies(env dag.Environment) bool {
	return env.Python != nil && env.Container == nil && len(env.Python.Pip) > 0
}

func (*pythonPlugin) Validate(env dag.Environment) error {
	if w := env.Python.Wheels; w != "" {
		dir := absoluteIn(env.Source, w)
		if info, err := os.Stat(dir); err != nil || !info.IsDir() {
			return fmt.Errorf("python: wheels: there is no folder %s", dir)
		}
	}
	return nil
}

// Describe lists the requirements.
func (*pythonPlugin) Describe(env dag.Environment) string {
	return withoutSecrets(strings.Join(normalRequirements(env.Python.Pip), " "))
}

// Key hashes the base's key, the requirements in their normal form, the wheels
// that are offered, and files that requirements name.
func (p *pythonPlugin) Key(ctx context.Context, env dag.Environment) (string, error) {
	below, err := p.base.Key(ctx, env)
	if err != nil {
		return "", err
	}
	h := hasher{blake3.New()}
	h.text("cascade python layer 2", below)
	for _, r := range normalRequirements(env.Python.Pip) {
		h.text(r)
		if _, address, ok := strings.Cut(r, " @ file://"); ok {
			if err := h.tree(address); err != nil {
				return "", fmt.Errorf("python: requirement %s: %w", r, err)
			}
		}
	}
	if env.Python.Wheels != "" {
		dir := absoluteIn(env.Source, env.Python.Wheels)
		names, err := filepath.Glob(filepath.Join(dir, "*"))
		if err != nil {
			return "", fmt.Errorf("python: wheels: %w", err)
		}
		for _, name := range names {
			if err := h.tree(name); err != nil {
				return "", fmt.Errorf("python: wheels: %w", err)
			}
		}
	}
	return hex.EncodeToString(h.Sum(nil)[:16]), nil
}

// Create makes the virtual environment; what it lacks is found in the base.
func (p *pythonPlugin) Create(ctx context.Context, env dag.Environment, b *Build) error {
	it, err := p.base.interpreters.find(ctx, env.Python.Version)
	if err != nil {
		return err
	}
	key, err := p.base.Key(ctx, env)
	if err != nil {
		return err
	}
	if err := p.base.install(ctx, env, b, it.Path, normalRequirements(env.Python.Pip), false); err != nil {
		return err
	}
	own, err := sitePackages(b.Dir)
	if err != nil {
		return err
	}
	below, err := sitePackages(filepath.Join(p.base.uv.cache.dir, p.base.Name(), key))
	if err != nil {
		return err
	}
	// A .pth file adds its folder behind the one it lies in.
	if err := os.WriteFile(filepath.Join(own, "zz_cascade_base.pth"), []byte(below+"\n"), 0o600); err != nil {
		return fmt.Errorf("put the layer on its base: %w", err)
	}
	return nil
}

func sitePackages(dir string) (string, error) {
	found, err := filepath.Glob(filepath.Join(dir, "lib", "python3*", "site-packages"))
	if err == nil && len(found) != 1 {
		err = errors.New("want one folder lib/python3.N/site-packages in " + dir)
	}
	if err != nil {
		return "", fmt.Errorf("look into a virtual environment: %w", err)
	}
	return filepath.Abs(found[0])
}

// Activate uses the layer's interpreter in place of the base's.
func (p *pythonPlugin) Activate(_ dag.Environment, dir string, act *Activation) error {
	act.useVenv(dir)
	return nil
}

var (
	requirementForm = regexp.MustCompile(`^([A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?)\s*(\[[^\]]*\])?\s*(.*)$`)
	nameRuns        = regexp.MustCompile(`[-_.]+`)
)

// normalRequirements writes requirements so that those that mean the same are
// equal: names as PEP 503 has them, extras and specifiers sorted, each once.
func normalRequirements(list []string) []string {
	out := make([]string, 0, len(list))
	for _, text := range list {
		out = append(out, normalRequirement(text))
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func normalRequirement(text string) string {
	body, marker, _ := strings.Cut(text, ";")
	if strings.Contains(body, "@") { // an address may hold a ; of its own
		body, marker, _ = strings.Cut(text, " ;")
	}
	m := requirementForm.FindStringSubmatch(strings.TrimSpace(body))
	if m == nil {
		return strings.TrimSpace(text)
	}
	name := strings.ToLower(nameRuns.ReplaceAllString(m[1], "-"))
	if m[2] != "" {
		extras := strings.Split(strings.ToLower(strings.ReplaceAll(strings.Trim(m[2], "[]"), " ", "")), ",")
		slices.Sort(extras)
		name += "[" + strings.Join(slices.Compact(extras), ",") + "]"
	}
	rest := strings.TrimSpace(m[3])
	if address, ok := strings.CutPrefix(rest, "@"); ok {
		name += " @ " + strings.TrimSpace(address)
	} else {
		specs := strings.Split(strings.Join(strings.Fields(strings.Trim(rest, "()")), ""), ",")
		slices.Sort(specs)
		name += strings.Join(slices.Compact(specs), ",")
	}
	if marker = strings.Join(strings.Fields(marker), " "); marker != "" {
		name += " ; " + marker
	}
	return name
}

// pythonExecutor is the executor's package, written to a folder.
type pythonExecutor struct{ base *pythonBase }

func (pythonExecutor) isSealed()                        {}
func (pythonExecutor) Name() string                     { return "python-executor" }
func (pythonExecutor) Priority() int                    { return 6 }
func (pythonExecutor) Applies(env dag.Environment) bool { return env.Python != nil }
func (pythonExecutor) Validate(dag.Environment) error   { return nil }
func (pythonExecutor) Delete(string) error              { return nil }

// Key is the package's content, and for which Python it is compiled.
func (p pythonExecutor) Key(ctx context.Context, env dag.Environment) (string, error) {
	key, err := packageHash()
	if err != nil || !p.base.Applies(env) {
		return key, err
	}
	it, err := p.base.interpreters.find(ctx, env.Python.Version)
	if err != nil {
		return "", err
	}
	h := hasher{blake3.New()}
	h.text("cascade python executor 2", key, it.Implementation, it.Version)
	return hex.EncodeToString(h.Sum(nil)[:16]), nil
}

var packageHash = sync.OnceValues(func() (string, error) {
	h := hasher{blake3.New()}
	err := fs.WalkDir(python.Files, ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := fs.ReadFile(python.Files, path)
		h.text(path, string(text))
		return err
	})
	return hex.EncodeToString(h.Sum(nil)[:16]), err
})

// Create writes the package.
func (p pythonExecutor) Create(ctx context.Context, env dag.Environment, b *Build) error {
	if err := os.CopyFS(b.Dir, python.Files); err != nil {
		return fmt.Errorf("write the executor's package: %w", err)
	}
	return p.base.uv.cache.compile(ctx, env, b)
}

// compile compiles the Python modules of a tree, as tasks cannot keep what they compile there. A file that the
// interpreter refuses is no module of it, or fails where it is imported.
func (c *Cache) compile(ctx context.Context, env dag.Environment, b *Build) error {
	if env.Python == nil || env.Container != nil { // of an image it compiles for itself
		return nil
	}
	base := (&uvTool{cache: c}).python()
	it, err := base.interpreters.find(ctx, env.Python.Version)
	if err != nil {
		return err
	}
	t := tool{name: "python -m compileall", dir: b.Dir}
	_, err = t.run(ctx, it.Path, "-m", "compileall", "-q", "-q", "-s", b.Dir, "-p", b.Place, b.Dir)
	var failed *exec.ExitError
	if err != nil && ctx.Err() == nil && errors.As(err, &failed) && failed.Exited() {
		return nil
	}
	return err
}

// Activate makes the package importable.
func (pythonExecutor) Activate(_ dag.Environment, dir string, act *Activation) error {
	act.executor = dir
	act.addPythonPath()
	return nil
}
