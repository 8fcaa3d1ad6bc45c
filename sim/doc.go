// Package sim runs a whole cluster in one goroutine under virtual time, from one seed.
//
//	seed ──▶ graphs, durations, sizes, delays, faults
//
//	          ┌────────────────────── world: agenda, virtual time ─────────────────────┐
//	          │                                                                        │
//	 client ──┼── memnet (replay) ── controller/core ── store: what was committed       │
//	          │         │                                                              │
//	          │         └────────── agent/core ×N ──── memory: segments, spill files    │
//	          │                        │                                               │
//	          │                 memnet (no replay)                                     │
//	          │                        │                                               │
//	          │                    executors: start, publish, wait, fail, crash, freeze │
//	          └───────────────▲───────────────▲───────────────▲────────────────────────┘
//	                        oracle: what must hold after every step
//
// Real are both cores with all that is inside them, and the encoding of every
// message. Models are what is slow or outside: processes, executors, shared
// memory, disks and the client. A model does what the driver or process that it
// stands for does, no more; where a driver waits, the model takes a random time.
//
// The life of a run: until the world heals, faults strike as the seed says. Then
// no link breaks and nothing dies any more, the client releases what it holds,
// and all must come to an end. Last the client fetches every output and forgets
// the jobs.
//
// What the oracle wants:
//   - Check of each core holds after each of its steps; no core closes the link of a peer that keeps to the protocol.
//   - What a client was told is accepted stays in the store and ends; what an agent was told is committed is in the store.
//   - An event is stored once. A task that is done and stored does not run again, and no output is published again,
//     unless something was lost or a client asked. Tasks that restart are the smallest set: of a task that is done
//     an output that is needed is lost. The tasks of an agent that goes on stay with it.
//   - An agent does not begin a task that it has set aside for another before it received whose it is.
//   - A consumer reads, at its start and at its end, the bytes that its producer wrote.
//   - Running tasks never need more than the host has, and its segments are never larger together than its shared memory.
//   - A task that is skipped or cancelled when a job ends had a cause that has ended badly itself, and lacks something unless the
//     job was stopped; and no job fails of which no task has.
//   - When all is well again every job ends in the phase that its tasks' fates allow, every task is over, each with a
//     reason; what is exported can be fetched; and forgotten jobs leave nothing on disk.
//
// Equal seeds give equal runs, event by event.
package sim
