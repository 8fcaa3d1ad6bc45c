package gcs

import (
	"errors"
	"math"
	"slices"
	"sync"
	"testing"

	badger "github.com/dgraph-io/badger/v4"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/controller/records"
)

// batches makes a job with batches of the given numbers, each of task 0.
func batches(t *testing.T, s *Store, job comms.JobID, numbers ...uint64) {
	t.Helper()
	create(t, s, job, []byte("g"))
	for _, n := range numbers {
		must(t, wait(func(d func(error)) {
			s.Commit(records.Commit{Job: job, Batch: &records.Batch{Number: n, Events: finished(0)}}, d)
		}))
	}
}

func numbersOf(t *testing.T, s *Store, job comms.JobID) (out []uint64) {
	t.Helper()
	for b, err := range s.BatchesOf(job, Part{Last: 0}) {
		must(t, err)
		out = append(out, b.Number)
	}
	return out
}

// Who reads an older snapshot while a job is deleted and made again leaves nothing
// of what it saw to those who read the new job.
func TestSpansAreOfOneLife(t *testing.T) {
	s := open(t, small(t.TempDir()))
	job := jobID(1)
	batches(t, s, job, 1, 2, 3)
	found := s.spans.of(job)
	old := s.of(job).db.NewTransaction(false)
	defer old.Discard()
	must(t, wait(func(d func(error)) { s.Delete(job, d) }))
	if got := numbersOf(t, s, job); got != nil {
		t.Errorf("batches %v of a deleted job", got)
	}
	batches(t, s, job, 7)
	if keys, err := s.spans.keysOf(old, job, found, &Part{Last: math.MaxUint32}); err != nil || len(keys) != 3 {
		t.Errorf("the old snapshot has %d batches, %v", len(keys), err)
	}
	if got := numbersOf(t, s, job); !slices.Equal(got, []uint64{7}) {
		t.Errorf("batches %v of the new job, want 7", got)
	}
}

// Those who ask about one job at once, and an older snapshot, see what is theirs.
func TestSpansOfManyReaders(t *testing.T) {
	s := open(t, small(t.TempDir()))
	job := jobID(1)
	batches(t, s, job, 1, 2)
	must(t, s.of(job).db.View(func(old *badger.Txn) error {
		for n := uint64(3); n < 20; n++ {
			must(t, wait(func(d func(error)) {
				s.Commit(records.Commit{Job: job, Batch: &records.Batch{Number: n, Events: finished(0)}}, d)
			}))
			var readers sync.WaitGroup
			for range 4 {
				readers.Go(func() {
					seen := 0
					for _, err := range s.BatchesOf(job, Part{Last: 0}) {
						if err != nil {
							t.Error(err)
						}
						seen++
					}
					if seen != int(n) {
						t.Errorf("%d batches, want %d", seen, n)
					}
				})
			}
			readers.Wait()
		}
		seen := 0
		keys, err := s.spans.keysOf(old, job, s.spans.of(job), &Part{Last: 0})
		must(t, err)
		must(t, some(old, keys, func(_, _ []byte) (bool, error) { seen++; return true, nil }))
		if seen != 2 {
			t.Errorf("%d batches in the old snapshot, want 2", seen)
		}
		return nil
	}))
}

// The store may be closed while jobs are being deleted: each is then deleted, or told that it is not.
func TestCloseWhileDeleting(t *testing.T) {
	o := small(t.TempDir())
	s, err := Open(o)
	must(t, err)
	const jobs = 40
	for n := range uint64(jobs) {
		batches(t, s, jobID(n), 1, 2, 3)
	}
	ends := make(chan error, jobs)
	for n := range uint64(jobs) {
		s.Delete(jobID(n), func(err error) { ends <- err })
	}
	must(t, s.Close())
	deleted := 0
	for range jobs {
		if err := <-ends; err == nil {
			deleted++
		} else if !errors.Is(err, ErrClosed) {
			t.Error(err)
		}
	}
	s = open(t, o)
	left := 0
	for _, err := range s.Jobs() {
		must(t, err)
		left++
	}
	if deleted+left != jobs {
		t.Errorf("%d jobs were deleted and %d are left, of %d", deleted, left, jobs)
	}
}

// OnPause is called without the lock, and never twice with the same.
func TestPausesAlternate(t *testing.T) {
	var s space
	last := false
	s.dir, s.free = t.TempDir(), func(string) (uint64, error) { return 0, nil }
	s.onPause = func(paused bool, _ uint64) {
		if paused == last {
			t.Errorf("told %v twice", paused)
		}
		last = paused
		free := make(chan struct{})
		go func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			close(free)
		}()
		<-free
	}
	var shards sync.WaitGroup
	for range 4 {
		shards.Go(func() {
			for range 200 {
				s.enter(0)
				s.leave()
			}
		})
	}
	shards.Wait()
	if last {
		t.Error("told of a pause that is over")
	}
}
