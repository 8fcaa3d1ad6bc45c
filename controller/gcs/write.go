package gcs

import (
	"bytes"
	"errors"
	"fmt"
	"sync/atomic"

	badger "github.com/dgraph-io/badger/v4"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/controller/records"
)

// chunkSize is the most bytes of one record of a graph or of events. Badger takes
// 15 % of a memtable in one transaction: 1.2 MiB of the default 8, in which a chunk
// itself, which goes to the value log, hardly counts.
const chunkSize = 1 << 20

// Create stores a new job: its graph in chunks, unless another job of the shard
// has the same, the request, and last the row, which alone makes the job exist.
// On a nearly full disk it fails with ErrNoSpace. done is called once, from
// another goroutine. Create returns how many bytes the job takes without its graph.
func (s *Store) Create(row *records.Job, request *comms.Submit, graph []byte, done func(error)) (stored uint64) {
	req := *request
	req.Graph = nil
	name := graphName(row)
	last := write{job: row.ID, refuse: true, graph: graphUse, name: name, entries: []entry{
		{jobKey(tableRequests, row.ID), comms.Encode(&req)},
		{jobKey(tableJobs, row.ID), comms.AppendRecord(make([]byte, 0, 256), (*jobRow)(row).code)}}}
	for _, h := range row.Packages {
		last.entries = append(last.entries, entry{packageKey(h, row.ID), []byte{}})
	}
	stored = last.bytes()
	// A shard that waits for room takes nothing from its queue: it could not refuse.
	if err := s.space.refusal(); err != nil {
		go func() {
			done(fmt.Errorf("create job %s: %w", row.ID, err))
			s.of(row.ID).onGroup()
		}()
		return stored
	}
	if len(graph) <= chunkSize {
		// Most graphs are one chunk: it goes with the row, and is left out when the graph is there.
		last.only = len(graph) > 0
		last.entries = append(last.entries, entry{chunkKey(name, 0), graph})
		last.done = func(err error) {
			if err != nil {
				err = fmt.Errorf("create job %s: %w", row.ID, err)
			}
			done(err)
		}
		s.of(row.ID).submit(last)
		return stored
	}
	var writes []write
	for len(graph) > 0 {
		part := graph[:min(len(graph), chunkSize)]
		graph = graph[len(part):]
		writes = append(writes, write{job: row.ID, refuse: true, graph: graphChunk, name: name, chunk: last.chunk,
			entries: []entry{{chunkKey(name, last.chunk), part}}})
		last.chunk++
	}
	s.of(row.ID).submitAll(append(writes, last), func(err error) {
		if err != nil {
			err = fmt.Errorf("create job %s: %w", row.ID, err)
		}
		done(err)
	})
	return stored
}

// Commit stores a change of a job in one atomic write; see [records.Commit]. A batch
// of more than a chunk is stored as several, each with its own part of the
// numbers: an agent that must repeat itself repeats only what is missing. Then
// the rows are written with the last one. done is called once, after the sync if
// there is one, in the order of the calls for one job; a full disk delays it.
//
// Commit returns how many bytes it adds to the job.
func (s *Store) Commit(c records.Commit, done func(error)) (stored uint64) {
	writes, err := commitWrites(&c)
	if err != nil {
		done(fmt.Errorf("commit to job %s: %w", c.Job, err))
		return 0
	}
	for i := range writes {
		stored += writes[i].added
	}
	s.of(c.Job).submitAll(writes, func(err error) {
		if err != nil {
			err = fmt.Errorf("commit to job %s: %w", c.Job, err)
		}
		done(err)
	})
	return stored
}

func commitWrites(c *records.Commit) (_ []write, err error) {
	writes := batchWrites(c)
	if len(writes) == 0 {
		writes = []write{{job: c.Job}}
	}
	// Many rows go into writes of their own, before the one that has the job's row
	// and the agent's number: until that is durable the agent repeats the batch.
	last, size := &writes[len(writes)-1], 0
	for i := range last.entries {
		size += len(last.entries[i].value)
	}
	add := func(key, b []byte, e error) {
		err = errors.Join(err, e)
		if size += len(key) + len(b); size > chunkSize || len(last.entries) >= maxEntries {
			writes, size = append(writes, write{job: c.Job}), len(b)
			last = &writes[len(writes)-1]
		}
		last.entries = append(last.entries, entry{key, b})
	}
	for i := range c.Tasks {
		b, e := encodeRecord(&c.Tasks[i])
		add(taskKey(c.Job, c.Tasks[i].Task), b, e)
		last.added += uint64(len(b))
	}
	for i := range c.Datasets {
		b := comms.AppendRecord(nil, (*datasetRow)(&c.Datasets[i]).code)
		add(datasetKey(c.Job, c.Datasets[i].Desc.Ref), b, nil)
		last.added += uint64(len(b))
	}
	for _, r := range c.Drop {
		add(datasetKey(c.Job, r), nil, nil)
	}
	if c.Row != nil {
		add(jobKey(tableJobs, c.Job), comms.AppendRecord(make([]byte, 0, 256), (*jobRow)(c.Row).code), nil)
	}
	if c.Agent != "" {
		add(nameKey(tableSeen, c.Agent), comms.AppendRecord(nil, (*seenRow)(&c.Seen).code), nil)
	}
	return writes, err
}

// batchWrites splits a batch into records of at most a chunk, halving what is too
// large. Part i of a batch shares its number's key with a suffix, in order.
func batchWrites(c *records.Commit) []write {
	if c.Batch == nil {
		return nil
	}
	var writes []write
	todo := []records.Batch{*c.Batch}
	for part := uint16(0); len(todo) > 0; {
		b := todo[len(todo)-1]
		v := encodeBatch(c.Job, &b)
		if len(v) > chunkSize && len(b.Events) > 1 {
			first, second := b, b
			half := len(b.Events) / 2
			first.Events, second.Events = b.Events[:half], b.Events[half:]
			second.First, second.Reset, second.Moved, second.Given, second.Reasons, second.Cancelled, second.Differs, second.Unbegun = b.First+uint64(half), nil, nil, nil, nil, nil, nil, nil
			todo[len(todo)-1] = second
			todo = append(todo, first)
			continue
		}
		todo = todo[:len(todo)-1]
		key := batchKey(c.Job, b.Number)
		if part > 0 {
			key = append(key, byte(part>>8), byte(part))
		}
		w := write{job: c.Job, entries: []entry{{key, v}}, added: uint64(len(v))}
		if c.Agent != "" && len(todo) > 0 {
			seen := seenRow{Incarnation: c.Seen.Incarnation, UpTo: b.First + uint64(len(b.Events)) - 1}
			w.entries = append(w.entries, entry{nameKey(tableSeen, c.Agent), comms.AppendRecord(nil, seen.code)})
		}
		writes = append(writes, w)
		part++
	}
	return writes
}

// submitAll submits writes in order and calls done once with the first error.
func (s *shard) submitAll(ws []write, done func(error)) {
	if len(ws) == 1 {
		ws[0].done = done
		s.submit(ws[0])
		return
	}
	var failed atomic.Pointer[error]
	var left atomic.Int32
	left.Store(int32(len(ws)))
	for i := range ws {
		ws[i].done = func(err error) {
			if err != nil {
				failed.CompareAndSwap(nil, &err)
			}
			if left.Add(-1) > 0 {
				return
			}
			if e := failed.Load(); e != nil {
				done(*e)
				return
			}
			done(nil)
		}
		s.submit(ws[i])
	}
}

// Barrier calls f, from another goroutine, when everything submitted for the job
// before it is durable.
func (s *Store) Barrier(job comms.JobID, f func(error)) { s.of(job).submit(write{job: job, done: f}) }

// PutAgent stores the row of an agent.
func (s *Store) PutAgent(a *records.Agent, done func(error)) {
	s.putMeta(nameKey(tableAgents, a.Name), a, done)
}

// PutLoss stores the loss of an agent that had tasks of a job.
func (s *Store) PutLoss(job comms.JobID, l records.Loss, done func(error)) {
	b, err := encodeRecord(&l)
	if err != nil {
		done(err)
		return
	}
	s.of(job).submit(write{job: job, entries: []entry{{lossKey(job, &l), b}}, done: done})
}

// PutProfiles stores profiles by signature; what a profile is, the caller knows.
func (s *Store) PutProfiles(p map[string][]byte, done func(error)) {
	s.putNamed(tableProfiles, p, done)
}

// PutLinks stores what is known of the ways between hosts, by pair; nil removes one.
func (s *Store) PutLinks(p map[string][]byte, done func(error)) { s.putNamed(tableLinks, p, done) }

func (s *Store) putNamed(t table, p map[string][]byte, done func(error)) {
	var ws []write
	w := write{}
	n := 0
	for name, b := range p {
		w.entries = append(w.entries, entry{nameKey(t, name), b})
		if n += len(name) + len(b); n > chunkSize || len(w.entries) >= 1000 {
			ws, w, n = append(ws, w), write{}, 0
		}
	}
	s.shards[0].submitAll(append(ws, w), done)
}

func (s *Store) putMeta(key []byte, v any, done func(error)) {
	b, err := encodeRecord(v)
	if err != nil {
		done(err)
		return
	}
	s.shards[0].submit(write{entries: []entry{{key, b}}, done: done})
}

// Delete removes a job and everything of it that was submitted before. It does
// not wait; done is called once.
func (s *Store) Delete(job comms.JobID, done func(error)) {
	sh := s.of(job)
	failed := func(err error) { done(fmt.Errorf("delete job %s: %w", job, err)) }
	s.Barrier(job, func(err error) {
		if err != nil {
			failed(err)
			return
		}
		// Beside the shard's goroutine: commits do not wait until all keys are read.
		sh.reads.Go(func() {
			keys, name, err := sh.keysOf(job)
			if err != nil {
				failed(err)
				return
			}
			writes := deletions(job, keys)
			if name != "" {
				last := &writes[len(writes)-1]
				last.graph, last.name = graphDrop, name
			}
			sh.submitAll(writes, func(err error) {
				s.spans.forget(job)
				done(err)
			})
		})
	})
}

// maxEntries is the most keys of one write: Badger bounds the keys of a transaction
// by its memory tables, and takes some 13,000 with the least memory that a shard has.
const maxEntries = 5000

func deletions(job comms.JobID, keys [][]byte) []write {
	var ws []write
	for len(keys) > 0 {
		w := write{job: job}
		for _, k := range keys[:min(len(keys), maxEntries)] {
			w.entries = append(w.entries, entry{key: k})
		}
		keys = keys[len(w.entries):]
		ws = append(ws, w)
	}
	if len(ws) == 0 {
		ws = []write{{job: job}}
	}
	return ws
}

// keysOf lists a job's keys, those of its row last, and the name of its graph,
// which is empty when there is no row.
func (s *shard) keysOf(job comms.JobID) (keys [][]byte, graph comms.Hash, err error) {
	err = s.db.View(func(t *badger.Txn) error {
		b, err := getIn(t, jobKey(tableJobs, job))
		if err == nil {
			var row records.Job
			if row, err = decodeJob(b); err != nil {
				return fmt.Errorf("row of job %s: %w", job, err)
			}
			graph = graphName(&row)
			for _, h := range row.Packages {
				keys = append(keys, packageKey(h, job))
			}
		} else if !errors.Is(err, ErrNotFound) {
			return err
		}
		for _, tab := range jobTables {
			if err := each(t, jobKey(tab, job), nil, false, func(k, _ []byte) error {
				keys = append(keys, bytes.Clone(k))
				return nil
			}); err != nil {
				return err
			}
		}
		return nil
	})
	return keys, graph, err
}
