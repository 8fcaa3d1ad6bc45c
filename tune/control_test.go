package tune_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cascade-run/cascade/tune"
	"github.com/cascade-run/cascade/tune/core"
	"github.com/cascade-run/cascade/tune/space"
)

// endless trains until it is stopped.
var endless = tune.Register("test-endless", func(ctx context.Context, t *tune.Trial) error {
	for {
		if err := t.Report(ctx, tune.Metrics{"loss": 1}); err != nil {
			return err
		}
	}
})

// TestStop stops trials, and then their experiment, as another process does; each order is durable, and a second one
// changes nothing. Where no process runs it, the error says so.
func TestStop(t *testing.T) {
	for _, storage := range []string{t.TempDir(), filepath.Join(t.TempDir(), strings.Repeat("long", 30))} {
		folder := filepath.Join(storage, "s")
		running := make(chan core.ID, 9)
		tuner := &tune.Tuner{Name: "s", Storage: storage, Trainable: endless, Space: space.Space{"x": space.Uniform(0, 1)}, Options: tune.Options{Samples: 4, Strict: true}, Executor: tune.Local(2)}
		tuner.Callbacks = []tune.Callback{func(n tune.Notice) error {
			if n.Kind == core.Start {
				running <- n.Trial
			}
			return nil
		}}
		stopped := func(want tune.Stopped, trials ...core.ID) {
			t.Helper()
			got, err := tune.Stop(t.Context(), folder, trials...)
			if err != nil || !slices.Equal(got.Trials, want.Trials) || !slices.Equal(got.Before, want.Before) || got.Ended != want.Ended {
				t.Fatalf("stop %v: %+v, %v, want %+v", trials, got, err, want)
			}
		}
		fails := func(want string, trials ...core.ID) {
			t.Helper()
			if got, err := tune.Stop(t.Context(), folder, trials...); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("stop %v: %+v, %v, want %s", trials, got, err, want)
			}
		}
		fails("is not the folder of an experiment")
		ctx, interrupt := context.WithCancel(t.Context())
		defer interrupt()
		x, err := tuner.Start(ctx)
		if err != nil {
			t.Fatal(err)
		}
		<-running
		<-running
		fails("the experiment has no trial 9", 9)
		stopped(tune.Stopped{Trials: []core.ID{0}}, 0)
		<-running // number 2 takes its place
		stopped(tune.Stopped{Before: []core.ID{0}}, 0)
		interrupt()
		if _, err := x.Wait(); !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		if _, err := tune.Stop(t.Context(), folder); !errors.Is(err, tune.ErrNotRunning) {
			t.Errorf("of one that was interrupted: %v", err)
		}
		if err := os.WriteFile(filepath.Join(folder, tune.SocketFile), nil, 0o600); err != nil { // as a process that was killed leaves one
			t.Fatal(err)
		}
		x, err = tuner.StartAgain(t.Context(), folder, core.Redo{})
		if err != nil {
			t.Fatal(err)
		}
		<-running
		stopped(tune.Stopped{})
		if got, err := tune.Stop(t.Context(), folder); err != nil || !got.Ended { // it ends, or has ended
			t.Errorf("a second time: %+v, %v", got, err)
		}
		g, err := x.Wait()
		if err != nil || g.Halted != "a user stopped the experiment" {
			t.Fatalf("it was stopped because %q, %v", g.Halted, err)
		}
		for _, o := range g.Trials {
			if o.End != core.EndOrder {
				t.Errorf("%s has ended by %q", o.Name, o.End)
			}
		}
		if n, err := tune.Replay(folder); err != nil || n == 0 {
			t.Errorf("replayed %d events, %v", n, err)
		}
		stopped(tune.Stopped{Ended: true, Before: []core.ID{1}}, 1)
		fails("the experiment has no trial 7", 7)
		if _, err := os.Stat(filepath.Join(folder, tune.SocketFile)); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("the socket is left: %v", err)
		}
	}
}
