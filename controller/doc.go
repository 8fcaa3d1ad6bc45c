// Package controller is the daemon that accepts jobs and watches over them: it
// drives controller/core with real links, the store and the clock.
//
//	client links ─┐                                       ┌─▶ clients, agents
//	agent links ──┼─▶ inbox ─▶ one at a time ─▶ Core.Step ─┼─▶ store (controller/gcs)
//	store, plans ─┘            (actions in order)          └─▶ slow work: decode, plan, queries
//
// Invariants:
//   - One goroutine at a time touches the core, with turns held: Run's, or one that
//     has read a link or ended slow work and found no other at work, which saves
//     waking Run's. Nothing that it calls blocks. Slow work runs beside it and comes
//     back as an event.
//   - A message that does not fit into a link's queue is kept here until the link
//     has room; the core sends nothing more to that link until then.
//   - When the inbox is empty every link that was written to is flushed.
//   - When a write to the store fails permanently, Run ends: what was acknowledged
//     is durable, and agents repeat the rest to the next controller.
//
// # Files
//
//	controller, config, perform  the loop around the core, its configuration, its actions
//	links, gone                  links; whether the process of a lost agent has ended
//	ask, story                   queries and their rows
//	text, graphs, blobs          job files as text, graphs, blobs that go ahead of a submit
//	profiles, memory, drift      profiles, memory that tasks needed, times that deviate
//	improve, resume              better plans for running jobs; results of earlier jobs
//	losses, hook, audit          records of lost agents, the hook for deadlines, the audit log
//	cluster, backup              members, tokens and certificates; backups
//	incarnation, clean           numbers that grow with each start; removal of sockets
//	environments, measures       rows of environments; metrics
package controller
