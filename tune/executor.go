package tune

import (
	"context"
	"runtime"
	"time"

	"github.com/cascade-run/cascade/tune/core"
)

// Executor has workers, in which trials run. Its methods may be called from several goroutines.
type Executor interface {
	// Worker returns a new worker.
	Worker(ctx context.Context) (Worker, error)
	// Slots returns how many trials may run at once.
	Slots() int
}

// Worker runs one attempt at a trial at a time. Its methods are called one after another. An error of a method means
// that the worker is lost; errors of the trainable are in the batch.
type Worker interface {
	// Start begins an attempt and returns its first batch.
	Start(ctx context.Context, r Request) (Batch, error)
	// Next gives credit, unless it is nil, and returns the next batch. The end of ctx interrupts it.
	Next(ctx context.Context, credit *core.Credit) (Batch, error)
	// Save writes a checkpoint of an attempt that waits or is done. Its error is one of the trainable.
	Save(ctx context.Context, name string) error
	// Stop ends the attempt, so that another can start.
	Stop(ctx context.Context) error
	// Close ends the worker.
	Close()
}

// Local returns an executor whose trials are goroutines of this process, so many at once; 0 means one for each core.
func Local(slots int) Executor {
	if slots <= 0 {
		slots = runtime.GOMAXPROCS(0)
	}
	return local(slots)
}

type local int

func (l local) Slots() int { return int(l) }

func (local) Worker(context.Context) (Worker, error) { return &localWorker{grace: stopGrace}, nil }

type localWorker struct {
	trainer
	grace time.Duration
}

func (w *localWorker) Start(ctx context.Context, r Request) (Batch, error) { return w.start(ctx, r) }

func (w *localWorker) Next(ctx context.Context, credit *core.Credit) (Batch, error) {
	return w.next(ctx, credit, false)
}

func (w *localWorker) Save(ctx context.Context, name string) error { return w.save(ctx, name) }

func (w *localWorker) Stop(ctx context.Context) error { return w.stop(ctx, w.grace) }

func (w *localWorker) Close() {
	_ = w.stop(context.Background(), 0) // it is not used any more
	w.close()
}
