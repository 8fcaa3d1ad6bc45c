//go:build linux

package agent

import (
	"sync"
	"time"

	"github.com/cascade-run/cascade/agent/core"
	"github.com/cascade-run/cascade/agent/transfer"
	"github.com/cascade-run/cascade/internal/metrics"
)

// statsAge is how long what the loop said of itself serves: one scrape asks for
// many measures.
const statsAge = time.Second

// statsPatience is how long a scrape waits for a loop that has much to do.
const statsPatience = 2 * time.Second

// told is what the loop said of itself last.
type told struct {
	mu   sync.Mutex
	at   time.Time
	last said
}

// said is what the loop says of itself.
type said struct {
	core.Stats
	link  bool           // to the controller
	moved transfer.Stats // datasets that came and went
}

// ask returns what the loop says of itself now, or said lately.
func (a *Agent) ask() said {
	t := &a.told
	t.mu.Lock()
	defer t.mu.Unlock()
	if time.Since(t.at) < statsAge {
		return t.last
	}
	answer := make(chan said, 1)
	loop := a.loop
	a.in.Push(item{note: func() {
		s := said{Stats: loop.core.Stats(), link: loop.controller.link != nil}
		if x := loop.moving.x; x != nil {
			s.moved = x.Stats()
		}
		answer <- s
	}})
	loop.help()
	patience := time.NewTimer(statsPatience)
	defer patience.Stop()
	select {
	case t.last = <-answer:
		t.at = time.Now()
	case <-patience.C: // what it said last serves once more
	case <-a.stop.Done():
	}
	return t.last
}

// Measures are the agent's metrics; docs/metrics.md lists them.
func (a *Agent) Measures() []metrics.Measure {
	of := func(f func(said) float64) func() float64 {
		return func() float64 { return f(a.ask()) }
	}
	const fetches = "Fetches of datasets from other agents, by outcome; an abandoned fetch counts as failed."
	return []metrics.Measure{
		{Name: "cascade_agent_controller_up", Help: "1 while the agent is connected to the controller, else 0.", Read: of(func(s said) float64 {
			if s.link {
				return 1
			}
			return 0
		})},
		{Name: "cascade_agent_jobs", Help: "Jobs of which the agent runs tasks or holds datasets.", Read: of(func(s said) float64 { return float64(s.Jobs) })},
		{Name: "cascade_agent_dispatched_attempts", Help: "Task attempts dispatched to executors, running or queued there.", Read: of(func(s said) float64 { return float64(s.Runs) })},
		{Name: "cascade_agent_executors", Help: "Executor processes.", Read: of(func(s said) float64 { return float64(s.Executors) })},
		{Name: "cascade_agent_datasets", Help: "Sealed datasets, in shared memory or spilled to disk.", Read: of(func(s said) float64 { return float64(s.Datasets) })},
		{Name: "cascade_agent_store_used_bytes", Help: "Shared memory in use by datasets and leases.", Read: of(func(s said) float64 { return float64(s.Held) })},
		{Name: "cascade_agent_store_capacity_bytes", Help: "Shared memory that datasets and leases may use.", Read: of(func(s said) float64 { return float64(s.Capacity) })},
		{Name: "cascade_agent_spilled_bytes", Help: "Size of the datasets spilled to disk.", Read: of(func(s said) float64 { return float64(s.Spilled) })},
		{Name: "cascade_agent_uncommitted_events", Help: "Task events that the controller has not yet acknowledged as durable.", Read: of(func(s said) float64 { return float64(s.Unsaid) })},
		{Name: "cascade_agent_fetched_bytes_total", Help: "Bytes of datasets fetched from other agents; small datasets travel inside messages and are not counted.", Read: of(func(s said) float64 { return float64(s.moved.BytesIn) })},
		{Name: "cascade_agent_served_bytes_total", Help: "Bytes of datasets served to other agents.", Read: of(func(s said) float64 { return float64(s.moved.BytesOut) })},
		{Name: "cascade_agent_fetches_total", Help: fetches, Label: [2]string{"outcome", "done"}, Read: of(func(s said) float64 { return float64(s.moved.Pulls) })},
		{Name: "cascade_agent_fetches_total", Help: fetches, Label: [2]string{"outcome", "failed"}, Read: of(func(s said) float64 { return float64(s.moved.Failed) })},
		{Name: "cascade_agent_fetches_in_progress", Help: "Fetches of datasets in progress.", Read: of(func(s said) float64 { return float64(s.moved.Pulling) })},
		{Name: "cascade_agent_certificate_expiry_timestamp_seconds", Help: "Unix time at which the agent's certificate expires unless it is renewed; 0 without one.", Read: func() float64 {
			if a.member == nil {
				return 0
			}
			return float64(a.member.member.Expires().UnixNano()) / float64(time.Second)
		}},
	}
}
