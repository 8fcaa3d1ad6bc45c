//go:build linux

package python_test

import (
	"archive/zip"
	"bytes"
	"debug/elf"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/cascade-run/cascade/internal/testing/pyenv"
	"github.com/cascade-run/cascade/internal/testing/tier"
)

const builder = "hatchling==1.33.0"

// A wheel with the programs is all that an environment without Go needs: programs, calls and
// jobs run there, an upgrade breaks no cluster that runs, and nothing stays when it goes.
func TestWheel(t *testing.T) {
	pyenv.Python(t)
	path, env := interpreter(t, "pip", builder)
	bin, dir := programs(t), t.TempDir()
	wheels := filepath.Join(dir, "wheels")
	with := slices.Concat(env, []string{"CASCADE_WHEEL_PROGRAMS=" + bin, "CASCADE_WHEEL_PLATFORM=linux_" + map[string]string{"amd64": "x86_64", "arm64": "aarch64"}[runtime.GOARCH]})
	prints(t, ".", with, path, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir", wheels, sources(t))
	prints(t, ".", env, path, "-m", "pip", "download", "--quiet", "--only-binary", ":all:", "--dest", wheels, "pyzmq>=25", "msgpack", "cloudpickle")

	venv := filepath.Join(dir, "venv")
	prints(t, ".", env, path, "-m", "venv", "--without-pip", venv)
	before := tree(t, venv)
	pip := func(args ...string) {
		t.Helper()
		prints(t, ".", env, path, append([]string{"-m", "pip", "--quiet", "--python", filepath.Join(venv, "bin", "python")}, args...)...)
	}
	install := func(more ...string) {
		t.Helper()
		pip(append([]string{"install", "--no-index", "--find-links", wheels, "--no-compile", "cascade-run"}, more...)...)
	}
	install()

	home := filepath.Join(dir, "home")
	if err := os.Mkdir(home, 0o700); err != nil {
		t.Fatal(err)
	}
	empty := []string{"HOME=" + home, "PATH=/usr/bin:/bin"}
	python := filepath.Join(venv, "bin", "python")
	run := alone(python, "testdata/installed.py")
	same(t, "testdata/installed.golden", prints(t, ".", empty, run[0], run[1:]...))
	job := filepath.Join(dir, "job.yaml")
	if err := os.WriteFile(job, []byte("job: alone\ntasks: {t: {command: \"echo made > ${out.x}\", out: [x]}}\noutputs: [{from: t.x, to: x.txt}]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	run = alone(filepath.Join(venv, "bin", "cascade"), "run", "job.yaml")
	prints(t, dir, empty, run[0], run[1:]...)
	if b, err := os.ReadFile(filepath.Join(dir, "x.txt")); err != nil || string(b) != "made\n" {
		t.Errorf("the job made %q, %v", b, err)
	}

	// A cluster whose programs are replaced goes on, and starts executors.
	live := exec.Command(python, "-c", `import sys, cascade
with cascade.init(store="64MiB", cpu=2):
    f = cascade.remote(lambda x: x + 1)
    print(cascade.get(f.remote(1)), flush=True)
    sys.stdin.readline()
    print(cascade.get([f.remote(x) for x in range(3)]), flush=True)`)
	live.Env = empty
	in, err := live.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := live.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var errs bytes.Buffer
	live.Stderr = &errs
	if err := live.Start(); err != nil {
		t.Fatal(err)
	}
	first := make([]byte, 2)
	_, err1 := io.ReadFull(out, first)
	install("--force-reinstall", "--no-deps")
	_, err2 := io.WriteString(in, "\n")
	rest, err3 := io.ReadAll(out)
	if err := live.Wait(); err != nil || string(first)+string(rest) != "2\n[1, 2, 3]\n" {
		t.Errorf("%q %q %v %v %v %v\n%s", first, rest, err, err1, err2, err3, errs.String())
	}

	pip("uninstall", "--yes", "cascade-run", "pyzmq", "msgpack", "cloudpickle")
	if after := tree(t, venv); !slices.Equal(before, after) {
		t.Errorf("left behind: %v", slices.DeleteFunc(after, func(f string) bool { return slices.Contains(before, f) }))
	}
}

// alone is a command that has no network, where the host permits that.
func alone(words ...string) []string {
	if exec.Command("unshare", "--net", "true").Run() == nil {
		return append([]string{"unshare", "--net"}, words...)
	}
	return words
}

// sources is a copy of what a wheel is built of.
func sources(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{"pyproject.toml", "README.md", "programs.py", "cascade"} {
		if out, err := exec.Command("cp", "-r", name, dir).CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	return dir
}

// tree lists the files of a folder.
func tree(t *testing.T, dir string) (files []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			files = append(files, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// just wheel makes wheels for both processors, whose programs pip will install; the same commit
// makes the same bytes, also in another folder.
func TestWheelCommand(t *testing.T) {
	tier.Nightly(t, "builds all programs three times")
	pyenv.Python(t)
	made := map[string][]byte{}
	for i, arches := range [][]string{{"amd64", "arm64"}, {"arm64"}} {
		clone, dist := t.TempDir(), t.TempDir()
		if out, err := exec.Command("git", "clone", "--quiet", "../..", clone).CombinedOutput(); err != nil {
			t.Skipf("clone the sources: %v\n%s", err, out) // a copy of the sources without its repository
		}
		cmd := exec.Command("bash", append([]string{filepath.Join(clone, "packaging", "wheel")}, arches...)...)
		cmd.Env = append(os.Environ(), "CASCADE_DIST="+dist)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		for _, name := range tree(t, dist) {
			data, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			t.Log(filepath.Base(name), len(data))
			if had, ok := made[filepath.Base(name)]; i > 0 && (!ok || !bytes.Equal(had, data)) {
				t.Errorf("%s has other bytes in another folder", filepath.Base(name))
			}
			made[filepath.Base(name)] = data
		}
	}
	if len(made) != 2 {
		t.Fatalf("made %d wheels, want 2", len(made))
	}
	for name, data := range made {
		want := elf.EM_X86_64
		if strings.Contains(name, "aarch64") {
			want = elf.EM_AARCH64
		}
		looksRight(t, name, data, want)
	}
}

// looksRight looks at a wheel: programs of one machine that may be executed, and the package.
func looksRight(t *testing.T, name string, data []byte, want elf.Machine) {
	t.Helper()
	archive, err := zip.NewReader(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		t.Fatal(err)
	}
	programs, whole := 0, false
	for _, f := range archive.File {
		whole = whole || f.Name == "cascade/executor/worker.py"
		if !strings.Contains(f.Name, ".data/scripts/") {
			continue
		}
		programs++
		r, err := f.Open()
		if err != nil {
			t.Fatal(err)
		}
		binary, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		e, err := elf.NewFile(bytes.NewReader(binary))
		if err != nil {
			t.Fatalf("%s: %s: %v", name, f.Name, err)
		}
		libraries, err := e.ImportedLibraries()
		if err != nil || len(libraries) > 0 || e.Machine != want || f.Mode().Perm() != 0o755 || e.Section(".symtab") != nil {
			t.Errorf("%s: %s is for %v, of mode %v, needs %v, %v", name, f.Name, e.Machine, f.Mode(), libraries, err)
		}
	}
	if programs != 3 || !whole {
		t.Errorf("%s has %d programs, the package: %v", name, programs, whole)
	}
}
