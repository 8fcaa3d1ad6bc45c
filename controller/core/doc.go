// Package core is the controller as a pure state machine: events in, actions out.
//
//	             Event                                []Action
//	clients ------------->+-----------------------+----------------> clients
//	agents  ------------->|  Core.Step(now, ev)   |----------------> agents
//	store, plans, time -->+-----------------------+----------------> store, plans, queries, timer
//
// The way of a job:
//
//	Submit -> Prepare (decode, plan) -> Create -> Accepted
//	               |
//	               +-> Assign -> Events -> Commit -> Committed, Progress
//	                                |
//	                 Drained -> Commit of the end -> Final, Retain
//
// Invariants, verified by Check in tests:
//   - A Commit is emitted in the order of the events of its job; Committed
//     follows only when all commits of a batch and of those before it are stored.
//   - A task is assigned to at most one agent, at an epoch of its job that only grows; events
//     of another agent, of an epoch before it had the task, or of attempts that were given up, change nothing.
//   - Nothing is known only here: rows, requests, graphs and batches are enough to
//     go on after a restart, together with the snapshots of the agents.
//   - One gang that several agents have gathers what it needs at a time; see multihost.go.
//   - Messages go out only while their link has room; what waits is bounded.
//
// A broken message of a peer is answered or dropped. A broken invariant panics.
package core
