//go:build linux

package tune_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/cascade-run/cascade"
	"github.com/cascade-run/cascade/cascadetest"
	"github.com/cascade-run/cascade/tune"
	"github.com/cascade-run/cascade/tune/core"
	"github.com/cascade-run/cascade/tune/sched"
	"github.com/cascade-run/cascade/tune/space"
)

// where reports the process in which it runs, and one trial ends its process the first time.
var where = tune.Register("test-where", func(ctx context.Context, t *tune.Trial) error {
	if t.ID() == 3 && t.Attempt() == 1 {
		return syscall.Kill(os.Getpid(), syscall.SIGKILL)
	}
	if t.ID() == 4 {
		return fmt.Errorf("trial %d: %w", t.ID(), errors.ErrUnsupported)
	}
	for i := range 8 {
		if err := t.Report(ctx, tune.Metrics{"loss": t.Values()["x"].(float64) / float64(i+1), "pid": os.Getpid()}); err != nil {
			return err
		}
	}
	return nil
})

// TestActors runs trials in actors, which run one trial after another in processes of their own; one that dies is replaced.
func TestActors(t *testing.T) {
	c := cascadetest.Start(t, cascade.WithCPU(2))
	s, err := c.Session(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close(context.WithoutCancel(t.Context()))
	g, err := (&tune.Tuner{Name: "actors", Storage: t.TempDir(), Trainable: where, Space: space.Space{"x": space.Uniform(0, 1)}, Executor: tune.Actors(s.Context(), 2),
		Options: tune.Options{Metric: "loss", Samples: 12, MaxFailures: 1}, Scheduler: &sched.ASHA{MaxT: 8, Factor: 2, Promote: true}}).Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	pids := map[any]bool{}
	for i := range g.Trials {
		h, err := g.History(core.ID(i))
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range h {
			pids[r.Metrics["pid"]] = true
		}
	}
	if len(pids) > 4 || pids[int64(os.Getpid())] { // two, one in place of the one that died, and its neighbour
		t.Errorf("the trials ran in %d processes: %v", len(pids), pids)
	}
	if dead := g.Trials[3]; dead.Failures != 1 || dead.Status == core.Errored {
		t.Errorf("the trial whose process died: %+v", dead)
	}
	if broken := g.Trials[4]; broken.Status != core.Errored || !strings.Contains(broken.Error, "trial 4: unsupported") {
		t.Errorf("the trial that fails: %s %s", broken.Status, broken.Error)
	}
	if n := g.Count(core.Terminated); n != 11 {
		t.Errorf("%d trials ended well", n)
	}
}
