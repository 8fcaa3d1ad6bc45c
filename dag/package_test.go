package dag_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/cascade-run/cascade/dag"
)

func TestParsePackage(t *testing.T) {
	hash := strings.Repeat("0a", 32)
	for _, c := range []struct {
		text string
		ok   bool
	}{
		{"package:sha256:" + hash + "/lib", true},
		{"package:sha256:" + hash + "/a b.py", true},
		{"package:sha256:" + hash, false},
		{"package:sha256:" + hash + "/", false},
		{"package:sha256:" + hash + "/..", false},
		{"package:sha256:" + hash + "/../x", false},
		{"package:sha256:" + strings.ToUpper(hash) + "/lib", false},
		{"package:sha256:" + hash[2:] + "/lib", false},
		{"package:sha256:" + hash + "0a/lib", false},
		{"package:md5:" + hash + "/lib", false},
		{"./lib", false},
		{"", false},
	} {
		p, ok := dag.ParsePackage(c.text)
		if ok != c.ok || ok && p.String() != c.text {
			t.Errorf("%q: %v, %v", c.text, p, ok)
		}
	}
}

func FuzzParsePackage(f *testing.F) {
	f.Add("package:sha256:" + strings.Repeat("0a", 32) + "/lib")
	f.Fuzz(func(t *testing.T, text string) {
		if p, ok := dag.ParsePackage(text); ok && p.String() != text {
			t.Errorf("%q became %q", text, p)
		}
	})
}

func TestGraphPackages(t *testing.T) {
	one, two := strings.Repeat("01", 32), strings.Repeat("02", 32)
	g, err := dag.ParseYAML("job.yaml", []byte(`
job: j
environments:
  a: {python: {}, working_dir: "package:sha256:`+one+`/w", py_modules: ["package:sha256:`+two+`/m", ./here]}
  b: {binary: "package:sha256:`+one+`/w"}
tasks: {t: {run: "b:F"}}
`), dag.Override{}, dag.Options{})
	if err != nil {
		t.Fatal(err)
	}
	want := []dag.Package{{Hash: one, Name: "w"}, {Hash: two, Name: "m"}}
	if got := g.Packages(); !slices.Equal(got, want) {
		t.Errorf("packages %v, want %v", got, want)
	}
	envs := slices.Clone(g.Environments)
	envs[1].Binary = "./b"
	other, err := g.WithEnvironments(envs)
	if err != nil || other.Environments[1].Binary != "./b" || g.Environments[1].Binary == "./b" || other.NumTasks() != g.NumTasks() {
		t.Errorf("with other environments: %v, %v", other.Environments, err)
	}
	if back, err := dag.Decode(other.Encode()); err != nil || back.Environments[1].Binary != "./b" {
		t.Errorf("decoded: %v, %v", back, err)
	}
	envs[1].Binary = "package:sha256:1/x"
	if _, err := g.WithEnvironments(envs); err == nil || !strings.Contains(err.Error(), "is no package") {
		t.Errorf("error %v", err)
	}
}
