package tune_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/cascade-run/cascade/tune"
	"github.com/cascade-run/cascade/tune/core"
	"github.com/cascade-run/cascade/tune/space"
)

// fragile is a class that fails where its configuration says so, and tells which of its objects are open.
type fragile struct{ fails string }

var fragiles struct {
	mu   sync.Mutex
	open int
}

func opened(n int) int {
	fragiles.mu.Lock()
	defer fragiles.mu.Unlock()
	fragiles.open += n
	return fragiles.open
}

func (f *fragile) at(what string) error {
	switch f.fails {
	case what:
		return errors.New("no luck")
	case "panic at " + what:
		panic("no luck")
	}
	return nil
}

func (f *fragile) Setup(_ context.Context, t *tune.Trial) error {
	f.fails, _ = t.Values()["fails"].(string)
	opened(1)
	return nil
}

func (f *fragile) Reset(_ context.Context, t *tune.Trial) (bool, error) {
	f.fails, _ = t.Values()["fails"].(string)
	return true, f.at("reset")
}

func (f *fragile) Step(context.Context) (tune.Metrics, error) {
	return tune.Metrics{"done": true}, f.at("step")
}
func (*fragile) Save(context.Context, string) error   { return nil }
func (f *fragile) Load(context.Context, string) error { return f.at("load") }
func (f *fragile) Close() error                       { opened(-1); return nil }

var fragileClass = tune.RegisterClass("test-fragile", func() tune.Class { return &fragile{} })

// TestObjectsAreClosed has objects fail at each step of their lives, in a worker that reuses them: each is closed.
func TestObjectsAreClosed(t *testing.T) {
	for _, fails := range []string{"", "reset", "load", "step", "panic at reset", "panic at load", "panic at step"} {
		w, err := tune.Local(1).Worker(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for trial, config := range []string{"", fails, fails, ""} {
			b, err := w.Start(t.Context(), tune.Request{Trainable: fragileClass, Folder: t.TempDir(), Trial: core.ID(trial), Attempt: 1, Config: core.Values{"fails": config},
				From: &core.Checkpoint{Name: "c"}, Credit: core.Credit{Reports: 9}, Reuse: true})
			for err == nil && !b.Done && b.Cause == "" {
				b, err = w.Next(t.Context(), nil)
			}
			if failed := b.Cause != ""; err != nil || failed && !strings.Contains(b.Error, "no luck") || config == "" && failed {
				t.Errorf("%q, trial %d: %q %q, %v", fails, trial, b.Cause, b.Error, err)
			}
			if err := w.Stop(t.Context()); err != nil {
				t.Error(err)
			}
		}
		if w.Close(); opened(0) != 0 {
			t.Errorf("%q: %d objects are still open", fails, opened(0))
		}
	}
}

// deaf has workers whose host does not answer when an attempt is to stop.
type deaf struct{ closed *bool }

func (deaf) Slots() int { return 1 }

func (d deaf) Worker(context.Context) (tune.Worker, error) { return d, nil }

func (deaf) Start(context.Context, tune.Request) (tune.Batch, error) {
	return tune.Batch{Seq: 1, Results: []core.Result{{Iteration: 1, Metrics: core.Values{"loss": 1.0}}}, Waiting: true}, nil
}

func (deaf) Next(ctx context.Context, _ *core.Credit) (tune.Batch, error) {
	<-ctx.Done()
	return tune.Batch{}, ctx.Err()
}
func (deaf) Save(context.Context, string) error { return nil }

func (deaf) Stop(ctx context.Context) error {
	<-ctx.Done()
	return ctx.Err()
}

func (d deaf) Close() { *d.closed = true }

// TestDeafWorker has a worker never stop its attempt: the experiment ends, and gives the worker up.
func TestDeafWorker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		storage, closed := t.TempDir(), false
		// The clock of the test stands still while a socket is listened on, so its name is taken: an experiment runs without it.
		if err := os.MkdirAll(filepath.Join(storage, "deaf", tune.SocketFile, "taken"), 0o755); err != nil {
			t.Fatal(err)
		}
		g, err := (&tune.Tuner{Name: "deaf", Storage: storage, Trainable: line, Space: space.Space{"x": 1}, Executor: deaf{&closed},
			Options: tune.Options{Stop: []core.Condition{{Key: "loss", Value: 1}}}}).Run(t.Context())
		if err != nil || g.Count(core.Terminated) != 1 || !closed {
			t.Errorf("%v, and the worker is closed: %v", err, closed)
		}
	})
}
