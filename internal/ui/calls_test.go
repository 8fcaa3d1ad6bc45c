package ui

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/cascade-run/cascade/comms"
)

// Ends of called tasks are read once as they come, a round at a time. Counts are exact, lists are the
// newest, and what is kept does not grow with them.
func TestManyCalls(t *testing.T) {
	f := newFake(t)
	f.calls, f.refs = nil, nil
	const many, functions = 45_000, 300
	grow := func(n int) {
		for range n {
			i := len(f.calls)
			c := comms.CallRow{Name: fmt.Sprintf("root/%d", i), Task: "root", Function: fmt.Sprintf("f%d", i%functions), State: "done", Tries: 1, Agent: "node7", Started: at.Format(time.RFC3339Nano), Seconds: float64(i%functions) + 1}
			if i%functions == 7 {
				c.State, c.Error = "failed", fmt.Sprintf("case %d is bad", i)
			}
			f.calls = append(f.calls, c)
		}
	}
	grow(many)
	h := &Handler{cfg: Config{Source: f}}
	ask := h.calls(f.progress.Job)
	state := func() *callsState {
		t.Helper()
		v, err := ask(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return v.(*callsState)
	}
	var ended []int
	for range 4 {
		s := state()
		ended = append(ended, s.Ended)
		if whole := s.Ended == many; s.Whole != whole {
			t.Errorf("of %d it has %d, and says that it has all: %v", many, s.Ended, s.Whole)
		}
	}
	if want := []int{20_000, 40_000, many, many}; !slices.Equal(ended, want) {
		t.Errorf("it had %v after its rounds, want %v", ended, want)
	}
	grow(3)
	f.refs = []comms.ReferenceRow{{Name: "root/x", Kind: "call", Function: "f3", Job: f.progress.Job.String(), State: "running"}, {Name: "root/y", Kind: "call", Function: "unheard", State: "ready", Job: f.progress.Job.String()}}
	f.queries = nil
	s := state()
	if len(f.queries) > 3 {
		t.Errorf("three more were asked for by %d questions", len(f.queries))
	}
	sum, failed := 0, 0
	for _, r := range s.Functions {
		sum, failed = sum+r.Calls, failed+r.Failed
		switch r.Function {
		case "f3":
			if r.Running != 1 || r.Calls != many/functions || r.Median != 4 {
				t.Errorf("f3 is %+v", r)
			}
		case "":
			if r.Waiting != 1 {
				t.Errorf("others are %+v", r)
			}
		}
	}
	if s.Ended != many+3 || sum != many+3 || failed != many/functions || s.Running != 1 || s.Waiting != 1 || len(s.Functions) > mostFunctions+1 {
		t.Errorf("%d ended, by function %d, %d failed, %d run, %d wait, %d rows", s.Ended, sum, failed, s.Running, s.Waiting, len(s.Functions))
	}
	if len(s.Newest) != shownRows || s.Newest[0].Name != "root/45002" || s.Newest[shownRows-1].Name != "root/44803" {
		t.Errorf("the newest are %d from %s to %s", len(s.Newest), s.Newest[0].Name, s.Newest[len(s.Newest)-1].Name)
	}
	if len(s.Causes) != 1 || s.Causes[0].Count != many/functions || s.Causes[0].Message != "case 7 is bad" {
		t.Errorf("causes %+v", s.Causes)
	}
}

// A call that runs at another agent than its owner's counts once, as what it does there.
func TestOpenCalls(t *testing.T) {
	for _, c := range []struct {
		what             string
		rows             []comms.ReferenceRow
		running, waiting int
	}{
		{"none", nil, 0, 0},
		{"of one agent", []comms.ReferenceRow{{State: "running"}, {State: "waiting"}, {State: "ready"}, {State: "done"}, {State: "failed"}}, 1, 2},
		{"it runs elsewhere", []comms.ReferenceRow{{State: "away"}, {State: "running", Owner: "agent a"}}, 1, 0},
		{"it waits elsewhere", []comms.ReferenceRow{{State: "away"}, {State: "ready", Owner: "agent a"}}, 0, 1},
		{"it is on its way", []comms.ReferenceRow{{State: "away"}, {State: "away"}, {State: "running", Owner: "agent a"}}, 1, 1},
		{"one that runs elsewhere calls", []comms.ReferenceRow{{State: "away"}, {State: "running", Owner: "agent a"}, {State: "running", Owner: "agent a root/3"}}, 2, 0},
		{"its owner has not told yet", []comms.ReferenceRow{{State: "running", Owner: "agent a"}}, 1, 0},
		{"values, and what stands for a call elsewhere", []comms.ReferenceRow{{Kind: "value", State: "done"}, {Kind: "remote", State: "running"}}, 0, 0},
	} {
		open := newOpened()
		for i := range c.rows {
			if c.rows[i].Kind == "" {
				c.rows[i].Kind = "call"
			}
			open.add(&c.rows[i])
		}
		running, waiting := 0, 0
		for _, f := range open.functions {
			r, w := f.counts()
			running, waiting = running+r, waiting+w
		}
		if running != c.running || waiting != c.waiting {
			t.Errorf("%s: %d run and %d wait, want %d and %d", c.what, running, waiting, c.running, c.waiting)
		}
	}
}

// Of many references the largest are shown, and all are counted.
func TestManyReferences(t *testing.T) {
	f := newFake(t)
	ref := f.refs[4]
	f.refs = nil
	for i := range 5000 {
		r := ref
		r.Name, r.Agent, r.Size, r.Shm = fmt.Sprintf("root/%d", i), fmt.Sprintf("node%d", i%3), uint64(i*7919%5000), uint64(i*7919%5000)
		f.refs = append(f.refs, r)
	}
	h := &Handler{cfg: Config{Source: f}}
	v, err := h.memory(f.progress.Job)(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	s, sum := v.(*memoryState), uint64(0)
	for _, k := range s.Hosts {
		sum += k.Shm
	}
	if s.References != 5000 || len(s.Hosts) != 3 || sum != 4999*5000/2 || len(s.Largest) != shownRows {
		t.Errorf("%d references on %d hosts with %d bytes, %d shown", s.References, len(s.Hosts), sum, len(s.Largest))
	}
	for i, r := range s.Largest {
		if r.Size != uint64(4999-i) {
			t.Fatalf("place %d of the largest has %d bytes", i, r.Size)
		}
	}
}
