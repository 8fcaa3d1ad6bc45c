package core

import (
	"fmt"
	"reflect"
	"testing"

	"pgregory.net/rapid"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/dag"
)

// spread assigns a job to several agents: task i to agent of[i].
func (n *network) spread(id byte, g *dag.Graph, m comms.Assign, of []int) comms.JobID {
	n.t.Helper()
	frags := make([]comms.Assignment, len(n.worlds))
	for i := range frags {
		frags[i] = comms.Assignment{Agent: agentName(i), Incarnation: 1, Addresses: []string{"tcp://" + agentName(i)}}
	}
	for t, a := range of {
		r := &frags[a].Run
		if k := len(*r); k > 0 && (*r)[k-1].Last+1 == taskIndex(t) {
			(*r)[k-1].Last++
		} else {
			*r = append(*r, comms.Range{First: taskIndex(t), Last: taskIndex(t)})
		}
	}
	var job comms.JobID
	for a, w := range n.worlds {
		own := m
		own.Run = frags[a].Run
		own.Peers = nil
		for b := range frags {
			if b != a {
				own.Peers = append(own.Peers, frags[b])
			}
		}
		job = w.assign(id, g, own)
		for range n.pick(20, "between assigns") { // notices come before the next Assign
			n.turn()
		}
	}
	return job
}

func randomSplit(t *rapid.T, g *dag.Graph, agents int) []int {
	of := make([]int, g.NumTasks())
	for i := range of {
		of[i] = rapid.IntRange(0, agents-1).Draw(t, "agent")
	}
	return of
}

// cutPaths keeps what of the paths lies on one agent.
func cutPaths(paths [][]taskIndex, of []int) (out [][]taskIndex) {
	for _, p := range paths {
		for len(p) > 0 {
			k := 1
			for k < len(p) && of[p[k]] == of[p[0]] {
				k++
			}
			if k > 1 {
				out = append(out, p[:k])
			}
			p = p[k:]
		}
	}
	return out
}

// TestPeersRandom runs random jobs on two or three agents whose links break and
// whose transfers fail: every task ends where it was assigned, each once, inputs
// hold the right bytes (the worlds check), and in the end no copy and no
// reference is left anywhere.
func TestPeersRandom(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g, n := randomPeers(t)
		of := randomSplit(t, g, len(n.worlds))
		t.Logf("tasks on agents %v", of)
		job := n.spread(1, g, comms.Assign{Fuse: comms.AppendPaths(nil, cutPaths(randomPaths(t, g), of))}, of)
		n.disturb(t, job)
		n.run()
		for _, w := range n.worlds {
			w.hold = false
			w.commitAll()
		}
		n.run()
		n.allEnded(job, of)
		n.end(job)
		n.nothingHeld()
	})
}

// randomPeers draws a job, and two or three agents to run it.
func randomPeers(t *rapid.T) (*dag.Graph, *network) {
	g := randomGraph(t, false)
	return g, randomNetwork(t, rapid.IntRange(2, 3).Draw(t, "agents"))
}

// end tells all agents that a job is over.
func (n *network) end(job comms.JobID) {
	for _, w := range n.worlds {
		w.step(FromController{Msg: &comms.Steer{Job: job, Action: comms.SteerForget}})
	}
	n.run()
}

func randomNetwork(t *rapid.T, agents int) *network {
	cfgs := make([]Config, agents)
	for i := range cfgs {
		cfgs[i] = randomHost(t)
		cfgs[i].Total.CPU = max(cfgs[i].Total.CPU, 2000)
	}
	n := newNetwork(t, xorshift(rapid.Uint64().Draw(t, "seed")), cfgs)
	n.fails = rapid.SampledFrom([]int{0, 0, 100}).Draw(t, "transfers fail")
	for _, w := range n.worlds {
		w.randomFates(t)
		w.spillRot = 0
	}
	return n
}

func (n *network) disturb(t *rapid.T, job comms.JobID) {
	for range rapid.IntRange(0, 5).Draw(t, "disturbances") {
		for range rapid.IntRange(0, 80).Draw(t, "turns") {
			n.turn()
		}
		a := rapid.IntRange(0, len(n.worlds)-1).Draw(t, "one")
		b := (a + rapid.IntRange(1, len(n.worlds)-1).Draw(t, "other")) % len(n.worlds)
		w := n.worlds[a]
		if w.gone || n.worlds[b].gone {
			continue
		}
		switch rapid.IntRange(0, 6).Draw(t, "what") {
		case 0, 1:
			n.cut(a, b, false)
		case 2:
			n.cut(a, b, true)
		case 3:
			w.hold = !w.hold
			w.commitAll()
		case 4:
			if n.up[pairOf(a, b)] {
				w.step(PeerFull{agentName(b), true})
				for range 30 {
					n.turn()
				}
				w.step(PeerFull{agentName(b), false})
			}
		case 5:
			w.step(ControllerDown{})
			for range 20 {
				n.turn()
			}
			w.reconnect()
		case 6:
			for _, ev := range w.inbox {
				if from, ok := ev.(FromPeer); ok {
					w.post(FromPeer{from.Agent, again(n.t, from.Msg)})
				}
			}
		}
	}
}

// allEnded checks that each task has ended where it was assigned, and nowhere else.
func (n *network) allEnded(job comms.JobID, of []int) {
	n.t.Helper()
	for a, w := range n.worlds {
		for i, s := range w.c.byJob[job].tasks {
			if s.state != tAbsent && !s.state.over() {
				n.t.Logf("agent %s: task %d is in state %d, attempt %d, missing %d; %s", agentName(a), i, s.state, s.attempt, s.missing, w.workersText())
			}
		}
	}
	for a, w := range n.worlds {
		w.allEnded(job)
		j := w.c.byJob[job]
		for t, at := range of {
			id := comms.TaskID{Job: job, Index: taskIndex(t)}
			if (w.ends[id] != 0) != (at == a) {
				n.t.Fatalf("task %s of agent %s ended as %d on %s", j.graph.TaskName(taskIndex(t)), agentName(at), w.ends[id], agentName(a))
			}
		}
		if p := j.peers; p != nil {
			if len(p.heard)+len(p.out)+len(p.old) > 0 {
				n.t.Fatalf("agent %s: %d datasets heard of, %d that others need, %d old copies after the end", agentName(a), len(p.heard), len(p.out), len(p.old))
			}
		}
	}
}

func (n *network) nothingHeld() {
	n.t.Helper()
	for _, w := range n.worlds {
		if w.gone {
			continue
		}
		w.nothingHeld()
		c := w.c
		if len(c.pulls)+len(c.offers)+len(c.early)+c.turns.Len()+c.resting.Len() > 0 || c.pulling != 0 || len(c.telling) > 0 {
			n.t.Fatalf("agent %s: %d pulls, %d offers, %d early notices, %d wanted at the end", agentName(w.id), len(c.pulls), len(c.offers), len(c.early), c.turns.Len()+c.resting.Len())
		}
	}
}

// TestPeersLost runs random jobs on agents that lose datasets and of which one may
// be lost as a whole. What is lost and still needed is made again, and all ends.
func TestPeersLost(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g, n := randomPeers(t)
		for _, w := range n.worlds {
			w.spillRot = rapid.SampledFrom([]int{0, 200}).Draw(t, "rot")
		}
		of := randomSplit(t, g, len(n.worlds))
		t.Logf("tasks on agents %v", of)
		n.master = newMaster(n, comms.JobID{1}, g, of)
		n.master.moving = true
		job := n.spread(1, g, comms.Assign{}, of)
		n.master.moving = false
		n.disturb(t, job)
		if rapid.Bool().Draw(t, "kill") {
			n.master.kill(rapid.IntRange(0, len(n.worlds)-1).Draw(t, "whom"))
			n.disturb(t, job)
		}
		n.run()
		for _, w := range n.worlds {
			if !w.gone {
				w.hold = false
				w.commitAll()
			}
		}
		n.run()
		n.master.allEnded()
		n.end(job)
		n.nothingHeld()
	})
}

// allEnded checks that every task has ended, and that the outputs of the job are
// where they were told to be.
func (m *master) allEnded() {
	m.n.t.Helper()
	for a, w := range m.n.worlds {
		if w.gone {
			continue
		}
		for i, s := range w.c.byJob[m.job].tasks {
			if s.state != tAbsent && !s.state.over() {
				m.n.t.Logf("agent %s: task %d is in state %d, attempt %d, missing %d; %s %s", agentName(a), i, s.state, s.attempt, s.missing, w.waitsFor(w.c.byJob[m.job], taskIndex(i)), w.workersText())
			}
		}
	}
	for _, t := range m.tasks() {
		if m.ends[t] == 0 {
			m.n.t.Fatalf("task %s of agent %s never ended", m.graph.TaskName(t), agentName(m.ownerOf(t)))
		}
		if m.ends[t] != comms.OutcomeDone {
			continue
		}
		for o, out := range m.graph.Group(t).Outputs {
			for e := range max(m.counts[outputKey{t, uint32(o)}], 1) {
				ref := comms.DatasetRef{Task: t, Output: uint32(o), Element: e}
				if out.Generate != dag.GenerateNone && e >= m.counts[outputKey{t, uint32(o)}] || !m.keep.has(m.graph, ref) {
					continue
				}
				k, ok := m.data[ref]
				if !ok || m.n.worlds[k.at].c.byJob[m.job].data[ref] == nil {
					m.n.t.Fatalf("output %v of the job is nowhere", ref)
				}
			}
		}
	}
	for a, w := range m.n.worlds {
		if w.gone {
			continue
		}
		j := w.c.byJob[m.job]
		for _, ref := range j.sortedData() {
			if !j.wanted.has(j.graph, ref) {
				text := ""
				for _, e := range j.graph.Consumers(ref.Task) {
					text += fmt.Sprintf("consumer %d in state %d with flags %x; ", e.Consumer, j.at(e.Consumer).state, j.at(e.Consumer).flags)
				}
				for s := range j.slots {
					text += fmt.Sprintf("slot %d done %v reads %v; ", s, j.slots[s].done, j.slotReads(s))
				}
				m.n.t.Logf("%+v %s %s", *j.data[ref], text, w.waitsFor(j, ref.Task))
				m.n.t.Fatalf("agent %s keeps dataset %v after the end", agentName(a), ref)
			}
		}
		if p := j.peers; p != nil && len(p.heard)+len(p.out)+len(p.old) > 0 {
			m.n.t.Logf("%s", w.waitsFor(j, 0))
			m.n.t.Fatalf("agent %s: %d datasets heard of, %d that others need, %d old copies after the end", agentName(a), len(p.heard), len(p.out), len(p.old))
		}
	}
}

// TestPeersDeterminism runs the same cluster twice: equal actions.
func TestPeersDeterminism(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := randomGraph(t, false)
		of := randomSplit(t, g, 2)
		hosts := []Config{randomHost(t), randomHost(t)}
		seed := rapid.Uint64().Draw(t, "seed")
		var logs [2][2][]Action
		for i := range logs {
			n := newNetwork(t, xorshift(seed), hosts)
			for _, w := range n.worlds {
				w.keep, w.failures, w.crashes, w.segment, w.spillRot = true, 30, 20, 500, 100
			}
			n.spread(1, g, comms.Assign{}, of)
			n.run()
			logs[i] = [2][]Action{n.worlds[0].log, n.worlds[1].log}
		}
		if !reflect.DeepEqual(logs[0], logs[1]) {
			t.Fatalf("two runs of the same trace differ")
		}
	})
}

// pair is two agents with shared jobs, without any chance in it.
func pair(t *testing.T) *network {
	n := newNetwork(t, first, []Config{hostOf(2), hostOf(2)})
	for _, w := range n.worlds {
		w.keep = true
	}
	return n
}

// told counts what an agent told the other.
func (w *world) told() (datasets, ended, released int) {
	for _, a := range w.log {
		to, ok := a.(ToPeer)
		if !ok {
			continue
		}
		switch m := to.Msg.(type) {
		case *comms.Notice:
			datasets += len(m.Datasets)
			ended += len(m.Ended)
		case *comms.Released:
			released += len(m.Data)
		}
	}
	return datasets, ended, released
}

// TestToldOnceForEachAgent: however many tasks of another agent read a dataset, it
// is told, fetched and given back once.
func TestToldOnceForEachAgent(t *testing.T) {
	n := pair(t)
	n.worlds[0].segment = 1000
	g := graph(t, `
job: fan
tasks:
  t: {run: F, out: [o]}
  c: {for: {i: "1..50"}, run: F, in: {x: t.o}, out: [o]}
outputs: ["c[*].o"]
`)
	of := make([]int, 51)
	for i := 1; i < len(of); i++ {
		of[i] = 1
	}
	job := n.spread(1, g, comms.Assign{}, of)
	n.run()
	n.allEnded(job, of)
	if datasets, ended, _ := n.worlds[0].told(); datasets != 1 || ended != 1 {
		t.Errorf("the maker told %d datasets and %d ends, want one of each", datasets, ended)
	}
	if datasets, ended, released := n.worlds[1].told(); datasets != 0 || ended != 0 || released != 1 {
		t.Errorf("the reader told %d datasets, %d ends, %d times that it needs no more; want 0, 0, 1", datasets, ended, released)
	}
}

// TestReleasedWhenCommitted: a dataset stays with its maker until the ends of those
// who read it elsewhere are durable.
func TestReleasedWhenCommitted(t *testing.T) {
	n := pair(t)
	g := graph(t, chainJob)
	n.worlds[1].hold = true
	of := []int{0, 1}
	job := n.spread(1, g, comms.Assign{}, of)
	n.run()
	if n.worlds[1].done[comms.TaskID{Job: job, Index: 1}] != 1 {
		t.Fatal("the reader has not run")
	}
	ref := comms.DatasetRef{Task: 0}
	if n.worlds[0].c.byJob[job].data[ref] == nil {
		t.Fatal("the maker has freed what it may have to tell again")
	}
	n.worlds[1].hold = false
	n.worlds[1].commitAll()
	n.run()
	if n.worlds[0].c.byJob[job].data[ref] != nil {
		t.Error("the maker keeps what nobody reads any more")
	}
	n.allEnded(job, of)
}

// TestNoticeBeforeAssign: what is told of a job, or of an epoch, that is still to
// come waits for it.
func TestNoticeBeforeAssign(t *testing.T) {
	n := pair(t)
	m := &comms.Notice{Job: comms.JobID{1}, Epoch: 1, Ended: []comms.Ended{{First: 0, Last: 0, How: comms.OutcomeDone}},
		Datasets: []comms.Desc{{Attempt: 1, Size: 44, Place: comms.Place{Kind: comms.PlaceInline, Bytes: []byte("01000000-0000-0000-0000-000000000000 {0 0 0}")}}}}
	w := n.worlds[1]
	w.step(FromPeer{"a", m})
	job := w.assign(1, graph(t, chainJob), comms.Assign{Run: []comms.Range{{First: 1, Last: 1}}, Peers: []comms.Assignment{{Agent: "a", Run: []comms.Range{{First: 0, Last: 0}}}}})
	w.run()
	w.allEnded(job)
	if w.done[comms.TaskID{Job: job, Index: 1}] != 1 {
		t.Error("the reader has not run")
	}
}

// TestTooManyEarlyNotices: those that never find their job do not pile up. Of whom any
// were dropped is known of so many jobs; then the link is made anew, so that what was
// dropped is told again.
func TestTooManyEarlyNotices(t *testing.T) {
	n := pair(t)
	w := n.worlds[1]
	for i := range earlyKept + lapsedKept + 1 {
		if w.step(FromPeer{"a", &comms.Notice{Job: comms.JobID{9, byte(i), byte(i >> 8)}, Epoch: 1}}); len(w.c.early) > earlyKept || len(w.c.lapsed) > lapsedKept {
			t.Fatalf("%d notices wait, and %d jobs of others are noted", len(w.c.early), len(w.c.lapsed))
		}
	}
	if w.resets("a") != 1 || len(w.c.early)+len(w.c.lapsed) > 0 {
		t.Errorf("the link was made anew %d times, %d notices wait, and %d jobs of others are noted", w.resets("a"), len(w.c.early), len(w.c.lapsed))
	}
}
