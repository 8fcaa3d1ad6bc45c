// Package twin is for the tests of the examples: it compares the graph that a
// program built with the graph of its job file, and runs either.
//
//	job.yaml ──dag.ParseYAML──▶ file ─┐
//	graph.go ──Graph.Build────▶ code ─┴──Differences──▶ nothing, or where they differ
//
// Two graphs are equal when they have the same tasks in the same order, which run
// the same on the same datasets with the same parameters, and the same outputs.
package twin

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"

	"github.com/cascade-run/cascade"
	"github.com/cascade-run/cascade/cascadetest"
	"github.com/cascade-run/cascade/dag"
)

// Read reads the job file at path, with parameters as "name=value".
func Read(tb testing.TB, path string, params ...string) *dag.Graph {
	tb.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		tb.Fatal(err)
	}
	g, err := dag.ParseYAML(path, text, dag.Override{Flags: params}, dag.Options{Dir: filepath.Dir(path)})
	if err != nil {
		tb.Fatal(err)
	}
	return g
}

// Ran is a job that has ended, and the folder below which its outputs were saved.
type Ran struct {
	*cascade.Job
	Cluster *cascade.Cluster // lives until the test ends
	Dir     string
	Files   []string
}

// Run runs a graph of the example in whose folder the test is.
func Run(tb testing.TB, g *dag.Graph) Ran {
	tb.Helper()
	c := cascadetest.Start(tb)
	job := cascadetest.SubmitGraph(tb, c, g, cascade.WithDir("."))
	cascadetest.Wait(tb, c, job)
	dir := tb.TempDir()
	files, err := job.Save(tb.Context(), dir)
	if err != nil {
		tb.Fatal(err)
	}
	return Ran{job, c, dir, files}
}

// SameFiles fails the test when two files differ.
func SameFiles(tb testing.TB, got, want string) {
	tb.Helper()
	g, err := os.ReadFile(got)
	if err != nil {
		tb.Fatal(err)
	}
	w, err := os.ReadFile(want)
	if err != nil {
		tb.Fatal(err)
	}
	if string(g) != string(w) {
		tb.Errorf("%s differs from %s:\n%s", got, want, g)
	}
}

// Differences returns an error that lists where code and file differ. The
// environment of functions may: a program runs its own.
func Differences(code, file *dag.Graph) error {
	if code.Name != file.Name || code.NumTasks() != file.NumTasks() {
		return fmt.Errorf("job %s of %d tasks in code, job %s of %d tasks in the file", code.Name, code.NumTasks(), file.Name, file.NumTasks())
	}
	var errs []error
	for i := range dag.TaskIndex(file.NumTasks()) {
		c, err := describe(code, i)
		if err != nil {
			return err
		}
		f, err := describe(file, i)
		if err != nil {
			return err
		}
		// An optional parameter that the file leaves out is a zero in code.
		c.with = slices.DeleteFunc(c.with, func(p dag.Field) bool {
			return reflect.ValueOf(p.Value).IsZero() && !slices.ContainsFunc(f.with, func(q dag.Field) bool { return q.Name == p.Name })
		})
		if !reflect.DeepEqual(c, f) {
			errs = append(errs, fmt.Errorf("in code  %+v\nin file  %+v", c, f))
		}
	}
	if c, f := exports(code), exports(file); !slices.Equal(c, f) {
		errs = append(errs, fmt.Errorf("outputs %v in code, %v in the file", c, f))
	}
	return errors.Join(errs...)
}

// task is all of a task that its result depends on.
type task struct {
	name, function, stdin, stdout string
	command                       []dag.Arg
	inputs                        []dag.Input // by name
	outputs                       []dag.OutputDecl
	with, env                     []dag.Field // by name
}

func describe(g *dag.Graph, i dag.TaskIndex) (task, error) {
	run := g.Group(i).Run
	t := task{name: g.TaskName(i), function: run.Function, stdin: run.Stdin, stdout: run.Stdout, outputs: g.Group(i).Outputs}
	var errs [4]error
	t.command, errs[0] = g.Command(i)
	t.inputs, errs[1] = g.Inputs(i)
	t.with, errs[2] = g.With(i)
	t.env, errs[3] = g.EnvVars(i)
	t.inputs, t.with, t.env = slices.Clone(t.inputs), slices.Clone(t.with), slices.Clone(t.env)
	slices.SortFunc(t.inputs, func(a, b dag.Input) int { return cmp.Compare(a.Name, b.Name) })
	byName := func(a, b dag.Field) int { return cmp.Compare(a.Name, b.Name) }
	slices.SortFunc(t.with, byName)
	slices.SortFunc(t.env, byName)
	return t, errors.Join(errs[:]...)
}

func exports(g *dag.Graph) []string {
	out := make([]string, len(g.Exports))
	for i, e := range g.Exports {
		out[i] = fmt.Sprint(e.Sources, " to ", e.Path)
	}
	return out
}
