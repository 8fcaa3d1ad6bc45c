package main

import (
	"strings"
	"testing"
)

// What cannot be undone is asked for on a terminal, and needs --yes elsewhere.
func TestConfirm(t *testing.T) {
	h := newHost(t)
	h.write("job.yaml", "job: small\ntasks:\n  a: {command: \"true\"}\n")
	h.expect(h.start("", "run", "job.yaml"), "job small done")
	for _, c := range []struct {
		in, want string
		person   bool
	}{
		{"", "exit 2\n2> cascade: remove job small (JOB): this cannot be undone", false},
		{"n\n", "nothing was done", true},
		{"", "nothing was done", true},
		{"yes\n", "removed job small (JOB)", true},
	} {
		run := h.prepare(c.in, "rm", "jobs", "last")
		run.app.person = func() bool { return c.person }
		if got := run.run().wait(); !strings.Contains(got, c.want) {
			t.Errorf("%q: want %q in\n%s", c.in, c.want, got)
		}
	}
}

// wait ends with a code of its own when time is up, and with that of the job at its end.
func TestWait(t *testing.T) {
	h := newHost(t)
	gate := h.gate("gate")
	run := h.start("", "run", gate.file, "--cpu", "1")
	gate.runs()
	h.expect(h.start("", "wait", "gate", "--for", "running"), "job gate (JOB) running")
	h.expect(h.start("", "wait", "--status", "running", "--for", "running"), "job gate (JOB) running")
	if got := h.start("", "wait", "gate", "--timeout", "50ms", "--json").wait(); !strings.HasPrefix(got, "exit 5\n") || !strings.Contains(got, `"kind":"timeout"`) {
		t.Errorf("time is up:\n%s", got)
	}
	wait := h.start("", "wait", "gate")
	gate.open("x")
	h.expect(wait, "job gate (JOB) done")
	h.expect(run, "job gate done")
	h.write("bad.yaml", "job: bad\ntasks:\n  a: {command: \"exit 3\"}\n")
	h.expect(h.start("", "run", "bad.yaml"), "exit 1")
	h.expect(h.start("", "wait", "bad"), "exit 1", "job bad (JOB) failed")
}
