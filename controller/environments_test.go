package controller

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/controller/records"
)

// Each agent that an environment was asked of has a row of its own, and a build ends when its agent has the job no more.
func TestEnvironmentRows(t *testing.T) {
	g := parse(t, "job: j\nenvironments: {e: {go: ./e}, f: {go: ./f}}\ntasks:\n  a: {run: \"e:F\"}\n  b: {run: \"f:F\"}\n")
	failure := &comms.TaskError{Message: "no network"}
	event := func(kind comms.EventKind, name string, at int64, err *comms.TaskError) comms.Event {
		return comms.Event{Kind: kind, At: at * 1e9, Cause: comms.Cause{Text: name}, Error: err}
	}
	h1 := records.Batch{Agent: "h1", Events: []comms.Event{event(comms.EventBuilding, "e", 1, nil)}}
	h2 := records.Batch{Agent: "h2", Events: []comms.Event{event(comms.EventBuilding, "e", 2, nil), event(comms.EventBuilding, "e", 3, failure)}}
	ready := records.Batch{Agent: "h1", Events: []comms.Event{event(comms.EventEnv, "e", 5, nil), event(comms.EventEnv, "of another build", 5, nil)}}
	failed := records.Batch{Agent: "h2", Events: []comms.Event{event(comms.EventEnv, "e", 6, failure)}}
	both := records.Job{Phase: comms.JobRunning, Agent: "h1", Assignments: []records.Assignment{{Agent: "h1"}, {Agent: "h2"}}}
	for name, c := range map[string]struct {
		job     records.Job
		batches []records.Batch
		want    string
	}{
		"none asked for":          {both, nil, "e unused, f unused"},
		"two agents build":        {both, []records.Batch{h1, h2}, "e building h1, e building h2 no network, f unused"},
		"one builds, one has it":  {both, []records.Batch{h1, h2, ready}, "e ready h1 4s, e building h2 no network, f unused"},
		"one has it, one has not": {both, []records.Batch{h1, h2, ready, failed}, "e ready h1 4s, e failed h2 no network 4s, f unused"},
		"its agent has gone":      {records.Job{Phase: comms.JobRunning, Agent: "h2"}, []records.Batch{h1, h2}, "e building h2 no network, f unused"},
		"its job has ended":       {records.Job{Phase: comms.JobCancelled, Agent: "h1"}, []records.Batch{h1}, "e unused, f unused"},
	} {
		rows, err := environments(&c.job, g, func(yield func(records.Batch, error) bool) {
			for _, b := range c.batches {
				if !yield(b, nil) {
					return
				}
			}
		})
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, r := range rows {
			seconds := ""
			if r.Seconds > 0 {
				seconds = fmt.Sprintf("%gs", r.Seconds)
			}
			got = append(got, strings.Join(slices.DeleteFunc([]string{r.Name, r.State, r.Agent, r.Error, seconds}, func(s string) bool { return s == "" }), " "))
		}
		if text := strings.Join(got, ", "); text != c.want {
			t.Errorf("%s: %s, want %s", name, text, c.want)
		}
	}
}
