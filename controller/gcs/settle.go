package gcs

import (
	"fmt"
	"os"
	"path/filepath"

	badger "github.com/dgraph-io/badger/v4"
)

// settle writes out what an end without Close left in memtables larger than those
// of o: Badger reads each into a memtable of today's size, and ends the process
// when it does not fit.
func settle(o badger.Options) error {
	files, err := filepath.Glob(filepath.Join(o.Dir, "*.mem"))
	if err != nil {
		return fmt.Errorf("look for memtables: %w", err)
	}
	var largest int64
	for _, f := range files {
		info, err := os.Stat(f)
		if err != nil {
			return fmt.Errorf("look at a memtable: %w", err)
		}
		// A log of a memtable is made twice as large as that may become. One that
		// was read before is as long as what is in it.
		if size := info.Size(); size != 2*o.MemTableSize && size > o.MemTableSize/2 {
			largest = max(largest, size)
		}
	}
	if largest == 0 {
		return nil
	}
	db, err := badger.Open(o.WithMemTableSize(2 * largest))
	if err != nil {
		return fmt.Errorf("open it with memtables of %d MiB: %w", 2*largest>>20, err)
	}
	if err := db.Close(); err != nil {
		return fmt.Errorf("write out memtables of %d MiB: %w", 2*largest>>20, err)
	}
	return nil
}
