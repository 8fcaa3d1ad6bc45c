//go:build linux

package tune_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/cascade-run/cascade/tune"
	"github.com/cascade-run/cascade/tune/core"
	"github.com/cascade-run/cascade/tune/space"
)

// TestServe runs trials in programs that serve several: what each says, how it ends, and what becomes of its trials.
func TestServe(t *testing.T) {
	const each = `while read -r r; do case "$r" in *'"do":"start"'*) `
	const heir = `read -r r; setsid sh -c 'echo $$ >> "$0/heirs"; exec sleep 1000' "$1" & while ! [ -s "$1/heirs" ]; do :; done; `
	for _, c := range []struct {
		name, script string
		class        bool
		options      tune.Options
		status       core.Status
		results      int
		says         string // in the errors
	}{
		{"reports and is done", each + `echo '{"report": {"loss": 1}}';; *go*) echo '{"done": true}';; esac; done`, false, tune.Options{}, core.Terminated, 1, ""},
		{"is stopped", each + `echo '{"report": {"loss": 1}}';; *go*) echo '{"report": {"loss": 2}}';; *stop*) echo '{"done": true}';; esac; done`, false,
			tune.Options{Stop: []core.Condition{{Key: "loss", Value: 2}}}, core.Terminated, 2, ""},
		{"reports although it was stopped", `while read -r r; do echo '{"report": {"loss": 2}}'; done`, false, tune.Options{Stop: []core.Condition{{Key: "loss", Value: 2}}}, core.Terminated, 1, ""},
		{"an error", each + `echo '{"error": "no data"}';; esac; done`, false, tune.Options{}, core.Errored, 0, "no data"},
		{"dies", `read -r r; echo "why it dies" >&2; exit 3`, false, tune.Options{}, core.Errored, 0, "exit status 3\nwhy it dies"},
		{"dies after a report", each + `echo '{"report": {"loss": 1}}';; *go*) kill -9 $$;; esac; done`, false, tune.Options{}, core.Errored, 1, "signal: killed"},
		{"says what is no JSON", `read -r r; echo hello; read -r r`, false, tune.Options{}, core.Errored, 0, `read the answer "hello`},
		{"a line without end", `read -r r; head -c 3000000 /dev/zero | tr '\0' x`, false, tune.Options{}, core.Errored, 0, "a line of the output of /bin/sh has more than 1048576 bytes"},
		{"a line without end of a program that goes on", `read -r r; tr '\0' x </dev/zero`, false, tune.Options{}, core.Errored, 0, "has more than 1048576 bytes"},
		{"says nothing", `while read -r r; do echo '{}'; done`, false, tune.Options{}, core.Errored, 0, "want one with error, report, done"},
		{"says what was not asked", `while read -r r; do echo '{"ok": true}'; done`, false, tune.Options{}, core.Errored, 0, "want one with error, report, done"},
		{"answers another request", `read -r r; echo '{"n": 7, "done": true}'; read -r r`, false, tune.Options{}, core.Errored, 0, "it is for request 7, and this was request 1"},
		{"answers twice", `read -r r; echo '{"n": 1, "report": {"loss": 1}}'; echo '{"n": 1, "report": {"loss": 1}}'; read -r r; read -r r`, false, tune.Options{}, core.Errored, 1,
			"it is for request 1, and this was request 2"},
		{"an object that reports nothing", each + `echo '{"ok": true}';; *) echo '{"ok": true}';; esac; done`, true, tune.Options{}, core.Errored, 0, "want one with error, report"},
		{"dies, and a process of another group holds its output", heir + `exit 3`, false, tune.Options{}, core.Errored, 0, "exit status 3"},
		{"says what is no JSON, and a process of another group holds its output", heir + `echo hello; read -r r`, false, tune.Options{}, core.Errored, 0, `read the answer "hello`},
		{"an object", each + `n=0; echo '{"ok": true}';; *step*) n=$((n+1)); echo "{\"report\": {\"loss\": $n, \"done\": $([ $n = 3 ] && echo true || echo false)}}";; *) echo '{"ok": true}';; esac; done`, true,
			tune.Options{}, core.Terminated, 3, ""},
		{"an object that cannot be made", each + `echo '{"error": "no such model"}';; *) echo '{"ok": true}';; esac; done`, true, tune.Options{}, core.Errored, 0, "no such model"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			storage := t.TempDir()
			defer killAll(t, filepath.Join(storage, "s", "heirs"))
			g, err := (&tune.Tuner{Name: "s", Storage: storage, Trainable: tune.Serve(tune.ServeSpec{Args: []string{"/bin/sh", "-c", c.script, "sh", "{experiment}"}, Class: c.class}),
				Space: space.Space{"x": space.GridSearch(1, 2, 3)}, Options: c.options, Executor: tune.Local(1), Reuse: true}).Run(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			for _, o := range g.Trials {
				if o.Status != c.status || o.Results != c.results || !strings.Contains(o.Error, c.says) {
					t.Errorf("%s is %s with %d results, want %s with %d: %q, want %q", o.Name, o.Status, o.Results, c.status, c.results, o.Error, c.says)
				}
			}
		})
	}
}

// killAll ends the processes whose numbers are in a file, if there is one.
func killAll(t *testing.T, path string) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	for line := range strings.Lines(string(b)) {
		pid, err := strconv.Atoi(strings.TrimSpace(line))
		if err == nil {
			err = unix.Kill(pid, unix.SIGKILL)
		}
		if err != nil || !ends(pid) {
			t.Errorf("process %q still runs: %v", line, err)
		}
	}
}

// TestIdleProcessEnds has the process of a worker end between two trials: the next one has a new process.
func TestIdleProcessEnds(t *testing.T) {
	for _, c := range []struct {
		name, script string
		class        bool
	}{
		{"a function", `while read -r r; do echo $$ >> "$1/pids"; echo '{"done": true}'; done`, false},
		{"an object", `while read -r r; do case "$r" in *start*) echo $$ >> "$1/pids"; echo '{"ok": true}';; *step*) echo '{"report": {"done": true}}';; *) echo '{"ok": true}';; esac; done`, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			folder := t.TempDir()
			w, err := tune.Local(1).Worker(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer w.Close()
			for trial := range core.ID(2) {
				b, err := w.Start(t.Context(), tune.Request{Trainable: tune.Serve(tune.ServeSpec{Args: []string{"/bin/sh", "-c", c.script, "sh", "{experiment}"}, Class: c.class}),
					Folder: folder, Trial: trial, Attempt: 1, Credit: core.Credit{Reports: 9}, Reuse: true})
				for err == nil && !b.Done && b.Cause == "" {
					b, err = w.Next(t.Context(), nil)
				}
				if err != nil || b.Cause != "" {
					t.Fatalf("trial %d: %s: %s, %v", trial, b.Cause, b.Error, err)
				}
				if err := w.Stop(t.Context()); err != nil {
					t.Fatal(err)
				}
				if trial == 0 {
					killAll(t, filepath.Join(folder, "pids"))
				}
			}
			if b, err := os.ReadFile(filepath.Join(folder, "pids")); err != nil || strings.Count(string(b), "\n") != 2 {
				t.Errorf("the processes are %q, want two, %v", b, err)
			}
		})
	}
}

// TestSearchersHearTheEnd has a program be slow to listen: it listens to the first result until the experiment has
// ended, and is then told of all that it has not heard.
func TestSearchersHearTheEnd(t *testing.T) {
	dir := t.TempDir()
	gate := filepath.Join(dir, "gate")
	if err := unix.Mkfifo(gate, 0o600); err != nil {
		t.Fatal(err)
	}
	script := `while read -r r; do case "$r" in
*suggest*) echo '{"config": {"x": 1}}';;
*result*) [ -e "$0/heard" ] || read -r x < "$0/gate"; echo result >> "$0/heard"; echo '{"ok": true}';;
*complete*) echo complete >> "$0/heard"; echo '{"ok": true}';;
esac; done`
	_, err := (&tune.Tuner{Name: "s", Storage: dir, Trainable: tune.Command(tune.CommandSpec{Args: []string{"/bin/sh", "-c", `for i in 1 2 3 4 5 6 7 8 9; do echo '{"loss": 1}'; done`}}),
		Program: &tune.SearcherSpec{Args: []string{"/bin/sh", "-c", script, dir}}, Options: tune.Options{Metric: "loss", Samples: 1}, Executor: tune.Local(1),
		Callbacks: []tune.Callback{func(n tune.Notice) error {
			if n.Kind != core.Finish {
				return nil
			}
			return os.WriteFile(gate, []byte("go\n"), 0o600)
		}}}).Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(filepath.Join(dir, "heard"))
	if want := strings.Repeat("result\n", 9) + "complete\n"; err != nil || string(b) != want {
		t.Errorf("the searcher heard\n%s\nwant\n%s, %v", b, want, err)
	}
}

// TestSearcherPrograms has programs suggest: what they answer, and that the experiment ends with one that fails.
func TestSearcherPrograms(t *testing.T) {
	for _, c := range []struct {
		name, script, says string
		trials             int
	}{
		{"suggests two", `n=0; while read -r r; do case "$r" in *suggest*) n=$((n+1)); if [ $n -gt 2 ]; then echo '{"finished": true}'; else echo "{\"config\": {\"x\": $n}}"; fi;; *) echo '{"ok": true}';; esac; done`, "", 2},
		{"fails", `while read -r r; do echo '{"error": "no model"}'; done`, "the searcher failed: trial 0: no model", 0},
		{"dies", `read -r r; echo "out of luck" >&2; exit 4`, "out of luck", 0},
		{"says nothing", `while read -r r; do echo '{}'; done`, "want one with error, config, not_now, finished", 0},
		{"hears nothing", `read -r r; echo '{"config": {"x": 1}}'; while read -r r; do echo '{}'; done`, "want one with error, ok", 1},
		{"sleeps for ever after one", `n=0; while read -r r; do case "$r" in *suggest*) n=$((n+1)); [ $n = 1 ] && echo '{"config": {"x": 1}}' || sleep 1000;; *) echo '{"ok": true}';; esac; done`, "", 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			options := tune.Options{Samples: -1}
			if c.name == "sleeps for ever after one" {
				options.Samples = 1
			}
			g, err := (&tune.Tuner{Name: "s", Storage: t.TempDir(), Trainable: tune.Command(tune.CommandSpec{Args: []string{"/bin/echo", `{"loss": {x}}`}}),
				Program: &tune.SearcherSpec{Args: []string{"/bin/sh", "-c", c.script}}, Options: options, Executor: tune.Local(1)}).Run(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if len(g.Trials) != c.trials || !strings.Contains(g.Halted, c.says) {
				t.Errorf("%d trials, want %d; halted %q, want %q", len(g.Trials), c.trials, g.Halted, c.says)
			}
		})
	}
}
