// Package agent is the daemon of one host: it drives agent/core with real
// links, processes, segments and files.
//
//	controller link ─┐                                       ┌─▶ controller, executors, clients
//	executor links ──┤                                       ├─▶ processes (agent/process)
//	client links ────┼─▶ inbox ─▶ one goroutine ─▶ Core.Step ─┼─▶ segments and spill files (shm)
//	processes ───────┤            (actions in order)         ├─▶ environments (agent/runtimeenv)
//	segments, timer ─┘                                       └─▶ logs of tasks
//
// The driver also does what needs no decision of the core:
//   - it adds what processes print to the log of the task that runs;
//   - it ends executors whose task exceeds its grant of memory;
//   - it finds out what a dead executor did last;
//   - when it ends, it writes outputs that should outlive the agent to its state folder.
//
// Invariants:
//   - One goroutine at a time touches the core, with loop.mu held: Run's, or one
//     that has read a link and found no other at work, which saves waking Run's.
//     Nothing that it calls blocks. Slow work is done by lanes, each a goroutine
//     that keeps the order of its work, and its end comes back as an event.
//   - An executor's death is known from its process, never from its link. The
//     event of its death comes after every message that it sent.
//   - A message from an executor counts only after a Hello with the token of a
//     process that this agent started and that is still alive.
//   - When the inbox is empty the core gets the event Idle, and every link that was
//     written to is flushed. While tasks run, the core may delay events that no process
//     waits for by a millisecond: a commit for each step costs more than the step.
//
// # Files
//
//	agent, config, loop        the agent, its configuration, the loop around the core
//	links                      links to the controller and to executors
//	clients, peers             links of clients and of other agents
//	exchange                   datasets to and from other agents (agent/transfer)
//	memory                     effects of the ledger: segments, spill files
//	executors, lane            processes of executors; slow work in order
//	sessions                   programs that open sessions
//	memguard, fence            bounds of a task's memory: by sampling, by cgroup
//	recent, output, tasklog    the last runs of an executor, its output, logs of tasks
//	devices, container, ports  devices, images, ports of gangs
//	graphs, packages, relay    graphs, packages and blobs that the controller keeps
//	state, keep, shutdown      what outlives the agent
//	membership                 the certificate of the agent
//	measures                   metrics
package agent
