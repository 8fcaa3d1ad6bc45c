package report

import (
	"testing"
	"time"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/dag"
)

// A call is drawn with the task that made it, wherever that stands among the tasks of its job.
func TestCallsOfTasksInAnyOrder(t *testing.T) {
	g, err := dag.ParseYAML("job.yaml", []byte("job: j\ntasks:\n  a: {run: F, in: {x: b.x}, out: [x]}\n  b: {run: F, out: [x]}\noutputs: [a.x]\n"), dag.Override{}, dag.Options{})
	if err != nil {
		t.Fatal(err)
	}
	at := func(s float64) string { return time.Unix(1_700_000_000, int64(s*1e9)).UTC().Format(time.RFC3339Nano) }
	a, b := g.TaskName(0), g.TaskName(1)
	r, err := NewRun(g, []comms.TaskRow{
		{Index: 0, Name: a, Group: "a", State: "done", Agent: "a", Executor: 1, Started: at(5), Seconds: 2},
		{Index: 1, Name: b, Group: "b", State: "done", Agent: "a", Executor: 2, Started: at(1), Seconds: 2},
	}, []comms.CallRow{{Name: a + "/0", Task: a, Parent: a, Function: "f", State: "done", Agent: "a", Executor: 3, Called: at(5.5), Started: at(5.6), Seconds: 1}})
	if err != nil {
		t.Fatal(err)
	}
	if _, executor, ok := r.parent(&r.Calls[0]); !ok || executor != 1 {
		t.Errorf("the parent of %s is on executor %d (known: %v), want 1", r.Calls[0].Name, executor, ok)
	}
}
