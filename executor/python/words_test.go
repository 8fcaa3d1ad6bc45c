//go:build linux

package python_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/cascade-run/cascade"
	"github.com/cascade-run/cascade/cascadetest"
	"github.com/cascade-run/cascade/internal/testing/pyenv"
)

var (
	_ = cascade.Func1("Say", say, "with -> x")
	_ = cascade.Gen1("SaySeries", saySeries, "with -> x")
)

type sayParams struct{ How string }

// say prints on both streams, and ends its process.
func say(_ context.Context, p sayParams) (int, error) {
	fmt.Println("said", p.How)
	fmt.Fprintln(os.Stderr, "and on stderr")
	switch p.How {
	case "exit":
		os.Exit(7)
	case "kill":
		return 0, syscall.Kill(os.Getpid(), syscall.SIGKILL)
	case "panic":
		go panic("in a goroutine")
	}
	select {}
}

// saySeries does so between two elements.
func saySeries(ctx context.Context, p sayParams) iter.Seq2[int, error] {
	return func(yield func(int, error) bool) {
		_ = yield(1, nil) && yield(say(ctx, p))
	}
}

// The log of a task whose process died has the text that it printed, and the place where a Python function was.
func TestLastWords(t *testing.T) {
	pyenv.Python(t)
	c := cascadetest.Start(t)
	job := submitText(t, c, "testdata/state", []byte(`job: words
keep_going: true
environments: {py: {python: {}, py_modules: [./words.py]}}
tasks:
  say: {for: {how: [segfault, exit, kill]}, run: "py:words.say", with: {how: "${how}"}}
  series: {for: {how: [kill]}, run: "py:words.series", with: {how: "${how}"}, generates: {x: 2}}
  much: {run: "py:words.much"}
  go: {for: {how: [exit, kill, panic]}, run: Say, with: {how: "${how}"}, out: [x]}
  go-series: {for: {how: [exit]}, run: SaySeries, with: {how: "${how}"}, generates: {x: 2}}
`))
	if _, err := job.Wait(t.Context()); err == nil || !strings.Contains(err.Error(), "task ") {
		t.Fatal(err)
	}
	for task, how := range map[string][]string{
		"say": {"segfault", "exit", "kill"}, "series": {"kill"}, "go": {"exit", "kill", "panic"}, "go-series": {"exit"},
	} {
		for _, how := range how {
			name := fmt.Sprintf("%s[%s]", task, how)
			log := logOf(t, job, name)
			want := []string{"said " + how + "\n", "and on stderr\n"}
			if how == "segfault" {
				want = append(want, "Fatal Python error: ", "words.py\", line ", " in say\n")
				if strings.Contains(log, "cascade/executor") {
					t.Errorf("%s: frames of the executor are in the log:\n%s", name, log)
				}
			}
			for _, w := range want {
				if !strings.Contains(log, w) {
					t.Errorf("%s: %q is not in the log:\n%s", name, w, log)
				}
			}
		}
	}
	if log := logOf(t, job, "much"); !strings.Contains(log, "29999 ") || !strings.Contains(log, "the end\n") {
		t.Errorf("much: the end is not in the log, which has %d bytes", len(log))
	}
}

// The error of a task whose process died has the end of what the task printed, also what was in its log by then.
func TestLastWordsInError(t *testing.T) {
	pyenv.Python(t)
	c := cascadetest.Start(t)
	job := submitText(t, c, "testdata/state", []byte(`job: words
environments: {py: {python: {}, py_modules: [./words.py]}}
tasks: {t: {run: "py:words.broken_off"}}
`))
	_, err := job.Wait(t.Context())
	var failed *cascade.TaskError
	if !errors.As(err, &failed) {
		t.Fatal(err)
	}
	tail := string(failed.LogTail)
	for _, want := range []string{"before the crash\n", "no end of line", "in broken_off\n"} {
		if strings.Count(tail, want) != 1 {
			t.Errorf("%q is not once in the last output:\n%s", want, tail)
		}
	}
}
