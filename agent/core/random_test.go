package core

import (
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/dag"
)

func randomHost(t *rapid.T) Config {
	return Config{Agent: "a", Total: comms.Resources{CPU: rapid.SampledFrom([]int64{2000, 3000, 4000}).Draw(t, "cpu"), Memory: 1 << 30, GPU: 3000, Devices: []comms.Device{{Name: "a", Memory: 8 << 30}, {Name: "b", Memory: 8 << 30}, {Name: "c", Memory: 8 << 30}},
		Custom: []comms.Amount{{Name: "disk", N: 1000}}},
		MaxExecutors: rapid.IntRange(1, 5).Draw(t, "executors"),
		EventsFor:    rapid.SampledFrom([]time.Duration{0, time.Millisecond}).Draw(t, "events"),
		Memory:       rapid.SampledFrom([]int64{64 << 10, 256 << 10, 4 << 20}).Draw(t, "shm"), ArenaBytes: 16 << 10, CheckFrees: true, Warm: 1}
}

func (w *world) randomFates(t *rapid.T) {
	w.failures = rapid.SampledFrom([]int{0, 0, 20, 100}).Draw(t, "failures")
	w.crashes = rapid.SampledFrom([]int{0, 0, 10, 60}).Draw(t, "crashes")
	w.hungry = rapid.SampledFrom([]int{0, 0, 30, 300}).Draw(t, "hungry")
	w.spillRot = rapid.SampledFrom([]int{0, 200}).Draw(t, "rot")
	w.diskFull = rapid.SampledFrom([]int{0, 0, 200}).Draw(t, "full")
	w.portsFail = rapid.SampledFrom([]int{0, 0, 300}).Draw(t, "no ports")
	w.segment = rapid.SampledFrom([]int{0, 500, 1000}).Draw(t, "segment")
}

// xorshift is a small random source for choices within a world: rapid's own
// would record each of them.
func xorshift(seed uint64) func(n int, what string) int {
	s := seed*2685821657736338717 + 1442695040888963407
	return func(n int, _ string) int {
		s ^= s << 13
		s ^= s >> 7
		s ^= s << 17
		return int(s % uint64(n))
	}
}

// randomGraph draws a job that reads well.
func randomGraph(t *rapid.T, gangs bool) *dag.Graph {
	text := randomJob(t, gangs)
	g, err := dag.ParseYAML("job.yaml", []byte(text), dag.Override{}, dag.Options{})
	if err != nil {
		t.Skipf("%v\n%s", err, text)
	}
	t.Logf("%s", text)
	return g
}

// TestRandom runs random graphs on a host where tasks fail, executors crash and
// memory is short: each output is made once, nothing is used that was freed (the
// world checks both), every task ends with a reason, and at the end nothing is held.
func TestRandom(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := randomGraph(t, true)
		w := newWorld(t, randomHost(t), xorshift(rapid.Uint64().Draw(t, "seed")))
		w.randomFates(t)
		w.step(ControllerUp{})
		m := comms.Assign{Fuse: comms.AppendPaths(nil, randomPaths(t, g))}
		if rapid.Bool().Draw(t, "ranked") {
			ranks := make([]float64, g.NumTasks())
			for i := range ranks {
				ranks[i] = float64(w.pick(3, "rank")) + float64(g.NumTasks()-i)/1000
			}
			m.Ranks = comms.AppendRanks(nil, ranks)
		}
		job := w.assign(1, g, m)
		others := w.neighbours(t, g)
		w.disturb(t, g, job, m)
		w.run()
		w.hold = false
		w.commitAll()
		for _, id := range append(others, job) {
			w.answer(id)
		}
		for _, id := range append(others, job) {
			w.allEnded(id)
		}
		if rapid.Bool().Draw(t, "rerun") {
			w.rerun(job, m, randomStatic(t, g))
			w.answer(job)
			w.allEnded(job)
		}
		for _, id := range append(others, job) {
			w.step(FromController{Msg: &comms.Steer{Job: id, Action: comms.SteerForget}})
		}
		w.run()
		w.nothingHeld()
	})
}

// neighbours assigns the graph as jobs of other owners and priorities, too.
func (w *world) neighbours(t *rapid.T, g *dag.Graph) (all []comms.JobID) {
	for i := range rapid.SampledFrom([]int{0, 0, 2}).Draw(t, "neighbours") {
		all = append(all, w.assign(byte(2+i), g, comms.Assign{
			Tenant: rapid.SampledFrom([]string{"", "x"}).Draw(t, "owner"), Weight: uint32(rapid.IntRange(0, 3).Draw(t, "weight")),
			Priority: int64(rapid.IntRange(0, 1).Draw(t, "job priority")),
		}))
	}
	return all
}

// randomPaths picks paths of the graph to be fused.
func randomPaths(t *rapid.T, g *dag.Graph) (paths [][]taskIndex) {
	used := map[taskIndex]bool{}
	for range rapid.IntRange(0, 3).Draw(t, "paths") {
		at := taskIndex(rapid.IntRange(0, g.NumTasks()-1).Draw(t, "from"))
		path := []taskIndex{at}
		for {
			var next []taskIndex
			for _, e := range g.Consumers(at) {
				if e.Kind == dag.SourceWhole && int(e.Consumer) < g.NumTasks() && !used[e.Consumer] {
					next = append(next, e.Consumer)
				}
			}
			if len(next) == 0 {
				break
			}
			at = next[rapid.IntRange(0, len(next)-1).Draw(t, "step")]
			used[at] = true
			path = append(path, at)
		}
		if len(path) > 1 {
			paths = append(paths, path)
		}
	}
	return paths
}

// disturb lets a job run for a while and then does what controllers do: go and
// come back, hold commits back, assign again, hold, release, cancel.
func (w *world) disturb(t *rapid.T, g *dag.Graph, job comms.JobID, m comms.Assign) {
	epoch := uint64(1)
	for range rapid.IntRange(0, 4).Draw(t, "disturbances") {
		for range rapid.IntRange(0, 60).Draw(t, "turns") {
			w.turn()
		}
		switch rapid.IntRange(0, 8).Draw(t, "what") {
		case 8:
			w.step(Idle{}) // what has ended is told before it begins anew
			w.rerun(job, m, randomStatic(t, g))
			epoch = w.c.byJob[job].epoch
		case 0:
			w.step(ControllerDown{})
			for range 20 {
				w.turn()
			}
			w.reconnect()
		case 1:
			w.hold = !w.hold
		case 2:
			epoch++
			m.Job, m.Epoch = job, epoch
			w.step(FromController{Msg: &m, Graph: w.jobs[job]})
			w.step(FromController{Msg: &m, Graph: w.jobs[job]})
		case 3:
			w.step(FromController{Msg: &comms.Steer{Job: job, Action: comms.SteerHold}})
			for range 20 {
				w.turn()
			}
			w.step(FromController{Msg: &comms.Steer{Job: job, Action: comms.SteerRelease}})
		case 4:
			if rapid.IntRange(0, 3).Draw(t, "cancel") == 0 {
				w.step(FromController{Msg: &comms.Steer{Job: job, Action: comms.SteerCancel, Reason: "not needed"}})
			}
		case 5:
			w.step(Full{})
			for range 20 {
				w.turn()
			}
			w.step(Free{})
		case 6:
			if len(w.workers) > 0 {
				x := w.workers[len(w.workers)-1]
				w.step(Full{x.id})
				w.step(Free{x.id})
				w.step(ExecutorBroken{x.id, "connection reset"})
			}
		case 7:
			for _, ref := range w.c.byJob[job].sortedData() {
				w.step(FromClient{7, &comms.Fetch{Req: 1, Data: comms.DatasetID{Job: job, DatasetRef: ref}}})
				w.post(ChunkServed{7, 1})
				w.step(ClientGone{7})
			}
		}
	}
}

func randomStatic(t *rapid.T, g *dag.Graph) taskIndex {
	return taskIndex(rapid.IntRange(0, g.NumTasks()-1).Draw(t, "rerun from"))
}

// answer runs a job to its end. Whenever the controller is asked for what a task made, that
// task runs once more, with what is behind it.
func (w *world) answer(job comms.JobID) {
	w.run()
	j := w.c.byJob[job]
	asked := func(s task) bool { return s.state == tAsked }
	for i := slices.IndexFunc(j.tasks, asked); i >= 0; i = slices.IndexFunc(j.tasks, asked) {
		w.rerun(job, comms.Assign{}, taskIndex(i))
		w.run()
	}
}

// rerun assigns a job again so that a static task and all static tasks behind it run once
// more, as controllers do when a client or an agent asks.
func (w *world) rerun(job comms.JobID, m comms.Assign, from taskIndex) {
	j := w.c.byJob[job]
	again := map[taskIndex]bool{}
	work := []taskIndex{from} // static tasks, and element 0 for a slot
	for len(work) > 0 {
		i := work[len(work)-1]
		work = work[:len(work)-1]
		if again[i] {
			continue
		}
		again[i] = true
		first, size := j.graph.GangOf(i)
		for m := range size {
			work = append(work, first+taskIndex(m))
		}
		for _, e := range j.graph.Consumers(i) {
			work = append(work, e.Consumer)
		}
		for o := range j.graph.Group(i).Outputs {
			for _, s := range append(j.graph.SlotConsumers(i, uint32(o)), j.graph.StreamSlots(i, uint32(o))...) {
				zero, _ := j.graph.Instance(s, 0)
				work = append(work, zero)
			}
		}
	}
	for i := j.static; i < len(j.tasks); i++ {
		slot, _, _ := j.graph.Slot(taskIndex(i))
		zero, _ := j.graph.Instance(slot, 0)
		again[taskIndex(i)] = again[zero]
	}
	m.Job, m.Epoch = job, j.epoch+1
	m.Run = nil
	for i := range j.tasks {
		attempt := max(j.tasks[i].attempt, 1)
		if again[taskIndex(i)] {
			// An instance that ended before its generator last began may be absent now: its end is void, too.
			delete(w.done, comms.TaskID{Job: job, Index: taskIndex(i)})
			delete(w.ends, comms.TaskID{Job: job, Index: taskIndex(i)})
		}
		if j.tasks[i].state == tAbsent {
			continue
		}
		if again[taskIndex(i)] {
			attempt++
			w.fence[comms.TaskID{Job: job, Index: taskIndex(i)}] = attempt
		}
		m.Run = append(m.Run, comms.Range{First: taskIndex(i), Last: taskIndex(i)})
		m.Attempts = append(m.Attempts, attempt)
	}
	w.step(FromController{Msg: &m, Graph: j.graph})
}

// reconnect plays a controller that comes back as a new incarnation.
func (w *world) reconnect() {
	w.again = true
	w.step(ControllerUp{})
	w.again = false
}

func (w *world) allEnded(job comms.JobID) {
	w.t.Helper()
	j := w.c.byJob[job]
	for i := range j.tasks {
		if s := j.tasks[i].state; s != tAbsent && !s.over() {
			for _, e := range w.events[max(0, len(w.events)-40):] {
				w.t.Logf("%s", describeEvent(e))
			}
			w.t.Fatalf("task %s is in state %d for ever, missing %d: %s; ledger %+v; %s", j.graph.TaskName(taskIndex(i)), s, j.tasks[i].missing, w.waitsFor(j, taskIndex(i)), w.c.led.Stats(), w.workersText())
		}
	}
	if w.drained[job] == 0 {
		w.t.Fatalf("the job never drained")
	}
	for _, ref := range j.sortedData() {
		if !j.wanted.has(j.graph, ref) {
			w.t.Fatalf("dataset %v is kept after the end", ref)
		}
	}
}

func (w *world) waitsFor(j *job, t taskIndex) string {
	text := ""
	ins, _ := j.graph.Inputs(t)
	for _, in := range ins {
		for _, s := range in.Sources {
			state, n := w.c.source(j, s)
			text += fmt.Sprintf("%s %+v is %d with %d, its task in state %d; ", in.Name, s, state, n, j.tasks[s.Task].state)
		}
	}
	for k, st := range j.streams {
		text += fmt.Sprintf("stream %v: next %d, ended %v, failed %v, torn %v, lost %v; ", k, st.next, st.ended, st.failed, st.torn, st.lost)
	}
	if p := j.peers; p != nil {
		for _, f := range p.list {
			text += fmt.Sprintf("%s: up %v, full %v, %d datasets, %d ends to tell; ", f.name, f.up, f.full, len(f.data), len(f.ended))
		}
		for ref, h := range p.heard {
			text += fmt.Sprintf("%v of %v is in state %d, stale %v, pulled %v, for %d; ", ref, h.from, h.state, h.stale, h.pull != nil, j.countRefs(ref, true))
		}
		for i, sl := range j.slots {
			text += fmt.Sprintf("slot %d: %+v of %+v; ", i, sl, j.streams[sl.key])
		}
		for i := j.static; i < len(j.tasks); i++ {
			text += fmt.Sprint(j.tasks[i].state, " ")
		}
		for t, e := range p.ending {
			text += fmt.Sprintf("task %d ends as %d when %d datasets are here; ", t, e.how, p.flying[t])
		}
	}
	return text
}

func (w *world) workersText() string {
	text := ""
	for _, x := range w.workers {
		if !x.dead {
			text += fmt.Sprintf("executor %d: %d queued, runs %v, held %v, waits for memory %v, leases %v; ", x.id, len(x.queue), x.cur != nil, x.held, x.wait, x.lease)
		}
	}
	return text
}

func (w *world) nothingHeld() {
	w.t.Helper()
	for _, x := range w.workers {
		if !x.dead {
			x.die("end of the test")
		}
	}
	w.c.pools[0].warm = 0
	w.run()
	s := w.c.led.Stats()
	if s.Datasets != 0 || s.Leases != 0 || s.Held != 0 || s.Spilled != 0 || len(w.spilled) != 0 || s.Waiting != 0 {
		w.t.Fatalf("the ledger still holds %+v", s)
	}
	if len(w.c.jobs) != 0 || len(w.c.tenants)+w.c.busy.Len()+len(w.c.lines) != 0 || len(w.c.runs) != 0 || len(w.c.requests) != 0 || w.c.ctl.kept != 0 {
		w.t.Fatalf("%d jobs, %d owners, %d lines, %d runs, %d requests, %d events left", len(w.c.jobs), len(w.c.tenants), len(w.c.lines), len(w.c.runs), len(w.c.requests), w.c.ctl.kept)
	}
	if w.leased != 0 || w.c.reservation != nil || len(w.c.gangs) != 0 {
		w.t.Fatalf("%d ports are leased at the end, %d gangs wait, for one is held back: %v", w.leased, len(w.c.gangs), w.c.reservation != nil)
	}
	for i, n := range w.c.free {
		if n != w.c.total[i] {
			w.t.Fatalf("%d of %d of resource %d are free at the end", n, w.c.total[i], i)
		}
	}
}

// TestDeterminism runs the same world twice: equal actions.
func TestDeterminism(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := randomGraph(t, true)
		host, seed := randomHost(t), rapid.Uint64().Draw(t, "seed")
		var logs [2][]Action
		for i := range logs {
			w := newWorld(t, host, xorshift(seed))
			w.keep, w.failures, w.crashes, w.hungry, w.segment, w.spillRot = true, 30, 20, 30, 500, 100
			w.step(ControllerUp{})
			w.assign(1, g, comms.Assign{})
			w.assign(2, g, comms.Assign{})
			w.run()
			logs[i] = w.log
		}
		if !reflect.DeepEqual(logs[0], logs[1]) {
			t.Fatalf("two runs of the same trace differ")
		}
	})
}
