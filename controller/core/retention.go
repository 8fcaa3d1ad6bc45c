package core

import (
	"cmp"
	"slices"
	"time"
)

// The rule by which ended jobs are deleted: those that were not submitted with
// Keep go, the one that ended first before the others, as long as there are more
// of them than Config.MaxEnded, the store was given more than Config.MaxStored
// bytes for them, or their end is longer ago than Config.TTL.

// retention is the ended jobs that may be deleted, in the order of their ends.
type retention struct {
	queue    []retained
	jobs     int
	bytes    uint64
	deleting int // of the rule's own deletions
}

// retained is a place in the queue. It counts only while the job's end is still that one.
type retained struct {
	job   *job
	ended int64
}

func (p *retained) counts() bool {
	return p.job.live == nil && !p.job.deleting && p.job.remains.ended == p.ended
}

// maxDeleting is how many jobs the rule deletes at a time: the store has other work.
const maxDeleting = 64

func (r *retention) add(j *job) {
	if j.remains.keep {
		return
	}
	r.queue = append(r.queue, retained{j, j.remains.ended})
	r.jobs++
	r.bytes += j.remains.stored
}

// remove takes out a job; its place in the queue does not count any more when
// the caller has done what he is about to do.
func (r *retention) remove(j *job) {
	if j.remains.keep {
		return
	}
	r.jobs--
	r.bytes -= j.remains.stored
}

// sort brings jobs that came out of the store into order.
func (r *retention) sort() {
	slices.SortFunc(r.queue, func(a, b retained) int {
		return cmp.Or(cmp.Compare(a.ended, b.ended), slices.Compare(a.job.id[:], b.job.id[:]))
	})
}

// retire deletes what the rule does not let stay.
func (c *Core) retire() {
	if !c.started || c.cfg.Passive {
		return
	}
	r := &c.kept
	for len(r.queue) > 0 && r.deleting < maxDeleting {
		if !r.queue[0].counts() {
			r.queue = r.queue[1:]
			continue
		}
		j := r.queue[0].job
		over := c.cfg.MaxEnded > 0 && r.jobs > c.cfg.MaxEnded || c.cfg.MaxStored > 0 && r.bytes > c.cfg.MaxStored ||
			c.cfg.TTL > 0 && !c.now.Before(time.Unix(0, j.remains.ended).Add(c.cfg.TTL))
		if !over {
			return
		}
		r.queue = r.queue[1:]
		r.deleting++
		c.delete(j, pending{retire: true})
	}
}
