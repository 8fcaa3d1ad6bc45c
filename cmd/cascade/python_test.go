package main

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/cascade-run/cascade/internal/testing/pyenv"
)

// A mistake in how a job calls a Python function is told before anything runs, with its
// place in the job file.
func TestPythonMistakes(t *testing.T) {
	if err := exec.Command("python3", "-I", "-c", "").Run(); err != nil {
		if os.Getenv("CASCADE_REQUIRE_PYTHON") != "" {
			t.Fatal(err)
		}
		t.Skip("no python3: ", err)
	}
	h := newHost(t)
	h.write("fields.py", "def mean(values):\n    return sum(values) / len(values)\n\n\ndef scale(x, *, by=2):\n    return x * by\n")
	h.write("job.yaml", `job: typos
environments:
  sci: {python: {}, py_modules: [./fields.py]}
tasks:
  mean: {run: "sci:fields.meen", with: {values: [1, 2]}, out: [m]}
  scale: {run: "sci:fields.scale", in: {y: mean.m}, with: {by: 3}, out: [m]}
`)
	const want = `2> job.yaml:5:15: task "mean": module fields (fields.py) has no function meen (did you mean "mean"? it has mean, scale)
2> job.yaml:6:44: task "scale": input y is not taken by fields.scale(x, *, by=2) at fields.py:5 (did you mean "x"?)
`
	for _, args := range [][]string{{"validate", "job.yaml"}, {"plan", "job.yaml"}, {"run", "job.yaml"}} {
		if got := h.start("", args...).wait(); got != "exit 2\n"+want {
			t.Errorf("%s:\n%s", args, got)
		}
	}
	if err := os.Mkdir("other", 0o700); err != nil {
		t.Fatal(err)
	}
	h.write("other/fields.py", "")
	h.write("twice.yaml", "job: twice\nenvironments:\n  sci: {python: {}, py_modules: [./fields.py, other/fields.py]}\ntasks:\n  mean: {run: \"sci:fields.mean\", with: {values: [1, 2]}, out: [m]}\n")
	if got, want := h.start("", "validate", "twice.yaml").wait(), "exit 2\n2> twice.yaml:3:47: environment \"sci\": module fields is there twice, as fields.py and as other/fields.py: Python would import the first (give one of them another name, or put it into a package)\n"; got != want {
		t.Errorf("validate: %s", got)
	}
	h.write("job.yaml", `job: right
environments:
  sci: {python: {}, py_modules: [./fields.py]}
tasks:
  mean: {run: "sci:fields.mean", with: {values: [1, 2]}, out: [m]}
`)
	if got, want := h.start("", "validate", "job.yaml").wait(), "job.yaml: job right is valid: 1 task\n"; got != want {
		t.Errorf("validate: %s", got)
	}
}

// What lay on a device is counted: by run for the job, by explain, ls and story for each
// task. The device is a stand-in, which says by DLPack that it is one.
func TestDevices(t *testing.T) {
	pyenv.Python(t)
	h := newHost(t)
	h.write("away.py", `class Array:
    nbytes = 3 << 20
    def __dlpack_device__(self):
        return 2, 0

def make():
    return Array(), Array()

def read(x):
    return 1

def join(n, y):
    return n
`)
	h.write("job.yaml", `job: devices
environments:
  py: {python: {}, py_modules: [./away.py]}
tasks:
  make: {run: "py:away.make", out: [x, y]}
  read: {run: "py:away.read", in: {x: make.x}, out: [n]}
  join: {run: "py:away.join", in: {n: read.n, y: make.y}, out: [n]}
  none: {command: ["true"]}
`)
	for _, c := range []struct {
		args string
		want string
	}{
		{"run job.yaml", "device  2 values copied to the host (6MiB), 1 kept there\n"},
		{"explain last make", "device  2 values copied to the host (6MiB), 0 kept there\n"},
		{"explain last read --json", `"device":{"copies":0,"bytes":0,"kept":1}`},
		{"ls tasks last --family read --json", `"device":{"copies":0,"bytes":0,"kept":1}}`},
		{"story last make --json", "; 2 values of 6291456 bytes copied from a device to the host, 0 kept there"},
	} {
		if got := h.start("", strings.Fields(c.args)...).wait(); !strings.Contains(got, c.want) {
			t.Errorf("%s: %s\nwant %s", c.args, got, c.want)
		}
	}
	for _, args := range []string{"explain last none", "explain last join --json"} {
		if got := h.start("", strings.Fields(args)...).wait(); strings.Contains(got, "device") {
			t.Errorf("%s: %s", args, got)
		}
	}
}
