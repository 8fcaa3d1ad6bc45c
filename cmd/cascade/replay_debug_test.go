package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cascade-run/cascade/internal/testing/pyenv"
)

// A Go function runs under dlv, which is told to stop where it begins.
func TestReplayUnderDelve(t *testing.T) {
	h := newHost(t)
	h.write("job.yaml", `
job: j
retain: true
tasks:
  ramp: {run: Ramp, with: {n: 3}, out: [values]}
  refused: {run: Refuses, in: {values: ramp}, out: [sum]}
  unknown: {command: "true"}
`)
	h.start("", "run", "job.yaml").wait()
	bin := t.TempDir()
	path := os.Getenv("PATH")
	t.Setenv("PATH", bin)
	if got := h.start("", "replay", "j", "--task", "refused", "--debug").wait(); !strings.Contains(got, "exit 2") || !strings.Contains(got, `under Delve, whose program is not there: exec: "dlv"`) {
		t.Errorf("without dlv:\n%s", got)
	}
	t.Setenv("PATH", bin+":"+path)
	// It shows how it was called, and starts what it was given.
	dlv := "#!/bin/sh\necho \"$1 $2\" $(cat $3) \"$(basename $4) $5\"\nexec \"$4\"\n"
	if err := os.WriteFile(filepath.Join(bin, "dlv"), []byte(dlv), 0o700); err != nil {
		t.Fatal(err)
	}
	got := h.start("", "replay", "j", "--task", "refused", "--debug").wait()
	const want = `exit 1
exec --init break github.com/cascade-run/cascade/cmd/cascade.refuses continue cascade.test --
looked at 3 values
2> task refused, attempt 1: error: 2026-02-30: no data for this date
`
	if got != want {
		t.Errorf("under dlv:\n%s\nwant\n%s", got, want)
	}
	got = h.start("", "replay", "j", "--task", "refused", "--debug", "--executor", "/bin/false").wait()
	if !strings.Contains(got, "exit 2") || !strings.Contains(got, "ask /bin/false where function Refuses is") {
		t.Errorf("with another program:\n%s", got)
	}
}

// Files that travelled with the job are found where it ran, and missed elsewhere.
func TestReplayWithPackage(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	h := newHost(t)
	if err := os.Mkdir("data", 0o700); err != nil {
		t.Fatal(err)
	}
	h.write("data/text", "of the package\n")
	h.write("job.yaml", "job: j\nenvironments: {e: {working_dir: data}}\ntasks: {shown: {command: [cat, text], environment: e}}\n")
	h.start("", "run", "job.yaml").wait()
	if err := os.RemoveAll("data"); err != nil {
		t.Fatal(err)
	}
	if got := h.start("", "replay", "j", "--task", "shown").wait(); !strings.HasPrefix(got, "of the package\n2> task shown, attempt 1: done") {
		t.Errorf("where it ran:\n%s", got)
	}
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	if got := h.start("", "replay", "j", "--task", "shown").wait(); !strings.Contains(got, "files that were submitted on another host") {
		t.Errorf("elsewhere:\n%s", got)
	}
}

// A Python function runs again with its inputs, and under pdb stops where it begins and where it fails.
func TestReplayPython(t *testing.T) {
	pyenv.Python(t)
	h := newHost(t)
	if err := os.Mkdir("steps", 0o700); err != nil {
		t.Fatal(err)
	}
	h.write("steps/m.py", "def make(n: int):\n    return list(range(n))\n\n\ndef mean(x, by: int):\n    total = sum(x)\n    print('total', total)\n    return total / by\n")
	h.write("job.yaml", `
job: j
environments: {py: {python: {}, working_dir: steps, env: {WHERE: here}}}
tasks:
  made: {run: py:m.make, with: {n: 5}, out: [x]}
  mean: {run: py:m.mean, in: {x: made}, with: {by: 0}, out: [y]}
`)
	h.start("", "run", "job.yaml").wait()
	got := h.start("", "replay", "j", "--task", "mean", "--rebuild").wait()
	if !strings.HasPrefix(got, "exit 1\ntotal 10\n") || !strings.Contains(got, "2> task mean, attempt 1: error: ZeroDivisionError: division by zero") {
		t.Errorf("it ran:\n%s", got)
	}
	in, keys, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	if _, err := keys.WriteString("p 'by', by, __import__('os').environ['WHERE']\nn\np 'sum', total\nc\np 'at', total, by\nq\n"); err != nil {
		t.Fatal(err)
	}
	if err := keys.Close(); err != nil {
		t.Fatal(err)
	}
	c := h.prepare("", "replay", "j", "--task", "mean", "--rebuild", "--debug")
	c.app.in = in
	got = c.run().wait()
	at := 0
	for _, want := range []string{"m.py(6)mean()", "('by', 0, 'here')", "('sum', 10)", "total 10", "m.py(8)mean()", "('at', 10, 0)"} {
		next := strings.Index(got[at:], want)
		if next < 0 {
			t.Fatalf("under pdb, want %q behind what is there up to %d:\n%s", want, at, got)
		}
		at += next
	}
}
