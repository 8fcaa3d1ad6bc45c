package sim

import "testing"

// TestHungerWaits: in these seeds a task waits for an agent that is away and has as much
// memory as it needs. One comes back, one is given up.
func TestHungerWaits(t *testing.T) {
	waits := func(seed uint64) bool {
		w := newWorld(Options{Seed: seed})
		if w.fate.hungry == 0 || w.fate.roomyAway == 0 {
			return false
		}
		w.run()
		if w.failed != nil {
			t.Errorf("seed %d: %v", seed, w.failed)
		}
		return w.oracle.waited > 0
	}
	for _, seed := range []uint64{947, 5342} {
		if waits(seed) {
			continue
		}
		other := uint64(1)
		for !waits(other) && other < 5000 {
			other++
		}
		t.Errorf("no task waits in seed %d: its draws are others now, take seed %d", seed, other)
	}
}
