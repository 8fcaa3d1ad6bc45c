package dag_test

import (
	"bytes"
	"reflect"
	"strings"
	"testing"

	"github.com/cascade-run/cascade/dag"
)

func platformJob(t *testing.T, environment string) (*dag.Graph, error) {
	t.Helper()
	return dag.ParseYAML("job.yaml", []byte("job: j\nenvironments: {fast: "+environment+"}\ntasks: {t: {run: \"fast:F\"}}\n"), dag.Override{}, dag.Options{Dir: "/jobs"})
}

// Binaries for platforms survive the encoding and the way through a job file, in the
// order of their platforms.
func TestBinariesForPlatforms(t *testing.T) {
	one := "package:sha256:" + strings.Repeat("01", 32) + "/f"
	g, err := platformJob(t, "{binary: {linux/arm64: build/a64, linux/amd64: \""+one+"\"}, env: {A: b}}")
	if err != nil {
		t.Fatal(err)
	}
	e := &g.Environments[0]
	want := []dag.Binary{{Platform: "linux/amd64", Path: one}, {Platform: "linux/arm64", Path: "build/a64"}}
	if !reflect.DeepEqual(e.Binaries, want) || e.Binary != "" || e.Kind() != "binary" {
		t.Errorf("binaries %v, binary %q, kind %s", e.Binaries, e.Binary, e.Kind())
	}
	if got := g.Packages(); len(got) != 1 || got[0].String() != one {
		t.Errorf("packages %v", got)
	}
	if a, none := e.BinaryFor("linux/arm64"), e.BinaryFor("linux/riscv64"); a != "build/a64" || none != "" {
		t.Errorf("for arm64 %q, for riscv64 %q", a, none)
	}
	back, err := dag.Decode(g.Encode())
	if err != nil || !reflect.DeepEqual(back.Environments, g.Environments) || !bytes.Equal(back.Encode(), g.Encode()) {
		t.Errorf("decoded %+v, %v", back, err)
	}
	text, err := g.YAML()
	if err != nil {
		t.Fatal(err)
	}
	again, err := dag.ParseYAML("again.yaml", text, dag.Override{}, dag.Options{Dir: "/jobs"})
	if err != nil || !reflect.DeepEqual(again.Environments, g.Environments) {
		t.Errorf("from its own text: %+v, %v\n%s", again, err, text)
	}
}

// The functions of a program that is sent with its graph are in its environment, and
// nothing else of the graph is.
func TestWithProgram(t *testing.T) {
	g, err := dag.ParseYAML("job.yaml", []byte(`
job: j
environments: {own: {go: ./own}}
inputs: {f: {file: a.txt}}
tasks: {t: {run: F}, u: {run: "own:F"}, c: {command: "true"}}
`), dag.Override{}, dag.Options{Dir: "/jobs"})
	if err != nil {
		t.Fatal(err)
	}
	env := dag.Environment{Name: dag.ProgramEnvironment, Binaries: []dag.Binary{{Platform: "linux/amd64", Path: "f"}}}
	out, err := g.WithProgram(env)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"t": dag.ProgramEnvironment, "u": "own", "c": "", "f": ""} {
		i, ok := out.Lookup(name)
		if got := out.Group(i).Run.Environment; !ok || got != want {
			t.Errorf("%s is in environment %q, want %q", name, got, want)
		}
	}
	if i, _ := g.Lookup("t"); g.Group(i).Run.Environment != "" || len(g.Environments) != 1 {
		t.Error("the graph itself was changed")
	}
	back, err := dag.Decode(out.Encode())
	if err != nil || !reflect.DeepEqual(back.Environments, out.Environments) {
		t.Errorf("decoded %v, %v", back, err)
	}
	if _, err := out.WithProgram(env); err == nil {
		t.Error("a graph has two environments of a program")
	}
	if _, err := g.WithProgram(dag.Environment{Name: "other"}); err == nil {
		t.Error("an environment of another name is one of a program")
	}
}

// A graph without binaries for platforms is encoded as versions before them do it.
func TestEncodingWithoutPlatforms(t *testing.T) {
	for _, text := range []string{"{go: ./f}", "{binary: ./f}", "{binary: ./f, container: debian}"} {
		g, err := platformJob(t, text)
		if err != nil {
			t.Fatal(err)
		}
		if g.NamesPlatforms() || bytes.Contains(g.Encode(), []byte("linux/")) {
			t.Errorf("%s names platforms", text)
		}
	}
}

func TestBinaryMistakes(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"{}", "binary names no program"},
		{"{linux: f}", `"linux" is no platform (write SYSTEM/ARCHITECTURE, such as linux/amd64)`},
		{"{linux/x86_64: f}", `"linux/x86_64" is no platform (Go calls it linux/amd64)`},
		{"{linux/aarch64: f}", "Go calls it linux/arm64"},
		{"{linux/z80: f}", `"linux/z80" is no platform (architectures are 386, amd64`},
		{"{darwin/arm64: f}", `no agent is of platform "darwin/arm64" (agents run on linux`},
		{"{linux/amd64: ''}", "its binary for linux/amd64 has no path"},
		{"{linux/amd64: 'package:x'}", `"package:x" is no package`},
		{"{linux/amd64: 'http://h/f'}", ""},
		{"[f]", "binary"},
	} {
		if _, err := platformJob(t, "{binary: "+c.text+"}"); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.text, err, c.want)
		}
	}
	if _, err := platformJob(t, "{go: ./f, binary: {linux/amd64: f}}"); err == nil || !strings.Contains(err.Error(), "more than one of go, python and binary") {
		t.Errorf("go and binary: %v", err)
	}
	twice := []dag.Binary{{Platform: "linux/amd64", Path: "a"}, {Platform: "linux/amd64", Path: "b"}}
	g, err := platformJob(t, "{binary: f}")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range []dag.Environment{{Name: "fast", Binaries: twice}, {Name: "fast", Binary: "f", Binaries: twice[:1]}} {
		if _, err := g.WithEnvironments([]dag.Environment{e}); err == nil {
			t.Errorf("%+v was taken", e)
		}
	}
}
