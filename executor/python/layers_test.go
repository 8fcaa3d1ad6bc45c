package python_test

import (
	"io/fs"
	"path"
	"regexp"
	"strings"
	"testing"

	"github.com/cascade-run/cascade/executor/python"
)

// No module of the executor imports another that needs it, not even for types alone.
func TestExecutorModulesHaveNoCircle(t *testing.T) {
	of := regexp.MustCompile(`(?m)^\s*from \.(\w+) import`)
	imports := map[string][]string{}
	files, err := fs.Glob(python.Files, "cascade/executor/*.py")
	if err != nil || len(files) < 10 {
		t.Fatal(len(files), err)
	}
	for _, file := range files {
		text, err := fs.ReadFile(python.Files, file)
		if err != nil {
			t.Fatal(err)
		}
		name := strings.TrimSuffix(path.Base(file), ".py")
		for _, m := range of.FindAllSubmatch(text, -1) {
			imports[name] = append(imports[name], string(m[1]))
		}
	}
	var visit func(way []string, name string)
	visit = func(way []string, name string) {
		for i, before := range way {
			if before == name {
				t.Fatalf("modules import each other: %s", strings.Join(append(way[i:], name), " -> "))
			}
		}
		for _, to := range imports[name] {
			visit(append(way, name), to)
		}
	}
	visit(nil, "__main__")
}
