package main

import (
	"os"
	"os/exec"
	"testing"
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
	h.write("job.yaml", `job: right
environments:
  sci: {python: {}, py_modules: [./fields.py]}
tasks:
  mean: {run: "sci:fields.mean", with: {values: [1, 2]}, out: [m]}
`)
	if got, want := h.start("", "validate", "job.yaml").wait(), "job.yaml: job right is right: 1 task\n"; got != want {
		t.Errorf("validate: %s", got)
	}
}
