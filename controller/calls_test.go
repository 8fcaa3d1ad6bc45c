package controller

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/profiles"
)

// TestCallRows: rows of called tasks, also of those that another agent ran, that an older agent tells of,
// or that never began; and which filters they meet.
func TestCallRows(t *testing.T) {
	g := parse(t, job1)
	usage := &comms.Usage{Start: 2e9, Duration: 5e6, BytesOut: 3}
	reads := comms.AppendEdges(nil, []comms.CallInput{{From: comms.FromCall, Ref: comms.CallRef{Number: 3}, Output: 1}, {From: comms.FromValue}, {Port: 2, From: comms.FromInput, Input: 1, Item: 4}})
	called := func(c comms.Called) *comms.Called {
		c.Made, c.Function = 1e9, "fit"
		return &c
	}
	for _, c := range []struct {
		name  string
		event comms.Event
		want  string
		meets string
	}{
		{"plain", comms.Event{Task: 3, Executor: 2, Count: 1, At: 3e9, Usage: usage, Parent: []byte("b"), Called: called(comms.Called{Ref: comms.CallRef{Number: 7}, Reads: reads})},
			`{"name":"b/7","task":"b","parent":"b","number":7,"function":"fit","state":"done","tries":1,"agent":"a1","executor":2,"called":"1970-01-01T00:00:01Z","started":"1970-01-01T00:00:02Z","ended":"1970-01-01T00:00:03Z","seconds":0.005,"cpu_seconds":0,"peak_memory":0,"bytes_in":0,"bytes_out":3,"reads":[{"input":0,"number":3,"output":1,"element":0},{"input":2,"of_parent":true,"number":0,"output":1,"element":4}]}`,
			"b b/7 fit done"},
		{"elsewhere", comms.Event{Task: 3, Count: 2, Parent: []byte("b/7"), Called: called(comms.Called{Ref: comms.CallRef{Strand: 1 << 32, Number: 0}, Name: "left", Host: "a2"}), Error: &comms.TaskError{Kind: comms.ErrorTask, Message: "no"}},
			`{"name":"b/7/left-00000001.0","task":"b","parent":"b/7","strand":4294967296,"number":0,"function":"fit","state":"failed","tries":2,"agent":"a2","called":"1970-01-01T00:00:01Z","ended":"","seconds":0,"cpu_seconds":0,"peak_memory":0,"bytes_in":0,"bytes_out":0,"error":"error: no"}`,
			"b/7 b/7/left-00000001.0 failed fit"},
		{"of an older agent", comms.Event{Task: 3, Count: 1, Cause: comms.Cause{Text: "b/1 fit on a3"}, Error: &comms.TaskError{Kind: comms.ErrorCancelled, Message: "enough"}},
			`{"name":"b/1","task":"b","number":0,"function":"fit","state":"cancelled","tries":1,"agent":"a3","ended":"","seconds":0,"cpu_seconds":0,"peak_memory":0,"bytes_in":0,"bytes_out":0,"error":"cancelled: enough"}`,
			"b/1 cancelled fit"},
	} {
		row := callRow(g, &c.event, "a1")
		b, err := json.Marshal(row)
		if err != nil {
			t.Fatal(err)
		}
		if string(b) != c.want {
			t.Errorf("%s: %s\nwant %s", c.name, b, c.want)
		}
		var meets []string
		for _, filter := range []string{"b", "b/1", "b/7", "b/7/left-00000001.0", "cancelled", "failed", "fit", "done", "a"} {
			if callMeets(row, filter) {
				meets = append(meets, filter)
			}
		}
		if got := strings.Join(meets, " "); got != c.meets {
			t.Errorf("%s meets %q, want %q", c.name, got, c.meets)
		}
	}
}

// TestCallCosts: of a function that is called often one in many counts, and all are one profile.
func TestCallCosts(t *testing.T) {
	var cs callCosts
	for range 10 * manySamples {
		cs.add("fit", &comms.Usage{Duration: 1e9})
	}
	cs.add("rare", &comms.Usage{Duration: 2e9})
	if most := manySamples + 10*manySamples/oneIn + 1; cs.n > most {
		t.Errorf("%d samples wait, want %d at most", cs.n, most)
	}
	book := profiles.NewBook()
	if n := cs.fold(book, "session work"); n == 0 || cs.n != 0 || len(cs.samples) != 0 {
		t.Errorf("%d samples were folded, %d wait", n, cs.n)
	}
	for function, want := range map[string]float64{"fit": 1, "rare": 2} {
		for _, job := range []string{"session work", ""} {
			if p := book.Snapshot().Predict(profiles.Signature{Job: job, Function: function}); p.Seconds != want {
				t.Errorf("%s of %q takes %v s, want %v", function, job, p.Seconds, want)
			}
		}
	}
}
