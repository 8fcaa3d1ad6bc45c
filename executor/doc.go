// Package executor is the worker side of Cascade: a process that runs tasks for
// one agent, and the registry of the Go functions that it can run.
//
//	agent ──Kind, Segment──▶ ┌─inbox─┐            ┌─runner──────────────────────┐
//	      ──Dispatch───────▶ │ queue │──next run─▶│ inputs ▶ function ▶ outputs │
//	      ──Cancel, Credit─▶ └───────┘            └──────────┬──────────────────┘
//	      ◀──────────Report, Log, TakenBack─── outbox ◀──────┘
//
// The inbox takes messages at any time; one runner starts the queued runs in
// order, one after another. The outbox sends at once when the runner has nothing
// else to do, and joins what happens while a message is being sent.
//
// Invariants: a run is answered exactly once, by Finished, Failed or TakenBack;
// what happened in one run is reported in order; nothing is visible to others
// before it is sealed; when the link breaks the process ends.
package executor
