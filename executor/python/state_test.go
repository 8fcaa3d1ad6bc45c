//go:build linux

package python_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/cascade-run/cascade"
	"github.com/cascade-run/cascade/cascadetest"
	"github.com/cascade-run/cascade/internal/testing/pyenv"
)

// Changes that a task makes to its process end with it: each of these looks, in one process, whether
// it is as the first found it, and then changes one thing.
func TestStateOfTheProcess(t *testing.T) {
	pyenv.Python(t)
	c := cascadetest.Start(t, cascade.WithCPU(1))
	job := submitText(t, c, "testdata/state", []byte(`job: state
environments: {py: {python: {}, py_modules: [./changes.py], env: {GIVEN: "yes"}}}
tasks:
  change:
    for:
      what: [folder, removed folder, mask, variables, all variables, other variables, streams, descriptors, paths, limits, signals, timer, warnings,
        logging, locale, sockets, context, interpreter, hooks, event loop, processes, temporary]
    run: "py:changes.change"
    with: {what: "${what}"}
    out: [found]
  series: {run: "py:changes.series", with: {n: 3}, in: {after: "change[*].found"}, generates: {i: 3}}
  again: {run: "py:changes.series", with: {n: 3}, in: {after: "series.i[*]"}, generates: {i: 3}}
  after: {run: "py:changes.after", in: {changes: "change[*].found", series: "again.i[*]"}, out: [found]}
outputs: [after.found]
`))
	const want = `after printed
  printed at the end
after.found = {"at the end":[],"left":{},"processes":1}
`
	if got := outcome(t, c, job); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// A process in which a task changed what cannot be set back, such as its user, is replaced.
func TestProcessIsReplaced(t *testing.T) {
	pyenv.Python(t)
	c := cascadetest.Start(t, cascade.WithCPU(1))
	job := submitText(t, c, "testdata/state", []byte(`job: replaced
environments: {py: {python: {}, py_modules: [./changes.py], env: {GIVEN: "yes"}}}
tasks:
  first: {run: "py:changes.change", with: {what: nothing}, out: [found]}
  second: {run: "py:changes.change", with: {what: for good}, in: {after: first.found}, out: [found]}
  third: {run: "py:changes.change", with: {what: nothing}, in: {after: second.found}, out: [found]}
  after: {run: "py:changes.processes", in: {a: first.found, b: second.found, c: third.found}, out: [found]}
outputs: [after.found]
`))
	const want = "after.found = {\"found\":[],\"processes\":[0,0,2]}\n"
	if got := outcome(t, c, job); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// A process stays in which tasks have loaded modules that keep state of their own.
func TestProcessStays(t *testing.T) {
	pyenv.Python(t)
	c := cascadetest.Start(t, cascade.WithCPU(1))
	job := submitText(t, c, "testdata/state", []byte(`job: stays
environments: {py: {python: {}, py_modules: [./lazy.py]}}
tasks:
  use: {for: {i: "1..4"}, run: "py:lazy.use", out: [pid]}
  same: {run: "py:lazy.same", in: {pids: "use[*].pid"}, out: [same]}
outputs: [same.same]
`))
	if got := outcome(t, c, job); !strings.HasSuffix(got, "same.same = true\n") {
		t.Errorf("got %s", got)
	}
}

// A change by a quick task does not become the process's when the next function is imported.
func TestQuickTaskBeforeAnImport(t *testing.T) {
	pyenv.Python(t)
	c := cascadetest.Start(t, cascade.WithCPU(1))
	job := submitText(t, c, "testdata/state", []byte(`job: quick
environments: {py: {python: {}, py_modules: [./quick.py, ./other.py]}}
tasks:
  leak: {for: {i: "1..2"}, run: "py:quick.leak", out: [calls]}
  look: {run: "py:other.limit", in: {after: "leak[*].calls"}, out: [limit]}
outputs: ["leak[*].calls", look.limit]
`))
	const want = "leak[1].calls = 1\nleak[2].calls = 2\nlook.limit = 1000\n"
	if got := outcome(t, c, job); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

var _ = cascade.Func1("Change", change, "with -> found")

type changeParams struct{ What string }

var firstLook string // how the first task found the process

// change looks whether the process is as the first found it, and changes one thing.
func change(_ context.Context, p changeParams) (string, error) {
	cwd, err := os.Getwd()
	if err != nil {
		cwd = err.Error()
	}
	mask := syscall.Umask(0)
	syscall.Umask(mask)
	var files unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &files); err != nil {
		return "", err
	}
	found := fmt.Sprintf("%s %o %q %d %t %d %q", cwd, mask, os.Environ(), files.Cur, os.Stdout == nil, log.Flags(), log.Prefix())
	if firstLook == "" {
		firstLook = found
	}
	if found != firstLook {
		return found + " and not " + firstLook, nil
	}
	fmt.Println("printed by " + p.What)
	switch p.What {
	case "folder":
		err = os.Chdir("/")
	case "removed folder":
		var dir string
		if dir, err = os.MkdirTemp("", ""); err == nil {
			err = errors.Join(os.Chdir(dir), os.Remove(dir))
		}
	case "mask":
		syscall.Umask(0o777)
	case "variables":
		err = errors.Join(os.Setenv("MODE", "fast"), os.Unsetenv("HOME"), os.Setenv("PATH", "/nowhere"))
	case "limits":
		err = unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 77, Max: files.Max})
	case "streams":
		os.Stdout = nil
		log.SetFlags(0)
		log.SetPrefix("other ")
	}
	return "", err
}

// The same of Go functions. One that only sets a variable takes less time than a system call, and is
// looked at before a task of another job.
func TestStateOfAGoProcess(t *testing.T) {
	c := cascadetest.Start(t, cascade.WithCPU(1))
	for range 2 {
		job := submitText(t, c, ".", []byte(`job: state
tasks:
  change:
    for: {what: [folder, removed folder, mask, limits, streams, variables]}
    run: Change
    with: {what: "${what}"}
    out: [found]
outputs: ["change[*].found"]
`))
		got := outcome(t, c, job)
		for _, what := range []string{"folder", "removed folder", "mask", "limits", "streams", "variables"} {
			if want := fmt.Sprintf("change[%s] printed\n  printed by %[1]s\n", what); !strings.Contains(got, want) {
				t.Errorf("no %q in:\n%s", want, got)
			}
			if want := fmt.Sprintf("change[%s].found = \n", what); !strings.Contains(got, want) {
				t.Errorf("no %q in:\n%s", want, got)
			}
		}
	}
}
