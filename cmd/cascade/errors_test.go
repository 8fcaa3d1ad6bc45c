package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/cascade-run/cascade"
	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/dag"
)

// Kinds and exit codes are part of the interface: scripts rely on them.
func TestKindsOfErrors(t *testing.T) {
	failed := &cascade.JobError{Phase: comms.JobFailed}
	for _, c := range []struct {
		err  error
		kind string
		exit int
	}{
		{nil, "", 0},
		{failed, "job_failed", 1},
		{&cascade.JobError{Phase: comms.JobCancelled}, "cancelled", 4},
		{errDiffers, "differs", 1},
		{dag.Problems{{Message: "a mistake"}}, "job_file", 2},
		{badInputf("wrong"), "bad_input", 2},
		{hintedf("do this", "wrong"), "bad_input", 2},
		{noJob("x"), "not_found", 2},
		{cascade.ErrNotFound, "not_found", 2},
		{cascade.ErrConflict, "conflict", 2},
		{cascade.ErrDenied, "denied", 2},
		{cascade.ErrBadRequest, "bad_input", 2},
		{cascade.ErrUnavailable, "unavailable", 3},
		{&net.OpError{Op: "dial", Err: fs.ErrNotExist}, "unreachable", 3},
		{fmt.Errorf("%w: %w", cascade.ErrBadRequest, &net.DNSError{Name: "nosuch"}), "unreachable", 3},
		{errUnfit, "unfit", 3},
		{errors.New("disk"), "infrastructure", 3},
		{errInterrupted, "cancelled", 4},
		{context.Canceled, "cancelled", 4},
		{errTimeout, "timeout", 5},
		{taskExit(7), "task_failed", 7},
	} {
		if c.err != nil {
			c.err = fmt.Errorf("asked: %w", c.err)
		}
		if kind, exit := kindOf(c.err); kind != c.kind || exit != c.exit {
			t.Errorf("%v is %s, exit %d; want %s, exit %d", c.err, kind, exit, c.kind, c.exit)
		}
	}
}

// An error of a connection names the address behind the name of a cluster.
func TestNoControllerAnswers(t *testing.T) {
	down := &net.OpError{Op: "dial", Addr: &net.TCPAddr{IP: net.IPv4(10, 0, 0, 1), Port: 7420}, Err: unix.ECONNREFUSED}
	for to, want := range map[string]string{
		"hpc":                 "no controller answers at hpc (10.0.0.1:7420); is",
		"tcp://10.0.0.1:7420": "no controller answers at tcp://10.0.0.1:7420; is",
	} {
		if err := (&app{to: to}).explained(down); !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", to, err, want)
		}
	}
}

// Of many equal mistakes the first are printed.
func TestManyMistakes(t *testing.T) {
	h := newHost(t)
	c := h.prepare("")
	var found dag.Problems
	for i := range 300 {
		found = append(found, dag.Problem{File: "f.yaml", Line: i + 1, Col: 1, Message: fmt.Sprintf("task %q: it has nothing to run", fmt.Sprint("t", i))})
	}
	found = append(found, dag.Problem{File: "f.yaml", Line: 301, Col: 1, Message: "another"})
	c.app.raw = streams{c.app.out, c.app.err}
	c.app.printError(badInput{found}, nil)
	lines := 0
	for _, r := range c.err.String() {
		if r == '\n' {
			lines++
		}
	}
	if lines != shownProblems+2 {
		t.Errorf("%d lines:\n%s", lines, c.err.String())
	}
}
