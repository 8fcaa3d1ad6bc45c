package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cascade-run/cascade"
	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/dag"
)

// What fails when an environment is built, or a function looked for, has a place in the job file.
func TestSetting(t *testing.T) {
	const text = `job: j
environments:
  py:
    python: {pip: [numpy, "Tiny>1", zarr]}
    py_modules: [a.py]
  go: {go: ./g}
tasks:
  t: {run: "py:a.f"}
  u: {run: "go:F", for: {i: "0..1"}}
  c: {command: "true"}
inputs:
  data: {url: "https://host.example/data"}
`
	g, err := dag.ParseYAML("job.yaml", []byte(text), dag.Override{}, dag.Options{})
	if err != nil {
		t.Fatal(err)
	}
	a := &app{file: jobText{"dir/job.yaml", []byte(text)}}
	for _, c := range []struct {
		task, message string
		kind          comms.ErrorKind
		want          string
	}{
		{"t", `environment "py": uv pip install: exit status 1` + "\nonly tiny<=1 is available and you require tiny>1", comms.ErrorSetup, "dir/job.yaml:4:27"},
		{"t", `environment "py": python: this host has no interpreter`, comms.ErrorSetup, "dir/job.yaml:4:13"},
		{"t", `environment "py": py_modules: fetch a.py: numpy`, comms.ErrorSetup, "dir/job.yaml:5:17"},
		{"t", "function a.f: module a has no function f", comms.ErrorSetup, "dir/job.yaml:8:12"},
		{"u[1]", `environment "go": go build in /g: exit status 1`, comms.ErrorSetup, "dir/job.yaml:6:7"},
		{"c", `command "true": no such file`, comms.ErrorSetup, "dir/job.yaml:10:16"},
		{"t", `environment "py": numpy`, comms.ErrorTask, "dir/job.yaml:8:12"},
		{"u[0]", "no such row", comms.ErrorTask, "dir/job.yaml:9:12"},
		{"c", "the command ended with status 1", comms.ErrorExit, "dir/job.yaml:10:16"},
		{"data", "it cannot be read", comms.ErrorInput, "dir/job.yaml:12:9"},
		{"", `environment "py": numpy`, comms.ErrorSetup, ""},
	} {
		if got := a.placeOf(g, &cascade.TaskError{Kind: c.kind, Task: c.task, Message: c.message}); got != c.want {
			t.Errorf("%s: %q, want %q", c.message, got, c.want)
		}
	}
	if got := (&app{}).placeOf(g, &cascade.TaskError{Kind: comms.ErrorSetup, Task: "t"}); got != "" {
		t.Errorf("without a job file: %q", got)
	}
}

// What cannot be packed of an environment is told with its places, all of them.
func TestPlacesOfWhatIsPacked(t *testing.T) {
	h := newHost(t)
	dir := t.TempDir()
	for name, text := range map[string]string{"m.txt": "x", "w.txt": "x", "job.yaml": `job: x
environments:
  e:
    python: {}
    py_modules: [m.txt]
    working_dir: w.txt
tasks:
  a: {command: "true", environment: e}
`} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	file := filepath.Join(dir, "job.yaml")
	want := "exit 3\n2> " + file + `:6:18: environment "e": working_dir: ` + dir + "/w.txt: want a folder or a .zip\n" +
		"2> " + file + `:5:18: environment "e": py_modules: ` + dir + "/m.txt: want a folder, a .py file, a .zip or a .whl\n"
	if got := h.start("", "run", file).wait(); !strings.Contains(got, want) {
		t.Errorf("it says\n%swant\n%s", got, want)
	}
}
