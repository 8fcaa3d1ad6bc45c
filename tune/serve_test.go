//go:build linux

package tune_test

import (
	"strings"
	"testing"

	"github.com/cascade-run/cascade/tune"
	"github.com/cascade-run/cascade/tune/core"
	"github.com/cascade-run/cascade/tune/space"
)

// TestServe runs trials in programs that serve several: what each says, how it ends, and what becomes of its trials.
func TestServe(t *testing.T) {
	const each = `while read -r r; do case "$r" in *'"do":"start"'*) `
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
		{"a line without end", `read -r r; head -c 3000000 /dev/zero | tr '\0' x`, false, tune.Options{}, core.Errored, 0, "sh: "},
		{"an object", each + `n=0; echo '{"ok": true}';; *step*) n=$((n+1)); echo "{\"report\": {\"loss\": $n, \"done\": $([ $n = 3 ] && echo true || echo false)}}";; *) echo '{"ok": true}';; esac; done`, true,
			tune.Options{}, core.Terminated, 3, ""},
		{"an object that cannot be made", each + `echo '{"error": "no such model"}';; *) echo '{"ok": true}';; esac; done`, true, tune.Options{}, core.Errored, 0, "no such model"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			g, err := (&tune.Tuner{Name: "s", Storage: t.TempDir(), Trainable: tune.Serve(tune.ServeSpec{Args: []string{"/bin/sh", "-c", c.script, "sh", "{experiment}"}, Class: c.class}),
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

// TestSearcherPrograms has programs suggest: what they answer, and that the experiment ends with one that fails.
func TestSearcherPrograms(t *testing.T) {
	for _, c := range []struct {
		name, script, says string
		trials             int
	}{
		{"suggests two", `n=0; while read -r r; do case "$r" in *suggest*) n=$((n+1)); if [ $n -gt 2 ]; then echo '{"finished": true}'; else echo "{\"config\": {\"x\": $n}}"; fi;; *) echo '{"ok": true}';; esac; done`, "", 2},
		{"fails", `while read -r r; do echo '{"error": "no model"}'; done`, "the searcher failed: trial 0: no model", 0},
		{"dies", `read -r r; echo "out of luck" >&2; exit 4`, "out of luck", 0},
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
