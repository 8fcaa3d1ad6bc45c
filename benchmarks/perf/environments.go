package perf

import (
	"archive/zip"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/cascade-run/cascade/agent/runtimeenv"
	"github.com/cascade-run/cascade/dag"
)

var environmentFigures = []string{"env_cold", "env_layered", "env_warm", "env_bulky_shared"}

// environments measures what an agent does before the first task of a Python
// environment. uv's own cache is warm: downloads are not measured.
func environments(ctx context.Context, b *bench) error {
	dir, err := os.MkdirTemp(b.opts.State, "environments-")
	if err != nil {
		return fmt.Errorf("make folder of environments: %w", err)
	}
	e := &envBench{bench: b, dir: dir, pip: []string{"numpy"}}
	if b.opts.Quick {
		e.pip = []string{"iniconfig"}
	}
	defer os.RemoveAll(dir)
	cache := runtimeenv.New(filepath.Join(dir, "cache"))
	_, err = cache.Prepare(ctx, e.env(), nil) // brings uv, and what it downloads
	if err == nil {
		_, err = cache.Prepare(ctx, e.env("packaging"), nil)
	}
	if err = errors.Join(err, cache.Close()); err != nil {
		if os.Getenv("CASCADE_REQUIRE_PYTHON") != "" || ctx.Err() != nil {
			return err
		}
		for _, name := range environmentFigures {
			b.skip(name, "no Python environment: "+err.Error())
		}
		return nil
	}
	for _, run := range []func(context.Context) error{e.builds, e.warm, e.bulky} {
		if err := run(ctx); err != nil {
			return err
		}
	}
	return nil
}

type envBench struct {
	*bench
	dir string
	pip []string
}

func (e *envBench) env(more ...string) dag.Environment {
	return dag.Environment{Name: "perf", Python: &dag.Python{Pip: append(more, e.pip...)}}
}

// prepare has an environment prepared by an agent that has just started.
func (e *envBench) prepare(ctx context.Context, env dag.Environment) (took time.Duration, act runtimeenv.Activation, err error) {
	cache := runtimeenv.New(filepath.Join(e.dir, "cache"))
	began := time.Now()
	act, err = cache.Prepare(ctx, env, nil)
	took = time.Since(began)
	return took, act, errors.Join(err, cache.Close())
}

// builds measures a cold environment, base and layer, and one more layer on the base.
func (e *envBench) builds(ctx context.Context) error {
	cache := runtimeenv.New(filepath.Join(e.dir, "cache"))
	all, err := cache.List()
	if err != nil {
		return err
	}
	for _, r := range all {
		if strings.HasPrefix(r.Plugin, "python") {
			err = errors.Join(err, cache.Delete(r.ID()))
		}
	}
	if err != nil {
		return err
	}
	byHand, err := e.byHand(ctx, all, e.pip)
	if err != nil {
		return err
	}
	cold, _, err := e.prepare(ctx, e.env())
	if err != nil {
		return err
	}
	err = e.tell(Figure{Name: "env_cold", Value: ms(cold), Unit: "ms", Baseline: ms(byHand), BaselineOf: "uv venv and uv pip install by hand",
		Note: "base and " + strings.Join(e.pip, " ") + ", wheels in uv's cache"})
	if err != nil {
		return err
	}
	if byHand, err = e.byHand(ctx, all, append([]string{"packaging"}, e.pip...)); err != nil {
		return err
	}
	layered, _, err := e.prepare(ctx, e.env("packaging"))
	if err != nil {
		return err
	}
	return e.tell(Figure{Name: "env_layered", Value: ms(layered), Unit: "ms", Baseline: ms(byHand), BaselineOf: "uv venv and uv pip install by hand",
		Note: "one package more, on a base that is there"})
}

// byHand is what a person would do: a virtual environment with the same packages.
func (e *envBench) byHand(ctx context.Context, all []runtimeenv.Record, pip []string) (time.Duration, error) {
	uv := "uv"
	for _, r := range all {
		if r.Plugin == "uv" {
			uv = filepath.Join(e.dir, "cache", r.Plugin, r.Key, "bin", "uv")
		}
	}
	python := ""
	for _, r := range all {
		if r.Plugin == "python-base" {
			_, python, _ = strings.Cut(r.What, " at ")
		}
	}
	venv := filepath.Join(e.dir, "by-hand")
	defer os.RemoveAll(venv)
	began := time.Now()
	for _, args := range [][]string{{"venv", "-q", "--python", python, venv}, append([]string{"pip", "install", "-q", "--python", filepath.Join(venv, "bin", "python")}, pip...)} {
		if out, err := exec.CommandContext(ctx, uv, args...).CombinedOutput(); err != nil {
			return 0, fmt.Errorf("uv %s: %w\n%s", args[0], err, out)
		}
	}
	return time.Since(began), nil
}

// warm measures what an environment that is there costs a job: on an agent that
// has used it, and on one that has just started.
func (e *envBench) warm(ctx context.Context) error {
	c, err := e.local(ctx)
	if err != nil {
		return err
	}
	var without, again, started []float64
	cache := runtimeenv.New(filepath.Join(e.dir, "cache"))
	if _, err := cache.Prepare(ctx, e.env(), nil); err != nil {
		return err
	}
	for range e.size(20, 5) {
		f, err := e.timed(ctx, c, independent("none", 1))
		if err != nil {
			return err
		}
		without = append(without, ms(f.took))
		began := time.Now()
		if _, err := cache.Prepare(ctx, e.env(), nil); err != nil {
			return err
		}
		again = append(again, ms(time.Since(began)))
		took, act, err := e.prepare(ctx, e.env())
		if err != nil {
			return err
		}
		if act.Built {
			return errors.New("an environment that is there was built")
		}
		started = append(started, ms(took))
	}
	if err := cache.Close(); err != nil {
		return err
	}
	return e.tell(Figure{Name: "env_warm", Value: median(again), Unit: "ms", Baseline: median(without), BaselineOf: "a job of one task without an environment",
		Note: fmt.Sprintf("what it adds to a job, median of %d; on an agent that has just started %.1f ms", len(again), median(started))})
}

// bulky has two environments with one large wheel, one after the other.
func (e *envBench) bulky(ctx context.Context) error {
	size := e.size(512<<20, 4<<20)
	wheels := filepath.Join(e.dir, "wheels")
	if err := errors.Join(os.Mkdir(wheels, 0o700), bulkyWheel(wheels, "bulky", size), bulkyWheel(wheels, "other", 1)); err != nil {
		return err
	}
	env := func(pip ...string) dag.Environment {
		return dag.Environment{Name: "perf", Python: &dag.Python{Pip: pip, Wheels: wheels, Offline: true}}
	}
	one, first, err := e.prepare(ctx, env("bulky"))
	if err != nil {
		return err
	}
	two, second, err := e.prepare(ctx, env("bulky", "other"))
	if err != nil {
		return err
	}
	shared, err := sameFile(first, second, filepath.Join("lib", "python3*", "site-packages", "bulky", "data"))
	if err != nil {
		return err
	}
	note := "on the disk once"
	if !shared {
		note = "on the disk twice: uv's cache is on another file system"
	}
	return e.tell(Figure{Name: "env_bulky_shared", Value: ms(two), Unit: "ms", Baseline: ms(one), BaselineOf: "the first environment with the wheel",
		Note: fmt.Sprintf("a second environment with a wheel of %d MiB, which is %s", size>>20, note)})
}

// sameFile tells whether two environments have a file by hard links.
func sameFile(a, b runtimeenv.Activation, pattern string) (bool, error) {
	var infos []os.FileInfo
	for _, act := range []runtimeenv.Activation{a, b} {
		found, err := filepath.Glob(filepath.Join(filepath.Dir(filepath.Dir(act.Command[0])), pattern))
		if err != nil || len(found) != 1 {
			return false, errors.Join(fmt.Errorf("want one file %s, found %v", pattern, found), err)
		}
		info, err := os.Stat(found[0])
		if err != nil {
			return false, err
		}
		infos = append(infos, info)
	}
	return os.SameFile(infos[0], infos[1]), nil
}

// bulkyWheel writes a package whose data does not compress.
func bulkyWheel(dir, name string, size int) error {
	file, err := os.Create(filepath.Join(dir, name+"-1-py3-none-any.whl"))
	if err != nil {
		return err
	}
	w := zip.NewWriter(file)
	info := name + "-1.dist-info/"
	texts := map[string]string{
		name + "/__init__.py": "",
		info + "METADATA":     "Metadata-Version: 2.1\nName: " + name + "\nVersion: 1\n",
		info + "WHEEL":        "Wheel-Version: 1.0\nGenerator: perf\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
		info + "RECORD":       name + "/__init__.py,,\n" + name + "/data,,\n" + info + "METADATA,,\n" + info + "WHEEL,,\n" + info + "RECORD,,\n",
	}
	for path, text := range texts {
		out, err := w.Create(path)
		if err == nil {
			_, err = io.WriteString(out, text)
		}
		if err != nil {
			return errors.Join(err, file.Close())
		}
	}
	data, err := w.CreateHeader(&zip.FileHeader{Name: name + "/data", Method: zip.Store})
	if err == nil {
		_, err = io.CopyN(data, rand.NewChaCha8([32]byte{}), int64(size))
	}
	return errors.Join(err, w.Close(), file.Close())
}

func ms(d time.Duration) float64 { return d.Seconds() * 1e3 }
