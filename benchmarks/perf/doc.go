// Package perf measures a host with the real thing: a cluster as `cascade run`
// starts it, with executor processes, the same store and the same durability.
//
//	Run ──▶ measures, in a fixed order ──▶ Figure, one by one ──▶ `cascade perf` prints them
//	          │
//	          ├─ jobs on the cluster          throughput, latency, stencil, memory
//	          ├─ calls of a program           a second process with a session: latency, rate, waits, puts
//	          ├─ values filled by its tasks   put, get: clocks run inside the executor
//	          └─ packages by themselves       planner, dag, gcs
//
// Invariants:
//   - Every task of a job is a named task of a job that the store has: before a
//     figure is told, the rows that `ls tasks` prints are read and counted. Calls are tasks
//     that no job has: what they return is counted.
//   - The clock of a job runs from Submit to its durable end.
//   - The baseline of a figure is taken right before and after it, in the same
//     process, or to another process where the figure's work goes between two; see
//     Figure.Baseline.
//   - Calls are made by a program in a process of its own, as users' are: this process has
//     the agent and the controller. Part is that program, and the processes of the relay
//     that calls are compared with.
//   - A name that tells a size tells the size that was measured.
//   - Nothing in the runtime knows of this package: its functions are registered by
//     Register, and only in processes that measure.
package perf
