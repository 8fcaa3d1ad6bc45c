// Package profiles keeps what tasks cost before: durations, output bytes and
// memory for each signature (job name, group, function).
//
//	committed Usage ──Record──▶ Book ──Snapshot──▶ planner: Predict
//	                             │
//	                             └─Dirty──▶ store (Profile.Encode), and back by Load
//
// A Book belongs to one goroutine; a Snapshot never changes and may be read by
// any. A task that was never seen costs what other tasks of its function did,
// else Default.
package profiles
