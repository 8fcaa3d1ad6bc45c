package tune_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/cascade-run/cascade"
	"github.com/cascade-run/cascade/tune"
	"github.com/cascade-run/cascade/tune/core"
	"github.com/cascade-run/cascade/tune/sched"
	"github.com/cascade-run/cascade/tune/search"
	"github.com/cascade-run/cascade/tune/space"
)

func TestMain(m *testing.M) {
	if folder := os.Getenv(childFolder); folder != "" {
		if err := child(folder); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	cascade.Main() // it may be the executor of a test's cluster
	goleak.VerifyTestMain(m)
}

// line is a training whose loss falls to x, step by step.
var line = tune.Register("test-line", func(ctx context.Context, t *tune.Trial) error {
	x := t.Values()["x"].(float64)
	for i := range 10 {
		if err := t.Report(ctx, tune.Metrics{"loss": x + 1/float64(i+1)}); err != nil {
			return err
		}
	}
	return nil
})

// gated trains when its gate is open.
var (
	gate  chan struct{}
	gated = tune.Register("test-gated", func(ctx context.Context, t *tune.Trial) error {
		select {
		case <-gate:
		case <-ctx.Done():
			return ctx.Err()
		}
		return t.Report(ctx, tune.Metrics{"loss": 1})
	})
)

// counter is a class that saves how far it has come.
type counter struct {
	N    int
	fail func(n int) error
}

func (c *counter) Setup(context.Context, *tune.Trial) error { return nil }

func (c *counter) Step(context.Context) (tune.Metrics, error) {
	c.N++
	if err := c.fail(c.N); err != nil {
		return nil, err
	}
	return tune.Metrics{"n": c.N, "done": c.N == 5}, nil
}

func (c *counter) Save(_ context.Context, folder string) error {
	b, err := json.Marshal(c)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(folder, "state.json"), b, 0o600)
}

func (c *counter) Load(_ context.Context, folder string) error {
	b, err := os.ReadFile(filepath.Join(folder, "state.json"))
	if err != nil {
		return err
	}
	return json.Unmarshal(b, c)
}

var (
	steps    sync.Map // how often each step of the counter was trained
	counters = tune.RegisterClass("test-counter", func() tune.Class {
		return &counter{fail: func(n int) error {
			times, _ := steps.LoadOrStore(n, new(int))
			*times.(*int)++
			if n == 4 && *times.(*int) == 1 {
				return errors.New("step 4 fails the first time")
			}
			return nil
		}}
	})
)

// TestFunction runs a function with ASHA, and finds the best.
func TestFunction(t *testing.T) {
	g, err := (&tune.Tuner{Name: "line", Storage: t.TempDir(), Trainable: line, Space: space.Space{"x": space.Uniform(0, 1)},
		Options: tune.Options{Metric: "loss", Samples: 20, Seed: 3}, Scheduler: &sched.ASHA{MaxT: 10, Factor: 2}, Executor: tune.Local(3)}).Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	best, loss, err := g.Best(tune.Query{})
	if err != nil || g.Count(core.Terminated) != 20 || best.Results != 10 {
		t.Fatalf("%d trials ended, the best has %d results, %v", g.Count(core.Terminated), best.Results, err)
	}
	results := 0
	for i := range g.Trials {
		o := &g.Trials[i]
		results += o.Results
		if h, err := g.History(o.ID); err != nil || len(h) != o.Results {
			t.Errorf("the history of trial %d has %d results, want %d, %v", o.ID, len(h), o.Results, err)
		}
		if x := o.Config["x"].(float64); o.Results == 10 && x+.1 < loss {
			t.Errorf("trial %d with %g is better than %g", o.ID, x, loss)
		}
	}
	if results > 150 {
		t.Errorf("20 trials have %d results: none was stopped early", results)
	}
}

// TestClass has a class fail once, go on from its checkpoint, and train no step twice but the one that failed.
func TestClass(t *testing.T) {
	dir := t.TempDir()
	g, err := (&tune.Tuner{Name: "counter", Storage: dir, Trainable: counters, Space: space.Space{"x": 1},
		Options: tune.Options{Every: 1, Keep: 1, MaxFailures: 1, AtEnd: true}, Executor: tune.Local(1)}).Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	o := &g.Trials[0]
	if o.Status != core.Terminated || o.Failures != 1 || o.Attempts != 2 || o.Results != 5 {
		t.Fatalf("the trial is %+v", o)
	}
	for n, want := range map[int]int{1: 1, 3: 1, 4: 2, 5: 1} {
		if times, _ := steps.Load(n); *times.(*int) != want {
			t.Errorf("step %d was trained %d times, want %d", n, *times.(*int), want)
		}
	}
	kept, err := filepath.Glob(filepath.Join(dir, "counter", "t00000", "*"))
	if err != nil || len(kept) != 1 || kept[0] != g.Checkpoint(o) {
		t.Errorf("the folder of the trial has %v, want its newest checkpoint %s", kept, g.Checkpoint(o))
	}
}

// TestWrongTuners names what is wrong, and what to do.
func TestWrongTuners(t *testing.T) {
	dir := t.TempDir()
	good := tune.Tuner{Name: "x", Storage: dir, Trainable: line, Space: space.Space{"x": space.Uniform(0, 1)}, Executor: tune.Local(1)}
	for want, change := range map[string]func(*tune.Tuner){
		`the name "../x"`:           func(t *tune.Tuner) { t.Name = "../x" },
		`no trainable has the name`: func(t *tune.Tuner) { t.Trainable = tune.Trainable{Name: "y"} },
		`has no space`:              func(t *tune.Tuner) { t.Space = nil },
		`reduction factor is 1`:     func(t *tune.Tuner) { t.Scheduler = &sched.ASHA{Factor: 1} },
		`between 2 and 1`:           func(t *tune.Tuner) { t.Space = space.Space{"x": space.Uniform(2, 1)} },
		`mutation x is space.Grid`: func(t *tune.Tuner) {
			t.Scheduler = &sched.PBT{Mutations: space.Space{"x": space.GridSearch(1)}}
		},
	} {
		wrong := good
		change(&wrong)
		if _, err := wrong.Run(t.Context()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	if _, err := good.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := good.Run(t.Context()); !errors.Is(err, tune.ErrExists) {
		t.Errorf("a second experiment of the name: %v", err)
	}
	if _, err := tune.Open(t.TempDir()); err == nil || !strings.Contains(err.Error(), "is not the folder of an experiment") {
		t.Errorf("another folder: %v", err)
	}
}

// slow is a searcher that gives its suggestions one by one.
type slow struct {
	search.Variants
	told []string
}

func (s *slow) Complete(id core.ID, _ *core.Result, how core.End) {
	s.told = append(s.told, fmt.Sprint(id, " ", how))
}

// interrupts ends a context with the n-th notice.
func interrupts(n int, cancel context.CancelFunc) tune.Callback {
	return func(tune.Notice) error {
		if n--; n == 0 {
			cancel()
		}
		return nil
	}
}

// TestInterrupted interrupts an experiment at many places and resumes it, moved to another folder: the same trials end
// as in one that was not interrupted, and the searcher hears of each once.
func TestInterrupted(t *testing.T) {
	run := func(at int) (string, []string) {
		dir := t.TempDir()
		made := func() (*tune.Tuner, *slow) {
			s := &slow{Variants: search.Variants{Space: space.Space{"x": space.Uniform(0, 1)}, Samples: 6, Seed: 5}}
			return &tune.Tuner{Name: "moved", Storage: dir, Trainable: line, Searcher: s, Options: tune.Options{Metric: "loss"}, Executor: tune.Local(1),
				Scheduler: &sched.ASHA{MaxT: 10, Factor: 2}}, s
		}
		ctx, cancel := context.WithCancel(t.Context())
		tuner, s := made()
		tuner.Callbacks = []tune.Callback{interrupts(at, cancel)}
		g, err := tuner.Run(ctx)
		cancel()
		if errors.Is(err, context.Canceled) {
			if err := os.Rename(filepath.Join(dir, "moved"), filepath.Join(dir, "elsewhere")); err != nil {
				t.Fatal(err)
			}
			tuner, s = made()
			g, err = tuner.Resume(t.Context(), filepath.Join(dir, "elsewhere"), core.Redo{})
		}
		if err != nil {
			t.Fatal(err)
		}
		var ends []string
		for _, o := range g.Trials {
			ends = append(ends, fmt.Sprint(o.Config["x"], " ", o.Results, " ", o.End))
		}
		return strings.Join(ends, "; "), s.told
	}
	want, told := run(-1)
	for at := 1; at < 20; at += 3 {
		got, heard := run(at)
		if got != want || len(heard) != len(told) {
			t.Errorf("interrupted at notice %d: %s, want %s; the searcher heard %v", at, got, want, heard)
		}
	}
}

// TestOpenTellsWhoWasInterrupted opens an experiment while it runs, after its interruption, and after its end.
func TestOpenTellsWhoWasInterrupted(t *testing.T) {
	dir := t.TempDir()
	folder := filepath.Join(dir, "o")
	gate = make(chan struct{})
	opened := func(when string, want bool) {
		g, err := tune.Open(folder)
		if err != nil || g.Interrupted != want {
			t.Errorf("%s: interrupted %v, want %v, %v", when, !want, want, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	tuner := &tune.Tuner{Name: "o", Storage: dir, Trainable: gated, Space: space.Space{"x": space.Uniform(0, 1)}, Options: tune.Options{Metric: "loss", Samples: 3}, Executor: tune.Local(1)}
	tuner.Callbacks = []tune.Callback{func(n tune.Notice) error {
		if n.Kind == core.Start {
			opened("while it runs", false)
			cancel()
		}
		return nil
	}}
	if _, err := tuner.Run(ctx); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	opened("after its interruption", true)
	close(gate)
	tuner.Callbacks = nil
	if _, err := tuner.Resume(t.Context(), folder, core.Redo{}); err != nil {
		t.Fatal(err)
	}
	opened("after its end", false)
}

// TestExport writes results as files of other programs.
func TestExport(t *testing.T) {
	g, err := (&tune.Tuner{Name: "e", Storage: t.TempDir(), Trainable: line, Space: space.Space{"x": 0.5}, Executor: tune.Local(1)}).Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	to := t.TempDir()
	for _, format := range tune.Formats {
		if err := g.Export(to, format); err != nil {
			t.Fatal(err)
		}
	}
	read := func(name string) string {
		b, err := os.ReadFile(filepath.Join(to, "t00000", name))
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	if lines := strings.Split(read("progress.csv"), "\n"); len(lines) != 12 || lines[0] != "config/x,loss,time_total_s,training_iteration,trial_id" || !strings.HasPrefix(lines[1], "0.5,1.5,") {
		t.Errorf("the CSV is %q", lines)
	}
	var last map[string]any
	if lines := strings.Split(strings.TrimSpace(read("result.json")), "\n"); len(lines) != 10 || json.Unmarshal([]byte(lines[9]), &last) != nil || last["loss"] != .6 {
		t.Errorf("the JSON is %q", lines)
	}
	// The first record: a length, its checksum, a message with the version, its checksum.
	events := read("events.out.tfevents.0.cascade")
	if head := fmt.Sprintf("%x", events[:12]); head != "1800000000000000a37f4b22" || !strings.Contains(events[:40], "brain.Event:2") || strings.Count(events, "loss") != 10 {
		t.Errorf("the events begin with %s", head)
	}
}

// TestBest compares trials in each way.
func TestBest(t *testing.T) {
	scores := [][]any{{1, 5, 3}, {4, 4, 4}, {"Infinity"}, {4, 4, 4}}
	i := -1
	g, err := (&tune.Tuner{Name: "best", Storage: t.TempDir(), Trainable: listed, Searcher: listSearcher{&i, scores}, Executor: tune.Local(1),
		Options: tune.Options{Metric: "m", Max: true, Samples: 4}}).Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		q    tune.Query
		best core.ID
	}{{tune.Query{}, 1}, {tune.Query{Scope: "all"}, 0}, {tune.Query{Scope: "avg"}, 1}, {tune.Query{Any: true}, 2}, {tune.Query{Metric: "eval/n", Max: true}, 0}, {tune.Query{Metric: "eval/n"}, 2}} {
		if o, x, err := g.Best(c.q); err != nil || o.ID != c.best {
			t.Errorf("%+v: trial %v with %g, want %d, %v", c.q, o, x, c.best, err)
		}
	}
	for want, q := range map[string]tune.Query{`no trial has a value of the metric "z"`: {Metric: "z"}, `there is no scope "first"`: {Scope: "first"}} {
		if _, _, err := g.Best(q); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// listed reports what its configuration lists.
var listed = tune.Register("test-listed", func(ctx context.Context, t *tune.Trial) error {
	for n, x := range t.Values()["scores"].([]any) {
		if err := t.Report(ctx, tune.Metrics{"m": x, "eval": map[string]any{"n": n}}); err != nil {
			return err
		}
	}
	return nil
})

type listSearcher struct {
	i      *int
	scores [][]any
}

func (s listSearcher) Suggest(core.ID) (core.Values, error) {
	if *s.i++; *s.i >= len(s.scores) {
		return nil, search.ErrFinished
	}
	x, err := core.Canonical(map[string]any{"scores": s.scores[*s.i]})
	if err != nil {
		return nil, err
	}
	return x.(map[string]any), nil
}

func (listSearcher) Result(core.ID, *core.Result)             {}
func (listSearcher) Complete(core.ID, *core.Result, core.End) {}
