// Package testmodule makes Go modules for tests: modules of users, which use this
// one by a replace directive. Nothing is downloaded: they require what this
// module requires.
package testmodule

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Make writes a module example.com/user with files into a new folder and returns it.
func Make(t testing.TB, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	root := ours(t)
	mod, sum := read(t, filepath.Join(root, "go.mod")), read(t, filepath.Join(root, "go.sum"))
	_, rest, _ := strings.Cut(mod, "\n") // without the module line
	Add(t, dir, map[string]string{
		"go.sum": sum,
		"go.mod": "module example.com/user\n" + rest +
			"\nrequire github.com/cascade-run/cascade v0.0.0\n\nreplace github.com/cascade-run/cascade => " + root + "\n",
	})
	Add(t, dir, files)
	return dir
}

// Add writes files into a folder.
func Add(t testing.TB, dir string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// ours returns the folder of the module that is under test.
func ours(t testing.TB) string {
	t.Helper()
	out, err := exec.Command("go", "env", "GOMOD").Output()
	if err != nil {
		t.Fatalf("go env GOMOD: %v", err)
	}
	return filepath.Dir(strings.TrimSpace(string(out)))
}

func read(t testing.TB, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// Double is the text of a package with one function for tasks, "double".
const Double = `package double

import (
	"context"

	"github.com/cascade-run/cascade/executor"
)

type params struct{ N int }

func double(_ context.Context, p params) (int, error) { return 2 * p.N, nil }

var _ = register()

func register() bool {
	executor.Default.Register(&executor.Func{Name: "double", Call: func(ctx context.Context, in, out []any) error {
		n, err := double(ctx, executor.As[params](in[0]))
		out[0] = n
		return err
	}}, double, "with -> n")
	return true
}
`
