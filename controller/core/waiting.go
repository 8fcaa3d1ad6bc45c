package core

import (
	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/planner"
	"github.com/cascade-run/cascade/profiles"
)

// workload is what the controller knows of how much an agent has to do.
type workload struct {
	told  comms.Load // by the agent, last
	given uint64     // tasks that it was given since
	cores float64    // that it has
}

// tell takes over what the agent says, which counts what it was given.
func (w *workload) tell(l *comms.Load) {
	if l != nil {
		w.told, w.given = *l, 0
	}
}

// seconds is how long a task takes there, on average.
func (w *workload) seconds() float64 {
	if w.told.Seconds > 0 {
		return w.told.Seconds
	}
	return profiles.Default().Seconds
}

// queue is how long what waits there takes to begin, in seconds: the tasks before
// a new one, each of the average duration, on all cores. Tasks that run count as
// far as they leave no core free.
func (w *workload) queue() float64 {
	before := float64(w.told.Waiting+w.told.Running+w.given) - w.cores
	return max(0, before+1) * w.seconds() / max(w.cores, 1)
}

// wait estimates how many seconds a task would wait at an agent before it begins:
// for what is before it, and for the bytes of its inputs that are elsewhere.
func (w *workload) wait(remote uint64) float64 {
	bandwidth := w.told.Bandwidth
	if bandwidth <= 0 {
		bandwidth = planner.DefaultBandwidth
	}
	return w.queue() + float64(remote)/bandwidth
}

// least returns the index of the agent where a task waits least, the first of
// equal ones, and how long; -1 without any. remote is, for each, the bytes of the
// task's inputs that it does not have.
func least(agents []workload, remote []uint64) (best int, wait float64) {
	best = -1
	for i := range agents {
		if w := agents[i].wait(remote[i]); best < 0 || w < wait {
			best, wait = i, w
		}
	}
	return best, wait
}
