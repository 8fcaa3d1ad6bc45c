//go:build linux

package python_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/cascade-run/cascade"
	"github.com/cascade-run/cascade/cascadetest"
	"github.com/cascade-run/cascade/internal/testing/pyenv"
)

// Files that are cached by content do not change: tasks cannot write into working_dir and py_modules, and the error says where they can.
func TestFilesStay(t *testing.T) {
	pyenv.Python(t)
	c := cascadetest.Start(t)
	job := submitText(t, c, "testdata/state", []byte(`job: files
environments: {py: {python: {}, working_dir: wd, py_modules: [./files.py]}}
tasks:
  spoil: {run: "py:files.spoil", out: [worked]}
  look: {run: "py:files.look", in: {after: spoil.worked}, out: [found]}
outputs: [spoil.worked, look.found]
`))
	const want = "look.found = [[\"data.txt\"],[\"__pycache__\",\"files.py\"],\"original\",true]\nspoil.worked = []\n"
	if got := outcome(t, c, job); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	job = submitText(t, c, "testdata/state", []byte(`job: write
environments: {py: {python: {}, working_dir: wd, py_modules: [./files.py]}}
tasks: {write: {run: "py:files.write"}}
`))
	var failed *cascade.JobError
	if _, err := job.Wait(t.Context()); !errors.As(err, &failed) || failed.Cause == nil {
		t.Fatal(err)
	}
	if stack := failed.Cause.Stack; !strings.Contains(stack, `File "files.py", line `) {
		t.Errorf("the user's file is not in the stack:\n%s", stack)
	}
	const hint = "'left.txt': working_dir and py_modules are shared by tasks and cannot be written to: write to cascade.current().scratch or .dir"
	if text := failed.Cause.Message; !strings.HasSuffix(text, hint) {
		t.Errorf("where to write is not told: %s", text)
	}
}

// The executors of a job have the same hashes of texts; the job may choose others.
func TestHashesAgree(t *testing.T) {
	pyenv.Python(t)
	t.Setenv("PYTHONHASHSEED", "")
	c := cascadetest.Start(t)
	job := submitText(t, c, "testdata/state", []byte(`job: hashes
environments:
  one: {python: {}, py_modules: [./files.py], env: {APART: "1"}}
  two: {python: {}, py_modules: [./files.py], env: {APART: "2"}}
  own: {python: {}, py_modules: [./files.py], env: {PYTHONHASHSEED: "7"}}
tasks:
  one: {run: "one:files.hashes", out: [h]}
  two: {run: "two:files.hashes", out: [h]}
  own: {run: "own:files.hashes", out: [h]}
outputs: [one.h, two.h, own.h]
`))
	got := map[string]string{}
	for line := range strings.Lines(outcome(t, c, job)) {
		name, value, _ := strings.Cut(line, " = ")
		got[name] = value
	}
	if got["one.h"] == "" || got["one.h"] != got["two.h"] || got["one.h"] == got["own.h"] {
		t.Errorf("got %v", got)
	}
}
