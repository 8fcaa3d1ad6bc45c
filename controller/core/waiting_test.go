package core

import (
	"math"
	"testing"

	"github.com/cascade-run/cascade/comms"
)

// TestWait is the table of the estimate of waiting time.
func TestWait(t *testing.T) {
	for _, tt := range []struct {
		what   string
		load   comms.Load
		given  uint64
		cores  float64
		remote uint64
		want   float64
	}{
		{"nothing is known", comms.Load{}, 0, 4, 0, 0},
		{"idle", comms.Load{Seconds: 2}, 0, 4, 0, 0},
		{"a core is free", comms.Load{Running: 3, Seconds: 2}, 0, 4, 0, 0},
		{"no core is free", comms.Load{Running: 4, Seconds: 2}, 0, 4, 0, 0.5},
		{"a queue", comms.Load{Running: 4, Waiting: 8, Seconds: 2}, 0, 4, 0, 4.5},
		{"a queue on one core", comms.Load{Running: 1, Waiting: 9, Seconds: 0.001}, 0, 1, 0, 0.01},
		{"given since", comms.Load{Running: 4, Seconds: 2}, 8, 4, 0, 4.5},
		{"durations are not known", comms.Load{Running: 2}, 0, 2, 0, 0.5},
		{"less than a core", comms.Load{Running: 1, Seconds: 1}, 0, 0.5, 0, 1.5},
		{"bytes", comms.Load{Seconds: 2, Bandwidth: 1e6}, 0, 4, 3e6, 3},
		{"bytes at a bandwidth that is not known", comms.Load{}, 0, 4, 125e6, 0.1},
		{"both", comms.Load{Running: 4, Seconds: 2, Bandwidth: 1e6}, 0, 4, 3e6, 3.5},
	} {
		w := workload{told: tt.load, given: tt.given, cores: tt.cores}
		if got := w.wait(tt.remote); math.Abs(got-tt.want) > 1e-9 {
			t.Errorf("%s: waits %g s, want %g", tt.what, got, tt.want)
		}
	}
}

func TestLeastWait(t *testing.T) {
	busy := workload{told: comms.Load{Running: 2, Waiting: 100, Seconds: 0.01, Bandwidth: 1e8}, cores: 2}
	idle := workload{told: comms.Load{Seconds: 0.01, Bandwidth: 1e8}, cores: 2}
	for _, tt := range []struct {
		what   string
		agents []workload
		remote []uint64
		want   int
	}{
		{"none", nil, nil, -1},
		{"the idle one", []workload{busy, idle}, []uint64{0, 0}, 1},
		{"where the bytes are, if they take longer than the queue", []workload{busy, idle}, []uint64{0, 1e9}, 0},
		{"not for few bytes", []workload{busy, idle}, []uint64{0, 1e6}, 1},
		{"the first of equal ones", []workload{idle, idle}, []uint64{0, 0}, 0},
	} {
		if got, _ := least(tt.agents, tt.remote); got != tt.want {
			t.Errorf("%s: agent %d, want %d", tt.what, got, tt.want)
		}
	}
}

// TestTold: what an agent says replaces what was added since, and silence changes nothing.
func TestTold(t *testing.T) {
	w := workload{cores: 1, given: 5}
	w.tell(nil)
	if w.given != 5 {
		t.Error("an agent that says nothing has not begun what it was given")
	}
	w.tell(&comms.Load{Waiting: 3, Seconds: 1})
	if w.given != 0 || w.wait(0) != 3 {
		t.Errorf("%d given, waits %g s after its word, want 0 and 3", w.given, w.wait(0))
	}
}
