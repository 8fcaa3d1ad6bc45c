package report

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/dag"
)

// session is a session on host a whose calls run on a and b. The clock of b is 10 s late: calls
// there seem to start before they are made.
func session(t *testing.T) *Run {
	t.Helper()
	g, err := dag.NewSession(`session "work"`, "a", "")
	if err != nil {
		t.Fatal(err)
	}
	at := func(s float64) string {
		return time.Unix(1_700_000_000, int64(s*1e9)).UTC().Format(time.RFC3339Nano)
	}
	call := func(number uint64, parent, function, agent string, executor uint32, made, start, took float64, state string, reads ...comms.CallReads) comms.CallRow {
		c := comms.CallRow{Name: fmt.Sprintf("%s/%d", parent, number), Task: "root", Parent: parent, Number: number, Function: function, State: state, Tries: 1, Agent: agent,
			Executor: executor, Called: at(made), Seconds: took, CPU: took / 2, PeakRSS: 1 << 20, BytesOut: 8, Reads: reads}
		if start > 0 {
			c.Started, c.Ended = at(start), at(start+took)
		}
		if state == "failed" {
			c.Error = "error: <oops>"
		}
		return c
	}
	rows := []comms.CallRow{
		call(0, "root", "make", "a", 2, 20.5, 20.5, 1, "done"),
		call(1, "root", "add", "b", 7, 20.5, 11.6, 0.5, "done", comms.CallReads{Number: 0}, comms.CallReads{Input: 1, Number: 3}),
		call(0, "root/2", "make", "a", 3, 20.75, 20.75, 0.25, "failed"),
		call(1, "root/2", "make", "a", 0, 20.75, 0, 0, "cancelled"),
		call(2, "root", "fan", "a", 4, 20.5, 20.6, 1.5, "failed"),
	}
	rows[0].Tries = 3
	r, err := NewRun(g, []comms.TaskRow{{Name: "root", Group: "root", State: "done", Agent: "a", Executor: 1, Attempt: 1, Started: at(20), Seconds: 4}}, rows)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestCalls: called tasks are intervals on the clocks of their callers, and are summed up by function.
func TestCalls(t *testing.T) {
	r := session(t)
	var b strings.Builder
	fmt.Fprintf(&b, "clocks of %v moved by %.1f, it ends at %.1f\n", r.Hosts, r.Clock, r.End())
	for i := range r.Calls {
		c := &r.Calls[i]
		fmt.Fprintf(&b, "%s on %s: %.2f to %.2f, waited %.2f\n", c.Name, c.Agent, c.Start, c.Finish, c.Waited())
	}
	busy, together := r.Busy()
	fmt.Fprintf(&b, "%.2f of %.2f\n", busy, together)
	p := r.CallPath()
	fmt.Fprintf(&b, "its end waited for %d calls: %.2f, waits %.2f, the program %.2f\n", p.Calls, p.Ran, p.Waited, p.Program)
	for _, f := range r.Functions() {
		fmt.Fprintf(&b, "%s: %d, %d done, %d failed, %d cancelled, %d tries more, %.2f in all, half %.2f, 95%% %.2f, on %s\n", f.Function, f.Calls, f.Done, f.Failed, f.Cancelled, f.Tries,
			f.Total, f.Median, f.P95, f.Where)
	}
	const want = `clocks of [a b] moved by [0.0 9.9], it ends at 4.0
root/0 on a: 0.50 to 1.50, waited 0.00
root/1 on b: 1.50 to 2.00, waited 1.00
root/2/0 on a: 0.75 to 1.00, waited 0.00
root/2 on a: 0.60 to 2.10, waited 0.10
1.60 of 3.25
its end waited for 1 calls: 1.50, waits 0.10, the program 2.40
fan: 1, 0 done, 1 failed, 0 cancelled, 0 tries more, 1.50 in all, half 1.50, 95% 1.50, on a (1)
make: 3, 1 done, 1 failed, 1 cancelled, 2 tries more, 1.25 in all, half 0.25, 95% 1.00, on a (2)
add: 1, 1 done, 0 failed, 0 cancelled, 0 tries more, 0.50 in all, half 0.50, 95% 0.50, on b (1)
`
	if b.String() != want {
		t.Errorf("got\n%s", b.String())
	}
	var trace, page bytes.Buffer
	if err := r.Trace(&trace); err != nil {
		t.Fatal(err)
	}
	if !json.Valid(trace.Bytes()) {
		t.Error("no JSON")
	}
	golden(t, "session.json", trace.Bytes())
	if err := r.Page(&page, comms.JobRow{ID: "0190", Name: r.Graph.Name, Phase: "failed", Tasks: 1, Submitted: "2026-11-20T08:00:00Z"}, nil); err != nil {
		t.Fatal(err)
	}
	golden(t, "session.html", page.Bytes())
	if strings.Contains(page.String(), "<oops>") {
		t.Error("the page has an error as it is")
	}
}

// TestCallDrawings draws called tasks as figure 4 of the paper on Ray (Moritz et al., OSDI 2018) does: data
// edges by way of datasets, control edges from who calls; or the functions alone.
func TestCallDrawings(t *testing.T) {
	r := session(t)
	r.Called = append(r.Called, comms.CallRow{Name: "root/9/0", Task: "root", Parent: "root/9", Function: "make", State: "done"}, // its caller has not ended
		comms.CallRow{Name: "root/1/0", Task: "root", Parent: "root/1", Function: "sum", State: "done", Reads: []comms.CallReads{{OfParent: true}, {Input: 1, OfParent: true, Output: 2}}})
	for _, tt := range []struct {
		file  string
		draw  func(*Drawing) ([]byte, error)
		tasks bool
	}{{"calls.dot", (*Drawing).DOT, true}, {"calls.mmd", (*Drawing).Mermaid, true}, {"functions.mmd", (*Drawing).Mermaid, false}, {"calls.svg", (*Drawing).SVG, true}} {
		b := drawn(t, r.Graph, r.Called, tt.tasks, tt.draw)
		golden(t, tt.file, b)
		if strings.HasSuffix(tt.file, ".svg") {
			wellFormed(t, b)
		}
	}
}

// TestCallPath: the parts of a session's path add up to its time, also when calls wait for each other.
func TestCallPath(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		g, err := dag.NewSession("path", "a", "")
		if err != nil {
			rt.Fatal(err)
		}
		at := func(tenths int) string {
			return time.Unix(1_700_000_000, int64(tenths)*1e8).UTC().Format(time.RFC3339Nano)
		}
		var calls []comms.CallRow
		var ends []int
		now, last, waits := 1, 1, true // the program waits for each before it calls the next
		for n := range rapid.IntRange(0, 12).Draw(rt, "calls") {
			now += rapid.IntRange(0, 3).Draw(rt, "program")
			c := comms.CallRow{Name: fmt.Sprint("root/", n), Task: "root", Parent: "root", Number: uint64(n), Function: "f", State: "done", Agent: "a", Called: at(now)}
			ready := now
			if n > 0 && rapid.Bool().Draw(rt, "reads") {
				k := rapid.IntRange(0, n-1).Draw(rt, "from")
				c.Reads, ready = []comms.CallReads{{Number: uint64(k)}}, max(now, ends[k])
			}
			start := ready + rapid.IntRange(0, 2).Draw(rt, "wait")
			took := rapid.IntRange(1, 5).Draw(rt, "took")
			c.Started, c.Seconds = at(start), float64(took)/10
			calls, ends = append(calls, c), append(ends, start+took)
			if last = max(last, start+took); rapid.Bool().Draw(rt, "gets") {
				now = max(now, start+took)
			} else {
				waits = false
			}
		}
		end := max(now, last) + 1
		r, err := NewRun(g, []comms.TaskRow{{Name: "root", Group: "root", State: "done", Agent: "a", Started: at(0), Seconds: float64(end) / 10}}, calls)
		if err != nil {
			rt.Fatal(err)
		}
		p := r.CallPath()
		if d := p.Ran + p.Waited + p.Program - float64(end)/10; d > 1e-6 || d < -1e-6 || p.Program < 0 || p.Waited < 0 {
			rt.Errorf("%+v does not add up to %v", p, float64(end)/10)
		}
		if waits && p.Calls != len(calls) {
			rt.Errorf("the path has %d of %d calls that were made one after another", p.Calls, len(calls))
		}
	})
}
