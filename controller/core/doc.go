// Package core is the controller as a pure state machine: events in, actions out.
//
//	             Event                                []Action
//	clients ------------->+-----------------------+----------------> clients
//	agents  ------------->|  Core.Step(now, ev)   |----------------> agents
//	store, plans, time -->+-----------------------+----------------> store, plans, queries, timer
//
// The stages of a job:
//
//	Submit -> Prepare (decode, plan) -> Create -> Accepted
//	               |
//	               +-> Assign -> Events -> Commit -> Committed, Progress
//	                                |
//	                 Drained -> Commit of the end -> Final, Retain
//
// # Files
//
// The interface:
//
//	api          configuration, events, actions
//	core         Core, Step
//	host         a host as plans see it
//	kept         what a store holds of one job, in memory: for tests and the simulator
//	check        every cross-reference of the state, for tests
//
// Clients and jobs:
//
//	clients      requests of clients: submit, control, query
//	links        links to clients and agents, their queues, their ends
//	jobs         the state of a job, its way to its end
//	names        names of tasks and datasets that clients ask for
//	progress     who watches a job
//	ends         the end of a job; which failure stops it
//	retention    which ended jobs are deleted
//	resume       jobs that reuse results of an earlier job (run --resume)
//
// Agents and their events:
//
//	agents       Register, Snapshot, what an agent has of each job
//	roster       agents that are away, and those that are given up
//	intake       numbers of events: received, durable
//	events       batches of events, their commits
//	environments which agent has which environment
//	waiting      how long a task would wait at an agent
//	where        hosts for calls of running tasks
//
// Placement:
//
//	assign       a job without agents is placed; Assign messages
//	home         which agents suit a job, and why a job waits
//	settle       the agent of each task at a new epoch
//	parts        which agent has which assignment of a job
//	improve      better plans for jobs that run; deadlines
//	steal        work of loaded agents goes to idle ones
//	drain        agents that drain
//	gangs        gangs start over as one
//	multihost    multi-host gangs: reserve, start, abort
//	enlarge      tasks that need more memory than their agent has
//
// States of tasks, and recovery:
//
//	states       the state of each task, as its events say
//	startover    tasks that start over; events that count no more
//	lists        readers of lists that were skipped too early
//	replay       states from the stored batches, after a restart
//	recover      a job goes on after a loss or a rerun: decides what runs again
//	needed       the smallest set of tasks that recomputes what is needed
//	lostdata     datasets that are lost
//	losses       what an agent had when it was lost, for logs and status
//	restart      reasons of restarts, for metrics
//	rebuilt      recomputed datasets are compared with the originals
//
// # Invariants
//
// Check verifies these in tests:
//   - A Commit is emitted in the order of the events of its job. Committed follows only when
//     all commits of a batch, and of the batches before it, are stored.
//   - A task is assigned to at most one agent, at an epoch of its job. Epochs only grow.
//     Events change nothing when they are of another agent, of an epoch before the agent had
//     the task, or of an attempt that was given up.
//   - A controller that restarts needs nothing that only this one knows: the stored rows,
//     requests, graphs and batches are enough, together with the snapshots of the agents.
//   - One multi-host gang at a time reserves what it needs (multihost.go).
//   - Messages go out only while their link has room. The queue of waiting messages is bounded.
//
// A malformed message of a peer is answered or dropped. A broken invariant panics.
package core
