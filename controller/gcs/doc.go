// Package gcs is the control store: tables on several Badger instances (shards).
// No other package imports Badger.
//
//	Create, Commit, Delete ──▶ queue of the job's shard ──▶ its goroutine ──▶ one Badger transaction per group
//	                                                        │  waits while the disk is nearly full
//	Load, Batches, Jobs ◀── snapshot                        └▶ done(err), Watch
//
// Invariants:
//   - A job's records live in one shard; the stored, versioned ShardMap says which.
//   - One goroutine writes to a shard, in the order of the calls: when a change is
//     durable, all earlier ones of that job are.
//   - One Commit is one transaction: an agent's event number and what its events
//     caused become durable together. (A batch of over 1 MiB is several, each with
//     its own part of the numbers.)
//   - After a failed transaction a shard takes nothing more: the process must end.
//   - Nothing is committed while the disk has less than MinFree: a submit is
//     refused, commits wait.
//   - done is called exactly once for each call.
//
// What is acknowledged survives the crash of any process; with Options.Sync also
// the loss of power.
package gcs
