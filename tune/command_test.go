//go:build linux

package tune_test

import (
	"errors"
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

// TestCommands runs programs as trainables: how each ends, and what it reported.
func TestCommands(t *testing.T) {
	for _, c := range []struct {
		name, script string
		lockstep     bool
		options      tune.Options
		status       core.Status
		results      int
		says         string // in the error of the trial, or in its output.log
	}{
		{"reports", `echo '{"loss": 1}'; echo '{"loss": 0.5, "eval": {"acc": 2}}'`, false, tune.Options{Metric: "loss"}, core.Terminated, 2, ""},
		{"arguments", `echo "{\"loss\": $1}"`, false, tune.Options{Metric: "loss", Stop: []core.Condition{{Key: "loss", Value: 3}}}, core.Terminated, 1, ""},
		{"other lines go to the log", `echo hello; echo '{"loss": 1}'; echo '{broken'`, false, tune.Options{}, core.Terminated, 1, "hello\n{broken"},
		{"its output and its standard error go to the log at once", `i=0; while [ $i -lt 300 ]; do i=$((i+1)); echo "out $i"; echo "err $i" >&2; done`, false, tune.Options{}, core.Terminated, 0, "out 300\n"},
		{"an exit code", `echo '{"loss": 1}'; echo "no data" >&2; exit 3`, false, tune.Options{}, core.Errored, 1, "exit status 3\nno data"},
		{"no such program", ``, false, tune.Options{}, core.Errored, 0, "start no-such-program"},
		{"lockstep", `i=0; while [ $i -lt 100 ]; do i=$((i+1)); echo "{\"loss\": $i}"; read x || exit 1; done`, true,
			tune.Options{Stop: []core.Condition{{Key: "loss", Value: 3}}}, core.Terminated, 3, ""},
		{"one that ignores its stop is killed with what it has started", `trap '' TERM; sleep 1000 & echo $! > "$CASCADE_TUNE_FOLDER/child"; echo '{"loss": 1}'; wait; wait`, false,
			tune.Options{Stop: []core.Condition{{Key: "loss", Value: 1}}}, core.Terminated, 1, ""},
		{"a missing metric", `echo '{"acc": 1}'`, false, tune.Options{Metric: "loss"}, core.Errored, 1, `no metric "loss", it has: acc`},
		{"null", `echo '{"loss": null}'`, false, tune.Options{Metric: "loss"}, core.Errored, 1, `is no number but null`},
		{"no number", `echo '{"loss": "much"}'`, false, tune.Options{Metric: "loss"}, core.Errored, 1, `is no number but "much"`},
		{"NaN is a number", `echo '{"loss": "NaN"}'`, false, tune.Options{Metric: "loss"}, core.Terminated, 1, ""},
		{"a line without end", `head -c 3000000 /dev/zero | tr '\0' x`, false, tune.Options{}, core.Errored, 0, "more than 1048576 bytes"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			args := []string{"/bin/sh", "-c", c.script, "sh", "{x}"}
			if c.script == "" {
				args = []string{"no-such-program"}
			}
			storage := t.TempDir()
			g, err := (&tune.Tuner{Name: "c", Storage: storage, Trainable: tune.Command(tune.CommandSpec{Args: args, Lockstep: c.lockstep}),
				Space: space.Space{"x": 3}, Options: c.options, Executor: tune.Local(1)}).Run(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			o := g.Trials[0]
			if o.Status != c.status || o.Results != c.results {
				t.Errorf("the trial is %s with %d results, want %s with %d: %s", o.Status, o.Results, c.status, c.results, o.Error)
			}
			log, err := os.ReadFile(filepath.Join(storage, "c", "t00000", "output.log"))
			if err != nil || !strings.Contains(o.Error+string(log), c.says) {
				t.Errorf("it says %q and %q, want %q, %v", o.Error, log, c.says, err)
			}
			if b, err := os.ReadFile(filepath.Join(storage, "c", "t00000", "child")); err == nil {
				pid, err := strconv.Atoi(strings.TrimSpace(string(b)))
				if err != nil || !ends(pid) {
					t.Errorf("process %d still runs, %v", pid, err)
				}
			}
		})
	}
}

// ends waits for the end of a process that is no child of this one, and tells whether it came.
func ends(pid int) bool {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return errors.Is(err, unix.ESRCH)
	}
	defer unix.Close(fd)
	n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 20_000)
	return n == 1 && err == nil
}

// TestFiles reads descriptions in YAML, and says what is wrong with them.
func TestFiles(t *testing.T) {
	good := "name: x\ncommand: [/bin/true]\nspace: {x: {uniform: [0, 1]}}\n"
	for text, want := range map[string]string{
		good: "",
		good + "stop: {loss: \"<= 0.1\", training_iteration: 5}\nscheduler: {type: asha, max_t: 9}\nbudget: 2m\n": "",
		"name: x\nspace: {x: 1}": "the key command is missing",
		good + "scheduler: {type: pbt, hyperparam_mutations: {y: {choice: [1, 2]}}}":                          `the scheduler changes y: the space has no parameter "y": it has x`,
		"name: x\ncommand: [a, \"{ratte}\"]\nspace: {rate: {uniform: [0, 1]}}":                                `the program gets {ratte}: the space has no parameter "ratte": did you mean "rate"?`,
		"name: x\ncommand: [a, \"{rate} {print}\"]\nspace: {rate: {uniform: [0, 1]}}":                         "",
		"name: x\ncommand: [a]\nenvironment: {X: \"{m/lye}\"}\nspace: {m: {choice: [{layer: 1}, {lyre: 2}]}}": `the space has no parameter "m/lye": did you mean "m/lyre"?`,
		good + "trails: 3":                                                           `there is no key "trails": use budget, checkpoints,`,
		good + "Metric: loss":                                                        `there is no key "Metric": did you mean "metric"?`,
		good + "checkpoints: {kep: 1}":                                               `checkpoints: there is no key "kep": did you mean "keep"?`,
		good + "checkpoints: {samples: 1}":                                           `checkpoints: there is no key "samples": use at_end, by,`,
		good + "scheduler: {type: asha, grace_perod: 2}":                             `scheduler asha: there is no key "grace_perod": did you mean "grace_period"?`,
		good + "scheduler: {type: fifo, max_t: 2}":                                   `scheduler fifo: there is no key "max_t": it has none`,
		good + "scheduler: {type: asha, max_t: many}":                                `key max_t: it is a string`,
		good + "samples: many":                                                       "key samples: it is a string",
		good + "mode: least":                                                         `key mode: it is "least", use min or max`,
		good + "budget: 5":                                                           "key budget",
		good + "stop: {loss: low}":                                                   "key stop.loss: it is low",
		good + "scheduler: {type: ahsa}":                                             `there is no type "ahsa"`,
		good + "scheduler: {type: asha, grace: 2}":                                   `there is no key "grace"`,
		"name: x\ncommand: [a]\nspace: {x: {uniform: [0]}}":                          "parameter x: uniform takes 2 numbers",
		"name: x\ncommand: [a]\nspace: {x: {unifrom: [0, 1]}}":                       `parameter x: there is no domain "unifrom": did you mean "uniform"?`,
		"name: x\ncommand: [a":                                                       "line",
		"name: x y\ncommand: [/bin/true]\nspace: {x: 1}":                             `the name "x y" of the experiment`,
		good + "scheduler: {type: pbt, hyperparam_mutations: {x: {chioce: [1, 2]}}}": `pbt: a mutation: parameter x: there is no domain "chioce": did you mean "choice"?`,
		good + "scheduler: {type: pbt, hyperparam_mutations: {}}":                    "there are no mutations",
	} {
		path := filepath.Join(t.TempDir(), "tune.yaml")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := tune.ReadFile(path)
		if (err == nil) != (want == "") || err != nil && (!strings.Contains(err.Error(), want) || !strings.HasPrefix(err.Error(), path)) {
			t.Errorf("%s\n%v, want %s", text, err, want)
		}
	}
}
