package tune_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/cascade-run/cascade/tune"
	"github.com/cascade-run/cascade/tune/core"
	"github.com/cascade-run/cascade/tune/journal"
	"github.com/cascade-run/cascade/tune/search"
	"github.com/cascade-run/cascade/tune/space"
)

// many reports as often as its configuration says.
var many = tune.Register("bench-many", func(ctx context.Context, t *tune.Trial) error {
	for i := range t.Values()["reports"].(int64) {
		if err := t.Report(ctx, tune.Metrics{"loss": 1 / float64(i+1), "accuracy": .5, "step": i}); err != nil {
			return err
		}
	}
	return nil
})

func fixed(reports int) space.Space {
	return space.Space{"reports": reports, "lr": space.LogUniform(1e-4, 1)}
}

// BenchmarkTrials runs trials of one report. The metric tail is the time of the last tenth to that of the second.
func BenchmarkTrials(b *testing.B) {
	for b.Loop() {
		const trials = 10_000
		var ends []time.Time
		begun := time.Now()
		g, err := (&tune.Tuner{Name: "trials", Storage: b.TempDir(), Trainable: many, Space: fixed(1), Executor: tune.Local(2), Options: tune.Options{Metric: "loss", Samples: trials, Ahead: 16},
			Callbacks: []tune.Callback{func(n tune.Notice) error {
				if n.Kind == core.Complete {
					ends = append(ends, time.Now())
				}
				return nil
			}}}).Run(b.Context())
		if err != nil || g.Count(core.Terminated) != trials {
			b.Fatal(err)
		}
		took := time.Since(begun)
		b.ReportMetric(trials/took.Seconds(), "trials/s")
		b.ReportMetric(float64(ends[trials-1].Sub(ends[trials*9/10]))/float64(ends[trials/5].Sub(ends[trials/10])), "tail")
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		runtime.KeepAlive(g) // and of no more
		runtime.GC()
		runtime.ReadMemStats(&after)
		b.ReportMetric(float64(before.HeapAlloc-after.HeapAlloc)/trials, "B/trial")
	}
}

// BenchmarkResults counts results that are durable.
func BenchmarkResults(b *testing.B) {
	for b.Loop() {
		const trials, reports = 8, 12_500
		begun := time.Now()
		if _, err := (&tune.Tuner{Name: "results", Storage: b.TempDir(), Trainable: many, Space: fixed(reports), Executor: tune.Local(4), Options: tune.Options{Metric: "loss", Samples: trials}}).Run(b.Context()); err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(trials*reports/time.Since(begun).Seconds(), "results/s")
	}
}

// BenchmarkResume opens an experiment of 1,000 trials of 100 reports that was cut off, and runs its last trial.
func BenchmarkResume(b *testing.B) {
	folder := b.TempDir()
	t := &tune.Tuner{Name: "resume", Storage: folder, Trainable: many, Space: fixed(100), Executor: tune.Local(4), Options: tune.Options{Metric: "loss", Samples: 1000, Ahead: 16}}
	if _, err := t.Run(b.Context()); err != nil {
		b.Fatal(err)
	}
	whole, err := os.ReadFile(filepath.Join(folder, "resume", journal.File))
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if err := os.WriteFile(filepath.Join(folder, "resume", journal.File), whole[:len(whole)-100], 0o600); err != nil {
			b.Fatal(err)
		}
		begun := time.Now()
		if _, err := t.Resume(b.Context(), filepath.Join(folder, "resume"), core.Redo{}); err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(time.Since(begun).Seconds(), "s/resume")
	}
	b.ReportMetric(float64(len(whole))/100_000, "B/result")
}

// sleeper is a searcher that sleeps before each suggestion but the first.
type sleeper struct {
	search.Variants
	first sync.Once
	until <-chan struct{}
}

func (s *sleeper) Suggest(id core.ID) (core.Values, error) {
	slept := true
	s.first.Do(func() { slept = false })
	if slept && s.until != nil {
		<-s.until
		return nil, search.ErrFinished
	}
	return s.Variants.Suggest(id)
}

// waits measures how long a report waits for its decision.
var (
	waits   []time.Duration
	measure = tune.Register("bench-waits", func(ctx context.Context, t *tune.Trial) error {
		waits = waits[:0]
		for i := range 1000 {
			begun := time.Now()
			if err := t.Report(ctx, tune.Metrics{"loss": 1 / float64(i+1)}); err != nil {
				return err
			}
			waits = append(waits, time.Since(begun))
		}
		return nil
	})
)

// BenchmarkDecision measures a decision for each result, while the searcher is idle and while it sleeps.
func BenchmarkDecision(b *testing.B) {
	for _, sleeps := range []bool{false, true} {
		b.Run(fmt.Sprintf("searcher-sleeps=%v", sleeps), func(b *testing.B) {
			for b.Loop() {
				woken := make(chan struct{})
				s := &sleeper{Variants: search.Variants{Space: space.Space{"x": space.Uniform(0, 1)}, Samples: 1}}
				if sleeps {
					s.until = woken
				}
				t := &tune.Tuner{Name: "decision", Storage: b.TempDir(), Trainable: measure, Searcher: s, Executor: tune.Local(2), Options: tune.Options{Metric: "loss", Strict: true},
					Callbacks: []tune.Callback{func(n tune.Notice) error {
						if n.Kind == core.Complete {
							close(woken)
						}
						return nil
					}}}
				if _, err := t.Run(b.Context()); err != nil {
					b.Fatal(err)
				}
				slices.Sort(waits)
				b.ReportMetric(float64(waits[len(waits)/2].Microseconds()), "p50-us")
				b.ReportMetric(float64(waits[len(waits)*99/100].Microseconds()), "p99-us")
			}
		})
	}
}
