package main

import (
	"errors"
	"strings"
	"testing"

	"github.com/cascade-run/cascade"
)

// TestExplainOpenSession: of a session that goes on explain says what has ended, where the rest runs, and what it waits for.
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
	h.expect(h.start("", "explain", "open"), "session open: running\n", "called  0 ended tasks of 0 functions\n", "last end  none\n")
	if n, err := twiceTask.Go(s.Context(), cascade.Val(4)).Get(s.Context()); err != nil || n != 8 {
		t.Errorf("twice 4 is %d, %v", n, err)
	}
	told := func() bool { return len(h.start("", "ls", "calls", "open", "--family", "Twice", "--json").wait()) > 0 }
	for !told() { // the event is committed after the result is here
	}
	h.expect(h.start("", "explain", "open"), "session open: running\n", "runs on  agent local, from TIME", "called  1 ended task of 1 function\n", "last end  root/0 at TIME\n")
	g := h.gate("pause")
	first := pausedTask.Go(s.Context(), cascade.Val(g.up), cascade.Val(g.onward))
	second := twiceTask.Go(s.Context(), first)
	g.runs()
	started := func() bool {
		return strings.Contains(h.start("", "memory", "open", "--json").wait(), `"state":"running"`)
	}
	for !started() { // the agent hears of the start after the task has begun
	}
	h.expect(h.start("", "explain", "open"), "called  1 ended task of 1 function\n", "not ended  root/1: runs on local; called DURATION ago\n", "not ended  root/2: waits for the result of root/1; called DURATION ago\n")
	h.expect(h.start("", "explain", "open", "root/1"), "root/1: running\n", "function  Paused, called DURATION ago\n", "runs on  agent local, for DURATION\n")
	h.expect(h.start("", "explain", "open", "root/2"), "root/2: waiting\n", "function  Twice, called DURATION ago\n", "waits for  the result of root/1\n")
	h.expect(h.start("", "explain", "open", "root/2", "--json"), `"waits_for":"the result of root/1"`)
	h.expect(h.start("", "explain", "open", "root/9"), "exit 2", "no called task root/9 that goes on or has ended")
	g.open("on")
	if n, err := second.Get(s.Context()); err != nil || n != 2 {
		t.Errorf("twice the paused task is %d, %v", n, err)
	}
	if err := errors.Join(s.Close(t.Context()), cluster.Close()); err != nil {
		t.Error(err)
	}
}
