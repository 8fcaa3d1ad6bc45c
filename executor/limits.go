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

// apply sets GOMAXPROCS to the granted cores, rounded up, and GOMEMLIMIT to the
// granted memory. With one thread the link is heard within the 10 ms after which
// the runtime interrupts a function that computes; a thread more for it would be
// woken, and sleep again, with every run.
func (l *limits) apply(r comms.Resources) {
	if l.set && l.cpu == r.CPU && l.memory == r.Memory {
		return
	}
	if !l.set || l.cpu != r.CPU {
		runtime.GOMAXPROCS(cores(r.CPU))
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

// cores is a grant in whole cores, rounded up; at least 1.
func cores(cpu int64) int { return int(max(1, (cpu+999)/1000)) }
