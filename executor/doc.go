// Package executor is the worker side of Cascade: a process that runs tasks for
// one agent, and the registry of the Go functions that it can run.
//
//	agent ──Kind, Segment──▶ ┌─inbox─┐            ┌─runner──────────────────────┐
//	      ──Dispatch───────▶ │ queue │──next run─▶│ inputs ▶ function ▶ outputs │
//	      ──Cancel, Credit─▶ └───────┘            └──────────┬──────────────────┘
//	      ◀──────────Report, Log, Reclaimed─── outbox ◀──────┘
//
// A run may carry a path: steps that become runs one after another. Each step leaves its
// output in the process for the next one. Steps that succeed one after another without an
// output to report are reported together.
//
// The inbox takes messages at any time; one runner starts the queued runs in
// order, one after another. The outbox sends at once when the runner has nothing
// else to do, and joins what happens while a message is being sent.
//
// # Processes
//
// An agent starts a program again with CASCADE_EXECUTOR_ADDR (where it listens),
// CASCADE_EXECUTOR_TOKEN and CASCADE_EXECUTOR_CRASH in its environment; [Main]
// finds them and takes over. The crash file gets the Go runtime's last words,
// in which package agent/postmortem finds the input that a goroutine of the task wrote to,
// or its panic.
//
// # Time-outs and cancellation
//
// Both end the context of the task's function. The result that the function returns
// then does not count. A function that does not look at its context goes on. The agent
// ends the process when the grace is over, and the other runs of its queue start
// elsewhere. A command's process group gets SIGTERM, and SIGKILL after the grace.
//
// # Memory
//
// Outputs up to Welcome.InlineMax travel in messages. Larger ones lie in leased
// shared memory: a standing lease for those up to 512 KiB, one of its own for each
// larger one and for each that a command will open as a file. What [Alloc] gave is
// published where it lies; everything else is copied once, which Usage.Copied
// counts. A lease is unmapped and its rest returned when the last run or live
// value that uses it has ended; the standing one also after a second without work.
//
// A process in which runs have left more than 1 GiB of private memory behind since the first, in
// four steps or more, returns the runs that have not begun and ends: the agent starts another.
// Data that is loaded once, such as a table, does not count as that.
//
// # Actors
//
// A run of the function cascade-actors is a process with actors ([Class], [Method]): their creator, another run, calls
// them over a direct link.
//
//	creator: actorcall (handles, calls), actorlink ──▶ actorhost (runs methods), actoranswers: process with actors
//
// # Measurements
//
// Usage.CPU of a function is the process's, read every 50 us and shared by the
// runs in between according to their durations; of a command it is that of the program and
// the children it waited for. PeakRSS is the largest sample of private memory
// (RssAnon) of the process, or of the command's process tree. The process is
// sampled every 25 ms and when a run ends, unless it was less than 5 ms before: in
// that time few MiB of fresh memory can come. Commands of less than 10 ms have none.
//
// Invariants: a run is answered exactly once, by Finished, Failed or Reclaimed;
// what happened in one run is reported in order; nothing is visible to others
// before it is sealed; when the link breaks the process ends.
package executor
