//go:build race

package gcs

import "sync"

// rewriting keeps commits away from a rewrite of a value log. At its beginning Badger
// (4.9.6, DB.MaxVersion) reads the newest version of its memtable beside who writes to
// it. That does no harm: with an older version more is kept. But the race detector ends
// the process for it.
type rewriting struct{ sync.Mutex }
