package gcs

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	badger "github.com/dgraph-io/badger/v4"
	badgertable "github.com/dgraph-io/badger/v4/table"
)

// removeEmpty removes logs that Badger had created and not yet given a size when the process died or
// the disk was full: nothing was ever in them, and Badger does not open them (its issue 2207). An empty
// log of values with a later one beside it is another thing: that one had records. A registry of keys is
// made anew: there are none.
func removeEmpty(dir string) error {
	for _, pattern := range []string{"*.mem", "*.vlog"} {
		files, err := filepath.Glob(filepath.Join(dir, pattern)) // sorted, and so by number
		if err != nil {
			return fmt.Errorf("look for logs: %w", err)
		}
		for i, f := range files {
			info, err := os.Stat(f)
			switch {
			case err != nil:
				return fmt.Errorf("look at a log: %w", err)
			case info.Size() > 0:
				continue
			case pattern == "*.vlog" && i < len(files)-1:
				return fmt.Errorf("%s is empty, and %s was written after it: its records are lost", f, filepath.Base(files[i+1]))
			}
			if err := os.Remove(f); err != nil {
				return fmt.Errorf("remove an empty log: %w", err)
			}
		}
	}
	registry := filepath.Join(dir, badger.KeyRegistryFileName)
	if info, err := os.Stat(registry); err == nil && info.Size() < registryBytes {
		if err := os.Remove(registry); err != nil {
			return fmt.Errorf("remove a registry of keys that is cut off: %w", err)
		}
	}
	return nil
}

// registryBytes is the size of a registry without keys, which is all that a store without encryption has.
const registryBytes = 28

// checkTables looks for tables that are cut off: Badger panics in a goroutine of its own when it opens one.
func checkTables(dir string) error {
	f, err := os.Open(filepath.Join(dir, badger.ManifestFilename))
	if errors.Is(err, fs.ErrNotExist) {
		return nil // of a new shard
	}
	if err != nil {
		return fmt.Errorf("look for tables: %w", err)
	}
	defer f.Close()
	manifest, _, err := badger.ReplayManifestFile(f, 0, badger.DefaultOptions(dir).WithLogger(nil))
	if err != nil {
		return fmt.Errorf("read %s: %w", f.Name(), err)
	}
	for id := range manifest.Tables {
		if err := checkTable(badgertable.NewFilename(id, dir)); err != nil {
			return err
		}
	}
	return nil
}

// checkTable checks the lengths at the end of a table: index, its length (4), checksum, its length (4).
func checkTable(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("look at a table: %w", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return fmt.Errorf("look at a table: %w", err)
	}
	end := info.Size()
	for range 2 { // from the end on: checksum, index
		var b [4]byte
		if end -= 4; end < 0 {
			return fmt.Errorf("table %s is cut off: it has %d bytes", path, info.Size())
		}
		if _, err := f.ReadAt(b[:], end); err != nil {
			return fmt.Errorf("read table %s: %w", path, err)
		}
		if end -= int64(binary.BigEndian.Uint32(b[:])); end < 0 {
			return fmt.Errorf("table %s is cut off: it has %d bytes", path, info.Size())
		}
	}
	return nil
}
