package gcs

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"math"

	badger "github.com/dgraph-io/badger/v4"
	"github.com/zeebo/blake3"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/controller/records"
	"github.com/cascade-run/cascade/dag"
)

func get(db *badger.DB, key []byte) (b []byte, err error) {
	err = db.View(func(t *badger.Txn) error {
		b, err = getIn(t, key)
		return err
	})
	return b, err
}

func getIn(t *badger.Txn, key []byte) ([]byte, error) {
	it, err := t.Get(key)
	if errors.Is(err, badger.ErrKeyNotFound) {
		return nil, ErrNotFound
	}
	if err != nil {
		return nil, err
	}
	return it.ValueCopy(nil)
}

var errStop = errors.New("stop")

// each visits the keys that begin with prefix, from start on, in order. The key
// is valid during the call, the value is a copy.
func each(t *badger.Txn, prefix, start []byte, values bool, f func(k, v []byte) error) error {
	o := badger.DefaultIteratorOptions
	o.Prefix, o.PrefetchValues, o.PrefetchSize = prefix, values, 16
	it := t.NewIterator(o)
	defer it.Close()
	if start == nil {
		start = prefix
	}
	for it.Seek(start); it.Valid(); it.Next() {
		var v []byte
		if values {
			var err error
			if v, err = it.Item().ValueCopy(nil); err != nil {
				return fmt.Errorf("key %x: %w", it.Item().Key(), err)
			}
		}
		if err := f(it.Item().Key(), v); err != nil {
			if errors.Is(err, errStop) {
				return nil
			}
			return err
		}
	}
	return nil
}

// Job returns a job's row, or ErrNotFound.
func (s *Store) Job(job comms.JobID) (records.Job, error) {
	b, err := get(s.of(job).db, jobKey(tableJobs, job))
	if err != nil {
		return records.Job{}, fmt.Errorf("job %s: %w", job, err)
	}
	return decodeJob(b)
}

// Jobs returns the rows of all jobs, shard by shard.
func (s *Store) Jobs() iter.Seq2[records.Job, error] {
	return func(yield func(records.Job, error) bool) {
		for _, sh := range s.shards {
			stopped := false
			err := sh.db.View(func(t *badger.Txn) error {
				return each(t, []byte{byte(tableJobs)}, nil, true, func(k, v []byte) error {
					row, err := decodeJob(v)
					if err != nil {
						return fmt.Errorf("job row %x: %w", k, err)
					}
					if stopped = !yield(row, nil); stopped {
						return errStop
					}
					return nil
				})
			})
			if err != nil {
				yield(records.Job{}, err)
				return
			}
			if stopped {
				return
			}
		}
	}
}

// JobsBefore returns the rows of jobs, the greatest ID first, which is that of the
// job submitted last. They begin below an ID, or with the first when that is zero.
// Each row is read when it is asked for.
func (s *Store) JobsBefore(before comms.JobID) iter.Seq2[records.Job, error] {
	return func(yield func(records.Job, error) bool) {
		o := badger.DefaultIteratorOptions
		o.Prefix, o.Reverse, o.PrefetchSize = []byte{byte(tableJobs)}, true, 16
		from := append(jobKey(tableJobs, before), 0)
		if before.IsZero() {
			from = append(bytes.Repeat([]byte{0xff}, jobKeySize), 0) // behind all that there can be
			from[0] = byte(tableJobs)
		}
		shards := make([]*badger.Iterator, len(s.shards))
		for i, sh := range s.shards {
			t := sh.db.NewTransaction(false)
			defer t.Discard()
			shards[i] = t.NewIterator(o)
			defer shards[i].Close()
			if shards[i].Seek(from); shards[i].Valid() && bytes.Equal(shards[i].Item().Key(), jobKey(tableJobs, before)) {
				shards[i].Next()
			}
		}
		for {
			var next *badger.Iterator
			for _, it := range shards {
				if it.Valid() && (next == nil || bytes.Compare(it.Item().Key(), next.Item().Key()) > 0) {
					next = it
				}
			}
			if next == nil {
				return
			}
			var row records.Job
			err := next.Item().Value(func(v []byte) (err error) {
				row, err = decodeJob(bytes.Clone(v))
				return err
			})
			if err != nil {
				yield(records.Job{}, fmt.Errorf("job row %x: %w", next.Item().Key(), err))
				return
			}
			if !yield(row, nil) {
				return
			}
			next.Next()
		}
	}
}

// Load reads a job: its row, request and graph, and how far agents' events are durable.
func (s *Store) Load(job comms.JobID) (d JobData, err error) {
	err = s.of(job).db.View(func(t *badger.Txn) error {
		b, err := getIn(t, jobKey(tableJobs, job))
		if err != nil {
			return err
		}
		if d.Row, err = decodeJob(b); err != nil {
			return err
		}
		if b, err = getIn(t, jobKey(tableRequests, job)); err != nil {
			return fmt.Errorf("request: %w", err)
		}
		m, err := comms.Decode(b)
		if err != nil {
			return fmt.Errorf("request: %w: %w", ErrCorrupt, err)
		}
		req, ok := m.(*comms.Submit)
		if !ok {
			return fmt.Errorf("request: %w: is a %T", ErrCorrupt, m)
		}
		d.Request = req
		if d.Graph, err = graphIn(t, graphName(&d.Row)); err != nil {
			return err
		}
		d.Seen = map[string]records.Seen{}
		return each(t, []byte{byte(tableSeen)}, nil, true, func(k, v []byte) error {
			seen, err := decodeSeen(v)
			d.Seen[string(k[1:])] = seen
			return err
		})
	})
	if err != nil {
		return JobData{}, fmt.Errorf("load job %s: %w", job, err)
	}
	return d, nil
}

// Graph returns a job's encoded graph.
func (s *Store) Graph(job comms.JobID) (graph []byte, err error) {
	err = s.of(job).db.View(func(t *badger.Txn) error {
		b, err := getIn(t, jobKey(tableJobs, job))
		if err != nil {
			return err
		}
		row, err := decodeJob(b)
		if err != nil {
			return err
		}
		graph, err = graphIn(t, graphName(&row))
		return err
	})
	if err == nil && graph == nil {
		err = ErrNotFound
	}
	if err != nil {
		return nil, fmt.Errorf("graph of job %s: %w", job, err)
	}
	return graph, nil
}

// GraphByHash returns an encoded graph that some job has, or ErrNotFound. h is the
// BLAKE3 of its bytes.
func (s *Store) GraphByHash(h comms.Hash) (graph []byte, err error) {
	for _, sh := range s.shards {
		err = sh.db.View(func(t *badger.Txn) error {
			graph, err = graphIn(t, h)
			return err
		})
		if err != nil {
			return nil, fmt.Errorf("graph %s: %w", h, err)
		}
		// While a graph is being stored, and when that was cut short, its first chunks are there.
		if sum := blake3.Sum256(graph); graph != nil && string(h) == string(comms.HashBLAKE3)+string(sum[:]) {
			return graph, nil
		}
	}
	return nil, fmt.Errorf("graph %s: %w", h, ErrNotFound)
}

func graphIn(t *badger.Txn, name comms.Hash) ([]byte, error) {
	var graph []byte
	next := uint32(0)
	err := each(t, graphKey(name), nil, true, func(k, v []byte) error {
		if !bytes.Equal(k, chunkKey(name, next)) {
			return fmt.Errorf("graph: %w: chunk %d is missing", ErrCorrupt, next)
		}
		next++
		graph = append(graph, v...)
		return nil
	})
	return graph, err
}

// Batches returns a job's batches in order. A batch that was stored in parts
// comes in parts. Byte slices in it belong to the caller.
func (s *Store) Batches(job comms.JobID) iter.Seq2[records.Batch, error] {
	return s.BatchesOf(job, Part{Last: math.MaxUint32})
}

// Part is some of a job's batches.
type Part struct {
	From        uint64 // the first batch's number
	First, Last dag.TaskIndex
}

// BatchesOf is Batches without those before a number and those that are of no
// task in a range. The first call for a job reads the headers of all its batches,
// some hundred thousand a second; later ones find theirs in memory.
func (s *Store) BatchesOf(job comms.JobID, part Part) iter.Seq2[records.Batch, error] {
	return func(yield func(records.Batch, error) bool) {
		prefix := jobKey(tableBatches, job)
		tell := func(k, v []byte) (bool, error) {
			if len(k) < len(prefix)+8 {
				return false, fmt.Errorf("key %x: %w", k, ErrCorrupt)
			}
			b, err := decodeBatch(binary.BigEndian.Uint64(k[len(prefix):]), v)
			if err != nil {
				return false, err
			}
			return yield(b, nil), nil
		}
		var found *known // before the snapshot is taken
		if part.First > 0 || part.Last < math.MaxUint32 {
			found = s.spans.of(job)
		}
		err := s.of(job).db.View(func(t *badger.Txn) error {
			if found != nil {
				keys, err := s.spans.keysOf(t, job, found, &part)
				if err != nil {
					return err
				}
				return some(t, keys, tell)
			}
			return each(t, prefix, batchKey(job, part.From), true, func(k, v []byte) error {
				if more, err := tell(k, v); err != nil || more {
					return err
				}
				return errStop
			})
		})
		if err != nil {
			yield(records.Batch{}, fmt.Errorf("batches of job %s: %w", job, err))
		}
	}
}

// Datasets returns the rows of a job's retained datasets, in the order of their names.
func (s *Store) Datasets(job comms.JobID) ([]records.Dataset, error) {
	return rows(s.of(job), jobKey(tableDatasets, job), decodeDataset)
}

// Kept returns the rows of all jobs' retained datasets by job.
func (s *Store) Kept() (map[comms.JobID][]records.Dataset, error) {
	out := map[comms.JobID][]records.Dataset{}
	for _, sh := range s.shards {
		err := sh.db.View(func(t *badger.Txn) error {
			return each(t, []byte{byte(tableDatasets)}, nil, true, func(k, v []byte) error {
				job, err := keyJob(k)
				if err != nil {
					return err
				}
				d, err := decodeDataset(v)
				if err != nil {
					return fmt.Errorf("row %x: %w", k, err)
				}
				out[job] = append(out[job], d)
				return nil
			})
		})
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}

// Tasks returns the rows of a job's failed tasks, in order.
func (s *Store) Tasks(job comms.JobID) ([]records.Task, error) {
	return rows(s.of(job), jobKey(tableTasks, job), decodeRecord[records.Task])
}

// Losses returns the losses of agents that had tasks of a job, by time.
func (s *Store) Losses(job comms.JobID) ([]records.Loss, error) {
	return rows(s.of(job), jobKey(tableLosses, job), decodeRecord[records.Loss])
}

// Agents returns the rows of all agents, by name.
func (s *Store) Agents() ([]records.Agent, error) {
	return rows(s.shards[0], []byte{byte(tableAgents)}, decodeRecord[records.Agent])
}

// Profiles calls f for each stored profile.
func (s *Store) Profiles(f func(signature string, b []byte) error) error {
	return s.named(tableProfiles, f)
}

// Links calls f for each stored link between hosts.
func (s *Store) Links(f func(pair string, b []byte) error) error { return s.named(tableLinks, f) }

func (s *Store) named(table table, f func(name string, b []byte) error) error {
	return s.shards[0].db.View(func(t *badger.Txn) error {
		return each(t, []byte{byte(table)}, nil, true, func(k, v []byte) error { return f(string(k[1:]), v) })
	})
}

func rows[T any](sh *shard, prefix []byte, decode func([]byte) (T, error)) (out []T, err error) {
	err = sh.db.View(func(t *badger.Txn) error {
		return each(t, prefix, nil, true, func(k, v []byte) error {
			r, err := decode(v)
			if err != nil {
				return fmt.Errorf("row %x: %w", k, err)
			}
			out = append(out, r)
			return nil
		})
	})
	return out, err
}
