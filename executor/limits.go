package executor

import (
	"math"
	"runtime"
	"runtime/debug"

	"github.com/cascade-run/cascade/comms"
)

// limits makes the Go runtime follow what is granted. Changing them stops the
// world for some microseconds, so it is done only when the grant changes.
type limits struct {
	cpu, memory int64
	set         bool
}

// apply sets GOMAXPROCS to the granted cores, rounded up, but at least 2: one
// more than a task of one core can use, for the link. GOMEMLIMIT is the granted memory.
func (l *limits) apply(r comms.Resources) {
	if l.set && l.cpu == r.CPU && l.memory == r.Memory {
		return
	}
	if !l.set || l.cpu != r.CPU {
		runtime.GOMAXPROCS(threads(r.CPU))
	}
	if !l.set || l.memory != r.Memory {
		limit := r.Memory
		if limit <= 0 {
			limit = math.MaxInt64
		}
		debug.SetMemoryLimit(limit)
	}
	l.set, l.cpu, l.memory = true, r.CPU, r.Memory
}

// threads is how many threads may run Go code for a grant in thousandths of a core.
func threads(cpu int64) int { return max(2, cores(cpu)) }

// cores is a grant in whole cores, rounded up; at least 1.
func cores(cpu int64) int { return int(max(1, (cpu+999)/1000)) }
