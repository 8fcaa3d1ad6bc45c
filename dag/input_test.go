package dag_test

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/cascade-run/cascade/dag"
)

const inputJob = `
job: j
inputs:
  obs: {file: obs.grib}
  fields: {files: "f*.grib"}
tasks:
  each: {for: {f: "fields[*]"}, run: F, in: {x: "fields[${f}]", obs: obs}, out: [y]}
  all: {run: G, in: {x: "fields[*]"}}
`

// someFiles finds files as a host would that has them.
func someFiles(have ...string) func(string, bool) ([]string, error) {
	return func(path string, pattern bool) (found []string, err error) {
		for _, h := range have {
			start, end, _ := strings.Cut(path, "*")
			if pattern && strings.HasPrefix(h, start) && strings.HasSuffix(h, end) || h == path {
				found = append(found, h)
			}
		}
		if found == nil && !pattern {
			err = fmt.Errorf("there is no file %s", path)
		}
		return found, err
	}
}

// A pattern is as many datasets as there are files, sorted by path.
func TestInputsAreFound(t *testing.T) {
	g, err := dag.ParseYAML("job.yaml", []byte(inputJob), dag.Override{}, dag.Options{Find: someFiles("f2.grib", "obs.grib", "f10.grib")})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for i := range dag.TaskIndex(g.NumTasks()) {
		name := g.TaskName(i)
		if f, ok := g.FileOf(i); ok {
			name += "=" + f.String()
		}
		got = append(got, name)
	}
	if want := "[obs=obs.grib fields[0]=f10.grib fields[1]=f2.grib each[0] each[1] all]"; fmt.Sprint(got) != want {
		t.Errorf("tasks %v, want %s", got, want)
	}
	with, err := g.With(2)
	if want := []dag.Field{{Name: "path", Value: "f2.grib"}, {Name: "url", Value: ""}, {Name: "sha256", Value: ""}, {Name: "size", Value: int64(0)}, {Name: "kept", Value: false}}; err != nil || !reflect.DeepEqual(with, want) {
		t.Errorf("parameters %v, %v", with, err)
	}
	ins, err := g.Inputs(4)
	if err != nil || len(ins) != 2 || ins[0].Sources[0] != (dag.Source{Kind: dag.SourceWhole, Task: 2}) || ins[1].Sources[0].Task != 0 {
		t.Errorf("inputs of each[1]: %+v, %v", ins, err)
	}
}

// What is not there is told with its place.
func TestInputsAreMissing(t *testing.T) {
	for _, c := range []struct {
		have []string
		want string
	}{
		{[]string{"obs.grib"}, `job.yaml:5:19: input "fields": files: no file is like f*.grib (a pattern such as`},
		{[]string{"f1.grib"}, `job.yaml:4:15: input "obs": there is no file obs.grib (an input is a regular file`},
	} {
		_, err := dag.ParseYAML("job.yaml", []byte(inputJob), dag.Override{}, dag.Options{Find: someFiles(c.have...)})
		var all dag.Problems
		if !errors.As(err, &all) || len(all) != 1 || !strings.Contains(err.Error(), c.want) {
			t.Errorf("with %v: %v; want %s", c.have, err, c.want)
		}
	}
}

// A client says what the files hold; the graph stays the same otherwise.
func TestWithInputs(t *testing.T) {
	g, err := dag.ParseYAML("job.yaml", []byte(inputJob), dag.Override{}, dag.Options{Find: someFiles("f1.grib", "f2.grib", "obs.grib")})
	if err != nil {
		t.Fatal(err)
	}
	hash := strings.Repeat("0a", 32)
	inputs := slices.Clone(g.InputGroups())
	if len(inputs) != 2 {
		t.Fatalf("inputs %v", inputs)
	}
	inputs[0].Files = []dag.File{{Path: "/w/obs.grib", SHA256: hash, Size: 3, Kept: true}}
	inputs[1].Resources.Custom = map[string]int64{"host-1": 1}
	sealed, err := g.WithInputs(inputs)
	if err != nil {
		t.Fatal(err)
	}
	if f, _ := g.FileOf(0); f.Path != "obs.grib" {
		t.Errorf("the graph before has %+v", f)
	}
	again, err := dag.Decode(sealed.Encode())
	if err != nil {
		t.Fatal(err)
	}
	if f, ok := again.FileOf(0); !ok || f != inputs[0].Files[0] || again.Group(1).Resources.Custom["host-1"] != 1 {
		t.Errorf("sealed: %+v", again.InputGroups())
	}
	if want := []dag.Package{{Hash: hash, Name: "obs.grib"}}; !slices.Equal(again.Packages(), want) {
		t.Errorf("packages %v", again.Packages())
	}
	text, err := again.YAML()
	if err != nil {
		t.Fatal(err)
	}
	printed, err := dag.ParseYAML("printed.yaml", text, dag.Override{}, dag.Options{Find: someFiles("f1.grib", "f2.grib")})
	if err != nil || !slices.Equal(printed.Encode(), sealed.Encode()) {
		t.Errorf("printed, it is another job: %v\n%s", err, text)
	}
	for _, change := range []func([]dag.Group) []dag.Group{
		func(in []dag.Group) []dag.Group { return in[:1] },
		func(in []dag.Group) []dag.Group { in[1].Files = in[1].Files[:1]; return in },
		func(in []dag.Group) []dag.Group { in[0].Name = "other"; return in },
		func(in []dag.Group) []dag.Group {
			in[0].Files = []dag.File{{Path: "x", SHA256: "abc"}}
			return in
		},
	} {
		if _, err := g.WithInputs(change(slices.Clone(inputs))); err == nil {
			t.Error("other inputs were taken")
		}
	}
}

// In code inputs may be declared anywhere, and come first.
func TestBuilderInputs(t *testing.T) {
	b := dag.NewBuilder("j")
	gen := b.Add(dag.Group{Name: "gen", Run: dag.Run{Function: "G"}, Outputs: []dag.OutputDecl{{Name: "s", Generate: dag.GenerateOpen}}})
	files := b.Input(dag.NewInputs("files", []dag.File{{Path: "a"}, {URL: "http://h/b"}}))
	b.Loop("e", gen.Out("s").Element(dag.All()), dag.Group{Name: "each", Run: dag.Run{Function: "E"},
		Inputs: []dag.InputDecl{dag.One("x", gen.Out("s").Element(dag.Expr("e"))), dag.One("f", files.Out("", dag.At(1)))}})
	g, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	if g.TaskName(0) != "files[0]" || g.TaskName(2) != "gen" || g.NumSlots() != 1 {
		t.Errorf("%s", g.Text())
	}
	for name, grp := range map[string]dag.Group{
		"files":    {Name: "x", Run: dag.Run{Function: "F"}, Files: []dag.File{{Path: "a"}}},
		"function": {Name: "x", Run: dag.Run{Function: dag.InputFunction}},
		"late":     dag.NewInput("x", dag.File{Path: "a"}),
		"axes":     {Name: "x", Run: dag.Run{Function: dag.InputFunction}, Files: []dag.File{{Path: "a"}, {Path: "b"}}, Outputs: []dag.OutputDecl{{Name: dag.InputOutput}}},
	} {
		b := dag.NewBuilder("j")
		b.Add(dag.Group{Name: "first", Run: dag.Run{Function: "F"}})
		b.Add(grp)
		if _, err := b.Build(); err == nil {
			t.Errorf("%s: it was taken", name)
		}
	}
}
