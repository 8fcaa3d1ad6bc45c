//go:build linux

// Command steal measures what it is worth that idle agents take work of loaded ones.
// Two agents with one core each run jobs of many short tasks that sleep:
//
//	uneven  each second task takes four times as long, which no plan knows: all of those are on one agent
//	joined  the job begins on one agent; the other joins when it runs
//
// Each job runs with and without stealing, by turns, on a cluster of its own.
//
//	go run ./benchmarks/steal
package main
