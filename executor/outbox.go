package executor

import (
	"sync"
	"time"

	"github.com/cascade-run/cascade/comms"
)

const (
	maxBatch  = 512                    // items in one Report
	reportAge = 100 * time.Microsecond // a finished run waits this long for others to join its report
	silentAge = 100 * time.Microsecond // and this long when it has no outputs for which others may wait
	maxWait   = 200 * time.Microsecond // and this long when the next run takes its time
)

// outbox joins reports while there is more to do, and sends in order. The runner
// joins its items and sends them itself, between two runs; what others add
// leaves by the timer, or by the flusher when it is urgent.
type outbox struct {
	conn Conn
	fail func(error) // called once, when the connection is closed

	mu    sync.Mutex
	items []comms.ReportItem
	ends  []comms.Usage // not empty: the last item is of so many runs without outputs, Steps is not written yet
	heard bool          // a process may wait for one of the items
	since time.Time     // when the oldest item came
	armed bool          // the timer runs
	timer *time.Timer
	kick  chan struct{}

	sending sync.Mutex // held while a message goes out: it keeps the order
	spare   []comms.ReportItem
}

func newOutbox(conn Conn, fail func(error)) *outbox {
	o := &outbox{conn: conn, fail: fail, kick: make(chan struct{}, 1)}
	o.timer = time.AfterFunc(time.Hour, o.late)
	o.timer.Stop()
	return o
}

// serve flushes beside the runner until stop is closed.
func (o *outbox) serve(stop <-chan struct{}) {
	defer o.timer.Stop()
	for {
		select {
		case <-o.kick:
			o.flush()
		case <-stop:
			return
		}
	}
}

// add queues an item that happened at now. It leaves within maxWait, or with the next flush.
func (o *outbox) add(item comms.ReportItem, now time.Time) {
	o.mu.Lock()
	due := o.joinLocked(item, now)
	o.arm()
	o.mu.Unlock()
	if due {
		o.hurry()
	}
}

// join queues an item for the runner, which calls flush or ripen before it goes on.
func (o *outbox) join(item comms.ReportItem, now time.Time) {
	o.mu.Lock()
	o.joinLocked(item, now)
	o.mu.Unlock()
}

func (o *outbox) joinLocked(item comms.ReportItem, now time.Time) (due bool) {
	if len(o.items) == 0 {
		o.since = now
	}
	if item.Kind != comms.ReportFinished || len(item.Outputs)+len(item.Counts) > 0 {
		o.endRow()
		o.items = append(o.items, item)
		o.heard = true
		return o.due(now)
	}
	if n := len(o.ends); n == 0 || n == comms.MaxSteps || o.items[len(o.items)-1].Run+comms.RunID(n) != item.Run {
		o.endRow()
		o.items = append(o.items, comms.ReportItem{Kind: comms.ReportSteps, Run: item.Run})
	}
	o.ends = append(o.ends, *item.Usage)
	o.items[len(o.items)-1].At = item.At
	return o.due(now)
}

// endRow writes the last item, when it is of runs without outputs.
func (o *outbox) endRow() {
	if len(o.ends) == 0 {
		return
	}
	last := &o.items[len(o.items)-1]
	if len(o.ends) == 1 {
		u := o.ends[0]
		last.Kind, last.Usage = comms.ReportFinished, &u
	} else {
		last.Steps = comms.AppendUsages(make([]byte, 0, 64+8*len(o.ends)), o.ends)
	}
	o.ends = o.ends[:0]
}

func (o *outbox) due(now time.Time) bool {
	if len(o.items) == 0 {
		return false
	}
	age := silentAge
	if o.heard {
		age = reportAge
	}
	return len(o.items) >= maxBatch || now.Sub(o.since) > age
}

// ripen sends what waits if it is time, and otherwise sees to it that it leaves
// although the run that starts now may take long.
func (o *outbox) ripen(now time.Time) {
	o.mu.Lock()
	due := o.due(now)
	if !due {
		o.arm()
	}
	o.mu.Unlock()
	if due {
		o.flush()
	}
}

// arm starts the timer. It is not stopped when what it was for has left: setting
// a timer can cost the wake of a thread, so that it is better let run.
func (o *outbox) arm() {
	if !o.armed && len(o.items) > 0 {
		o.armed = true
		o.timer.Reset(maxWait)
	}
}

// late is the end of the timer.
func (o *outbox) late() {
	o.mu.Lock()
	o.armed = false
	o.mu.Unlock()
	o.flush()
}

// hurry has the flusher send what waits, without waiting for it.
func (o *outbox) hurry() {
	select {
	case o.kick <- struct{}{}:
	default:
	}
}

// flush sends what waits and returns when it is on its way.
func (o *outbox) flush() {
	o.sending.Lock()
	defer o.sending.Unlock()
	o.flushLocked(o.conn.Send)
}

// flushLocked hands over what waits, the last message of it by last.
func (o *outbox) flushLocked(last func(comms.Message) error) {
	for {
		o.mu.Lock()
		o.endRow()
		items := o.items
		o.items, o.heard = o.spare[:0], false
		o.mu.Unlock()
		o.spare = items
		if len(items) == 0 {
			return
		}
		for len(items) > 0 {
			n := min(len(items), maxBatch)
			report := &comms.Report{Items: items[:n]}
			if items = items[n:]; len(items) > 0 {
				o.put(o.conn.Queue, report)
			} else {
				o.put(last, report)
			}
		}
		clear(o.spare)
	}
}

// send sends a message behind everything that was added before, and with it: the
// agent is woken once.
func (o *outbox) send(m comms.Message) {
	o.sending.Lock()
	defer o.sending.Unlock()
	o.flushLocked(o.conn.Queue)
	o.put(o.conn.Send, m)
}

func (o *outbox) put(by func(comms.Message) error, m comms.Message) {
	if err := by(m); err != nil {
		o.fail(err)
	}
}
