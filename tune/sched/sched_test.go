package sched_test

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/cascade-run/cascade/tune/core"
	"github.com/cascade-run/cascade/tune/rehearsal"
	"github.com/cascade-run/cascade/tune/sched"
	"github.com/cascade-run/cascade/tune/search"
	"github.com/cascade-run/cascade/tune/space"
)

func score(x float64) core.Values { return core.Values{"m": x} }

var maximise = core.Options{Metric: "m", Max: true}

// ended tells whether a trial has ended by its scheduler.
func ended(d *rehearsal.Desk, id core.ID) bool { return d.Core.Trials()[id].Status == core.Terminated }

// TestASHACutOff judges each trial by those that were at its rung before.
func TestASHACutOff(t *testing.T) {
	for _, c := range []struct {
		name   string
		factor float64
		max    bool
		scores []float64
		stops  []bool
	}{
		{"the median of those before; equal scores pass", 2, true, []float64{2, 4, 1, 3, 2.5}, []bool{false, false, true, false, false}},
		{"mirrored", 2, false, []float64{-2, -4, -1, -3, -2.5}, []bool{false, false, true, false, false}},
		{"the 75th percentile of 1, 2, 3, 4 is 3.25", 4, true, []float64{1, 2, 3, 4, 3.2}, []bool{false, false, false, false, true}},
		{"and 3.25 passes", 4, true, []float64{1, 2, 3, 4, 3.25}, []bool{false, false, false, false, false}},
		{"NaN at an empty rung passes, moves no cut-off and beats no number", 2, true, []float64{math.NaN(), 1, math.NaN(), 1}, []bool{false, false, true, false}},
		{"infinity is a number", 2, true, []float64{math.Inf(1), math.Inf(-1), 1}, []bool{false, true, false}},
	} {
		o := core.Options{Metric: "m", Max: c.max}
		d := rehearsal.NewDesk(o, &sched.ASHA{MaxT: 10, Factor: c.factor}, len(c.scores), rehearsal.Configs(len(c.scores))...)
		for i, s := range c.scores {
			said := d.Report(core.ID(i), 1, score(s))
			if got := ended(d, core.ID(i)); got != c.stops[i] {
				t.Errorf("%s: %g stops: %v, want %v (%s)", c.name, s, got, c.stops[i], said)
			}
		}
	}
}

// TestASHAGaps judges a trial once at the highest rung that it has reached, and gives credit to the next.
func TestASHAGaps(t *testing.T) {
	d := rehearsal.NewDesk(core.Options{Metric: "m", Max: true, Lenient: true}, &sched.ASHA{MaxT: 10, Factor: 2}, 3, rehearsal.Configs(3)...)
	for _, c := range []struct {
		id        core.ID
		iteration int64
		metrics   core.Values
		want      string
	}{
		{0, 5, score(1), "go 0 training_iteration >= 8"},
		{0, 6, score(9), "go 0 training_iteration >= 8"},
		{0, 7, score(9), "go 0 training_iteration >= 8"},
		{1, 1, score(0), "go 1 training_iteration >= 2"}, // rung 1 is empty
		{1, 2, score(0), "go 1 training_iteration >= 4"}, // and so is rung 2
		{1, 4, score(0), "stop 1, complete 1 scheduler"}, // rung 4 has 1, of trial 0 at 5
		{2, 1, core.Values{"x": 1.0}, "go 2 training_iteration >= 1"},
		{0, 10, score(9), "stop 0, complete 0 scheduler"},
	} {
		if got := d.Report(c.id, c.iteration, c.metrics); got != c.want {
			t.Errorf("trial %d at %d: %s, want %s", c.id, c.iteration, got, c.want)
		}
	}
}

// TestASHAPromotes pauses each trial at its rung and lifts the best of it.
func TestASHAPromotes(t *testing.T) {
	d := rehearsal.NewDesk(maximise, &sched.ASHA{MaxT: 4, Factor: 2, Promote: true}, 1, rehearsal.Configs(4)...)
	for i, c := range []struct {
		id   core.ID
		at   int64
		m    float64
		want string
	}{
		{0, 1, 1, "save 0, stop 0, start 1 training_iteration >= 1"},
		{1, 1, 3, "go 1 training_iteration >= 2"}, // one of two, the best
		{1, 2, 3, "save 1, stop 1, start 2 training_iteration >= 1"},
		{2, 1, 0, "save 2, stop 2, start 3 training_iteration >= 1"},
		{3, 1, 2, "go 3 training_iteration >= 2"}, // two of four
		{3, 2, 5, "go 3 training_iteration >= 4"},
		{3, 4, 5, "stop 3, complete 3 scheduler, complete 0 scheduler, complete 1 scheduler, complete 2 scheduler, finish"},
	} {
		if got := d.Report(c.id, c.at, score(c.m)); got != c.want {
			t.Errorf("step %d: %s, want %s", i, got, c.want)
		}
	}
}

// TestHyperBandShape fills brackets of 4, 6, 12 and 27, and halves one of 6.
func TestHyperBandShape(t *testing.T) {
	d := rehearsal.NewDesk(maximise, &sched.HyperBand{MaxT: 27, Factor: 3}, 51, rehearsal.Configs(51)...)
	for id, milestone := range map[core.ID]int{0: 27, 3: 27, 4: 9, 9: 9, 10: 3, 21: 3, 22: 1, 48: 1} {
		if want := fmt.Sprintf("training_iteration >= %d", milestone); !strings.HasSuffix(d.Report(id, 0, score(1)), want) {
			t.Errorf("trial %d is not in the bracket with the milestone %d", id, milestone)
		}
	}
	if said := d.Report(49, 26, score(1)); said != "go 49 training_iteration >= 27" {
		t.Errorf("the fiftieth trial opens a second band: %s", said)
	}
	for id := core.ID(4); id < 9; id++ {
		if d.Report(id, 9, score(float64(id))); d.Core.Trials()[id].Status != core.Paused {
			t.Errorf("trial %d is %s at the milestone, want PAUSED", id, d.Core.Trials()[id].Status)
		}
	}
	if said := d.Report(9, 10, score(9)); !strings.Contains(said, "go 9 training_iteration >= 27") {
		t.Errorf("the last to arrive is one of the best and goes on: %s", said)
	}
	for id, want := range map[core.ID]bool{4: true, 5: true, 6: true, 7: true, 8: false, 9: false} {
		if got := d.Core.Trials()[id]; ended(d, id) != want || got.HasWorker() == want {
			t.Errorf("trial %d is %s %s after the halving, want ended: %v", id, got.Status, got.Phase, want)
		}
	}
	d.Report(8, 27, score(1))
	if ended(d, 8) {
		t.Error("trial 8 ended before the other has reached the last milestone")
	}
	d.Report(9, 27, score(1))
	if !ended(d, 8) || !ended(d, 9) {
		t.Errorf("both end together: %s", d.States())
	}
}

// TestHyperBandLosesTrials halves a bracket although some of its trials end before.
func TestHyperBandLosesTrials(t *testing.T) {
	d := rehearsal.NewDesk(maximise, &sched.HyperBand{MaxT: 27, Factor: 3}, 11, rehearsal.Configs(11)...)
	for id := core.ID(4); id < 9; id++ {
		d.Report(id, 9, score(float64(id)))
	}
	d.Fail(9, core.CauseError)
	running := 0
	for id := core.ID(4); id < 9; id++ {
		if d.Core.Trials()[id].Status == core.Running || d.Core.Trials()[id].Phase == core.Placing {
			running++
		}
	}
	if running != 2 {
		t.Errorf("%d of five go on, want 2: %s", running, d.States())
	}
	d.Fail(8, core.CauseError) // one of the two, after the halving
	d.Report(7, 27, score(1))
	if !ended(d, 7) {
		t.Errorf("the one that is left reaches the end: %s", d.States())
	}
}

// TestHyperBandEnds runs all shapes of brackets with any number of trials and slots to their ends.
func TestHyperBandEnds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		trials, slots := rapid.IntRange(1, 40).Draw(t, "trials"), rapid.IntRange(1, 6).Draw(t, "slots")
		s := &sched.HyperBand{MaxT: float64(rapid.IntRange(1, 30).Draw(t, "max_t")), Factor: float64(rapid.IntRange(2, 5).Draw(t, "factor"))}
		st := stage(core.Options{Metric: "m", Samples: -1, Ahead: rapid.IntRange(0, 3).Draw(t, "ahead"), MaxFailures: 1}, s, trials, slots,
			func(id core.ID, _ core.Values, i int64, attempt int) rehearsal.Step {
				if (int(id)*7+int(i)*3+attempt)%13 == 0 {
					return rehearsal.Step{Error: "it broke"}
				}
				return rehearsal.Step{Metrics: score(float64((int(id)*31 + int(i)) % 17)), Took: time.Second}
			})
		if !st.Run(100_000) {
			t.Fatalf("it has not ended: %v", counts(st.Core))
		}
		if st.Most > slots {
			t.Errorf("%d workers in %d slots", st.Most, slots)
		}
	})
}

func stage(o core.Options, s core.Scheduler, trials, slots int, m rehearsal.Model) *rehearsal.Stage {
	return &rehearsal.Stage{Core: core.New(o, s), Searcher: &search.Variants{Space: space.Space{"x": space.Uniform(0, 1)}, Samples: trials, Seed: o.Seed},
		Model: m, CanSave: true, Slots: slots}
}

func counts(c *core.Core) map[core.Status]int {
	n := map[core.Status]int{}
	for _, t := range c.Trials() {
		n[t.Status]++
	}
	return n
}

// TestMedianRule compares the best of a trial with the median of the others' means.
func TestMedianRule(t *testing.T) {
	fill := func(s *sched.Median) *rehearsal.Desk {
		s.Time = core.IterationKey
		d := rehearsal.NewDesk(maximise, s, 4, rehearsal.Configs(4)...)
		for i := int64(1); i <= 5; i++ {
			d.Report(0, i, score(10))
			d.Report(1, i, score(6))
		}
		return d
	}
	d := fill(&sched.Median{Grace: 1, MinSamples: 2})
	if d.Report(2, 1, score(4)); !ended(d, 2) {
		t.Error("4 is worse than 8, the median of 10 and 6: it ends")
	}
	if d.Report(3, 1, score(8)); ended(d, 3) {
		t.Error("8 is better than 6, the median of 10, 6 and 4: it goes on")
	}
	if d.Report(3, 2, score(1)); ended(d, 3) {
		t.Error("its best, 8, equals the median of 10 and 6: it goes on")
	}
	d = fill(&sched.Median{Grace: 2.5, MinSamples: 2})
	if said := d.Report(2, 2, score(0)); ended(d, 2) || said != "go 2 training_iteration >= 2.5" {
		t.Errorf("within the grace period: %s", said)
	}
	d = fill(&sched.Median{Grace: 1, MinSamples: 3})
	d.Report(2, 1, score(0))
	if ended(d, 2) {
		t.Error("two others are not enough")
	}
}

func pbt(interval float64) *sched.PBT {
	never := 0.0
	return &sched.PBT{Time: core.IterationKey, Interval: interval, Resample: &never, Mutations: space.Space{
		"lr": space.Uniform(.0001, 1), "n": space.RandInt(1, 100), "opt": space.Choice("a", "b", "c")}}
}

// TestPBTDecision has the worst of four take over the best.
func TestPBTDecision(t *testing.T) {
	var configs []core.Values
	for range 4 {
		configs = append(configs, core.Values{"lr": .9, "n": int64(10), "opt": "a", "other": "x"})
	}
	d := rehearsal.NewDesk(maximise, pbt(5), 4, configs...)
	for i, c := range []struct {
		score float64
		want  string
	}{
		{2, "go 0 training_iteration >= 10"}, {3, "save 1, go 1 training_iteration >= 10"}, {4, "save 2, go 2 training_iteration >= 10"},
		{1, "stop 3, start 3 from t00002/checkpoint_001_000001 training_iteration >= 10"},
	} {
		if got := d.Report(core.ID(i), 5, score(c.score)); got != c.want {
			t.Errorf("score %g: %s, want %s", c.score, got, c.want)
		}
	}
	loser := d.Core.Trials()[3]
	lr, n, opt := loser.Config["lr"].(float64), loser.Config["n"].(int64), loser.Config["opt"]
	if lr != 1 && math.Abs(lr-.72) > 1e-12 || n != 12 && n != 8 || opt != "a" && opt != "b" || loser.Config["other"] != "x" {
		t.Errorf("the configuration is %v", loser.Config)
	}
	if !strings.HasPrefix(loser.Tag, "@perturbed[lr=") {
		t.Errorf("the tag is %s", loser.Tag)
	}
	for i := int64(6); i <= 9; i++ {
		if said := d.Report(3, i, score(0)); !strings.HasPrefix(said, "go 3") {
			t.Errorf("at %d it is not judged: %s", i, said)
		}
	}
}

// TestPBTQuantiles counts how many trials are at each end.
func TestPBTQuantiles(t *testing.T) {
	for _, c := range []struct {
		n     int
		q     float64
		wants int // trials that take over another when all have reported, the worst last
	}{{5, .25, 2}, {3, .5, 1}, {1, .25, 0}, {4, .25, 1}} {
		s := pbt(5)
		s.Quantile = c.q
		d := rehearsal.NewDesk(maximise, s, c.n, rehearsal.Configs(c.n)...)
		for i := range c.n {
			d.Report(core.ID(i), 5, score(float64(c.n-i)))
		}
		took := 0
		for i := range c.n { // the order of the first round is known to all in the second
			if said := d.Report(core.ID(i), 10, score(float64(c.n-i))); strings.Contains(said, "from") {
				took++
			}
		}
		if took != c.wants {
			t.Errorf("%d trials, quantile %g: %d take over, want %d", c.n, c.q, took, c.wants)
		}
	}
	d := rehearsal.NewDesk(maximise, pbt(5), 4, rehearsal.Configs(4)...)
	for i, x := range []float64{1, 2, 3, math.NaN()} {
		if said := d.Report(core.ID(i), 5, score(x)); i == 3 && said != "go 3 training_iteration >= 10" {
			t.Errorf("a NaN is in neither quantile: %s", said)
		}
	}
}

// TestMoreTrialsThanSlots has four trials take turns in two slots.
func TestMoreTrialsThanSlots(t *testing.T) {
	progress := map[core.ID]int64{}
	st := stage(core.Options{Metric: "m", Max: true, Samples: 4, Ahead: 4, Stop: []core.Condition{{Key: core.IterationKey, Value: 6}}}, pbt(2), 4, 2,
		func(id core.ID, _ core.Values, i int64, _ int) rehearsal.Step {
			return rehearsal.Step{Metrics: score(float64(id)), Took: time.Second}
		})
	st.Each = func(e *core.Event, _ []core.Action) {
		for _, r := range e.Results {
			progress[e.Trial] = r.Iteration
		}
		if len(progress) < 4 {
			return
		}
		low, high := int64(6), int64(0)
		for _, n := range progress {
			low, high = min(low, n), max(high, n)
		}
		if high-low > 4 {
			t.Errorf("the trials are %v apart", progress)
		}
	}
	if !st.Run(10_000) || fmt.Sprint(progress) != "map[0:6 1:6 2:6 3:6]" {
		t.Errorf("all end at 6: %v", progress)
	}
}

// TestBadValues gives each scheduler what is no number, and finds that all trials end.
func TestBadValues(t *testing.T) {
	bad := []any{math.NaN(), math.Inf(1), math.Inf(-1), "text", nil, int64(3), true}
	for name, s := range map[string]func() core.Scheduler{
		"fifo": func() core.Scheduler { return core.FIFO{} }, "asha": func() core.Scheduler { return &sched.ASHA{MaxT: 8, Factor: 2} },
		"promotion": func() core.Scheduler { return &sched.ASHA{MaxT: 8, Factor: 2, Promote: true} },
		"hyperband": func() core.Scheduler { return &sched.HyperBand{MaxT: 9} },
		"median":    func() core.Scheduler { return &sched.Median{Time: core.IterationKey, Grace: 1} }, "pbt": func() core.Scheduler { return pbt(2) },
	} {
		for _, lenient := range []bool{false, true} {
			st := stage(core.Options{Metric: "m", Max: true, Samples: 14, Lenient: lenient, Stop: []core.Condition{{Key: core.IterationKey, Value: 8}}}, s(), 14, 3,
				func(id core.ID, _ core.Values, i int64, _ int) rehearsal.Step {
					m := core.Values{"m": bad[(int(id)+int(i))%len(bad)]}
					if m["m"] == nil {
						m = core.Values{"x": 1.0}
					}
					return rehearsal.Step{Metrics: m, Took: time.Second}
				})
			if !st.Run(10_000) {
				t.Errorf("%s, lenient %v: it has not ended: %v", name, lenient, counts(st.Core))
			}
			if n := counts(st.Core); lenient && n[core.Errored] > 0 || !lenient && name == "fifo" && n[core.Errored] != 14 {
				t.Errorf("%s, lenient %v: %v", name, lenient, n)
			}
		}
	}
}
