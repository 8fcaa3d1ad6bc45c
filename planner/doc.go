// Package planner turns a graph, what its tasks cost before, and a cluster into
// a plan: where and when each task should run, and why.
//
//	dag.Graph ─┐
//	profiles  ─┼─▶ ranks (upward) ─▶ one list schedule ─▶ Plan: host, start, finish, reason
//	Cluster   ─┘                 └─▶ linear paths to fuse
//
// What lies between hosts is in the profiles, where it was measured (ways.go).
//
// Improve goes on from there:
//
//	Plan ─▶ model ─▶ portfolio: a host for each task, by seven methods ─┐
//	                 search: one task moved, or two exchanged ──────────┼─▶ decision
//	          better plans ◀─ contention: bandwidth is shared ◀─────────┘
//
// It is pure: equal inputs give equal plans. A plan never has more on a host at
// any time than the host has; of what Improve finds that is true of datasets, too
// (memory.go). It is advice: agents start tasks by rank when their
// inputs are there, and not by the clock.
package planner
