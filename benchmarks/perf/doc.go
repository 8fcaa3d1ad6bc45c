// Package perf measures a host with the real thing: a cluster as `cascade run`
// starts it, with executor processes, the same store and the same durability.
//
//	Run ──▶ measures, in a fixed order ──▶ Figure, one by one ──▶ `cascade perf` prints them
//	          │
//	          ├─ jobs on the cluster          throughput, latency, stencil, memory
//	          ├─ values filled by its tasks   put, get: clocks run inside the executor
//	          └─ packages by themselves       planner, dag, gcs
//
// Invariants:
//   - Every task of a figure is a named task of a job that the store has: before a
//     figure is told, the rows that `ls tasks` prints are read and counted.
//   - The clock of a job runs from Submit to its durable end.
//   - The baseline of a figure is taken right before and after it, in the same
//     process, or to another process where the figure's work goes between two; see
//     Figure.Baseline.
//   - A name that tells a size tells the size that was measured.
//   - Nothing in the runtime knows of this package: its functions are registered by
//     Register, and only in processes that measure.
package perf
