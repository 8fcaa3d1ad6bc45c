package controller

import (
	"bytes"
	"encoding/binary"
	"math"
	"testing"
	"time"

	"github.com/vmihailenco/msgpack/v5"

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
		a.say(&comms.Events{First: uint64(first) + 1, Jobs: []comms.JobEvents{{Job: m.Job, JobIncarnation: m.JobIncarnation, Epoch: m.Epoch, Events: events}}})
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

// The pages of a list of jobs have each once, newest first, while jobs are added.
func TestJobsInPages(t *testing.T) {
	net := comms.NewInproc()
	startController(t, t.TempDir(), net)
	c := dialClient(t, net)
	defer c.close()
	graph := parse(t, job1).Encode()
	const n = 10
	add := func(i byte) {
		c.say(&comms.Submit{Req: 1, Job: testJob(i), Graph: graph})
		expect[*comms.Accepted](c, "accepted", nil)
	}
	for i := range byte(n) {
		add(i + 1)
	}
	page := func(cursor []byte) *comms.Page {
		c.say(&comms.Query{Req: 2, Kind: comms.QueryJobs, Limit: 3, Cursor: cursor, Filter: "d"})
		return expect[*comms.Page](c, "page", nil)
	}
	var cursor []byte
	for i, want := range []int{3, 3, 3, 1} {
		p := page(cursor)
		if len(p.Rows) != want {
			t.Fatalf("page %d has %d rows, want %d", i, len(p.Rows), want)
		}
		var row comms.JobRow
		if err := msgpack.Unmarshal(p.Rows[0], &row); err != nil || row.ID != testJob(byte(n-3*i)).String() {
			t.Errorf("page %d begins with %s, %v", i, row.ID, err)
		}
		cursor = p.Cursor
		add(byte(n + 1 + i))
	}
	if cursor != nil {
		t.Errorf("there is a cursor behind the last page: %x", cursor)
	}
	c.say(&comms.Query{Req: 3, Kind: comms.QueryJobs, Cursor: []byte("8 bytes.")})
	if r := expect[*comms.Reply](c, "refusal", nil); r.Code != comms.CodeBadRequest {
		t.Errorf("a cursor of another kind: %+v", r)
	}
}

// A cursor is what a client sends: whatever its numbers, each query is answered.
func TestCursorsOfAnyNumbers(t *testing.T) {
	c := startCluster(t)
	submit(c, 1, parse(t, job1).Encode())
	final(c)
	numbers := []uint64{0, 1, 2, math.MaxInt32, math.MaxUint32, 1 << 32, math.MaxInt64, 1 << 63, math.MaxUint64}
	var cursors [][]byte
	for _, a := range numbers {
		one := binary.BigEndian.AppendUint64(nil, a)
		cursors = append(cursors, one, append(one[:8:8], one...)) // a JobID's length
		for _, b := range numbers {
			cursors = append(cursors, binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(one[:8:8], b), a))
		}
	}
	for _, kind := range []string{comms.QueryJobs, comms.QueryTasks, comms.QueryDatasets, comms.QueryAgents, comms.QueryEnvironments, comms.QueryStory,
		comms.QueryCalls, comms.QueryLosses, comms.QueryUse, comms.QueryGraph, comms.QueryPlan, comms.QueryProfiles, comms.QueryLinks, comms.QueryMembers, comms.QueryTokens} {
		for _, cursor := range cursors {
			q := comms.Query{Req: 9, Kind: kind, Job: testJob(1), Limit: 1, Cursor: cursor}
			for _, filter := range []string{"", "a[1]"} {
				q.Filter = filter
				c.say(&q)
				answered(t, c)
			}
		}
	}
	c.say(&comms.Query{Req: 10, Kind: comms.QueryStory, Job: testJob(1), Cursor: bytes.Repeat([]byte{1}, 16)})
	if r := expect(c, "refusal", func(r *comms.Reply) bool { return r.Req == 10 }); r.Code != comms.CodeBadRequest {
		t.Errorf("a cursor that no page has: %+v", r)
	}
}

// answered waits for an answer, a page or a refusal.
func answered(t *testing.T, c *peerEnd) {
	t.Helper()
	timeout := time.NewTimer(patience)
	defer timeout.Stop()
	for {
		select {
		case m := <-c.got:
			switch m.(type) {
			case *comms.Page, *comms.Reply:
				return
			}
		case <-timeout.C:
			t.Fatal("no answer came")
		}
	}
}
