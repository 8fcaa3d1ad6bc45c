package gcs

import (
	"slices"
	"sync"

	"github.com/cascade-run/cascade/comms"
)

// Change says that something of a job was committed.
type Change struct {
	Shard int
	Job   comms.JobID
}

// Watch delivers changes after their commit. C is closed by Close, and also when
// the watcher fell behind: then Missed is true, and it must read the store again.
type Watch struct {
	C      <-chan Change
	c      chan Change
	job    comms.JobID
	missed bool
	owner  *watches
}

type watches struct {
	mu  sync.Mutex
	all []*Watch
}

// Watch reports commits of one job, or of all when job is zero; up to depth wait to be read.
func (s *Store) Watch(job comms.JobID, depth int) *Watch {
	c := make(chan Change, max(depth, 1))
	w := &Watch{C: c, c: c, job: job, owner: &s.watches}
	s.watches.mu.Lock()
	defer s.watches.mu.Unlock()
	s.watches.all = append(s.watches.all, w)
	return w
}

// Missed tells, once C is closed, whether changes were lost.
func (w *Watch) Missed() bool {
	w.owner.mu.Lock()
	defer w.owner.mu.Unlock()
	return w.missed
}

// Close ends the watch. It may be called twice.
func (w *Watch) Close() {
	w.owner.mu.Lock()
	defer w.owner.mu.Unlock()
	w.owner.remove(w)
}

func (ws *watches) remove(w *Watch) {
	if i := slices.Index(ws.all, w); i >= 0 {
		ws.all = slices.Delete(ws.all, i, i+1)
		close(w.c)
	}
}

func (ws *watches) notify(shard int, writes []write) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if len(ws.all) == 0 {
		return
	}
	for i := range writes {
		for _, w := range slices.Clone(ws.all) {
			if !w.job.IsZero() && w.job != writes[i].job {
				continue
			}
			select {
			case w.c <- Change{Shard: shard, Job: writes[i].job}:
			default:
				w.missed = true
				ws.remove(w)
			}
		}
	}
}

func (ws *watches) close() {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	for len(ws.all) > 0 {
		ws.remove(ws.all[0])
	}
}
