package sim

import (
	"math/rand/v2"
	"time"

	"github.com/cascade-run/cascade/comms"
)

// far is a resource that one agent alone has: calls that need it must go there.
const far = "far"

// drawForwards makes agents several and small, whose tasks call much, so that calls go
// to other agents.
func (f *fates) drawForwards(seed uint64) {
	r := rand.New(rand.NewPCG(seed, 28))
	f.forward = pick(r, time.Nanosecond, time.Microsecond, time.Millisecond, 20*time.Millisecond)
	f.patience = pick(r, 10*time.Millisecond, 300*time.Millisecond, 3*time.Second)
	f.agents, f.calls = max(f.agents, 2), pick(r, 300, 700, 1000)
	f.cpu, f.executors = pick(r, int64(1000), 1000, 2000), pick(r, 1, 1, 2, 3)
	f.far = pick(r, 0, 0, 200, 500)
}

// custom is what an agent has of other resources than cores and memory.
func (w *world) custom(agent int) []comms.Amount {
	all := []comms.Amount{{Name: "disk", N: 1000}}
	if w.fate.far > 0 && agent == 1 {
		all = append(all, comms.Amount{Name: far, N: 1000})
	}
	return all
}
