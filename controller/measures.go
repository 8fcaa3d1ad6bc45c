package controller

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/controller/core"
	"github.com/cascade-run/cascade/internal/metrics"
)

// counts are what a controller counts of its own work, for its metrics.
type counts struct {
	submitted, done, failed, cancelled atomic.Uint64                      // jobs
	finished, retried, failedTasks     atomic.Uint64                      // tasks
	calls                              [3]atomic.Uint64                   // called tasks: done, failed, cancelled
	moved                              atomic.Uint64                      // tasks
	restarted                          [core.RestartReasons]atomic.Uint64 // tasks
	differs                            atomic.Uint64                      // datasets
	fromClients, fromAgents            atomic.Uint64                      // messages
	denied, joined, notJoined          atomic.Uint64
}

// tasksOf counts the tasks of ranges.
func tasksOf(all []comms.Range) (n uint64) {
	for _, r := range all {
		n += uint64(r.Last-r.First) + 1
	}
	return n
}

// ended counts a job's end.
func (n *counts) ended(p comms.JobPhase) {
	switch p {
	case comms.JobDone:
		n.done.Add(1)
	case comms.JobFailed:
		n.failed.Add(1)
	case comms.JobCancelled:
		n.cancelled.Add(1)
	}
}

func counter(n *atomic.Uint64) func() float64 { return func() float64 { return float64(n.Load()) } }

// Measures are the controller's metrics; docs/metrics.md lists them.
func (c *Controller) Measures() []metrics.Measure {
	n := &c.counts
	const links, jobs, attempts, calls, restarts, messages, joins = "Links to peers that are connected or may reconnect, by the role of the peer.",
		"Jobs whose acceptance or end is durable, by event.", "Task attempts whose end is durable, by outcome.", "Called tasks whose end is durable, by outcome.", "Tasks restarted, by reason.",
		"Messages received, by the role of the sender.", "Requests to join the cluster, by outcome."
	all := []metrics.Measure{
		{Name: "cascade_controller_links", Help: links, Label: [2]string{"role", "agent"}, Read: func() float64 { return c.linksOf("agent") }},
		{Name: "cascade_controller_links", Help: links, Label: [2]string{"role", "client"}, Read: func() float64 { return c.linksOf("client") }},
		{Name: "cascade_controller_jobs_total", Help: jobs, Label: [2]string{"event", "accepted"}, Read: counter(&n.submitted)},
		{Name: "cascade_controller_jobs_total", Help: jobs, Label: [2]string{"event", "done"}, Read: counter(&n.done)},
		{Name: "cascade_controller_jobs_total", Help: jobs, Label: [2]string{"event", "failed"}, Read: counter(&n.failed)},
		{Name: "cascade_controller_jobs_total", Help: jobs, Label: [2]string{"event", "cancelled"}, Read: counter(&n.cancelled)},
		{Name: "cascade_controller_task_attempts_total", Help: attempts, Label: [2]string{"outcome", "finished"}, Read: counter(&n.finished)},
		{Name: "cascade_controller_task_attempts_total", Help: attempts, Label: [2]string{"outcome", "retried"}, Read: counter(&n.retried)},
		{Name: "cascade_controller_task_attempts_total", Help: attempts, Label: [2]string{"outcome", "failed"}, Read: counter(&n.failedTasks)},
		{Name: "cascade_controller_calls_total", Help: calls, Label: [2]string{"outcome", "finished"}, Read: counter(&n.calls[0])},
		{Name: "cascade_controller_calls_total", Help: calls, Label: [2]string{"outcome", "failed"}, Read: counter(&n.calls[1])},
		{Name: "cascade_controller_calls_total", Help: calls, Label: [2]string{"outcome", "cancelled"}, Read: counter(&n.calls[2])},
		{Name: "cascade_controller_tasks_reassigned_total", Help: "Tasks reassigned to another agent or agent process: stolen by an idle agent, or taken from one that was lost or drains.", Read: counter(&n.moved)},
		{Name: "cascade_controller_datasets_mismatched_total", Help: "Recomputed datasets whose content differs from the original.", Read: counter(&n.differs)},
		{Name: "cascade_controller_messages_received_total", Help: messages, Label: [2]string{"role", "client"}, Read: counter(&n.fromClients)},
		{Name: "cascade_controller_messages_received_total", Help: messages, Label: [2]string{"role", "agent"}, Read: counter(&n.fromAgents)},
		{Name: "cascade_controller_messages_denied_total", Help: "Messages refused because the role of the sender does not permit them.", Read: counter(&n.denied)},
		{Name: "cascade_controller_join_requests_total", Help: joins, Label: [2]string{"outcome", "accepted"}, Read: counter(&n.joined)},
		{Name: "cascade_controller_join_requests_total", Help: joins, Label: [2]string{"outcome", "refused"}, Read: counter(&n.notJoined)},
		{Name: "cascade_controller_store_paused", Help: "1 while the store accepts no commits because its disk is nearly full, else 0.", Read: func() float64 {
			if c.pause.is() {
				return 1
			}
			return 0
		}},
		{Name: "cascade_controller_certificate_expiry_timestamp_seconds", Help: "Unix time at which the controller's certificate expires unless it is renewed; 0 without one.", Read: func() float64 {
			if c.cluster == nil {
				return 0
			}
			return float64(c.cluster.self.Expires().UnixNano()) / float64(time.Second)
		}},
	}
	for r := range core.RestartReasons {
		all = append(all, metrics.Measure{Name: "cascade_controller_tasks_restarted_total", Help: restarts,
			Label: [2]string{"reason", core.RestartReason(r).String()}, Read: counter(&n.restarted[r])})
	}
	return append(all, c.standing()...)
}

// census counts agents and tasks now. The agents are those of their rows: one whose link is broken is away.
func (c *Controller) census() (n core.Census) {
	c.turns.Lock()
	n = c.core.Census()
	c.heard(n.Agents, time.Now())
	c.turns.Unlock()
	c.help() // for what came meanwhile
	return n
}

// standing measures agents and tasks by how they stand. One census serves a scrape.
func (c *Controller) standing() (all []metrics.Measure) {
	var mu sync.Mutex
	var taken time.Time
	var last core.Census
	read := func(of func(*core.Census) float64) func() float64 {
		return func() float64 {
			mu.Lock()
			defer mu.Unlock()
			if time.Since(taken) > censusKept {
				last, taken = c.census(), time.Now()
			}
			return of(&last)
		}
	}
	for _, state := range core.AgentStates {
		all = append(all, metrics.Measure{Name: "cascade_controller_agents", Help: "Agents, by state.", Label: [2]string{"state", state}, Read: read(func(n *core.Census) (found float64) {
			for _, a := range n.Agents {
				if a.State == state {
					found++
				}
			}
			return found
		})})
	}
	for state, of := range map[string]func(*core.Census) float64{
		"waiting": func(n *core.Census) float64 { return float64(n.Waiting) },
		"ready":   func(n *core.Census) float64 { return float64(n.Ready) },
		"running": func(n *core.Census) float64 { return float64(n.Running) },
	} {
		all = append(all, metrics.Measure{Name: "cascade_controller_tasks", Help: "Tasks of jobs that have not ended, by state; called tasks are not counted.", Label: [2]string{"state", state}, Read: read(of)})
	}
	return all
}

// censusKept is for how long a census is used.
const censusKept = 500 * time.Millisecond

func (c *Controller) linksOf(role string) (n float64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for l := range c.ids {
		if l.Peer().Role == role {
			n++
		}
	}
	return n
}
