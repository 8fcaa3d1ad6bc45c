//go:build linux

package python_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cascade-run/cascade/cascadetest"
	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/internal/testing/pyenv"
)

const savedModule = `
import datetime
import numpy as np

def values(n, name):
    return [0, -1, 2**63, 1.0, -0.0, 0.1, 1e-6, 1.5e-7, 123456.789e10, 1e20, 1e21, 1.7976931348623157e308, 5e-324, float("nan"), float("-inf"), True, None,
            n, name, "\u2028\x01\x7f\n\u00e9\U0001f600<>&", b"\x00\xff", {"b": 1, "a": [1, {}], "\u00e4": []}, {10: "x", 2: "y"},
            datetime.datetime(2026, 11, 22, 6, 0, 0, 120000, datetime.timezone.utc)]

def text(name): return name

def array(n): return np.arange(float(n))
`

const savedJob = `
job: saved
params: {n: 1, name: nothing}
environments: {p: {python: {pip: [numpy]}, py_modules: [saved.py]}}
tasks:
  values: {run: "p:saved.values", with: {n: "${params.n}", name: "${params.name}"}, out: [v]}
  text: {run: "p:saved.text", with: {name: "${params.name}"}, out: [t]}
  array: {for: {n: [1, 2], k: ["x/y"]}, run: "p:saved.array", with: {n: "${n}"}, out: [a]}
  line: {command: "printf line > ${out.o}", out: [o]}
outputs:
  - {from: values.v, to: deep/values.json}
  - {from: text.t, to: text.txt}
  - {from: "array[*,*].a", to: arrays/}
  - {from: line.o, to: pipe.txt}
  - {from: text.t, to: link.txt}
  - line.o
`

// A Python program submits a job file with parameters, and its outputs are the files that
// the Go client makes of them.
func TestSaves(t *testing.T) {
	pyenv.Python(t)
	source, theirs, ours := t.TempDir(), t.TempDir(), t.TempDir()
	for name, text := range map[string]string{"saved.py": savedModule, "job.yaml": savedJob} {
		if err := os.WriteFile(filepath.Join(source, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	run, err := os.MkdirTemp("", "cascade") // a socket's path must be short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(run) })
	t.Setenv("XDG_RUNTIME_DIR", run)
	c := cascadetest.Start(t)
	sockets, err := filepath.Glob(run + "/cascade/*/controller.sock")
	if err != nil || len(sockets) != 1 {
		t.Fatal(sockets, err)
	}
	python, env := interpreter(t)
	id, out, _ := strings.Cut(prints(t, ".", env, python, "testdata/saves.py", "ipc://"+sockets[0], source, theirs), "\n")
	same(t, "testdata/saves.golden", out)
	job, err := comms.ParseJobID(id)
	if err != nil {
		t.Fatal(err)
	}
	files, err := c.Job(job).Save(t.Context(), ours)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		name, err := filepath.Rel(ours, f)
		if err != nil {
			t.Fatal(err)
		}
		want, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		if name == "pipe.txt" {
			continue // its reader has it
		}
		if got, err := os.ReadFile(filepath.Join(theirs, name)); err != nil || string(got) != string(want) {
			t.Errorf("%s holds\n%q, %v, want\n%q", name, got, err, want)
		}
	}
}
