package controller

import (
	"bytes"
	"testing"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/dag"
)

// The bytes of a row are known after the rows of the page were chosen: the page
// ends before the first that has no room, and the next page begins with it.
func TestTasksOfLongErrorsFillSeveralPages(t *testing.T) {
	const tasks, each = 1200, 100
	net := comms.NewInproc()
	startController(t, t.TempDir(), net)
	a := dialAgent(t, net, &fakeAgent{name: "a1", hold: true})
	defer a.close()
	c := dialClient(t, net)
	defer c.close()
	submit(c, 1, parse(t, "job: many\nenvironments: {e: {go: ./e}}\ntasks:\n  a: {for: {i: \"0..1199\"}, run: \"e:F\"}\n").Encode())
	m := expect[*comms.Assign](a.peerEnd, "assignment", nil)
	tail := bytes.Repeat([]byte("x"), 4<<10)
	for first := 0; first < tasks; first += each {
		events := make([]comms.Event, each)
		for i := range events {
			events[i] = comms.Event{Kind: comms.EventFailed, Task: dag.TaskIndex(first + i), Attempt: 1, At: 1, Executor: 1,
				Cause: comms.Cause{Kind: comms.CauseSubmit}, Error: &comms.TaskError{Kind: comms.ErrorTask, Message: "exit status 1", LogTail: tail}}
		}
		if first+each == tasks {
			events = append(events, comms.Event{Kind: comms.EventDrained})
		}
		a.say(&comms.Events{First: uint64(first) + 1, Jobs: []comms.JobEvents{{Job: m.Job, Life: m.Life, Epoch: m.Epoch, Events: events}}})
	}
	final(c)
	for _, filter := range []string{"", "a", "failed"} {
		got := rows[comms.TaskRow](c, comms.Query{Kind: comms.QueryTasks, Job: testJob(1), Filter: filter}, maxRows)
		if len(got) != tasks {
			t.Errorf("filter %q: %d rows of %d tasks", filter, len(got), tasks)
		}
		for i, r := range got {
			if r.Index != uint32(i) || len(r.LogTail) != len(tail) {
				t.Fatalf("filter %q: row %d is of task %d, with %d bytes of log", filter, i, r.Index, len(r.LogTail))
			}
		}
	}
}
