package core

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/dag"
)

// TestRestart lets an agent run a part of a job and vanish. A new one is told by
// the controller what had been committed: what runs is exactly the rest.
func TestRestart(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := randomGraph(t, false)
		host := randomHost(t)
		host.Total.CPU = 4000
		before := newWorld(t, host, xorshift(rapid.Uint64().Draw(t, "seed")))
		before.step(ControllerUp{})
		job := before.assign(1, g, comms.Assign{})
		for range rapid.IntRange(0, 300).Draw(t, "turns") {
			before.turn()
		}
		before.step(Idle{})

		after := newWorld(t, host, xorshift(rapid.Uint64().Draw(t, "seed")))
		after.step(ControllerUp{})
		after.assign(1, g, before.rest(job, g))
		after.run()
		after.allEnded(job)
		for id := range before.done {
			if after.done[id] > 0 {
				t.Fatalf("task %v ran although its end was committed", id)
			}
		}
		for i := range g.NumTasks() {
			id := comms.TaskID{Job: job, Index: taskIndex(i)}
			if before.done[id]+after.done[id] != 1 {
				t.Fatalf("task %s finished %d times", g.TaskName(taskIndex(i)), before.done[id]+after.done[id])
			}
		}
	})
}

// rest is the Assign of a controller that knows the events of a job: the tasks
// that have not finished, and what the others have made.
func (w *world) rest(job comms.JobID, g *dag.Graph) comms.Assign {
	m := comms.Assign{Epoch: 2}
	known := map[taskIndex]bool{}
	for i := range g.NumTasks() {
		known[taskIndex(i)] = true
	}
	last := taskIndex(g.NumTasks() - 1)
	for _, e := range w.events {
		for _, d := range e.Outputs {
			if d.Place.Kind != comms.PlaceNone { // nobody reads it
				m.Datasets = append(m.Datasets, d)
			}
		}
		switch e.Kind {
		case comms.EventStreamEnd:
			m.Ends = append(m.Ends, comms.StreamEnd{Task: e.Task, Output: e.Output, Count: e.Count})
		case comms.EventPublished:
			for _, s := range g.StreamSlots(e.Task, e.Outputs[0].Ref.Output) {
				i, _ := g.Instance(s, e.Outputs[0].Ref.Element)
				known[i] = true
				last = max(last, i)
			}
		}
	}
	for i := taskIndex(0); i <= last; i++ {
		if known[i] && w.done[comms.TaskID{Job: job, Index: i}] > 0 {
			m.Ended = append(m.Ended, comms.Ended{First: i, Last: i, How: comms.OutcomeDone})
		}
		if known[i] && w.done[comms.TaskID{Job: job, Index: i}] == 0 {
			m.Run = append(m.Run, comms.Range{First: i, Last: i})
			m.Attempts = append(m.Attempts, 2)
		}
	}
	if m.Run == nil {
		m.Run = []comms.Range{}
	}
	return m
}

// TestEventsKept: without commits nothing new starts above the bound.
func TestEventsKept(t *testing.T) {
	cfg := hostOf(1)
	cfg.EventsKept = 3
	w := newWorld(t, cfg, first)
	w.hold = true
	w.step(ControllerUp{})
	job := w.assign(1, graph(t, `
job: many
tasks:
  t: {for: {i: "1..100"}, run: F}
`), comms.Assign{})
	w.run()
	if n := len(w.done); n < 3 || n > 10 {
		t.Fatalf("%d tasks ran with at most 3 events kept", n)
	}
	w.hold = false
	w.commitAll()
	w.run()
	w.allEnded(job)
}

// TestRetain: an ended job keeps what it is told to keep, and nothing else.
func TestRetain(t *testing.T) {
	w := newWorld(t, hostOf(1), first)
	w.segment = 1000
	w.step(ControllerUp{})
	job := w.assign(1, graph(t, `
job: outputs
tasks:
  t: {for: {i: "0..3"}, run: F, out: [o]}
outputs: ["t[*].o"]
`), comms.Assign{})
	w.run()
	w.step(FromController{Msg: &comms.Retain{Job: job, Keep: []comms.DatasetRef{{Task: 2}}}})
	if data := w.c.byJob[job].sortedData(); len(data) != 1 || data[0].Task != 2 || w.c.led.Stats().Datasets != 1 {
		t.Fatalf("kept %v", data)
	}
}

// TestInstancesKeepTheirAttempt: an Assign names instances whose generator runs
// again. They come into being with its elements, at the attempt they were given:
// what they report of a lower one counts for nothing.
func TestInstancesKeepTheirAttempt(t *testing.T) {
	w := newWorld(t, hostOf(2), first)
	w.step(ControllerUp{})
	job := w.assign(1, graph(t, `
job: stream
tasks:
  gen: {run: F, generates: {o: {count: "*"}}}
  each: {for: {e: "gen.o[*]"}, run: F, in: {x: "gen.o[${e}]"}, out: [y]}
  all: {run: F, in: {y: "each[*].y"}, out: [z]}
outputs: [all.z]
`), comms.Assign{Epoch: 2, Run: []comms.Range{{First: 0, Last: 4}}, Attempts: []uint32{2, 1, 2, 2, 3}})
	w.run()
	w.allEnded(job)
	for _, e := range w.events {
		want := map[taskIndex]uint32{0: 2, 2: 2, 3: 2, 4: 3}[e.Task]
		if e.Kind == comms.EventFinished && e.Attempt != max(want, 1) {
			t.Errorf("task %d finished in attempt %d, want %d", e.Task, e.Attempt, max(want, 1))
		}
	}
}

// TestSharedStreamIsMadeAgain: a generator runs again, and the other stream, which
// all instances behind it read whole, was freed when they had ended: it is made
// again before they start.
func TestSharedStreamIsMadeAgain(t *testing.T) {
	w := newWorld(t, hostOf(2), first)
	w.step(ControllerUp{})
	job := w.assign(1, graph(t, `
job: streams
tasks:
  gen: {run: F, generates: {o: {count: "*"}}}
  other: {run: F, generates: {o: {count: "*"}}}
  each: {for: {e: "gen.o[*]"}, run: F, in: {x: "gen.o[${e}]", all: "other.o[*]"}, out: [y]}
outputs: ["each[*].y"]
`), comms.Assign{})
	w.run()
	w.allEnded(job)
	j := w.c.byJob[job]
	m := comms.Assign{Job: job, Epoch: 2}
	for i := range j.tasks {
		id := comms.TaskID{Job: job, Index: taskIndex(i)}
		attempt := uint32(2)
		if i == 1 {
			attempt = 1
		} else {
			w.fence[id] = attempt
		}
		delete(w.done, id)
		delete(w.ends, id)
		m.Run = append(m.Run, comms.Range{First: id.Index, Last: id.Index})
		m.Attempts = append(m.Attempts, attempt)
	}
	w.step(FromController{Msg: &m, Graph: j.graph})
	w.run()
	w.allEnded(job)
	for i := range j.tasks {
		if n := w.done[comms.TaskID{Job: job, Index: taskIndex(i)}]; n != 1 {
			t.Errorf("task %s finished %d times after the Assign, want once", j.graph.TaskName(taskIndex(i)), n)
		}
	}
}
