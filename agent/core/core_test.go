package core

import (
	"testing"

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
