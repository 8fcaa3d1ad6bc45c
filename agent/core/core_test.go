package core

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/dag"
)

func graph(t testing.TB, yaml string) *dag.Graph {
	t.Helper()
	g, err := dag.ParseYAML("job.yaml", []byte(yaml), dag.Override{}, dag.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func first(n int, what string) int { return 0 }

func hostOf(cpu int64) Config {
	return Config{Agent: "a", Total: comms.Resources{CPU: cpu * 1000, Memory: 1 << 30}, Memory: 1 << 20, ArenaBytes: 1 << 16, CheckFrees: true, Warm: 1}
}

func TestDiamond(t *testing.T) {
	w := newWorld(t, hostOf(2), first)
	g := graph(t, `
job: diamond
tasks:
  a: {run: F, out: [x]}
  b: {run: F, in: {x: a.x}, out: [y]}
  c: {run: F, in: {x: a.x}, out: [y]}
  d: {run: F, in: {p: b.y, q: c.y}, out: [z]}
outputs: [d.z]
`)
	w.step(ControllerUp{})
	job := w.assign(1, g, comms.Assign{})
	w.run()
	if len(w.done) != 4 || w.drained[job] != 1 {
		t.Fatalf("done %v, drained %v", w.done, w.drained)
	}
	if n := len(w.c.byJob[job].data); n != 1 {
		t.Fatalf("%d datasets are kept, want the one that is an output of the job", n)
	}
	w.step(FromController{Msg: &comms.Steer{Job: job, Action: comms.SteerForget}})
	if s := w.c.led.Stats(); s.Datasets != 0 || s.Held != 0 || len(w.c.jobs) != 0 {
		t.Fatalf("left: %+v, %d jobs", s, len(w.c.jobs))
	}
}

// Snapshots say that a job is over once its last word is durable, whatever the job
// tells after that: no second word follows.
func TestSnapshotOfAJobThatIsOver(t *testing.T) {
	w := newWorld(t, hostOf(1), first)
	w.step(ControllerUp{})
	id := w.assign(1, graph(t, "job: one\ntasks:\n  a: {run: F, out: [x]}\noutputs: [a.x]\n"), comms.Assign{})
	w.run()
	w.commitAll()
	w.run()
	j := w.c.byJob[id]
	if s := w.c.jobState(j); !s.Drained {
		t.Fatalf("after its end: %+v", s)
	}
	w.c.note(j, comms.Event{Kind: comms.EventSpilled})
	for _, when := range []string{"is noted", "is on its way"} {
		if s := w.c.jobState(j); !s.Drained {
			t.Errorf("while an event behind its end %s: %+v", when, s)
		}
		w.c.flush()
	}
	w.c.note(j, comms.Event{Kind: comms.EventDrained})
	for _, when := range []string{"is noted", "is on its way"} {
		if s := w.c.jobState(j); s.Drained {
			t.Errorf("while its last word %s: %+v", when, s)
		}
		w.c.flush()
	}
}

// A number out of all proportion in an Assign ends that job with a reason, and not the agent.
func TestAssignOfTooManyElements(t *testing.T) {
	w := newWorld(t, hostOf(1), first)
	g := graph(t, `
job: stream
tasks:
  gen: {run: F, generates: {x: "*"}}
  proc: {for: {e: "gen.x[*]"}, run: F, in: {x: "gen.x[${e}]"}, out: [y]}
  all: {run: F, in: {y: "proc[*].y"}, out: [z]}
outputs: [all.z]
`)
	w.step(ControllerUp{})
	w.assign(1, g, comms.Assign{Ends: []comms.StreamEnd{{Count: 1 << 62, Failed: true}}})
	w.assign(2, g, comms.Assign{Ended: []comms.Ended{{Last: noTask - 1, How: comms.OutcomeDone}}})
	w.run()
	if n := len(w.events); n != 2 {
		t.Fatalf("events %+v", w.events)
	}
	for _, e := range w.events {
		if e.Kind != comms.EventDrained || e.Error == nil {
			t.Errorf("event %+v", e)
		}
	}
	if len(w.c.jobs) != 0 {
		t.Errorf("%d jobs are there", len(w.c.jobs))
	}
}

// The same in a Notice: it ends the tasks of that job with a reason, and nothing of it is taken.
func TestNoticeOfTooManyElements(t *testing.T) {
	for _, m := range []comms.Notice{
		{Ended: []comms.Ended{{Last: noTask - 1, How: comms.OutcomeDone}}},
		{Datasets: []comms.Desc{{Ref: comms.DatasetRef{Task: noTask - 1}, Place: comms.Place{Kind: comms.PlaceSegment}}}},
		{Datasets: []comms.Desc{{Ref: comms.DatasetRef{Element: 1 << 62}, Place: comms.Place{Kind: comms.PlaceSegment}}}},
	} {
		n := pair(t)
		w := n.worlds[1]
		job := w.assign(1, graph(t, `
job: stream
tasks:
  gen: {run: F, generates: {x: "*"}}
  proc: {for: {e: "gen.x[*]"}, run: F, in: {x: "gen.x[${e}]"}, out: [y]}
  all: {run: F, in: {y: "proc[*].y"}, out: [z]}
outputs: [all.z]
`), comms.Assign{Run: []comms.Range{{First: 1, Last: 1}}, Peers: []comms.Assignment{{Agent: "a", Run: []comms.Range{{First: 0, Last: 0}}}}})
		m.Job, m.Epoch = job, 1
		w.step(FromPeer{"a", &m})
		j := w.c.byJob[job]
		if len(j.tasks) != 2 || len(j.peers.heard)+len(j.peers.ending) != 0 {
			t.Errorf("%d tasks, %d datasets, %d ends", len(j.tasks), len(j.peers.heard), len(j.peers.ending))
		}
		w.run()
		if len(w.events) != 2 || w.events[0].Kind != comms.EventSkipped || w.events[0].Error == nil || !strings.Contains(w.events[0].Error.Message, "agent a: ") {
			t.Errorf("events %+v", w.events)
		}
	}
}

func TestStream(t *testing.T) {
	w := newWorld(t, hostOf(1), first)
	g := graph(t, `
job: stream
tasks:
  gen: {run: F, generates: {x: {count: "*", buffer: 4}}}
  base: {run: F, out: [o]}
  proc: {for: {e: "gen.x[*]"}, run: F, in: {x: "gen.x[${e}]", b: base.o}, out: [y]}
  post: {for: {e: "gen.x[*]"}, run: F, in: {y: "proc[${e}].y"}, out: [z]}
  sum: {run: F, in: {all: "post[*].z", raw: "gen.x[*]"}, out: [s]}
outputs: [sum.s]
`)
	w.segment = 1000
	w.step(ControllerUp{})
	job := w.assign(1, g, comms.Assign{})
	w.run()
	if len(w.done) != 43 || w.drained[job] != 1 {
		t.Fatalf("%d done, drained %v, want 43", len(w.done), w.drained)
	}
	if n := len(w.c.byJob[job].data); n != 1 {
		t.Fatalf("%d datasets are kept, want 1: %v", n, w.c.byJob[job].sortedData())
	}
}

// TestBuffer: on any schedule a generator has at most its buffer of unconsumed
// elements, also on one cpu, and the job comes to its end.
func TestBuffer(t *testing.T) {
	g := graph(t, `
job: buffer
tasks:
  gen: {run: F, generates: {x: {count: "*", buffer: 3}, y: {count: 15, buffer: 5}}}
  use: {for: {e: "gen.x[*]"}, run: F, in: {x: "gen.x[${e}]"}, out: [y]}
  post: {for: {e: "gen.x[*]"}, run: F, in: {x: "use[${e}].y", again: "gen.x[${e}]"}, out: [y], resources: {cpu: 0.5}}
  own: {for: {i: "0..14"}, run: F, in: {y: "gen.y[${i}]"}, out: [z]}
`)
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t, hostOf(rapid.Int64Range(1, 3).Draw(t, "cpu")), xorshift(rapid.Uint64().Draw(t, "seed")))
		w.segment = 300
		w.step(ControllerUp{})
		job := w.assign(1, g, comms.Assign{})
		for w.turn() {
			for k, st := range w.c.byJob[job].streams {
				if want := []uint64{3, 5}[k.output]; uint64(len(st.open)) > want {
					t.Fatalf("output %d has %d unconsumed elements, want at most %d", k.output, len(st.open), want)
				}
			}
		}
		w.allEnded(job)
		if len(w.done) != 56 {
			t.Fatalf("%d tasks finished, want 56", len(w.done))
		}
	})
}

// TestWindow: consumers that need more elements than the buffer allows do not
// hold their generator up for ever.
func TestWindow(t *testing.T) {
	w := newWorld(t, hostOf(1), first)
	g := graph(t, `
job: window
tasks:
  gen: {run: F, generates: {x: {count: 12, buffer: 2}}}
  all: {run: F, in: {x: "gen.x[*]"}, out: [y]}
`)
	w.step(ControllerUp{})
	job := w.assign(1, g, comms.Assign{})
	w.run()
	w.allEnded(job)
}

// TestShares: owners get cpu time in proportion to their weights.
func TestShares(t *testing.T) {
	w := newWorld(t, hostOf(1), xorshift(1))
	g := graph(t, `
job: many
tasks:
  t: {for: {i: "1..400"}, run: F}
`)
	w.step(ControllerUp{})
	one := w.assign(1, g, comms.Assign{Tenant: "ann", Weight: 1, Seconds: []float64{1e-4}})
	three := w.assign(2, g, comms.Assign{Tenant: "bob", Weight: 3, Seconds: []float64{1e-4}})
	finished := func(id comms.JobID) (n int) {
		for _, s := range w.c.byJob[id].tasks {
			if s.state == tFinished {
				n++
			}
		}
		return n
	}
	for finished(one)+finished(three) < 240 && w.turn() {
	}
	if a, b := finished(one), finished(three); b < 2*a || b > 4*a {
		t.Fatalf("%d tasks of the owner with weight 1, %d of the one with 3", a, b)
	}
}
