package main

import (
	"errors"
	"testing"

	"github.com/cascade-run/cascade"
)

// TestExplainOpenSession: of a session that goes on explain says what has ended, and that the rest is not told.
func TestExplainOpenSession(t *testing.T) {
	h := newHost(t)
	cluster, err := cascade.Local(t.Context(), cascade.WithState(h.state), cascade.WithCPU(2))
	if err != nil {
		t.Fatal(err)
	}
	s, err := cluster.Session(t.Context(), cascade.WithSessionName("open"))
	if err != nil {
		t.Fatal(err)
	}
	h.expect(h.start("", "explain", "open"), "session open: running\n", "called  0 ended tasks of 0 functions\n", "last end  none; tasks that have not ended are not told of\n")
	if n, err := twiceTask.Go(s.Context(), cascade.Val(4)).Get(s.Context()); err != nil || n != 8 {
		t.Errorf("twice 4 is %d, %v", n, err)
	}
	told := func() bool { return len(h.start("", "ls", "calls", "open", "--family", "Twice", "--json").wait()) > 0 }
	for !told() { // the event is committed after the result is here
	}
	h.expect(h.start("", "explain", "open"), "session open: running\n", "runs on  agent local, from TIME", "called  1 ended task of 1 function\n", "last end  root/0 at TIME; tasks that have not ended are not told of\n")
	if err := errors.Join(s.Close(t.Context()), cluster.Close()); err != nil {
		t.Error(err)
	}
}
