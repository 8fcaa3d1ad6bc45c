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
// The cores and all that is inside them are the real ones, and so is the encoding of every
// message. Models stand for what is slow or outside: processes, executors, shared
// memory, disks and the client. A model does what the driver or process that it
// stands for does, no more. Where a driver waits, the model takes a random time.
//
// A run has three phases. At first faults strike as the seed says. Then the world heals: no
// link breaks and nothing dies any more, the client releases the jobs that it holds, and
// every job must end. At last the client fetches every output and forgets the jobs.
//
// The invariants that the oracle checks:
//   - Check of each core holds after each of its steps.
//   - No core closes the link of a peer that keeps to the protocol.
//   - A job whose acceptance a client has received stays in the store and ends. Events whose commit an
//     agent has received are in the store.
//   - An event is stored once.
//   - A task that is done and stored does not run again, and no output is published again, unless something
//     was lost or a client asked for it. The tasks that restart are the smallest set: a done task restarts
//     only when an output of it that is needed is lost. The tasks of an agent that goes on stay with it.
//   - An agent does not begin a task that it has set aside before it has received which agent owns it.
//   - A consumer reads, at its start and at its end, the bytes that its producer wrote.
//   - A call ends once for each try of its parent, as a serial model of programs says (outcome). Another try
//     of the parent reads of it what the one before has read. A called task that has ended well does not run
//     again, and never in two executors at once. A run goes on from a wait when it was told of as many ends.
//   - Running tasks never need more than the host has. The segments of a host are never larger together
//     than its shared memory.
//   - When a job ends, the cause of each skipped or cancelled task is a task that has not ended well, and the
//     skipped task lacks something, unless the job was stopped. No job fails unless a task of it has failed.
//   - When the world has healed every job ends in a phase that the fates of its tasks allow, and every task is
//     over, with a reason. Every output can be fetched. Forgotten jobs leave nothing on disk, and agents
//     have no job, run or dataset.
//
// Equal seeds give equal runs, event by event.
//
// # Files
//
//	world, story               the run of a seed; the lines that it prints
//	options, fates             flags; what a seed decides once
//	oracle, badly, smallest    the checks
//	facts                      what the oracle knows of a job
//	shrink                     leaves out what a failure does not need
//	graph                      random jobs
//	client, controller, agent  the client; drivers of the two cores
//	executor, lease, memory, store  models of processes, shared memory, the store
//	transfer, bandwidth        datasets between agents
//	oneway, clock, join, leave partitions, wall clocks, agents that join and leave
//	program                    what tasks call, drawn from numbers; the words that they return
//	calls, callwait            an executor that runs a program
//	outcome                    which ends of calls are right
//	steal, gangs, forward, devices, hunger, varies  one mode or feature each
package sim
