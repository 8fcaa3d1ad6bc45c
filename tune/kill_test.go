package tune_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cascade-run/cascade/internal/testing/tier"
	"github.com/cascade-run/cascade/tune"
	"github.com/cascade-run/cascade/tune/core"
	"github.com/cascade-run/cascade/tune/sched"
	"github.com/cascade-run/cascade/tune/space"
)

// childFolder makes the test binary run an experiment instead of tests.
const childFolder = "CASCADE_TUNE_TEST_FOLDER"

// walker is a class whose score depends on its configuration, and which writes down each report that returned.
type walker struct {
	X float64
	N int
	t *tune.Trial
}

func (w *walker) Setup(_ context.Context, t *tune.Trial) error {
	w.t = t
	w.X = t.Values()["x"].(float64)
	return nil
}

func (w *walker) Step(context.Context) (tune.Metrics, error) {
	if w.N > 0 { // the report before has returned: its decision is durable
		if err := w.acknowledged(); err != nil {
			return nil, err
		}
	}
	w.N++
	return tune.Metrics{"loss": w.X/float64(w.N) + w.X}, nil
}

func (w *walker) acknowledged() error {
	f, err := os.OpenFile(filepath.Join(os.Getenv(childFolder), "acknowledged"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(f, "%d %d\n", w.t.ID(), w.N)
	return errors.Join(err, f.Close())
}

func (w *walker) Save(_ context.Context, folder string) error {
	b, err := json.Marshal(w)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(folder, "w.json"), b, 0o600)
}

func (w *walker) Load(_ context.Context, folder string) error {
	b, err := os.ReadFile(filepath.Join(folder, "w.json"))
	if err != nil {
		return err
	}
	return json.Unmarshal(b, w)
}

var walkers = tune.RegisterClass("test-walker", func() tune.Class { return &walker{} })

// child runs or resumes the experiment, and prints a line for each notice.
func child(folder string) error {
	t := &tune.Tuner{Name: "killed", Storage: folder, Trainable: walkers, Space: space.Space{"x": space.Uniform(0, 1)}, Executor: tune.Local(1),
		Options: tune.Options{Metric: "loss", Samples: 6, Every: 1, Strict: true, Keep: 1}, Scheduler: &sched.ASHA{MaxT: 6, Factor: 2},
		Callbacks: []tune.Callback{func(n tune.Notice) error { _, err := fmt.Println(n.Kind); return err }}}
	var err error
	if _, old := os.Stat(filepath.Join(folder, "killed", "experiment.json")); old == nil {
		_, err = t.Resume(context.Background(), filepath.Join(folder, "killed"), core.Redo{})
	} else {
		_, err = t.Run(context.Background())
	}
	return err
}

// runChild runs the child until it has printed so many lines, and kills it; -1: to its end.
func runChild(t *testing.T, folder string, lines int) (whole bool) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childFolder+"="+folder)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	printed := 0 // it may print more before it is dead
	for s := bufio.NewScanner(out); s.Scan(); {
		if printed++; printed == lines {
			if err := cmd.Process.Kill(); err != nil {
				t.Error(err)
			}
		}
	}
	err = cmd.Wait()
	if printed < lines && err != nil || lines < 0 && err != nil {
		t.Fatalf("the child ended with %v", err)
	}
	return err == nil
}

// TestKilled kills the process of an experiment with SIGKILL at many moments and resumes it: the outcome is that of an
// experiment that was not killed, and each report that had returned is in the history.
func TestKilled(t *testing.T) {
	outcome := func(folder string) string {
		g, err := tune.Open(filepath.Join(folder, "killed"))
		if err != nil {
			t.Fatal(err)
		}
		var all []string
		for _, o := range g.Trials {
			all = append(all, fmt.Sprint(o.Config["x"], " ", o.Results, " ", o.Status, " ", o.Reason))
		}
		return strings.Join(all, "\n")
	}
	reference := t.TempDir()
	runChild(t, reference, -1)
	want := outcome(reference)
	step := 13
	if tier.Night() {
		step = 1
	}
	for at := 1; at < 40; at += step {
		folder := t.TempDir()
		for !runChild(t, folder, at) {
			at += 3 // the next one comes further
		}
		if got := outcome(folder); got != want {
			t.Errorf("killed at notice %d: the trials are\n%s\nwant\n%s", at, got, want)
		}
		lost(t, folder)
		if n, err := tune.Replay(filepath.Join(folder, "killed")); err != nil || n == 0 {
			t.Errorf("killed at notice %d: a replay of %d events: %v", at, n, err)
		}
	}
}

// lost looks for reports that had returned and are not in the history.
func lost(t *testing.T, folder string) {
	t.Helper()
	g, err := tune.Open(filepath.Join(folder, "killed"))
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(filepath.Join(folder, "acknowledged"))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(b)) {
		var id core.ID
		var n int64
		if _, err := fmt.Sscan(line, &id, &n); err != nil {
			t.Fatal(err)
		}
		h, err := g.History(id)
		if err != nil || !slices.ContainsFunc(h, func(r core.Result) bool { return r.Iteration == n }) {
			t.Errorf("result %d of trial %d was acknowledged and is lost, %v", n, id, err)
		}
	}
}
