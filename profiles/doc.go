// Package profiles keeps what tasks cost before: durations, cores, output bytes and
// memory for each signature (job name, group, function); and what came from host to
// host, how fast.
//
//	committed Usage ──Record──▶ Book ──Snapshot──▶ planner: Predict, PredictFor, Links
//	Flow of an agent ─RecordFlow─┘│  ▲
//	     Profile.Encode, Load ──▶ store
//	     EntryOf, Entry.Profile ─▶ File: JSON to look at, to compare (Diff) and to carry elsewhere
//
// A Link (links.go) holds the same of the way from one host to another.
//
// A Profile holds means and variances, histograms (Sketch), the last runs with the
// bytes of their inputs (Point, fitted by Lines), means by size class (Class), and
// what the code before cost (Before).
//
// A Book belongs to one goroutine; a Snapshot never changes and may be read by
// any. A task that was never seen costs what other tasks of its function did,
// else Default.
package profiles
