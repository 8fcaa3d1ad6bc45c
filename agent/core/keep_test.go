package core

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/dag"
)

// A later incarnation reports what was spilled, serves it, and gives up what nobody wants.
func TestAdopt(t *testing.T) {
	job, other := comms.JobID{1}, comms.JobID{2}
	desc := func(task taskIndex) comms.Desc {
		return comms.Desc{Ref: comms.DatasetRef{Task: task}, Attempt: 1, Size: 5000, Codec: "raw", Place: comms.Place{Kind: comms.PlaceSegment}}
	}
	c := New(Config{Agent: "a", Memory: 1 << 20, Adopted: []comms.JobState{
		{Job: job, Datasets: []comms.Desc{desc(0), desc(1)}},
		{Job: other, Datasets: []comms.Desc{desc(7)}},
	}})
	step := func(ev Event) string {
		t.Helper()
		var b strings.Builder
		for _, a := range c.Step(time.Unix(1, 0), ev) {
			switch a := a.(type) {
			case ToController:
				if m, ok := a.Msg.(*comms.Snapshot); ok {
					for _, j := range m.Jobs {
						fmt.Fprintf(&b, "snapshot %d:%d ", j.Job[0], len(j.Datasets))
					}
				}
			case ToClient:
				fmt.Fprintf(&b, "reply %d ", a.Msg.(*comms.Reply).Code)
			case ServeChunk:
				fmt.Fprintf(&b, "serve %d bytes ", a.N)
			case Memory:
				fmt.Fprintf(&b, "%T ", a.Effect)
			case DropJob:
				fmt.Fprintf(&b, "drop %d ", a.Job[0])
			}
		}
		if err := c.Check(); err != nil {
			t.Errorf("after %T: %v", ev, err)
		}
		return strings.TrimSpace(b.String())
	}
	fetch := func(job comms.JobID, task taskIndex) Event {
		return FromClient{Client: 1, Msg: &comms.Fetch{Req: 1, Data: comms.DatasetID{Job: job, DatasetRef: comms.DatasetRef{Task: task}}}}
	}
	spilled := desc(1)
	key := Key(job, &spilled)
	graph, err := dag.ParseYAML("job.yaml", []byte("job: x\ntasks:\n  a: {run: A, out: [x]}\n  b: {run: A, in: {x: a.x}, out: [x]}\noutputs: [a.x, b.x]\n"), dag.Override{}, dag.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range []struct {
		ev   Event
		want string
	}{
		{ControllerUp{}, "snapshot 1:2 snapshot 2:1"},
		{fetch(job, 1), "ledger.CreateSegment"},
		{SegmentReady{Segment: 1, Path: "/1"}, "ledger.ReadBack"},
		{ReadBackDone{Key: key}, "serve 5000 bytes"},
		{ChunkServed{Client: 1, Req: 1}, ""},
		{FromController{Msg: &comms.Retain{Job: job, Keep: []comms.DatasetRef{{Task: 1}}}}, "ledger.DropSpill"},
		{fetch(job, 0), "reply 2"},
		{FromController{Msg: &comms.Assign{Job: other, Epoch: 1}, Graph: graph}, "ledger.DropSpill"},
		{FromController{Msg: &comms.Assign{Job: job, Epoch: 1, Run: []comms.Range{{First: 0, Last: 0}}, Datasets: []comms.Desc{desc(1)}}, Graph: graph}, ""},
	} {
		if got := step(s.ev); got != s.want {
			t.Errorf("%T: got %q, want %q", s.ev, got, s.want)
		}
	}
	if kept := c.Kept(); len(kept) != 1 || kept[0].Key != key || !kept[0].OnDisk || kept[0].Desc.Codec != "raw" {
		t.Errorf("kept %+v", kept)
	}
	if got := step(FromController{Msg: &comms.Steer{Job: job, Action: comms.SteerForget}}); !strings.Contains(got, "ledger.DropSpill") || !strings.Contains(got, "drop 1") {
		t.Errorf("forget: %q", got)
	}
}
