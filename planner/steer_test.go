package planner

import (
	"fmt"
	"testing"

	"github.com/cascade-run/cascade/profiles"
)

// A better plan is looked for where that can pay, and for longer where it pays more.
func TestWorth(t *testing.T) {
	two := Cluster{Hosts: []Host{{Name: "a", CPU: 2000}, {Name: "b", CPU: 2000}}}
	for _, c := range []struct {
		name    string
		tasks   int
		seconds float64 // of each; 0 unknown
		want    int
	}{
		{"too few tasks", 49, 10, 0},
		{"too short", 400, 1e-3, 0},
		{"of unknown length", 400, 0, 0},
		{"four seconds", 400, 0.04, 19},
		{"a hundred seconds", 400, 1.001, 500},
		{"hours: no longer than is enough", 100, 1000, 2000},
		{"many tasks in no time", 100_000, 1e-3, 0},
	} {
		g := parse(t, fmt.Sprintf("job: j\ntasks:\n  t: {for: {i: \"1..%d\"}, run: F, out: [x]}\n", c.tasks))
		book := profiles.NewBook()
		if c.seconds > 0 {
			book.Record(SignatureOf(g, 0), profiles.Sample{Seconds: c.seconds})
		}
		p, err := Order(g, book.Snapshot(), two)
		if err != nil {
			t.Fatal(err)
		}
		if got := Worth(g, p, &two).Evaluations; got != c.want {
			t.Errorf("%s: %d evaluations, want %d", c.name, got, c.want)
		}
	}
}

// Better keeps a job on one host that several cannot make faster, and else is no
// worse than a list schedule.
func TestBetter(t *testing.T) {
	two := Cluster{Hosts: []Host{{Name: "a", CPU: 2000}, {Name: "b", CPU: 4000}}}
	for _, c := range []struct {
		job    string
		spread bool
	}{
		{"job: chain\ntasks:\n  a: {run: F, out: [x]}\n  b: {run: F, in: {x: a.x}, out: [x]}\n", false},
		{"job: wide\ntasks:\n  a: {run: F, for: {i: \"1..12\"}, out: [x]}\n", true},
	} {
		g := parse(t, c.job)
		book := profiles.NewBook()
		for i := range g.Groups {
			book.Record(SignatureOf(g, i), profiles.Sample{Seconds: 1})
		}
		first, err := Order(g, book.Snapshot(), two)
		if err != nil {
			t.Fatal(err)
		}
		p, err := Better(g, first, two, Effort{Evaluations: 50})
		if err != nil {
			t.Fatal(err)
		}
		list, err := Make(g, book.Snapshot(), two)
		if err != nil {
			t.Fatal(err)
		}
		if (p.Homes != nil) != c.spread || p.Makespan > list.Makespan*(1+spreadPart)+spreadSeconds || len(p.Order()) != g.NumTasks() {
			t.Errorf("%s: homes %v, %g s, list %g s", g.Name, p.Homes, p.Makespan, list.Makespan)
		}
	}
}

// What a task costs grows with what its producers are predicted to write, through
// several tasks.
func TestCostsGrowWithInputs(t *testing.T) {
	g := parse(t, "job: j\ntasks:\n  a: {run: F, out: [x]}\n  b: {run: G, in: {x: a.x}, out: [x]}\n  c: {run: H, in: {x: b.x, y: a.x}, out: [x]}\n")
	book := profiles.NewBook()
	for i := range 10 {
		in := float64(1+i) * 1e6
		book.Record(SignatureOf(g, 0), profiles.Sample{Seconds: 1, Bytes: 20e6})
		book.Record(SignatureOf(g, 1), profiles.Sample{Seconds: in * 1e-6, Bytes: in / 2, In: in})
		book.Record(SignatureOf(g, 2), profiles.Sample{Seconds: in * 1e-6, In: in})
	}
	p, err := Make(g, book.Snapshot(), Cluster{Hosts: []Host{{Name: "a", CPU: 1000}}})
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []float64{1, 20, 30} { // of 20 MB, then of 10 + 20
		if got := p.Seconds[i]; got < want*0.99 || got > want*1.01 {
			t.Errorf("task %d: %g s, want %g", i, got, want)
		}
	}
}
