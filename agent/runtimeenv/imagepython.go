package runtimeenv

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/zeebo/blake3"

	"github.com/cascade-run/cascade/dag"
	"github.com/cascade-run/cascade/executor/python"
)

// imagePython has the python3 of an image run Python functions.
//
//	the image's files ─▶ python3 in them says what it is ─▶ python.json ─▶ Activation.Command
//	                          └─ has no msgpack ─▶ lib: that of the host's base environment
//
// What functions import is the image's: no packages are put over those that it has. The
// executor takes msgpack alone, as its link to the agent goes through pipes.
type imagePython struct{ base *pythonBase }

const (
	imagePythonFile = "python.json" // what the image's python3 said
	lentFolder      = "lib"         // modules that the image lacks
	imagePython3    = "python3"     // looked for in the PATH of the environment, in the image
)

// imageInterpreter is the python3 of an image.
type imageInterpreter struct {
	interpreter      // Path is in the image
	Msgpack     bool // it has a msgpack that the executor can use
}

// imageProbe asks python3 what it is, in a line, and whether it has msgpack, in another.
const imageProbe = probe + `
try:
    import msgpack
    found = msgpack.version >= (1, 0)
except Exception:
    found = False
sys.stdout.write("\n" + json.dumps({"Msgpack": found}) + "\n")`

func (*imagePython) Name() string        { return "image-python" }
func (*imagePython) Priority() int       { return 5 } // behind the image, before the executor's modules
func (*imagePython) Delete(string) error { return nil }

func (*imagePython) Applies(env dag.Environment) bool {
	return env.Python != nil && env.Container != nil
}

func (*imagePython) Validate(env dag.Environment) error {
	_, err := parseSpec(env.Python.Version)
	return err
}

// Describe names the image.
func (*imagePython) Describe(env dag.Environment) string {
	return imagePython3 + " of " + env.Container.Image
}

// Key hashes the image, what is asked of its python3, and the variables with which it is
// found and finds its modules.
func (*imagePython) Key(ctx context.Context, env dag.Environment) (string, error) {
	below, err := containerPlugin{}.Key(ctx, env)
	if err != nil {
		return "", err
	}
	h := hasher{blake3.New()}
	h.text("cascade container python 1", below, env.Python.Version)
	h.text(python.Requirements()...)
	for _, name := range slices.Sorted(maps.Keys(env.Vars)) {
		h.text(name, env.Vars[name])
	}
	return hex.EncodeToString(h.Sum(nil)[:16]), nil
}

// Create asks the image's python3 what it is, as executors will find it.
func (p *imagePython) Create(ctx context.Context, env dag.Environment, b *Build) error {
	dir, _, err := p.base.uv.cache.prepare(ctx, containerPlugin{}, env, b.Tell)
	if err != nil {
		return err
	}
	var act Activation
	if err := errors.Join(containerPlugin{}.Activate(env, dir, &act), varsPlugin{}.Activate(env, "", &act)); err != nil {
		return err
	}
	it, err := askImage(ctx, act)
	if err != nil {
		return fmt.Errorf("container: Python functions take an image with Python %s or later as %s in its PATH; that of %s: %w",
			dag.OldestPython, imagePython3, env.Container.Image, err)
	}
	want, err := parseSpec(env.Python.Version)
	if err != nil {
		return err
	}
	if !(known{interpreter: it.interpreter}).fits(want) {
		asked := ""
		if env.Python.Version != "" {
			asked = " that is " + env.Python.Version
		}
		return fmt.Errorf("container: image %s has %s %s as %s; Python functions take CPython %s or later%s: name another image, or put one into its PATH",
			env.Container.Image, it.Implementation, it.Version, it.Path, dag.OldestPython, asked)
	}
	if !it.Msgpack {
		if err := p.lend(ctx, env, b); err != nil {
			return err
		}
	}
	b.Packages = append(b.Packages, "Python "+it.Version)
	text, err := json.Marshal(it)
	if err == nil {
		err = os.WriteFile(filepath.Join(b.Dir, imagePythonFile), text, 0o600)
	}
	if err != nil {
		return fmt.Errorf("container: note what Python the image has: %w", err)
	}
	return nil
}

// askImage runs the python3 of an image.
func askImage(ctx context.Context, act Activation) (it imageInterpreter, err error) {
	ctx, cancel := context.WithTimeout(ctx, foundTimeout)
	defer cancel()
	out, err := runInImage(ctx, act.Root, act.Env, imagePython3, "-c", imageProbe)
	if err != nil {
		return it, err
	}
	for line := range strings.Lines(out) { // a line that is none of ours may be anything
		_ = json.Unmarshal([]byte(line), &it)
	}
	if it.Version == "" {
		return it, fmt.Errorf("it does not say which Python it is, but: %s", out)
	}
	return it, nil
}

// lend copies the host's msgpack. Of another version of Python or another C library it
// goes without its compiled part, which is slower.
func (p *imagePython) lend(ctx context.Context, env dag.Environment, b *Build) error {
	dir, _, err := p.base.uv.cache.prepare(ctx, p.base, dag.Environment{Name: env.Name, Python: &dag.Python{}}, b.Tell)
	if err != nil {
		return fmt.Errorf("container: image %s has no msgpack, which Python functions take, and this host has none to lend: put it into the image (pip install msgpack): %w",
			env.Container.Image, err)
	}
	site, err := sitePackages(dir)
	if err != nil {
		return err
	}
	if err := os.CopyFS(filepath.Join(b.Dir, lentFolder, "msgpack"), os.DirFS(filepath.Join(site, "msgpack"))); err != nil {
		return fmt.Errorf("container: lend msgpack to the image: %w", err)
	}
	b.Packages = append(b.Packages, "msgpack of the host")
	return nil
}

// Activate starts the executor's module with the image's python3. Of the agent's own
// variables none says where that finds its modules; the image's do.
func (*imagePython) Activate(_ dag.Environment, dir string, act *Activation) error {
	text, err := os.ReadFile(filepath.Join(dir, imagePythonFile))
	if err != nil {
		return err
	}
	var it imageInterpreter
	if err := json.Unmarshal(text, &it); err != nil {
		return fmt.Errorf("read %s: %w", imagePythonFile, err)
	}
	act.startModule(imagePython3, it.Version)
	if !slices.ContainsFunc(act.Env, func(kv string) bool { return strings.HasPrefix(kv, hashSeed+"=") }) {
		act.setHashSeed()
	}
	for _, name := range []string{"PYTHONHOME", "PYTHONPATH"} {
		if !slices.ContainsFunc(act.Env, func(kv string) bool { return strings.HasPrefix(kv, name+"=") }) {
			act.setVar(name, "")
		}
	}
	lent := filepath.Join(dir, lentFolder)
	found, err := exists(lent)
	if found {
		act.addPythonPath(lent)
	}
	return err
}
