package tune_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/cascade-run/cascade/internal/testing/smallfs"
	"github.com/cascade-run/cascade/tune"
	"github.com/cascade-run/cascade/tune/core"
	"github.com/cascade-run/cascade/tune/space"
)

// filler fills the file system in its third report, so that the next commit fails.
var filler = tune.Register("test-filler", func(ctx context.Context, t *tune.Trial) error {
	for i := t.Iteration() + 1; i <= 5; i++ {
		if i == 3 && t.Attempt() == 1 {
			if err := os.WriteFile(t.Values()["file"].(string), make([]byte, 8<<20), 0o600); err == nil {
				return errors.New("the file system takes more than it should")
			}
		}
		if err := t.Report(ctx, tune.Metrics{"loss": i, "text": strings.Repeat("x", 5000)}); err != nil {
			return err
		}
	}
	return nil
})

// TestFullDisk fills the disk: the experiment ends and says so, and goes on when there is room.
func TestFullDisk(t *testing.T) {
	if !smallfs.Enter(t) {
		return
	}
	dir := t.TempDir()
	smallfs.Mount(t, "tmpfs", dir, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "size=1m")
	file := filepath.Join(dir, "filler")
	tuner := &tune.Tuner{Name: "full", Storage: dir, Trainable: filler, Space: space.Space{"file": file}, Executor: tune.Local(1), Options: tune.Options{Strict: true}}
	if _, err := tuner.Run(t.Context()); !errors.Is(err, unix.ENOSPC) || !strings.Contains(err.Error(), "make room and resume") {
		t.Fatalf("a full disk: %v", err)
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	g, err := tuner.Resume(t.Context(), filepath.Join(dir, "full"), core.Redo{})
	if err != nil || g.Trials[0].Results != 5 || g.Trials[0].Status != core.Terminated {
		t.Errorf("after it was resumed: %+v, %v", g, err)
	}
}
