package core_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
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

// TestTransitions tells a trial's life event by event.
func TestTransitions(t *testing.T) {
	m := func(x float64) core.Values { return core.Values{"m": x} }
	type step struct {
		do   func(d *rehearsal.Desk) string
		want string
	}
	report := func(id core.ID, i int64, x float64) func(*rehearsal.Desk) string {
		return func(d *rehearsal.Desk) string { return d.Report(id, i, m(x)) }
	}
	exit := func(id core.ID, cause string) func(*rehearsal.Desk) string {
		return func(d *rehearsal.Desk) string { return d.Fail(id, cause) }
	}
	order := func(what string, id core.ID, n int) func(*rehearsal.Desk) string {
		return func(d *rehearsal.Desk) string {
			return d.Step(core.Event{Kind: core.Ordered, Order: what, Trial: id, N: n})
		}
	}
	states := func(d *rehearsal.Desk) string { return d.States() }
	for _, c := range []struct {
		name   string
		o      core.Options
		slots  int
		trials int
		steps  []step
	}{
		{"a failure beyond the bound is the end", core.Options{}, 1, 2, []step{
			{exit(0, core.CauseError), "complete 0 error, start 1 to the end"}, {states, "ERRORED PENDING"}}},
		{"a failure within it is a restart from the newest checkpoint", core.Options{MaxFailures: 1, Every: 1}, 1, 1, []step{
			{report(0, 1, 1), "save 0, go 0 1 reports"}, {report(0, 2, 1), "save 0, go 0 1 reports"},
			{exit(0, core.CauseError), "recover 0, start 0 from t00000/checkpoint_001_000002 1 reports"},
			{exit(0, core.CauseError), "complete 0 error, finish"}}},
		{"a checkpoint that cannot be loaded gives way to the one before", core.Options{MaxFailures: 0, Every: 1}, 1, 1, []step{
			{report(0, 1, 1), "save 0, go 0 1 reports"}, {report(0, 2, 1), "save 0, go 0 1 reports"},
			{exit(0, core.CauseLost), "recover 0, start 0 from t00000/checkpoint_001_000002 1 reports"},
			{exit(0, core.CauseRestore), "delete t00000/checkpoint_001_000002, recover 0, start 0 from t00000/checkpoint_001_000001 1 reports"},
			{exit(0, core.CauseRestore), "complete 0 error, finish"}}},
		{"a lost host is no failure, and goes before new trials", core.Options{Every: 2}, 1, 2, []step{
			{report(0, 2, 1), "save 0, go 0 2 reports"}, {exit(0, core.CauseLost), "recover 0, start 0 from t00000/checkpoint_001_000001 2 reports"}, {states, "PENDING PENDING"}}},
		{"a stop condition ends a trial before the scheduler is asked", core.Options{Stop: []core.Condition{{Key: "m", Value: 3}}}, 1, 1, []step{
			{report(0, 1, 2), "go 0 m >= 3"}, {report(0, 2, 3), "stop 0, complete 0 done, finish"}}},
		{"a trial is saved at its end", core.Options{AtEnd: true, Stop: []core.Condition{{Key: "m", AtMost: true, Value: 1}}}, 1, 1, []step{
			{report(0, 1, .5), "save 0, stop 0, complete 0 done, finish"}}},
		{"a user stops a trial that runs, and one that waits", core.Options{}, 1, 2, []step{
			{order(core.OrderStopTrial, 1, 0), "complete 1 order"}, {report(0, 1, 1), "go 0 to the end"}, {order(core.OrderStopTrial, 0, 0), "stop 0, complete 0 order, finish"},
			{order(core.OrderStopTrial, 7, 0), ""}}},
		{"a user stops the experiment", core.Options{}, 1, 2, []step{{order(core.OrderStop, 0, 0), "stop 0, complete 1 order, complete 0 order, finish"}}},
		{"more slots start more trials", core.Options{}, 1, 3, []step{{order(core.OrderSlots, 0, 2), "start 1 to the end"}}},
		{"the first error ends all", core.Options{FailFast: true}, 2, 3, []step{
			{exit(1, core.CauseError), "complete 1 error, stop 0, complete 2 order, complete 0 order, finish"}}},
		{"a result without the metric is an error of its trial alone", core.Options{Metric: "loss", MaxFailures: 3}, 2, 2, []step{
			{report(0, 1, 1), "stop 0, complete 0 error"}, {states, "ERRORED PENDING"}}},
		{"strict: a decision for each result", core.Options{Strict: true, Stop: []core.Condition{{Key: "m", Value: 3}}}, 1, 1, []step{{report(0, 1, 1), "go 0 1 reports"}}},
		{"the budget ends all", core.Options{Budget: 10 * time.Second}, 1, 2, []step{
			{func(d *rehearsal.Desk) string { return d.Step(core.Event{Kind: core.Ticked, At: 9 * time.Second}) }, ""},
			{func(d *rehearsal.Desk) string { return d.Step(core.Event{Kind: core.Ticked, At: 10 * time.Second}) }, "stop 0, complete 1 order, complete 0 order, finish"}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := rehearsal.NewDesk(c.o, nil, c.slots, rehearsal.Configs(c.trials)...)
			for i, s := range c.steps {
				if got := s.do(d); got != s.want {
					t.Errorf("step %d: %s, want %s", i, got, s.want)
				}
				if err := d.Core.Check(); err != nil {
					t.Errorf("step %d: %v", i, err)
				}
			}
		})
	}
}

// TestLateMessages has a worker of an older attempt, and results that came before, change nothing.
func TestLateMessages(t *testing.T) {
	d := rehearsal.NewDesk(core.Options{MaxFailures: 1}, nil, 1, core.Values{})
	result := []core.Result{{Iteration: 1, Metrics: core.Values{"m": 1.0}}}
	for i, c := range []struct {
		e    core.Event
		want int // results
	}{
		{core.Event{Kind: core.Reported, Attempt: 1, Seq: 1, Results: result}, 1},
		{core.Event{Kind: core.Reported, Attempt: 1, Seq: 1, Results: result}, 1},
		{core.Event{Kind: core.Exited, Attempt: 1, Cause: core.CauseError}, 0},
		{core.Event{Kind: core.Reported, Attempt: 1, Seq: 2, Results: result}, 0},
		{core.Event{Kind: core.Exited, Attempt: 1, Cause: core.CauseError}, 0},
		{core.Event{Kind: core.Saved, Attempt: 1, Name: "x"}, 0},
		{core.Event{Kind: core.Reported, Trial: 9, Attempt: 1, Results: result}, 0},
		{core.Event{Kind: core.Reported, Attempt: 2, Seq: 1, Results: result}, 1},
	} {
		d.Step(c.e)
		if trial := d.Core.Trials()[0]; len(trial.Scores) != c.want || trial.Failures > 1 {
			t.Errorf("step %d: %d results, %d failures", i, len(trial.Scores), trial.Failures)
		}
	}
}

// diary is a searcher and a stopper that write down what they hear.
type diary struct {
	search.Variants
	heard map[core.ID][]string
}

func (d *diary) Result(id core.ID, r *core.Result) {
	d.heard[id] = append(d.heard[id], fmt.Sprint(r.Iteration))
}

func (d *diary) Complete(id core.ID, last *core.Result, how core.End) {
	at := "-"
	if last != nil {
		at = fmt.Sprint(last.Iteration)
	}
	d.heard[id] = append(d.heard[id], string(how)+" at "+at)
}

func stage(o core.Options, s core.Scheduler, samples, slots int, m rehearsal.Model) (*rehearsal.Stage, *diary) {
	d := &diary{search.Variants{Space: space.Space{"x": space.Uniform(0, 1)}, Samples: samples}, map[core.ID][]string{}}
	o.Samples = -1
	return &rehearsal.Stage{Core: core.New(o, s), Searcher: d, Model: m, CanSave: true, Slots: slots}, d
}

// TestRetries counts failures, and shows each result once.
func TestRetries(t *testing.T) {
	for _, c := range []struct {
		max, every int
		failures   int
		iterations string
		heard      string
	}{
		{0, 1, 1, "[1 2]", "[1 2 error at 2]"},
		{2, 1, 3, "[1 2]", "[1 2 error at 2]"},
		{2, 0, 3, "[1 2]", "[1 2 1 2 1 2 error at 2]"},
	} {
		st, d := stage(core.Options{MaxFailures: c.max, Every: c.every}, nil, 1, 1, func(_ core.ID, _ core.Values, i int64, _ int) rehearsal.Step {
			if i == 3 {
				return rehearsal.Step{Error: "boom"}
			}
			return rehearsal.Step{Metrics: core.Values{"m": float64(i)}}
		})
		if !st.Run(100) {
			t.Fatal("it has not ended")
		}
		trial := st.Core.Trials()[0]
		if trial.Failures != c.failures || trial.Status != core.Errored || trial.Error != "boom" {
			t.Errorf("max_failures %d: %d failures, %s, %s", c.max, trial.Failures, trial.Status, trial.Error)
		}
		if got := fmt.Sprint(trial.Iterations); got != c.iterations {
			t.Errorf("max_failures %d, a checkpoint each %d: the history is %s, want %s", c.max, c.every, got, c.iterations)
		}
		if got := fmt.Sprint(d.heard[0]); got != c.heard {
			t.Errorf("max_failures %d, a checkpoint each %d: the searcher heard %s, want %s", c.max, c.every, got, c.heard)
		}
	}
}

// TestWhatSearchersHear has each trial end exactly once for the searcher, however it ends.
func TestWhatSearchersHear(t *testing.T) {
	steps := func(id core.ID, _ core.Values, i int64, _ int) rehearsal.Step {
		if id == 1 && i == 2 {
			return rehearsal.Step{Error: "boom"}
		}
		return rehearsal.Step{Metrics: core.Values{"m": float64(-id)}, Took: time.Second, Done: id == 0 && i == 3}
	}
	st, d := stage(core.Options{Metric: "m", Max: true, Budget: 7 * time.Second, Ahead: 2}, &sched.ASHA{MaxT: 100, Factor: 2, Grace: 2}, 6, 2, steps)
	if !st.Run(1000) {
		t.Fatal("it has not ended")
	}
	want := map[core.ID]string{0: "[1 2 3 done at 3]", 1: "[1 error at 1]", 2: "[1 2 scheduler at 2]", 3: "[1 2 scheduler at 2]", 4: "[1 2 scheduler at 2]", 5: "[1 2 scheduler at 2]"}
	got := map[core.ID]string{}
	for id, h := range d.heard {
		got[id] = fmt.Sprint(h)
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("the searcher heard %v, want %v", got, want)
	}
}

// TestSearcherErrors ends the experiment with the searcher's words, and what runs is stopped.
func TestSearcherErrors(t *testing.T) {
	st := &rehearsal.Stage{Core: core.New(core.Options{Samples: -1}, nil), Searcher: &broken{}, Slots: 1}
	if !st.Run(10) || !strings.Contains(st.Core.Halted(), "trial 0: no model") {
		t.Errorf("it ended with %q", st.Core.Halted())
	}
}

type broken struct{ search.Variants }

func (*broken) Suggest(core.ID) (core.Values, error) { return nil, errors.New("no model") }

// TestRetention keeps the best checkpoints and the newest.
func TestRetention(t *testing.T) {
	for _, c := range []struct {
		o    core.Options
		m    []float64
		want []int
	}{
		{core.Options{Keep: 2}, []float64{5, 1, 9, 2}, []int{3, 4}},
		{core.Options{Keep: 2, KeepBy: "m"}, []float64{5, 1, 9, 2}, []int{1, 3, 4}},
		{core.Options{Keep: 1, KeepBy: "m", KeepMin: true}, []float64{5, 1, 9, 2}, []int{2, 4}},
		{core.Options{Keep: 1, KeepBy: "m"}, []float64{math.NaN(), 1, math.NaN(), 1}, []int{4}}, // equal: the later is better
		{core.Options{Keep: 1, KeepBy: "missing"}, []float64{1, 2, 3}, []int{3}},
		{core.Options{}, []float64{1, 2, 3}, []int{1, 2, 3}},
	} {
		c.o.Every = 1
		d := rehearsal.NewDesk(c.o, nil, 1, core.Values{})
		for i, m := range c.m {
			d.Report(0, int64(i+1), core.Values{"m": m})
		}
		var kept []int
		for _, p := range d.Core.Trials()[0].Checkpoints {
			kept = append(kept, int(p.Iteration))
		}
		if !slices.Equal(kept, c.want) {
			t.Errorf("keep %d by %q of %v: %v, want %v", c.o.Keep, c.o.KeepBy, c.m, kept, c.want)
		}
	}
}

// TestStoppers ends trials that have settled, and an experiment whose best have.
func TestStoppers(t *testing.T) {
	p := &core.TrialPlateau{Metric: "m", Results: 3, Grace: 4}
	for i, x := range []float64{.5, .505, .5, .5} {
		if yes, _ := p.Stop(0, &core.Result{Metrics: core.Values{"m": x}}); yes != (i == 3) {
			t.Errorf("result %d: %v", i+1, yes)
		}
	}
	for patience, at := range map[int]int{0: 3, 2: 4} {
		e := core.Any{&core.ExperimentPlateau{Metric: "m", Top: 3, Patience: patience}, &core.TrialPlateau{Metric: "m"}}
		for i := 1; i <= at; i++ {
			if yes, why := e.Stop(core.ID(i), &core.Result{Metrics: core.Values{"m": 1.0}}); yes {
				t.Errorf("it stops trial %d: %s", i, why)
			}
			if yes, _ := e.StopAll(); yes != (i == at) {
				t.Errorf("patience %d: at result %d: %v", patience, i, yes)
			}
		}
	}
}

// TestValues writes values and reads them.
func TestValues(t *testing.T) {
	v := core.Values{"whole": int64(8), "float": 8.0, "big": 1e300, "text": "a\"b", "yes": true, "none": nil, "list": []any{int64(1), 2.5}, "map": map[string]any{"inf": math.Inf(-1)}}
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	var got core.Values
	if err := json.Unmarshal(b, &got); err != nil || !reflect.DeepEqual(got, v) {
		t.Errorf("%s is read as %v, %v", b, got, err)
	}
	var nan core.Values
	if b, err = json.Marshal(core.Values{"x": math.NaN(), "y": math.Inf(1)}); err != nil || json.Unmarshal(b, &nan) != nil || !math.IsNaN(nan["x"].(float64)) || nan["y"] != math.Inf(1) {
		t.Errorf("%s is read as %v, %v", b, nan, err)
	}
	if _, err := json.Marshal(core.Values{"f": struct{}{}}); err == nil || !strings.Contains(err.Error(), "use numbers") {
		t.Errorf("a struct: %v", err)
	}
	if got := (core.Values{"a": map[string]any{"b": 1.0}, "c": 2.0}).Flat(); !reflect.DeepEqual(got, core.Values{"a/b": 1.0, "c": 2.0}) {
		t.Errorf("flat: %v", got)
	}
}

// TestText writes values for people.
func TestText(t *testing.T) {
	for want, x := range map[string]any{"null": nil, "a b": "a b", `[1,2.0,"x",null]`: []any{int64(1), 2.0, "x", nil}, `{"a":1}`: map[string]any{"a": int64(1)}, "true": true, "0.5": .5, "NaN": math.NaN()} {
		if got := core.Text(x); got != want {
			t.Errorf("%v is written %s, want %s", x, got, want)
		}
	}
}

// schedulers are fresh ones for random experiments.
func schedulers(which int) core.Scheduler {
	switch which {
	case 1:
		return &sched.ASHA{MaxT: 9, Factor: 3}
	case 2:
		return &sched.ASHA{MaxT: 9, Factor: 3, Promote: true}
	case 3:
		return &sched.HyperBand{MaxT: 9}
	case 4:
		return &sched.Median{Time: core.IterationKey, Grace: 2, MinSamples: 2}
	case 5:
		return &sched.PBT{Time: core.IterationKey, Interval: 2, Mutations: space.Space{"x": space.Uniform(0, 1)}}
	}
	return core.FIFO{}
}

// TestRandomExperiments runs experiments with failures, lost hosts and crashed runners, and checks the state after each
// event. A core that is given the same events does the same, and an experiment that is resumed after a crash ends.
func TestRandomExperiments(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		which := rapid.IntRange(0, 5).Draw(t, "scheduler")
		o := core.Options{Metric: "m", Samples: -1, Seed: rapid.Int64Range(0, 99).Draw(t, "seed"), Ahead: rapid.IntRange(0, 3).Draw(t, "ahead"),
			MaxFailures: rapid.IntRange(-1, 3).Draw(t, "max_failures"), Keep: rapid.IntRange(0, 2).Draw(t, "keep"), Every: rapid.IntRange(0, 3).Draw(t, "every"),
			AtEnd: rapid.Bool().Draw(t, "at end"), Strict: rapid.Bool().Draw(t, "strict"), Stop: []core.Condition{{Key: core.IterationKey, Value: 9}}}
		faults, noise := rapid.IntRange(0, 12).Draw(t, "faults"), rapid.IntRange(1, 1000).Draw(t, "noise")
		attempts := map[core.ID]int{}
		st, heard := stage(o, schedulers(which), rapid.IntRange(1, 12).Draw(t, "trials"), rapid.IntRange(1, 4).Draw(t, "slots"), nil)
		st.CanSave = rapid.Bool().Draw(t, "can save")
		st.SaveTime = time.Duration(rapid.IntRange(0, 3).Draw(t, "save")) * time.Second
		st.Model = func(id core.ID, _ core.Values, i int64, attempt int) rehearsal.Step {
			attempts[id] = max(attempts[id], attempt)
			h := (int(id)*7919 + int(i)*104729 + attempt*1299709) * noise % 1000
			step := rehearsal.Step{Metrics: core.Values{"m": float64(h)}, Took: time.Duration(h%5) * time.Second, Checkpoint: !st.CanSave && h%3 == 0}
			if attempt < 8 && h%100 < faults { // in the end it succeeds
				step.Error, step.Lost = "boom", h%2 == 0
			}
			return step
		}
		var actions [][]core.Action
		st.Each = func(e *core.Event, a []core.Action) {
			actions = append(actions, a)
			if err := st.Core.Check(); err != nil {
				t.Fatalf("after %+v: %v", *e, err)
			}
		}
		o.Samples = -1
		for range rapid.IntRange(0, 2).Draw(t, "crashes") {
			st.Run(rapid.IntRange(1, 60).Draw(t, "events"))
			st.Crash(core.New(o, schedulers(which)), core.Redo{})
		}
		if !st.Run(20_000) {
			t.Fatalf("it has not ended")
		}
		again := core.New(o, schedulers(which))
		for i := range st.Events {
			e := st.Events[i]
			got := again.Step(&e)
			if a, b := text(got), text(actions[i]); a != b {
				t.Fatalf("event %d, %+v: %s the second time, %s the first", i, e, a, b)
			}
		}
		for _, trial := range st.Core.Trials() {
			if h := heard.heard[trial.ID]; len(h) == 0 || strings.Count(strings.Join(h, " "), "at") != 1 || !strings.Contains(h[len(h)-1], "at") {
				t.Fatalf("the searcher heard %v of trial %d", h, trial.ID)
			}
		}
	})
}

func text(a []core.Action) string {
	b, err := json.Marshal(a)
	if err != nil {
		return err.Error()
	}
	return string(b)
}
