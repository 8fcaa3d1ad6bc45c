package gcs

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	badger "github.com/dgraph-io/badger/v4"
	"github.com/zeebo/blake3"
	"pgregory.net/rapid"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/controller/records"
	"github.com/cascade-run/cascade/dag"
)

func hashOf(graph string) comms.Hash {
	sum := blake3.Sum256([]byte(graph))
	return comms.Hash(append([]byte{comms.HashBLAKE3}, sum[:]...))
}

// chunks counts the stored pieces of all graphs.
func chunks(t interface{ Fatal(...any) }, s *Store) (n int) {
	for _, sh := range s.shards {
		err := sh.db.View(func(txn *badger.Txn) error {
			return each(txn, []byte{byte(tableGraphs)}, nil, false, func(_, _ []byte) error { n++; return nil })
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return n
}

// Jobs come and go, and the store is opened again: a graph is there, once, as long as a job has it.
func TestGraphLivesAsLongAsItsJobs(t *testing.T) {
	small1, large := "s", strings.Repeat("l", 2*chunkSize+1)
	graphs := map[comms.Hash]string{hashOf(small1): small1, hashOf(large): large}
	sizes := map[comms.Hash]int{hashOf(small1): 1, hashOf(large): 3}
	rapid.Check(t, func(r *rapid.T) {
		o := small(t.TempDir())
		o.Shards = 1
		s, err := Open(o)
		must(t, err)
		jobs := map[uint64]comms.Hash{}
		for range rapid.IntRange(1, 12).Draw(r, "steps") {
			n := rapid.Uint64Range(0, 3).Draw(r, "job")
			switch have, ok := jobs[n]; {
			case rapid.IntRange(0, 5).Draw(r, "reopen") == 0:
				must(t, s.Close())
				s, err = Open(o)
				must(t, err)
			case ok:
				must(t, wait(func(d func(error)) { s.Delete(jobID(n), d) }))
				delete(jobs, n)
			default:
				have = rapid.SampledFrom([]comms.Hash{hashOf(small1), hashOf(large)}).Draw(r, "graph")
				jobs[n] = have
				must(t, wait(func(d func(error)) {
					s.Create(&records.Job{ID: jobID(n), GraphHash: have}, &comms.Submit{}, []byte(graphs[have]), d)
				}))
			}
			want, seen := 0, map[comms.Hash]bool{}
			for n, h := range jobs {
				if g, err := s.Graph(jobID(n)); err != nil || string(g) != graphs[h] {
					r.Fatalf("job %d with graph %s: %d bytes, %v", n, h, len(g), err)
				}
				if !seen[h] {
					seen[h] = true
					want += sizes[h]
				}
			}
			for h := range graphs {
				if g, err := s.GraphByHash(h); seen[h] != (err == nil) || err == nil && string(g) != graphs[h] {
					r.Fatalf("graph %s, used %t: %d bytes, %v", h, seen[h], len(g), err)
				}
			}
			if got := chunks(r, s); got != want {
				r.Fatalf("%d chunks are stored, want %d", got, want)
			}
		}
		must(t, s.Close())
	})
}

// A job whose graph could not be stored whole is not made, and can be made later.
func TestGraphRefusedInPart(t *testing.T) {
	o := small(t.TempDir())
	o.Shards = 1
	free, calls := uint64(1<<40), 0
	o.freeBytes = func(string) (uint64, error) {
		if calls++; calls == 4 { // the second of three chunks: the submit itself asks, too
			return 0, nil
		}
		return free, nil
	}
	s := open(t, o)
	calls = 1
	graph := []byte(strings.Repeat("g", 2*chunkSize+1))
	hash := hashOf(string(graph))
	row := &records.Job{ID: jobID(1), GraphHash: hash}
	create := func() error {
		return wait(func(d func(error)) { s.Create(row, &comms.Submit{}, graph, d) })
	}
	if err := create(); !errors.Is(err, ErrNoSpace) {
		t.Fatalf("got %v, want ErrNoSpace", err)
	}
	if _, err := s.Job(jobID(1)); !errors.Is(err, ErrNotFound) {
		t.Errorf("the job is there: %v", err)
	}
	if n := chunks(t, s); n == 0 {
		t.Fatal("no part of the graph is there")
	}
	if g, err := s.GraphByHash(hash); !errors.Is(err, ErrNotFound) {
		t.Errorf("a part of the graph is taken for it: %d bytes, %v", len(g), err)
	}
	must(t, create())
	if g, err := s.Graph(jobID(1)); err != nil || string(g) != string(graph) {
		t.Errorf("%d bytes, %v", len(g), err)
	}
	if g, err := s.GraphByHash(hash); err != nil || string(g) != string(graph) {
		t.Errorf("by its hash: %d bytes, %v", len(g), err)
	}
}

// A store of schema 1 kept a graph with each job, and its rows as maps.
func TestStoreOfSchemaOne(t *testing.T) {
	o := small(t.TempDir())
	o.Shards = 1
	s, err := Open(o)
	must(t, err)
	put := func(k, v []byte) {
		must(t, s.shards[0].db.Update(func(txn *badger.Txn) error { return txn.Set(k, v) }))
	}
	for n := range uint64(2) {
		row, err := encodeRecord(&records.Job{ID: jobID(n), Name: "old", Phase: comms.JobDone, GraphHash: "h"})
		must(t, err)
		put(jobKey(tableJobs, jobID(n)), row)
		put(jobKey(tableRequests, jobID(n)), comms.Encode(&comms.Submit{Tenant: "me"}))
		put(append(jobKey(tableOldGraphs, jobID(n)), 0, 0, 0, 0), []byte("gra"))
		put(append(jobKey(tableOldGraphs, jobID(n)), 0, 0, 0, 1), []byte("ph"))
	}
	put(append(jobKey(tableOldGraphs, jobID(9)), 0, 0, 0, 0), []byte("of no job"))
	must(t, writeSchema(s.shards[0].db, nameKey(tableMeta, "schema"), 1))
	must(t, s.Close())
	s = open(t, o)
	for n := range uint64(2) {
		d, err := s.Load(jobID(n))
		if err != nil || d.Row.Name != "old" || string(d.Graph) != "graph" || d.Request.Tenant != "me" {
			t.Errorf("%+v, %v", d, err)
		}
	}
	if n := chunks(t, s); n != 2 {
		t.Errorf("%d chunks, want the graph once", n)
	}
	must(t, wait(func(d func(error)) { s.Delete(jobID(0), d) }))
	must(t, wait(func(d func(error)) { s.Delete(jobID(1), d) }))
	if n := chunks(t, s); n != 0 {
		t.Errorf("%d chunks are left", n)
	}
}

// Of a part come the batches that are of its tasks, and no others.
func TestBatchesOf(t *testing.T) {
	s := open(t, small(t.TempDir()))
	create(t, s, jobID(1), []byte("g"))
	batches := []records.Batch{
		{Events: finished(5, 9)},
		{Reset: []comms.Range{{First: 100, Last: 200}}, Events: finished(150)},
		{Events: []comms.Event{{Kind: comms.EventDrained}}},
		{Events: []comms.Event{{Kind: comms.EventSteps, Steps: comms.AppendEnds(nil, 3, func(i int) comms.End {
			return comms.End{Task: dag.TaskIndex(40 + 10*i), Attempt: 1}
		}, comms.AppendUsages(nil, make([]comms.Usage, 3)))}}},
	}
	for i := range batches {
		batches[i].Number = uint64(i)
		must(t, wait(func(d func(error)) { s.Commit(records.Commit{Job: jobID(1), Batch: &batches[i]}, d) }))
	}
	for _, c := range []struct {
		part Part
		want []uint64
	}{
		{Part{Last: math.MaxUint32}, []uint64{0, 1, 2, 3}},
		{Part{From: 2, Last: math.MaxUint32}, []uint64{2, 3}},
		{Part{First: 0, Last: 4}, nil},
		{Part{First: 7, Last: 7}, []uint64{0}},
		{Part{First: 9, Last: 40}, []uint64{0, 3}},
		{Part{First: 60, Last: 100}, []uint64{1, 3}},
		{Part{First: 201, Last: 300}, nil},
	} {
		var got []uint64
		for b, err := range s.BatchesOf(jobID(1), c.part) {
			must(t, err)
			got = append(got, b.Number)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%+v: batches %v, want %v", c.part, got, c.want)
		}
	}
}

// What is added after a job was asked about is found, and nothing of a job that was deleted.
func TestBatchesOfGrow(t *testing.T) {
	s := open(t, small(t.TempDir()))
	create(t, s, jobID(1), []byte("g"))
	ask := func() (got []uint64) {
		for b, err := range s.BatchesOf(jobID(1), Part{First: 7, Last: 7}) {
			must(t, err)
			got = append(got, b.Number)
		}
		return got
	}
	for n := range uint64(3) {
		must(t, wait(func(d func(error)) {
			s.Commit(records.Commit{Job: jobID(1), Batch: &records.Batch{Number: n, Events: finished(7)}}, d)
		}))
		if got := ask(); len(got) != int(n)+1 {
			t.Errorf("batches %v after %d", got, n)
		}
	}
	must(t, wait(func(d func(error)) { s.Delete(jobID(1), d) }))
	create(t, s, jobID(1), []byte("g"))
	must(t, wait(func(d func(error)) {
		s.Commit(records.Commit{Job: jobID(1), Batch: &records.Batch{Events: finished(7)}}, d)
	}))
	if got := ask(); !slices.Equal(got, []uint64{0}) {
		t.Errorf("batches %v of a job that was deleted and made anew", got)
	}
}
