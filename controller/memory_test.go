package controller

import (
	"fmt"
	"testing"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/dag"
)

// With how much memory tasks of a group begin the next time: what was enough for half of
// those that had to be given more, when these are most; what the job says, when most take no
// more than that; else what they began with.
func TestHeldFor(t *testing.T) {
	g, err := dag.ParseYAML("j.yaml", []byte(`
job: j
tasks:
  a: {run: F, for: {i: "0..9"}, out: [x], resources: {memory: 100B}}
  b: {run: F, for: {i: "0..9"}, out: [x]}
`), dag.Override{}, dag.Options{})
	if err != nil {
		t.Fatal(err)
	}
	const unknown = "as before"
	for _, c := range []struct {
		name  string
		peak  []uint64 // of each task
		grown []uint64 // for its last attempt; 0: it did not grow
		want  string
	}{
		{"none", []uint64{90, 90, 90}, nil, "0"},
		{"half", []uint64{90, 190, 90, 190}, []uint64{0, 200, 0, 200}, "0"},
		{"most", []uint64{90, 190, 190}, []uint64{0, 200, 200}, "200"},
		{"one", []uint64{190}, []uint64{400}, "400"},
		{"not what the largest took", []uint64{190, 150, 150, 390, 90}, []uint64{200, 200, 200, 400, 0}, "200"},
		{"most took more, and had it from the start", []uint64{150, 150, 90}, nil, unknown},
		{"one of many that had it", []uint64{150, 150, 290}, []uint64{0, 0, 400}, unknown},
	} {
		job, m := comms.JobID{1}, memories{}
		for i, n := range c.grown {
			m.grew(job, g, &comms.Event{Kind: comms.EventRetry, Task: dag.TaskIndex(i), Count: n / 2})
			m.grew(job, g, &comms.Event{Kind: comms.EventRetry, Task: dag.TaskIndex(i), Count: n})
		}
		for i, peak := range c.peak {
			m.ended(job, g, 0, dag.TaskIndex(i), &comms.Usage{PeakRSS: peak})
			m.ended(job, g, 1, dag.TaskIndex(10+i), &comms.Usage{PeakRSS: peak})
		}
		if m.of[1] != nil {
			t.Errorf("%s: of a group that says nothing of its memory something is kept", c.name)
		}
		got := unknown
		if bytes, known := m.of[0].held(); known {
			got = fmt.Sprint(bytes)
		}
		if got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}

// Of a gang one member is said to need more, and all get it; and when one comes to more than the
// job says, that is not forgotten for what the others take.
func TestGangsGrowAsOne(t *testing.T) {
	g, err := dag.ParseYAML("j.yaml", []byte("job: j\ntasks:\n  crew: {run: F, for: {i: \"0..1\"}, gang: 2, out: [x], resources: {memory: 100B}}\n"), dag.Override{}, dag.Options{})
	if err != nil {
		t.Fatal(err)
	}
	job, m := comms.JobID{1}, memories{}
	for first := range dag.TaskIndex(2) {
		m.grew(job, g, &comms.Event{Kind: comms.EventRetry, Task: 2*first + 1, Count: 200})
	}
	m.grew(job, g, &comms.Event{Kind: comms.EventRetry, Task: 2, Count: 400})
	for i := range dag.TaskIndex(4) {
		m.ended(job, g, 0, i, &comms.Usage{PeakRSS: 190})
	}
	if bytes, known := m.of[0].held(); !known || bytes != 200 || m.of[0].grown[400] != 2 {
		t.Errorf("they begin with %d (%v), and %v tell of it", bytes, known, m.of[0].grown)
	}
	for _, c := range []struct {
		peak  [4]uint64
		known bool // that what the job says is enough
	}{{[4]uint64{90, 90, 90, 90}, true}, {[4]uint64{90, 190, 90, 90}, true}, {[4]uint64{190, 190, 90, 90}, true}, {[4]uint64{90, 190, 190, 90}, false}} {
		m := memories{}
		for i, peak := range c.peak {
			m.ended(job, g, 0, dag.TaskIndex(i), &comms.Usage{PeakRSS: peak})
		}
		if bytes, known := m.of[0].held(); bytes != 0 || known != c.known {
			t.Errorf("%v: %d (%v)", c.peak, bytes, known)
		}
	}
}
