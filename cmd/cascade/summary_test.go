package main

import (
	"strings"
	"testing"
	"time"

	"github.com/cascade-run/cascade"
	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/dag"
)

// Who looks at the end of a job sees what a lost agent has cost it.
func TestRepeats(t *testing.T) {
	for _, c := range []struct {
		attempts []uint32
		retries  uint64
		want     uint64
	}{
		{[]uint32{1, 1, 1}, 0, 0},
		{[]uint32{0, 1}, 0, 0}, // what never began
		{[]uint32{2, 1, 4}, 0, 4},
		{[]uint32{2, 3}, 2, 1},
		{[]uint32{1, 1}, 3, 0}, // retries of an agent that is gone
	} {
		var rows []comms.TaskRow
		for _, n := range c.attempts {
			rows = append(rows, comms.TaskRow{Attempt: n})
		}
		if got := repeats(rows, c.retries); got != c.want {
			t.Errorf("attempts %v with %d retries: %d, want %d", c.attempts, c.retries, got, c.want)
		}
	}
}

func TestRestartedFor(t *testing.T) {
	at := "2026-11-20T08:00:00Z"
	lost, back := comms.LossRow{Agent: "node2", At: at, Running: 2, Grace: 30}, comms.LossRow{Agent: "node1", At: at, Running: 2, Grace: 30, Back: "2026-11-20T08:00:05Z"}
	idle := comms.LossRow{Agent: "node3", At: at, Waiting: 2, Grace: 30}
	start := time.Date(2026, 11, 20, 8, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		rows     []comms.LossRow
		restarts uint64
		ended    time.Duration // after the loss
		want     string
	}{
		{nil, 1, time.Minute, "executor or data lost, or run cut off"},
		{[]comms.LossRow{back}, 2, time.Minute, "executor or data lost, or run cut off"},
		{[]comms.LossRow{back, lost}, 2, time.Minute, "agent lost"},
		{[]comms.LossRow{lost}, 3, time.Minute, "agent lost, executor or data lost, or run cut off"},
		{[]comms.LossRow{lost}, 1, 10 * time.Second, "executor or data lost, or run cut off"}, // the job ended within the grace
		{[]comms.LossRow{idle}, 1, time.Minute, "executor or data lost, or run cut off"},
	} {
		if got := restartedFor(c.rows, c.restarts, start.Add(c.ended).UnixNano()); got != c.want {
			t.Errorf("%+v: %s, want %s", c, got, c.want)
		}
	}
}

// A job that an agent could not take failed without a task: there is none to look at, or to run again.
func TestFailureWithoutTask(t *testing.T) {
	var out strings.Builder
	a := &app{err: &out, anew: func(comms.JobID) string { return "cascade run j.yaml" }}
	cause := &cascade.TaskError{Kind: comms.ErrorInput, Message: "graph of the job: it cannot be read", Agent: "old"}
	p := &cascade.Progress{Name: "j", Phase: comms.JobFailed, Error: cause, Groups: []comms.GroupCounts{{Group: "a", Total: 1}}}
	a.explainFailure(t.Context(), nil, &dag.Graph{Name: "j"}, p, &cascade.JobError{Name: "j", Phase: comms.JobFailed, Cause: cause})
	want := "job j failed after 0us: agent old: input: graph of the job: it cannot be read\n  after fixing: cascade run j.yaml\n"
	if out.String() != want {
		t.Errorf("it says\n%swant\n%s", out.String(), want)
	}
}

// After an error that comes again with each try the mend is offered first.
func TestNeedsMending(t *testing.T) {
	for _, c := range []struct {
		e    cascade.TaskError
		want bool
	}{
		{cascade.TaskError{Kind: comms.ErrorSetup}, true},
		{cascade.TaskError{Kind: comms.ErrorPanic}, true},
		{cascade.TaskError{Kind: comms.ErrorReadOnly}, true},
		{cascade.TaskError{Kind: comms.ErrorExit, ExitCode: 127}, true},
		{cascade.TaskError{Kind: comms.ErrorTask, Codes: []string{"TypeError"}}, true},
		{cascade.TaskError{Kind: comms.ErrorTask, Codes: []string{"ConnectionError", "KeyError"}}, false},
		{cascade.TaskError{Kind: comms.ErrorTask}, false},
		{cascade.TaskError{Kind: comms.ErrorExit, ExitCode: 1}, false},
		{cascade.TaskError{Kind: comms.ErrorTimeout}, false},
		{cascade.TaskError{Kind: comms.ErrorMemory}, false},
	} {
		if got := needsMending(&c.e); got != c.want {
			t.Errorf("%v %d %v: %v", c.e.Kind, c.e.ExitCode, c.e.Codes, got)
		}
	}
}
