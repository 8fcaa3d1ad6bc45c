package perf

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/controller/gcs"
	"github.com/cascade-run/cascade/controller/records"
	"github.com/cascade-run/cascade/dag"
)

// store opens a control store of its own, with one job in it.
func (b *bench) store(sync bool) (s *gcs.Store, job comms.JobID, end func() error, err error) {
	dir, err := os.MkdirTemp(b.opts.State, "gcs-")
	if err != nil {
		return nil, job, nil, fmt.Errorf("make a folder for a store: %w", err)
	}
	if s, err = gcs.Open(gcs.Options{Dir: dir, Sync: sync}); err != nil {
		return nil, job, nil, errors.Join(err, os.RemoveAll(dir))
	}
	end = func() error { return errors.Join(s.Close(), os.RemoveAll(dir)) }
	if job, err = comms.NewJobID(); err == nil {
		made := make(chan error, 1)
		s.Create(&records.Job{ID: job, Name: "gcs-commit"}, &comms.Submit{Job: job}, single("gcs-commit").Encode(), func(err error) { made <- err })
		err = <-made
	}
	if err != nil {
		return nil, job, nil, errors.Join(err, end())
	}
	return s, job, end, nil
}

// record is the commit of one finish of a task.
func record(job comms.JobID, n int) records.Commit {
	e := comms.Event{Kind: comms.EventFinished, Task: dag.TaskIndex(n), Attempt: 1, Executor: 1, Usage: &comms.Usage{Start: int64(n), Duration: 1000}}
	return records.Commit{Job: job, Agent: "perf", Seen: records.Seen{UpTo: uint64(n)},
		Batch: &records.Batch{Number: uint64(n), Agent: "perf", First: uint64(n), Events: []comms.Event{e}}}
}

// gcsCommit is how many commits of one record each the store takes a second when
// a thousand are under way: it makes groups of them.
func gcsCommit(_ context.Context, b *bench) (err error) {
	s, job, end, err := b.store(false)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, end()) }()
	n := b.size(500_000, 5000)
	slots := make(chan struct{}, 1000)
	var mu sync.Mutex
	var failed error
	began := time.Now()
	for i := range n {
		slots <- struct{}{}
		s.Commit(record(job, i), func(err error) {
			if err != nil {
				mu.Lock()
				failed = err
				mu.Unlock()
			}
			<-slots
		})
	}
	last := make(chan error, 1)
	s.Barrier(job, func(err error) { last <- err })
	if err := errors.Join(<-last, failed); err != nil {
		return err
	}
	took := time.Since(began)
	writes, err := appendRate(b.opts.State)
	if err != nil {
		return err
	}
	return b.tell(Figure{Name: "gcs_commit", Value: float64(n) / took.Seconds(), Unit: "records/s", Baseline: writes, BaselineOf: appendName,
		Note: fmt.Sprintf("%d commits of one finish of a task each, 1000 under way, one job and so one shard", n)})
}

// gcsCommitFsync is one commit at a time that survives a power loss.
func gcsCommitFsync(_ context.Context, b *bench) (err error) {
	s, job, end, err := b.store(true)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, end()) }()
	n := b.size(1000, 50)
	took := make([]float64, n)
	done := make(chan error, 1)
	for i := range took {
		began := time.Now()
		s.Commit(record(job, i), func(err error) { done <- err })
		if err := <-done; err != nil {
			return err
		}
		took[i] = microseconds(time.Since(began))
	}
	base, err := fsyncTimes(b.opts.State, n)
	if err != nil {
		return err
	}
	return b.tell(Figure{Name: "gcs_commit_fsync_p99", Value: quantile(took, 0.99), Unit: "us", Baseline: quantile(base, 0.99),
		BaselineOf: "append of 512 bytes and fsync, p99", Note: fmt.Sprintf("%d commits one after another, p50 %.0f us", n, quantile(took, 0.5))})
}

const appendName = "write of 100 bytes to a file, one system call each"

// appendRate is how many small appends a second the kernel takes.
func appendRate(dir string) (float64, error) {
	f, err := os.CreateTemp(dir, "baseline-")
	if err != nil {
		return 0, fmt.Errorf("baseline: %w", err)
	}
	defer os.Remove(f.Name())
	defer f.Close()
	b := make([]byte, 100)
	const n = 100_000
	began := time.Now()
	for range n {
		if _, err := f.Write(b); err != nil {
			return 0, fmt.Errorf("baseline: %w", err)
		}
	}
	return n / time.Since(began).Seconds(), nil
}
