package main

import (
	"strings"
	"testing"
	"time"

	"github.com/cascade-run/cascade"
	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/dag"
)

// A group with a task for each element of an open generator is told when the
// stream has ended, not when what has come so far is done.
func TestGroupsEnd(t *testing.T) {
	g, err := dag.ParseYAML("stream.yaml", []byte(`job: stream
tasks:
  numbers: {run: Numbers, generates: {n: "*"}}
  square: {for: {i: "numbers.n[*]"}, command: "cat ${in.n} > ${out.y}", in: {n: "numbers.n[${i}]"}, out: [y]}
`), dag.Override{}, dag.Options{})
	if err != nil {
		t.Fatal(err)
	}
	group := func(name string, total, running, done uint64) comms.GroupCounts {
		return comms.GroupCounts{Group: name, Total: total, Running: running, Done: done}
	}
	for _, tt := range []struct {
		name            string
		phase           comms.JobPhase
		numbers, square comms.GroupCounts
		want            [2]bool
	}{
		{"so far", comms.JobRunning, group("numbers", 1, 1, 0), group("square", 3, 0, 3), [2]bool{false, false}},
		{"stream has ended", comms.JobRunning, group("numbers", 1, 0, 1), group("square", 43, 1, 42), [2]bool{true, false}},
		{"both have", comms.JobRunning, group("numbers", 1, 0, 1), group("square", 43, 0, 43), [2]bool{true, true}},
		{"the job has", comms.JobFailed, group("numbers", 1, 0, 0), group("square", 3, 0, 3), [2]bool{false, true}},
	} {
		p := &cascade.Progress{Phase: tt.phase, Groups: []comms.GroupCounts{tt.numbers, tt.square}}
		if got := [2]bool{ended(g, p, 0), ended(g, p, 1)}; got != tt.want {
			t.Errorf("%s: ended is %v, want %v", tt.name, got, tt.want)
		}
	}
}

// Why nothing of a job runs is told again with each sign of life.
func TestReasonIsRepeated(t *testing.T) {
	var out strings.Builder
	a := &app{err: &out}
	s := a.newProgress(&dag.Graph{Name: "two"}, comms.JobID{})
	out.Reset()
	p := &cascade.Progress{Name: "two", Waits: "no room", Groups: []comms.GroupCounts{{Group: "train", Total: 3}}}
	for range 3 {
		s.tick(t.Context(), nil, p)
		s.quiet = time.Now().Add(-quietFor)
	}
	p.Waits = ""
	s.tick(t.Context(), nil, p)
	want := []string{"waits: no room", "two: 0/3 done; waits: no room", "two: 0/3 done; waits: no room", "two: 0/3 done"}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	for i := range lines {
		_, lines[i], _ = strings.Cut(strings.TrimSpace(lines[i]), "  ") // after the time
	}
	if strings.Join(lines, "|") != strings.Join(want, "|") {
		t.Errorf("it says %q, want %q", lines, want)
	}
}
