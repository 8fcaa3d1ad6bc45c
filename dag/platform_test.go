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
