//go:build linux

package python_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cascade-run/cascade"
	"github.com/cascade-run/cascade/cascadetest"
	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/dag"
	"github.com/cascade-run/cascade/internal/testing/pyenv"
)

const resumableJob = `
job: resumable
params: {tag: x}
environments: {p: {python: {}, py_modules: [mod.py]}}
tasks:
  one: {run: "p:mod.one", out: [n]}
  two: {command: "wc -c < data.txt; echo ${params.tag}", out: [n], stdout: n}
  last: {command: "cat go.txt ${in.a} ${in.b}", in: {a: one.n, b: two.n}, out: [text], stdout: text}
outputs: [last.text]
`

// A Python program takes over results as cascade run --resume does, also those of jobs that a program
// in Go submitted; and the other way round.
func TestResume(t *testing.T) {
	pyenv.Python(t)
	dir := t.TempDir()
	for name, text := range map[string]string{"job.yaml": resumableJob, "mod.py": "def one():\n    return 1\n", "data.txt": "data\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	run, err := os.MkdirTemp("", "cascade") // a socket's path must be short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(run); err != nil {
			t.Error(err)
		}
	})
	t.Setenv("XDG_RUNTIME_DIR", run)
	c := cascadetest.Start(t)
	sockets, err := filepath.Glob(run + "/cascade/*/controller.sock")
	if err != nil || len(sockets) != 1 {
		t.Fatal(sockets, err)
	}
	address := "ipc://" + sockets[0]
	python, env := interpreter(t)
	out, last := lastLine(prints(t, ".", env, python, "testdata/resume.py", address, dir, "python"))
	same(t, "testdata/resume.golden", out)

	g, err := dag.ParseYAML("job.yaml", []byte(resumableJob), dag.Override{}, dag.Options{})
	if err != nil {
		t.Fatal(err)
	}
	resumed := func(from string) *cascade.Job {
		id, err := comms.ParseJobID(from)
		if err != nil {
			t.Fatal(err)
		}
		j := cascadetest.SubmitGraph(t, c, g.Retaining(), cascade.WithDir(dir), cascade.WithResume(id))
		if _, err := j.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		tasks, err := cascade.Rows[comms.TaskRow](t.Context(), c.Client, comms.QueryTasks, j.ID(), "")
		if err != nil {
			t.Fatal(err)
		}
		if slices.ContainsFunc(tasks, func(r comms.TaskRow) bool { return r.Started != "" }) {
			t.Errorf("tasks of a program in Go ran although a Python program had run them: %v", tasks)
		}
		return j
	}
	resumed(last)
	out, last = lastLine(prints(t, ".", env, python, "testdata/resume.py", address, dir, "go"))
	if want := "of a job in Go: 3 taken {}\n"; out != want {
		t.Errorf("%s, want %s", out, want)
	}
	resumed(last)
}

// lastLine parts a text into all but its last line, and that.
func lastLine(text string) (before, last string) {
	text = strings.TrimSuffix(text, "\n")
	i := strings.LastIndexByte(text, '\n') + 1
	return text[:i], text[i:]
}
