// Command peers runs the same workloads on Cascade and on its neighbours, in turn, on
// this machine: Ray, Dask distributed, earthkit-workflows, HyperQueue, and MPI as a bound.
//
//	table of workloads ─▶ rounds ──request──▶ runner of a system ──▶ its cluster, its tasks
//	table of systems   ─▶   │    ◀──answer───  (a process under a reaper: nothing of it is left)
//	                        └─▶ rows: median, spread, ratio ─▶ results.json, results.md, pictures
//
// A runner is one program for each system, in the folder systems: it starts the system,
// says hello, and answers requests, one JSON object a line, over a Unix socket whose path
// it finds in PEERS_SOCKET. Its clock runs around the submit and the results; the driver's
// only bounds it.
//
// Invariants:
//   - Systems take turns in each round, in another order each time, and never run at once.
//   - A system that fails or exceeds its time gets a row with its own error, and loses
//     only that workload.
//   - Runners check their results: a wrong one is an error, not a time.
//   - The tables, the statistics and the reports are pure; only the runner touches processes.
package main
