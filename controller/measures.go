package controller

import (
	"sync/atomic"
	"time"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/internal/measure"
)

// counts are what a controller counts of its own work, for its metrics.
type counts struct {
	submitted, done, failed, cancelled atomic.Uint64 // jobs
	finished, retried, failedTasks     atomic.Uint64 // tasks
	moved, again                       atomic.Uint64 // tasks
	differs                            atomic.Uint64 // datasets
	fromClients, fromAgents            atomic.Uint64 // messages
	denied, joined, notJoined          atomic.Uint64
	paused                             atomic.Bool
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
func (c *Controller) Measures() []measure.Measure {
	n := &c.counts
	const jobs, tasks, messages, joins = "Jobs, by what became of them.", "Attempts at tasks whose ends are durable, by how they ended.",
		"Messages received, by who sent them.", "Requests to join the cluster, by outcome."
	return []measure.Measure{
		{Name: "cascade_controller_links", Help: "Links that are up or may come back, by role of the peer.", Label: [2]string{"role", "agent"}, Read: func() float64 { return c.linksOf("agent") }},
		{Name: "cascade_controller_links", Help: "Links that are up or may come back, by role of the peer.", Label: [2]string{"role", "client"}, Read: func() float64 { return c.linksOf("client") }},
		{Name: "cascade_controller_jobs_total", Help: jobs, Label: [2]string{"event", "accepted"}, Read: counter(&n.submitted)},
		{Name: "cascade_controller_jobs_total", Help: jobs, Label: [2]string{"event", "done"}, Read: counter(&n.done)},
		{Name: "cascade_controller_jobs_total", Help: jobs, Label: [2]string{"event", "failed"}, Read: counter(&n.failed)},
		{Name: "cascade_controller_jobs_total", Help: jobs, Label: [2]string{"event", "cancelled"}, Read: counter(&n.cancelled)},
		{Name: "cascade_controller_task_ends_total", Help: tasks, Label: [2]string{"outcome", "finished"}, Read: counter(&n.finished)},
		{Name: "cascade_controller_task_ends_total", Help: tasks, Label: [2]string{"outcome", "retried"}, Read: counter(&n.retried)},
		{Name: "cascade_controller_task_ends_total", Help: tasks, Label: [2]string{"outcome", "failed"}, Read: counter(&n.failedTasks)},
		{Name: "cascade_controller_tasks_moved_total", Help: "Tasks of jobs on several agents that were given to another one, or to another process of theirs: one was idle, or theirs was lost or leaves.", Read: counter(&n.moved)},
		{Name: "cascade_controller_tasks_again_total", Help: "Tasks that were made to start over: what they had made was lost, their gang starts over, they wait for a larger host, what they had read was made again and differs, or somebody asked for it.", Read: counter(&n.again)},
		{Name: "cascade_controller_datasets_differ_total", Help: "Datasets that were lost and made again, and differ from what they were.", Read: counter(&n.differs)},
		{Name: "cascade_controller_messages_total", Help: messages, Label: [2]string{"from", "client"}, Read: counter(&n.fromClients)},
		{Name: "cascade_controller_messages_total", Help: messages, Label: [2]string{"from", "agent"}, Read: counter(&n.fromAgents)},
		{Name: "cascade_controller_denied_total", Help: "Messages refused because of the role of who sent them.", Read: counter(&n.denied)},
		{Name: "cascade_controller_joins_total", Help: joins, Label: [2]string{"outcome", "done"}, Read: counter(&n.joined)},
		{Name: "cascade_controller_joins_total", Help: joins, Label: [2]string{"outcome", "refused"}, Read: counter(&n.notJoined)},
		{Name: "cascade_controller_store_paused", Help: "1 while the disk is too full for commits.", Read: func() float64 {
			if n.paused.Load() {
				return 1
			}
			return 0
		}},
		{Name: "cascade_controller_certificate_expiry_seconds", Help: "When the controller's own certificate ends, in seconds since 1970; 0 without one. It is renewed before.", Read: func() float64 {
			if c.cluster == nil {
				return 0
			}
			return float64(c.cluster.self.Expires().UnixNano()) / float64(time.Second)
		}},
	}
}

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
