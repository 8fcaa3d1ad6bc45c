package tune

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cascade-run/cascade/tune/core"
)

// Request is what a worker is told of an attempt at a trial.
type Request struct {
	Trainable Trainable        `json:"trainable"`
	Folder    string           `json:"folder"` // of the experiment, the same on all hosts
	Trial     core.ID          `json:"trial"`
	Attempt   int              `json:"attempt"`
	Config    core.Values      `json:"config"`
	From      *core.Checkpoint `json:"from,omitempty"`
	Credit    core.Credit      `json:"credit"`
	Reuse     bool             `json:"reuse,omitempty"` // an object that can be reset goes on with the next trial
}

func (r *Request) path(name string) string { return filepath.Join(r.Folder, filepath.FromSlash(name)) }

// Batch is what an attempt has done since the one before.
type Batch struct {
	Seq     int           `json:"seq"` // of the first result
	Results []core.Result `json:"results,omitempty"`
	CanSave bool          `json:"can_save,omitempty"`
	Waiting bool          `json:"waiting,omitempty"` // for credit
	Done    bool          `json:"done,omitempty"`
	Cause   string        `json:"cause,omitempty"` // the attempt has failed: core.CauseError or core.CauseRestore
	Error   string        `json:"error,omitempty"`
}

const (
	batchTime  = 50 * time.Millisecond // a batch is sent that long after its first result
	batchLimit = 1000                  // results that a trainable may be ahead of the runner
	stopGrace  = 10 * time.Second      // in which a stopped trainable has to return
)

// trainer runs attempts, one at a time, in the process in which it is.
type trainer struct {
	current *attempt
	object  Class // of the trial before, to be reset
	made    string
	serving atomic.Pointer[process] // that serves functions, or nil
}

// attempt is a trainable that runs on its goroutine.
type attempt struct {
	request Request
	worker  *trainer
	cancel  context.CancelFunc
	done    chan struct{} // the goroutine has returned

	mu        sync.Mutex
	changed   chan struct{} // is closed and replaced at each change
	pending   []core.Result
	first     time.Time // of pending
	seq       int
	used      int // reports of this credit
	credit    core.Credit
	waiting   bool
	stopped   bool
	finished  bool // a function has reported that it is done
	ended     bool
	err       error
	cause     string
	iteration int64
	trained   time.Duration
	since     time.Time // from when the training counts
	object    Class
}

func (a *attempt) notify() {
	close(a.changed)
	a.changed = make(chan struct{})
}

func (a *attempt) iterations() int64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.iteration
}

// start begins an attempt and returns its first batch.
func (w *trainer) start(ctx context.Context, r Request) (Batch, error) {
	if w.current != nil {
		return Batch{}, fmt.Errorf("the worker still has trial %d", w.current.request.Trial)
	}
	t, err := r.Trainable.find()
	if err != nil {
		return Batch{}, err
	}
	a := &attempt{request: r, worker: w, changed: make(chan struct{}), done: make(chan struct{}), credit: r.Credit, since: time.Now()}
	if r.From != nil {
		a.iteration, a.trained = r.From.Iteration, time.Duration(r.From.Time*float64(time.Second))
	}
	own, cancel := context.WithCancel(context.WithoutCancel(ctx)) // it outlives this call
	a.cancel = cancel
	w.current = a
	if !r.Reuse || w.made != r.Trainable.Name {
		w.drop()
	}
	object := w.object
	w.object, w.made = nil, r.Trainable.Name
	go a.run(own, t, object)
	return w.next(ctx, nil, true)
}

// close ends what the worker has kept for the next trial.
func (w *trainer) close() {
	w.drop()
	if p := w.serving.Swap(nil); p != nil {
		p.kill()
	}
}

func (w *trainer) drop() {
	release(w.object)
	w.object = nil
}

// release closes an object that no trial needs any more, or nil.
func release(object Class) {
	if c, ok := object.(Closer); ok {
		_ = c.Close() // its trial has ended
	}
}

func (a *attempt) run(ctx context.Context, t registered, old Class) {
	defer close(a.done)
	trial := &Trial{a.request, a}
	err := func() (err error) {
		defer func() {
			if p := recover(); p != nil {
				err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
			}
		}()
		if t.class != nil {
			return a.train(ctx, t.class, old, trial)
		}
		return t.run(ctx, trial)
	}()
	a.mu.Lock()
	defer a.mu.Unlock()
	if (a.stopped || a.finished) && (errors.Is(err, ErrStopped) || errors.Is(err, context.Canceled)) {
		err = nil
	}
	a.ended, a.err, a.waiting = true, err, false
	if err != nil && a.cause == "" {
		a.cause = core.CauseError
	}
	a.notify()
}

// train steps an object until it is done.
func (a *attempt) train(ctx context.Context, fresh func() Class, old Class, t *Trial) error {
	object, ready := old, false
	begun := false
	defer func() {
		if !begun { // by an error or a panic: nothing else knows the object
			release(object)
		}
	}()
	if r, ok := old.(Resetter); ok {
		var err error
		if ready, err = r.Reset(ctx, t); err != nil {
			return fmt.Errorf("reset: %w", err)
		}
	}
	if !ready {
		release(old)
		object = nil // one whose Setup fails has nothing to release
		made := fresh()
		if err := made.Setup(ctx, t); err != nil {
			return fmt.Errorf("setup: %w", err)
		}
		object = made
	}
	if folder, ok := t.Checkpoint(); ok {
		if err := object.Load(ctx, folder); err != nil {
			a.cause = core.CauseRestore
			return fmt.Errorf("load checkpoint %s: %w", a.request.From.Name, err)
		}
	}
	a.mu.Lock()
	a.object = object
	begun = true
	a.mu.Unlock()
	for {
		m, err := object.Step(ctx)
		if err != nil {
			return err
		}
		if err := a.report(ctx, m, report{}); err != nil {
			return err
		}
		if done, _ := m["done"].(bool); done {
			return nil
		}
	}
}

// report takes a result, and waits while the credit is used.
func (a *attempt) report(ctx context.Context, m Metrics, extra report) error {
	x, err := core.Canonical(m)
	if err != nil {
		return fmt.Errorf("report: %w", err)
	}
	metrics := core.Values(x.(map[string]any)).Flat()
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.stopped {
		return ErrStopped
	}
	now := time.Now()
	a.trained += now.Sub(a.since)
	r := core.Result{Iteration: a.iteration + 1, Time: a.trained.Seconds(), Metrics: metrics}
	if extra.checkpoint != "" {
		r.Checkpoint = core.CheckpointName(a.request.Trial, a.request.Attempt, a.seq+1)
		a.mu.Unlock()
		err := store(a.request.path(r.Checkpoint), func(to string) error { return os.CopyFS(to, os.DirFS(extra.checkpoint)) })
		a.mu.Lock()
		if err != nil {
			return fmt.Errorf("store the checkpoint of report %d: %w", r.Iteration, err)
		}
	}
	a.iteration++
	a.seq++
	a.used++
	if len(a.pending) == 0 {
		a.first = now
	}
	a.pending = append(a.pending, r)
	done, _ := metrics["done"].(bool)
	a.waiting = a.credit.Used(&r, a.used) && !(done && a.object != nil)
	a.notify()
	for (a.waiting || len(a.pending) >= batchLimit) && !a.stopped {
		changed := a.changed
		a.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
		}
		a.mu.Lock()
		if ctx.Err() != nil && !a.stopped {
			return ctx.Err()
		}
	}
	a.since = time.Now()
	if a.finished = done && a.object == nil; a.finished || a.stopped {
		return ErrStopped
	}
	return nil
}

// next gives credit, if there is any, and returns the next batch: when the attempt waits or has ended, or some time
// after its first result. The first call returns after that time in any case, to tell that the attempt has begun.
func (w *trainer) next(ctx context.Context, credit *core.Credit, first bool) (Batch, error) {
	a := w.current
	if a == nil {
		return Batch{}, errors.New("the worker has no trial")
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if credit != nil {
		a.credit, a.used, a.waiting = *credit, 0, false
		a.notify()
	}
	var begun <-chan time.Time
	if first {
		begun = time.After(batchTime)
	}
	for !a.waiting && !a.ended {
		var full <-chan time.Time
		if len(a.pending) > 0 {
			if wait := batchTime - time.Since(a.first); wait > 0 && len(a.pending) < batchLimit {
				full = time.After(wait)
			} else {
				break
			}
		}
		changed := a.changed
		a.mu.Unlock()
		out := false
		select {
		case <-changed:
		case <-full:
		case <-begun:
			out = true
		case <-ctx.Done():
			out = true
		}
		a.mu.Lock()
		if ctx.Err() != nil {
			return Batch{}, ctx.Err()
		}
		if out {
			break
		}
	}
	b := Batch{Seq: a.seq - len(a.pending) + 1, Results: a.pending, CanSave: a.object != nil, Waiting: a.waiting, Done: a.ended && a.err == nil}
	a.pending = nil
	a.notify()
	if a.ended && a.err != nil {
		b.Cause, b.Error = a.cause, a.err.Error()
	}
	return b, nil
}

// save has the object write a checkpoint. The attempt waits or has ended.
func (w *trainer) save(ctx context.Context, name string) error {
	a := w.current
	if a == nil {
		return errors.New("the worker has no trial")
	}
	a.mu.Lock()
	object := a.object
	a.mu.Unlock()
	if object == nil {
		return fmt.Errorf("trial %d is a function, which saves by itself", a.request.Trial)
	}
	return store(a.request.path(name), func(to string) error {
		if err := os.MkdirAll(to, 0o755); err != nil {
			return err
		}
		return object.Save(ctx, to)
	})
}

// stop ends the attempt. A trainable that does not return in time is an error: the worker cannot be used any more.
func (w *trainer) stop(ctx context.Context, grace time.Duration) error {
	a := w.current
	if a == nil {
		return nil
	}
	w.current = nil
	a.mu.Lock()
	a.stopped = true
	a.notify()
	a.mu.Unlock()
	a.cancel()
	select {
	case <-a.done:
	case <-time.After(grace):
		go a.abandon()
		return fmt.Errorf("trial %d has not returned %s after it was stopped", a.request.Trial, grace)
	case <-ctx.Done():
		go a.abandon()
		return ctx.Err()
	}
	w.object = a.object
	return nil
}

// abandon releases the object of an attempt that has not returned when it was to, once it does.
func (a *attempt) abandon() {
	<-a.done
	release(a.object)
}

// store makes a folder durable under its name, or leaves none.
func store(path string, fill func(folder string) error) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	temporary := filepath.Join(filepath.Dir(path), ".new-"+filepath.Base(path))
	if err := os.RemoveAll(temporary); err != nil { // of an attempt that died
		return err
	}
	err := fill(temporary)
	if err == nil {
		err = syncTree(temporary)
	}
	if err == nil {
		err = os.Rename(temporary, path)
	}
	if err != nil {
		return errors.Join(err, os.RemoveAll(temporary))
	}
	return syncFile(filepath.Dir(path))
}

func syncTree(folder string) error {
	return filepath.WalkDir(folder, func(path string, d os.DirEntry, err error) error {
		if err != nil || !d.IsDir() && !d.Type().IsRegular() {
			return err
		}
		return syncFile(path)
	})
}

func syncFile(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	return f.Sync()
}
