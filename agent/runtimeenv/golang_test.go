package runtimeenv

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cascade-run/cascade/dag"
	"github.com/cascade-run/cascade/internal/testing/testmodule"
)

func listing(t *testing.T, dir string) string {
	t.Helper()
	var names []string
	err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		names = append(names, path)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(names, "\n")
}

func TestGoBuild(t *testing.T) {
	dir := testmodule.Make(t, map[string]string{
		"internal/double/double.go": testmodule.Double, // may only be imported from inside the module
	})
	before := listing(t, dir)
	cache := New(t.TempDir())
	env := dag.Environment{Name: "double", Go: "./internal/double", Source: dir, Vars: map[string]string{"MODE": "fast"}}
	act, err := cache.Prepare(t.Context(), env, nil)
	if err != nil {
		t.Fatal(err)
	}
	if !act.Built || len(act.Command) != 1 || strings.Join(act.Env, " ") != "MODE=fast" {
		t.Errorf("activation %+v", act)
	}
	// Without an agent the program has nothing to do, but it must start: that registers its functions.
	if out, err := exec.Command(act.Command[0]).CombinedOutput(); err != nil {
		t.Errorf("start the executor: %v: %s", err, out)
	}
	if after := listing(t, dir); after != before {
		t.Errorf("the module changed from\n%s\nto\n%s", before, after)
	}
	again, err := cache.Prepare(t.Context(), env, nil)
	if err != nil || again.Built || again.Command[0] != act.Command[0] {
		t.Errorf("second time: %+v, %v", again, err)
	}
}

func TestGoKey(t *testing.T) {
	files := map[string]string{
		"double/double.go":      strings.Replace(testmodule.Double, `"context"`, "\"context\"\n\t_ \"embed\"\n\t_ \"example.com/user/used\"", 1) + "\n//go:embed table.txt\nvar Table string\n",
		"double/table.txt":      "1",
		"double/double_test.go": "package double\n",
		"used/used.go":          "package used\n",
		"other/other.go":        "package other\n",
	}
	dir := testmodule.Make(t, files)
	key := func(dir string) string {
		t.Helper()
		k, err := new(goPlugin).Key(t.Context(), dag.Environment{Go: "double", Source: dir})
		if err != nil {
			t.Fatal(err)
		}
		return k
	}
	first := key(dir)
	if elsewhere := key(testmodule.Make(t, files)); elsewhere != first {
		t.Errorf("the same files in another folder have another key")
	}
	for _, c := range []struct {
		file, text string
		changes    bool
	}{
		{"other/other.go", "package other\n\nvar X int\n", false},
		{"double/double_test.go", "package double\n\nvar X int\n", false},
		{"used/used.go", "package used\n\nvar X int\n", true},
		{"double/table.txt", "2", true},
		{"double/more.go", "package double\n", true},
		{"go.sum", read(t, filepath.Join(dir, "go.sum")) + "example.com/x v1.0.0 h1:47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=\n", true},
	} {
		before := key(dir)
		testmodule.Add(t, dir, map[string]string{c.file: c.text})
		if changed := key(dir) != before; changed != c.changes {
			t.Errorf("%s: key changed: %t", c.file, changed)
		}
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestGoMistakes(t *testing.T) {
	dir := testmodule.Make(t, map[string]string{
		"broken/broken.go": testmodule.Double + "\nvar x int = \"text\"\n",
		"syntax/syntax.go": "package syntax\n\nfunc {\n",
		"empty/README":     "",
		"file.go":          "package user\n",
	})
	lonely := t.TempDir()
	testmodule.Add(t, lonely, map[string]string{"go.mod": "module lonely\n\ngo 1.26\n", "x.go": "package x\n"})
	for _, c := range []struct {
		name, source, path string
		want               []string
	}{
		{"type error", dir, "broken", []string{`environment "e": go build in `, "broken.go:24:13: cannot use \"text\""}},
		{"syntax error", dir, "./syntax", []string{"syntax.go:3:6: "}},
		{"no package", dir, "empty", []string{"no Go files in"}},
		{"no folder", dir, "nowhere", []string{"go: nowhere: there is no folder " + dir + "/nowhere"}},
		{"a file", dir, "file.go", []string{"want the folder of a Go package, not a file"}},
		{"another module", lonely, ".", []string{"must be in a module that requires github.com/cascade-run/cascade"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := New(t.TempDir()).Prepare(t.Context(), dag.Environment{Name: "e", Go: c.path, Source: c.source}, nil)
			if err == nil {
				t.Fatal("no error")
			}
			for _, w := range c.want {
				if !strings.Contains(err.Error(), w) {
					t.Errorf("%q is missing in: %v", w, err)
				}
			}
			var build *BuildError
			if errors.As(err, &build) && build.Output == "" {
				t.Error("the compiler's words are missing")
			}
		})
	}
}
