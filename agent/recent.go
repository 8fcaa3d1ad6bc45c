//go:build linux

package agent

import (
	"sync"

	"github.com/cascade-run/cascade/comms"
)

// recent remembers what an executor was given last, so that what its process
// writes, and what it dies of, can be told from the number of the run alone. The
// core may have forgotten the run by then.
type recent struct {
	mu         sync.Mutex
	kinds      map[uint32]*comms.Kind
	dispatches []*comms.Dispatch // oldest first
}

// recentDispatches is how many messages are kept: more than an executor has queued.
const recentDispatches = 16

func (r *recent) note(m comms.Message) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch m := m.(type) {
	case *comms.Kind:
		if m.Close {
			delete(r.kinds, m.ID)
			return
		}
		if r.kinds == nil {
			r.kinds = map[uint32]*comms.Kind{}
		}
		r.kinds[m.ID] = m
	case *comms.Dispatch:
		if len(r.dispatches) == recentDispatches {
			copy(r.dispatches, r.dispatches[1:])
			r.dispatches = r.dispatches[:recentDispatches-1]
		}
		r.dispatches = append(r.dispatches, m)
	}
}

// largestGrant returns the most memory that a kind was granted which the executor
// knows; 0 when there is one without a bound, or none.
func (r *recent) largestGrant() (most int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, k := range r.kinds {
		if k.Resources.Memory <= 0 {
			return 0
		}
		most = max(most, k.Resources.Memory)
	}
	return most
}

// forget drops what is known of a job.
func (r *recent) forget(job comms.JobID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for id, k := range r.kinds {
		if k.Job == job {
			delete(r.kinds, id)
		}
	}
}

// find returns a run and what its group shares; nil when it is not known any more.
func (r *recent) find(id comms.RunID) (*comms.Kind, *comms.Run) {
	if id == 0 {
		return nil, nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := len(r.dispatches) - 1; i >= 0; i-- {
		runs := r.dispatches[i].Runs
		for k := range runs {
			if runs[k].ID == id {
				return r.kinds[runs[k].Kind], &runs[k]
			}
			if id < runs[k].ID || id-runs[k].ID > comms.MaxSteps || len(runs[k].Steps) == 0 {
				continue
			}
			all, err := runs[k].All()
			if n := int(id - runs[k].ID); err == nil && n < len(all) {
				return r.kinds[all[n].Kind], &all[n]
			}
		}
	}
	return nil, nil
}

// taskName returns the name under which a run's task keeps its log.
func taskName(kind *comms.Kind, run *comms.Run) string {
	return kind.NameOf(run.Task, run.Name)
}
