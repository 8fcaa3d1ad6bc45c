package core

import (
	"slices"
	"time"

	"github.com/cascade-run/cascade/comms"
)

// Pieces that come from one agent without a break are measured as one flow: all bytes of
// all copies, from the first piece that was asked for while the agent owed us none
// to the piece after which it owes us none again. So it does not matter how many
// copies come at once, nor in how many pieces: the bytes of the time are over the
// time. The wait for the first piece is part of it, and there is no time in which
// nothing was asked for: a flow is at most as fast as its way, and a long one about so.
//
// Hosts share their ports max-min fairly, or about so. A flow that shares ours with
// others may be held back by its own way or by our port, and so says less: it is
// reported with the bytes that came beside it and the number of their sources, and its
// reader (profiles.Flow) decides. That a source sends to others at the same time is not
// visible here; it makes flows slower, never faster.
type meter struct {
	owing int           // agents that owe us pieces
	since time.Duration // for so long as now
	held  time.Duration // the sum, over all agents, of the time in which they owed, till since
	came  uint64        // bytes from all
	flows []comms.Flow  // that have ended and were not told yet: the last ones
}

// flow is what comes from one agent just now.
type flow struct {
	open   int // pieces that were asked for and are not here
	since  time.Duration
	held   time.Duration // of the meter, then
	came   uint64        // of the meter, then
	bytes  uint64
	pieces uint64
}

const (
	flowMost = time.Second // then one that goes on is told, and another begins
	maxFlows = 32          // that wait to be told
)

// owes notes that a piece was asked for.
func (m *meter) owes(f *flow, now time.Duration) {
	if f.open++; f.open == 1 {
		m.count(now, 1)
		m.begin(f, now)
	}
}

// arrived notes that a piece came which was asked for.
func (m *meter) arrived(f *flow, from string, bytes uint64, now time.Duration) {
	m.came += bytes
	f.bytes, f.pieces = f.bytes+bytes, f.pieces+1
	f.open--
	if f.open > 0 && now-f.since < flowMost {
		return
	}
	if took := now - f.since; took > 0 {
		m.add(comms.Flow{From: from, Bytes: f.bytes, Pieces: f.pieces, Nanos: uint64(took), Beside: m.came - f.came - f.bytes,
			Others: max(float64(m.upTo(now)-f.held)/float64(took)-1, 0)})
	}
	if f.open > 0 {
		m.begin(f, now)
		return
	}
	m.count(now, -1)
}

// givenUp notes that a piece will not come. A flow that ends so is not reported: it
// shows how the source failed, and not how fast its way is.
func (m *meter) givenUp(f *flow, now time.Duration) {
	if f.open--; f.open == 0 {
		m.count(now, -1)
	}
}

func (m *meter) begin(f *flow, now time.Duration) {
	f.since, f.held, f.came, f.bytes, f.pieces = now, m.upTo(now), m.came, 0, 0
}

// count changes how many agents owe us pieces.
func (m *meter) count(now time.Duration, by int) {
	m.held, m.since = m.upTo(now), now
	m.owing += by
}

// upTo returns held as it is now.
func (m *meter) upTo(now time.Duration) time.Duration {
	return m.held + time.Duration(m.owing)*(now-m.since)
}

func (m *meter) add(f comms.Flow) {
	if len(m.flows) == maxFlows {
		m.flows = slices.Delete(m.flows, 0, 1)
	}
	m.flows = append(m.flows, f)
}

// take returns what was not told yet.
func (m *meter) take() []comms.Flow {
	all := m.flows
	m.flows = nil
	return all
}
