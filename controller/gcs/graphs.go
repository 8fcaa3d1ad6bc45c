package gcs

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"

	badger "github.com/dgraph-io/badger/v4"

	"github.com/cascade-run/cascade/comms"
)

// A graph is stored once in a shard, however many of its jobs have it. Which
// graphs are there, and how many rows name each, is known to the shard's
// goroutine and found out anew when the shard is opened.

// graphOp is what a write does to a graph.
type graphOp uint8

const (
	graphNone  graphOp = iota
	graphChunk         // has one chunk: left out when the graph is there
	graphUse           // has a row that names it
	graphDrop          // deletes such a row; the last takes the graph with it
)

// storedGraph is a graph of a shard.
type storedGraph struct {
	refs   int    // rows that name it
	chunks uint32 // that are there
	whole  bool
}

// applyGraph does what a write asks of its graph, within its transaction, and
// returns the entries to apply.
func (s *shard) applyGraph(txn *badger.Txn, w *write) ([]entry, error) {
	g := s.graphs[w.name]
	if g == nil {
		g = &storedGraph{}
		s.graphs[w.name] = g
	}
	switch w.graph {
	case graphNone:
	case graphChunk:
		if g.whole || w.chunk > g.chunks { // one before it was refused
			return nil, nil
		}
		g.chunks = max(g.chunks, w.chunk+1)
	case graphUse:
		if w.only {
			w.chunk = 1
			if g.whole {
				g.refs++
				return w.entries[:len(w.entries)-1], nil
			}
			g.chunks = 1
		}
		// Chunks that were refused for want of space are not there.
		if !g.whole && g.chunks < w.chunk {
			return nil, fmt.Errorf("%w: the job's graph could not be stored", ErrNoSpace)
		}
		g.whole = true
		g.refs++
	case graphDrop:
		return s.dropGraph(txn, w, g)
	}
	return w.entries, nil
}

func (s *shard) dropGraph(txn *badger.Txn, w *write, g *storedGraph) ([]entry, error) {
	if _, err := txn.Get(jobKey(tableJobs, w.job)); errors.Is(err, badger.ErrKeyNotFound) {
		return w.entries, nil // deleted twice
	} else if err != nil {
		return nil, err
	}
	if g.refs--; g.refs > 0 {
		return w.entries, nil
	}
	delete(s.graphs, w.name)
	entries := w.entries
	for i := range g.chunks {
		entries = append(entries, entry{key: chunkKey(w.name, i)})
	}
	return entries, nil
}

// findGraphs counts the rows that name each graph, and removes graphs that none
// does: their submit was cut short. It runs before the shard's goroutine does.
func (s *shard) findGraphs() error {
	s.graphs = map[comms.Hash]*storedGraph{}
	var orphans [][]byte
	err := s.db.View(func(t *badger.Txn) error {
		err := each(t, []byte{byte(tableJobs)}, nil, true, func(k, v []byte) error {
			row, err := decodeJob(v)
			if err != nil {
				return fmt.Errorf("job row %x: %w", k, err)
			}
			name := graphName(&row)
			if s.graphs[name] == nil {
				s.graphs[name] = &storedGraph{whole: true}
			}
			s.graphs[name].refs++
			return nil
		})
		if err != nil {
			return err
		}
		return each(t, []byte{byte(tableGraphs)}, nil, false, func(k, _ []byte) error {
			if len(k) < 6 {
				return fmt.Errorf("key %x: %w", k, ErrCorrupt)
			}
			if g := s.graphs[comms.Hash(k[2:len(k)-4])]; g != nil {
				g.chunks++
			} else {
				orphans = append(orphans, bytes.Clone(k))
			}
			return nil
		})
	})
	for _, w := range deletions(comms.JobID{}, orphans) {
		if err != nil {
			break
		}
		err = s.db.Update(func(t *badger.Txn) error {
			for i := range w.entries {
				if err := apply(t, &w.entries[i]); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err != nil {
		return fmt.Errorf("sweep shard %d: %w", s.number, err)
	}
	return nil
}

// graphsByName is the migration to schema version 2: it moves each job's graph
// from under the job's name to under its hash. Doing it again changes nothing.
func graphsByName(db *badger.DB) error {
	var old [][]byte
	err := db.View(func(t *badger.Txn) error {
		return each(t, []byte{byte(tableOldGraphs)}, nil, false, func(k, _ []byte) error {
			old = append(old, bytes.Clone(k))
			return nil
		})
	})
	for _, k := range old {
		if err != nil {
			break
		}
		err = db.Update(func(t *badger.Txn) error { return moveChunk(t, k) })
	}
	if err != nil {
		return fmt.Errorf("move graphs: %w", err)
	}
	return nil
}

func moveChunk(t *badger.Txn, k []byte) error {
	job, err := keyJob(k)
	if err != nil || len(k) != jobKeySize+4 {
		return fmt.Errorf("key %x: %w", k, ErrCorrupt)
	}
	b, err := getIn(t, jobKey(tableJobs, job))
	if errors.Is(err, ErrNotFound) {
		return t.Delete(k) // its submit was cut short
	} else if err != nil {
		return err
	}
	row, err := decodeJob(b)
	if err != nil {
		return fmt.Errorf("row of job %s: %w", job, err)
	}
	v, err := getIn(t, k)
	if err != nil {
		return err
	}
	if err := t.Set(chunkKey(graphName(&row), binary.BigEndian.Uint32(k[jobKeySize:])), v); err != nil {
		return err
	}
	return t.Delete(k)
}
