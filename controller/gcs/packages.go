package gcs

import (
	badger "github.com/dgraph-io/badger/v4"

	"github.com/cascade-run/cascade/comms"
)

// Packages are files beside the store. The store has their references: a record for
// each job that needs one, written with the job's row and deleted with it. So a
// package is needed as long as a job's lineage is there, and nothing has to be
// counted anew after a crash.

// packageKey is the reference of a job to a package. Hashes that are told apart by
// their algorithm are of one length each, so none begins another.
func packageKey(h comms.Hash, job comms.JobID) []byte {
	return append(packagePrefix(h), job[:]...)
}

func packagePrefix(h comms.Hash) []byte {
	return append(append(make([]byte, 0, 1+len(h)+len(comms.JobID{})), byte(tablePackages)), h...)
}

// Needs returns how many of the jobs that are stored need a package, but counts no
// further than most.
func (s *Store) Needs(h comms.Hash, most int) (n int, err error) {
	prefix := packagePrefix(h)
	for _, sh := range s.shards {
		err := sh.db.View(func(t *badger.Txn) error {
			return each(t, prefix, nil, false, func([]byte, []byte) error {
				if n++; n >= most {
					return errStop
				}
				return nil
			})
		})
		if err != nil || n >= most {
			return n, err
		}
	}
	return n, nil
}

// Room returns an error that matches ErrNoSpace when the disk has not so many bytes
// to spare above what the store keeps free.
func (s *Store) Room(n uint64) error { return s.space.room(n) }
