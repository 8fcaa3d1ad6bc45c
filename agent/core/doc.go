// Package core is the agent as a pure state machine: events in, actions out.
//
//	             Event                                   []Action
//	controller ---------->+-------------------------+----------------> controller
//	executors  ---------->|  Core.Step(now, event)  |----------------> executors, clients
//	clients    ---------->|                         |----------------> processes, segments,
//	processes, segments ->+-------------------------+                  environments, logs, timer
//
// The driver (package agent) turns messages, dead processes, finished segment
// work and passed time into events, calls Step from one goroutine, and performs
// the actions in the order given. The core has no clock, socket, file,
// goroutine or random source; equal events give equal actions, byte for byte.
//
// The way of a task:
//
//	waiting -> ready -> (pinning) -> queued on an executor -> running -> finished
//	   |         ^                         |    taken back      |
//	   |         +-------------------------+                    +-> ready (retry) -> ... -> failed
//	   +-> skipped, cancelled
package core
