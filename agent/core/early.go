package core

import (
	"slices"
	"time"

	"github.com/cascade-run/cascade/comms"
)

// A notice may come ahead of the Assign to which it belongs: it waits for that. It may
// also come for an Assign that never comes, since this agent has forgotten the job, or
// lost its link to the controller just then. So one that has waited too long is dropped,
// and costs nothing unless its Assign comes after all: then the link to who told it is
// made anew, and all that counts is told again.

const (
	earlyKept  = 4096        // most notices that wait for their Assign
	earlyBytes = 64 << 20    // of what they carry, about; one may be larger
	earlyFor   = time.Minute // how long they do
	lapsedKept = 4096        // of how many jobs and agents it is known that notices were dropped
	lapsedFor  = time.Hour   // for how long: an Assign is not later than the notices about it by more than a link may take to be resumed
)

// early is a notice whose Assign is still to come.
type early struct {
	from  string
	msg   *comms.Notice
	at    time.Time
	bytes int // see noticeSize
}

// lapsed says that notices of one agent about one life of a job were dropped.
type lapsed struct {
	job   comms.JobID
	life  uint64
	from  string
	epoch uint64 // the highest of which any was
	at    time.Time
}

// tooEarly keeps a notice until its Assign comes.
func (c *Core) tooEarly(from string, m *comms.Notice) {
	e := early{from, m, c.now, noticeSize(m)}
	c.early = append(c.early, e)
	c.earlyBytes += e.bytes
	c.dropEarly()
}

// noticeSize is about what a notice takes in memory.
func noticeSize(m *comms.Notice) int {
	n := descBytes * (1 + len(m.Datasets) + len(m.Ends) + len(m.Ended))
	for i := range m.Datasets {
		n += len(m.Datasets[i].Place.Bytes)
	}
	return n
}

// dropEarly gives up notices whose Assign has not come in time, and the oldest ones when there are too many.
func (c *Core) dropEarly() {
	for n := len(c.early); n > earlyKept || n > 1 && c.earlyBytes > earlyBytes || n > 0 && !c.now.Before(c.early[0].at.Add(earlyFor)); n = len(c.early) {
		e := c.early[0]
		c.early[0] = early{} // which the array behind it would keep
		c.early = c.early[1:]
		c.earlyBytes -= e.bytes
		c.lapse(e.from, e.msg)
	}
	if len(c.early) == 0 {
		c.early = nil
		return
	}
	c.wakeAt(c.early[0].at.Add(earlyFor))
}

// lapse notes that a notice was dropped. When that can be known of no more jobs the
// link to who told the oldest is made anew at once.
func (c *Core) lapse(from string, n *comms.Notice) {
	m := lapsed{n.Job, n.JobIncarnation, from, n.Epoch, c.now}
	c.lapsed = slices.DeleteFunc(c.lapsed, func(o lapsed) bool {
		same := o.job == m.job && o.life == m.life && o.from == from
		if same {
			m.epoch = max(m.epoch, o.epoch)
		}
		return same || !c.now.Before(o.at.Add(lapsedFor))
	})
	if c.lapsed = append(c.lapsed, m); len(c.lapsed) > lapsedKept {
		c.resetPeer(c.lapsed[0].from)
	}
}

// resetPeer has an agent tell anew all that counts.
func (c *Core) resetPeer(agent string) {
	c.emit(ResetPeer{agent})
	c.lapsed = slices.DeleteFunc(c.lapsed, func(m lapsed) bool { return m.from == agent })
	c.setEarly(slices.DeleteFunc(c.early, func(e early) bool { return e.from == agent }))
}

func (c *Core) setEarly(all []early) {
	c.early, c.earlyBytes = all, 0
	for i := range all {
		c.earlyBytes += all[i].bytes
	}
}

// replayEarly takes the notices that came before the Assign to which they belong.
func (c *Core) replayEarly(j *job) {
	c.askLapsed(j)
	if len(c.early) == 0 {
		return
	}
	all := c.early
	c.setEarly(nil)
	for _, e := range all {
		switch {
		case e.msg.Job != j.id || e.msg.JobIncarnation != j.life || e.msg.Epoch > j.epoch:
			c.early = append(c.early, e)
		case j.peers != nil:
			c.notice(e.from, e.msg)
		}
	}
	c.setEarly(c.early)
}

// askLapsed has those tell anew what counts whose notices about a job were dropped
// before it came here at this epoch.
func (c *Core) askLapsed(j *job) {
	var from []string
	c.lapsed = slices.DeleteFunc(c.lapsed, func(m lapsed) bool {
		if m.job != j.id || m.life != j.life {
			return false
		}
		if m.epoch >= j.epoch && j.peers != nil {
			from = append(from, m.from)
		}
		return m.epoch <= j.epoch
	})
	for _, agent := range from {
		c.resetPeer(agent)
	}
}
