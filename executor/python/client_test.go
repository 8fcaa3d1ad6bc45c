//go:build linux

package python_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cascade-run/cascade/agent/runtimeenv"
	"github.com/cascade-run/cascade/cascadetest"
	"github.com/cascade-run/cascade/dag"
	"github.com/cascade-run/cascade/executor/python"
	"github.com/cascade-run/cascade/internal/screen"
	"github.com/cascade-run/cascade/internal/testing/pyenv"
)

// interpreter returns a Python that has NumPy, cloudpickle and PyYAML, and the environment
// in which it finds the package cascade; more are further packages.
func interpreter(t *testing.T, more ...string) (path string, env []string) {
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
	built, err := cache.Prepare(t.Context(), dag.Environment{Name: "client", Python: &dag.Python{Pip: append([]string{"numpy", "cloudpickle", "pyyaml"}, more...)}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return built.Command[0], slices.Concat(os.Environ(), built.Env)
}

// A program of a user talks to a cluster: what it prints is the golden file.
func TestClient(t *testing.T) {
	pyenv.Python(t)
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

// A peer that is gone, refuses or sends too little ends no program in a wait.
func TestLost(t *testing.T) { program(t, "lost") }

// What has not changed since it was packed last is not read again.
func TestKnown(t *testing.T) { program(t, "known") }

// Archives at addresses come although servers are busy or break off; what cannot come is told at once.
func TestDownload(t *testing.T) { program(t, "download") }

// What a job file names on this host is sealed; the rest of its text stays as it is, and where it is.
func TestJobText(t *testing.T) { program(t, "jobtext") }

// What a function does not take is told when its task is added, with the function's parameters.
func TestArguments(t *testing.T) { program(t, "arguments") }

// Arguments for which a job file has no words arrive as they are; large ones are sent once, as inputs.
func TestGiven(t *testing.T) { program(t, "given", programs(t)) }

// Who waits for an environment is told so, and once it is ready for how long that was.
func TestBuilds(t *testing.T) { program(t, "builds") }

// A tensor that one task hands to the next stays on its device.
func TestHanded(t *testing.T) { program(t, "handed") }

// A large result is a view of shared memory, and what it was whatever becomes of its job and the cluster.
func TestViews(t *testing.T) {
	run, err := os.MkdirTemp("", "cascade") // a socket's path must be short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(run); err != nil {
			t.Error(err)
		}
	})
	program(t, "views", programs(t), run)
}

// Text of tasks and of other hosts does nothing to a terminal in an exception or beside the
// progress: it is as the commands show it.
func TestScreen(t *testing.T) {
	pyenv.Python(t)
	python, env := interpreter(t)
	texts := []string{"plain [2,500] € 北京", "\x1b]0;PWN\x07", "a\n\tb\r\n", "\b\x7f", "\u009b31m\u0085", "\u202e\u2066\u200f\u061c", "\u200b\ufeff\u00ad\u3164\u2065",
		"\u2028\u2029", "\U000e0041\U000e0100", "\u0600\u0661\ufffd", "✔\ufe0f"}
	for r := rune(0); r < 0x100; r++ {
		texts = append(texts, string(r))
	}
	cases, err := json.Marshal(texts)
	if err != nil {
		t.Fatal(err)
	}
	var got []struct{ Text, Line, Failed, Refused string }
	if err := json.Unmarshal([]byte(prints(t, ".", env, python, "testdata/screen.py", string(cases))), &got); err != nil || len(got) != len(texts) {
		t.Fatal(len(got), err)
	}
	for i, s := range texts {
		if want := screen.Text(s); got[i].Text != want || got[i].Line != screen.Line(s) || !strings.HasSuffix(got[i].Failed, ": "+want) || got[i].Refused != want {
			t.Errorf("%q is %q, want %q", s, got[i], want)
		}
	}
}

// Tasks that are alike are one family: those of map, and of a function that is added in a loop.
func TestFamilies(t *testing.T) {
	pyenv.Python(t)
	python, env := interpreter(t)
	same(t, "testdata/families.golden", prints(t, "testdata", env, python, "families.py", programs(t)))
}

// Outputs become files by the rules that the Go client has.
func TestOutputFiles(t *testing.T) {
	program(t, "outfiles")
}

// In a notebook functions travel by value, and progress is an output of the cell.
func TestNotebook(t *testing.T) {
	pyenv.Python(t)
	python, env := interpreter(t, "ipykernel==7.4.0", "nbclient==0.11.0")
	env = append(env, "JUPYTER_RUNTIME_DIR="+t.TempDir(), "IPYTHONDIR="+t.TempDir(), "JUPYTER_PLATFORM_DIRS=1")
	same(t, "testdata/notebook.golden", prints(t, ".", env, python, "testdata/notebook.py", programs(t)))
}

// A result comes when it is there; threads wait beside each other, until another, a signal or the end of the link ends that.
func TestThreads(t *testing.T) { program(t, "threads", programs(t)) }

// A cluster ends with the program that started it, also when that is killed.
func TestLocalEnds(t *testing.T) { program(t, "ends", programs(t)) }

// pip installs the package from its folder, with the two programs' client.
func TestInstall(t *testing.T) {
	pyenv.Python(t)
	source, target := sources(t), t.TempDir()
	path, env := interpreter(t, "pip")
	prints(t, ".", env, path, "-m", "pip", "install", "--quiet", "--no-deps", "--target", target, source)
	env = append(env, "PYTHONPATH="+target)
	const code = `import cascade, cascade.client, os; from importlib.metadata import metadata
print(os.path.dirname(os.path.dirname(cascade.__file__)), os.path.exists(cascade.__path__[0] + "/py.typed"), metadata("cascade-run")["Version"] == cascade.__version__)`
	if got, want := prints(t, ".", env, path, "-P", "-c", code), target+" True True\n"; got != want {
		t.Errorf("it says %s, want %s", got, want)
	}
}

// The package is typed: mypy, at its strictest, finds nothing.
func TestTyped(t *testing.T) {
	pyenv.Python(t)
	python, env := interpreter(t, "mypy==2.4.1", "pyzmq")
	cmd := exec.CommandContext(t.Context(), python, "-m", "mypy", "--cache-dir", t.TempDir(), "cascade")
	cmd.Env = append(env, "PYTHONPATH=") // that of the environment has this package too
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// An executor's link over pipes takes messages as they come, and nothing else.
func TestPipes(t *testing.T) { program(t, "pipes") }

// A client's link over a Unix socket says what it received when that is due, and
// is only for those that leave it alone while its program is busy.
func TestStream(t *testing.T) { program(t, "stream") }

// program runs a program of testdata with arguments: its output is its golden file.
func program(t *testing.T, name string, args ...string) {
	t.Helper()
	pyenv.Python(t)
	python, env := interpreter(t)
	same(t, "testdata/"+name+".golden", prints(t, ".", env, python, append([]string{"testdata/" + name + ".py"}, args...)...))
}

// The package reads and writes the messages of the transcripts as they stand there.
func TestTranscripts(t *testing.T) {
	pyenv.Python(t)
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
	pyenv.Python(t)
	python, env := interpreter(t)
	cmd := exec.CommandContext(t.Context(), python, "testdata/backlog.py")
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
			if err == nil && !d.IsDir() && strings.HasPrefix(path, "cascade/") && !strings.Contains(path, "__pycache__") {
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

// write puts the programs and job files of a page, which begin with "# NAME", into a
// folder, and returns their names.
func write(t *testing.T, page, dir string) (names []string) {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	for part := range strings.SplitSeq(string(text), "\n```") {
		kind, body, _ := strings.Cut(part, "\n")
		first, _, _ := strings.Cut(body, "\n")
		if name, ok := strings.CutPrefix(first, "# "); ok && (kind == "python" || kind == "yaml") {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(body+"\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			names = append(names, name)
		}
	}
	return names
}

// The programs of docs/python.md do what it says.
func TestDocs(t *testing.T) {
	pyenv.Python(t)
	const page = "../../docs/python.md"
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	var printed []string
	for _, part := range strings.Split(string(text), "\n```text\n")[1:] {
		said, _, _ := strings.Cut(part, "```")
		printed = append(printed, said)
	}
	dir := t.TempDir()
	if names := write(t, page, dir); len(names) != 5 || len(printed) != 2 {
		t.Fatalf("the page has %v, and prints %q", names, printed)
	}
	c := cascadetest.Start(t)
	same(t, "testdata/docs.golden", outcome(t, c, submit(t, c, filepath.Join(dir, "job.yaml"))))

	const begin = `import os, runpy, sys, cascade
with cascade.local(store="64MiB", programs=sys.argv[1]) as c:
    os.environ["CASCADE_TO"] = c.address
    runpy.run_path("program.py", run_name="__main__")`
	python, env := interpreter(t)
	daemons := programs(t)
	if out := prints(t, dir, env, python, "-c", begin, daemons); out != printed[1] {
		t.Errorf("printed\n%swant\n%s", out, printed[1])
	}
	env = append(env, "PATH="+daemons+string(os.PathListSeparator)+os.Getenv("PATH"))
	if out := prints(t, dir, env, python, "study.py"); out != printed[0] {
		t.Errorf("printed\n%swant\n%s", out, printed[0])
	}
}

// The program of the README prints the long words.
func TestReadme(t *testing.T) {
	pyenv.Python(t)
	dir := t.TempDir()
	if names := write(t, "../../README.md", dir); !slices.Equal(names, []string{"program.py"}) {
		t.Fatalf("the README has %v", names)
	}
	if err := os.WriteFile(filepath.Join(dir, "LICENSE"), []byte("Terms of distribution: Modification or DISTRIBUTION\nof notwithstanding Modification\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	python, env := interpreter(t)
	env = append(env, "PATH="+programs(t)+string(os.PathListSeparator)+os.Getenv("PATH"))
	if out := prints(t, dir, env, python, "program.py"); out != "['distribution', 'modification', 'notwithstanding']\n" {
		t.Errorf("it printed %q", out)
	}
}

// The program of the package's README prints what it says.
func TestPackageReadme(t *testing.T) {
	pyenv.Python(t)
	dir := t.TempDir()
	if names := write(t, "README.md", dir); !slices.Equal(names, []string{"calls.py", "tasks.py", "program.py"}) {
		t.Fatalf("the README has %v", names)
	}
	python, env := interpreter(t)
	env = append(env, "PATH="+programs(t)+string(os.PathListSeparator)+os.Getenv("PATH"))
	if out := prints(t, dir, env, python, "calls.py"); out != "[0, 1, 4, 9]\n" {
		t.Errorf("it printed %q", out)
	}
	if out := prints(t, dir, env, python, "program.py"); out != "[True, [0, 1, 4, 9]]\n" {
		t.Errorf("it printed %q", out)
	}
}

// prints runs a program in a folder and returns its standard output.
func prints(t *testing.T, dir string, env []string, path string, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), hangs)
	defer cancel()
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Dir, cmd.Env = dir, append(env, "PYTHONDONTWRITEBYTECODE=1")
	cmd.WaitDelay = 5 * time.Second // its children may hold what it prints to
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if ctx.Err() != nil && t.Context().Err() == nil {
		t.Fatalf("%s has not ended within %v; it has printed\n%s%s", path, hangs, out, errs.String())
	}
	if err != nil {
		t.Fatalf("%v\n%s", err, errs.String())
	}
	return string(out)
}

// hangs is the time after which a program is said to hang, far longer than any takes.
const hangs = 4 * time.Minute
