package gcs

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"

	badger "github.com/dgraph-io/badger/v4"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/dag"
)

// spans says of the jobs that were asked about last which tasks each batch is of,
// so that a page of rows finds its batches without reading the headers of all.
// Batches that were added since are read with the next request.
type spans struct {
	mu   sync.Mutex
	jobs map[comms.JobID]*known
	last []comms.JobID // that were asked about, newest last
}

// known is what is known of a job from when it is asked about until it is deleted: a
// reader of an older snapshot then adds to a list that is in no map any more. The list
// is replaced and never changed.
type known struct{ list []span }

// span is the key of a batch behind its job, and the tasks that it is of.
type span struct {
	number      uint64
	part        uint16 // 0: the batch, or its first part
	none        bool   // it is of no task
	first, last dag.TaskIndex
}

// maxSpans is of how many jobs the spans are kept, 24 bytes for each batch.
const maxSpans = 4

func (s *span) key(job comms.JobID) []byte {
	k := batchKey(job, s.number)
	if s.part > 0 {
		k = binary.BigEndian.AppendUint16(k, s.part)
	}
	return k
}

// of returns what is known of a job. Its caller begins to read the store only then.
func (s *spans) of(job comms.JobID) *known {
	s.mu.Lock()
	defer s.mu.Unlock()
	k := s.jobs[job]
	if k == nil {
		k = &known{}
		if s.jobs == nil {
			s.jobs = map[comms.JobID]*known{}
		}
		s.jobs[job] = k
	}
	s.last = append(slices.DeleteFunc(s.last, func(o comms.JobID) bool { return o == job }), job)
	if len(s.last) > maxSpans {
		delete(s.jobs, s.last[0])
		s.last = s.last[1:]
	}
	return k
}

// keysOf lists the keys of the batches that are of a part. The headers are read
// without the lock: a job of a million batches delays no other reader.
func (s *spans) keysOf(t *badger.Txn, job comms.JobID, k *known, part *Part) (keys [][]byte, err error) {
	s.mu.Lock()
	list := k.list
	s.mu.Unlock()
	if list, err = extend(t, job, slices.Clip(list)); err != nil {
		return nil, err
	}
	s.mu.Lock()
	if len(list) > len(k.list) {
		k.list = list
	}
	s.mu.Unlock()
	for i := range list {
		if b := &list[i]; b.number >= part.From && !b.none && b.first <= part.Last && b.last >= part.First {
			keys = append(keys, b.key(job))
		}
	}
	return keys, nil
}

// extend reads the headers of the batches behind those of a list.
func extend(t *badger.Txn, job comms.JobID, list []span) ([]span, error) {
	o := badger.DefaultIteratorOptions
	o.Prefix, o.PrefetchValues = jobKey(tableBatches, job), false
	it := t.NewIterator(o)
	defer it.Close()
	from := o.Prefix
	if len(list) > 0 {
		from = list[len(list)-1].key(job)
	}
	for it.Seek(from); it.Valid(); it.Next() {
		k := it.Item().Key()
		if len(list) > 0 && bytes.Equal(k, from) {
			continue
		}
		rest := k[len(o.Prefix):]
		if len(rest) != 8 && len(rest) != 10 {
			return nil, fmt.Errorf("key %x: %w", k, ErrCorrupt)
		}
		b := span{number: binary.BigEndian.Uint64(rest), last: math.MaxUint32}
		if len(rest) == 10 {
			b.part = binary.BigEndian.Uint16(rest[8:])
		}
		err := it.Item().Value(func(v []byte) error {
			h, _, err := headerOf(v)
			if b.none = h.Known && len(h.Tasks) == 0; len(h.Tasks) > 0 {
				b.first, b.last = h.Tasks[0].First, h.Tasks[0].Last
			}
			return err
		})
		if err != nil {
			return nil, fmt.Errorf("key %x: %w", k, err)
		}
		list = append(list, b)
	}
	return list, nil
}

// forget drops what is known of a job that is deleted.
func (s *spans) forget(job comms.JobID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.jobs, job)
	s.last = slices.DeleteFunc(s.last, func(o comms.JobID) bool { return o == job })
}

// some yields the batches with the given keys. Of a job that is being deleted some
// may be gone, and in an older snapshot the newest are not there.
func some(t *badger.Txn, keys [][]byte, yield func(k, v []byte) (bool, error)) error {
	for _, k := range keys {
		v, err := getIn(t, k)
		if errors.Is(err, ErrNotFound) {
			continue
		}
		if err != nil {
			return fmt.Errorf("key %x: %w", k, err)
		}
		if more, err := yield(k, v); err != nil || !more {
			return err
		}
	}
	return nil
}
