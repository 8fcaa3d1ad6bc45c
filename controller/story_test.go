package controller

import (
	"fmt"
	"strings"
	"testing"

	"github.com/vmihailenco/msgpack/v5"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/controller/core"
	"github.com/cascade-run/cascade/controller/records"
	"github.com/cascade-run/cascade/dag"
)

// TestStoryOfEnds: the end of an attempt whose start nobody told has the cause of its
// start, and makes two rows; what nobody reads any more is freed, not lost.
func TestStoryOfEnds(t *testing.T) {
	g := parse(t, job1)
	usage := &comms.Usage{Start: 1e9, Duration: 2e9}
	read := comms.Cause{Kind: comms.CauseDataset, Ref: comms.DatasetRef{Task: 1}}
	wrong := &comms.TaskError{Kind: comms.ErrorSetup, Message: "no such function"}
	for _, c := range []struct {
		name  string
		event comms.Event
		want  []string
	}{
		{"untold", comms.Event{Kind: comms.EventFinished, Task: 3, Executor: 7, Cause: read, Usage: usage, Outputs: []comms.Desc{{Ref: comms.DatasetRef{Task: 3}, Size: 4}}},
			[]string{"started because a[1].x was published: executor 7", "finished because the run: executor 7; b.x 4 bytes freed; 2 s"}},
		{"told", comms.Event{Kind: comms.EventFinished, Task: 3, Cause: comms.Cause{Kind: comms.CauseRun}, Usage: usage, Outputs: []comms.Desc{{Ref: comms.DatasetRef{Task: 3}, Size: 4, Place: comms.Place{Kind: comms.PlaceSegment}}}},
			[]string{"finished because the run: b.x 4 bytes in memory; 2 s"}},
		{"failed untold", comms.Event{Kind: comms.EventFailed, Task: 3, Cause: read, Usage: usage, Error: wrong},
			[]string{"started because a[1].x was published: ", "failed because the run: 2 s; setup: no such function"}},
		{"never began", comms.Event{Kind: comms.EventFailed, Task: 3, Cause: comms.Cause{Kind: comms.CauseSubmit}, Error: wrong},
			[]string{"failed because the job was assigned: setup: no such function"}},
		{"died", comms.Event{Kind: comms.EventRetry, Task: 3, Executor: 7, Cause: comms.Cause{Kind: comms.CauseExecutor, Number: 7}, Usage: usage, Error: wrong},
			[]string{"retried because executor 7: 2 s; setup: no such function"}},
		{"failed untold, and is tried again", comms.Event{Kind: comms.EventRetry, Task: 3, Cause: read, Usage: usage, Error: wrong},
			[]string{"started because a[1].x was published: ", "retried because the run: 2 s; setup: no such function"}},
		{"its gang starts over", comms.Event{Kind: comms.EventRetry, Task: 3, Executor: 7, Cause: comms.Cause{Kind: comms.CauseTask, Ref: comms.DatasetRef{Task: 1}, Text: "its gang starts over"}, Usage: usage},
			[]string{"retried because a[1] ended: its gang starts over: executor 7; 2 s"}},
		{"cancelled for another's failure", comms.Event{Kind: comms.EventCancelled, Task: 3, Executor: 7, Cause: comms.Cause{Kind: comms.CauseTask, Ref: comms.DatasetRef{Task: 1}}, Usage: usage},
			[]string{"cancelled because a[1] ended: executor 7; 2 s"}},
		{"what it made is gone", comms.Event{Kind: comms.EventRetry, Task: 1, Cause: comms.Cause{Kind: comms.CauseDataset, Ref: comms.DatasetRef{Task: 1}, Text: "this dataset is gone and is needed again"}},
			[]string{"retried because a[1].x: this dataset is gone and is needed again: "}},
	} {
		var got []string
		p := &pager{limit: maxRows}
		if !eventRows(p, g, &c.event, "a1") {
			t.Errorf("%s: no room", c.name)
		}
		for _, row := range p.page.Rows {
			var r comms.StoryRow
			if err := msgpack.Unmarshal(row, &r); err != nil {
				t.Fatal(err)
			}
			got = append(got, fmt.Sprintf("%s because %s: %s", r.What, r.Cause, r.Detail))
		}
		if fmt.Sprint(got) != fmt.Sprint(c.want) {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

// A task that moved before it began does not start over; a task that starts over is told once.
func TestStoryOfMoves(t *testing.T) {
	r := func(first, last dag.TaskIndex) comms.Range { return comms.Range{First: first, Last: last} }
	b := records.Batch{Lost: []string{"a1"}, Reset: []comms.Range{r(0, 0)}, Moved: []comms.Range{r(0, 3)},
		Unbegun: []records.Assignment{{Run: []comms.Range{r(3, 3)}}, {Agent: "a2", Run: []comms.Range{r(1, 1)}}}}
	g := parse(t, job1)
	for filter, want := range map[string]string{
		"":     "b moved before it began; no agent has it yet, a[1] moved to a2 before it began, a[0] starts over , a[2] starts over ",
		"a[1]": "a[1] moved to a2 before it began",
		"a[0]": "a[0] starts over ",
	} {
		tasks, _ := core.Choose(g, filter)
		p := &pager{limit: maxRows}
		if !restartRows(p, &comms.Query{Filter: filter}, g, &b, tasks) {
			t.Errorf("%q: no room", filter)
		}
		var got []string
		for _, row := range p.page.Rows {
			var r comms.StoryRow
			if err := msgpack.Unmarshal(row, &r); err != nil {
				t.Fatal(err)
			}
			got = append(got, r.Task+" "+r.What+" "+r.Detail)
		}
		if got := strings.Join(got, ", "); got != want {
			t.Errorf("%q: %q, want %q", filter, got, want)
		}
	}
	// of these the lost agent had one task that ran
	if n := othersOf(&records.Loss{Runs: []comms.Range{r(0, 0)}}, &b); n != 1 {
		t.Errorf("%d other tasks restart, want 1", n)
	}
}
