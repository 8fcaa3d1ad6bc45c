package core

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/shm/ledger"
)

// A later incarnation reports what was spilled, serves it, and gives up what nobody wants.
func TestAdopt(t *testing.T) {
	job, other := comms.JobID{1}, comms.JobID{2}
	desc := func(task taskIndex) comms.Desc {
		return comms.Desc{Ref: comms.DatasetRef{Task: task}, Attempt: 1, Size: 5000, Codec: "raw", Place: comms.Place{Kind: comms.PlaceSegment}}
	}
	c := New(Config{Agent: "a", Memory: 1 << 20, Adopted: []Adopted{
		{Job: job, Desc: desc(0), OnDisk: true}, {Job: job, Desc: desc(1), OnDisk: true}, {Job: other, Desc: desc(7), OnDisk: true},
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
	graph := graph(t, "job: x\ntasks:\n  a: {run: A, out: [x]}\n  b: {run: A, in: {x: a.x}, out: [x]}\noutputs: [a.x, b.x]\n")
	for _, s := range []struct {
		ev   Event
		want string
	}{
		{ControllerUp{}, "snapshot 1:2 snapshot 2:1"},
		{fetch(job, 1), "ledger.CreateSegment"},
		{SegmentReady{Segment: 1, Path: "/1"}, "ledger.ReadBack"},
		{ReadBackDone{Key: key}, "ledger.Enter serve 5000 bytes"},
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

// An output that was made before the agent was started again is there until the
// job's end, although no task that still runs reads it.
func TestAdoptKeepsOutputs(t *testing.T) {
	g := graph(t, "job: x\ntasks:\n  a: {run: A, out: [x]}\n  b: {run: A, out: [x]}\n  c: {run: A, in: {x: d.x}, out: [x]}\n  d: {run: A, out: [x]}\n  e: {run: A, out: [x], keep_going: true}\noutputs: [a.x, b.x, c.x, e.x]\n")
	job := comms.JobID{1}
	task := func(name string) taskIndex {
		i, _ := g.Lookup(name)
		return i
	}
	var sets []Adopted
	for _, name := range []string{"a", "c", "d", "e"} {
		sets = append(sets, Adopted{Job: job, OnDisk: true, Desc: comms.Desc{Ref: comms.DatasetRef{Task: task(name)}, Attempt: 1, Size: 5000, Place: comms.Place{Kind: comms.PlaceSegment}}})
	}
	c := New(Config{Agent: "a", Memory: 1 << 20, Adopted: sets})
	for _, d := range c.jobState(c.byJob[job]).Datasets {
		if d.Place.Kind != comms.PlaceDisk {
			t.Errorf("the snapshot says that output %v lies at a place of kind %d, not on disk", d.Ref, d.Place.Kind)
		}
	}
	done := func(name string) comms.Ended {
		return comms.Ended{First: task(name), Last: task(name), How: comms.OutcomeDone}
	}
	failed := comms.Ended{First: task("e"), Last: task("e"), How: comms.OutcomeFailed} // when it had published
	c.Step(time.Unix(1, 0), FromController{Graph: g, Msg: &comms.Assign{Job: job, Epoch: 2, Attempts: []uint32{1, 2},
		Run: []comms.Range{{First: task("b"), Last: task("c")}}, Ended: []comms.Ended{done("a"), done("d"), failed}}})
	if err := c.Check(); err != nil {
		t.Error(err)
	}
	j := c.byJob[job]
	for name, want := range map[string]bool{"a": true, "c": false, "d": false, "e": true} {
		if got := j.data[comms.DatasetRef{Task: task(name)}] != nil; got != want {
			t.Errorf("%s.x is here: %v, want %v", name, got, want)
		}
	}
}

// What lay in memory is served and read where it is; segments without a dataset, and notes of what is not wanted, end.
func TestAdoptMemory(t *testing.T) {
	job := comms.JobID{1}
	desc := func(task taskIndex, attempt uint32) comms.Desc {
		return comms.Desc{Ref: comms.DatasetRef{Task: task}, Attempt: attempt, Size: 5000, Codec: "raw", Place: comms.Place{Kind: comms.PlaceSegment}}
	}
	at := func(segment ledger.SegmentID, offset int64) ledger.Place {
		return ledger.Place{Segment: segment, Offset: offset}
	}
	segments := func(ids ...ledger.SegmentID) (all []Segment) {
		for _, id := range ids {
			all = append(all, Segment{ledger.AdoptedSegment{ID: id, Kind: ledger.Arena, Bytes: 64 << 10}, fmt.Sprintf("/a%d", id)})
		}
		return all
	}
	for _, c := range []struct {
		name     string
		memory   int64
		segments []Segment
		sets     []Adopted
		want     string // effects, and what the snapshot and a fetch of task 0 give
	}{
		{"arena", 1 << 20, segments(3, 4), []Adopted{{Job: job, Desc: desc(0, 1), Place: at(3, 8192)}},
			"ledger.RemoveSegment{Segment:0x4} snapshot 1 serve /a3+8192"},
		{"two attempts", 1 << 20, segments(3), []Adopted{{Job: job, Desc: desc(0, 2), Place: at(3, 8192)}, {Job: job, Desc: desc(0, 1), Place: at(3, 0)}},
			"ledger.Strike{attempt 1} snapshot 1 serve /a3+8192"},
		{"outside", 1 << 20, segments(3), []Adopted{{Job: job, Desc: desc(0, 1), Place: at(3, 64<<10-4999)}},
			"ledger.Strike{attempt 1} ledger.RemoveSegment{Segment:0x3} snapshot 0 reply 2"},
		{"more than there may be", 64 << 10, segments(3, 4), []Adopted{{Job: job, Desc: desc(0, 1), Place: at(3, 0)}},
			"ledger.Strike{attempt 1} ledger.RemoveSegment{Segment:0x3} ledger.RemoveSegment{Segment:0x4} reply 2"},
		{"outside, and on disk", 1 << 20, segments(3), []Adopted{{Job: job, Desc: desc(0, 1), Place: at(5, 0), OnDisk: true}},
			"ledger.Strike{attempt 1} ledger.RemoveSegment{Segment:0x3} snapshot 1 ledger.CreateSegment{Segment:0x4, Kind:0x0, Bytes:65536}"},
	} {
		core := New(Config{Agent: "a", Memory: c.memory, ArenaBytes: 64 << 10, Segments: c.segments, Adopted: c.sets})
		var got []string
		for _, ev := range []Event{ControllerUp{}, FromClient{Client: 1, Msg: &comms.Fetch{Req: 1, Data: comms.DatasetID{Job: job}}}} {
			for _, a := range core.Step(time.Unix(1, 0), ev) {
				switch a := a.(type) {
				case Memory:
					if s, ok := a.Effect.(ledger.Strike); ok {
						_, _, _, n := s.Key.Split()
						got = append(got, fmt.Sprintf("ledger.Strike{attempt %d}", n>>(attemptShift+8)))
						continue
					}
					got = append(got, fmt.Sprintf("%#v", a.Effect))
				case ToController:
					if m, ok := a.Msg.(*comms.Snapshot); ok && len(m.Jobs) > 0 {
						got = append(got, fmt.Sprintf("snapshot %d", len(m.Jobs[0].Datasets)))
					}
				case ToClient:
					got = append(got, fmt.Sprintf("reply %d", a.Msg.(*comms.Reply).Code))
				case ServeChunk:
					got = append(got, fmt.Sprintf("serve %s+%d", a.Path, a.At))
				}
			}
			if err := core.Check(); err != nil {
				t.Errorf("%s: %v", c.name, err)
			}
		}
		if text := strings.Join(got, " "); text != c.want {
			t.Errorf("%s: got %s\nwant %s", c.name, text, c.want)
		}
	}
}
