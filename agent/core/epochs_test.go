package core

import (
	"errors"
	"slices"
	"testing"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/dag"
)

// joined is a graph whose task c reads what t and u make.
func joined(t *testing.T) *dag.Graph {
	return graph(t, `
job: joined
tasks:
  t: {run: F, out: [o]}
  u: {run: F, out: [o]}
  c: {run: F, in: {x: t.o, y: u.o}, out: [o]}
outputs: [c.o]
`)
}

// A copy that waits to be told again is found by the name of its bytes also when the
// agent has made the dataset anew: when it is spilled, its file says what it is.
func TestCopyBesideWhatWasMadeAnew(t *testing.T) {
	n := pair(t)
	n.worlds[0].segment, n.worlds[1].segment = 1000, 1000
	g := joined(t)
	b := n.worlds[1]
	tasks := func(of ...dag.TaskIndex) (all []comms.Range) {
		for _, t := range of {
			all = append(all, comms.Range{First: t, Last: t})
		}
		return all
	}
	assign := func(epoch uint64, attempts []uint32, run []comms.Range, others []comms.Range) comms.JobID {
		return b.assign(1, g, comms.Assign{Epoch: epoch, Run: run, Attempts: attempts, Peers: []comms.Assignment{{Agent: "a", Incarnation: 1, Run: others}}})
	}
	n.worlds[0].assign(1, g, comms.Assign{Run: tasks(0), Peers: []comms.Assignment{{Agent: "b", Incarnation: 1, Run: tasks(2)}}})
	job := assign(1, nil, tasks(2), tasks(0, 1))
	n.run()
	ref := comms.DatasetRef{Task: 0}
	copied := b.c.byJob[job].data[ref]
	if copied == nil || !copied.copy {
		t.Fatal("the dataset was not fetched")
	}
	assign(2, []uint32{1}, tasks(2), tasks(0, 1)) // another attempt of it, there
	assign(3, []uint32{2 << 16, 1}, tasks(0, 2), tasks(1))
	b.run()
	j := b.c.byJob[job]
	if made := j.data[ref]; made == nil || made.copy {
		t.Fatal("the dataset was not made anew")
	}
	if d, _ := b.c.describe(j.key(copied)); d.Ref != ref || d.Attempt != copied.desc.Attempt {
		t.Errorf("the copy is described as %v of attempt %d", d.Ref, d.Attempt)
	}
}

// A copy that waits to be told again is one too many when the controller gives the
// dataset itself: there are not two of one name.
func TestCopyThatIsGiven(t *testing.T) {
	n := pair(t)
	g := joined(t)
	a, b := n.worlds[0], n.worlds[1]
	run := func(first, last dag.TaskIndex) []comms.Range { return []comms.Range{{First: first, Last: last}} }
	a.assign(1, g, comms.Assign{Run: run(0, 0), Peers: []comms.Assignment{{Agent: "b", Incarnation: 1, Run: run(2, 2)}}})
	assign := func(epoch uint64, given ...comms.Desc) *job {
		id := b.assign(1, g, comms.Assign{Epoch: epoch, Run: run(2, 2), Datasets: given, Peers: []comms.Assignment{{Agent: "a", Incarnation: 1, Run: run(0, 1)}}})
		return b.c.byJob[id]
	}
	j := assign(1)
	n.run()
	ref := comms.DatasetRef{}
	told := j.data[ref]
	if told == nil || !told.copy || told.sealed {
		t.Fatal("the dataset was not told inline")
	}
	if assign(2); j.peers.old[ref] != told {
		t.Fatal("the copy does not wait to be told again")
	}
	assign(3, told.desc)
	if d := j.data[ref]; d == nil || d == told || len(j.peers.old) > 0 {
		t.Errorf("it is here as %v, and %d copies wait", d, len(j.peers.old))
	}
	if err := b.c.Check(); err != nil {
		t.Error(err)
	}
}

// A task that begins anew before others were told of its end has not ended for them:
// of what it makes again they may not know that it is gone.
func TestEndThatWasNotTold(t *testing.T) {
	n := pair(t)
	a := n.worlds[0]
	a.segment = 1000
	job := a.assign(1, graph(t, `
job: again
tasks:
  gen: {run: F, generates: {o: {count: 3}}}
  all: {run: F, in: {x: "gen.o[*]"}, out: [o]}
outputs: [all.o]
`), comms.Assign{Run: []comms.Range{{First: 0, Last: 0}}, Peers: []comms.Assignment{{Agent: "b", Incarnation: 1, Run: []comms.Range{{First: 1, Last: 1}}}}})
	for !a.c.neighbour("b").up {
		a.turn()
	}
	a.step(PeerFull{Agent: "b", Full: true})
	a.run()
	if a.done[comms.TaskID{Job: job, Index: 0}] != 1 {
		t.Fatal("the generator has not ended")
	}
	j := a.c.byJob[job]
	a.c.lost(j.key(j.data[comms.DatasetRef{Task: 0, Element: 1}]), errors.New("the checksum differs"))
	a.log = nil
	a.step(PeerFull{Agent: "b"})
	if _, ended, _ := a.told(); ended != 0 {
		t.Error("the end of a task that begins anew is told")
	}
	a.run()
	if _, ended, _ := a.told(); ended != 1 {
		t.Errorf("its end is told %d times", ended)
	}
}

// TestEndsThatAreTakenBack: of tasks that begin anew only the ends that follow are told.
func TestEndsThatAreTakenBack(t *testing.T) {
	n := pair(t)
	a := n.worlds[0]
	job := a.assign(1, graph(t, `
job: again
tasks:
  t: {run: F, for: {i: 0..2}, out: [o]}
  all: {run: F, in: {x: "t[*].o"}, out: [o]}
outputs: [all.o]
`), comms.Assign{Run: []comms.Range{{First: 0, Last: 2}}, Peers: []comms.Assignment{{Agent: "b", Incarnation: 1, Run: []comms.Range{{First: 3, Last: 3}}}}})
	for !a.c.neighbour("b").up {
		a.turn()
	}
	a.step(PeerFull{Agent: "b", Full: true})
	a.run()
	j := a.c.byJob[job]
	j.untellEnd(0)
	j.untellEnd(1)
	j.tasks[1].state = tSkipped
	a.c.offerEnd(j, 1)
	a.log = nil
	a.step(PeerFull{Agent: "b"})
	var got []comms.Ended
	for _, act := range a.log {
		if to, ok := act.(ToPeer); ok {
			if m, ok := to.Msg.(*comms.Notice); ok {
				got = append(got, m.Ended...)
			}
		}
	}
	want := []comms.Ended{{First: 1, Last: 1, How: comms.OutcomeSkipped}, {First: 2, Last: 2, How: comms.OutcomeDone}}
	if !slices.Equal(got, want) {
		t.Errorf("told is %v, want %v", got, want)
	}
}
