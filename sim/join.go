package sim

import (
	"math/rand/v2"
	"time"
)

// drawLate decides whether agents may join late. It draws from numbers of its own,
// as drawDrains does.
func drawLate(seed uint64) bool { return rand.New(rand.NewPCG(seed, 4)).IntN(4) == 0 }

// drawSeen decides whether the controller sees that agents have died, with numbers of its own.
func drawSeen(seed uint64) bool { return rand.New(rand.NewPCG(seed, 27)).IntN(2) == 0 }

// bootAgents starts the agents: those that join late while jobs run, or wait for them.
func (w *world) bootAgents() {
	r := rand.New(rand.NewPCG(w.seed, 5))
	for _, a := range w.agents {
		late := r.IntN(2) == 0
		at := time.Duration(r.Int64N(int64(w.fate.heal)))
		if w.fate.late && late {
			w.at(at, a.boot)
			continue
		}
		a.boot()
	}
}
