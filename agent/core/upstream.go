package core

import (
	"fmt"
	"iter"
	"time"

	"github.com/cascade-run/cascade/comms"
)

// upstream is the link to one partition of the controller: the numbered events that
// the agent owes it, and how far they are sent and committed. An agent has one for
// each partition that owns jobs of its, of which there is one today.
//
//	note ──> events of jobs ──cut──> batch n ──next──> sent ──committed──> dropped
//	                                   ▲ resume(false) sends again what is not committed
type upstream struct {
	open, full bool
	last       uint64   // number of the last event
	batches    []*batch // cut, not committed
	unsent     int      // of batches, how many were not sent since the link came up
	noted      []*job   // with events that are in no batch, in order
	pending    int      // events that are in no batch
	unflushed  int      // as kept, those that are in no batch
	kept       int      // events that are not committed, for each task one
	records    int      // bytes of records of called tasks in events that are not committed
	unrecorded int      // of those, in events that are in no batch

	mostRecords int       // bytes of records at which further ends of calls are told without
	urgent      bool      // one of those that are in no batch should not wait for others
	flushAt     time.Time // when what is in no batch leaves at the latest; zero: nothing waits
}

// batch is one Events message, kept until it is committed, with the tasks whose
// ends it tells: only its commit ends their need for their inputs.
type batch struct {
	msg  *comms.Events
	last uint64
	kept int // as upstream.kept
	recs int // as upstream.records
	ends []taskEnd
}

// taskEnd is the end of one attempt at a task.
type taskEnd struct {
	job     *job
	task    taskIndex
	attempt uint32
	rest    []step // that ended behind it in one event
}

// note appends an event of a job.
func (u *upstream) note(j *job, e comms.Event) {
	if j.events == nil { // as many as last time, else large events are copied again and again; the end of a task and of its job at least
		j.events = make([]comms.Event, 0, max(j.batch, 2))
		j.ends = make([]taskEnd, 0, max(j.batch, 1))
	}
	if t := e.Called; t != nil {
		if u.records >= u.mostRecords {
			t.Record = comms.RecordWithout(comms.RecordBacklog)
		}
		u.records += len(t.Record)
		u.unrecorded += len(t.Record)
	}
	j.events = append(j.events, e)
	if !j.noted {
		j.noted = true
		u.noted = append(u.noted, j)
	}
	u.pending++
	u.unflushed++
	u.kept++
	switch e.Kind {
	case comms.EventReady, comms.EventStarted, comms.EventPublished, comms.EventFinished, comms.EventReclaimed, comms.EventCall,
		comms.EventBuilding, comms.EventEnv: // one that is found is told with the first task that runs in it
	default:
		u.urgent = true
	}
}

// noteEnds records the tasks that the event before has ended.
func (u *upstream) noteEnds(j *job, e *comms.Event, rest []step) {
	u.unflushed += len(rest)
	u.kept += len(rest)
	j.ends = append(j.ends, taskEnd{j, e.Task, e.Attempt, rest})
}

// cut makes a numbered batch of all events that are in none.
func (u *upstream) cut(load *comms.Load, flows []comms.Flow) {
	b := &batch{msg: &comms.Events{First: u.last + 1, Load: load, Flows: flows}, kept: u.unflushed, recs: u.unrecorded}
	for _, j := range u.noted {
		b.msg.Jobs = append(b.msg.Jobs, comms.JobEvents{Job: j.id, Events: j.events, JobIncarnation: j.life, Epoch: j.epoch})
		b.ends = append(b.ends, j.ends...)
		j.batch = min(len(j.events)+len(j.events)/8, eventBatch)
		j.events, j.ends, j.noted = nil, nil, false
	}
	u.noted = u.noted[:0]
	u.last += uint64(u.pending)
	b.last = u.last
	u.pending, u.unflushed, u.unrecorded, u.urgent = 0, 0, 0, false
	u.batches = append(u.batches, b)
	u.unsent++
}

// next yields the batches that can be sent now, and counts them as sent.
func (u *upstream) next() iter.Seq[*comms.Events] {
	return func(yield func(*comms.Events) bool) {
		for u.open && !u.full && u.unsent > 0 {
			m := u.batches[len(u.batches)-u.unsent].msg
			u.unsent--
			if !yield(m) {
				return
			}
		}
	}
}

// committed drops the batches up to an event number, and yields the ends of tasks in them.
func (u *upstream) committed(upTo uint64) iter.Seq[*taskEnd] {
	return func(yield func(*taskEnd) bool) {
		for len(u.batches) > 0 && u.batches[0].last <= upTo {
			b := u.batches[0]
			u.batches[0] = nil
			u.batches = u.batches[1:]
			u.unsent = min(u.unsent, len(u.batches))
			u.kept -= b.kept
			u.records -= b.recs
			for i := range b.ends {
				if !yield(&b.ends[i]) {
					return
				}
			}
		}
	}
}

// check says which count does not hold.
func (u *upstream) check() error {
	kept, records := u.unflushed, u.unrecorded
	for _, b := range u.batches {
		kept += b.kept
		records += b.recs
	}
	if records != u.records {
		return fmt.Errorf("%d bytes of records kept, counted %d", records, u.records)
	}
	if kept != u.kept || u.unsent > len(u.batches) {
		return fmt.Errorf("%d events kept, counted %d; %d of %d batches unsent", kept, u.kept, u.unsent, len(u.batches))
	}
	return nil
}
