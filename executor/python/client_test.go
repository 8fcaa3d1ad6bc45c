//go:build linux

package python_test

import (
	"bytes"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cascade-run/cascade/agent/runtimeenv"
	"github.com/cascade-run/cascade/cascadetest"
	"github.com/cascade-run/cascade/dag"
	"github.com/cascade-run/cascade/executor/python"
	"github.com/cascade-run/cascade/internal/needs"
)

// interpreter returns a Python that has NumPy and cloudpickle, and the environment
// in which it finds the package cascade.
func interpreter(t *testing.T) (path string, env []string) {
	t.Helper()
	user, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	cache := runtimeenv.New(filepath.Join(user, "cascade", "environments")) // the agent's own
	t.Cleanup(func() {
		if err := cache.Close(); err != nil {
			t.Error(err)
		}
	})
	built, err := cache.Prepare(t.Context(), dag.Environment{Name: "client", Python: &dag.Python{Pip: []string{"numpy", "cloudpickle"}}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return built.Command[0], slices.Concat(os.Environ(), built.Env)
}

// A program of a user talks to a cluster: what it prints is the golden file.
func TestClient(t *testing.T) {
	needs.Python(t)
	python, env := interpreter(t)
	dir, err := filepath.Abs("testdata")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), python, "client.py", programs(t))
	cmd.Dir, cmd.Env = dir, append(env, "PYTHONDONTWRITEBYTECODE=1")
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v\n%s\n%s", err, out.String(), errs.String())
	}
	same(t, "testdata/client.golden", out.String())
}

// Who is gone, refuses or sends too little ends no program in a wait.
func TestLost(t *testing.T) { program(t, "lost") }

// An executor's link over pipes takes messages as they come, and nothing else.
func TestPipes(t *testing.T) { program(t, "pipes") }

// program runs a program of testdata: what it prints is its golden file.
func program(t *testing.T, name string) {
	t.Helper()
	needs.Python(t)
	python, env := interpreter(t)
	cmd := exec.CommandContext(t.Context(), python, "testdata/"+name+".py")
	cmd.Env = append(env, "PYTHONDONTWRITEBYTECODE=1")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	same(t, "testdata/"+name+".golden", string(out))
}

// The package reads and writes the messages of the transcripts as they stand there.
func TestTranscripts(t *testing.T) {
	needs.Python(t)
	python, env := interpreter(t)
	files, err := filepath.Glob("../../comms/testdata/transcripts/*.txt")
	files = slices.DeleteFunc(files, func(f string) bool { return filepath.Base(f) == "schema.txt" })
	if err != nil || len(files) == 0 {
		t.Fatal("no transcripts", err)
	}
	cmd := exec.CommandContext(t.Context(), python, append([]string{"testdata/transcripts.py"}, files...)...)
	cmd.Env = env
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.HasSuffix(string(out), " 0 bad\n") {
		t.Errorf("%v\n%s", err, out)
	}
}

// The queue of an executor gives back what it is asked for, but what lives on a run that goes on.
func TestQueue(t *testing.T) {
	needs.Python(t)
	python, env := interpreter(t)
	cmd := exec.CommandContext(t.Context(), python, "testdata/queue.py")
	cmd.Env = append(env, "PYTHONDONTWRITEBYTECODE=1")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// Every file of the package is embedded, and no other.
func TestFiles(t *testing.T) {
	var have, want []string
	walk := func(root fs.FS, to *[]string) {
		err := fs.WalkDir(root, ".", func(path string, d fs.DirEntry, err error) error {
			if err == nil && !d.IsDir() && (strings.HasPrefix(path, "cascade/") && !strings.Contains(path, "__pycache__") || path == "pyproject.toml" || path == "README.md") {
				*to = append(*to, path)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	walk(python.Files, &have)
	walk(os.DirFS("."), &want)
	if !slices.Equal(have, want) {
		t.Errorf("embedded are %v, the package has %v", have, want)
	}
}

// The programs of docs/python.md do what it says.
func TestDocs(t *testing.T) {
	needs.Python(t)
	text, err := os.ReadFile("../../docs/python.md")
	if err != nil {
		t.Fatal(err)
	}
	dir, blocks, printed := t.TempDir(), 0, ""
	for part := range strings.SplitSeq(string(text), "\n```") {
		kind, body, _ := strings.Cut(part, "\n")
		if name, ok := strings.CutPrefix(body, "# "); ok && (kind == "python" || kind == "yaml") {
			name, _, _ = strings.Cut(name, "\n")
			if err := os.WriteFile(filepath.Join(dir, name), []byte(body+"\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			blocks++
		}
		if kind == "text" {
			printed = body + "\n"
		}
	}
	if blocks != 3 || printed == "" {
		t.Fatalf("the page has %d programs, and prints %q", blocks, printed)
	}
	c := cascadetest.Start(t)
	same(t, "testdata/docs.golden", outcome(t, c, submit(t, c, filepath.Join(dir, "job.yaml"))))

	python, env := interpreter(t)
	const begin = `import os, runpy, sys, cascade
with cascade.local(store="64MiB", programs=sys.argv[1]) as c:
    os.environ["CASCADE_TO"] = c.address
    runpy.run_path("program.py", run_name="__main__")`
	cmd := exec.CommandContext(t.Context(), python, "-c", begin, programs(t))
	cmd.Dir, cmd.Env = dir, env
	var errs bytes.Buffer
	cmd.Stderr = &errs
	if out, err := cmd.Output(); err != nil || string(out) != printed {
		t.Errorf("%v\n%s\nprinted\n%swant\n%s", err, errs.String(), out, printed)
	}
}

// programs builds the daemons.
func programs(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if out, err := exec.Command("go", "build", "-o", dir, "../../cmd/cascade-controller", "../../cmd/cascade-agent").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return dir
}
