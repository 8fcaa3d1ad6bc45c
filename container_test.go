//go:build linux

package cascade_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cascade-run/cascade"
	"github.com/cascade-run/cascade/cascadetest"
	"github.com/cascade-run/cascade/dag"
	"github.com/cascade-run/cascade/internal/testing/pyenv"
	"github.com/cascade-run/cascade/internal/testing/smallfs"
)

// inImages runs a test with an image of the files that podman has, and with one of a
// stand-in for podman. The environments that it makes lie in a cache of its own.
func inImages(t *testing.T, files string, test func(t *testing.T, image string)) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(files, "mark"), []byte("image "), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, image := range map[string]func(t *testing.T) string{
		"by podman":     func(t *testing.T) string { return smallfs.Podman(t, files) },
		"by a stand-in": func(t *testing.T) string { name, _ := smallfs.FakePodman(t, files, "id"); return name },
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("XDG_CACHE_HOME", t.TempDir())
			test(t, image(t))
			if name == "by podman" {
				if out, err := exec.CommandContext(t.Context(), "podman", "ps", "--all", "--quiet").Output(); err != nil || len(out) > 0 {
					t.Errorf("containers are left: %s, %v", out, err)
				}
			}
			if mark, err := os.ReadFile(filepath.Join(files, "mark")); err != nil || string(mark) != "image " {
				t.Errorf("the image has %q, %v", mark, err)
			}
		})
	}
}

// runIn runs a job in a folder and returns an output of it as text.
func runIn(t *testing.T, dir, job, output string) string {
	t.Helper()
	g, err := dag.ParseYAML("job.yaml", []byte(job), dag.Override{}, dag.Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	c := cascadetest.Start(t)
	j := cascadetest.SubmitGraph(t, c, g, cascade.WithDir(dir))
	cascadetest.Wait(t, c, j)
	located, err := j.Locate(t.Context(), output)
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	if err := j.Fetch(t.Context(), located[0], &text); err != nil {
		t.Fatal(err)
	}
	return text.String()
}

// A task in an image sees its files and variables, datasets of tasks outside, and the
// job's folder; what it makes is read outside.
func TestContainer(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("takes root, or user namespaces")
	}
	inImages(t, smallfs.Programs(t, "sh", "cat", "tr"), func(t *testing.T, image string) {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "beside"), []byte("folder "), 0o600); err != nil {
			t.Fatal(err)
		}
		got := runIn(t, dir, fmt.Sprintf(`
job: container
environments:
  tools: {container: %q, env: {GREETING: hello}}
tasks:
  make: {command: "printf 'dataset ' > ${out.x}", out: [x]}
  read:
    command: "cat /mark ${in.x} beside > ${out.y} && echo $GREETING $OF >> ${out.y}; echo lost > /mark"
    environment: tools
    in: {x: make.x}
    out: [y]
  loud: {command: "tr a-z A-Z < ${in.y} > ${out.z}", in: {y: read.y}, out: [z]}
outputs: [loud.z]
`, image), "loud.z")
		if got != "IMAGE DATASET FOLDER HELLO IMAGE\n" {
			t.Errorf("%q", got)
		}
	})
}

// stepsInImage are functions that run in an image: one reads and makes datasets in shared
// memory, one ends its process when it runs first.
const stepsInImage = `
import os
import sys

import cascade


def look(x):
    with open("/mark") as f:
        text = f"{f.read()}{os.environ['OF']} {sys.executable} {len(x)} {x.readonly}"
    return text, bytes(x).upper()


def die(text: str):
    if not os.path.exists("died"):
        open("died", "w").close()
        os.kill(os.getpid(), 9)
    open("/mark", "w").close()
    return cascade.call(join, text=text, tail="tried again").result()


def join(text, tail):
    return f"{text}, {tail} "
`

// Python functions run by the image's python3, though it has no packages: with datasets of
// tasks outside in shared memory, after the death of their process, and with calls.
func TestPythonInContainer(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("takes root, or user namespaces")
	}
	pyenv.Python(t) // whose msgpack the image is lent
	files := smallfs.Programs(t, "sh")
	smallfs.Python(t, files)
	shared, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	inImages(t, files, func(t *testing.T, image string) {
		own, dir := filepath.Join(os.Getenv("XDG_CACHE_HOME"), "cascade", "environments"), t.TempDir()
		if err := errors.Join(os.MkdirAll(own, 0o700), // the base environment is that of needs
			os.Symlink(filepath.Join(shared, "cascade-test", "python-base"), filepath.Join(own, "python-base")),
			os.WriteFile(filepath.Join(dir, "steps.py"), []byte(stepsInImage), 0o600)); err != nil {
			t.Fatal(err)
		}
		got := runIn(t, dir, fmt.Sprintf(`
job: container
environments:
  image: {container: %q, python: {version: ">=3.10"}, py_modules: [./steps.py]}
tasks:
  make: {command: "head -c 1000000 /dev/zero | tr '\\0' x > ${out.x}", out: [x]}
  look: {run: "image:steps.look", in: {x: make.x}, out: [text, again]}
  die: {run: "image:steps.die", in: {text: look.text}, out: [text]}
  join: {command: "cat ${in.text} > ${out.y} && tr -d X < ${in.again} >> ${out.y} && wc -c < ${in.again} >> ${out.y}", in: {text: die.text, again: look.again}, out: [y]}
outputs: [join.y]
`, image), "join.y")
		if got != "image image /bin/python3 1000000 True, tried again 1000000\n" {
			t.Errorf("%q", got)
		}
	})
}
