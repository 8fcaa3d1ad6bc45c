package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cascade-run/cascade/dag"
	"github.com/cascade-run/cascade/examples/internal/twin"
)

func TestProgramEqualsJobFile(t *testing.T) {
	code, err := graph(4)
	if err != nil {
		t.Fatal(err)
	}
	if err := twin.Differences(code, twin.Read(t, "job.yaml")); err != nil {
		t.Error(err)
	}
}

// The job's commands, run one after another by hand over plain files, give the
// report that Python computed. So a difference under Cascade is Cascade's.
func TestCommandsGiveTheReport(t *testing.T) {
	g, dir := twin.Read(t, "job.yaml"), t.TempDir()
	file := func(i dag.TaskIndex, output string) string {
		return filepath.Join(dir, fmt.Sprintf("%d.%s", i, output))
	}
	for _, i := range g.Order() {
		runByHand(t, g, i, file)
	}
	if len(g.Exports) != 1 || len(g.Exports[0].Sources) != 1 {
		t.Fatalf("the job exports %v, want the report alone", g.Exports)
	}
	s := g.Exports[0].Sources[0]
	twin.SameFiles(t, file(s.Task, g.Group(s.Task).Outputs[s.Output].Name), "testdata/report.txt")
}

func runByHand(t *testing.T, g *dag.Graph, i dag.TaskIndex, file func(dag.TaskIndex, string) string) {
	t.Helper()
	group := g.Group(i)
	if f, ok := g.FileOf(i); ok {
		b, err := os.ReadFile(f.Path)
		if err == nil {
			err = os.WriteFile(file(i, dag.InputOutput), b, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
		return
	}
	inputs, err := g.Inputs(i)
	if err != nil {
		t.Fatal(err)
	}
	paths := map[string][]string{}
	for _, in := range inputs {
		for _, s := range in.Sources {
			paths[in.Name] = append(paths[in.Name], file(s.Task, g.Group(s.Task).Outputs[s.Output].Name))
		}
	}
	args, err := g.Command(i)
	if err != nil {
		t.Fatal(err)
	}
	var words []string
	for _, a := range args {
		if len(a) == 1 && a[0].Kind == dag.ArgInputs {
			words = append(words, paths[a[0].Text]...)
			continue
		}
		var word strings.Builder
		for _, p := range a {
			switch p.Kind {
			case dag.ArgText:
				word.WriteString(p.Text)
			case dag.ArgInput:
				word.WriteString(paths[p.Text][0])
			case dag.ArgOutput:
				word.WriteString(file(i, p.Text))
			default:
				t.Fatalf("task %s: a command with %v", g.TaskName(i), p)
			}
		}
		words = append(words, word.String())
	}
	cmd := exec.Command(words[0], words[1:]...)
	env, err := g.EnvVars(i)
	if err != nil {
		t.Fatal(err)
	}
	cmd.Env = append(os.Environ(), "LC_ALL=en_US.UTF-8") // jobs have to set what they depend on
	for _, e := range env {
		cmd.Env = append(cmd.Env, fmt.Sprintf("%s=%v", e.Name, e.Value))
	}
	if group.Run.Stdin != "" {
		in, err := os.Open(paths[group.Run.Stdin][0])
		if err != nil {
			t.Fatal(err)
		}
		defer in.Close()
		cmd.Stdin = in
	}
	var stderr strings.Builder
	cmd.Stderr = &stderr
	if group.Run.Stdout != "" {
		out, err := os.Create(file(i, group.Run.Stdout))
		if err != nil {
			t.Fatal(err)
		}
		defer out.Close()
		cmd.Stdout = out
	}
	if err := cmd.Run(); err != nil {
		t.Fatalf("task %s: %q: %v\n%s", g.TaskName(i), words, err, stderr.String())
	}
}
