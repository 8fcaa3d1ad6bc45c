package core

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/dag"
	"github.com/cascade-run/cascade/shm/ledger"
)

// chain is an agent with a parent on executor 1, whose calls each read what the one before returned. It runs each
// at once: a run asks for a lease and returns a dataset in it.
type chain struct {
	t    *testing.T
	c    *Core
	now  time.Time
	todo []Event
	ran  int             // calls
	cur  comms.RunID     // of the call at hand
	size uint64          // of what calls return
	rots int             // datasets that are lost when they are read back
	told []comms.CallEnd // to the parent
}

const chained = 8192 // bytes of a result: no message has so many

func newChain(t *testing.T) *chain {
	s := &chain{t: t, now: time.Unix(1000, 0), size: chained}
	s.c = New(Config{Agent: "a1", Dir: "/job", Total: comms.Resources{CPU: 2000, Memory: 1 << 30}, Memory: 1 << 20, ArenaBytes: 1 << 16, Warm: 2})
	s.do(Idle{})
	for id := comms.ExecutorID(1); id <= 2; id++ {
		s.do(Spawned{Executor: id, PID: int64(id), ShmDir: "/shm"})
		s.do(FromExecutor{id, &comms.Hello{Functions: []comms.FuncSig{{Name: "F"}}}})
	}
	b := dag.NewBuilder("chain")
	b.Add(dag.Group{Name: "t", Run: dag.Run{Function: "F"}, Outputs: []dag.OutputDecl{{Name: "x"}}})
	g, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	s.do(ControllerUp{})
	s.do(FromController{Msg: &comms.Assign{Job: comms.JobID{1}, Epoch: 1, Dir: "/job"}, Graph: g})
	return s
}

// do steps with an event, and with all that follows from it.
func (s *chain) do(ev Event) {
	s.t.Helper()
	for s.todo = append(s.todo, ev); len(s.todo) > 0; {
		ev, s.todo = s.todo[0], s.todo[1:]
		s.now = s.now.Add(time.Millisecond)
		for _, a := range s.c.Step(s.now, ev) {
			s.perform(a)
		}
		if s.ran%100 == 0 {
			if err := s.c.Check(); err != nil {
				s.t.Fatalf("after %T: %v", ev, err)
			}
		}
	}
}

func (s *chain) perform(a Action) {
	switch a := a.(type) {
	case Memory:
		switch e := a.Effect.(type) {
		case ledger.CreateSegment:
			s.todo = append(s.todo, SegmentReady{Segment: uint64(e.Segment), Path: "/shm/s"})
		case ledger.ResizeSegment:
			s.todo = append(s.todo, SegmentReady{Segment: uint64(e.Segment), Path: "/shm/s"})
		case ledger.Spill:
			s.todo = append(s.todo, SpillDone{Key: e.Key, File: "spill"})
		case ledger.ReadBack:
			done := ReadBackDone{Key: e.Key}
			if s.rots > 0 {
				s.rots--
				done.Err = errors.New("the checksum differs")
			}
			s.todo = append(s.todo, done)
		}
	case ToExecutor:
		switch m := a.Msg.(type) {
		case *comms.Dispatch:
			for i := range m.Runs {
				if m.Runs[i].ID == 1 {
					continue // the parent
				}
				s.ran++
				s.cur = m.Runs[i].ID
				s.todo = append(s.todo, FromExecutor{a.Executor, &comms.LeaseReq{Token: 1, Size: s.size, Run: s.cur}})
			}
		case *comms.Lease:
			d := comms.Desc{Codec: "raw", Size: s.size, Place: comms.Place{Kind: comms.PlaceSegment, Segment: m.Segment, Offset: m.Offset}}
			items := []comms.ReportItem{{Kind: comms.ReportFinished, Run: s.cur, Outputs: []comms.Desc{d}, Usage: &comms.Usage{Duration: 1000}},
				{Kind: comms.ReportLeaseReturn, Lease: &comms.Lease{Segment: m.Segment, Offset: m.Offset + m.Size}}}
			s.todo = append(s.todo, FromExecutor{a.Executor, &comms.Report{Items: items}})
		case *comms.CallEnds:
			s.told = append(s.told, m.Ends...)
		}
	case SetTimer:
		if a.At.Before(s.now.Add(time.Second)) {
			s.todo = append(s.todo, Tick{})
		}
	}
}

// call makes the n-th call, which reads what the one before it returned, and waits for none.
func (s *chain) call(n uint64) {
	s.t.Helper()
	in := comms.CallInput{From: comms.FromCall, Ref: comms.CallRef{Number: n - 1}}
	if n == 0 {
		in = comms.CallInput{Data: comms.Desc{Codec: "raw", Size: 1, Place: comms.Place{Kind: comms.PlaceInline, Bytes: []byte("v")}}}
	}
	k := comms.CallKind{ID: 1, Function: "F", Inputs: []comms.KindIn{{Name: "x"}}, Outputs: []comms.KindOut{{Name: "y"}}}
	s.do(FromExecutor{1, &comms.Calls{Run: 1, Once: true, Kinds: []comms.CallKind{k}, Items: []comms.CallItem{{Ref: comms.CallRef{Number: n}, Kind: 1, Inputs: []comms.CallInput{in}}}}})
}

func (s *chain) drop(n uint64) {
	s.do(FromExecutor{1, &comms.CallDrop{Run: 1, Refs: []comms.CallRef{{Number: n}}}})
}

// spill calls what needs so much memory that all else goes to disk.
func (s *chain) spill() {
	s.size = 1<<20 - 1<<12
	ref := comms.CallRef{Strand: 1}
	s.do(FromExecutor{1, &comms.Calls{Run: 1, Items: []comms.CallItem{{Ref: ref, Kind: 1, Inputs: []comms.CallInput{
		{Data: comms.Desc{Codec: "raw", Size: 1, Place: comms.Place{Kind: comms.PlaceInline, Bytes: []byte("v")}}}}}}}})
	s.do(FromExecutor{1, &comms.CallDrop{Run: 1, Refs: []comms.CallRef{ref}}})
	s.size = chained
}

// read reads what the n-th call returned.
func (s *chain) read(n uint64) comms.CallEnd {
	s.t.Helper()
	s.told, s.ran = nil, 0
	s.do(FromExecutor{1, &comms.CallRead{Run: 1, Ref: comms.CallRef{Number: n}}})
	if len(s.told) != 1 {
		s.t.Fatalf("the parent reads call %d, and is told %+v", n, s.told)
	}
	if err := s.c.Check(); err != nil {
		s.t.Fatal(err)
	}
	return s.told[0]
}

// rows counts those that are kept.
func (s *chain) rows() (n int) {
	for _, j := range s.c.jobs {
		if j.dyn != nil {
			n += j.dyn.kept
		}
	}
	return n
}

// TestLineageIsBounded: a parent makes a long chain of calls and drops each when the next has it. Of all of them
// the rows that the last may need stay, and no bytes but those of the row at which the chain is cut.
func TestLineageIsBounded(t *testing.T) {
	s := newChain(t)
	const calls = 4*mostLineage + 10
	most, sets := 0, 0
	for n := range uint64(calls) {
		s.call(n)
		if n > 0 {
			s.drop(n - 1)
		}
		most, sets = max(most, s.rows()), max(sets, s.c.led.Stats().Datasets)
	}
	if s.ran != calls {
		t.Fatalf("%d calls have run %d times", calls, s.ran)
	}
	if most > mostLineage+10 || sets > 4 {
		t.Errorf("of %d calls up to %d rows and %d datasets were kept, of %d rows behind one", calls, most, sets, mostLineage)
	}

	s.spill()
	s.rots = 1
	if end := s.read(calls - 1); end.Error != nil || s.ran != 9 { // those that come after the cut
		t.Errorf("a result is lost, %d calls run again, and the parent is told %+v", s.ran, end)
	}
	s.drop(calls - 1)
	if n := s.rows(); n != 0 {
		t.Errorf("the parent has dropped all, and %d rows are kept", n)
	}
}

// TestLineageIsCut: the result at which a chain is cut is lost, too. The error says so.
func TestLineageIsCut(t *testing.T) {
	s := newChain(t)
	for n := range uint64(mostLineage + 2) {
		s.call(n)
		if n > 0 {
			s.drop(n - 1)
		}
	}
	s.spill()
	s.rots = 2
	end := s.read(mostLineage + 1)
	if end.Error == nil || !strings.Contains(end.Error.Message, "at most 1000 levels of calls are kept behind one") {
		t.Errorf("the parent is told %+v", end)
	}
	if err := s.c.Check(); err != nil {
		t.Error(err)
	}
}
