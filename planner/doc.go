// Package planner turns a graph, what its tasks cost before, and a cluster into
// a plan: where and when each task should run, and why.
//
//	dag.Graph ─┐
//	profiles  ─┼─▶ ranks (upward) ─▶ one list schedule ─▶ Plan: host, start, finish, reason
//	Cluster   ─┘                 └─▶ linear paths to fuse
//
// The bandwidth between two hosts is in the profiles where it was measured (ways.go).
//
// Improve goes on from there:
//
//	Plan ─▶ model ─▶ portfolio: a host for each task, by seven methods ─┐
//	                 search: one task moved, or two exchanged ──────────┼─▶ decision
//	          better plans ◀─ contention: bandwidth is shared ◀─────────┘
//
// It is pure: equal inputs give equal plans. No plan uses more of a host's resources at
// any time than the host has. Plans of Improve keep that rule for the memory of datasets
// too (memory.go). A plan is advice: agents start tasks by rank when their inputs are
// there, and not by the clock.
package planner
