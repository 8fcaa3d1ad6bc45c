package core

import (
	"math"
	"testing"
	"time"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/dag"
)

// hostAgent is an agent with a neighbour b that grants it tasks.
type hostAgent struct {
	t   *testing.T
	c   *Core
	now time.Time
}

func newHostAgent(t *testing.T) *hostAgent {
	s := &hostAgent{t: t, now: time.Unix(1000, 0)}
	s.c = New(Config{Agent: "a", Total: comms.Resources{CPU: 1000, Memory: 1 << 30}, Memory: 1 << 20, ArenaBytes: 1 << 16, ForwardAfter: time.Second})
	s.do(PeerUp{Agent: "b"})
	return s
}

// do steps and returns the grants that went back, with the reasons.
func (s *hostAgent) do(ev Event) map[uint64]string {
	s.now = s.now.Add(time.Millisecond)
	back := map[uint64]string{}
	for _, a := range s.c.Step(s.now, ev) {
		if p, ok := a.(ToPeer); ok {
			if m, ok := p.Msg.(*comms.GrantReport); ok {
				for _, it := range m.Items {
					if it.Back != "" {
						back[it.Grant] = it.Back
					}
				}
			}
		}
	}
	return back
}

func (s *hostAgent) check() {
	s.t.Helper()
	if err := s.c.Check(); err != nil {
		s.t.Fatal(err)
	}
}

func oneInput(grant uint64, port uint32) comms.GrantTask {
	return comms.GrantTask{Grant: grant, Name: "fit/0", Inputs: []comms.GrantInput{{Port: port, Data: inlined("x")}}}
}

func inlined(v string) comms.Desc {
	return comms.Desc{Codec: "raw", Size: uint64(len(v)), Place: comms.Place{Kind: comms.PlaceInline, Bytes: []byte(v)}}
}

// One task that cannot be taken goes back alone.
func TestGrantsAreRefusedOneByOne(t *testing.T) {
	s := newHostAgent(t)
	m := granted(comms.CallKind{Inputs: []comms.KindIn{{Name: "x"}}})
	m.Tasks = []comms.GrantTask{oneInput(1, 5), oneInput(2, 0)}
	back := s.do(FromPeer{Agent: "b", Msg: m})
	s.check()
	if len(back) != 1 || back[1] == "" || len(s.c.hosts) != 1 {
		t.Errorf("%v went back and %d are here, want the first alone to go back", back, len(s.c.hosts))
	}
}

// Calls of one job share its tenant at their host, also when it has no name.
func TestGrantsOfOneJobShare(t *testing.T) {
	s := newHostAgent(t)
	for i, name := range []string{"", "", "anna", "anna"} {
		m := granted(comms.CallKind{Inputs: []comms.KindIn{{Name: "x"}}})
		m.Tenant, m.Depth = name, uint64(i+1)
		m.Tasks = []comms.GrantTask{oneInput(uint64(i), 0)}
		s.do(FromPeer{Agent: "b", Msg: m})
	}
	s.check()
	if len(s.c.jobs) != 4 || len(s.c.tenants) != 2 {
		t.Errorf("%d jobs of %d tenants, want 4 of 2", len(s.c.jobs), len(s.c.tenants))
	}
}

// A grant of which no task is taken leaves neither job nor tenant.
func TestRefusedGrantsLeaveNothing(t *testing.T) {
	s := newHostAgent(t)
	for i := byte(1); i < 20; i++ {
		m := granted(comms.CallKind{Environment: "none", Inputs: []comms.KindIn{{Name: "x"}}})
		m.Root.Job = comms.JobID{i}
		m.Tasks = []comms.GrantTask{oneInput(uint64(i), 0)}
		if back := s.do(FromPeer{Agent: "b", Msg: m}); len(back) != 1 {
			t.Fatalf("%v went back", back)
		}
		s.do(FromPeer{Agent: "b", Msg: &comms.GrantEnd{Grants: []uint64{uint64(i)}}})
	}
	s.do(Idle{})
	s.check()
	if n := len(s.c.jobs); n > 0 {
		t.Errorf("%d jobs are left of refused grants", n)
	}
}

// Tasks may be granted for ever: jobs that are full are dropped when their tasks have ended.
func TestFullJobsOfHostedTasksAreDropped(t *testing.T) {
	s := newHostAgent(t)
	grant := uint64(0)
	batch := func() (all []uint64) {
		m := granted(comms.CallKind{Inputs: []comms.KindIn{{Name: "x"}}})
		for range 256 {
			grant++
			all = append(all, grant)
			m.Tasks = append(m.Tasks, oneInput(grant, 0))
		}
		s.do(FromPeer{Agent: "b", Msg: m})
		return all
	}
	before := batch()
	for range 2 * mostRows / 256 {
		next := batch()
		s.do(FromPeer{Agent: "b", Msg: &comms.GrantEnd{Grants: before}})
		before = next
	}
	s.do(FromPeer{Agent: "b", Msg: &comms.GrantEnd{Grants: before}})
	s.do(Idle{})
	s.check()
	if n := len(s.c.jobs); n > 0 {
		t.Errorf("%d jobs are left", n)
	}
}

// A parent may put and drop values for ever.
func TestFullJobsOfCallsAreDropped(t *testing.T) {
	s := newChain(t)
	put := func(n uint64) {
		s.do(FromExecutor{1, &comms.Calls{Run: 1, Items: []comms.CallItem{{Ref: comms.CallRef{Number: n}, Inputs: []comms.CallInput{{Data: inlined("v")}}}}}})
	}
	s.ran = 1 // it checks its tables seldom
	const most = 2 * mostRows
	for n := range uint64(most) {
		put(n)
		s.do(FromExecutor{1, &comms.CallDrop{Run: 1, Refs: []comms.CallRef{{Number: n}}}})
	}
	put(most)
	if by := s.c.byJob[comms.JobID{1}].callers[0]; len(by.jobs) != 1 {
		t.Errorf("%d jobs are kept for one value", len(by.jobs))
	}
}

// newSession returns an agent that runs the program of a session as run 1.
func newSession(t *testing.T) *chain {
	s := &chain{t: t, now: time.Unix(1000, 0), size: chained}
	s.c = New(Config{Agent: "a1", Dir: "/job", Total: comms.Resources{CPU: 2000, Memory: 1 << 30, Custom: []comms.Amount{{Name: dag.AgentResource("a1"), N: 1}}}, Memory: 1 << 20, ArenaBytes: 1 << 16})
	g, err := dag.NewSession("session work", "a1", "")
	if err != nil {
		t.Fatal(err)
	}
	s.do(Idle{})
	s.do(ControllerUp{})
	s.do(FromController{Msg: &comms.Assign{Job: comms.JobID{1}, Epoch: 1, Dir: "/job", Attempts: []uint32{1}, Run: []comms.Range{{}}}, Graph: g})
	s.do(Attach{Key: 7, Session: comms.JobID{1}})
	s.do(Spawned{Executor: 1, PID: 101, ShmDir: "/dev/shm"})
	s.do(FromExecutor{1, &comms.Report{Items: []comms.ReportItem{{Kind: comms.ReportStarted, Run: 1}}}})
	return s
}

// starts starts the executors that the agent asks for.
func (s *chain) starts() {
	for id := comms.ExecutorID(2); s.c.byExec[id] != nil; id++ {
		if s.c.byExec[id].state == exStarting {
			s.do(Spawned{Executor: id, PID: int64(id), ShmDir: "/shm"})
			s.do(FromExecutor{id, &comms.Hello{Functions: []comms.FuncSig{{Name: "F"}}}})
		}
	}
}

// The program of a session has one run: what it drops is not kept for another.
func TestSessionsKeepNothing(t *testing.T) {
	s := newSession(t)
	k := comms.CallKind{ID: 1, Function: "F", Inputs: []comms.KindIn{{Name: "x"}}, Outputs: []comms.KindOut{{Name: "y"}}}
	s.do(FromExecutor{1, &comms.Calls{Run: 1, Kinds: []comms.CallKind{k}, Items: []comms.CallItem{{Kind: 1, Inputs: []comms.CallInput{{Data: inlined("v")}}}}}})
	s.starts()
	for n := uint64(1); n < 1000; n++ {
		s.do(FromExecutor{1, &comms.Calls{Run: 1, Items: []comms.CallItem{{Ref: comms.CallRef{Number: n}, Kind: 1, Inputs: []comms.CallInput{{Data: inlined("v")}}}}}})
		s.do(FromExecutor{1, &comms.CallDrop{Run: 1, Refs: []comms.CallRef{{Number: n}}}})
	}
	kept := 0
	for _, j := range s.c.jobs {
		if j.dyn != nil {
			kept += j.dyn.kept
		}
	}
	if s.ran < 900 || kept > 10 {
		t.Errorf("%d of 1,000 calls have run, %d rows are kept of those that were dropped", s.ran, kept)
	}
}

// A program may make kinds of calls for ever, if it says which it needs no more.
func TestKindsAreForgotten(t *testing.T) {
	s := newSession(t)
	s.ran = 1 // it checks its tables seldom
	const most = 10_000
	for n := range uint64(most) {
		k := comms.CallKind{ID: uint32(n) + 1, Function: "F", Timeout: int64(n) + 1, Inputs: []comms.KindIn{{Name: "x"}}, Outputs: []comms.KindOut{{Name: "y"}}}
		forget := uint32(0)
		if n%4096 == 0 {
			forget = uint32(n)
		}
		s.do(FromExecutor{1, &comms.Calls{Run: 1, Forget: forget, Kinds: []comms.CallKind{k},
			Items: []comms.CallItem{{Ref: comms.CallRef{Number: n}, Kind: k.ID, Inputs: []comms.CallInput{{Data: inlined("v")}}}}}})
		s.do(FromExecutor{1, &comms.CallDrop{Run: 1, Refs: []comms.CallRef{{Number: n}}, Cancel: true}})
	}
	by := s.c.byJob[comms.JobID{1}].callers[0]
	if len(by.kinds) > 4096 {
		t.Errorf("%d kinds are left of %d", len(by.kinds), most)
	}
	// A shape is there as long as a job has calls of it: another of the same kind meets it.
	k := comms.CallKind{ID: most + 1, Function: "F", Timeout: 1, Inputs: []comms.KindIn{{Name: "x"}}, Outputs: []comms.KindOut{{Name: "y"}}}
	before := len(by.shapes)
	s.do(FromExecutor{1, &comms.Calls{Run: 1, Kinds: []comms.CallKind{k},
		Items: []comms.CallItem{{Ref: comms.CallRef{Number: most}, Kind: k.ID, Inputs: []comms.CallInput{{Data: inlined("v")}}}}}})
	if len(by.shapes) != before {
		t.Errorf("there were %d shapes, and are %d with one that was known", before, len(by.shapes))
	}
}

// What an executor says of its calls is within bounds, or is refused.
func TestPossibleKinds(t *testing.T) {
	ports := make([]comms.KindOut, mostPorts+1)
	for _, c := range []struct {
		what string
		k    comms.CallKind
		ok   bool
	}{
		{"nothing special", comms.CallKind{Function: "F"}, true},
		{"no core", comms.CallKind{Function: "F", Resources: comms.Resources{CPU: dag.NoCPU}}, true},
		{"no function", comms.CallKind{}, false},
		{"less than no core", comms.CallKind{Function: "F", Resources: comms.Resources{CPU: -1000}}, false},
		{"negative memory", comms.CallKind{Function: "F", Resources: comms.Resources{Memory: -1}}, false},
		{"a negative device", comms.CallKind{Function: "F", Resources: comms.Resources{GPU: -1000}}, false},
		{"devices without number", comms.CallKind{Function: "F", Resources: comms.Resources{GPU: math.MaxInt64}}, false},
		{"negative licences", comms.CallKind{Function: "F", Resources: comms.Resources{Custom: []comms.Amount{{Name: "x", N: -1}}}}, false},
		{"a time-out before now", comms.CallKind{Function: "F", Timeout: -1}, false},
		{"a time-out for ever", comms.CallKind{Function: "F", Timeout: math.MaxInt64}, false},
		{"too many outputs", comms.CallKind{Function: "F", Outputs: ports}, false},
	} {
		t.Run(c.what, func(t *testing.T) {
			if err := possible(&c.k); (err == nil) != c.ok {
				t.Error(err)
			}
		})
	}
}
