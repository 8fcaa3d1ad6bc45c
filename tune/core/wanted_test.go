package core_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/cascade-run/cascade/tune/core"
	"github.com/cascade-run/cascade/tune/rehearsal"
	"github.com/cascade-run/cascade/tune/sched"
)

// TestMetricsOfRules tells of a rule whose metric no trial has reported, once, and not any more when one has.
func TestMetricsOfRules(t *testing.T) {
	const loss = "; the metrics of first results: acc, loss"
	first := core.Values{"loss": 1.0, "acc": "high"}
	for _, c := range []struct {
		name      string
		o         core.Options
		s         core.Scheduler
		said      string
		want      []string // that is missing behind the first result
		later     core.Values
		afterward int // how many are missing behind later ones
	}{
		{"none", core.Options{Metric: "loss", Stop: []core.Condition{{Key: "loss", Value: 9}, {Key: core.IterationKey, Value: 9}, {Key: core.TimeKey, Value: 99}}}, nil, "go 0", nil, first, 0},
		{"stop", core.Options{Stop: []core.Condition{{Key: "los", Value: 9}}}, nil, "warn 0, go 0",
			[]string{`stop names the metric "los", which no result has had as a number (did you mean "loss"?)` + loss}, first, 1},
		{"one that comes later", core.Options{Stop: []core.Condition{{Key: "score", Value: 9}}}, nil, "warn 0, go 0",
			[]string{`stop names the metric "score", which no result has had as a number` + loss}, core.Values{"score": 1.0}, 0},
		{"a text", core.Options{Stop: []core.Condition{{Key: "acc", Value: 9}}}, nil, "warn 0, go 0",
			[]string{`stop names the metric "acc", which no result has had as a number` + loss}, first, 1},
		{"the target of a lenient experiment", core.Options{Metric: "lss", Lenient: true}, nil, "warn 0, go 0",
			[]string{`the experiment names the metric "lss", which no result has had as a number (did you mean "loss"?)` + loss}, first, 1},
		{"time of a scheduler, and the rule of checkpoints", core.Options{KeepBy: "val/loss", Metric: "loss"}, &sched.ASHA{Time: "epoch"}, "warn 0, go 0",
			[]string{`the scheduler names the metric "epoch", which no result has had as a number` + loss,
				`the rule of checkpoints names the metric "val/loss", which no result has had as a number` + loss}, core.Values{"loss": 1.0, "epoch": 2.0}, 1},
		{"a searcher", core.Options{Metric: "loss", SearcherMetric: "losss"}, nil, "warn 0, go 0",
			[]string{`the searcher names the metric "losss", which no result has had as a number (did you mean "loss"?)` + loss}, first, 1},
		{"a stopper", core.Options{Stopper: core.Any{&core.TrialPlateau{Metric: "acc2"}}}, nil, "warn 0, go 0",
			[]string{`the stopper names the metric "acc2", which no result has had as a number (did you mean "acc"?)` + loss}, first, 1},
	} {
		d := rehearsal.NewDesk(c.o, c.s, 2, rehearsal.Configs(2)...)
		if before := d.Core.Missing(); before != nil {
			t.Errorf("%s: it says %q before there is a result", c.name, before)
		}
		if said := d.Report(0, 1, first); !strings.HasPrefix(said, c.said) {
			t.Errorf("%s: %s, want %s", c.name, said, c.said)
		}
		if got := d.Core.Missing(); !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
		for _, r := range []core.Values{first, c.later} {
			if said := d.Report(1, int64(len(d.Core.Trials()[1].Scores)+1), r); strings.Contains(said, "warn") {
				t.Errorf("%s: it is told twice: %s", c.name, said)
			}
		}
		if got := d.Core.Missing(); len(got) != c.afterward {
			t.Errorf("%s: later it says %q", c.name, got)
		}
		if err := d.Core.Check(); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

// TestMetricsOfStrictRules has a trial of a strict experiment end with an error when its first result lacks a metric.
func TestMetricsOfStrictRules(t *testing.T) {
	d := rehearsal.NewDesk(core.Options{Strict: true, Stop: []core.Condition{{Key: "los", Value: 9}}}, nil, 2, rehearsal.Configs(2)...)
	if said := d.Report(0, 1, core.Values{"loss": 1.0}); said != "stop 0, complete 0 error" {
		t.Error(said)
	}
	const want = `stop names the metric "los", which result 1 has not as a number (did you mean "loss"?); the metrics of first results: loss`
	if got := d.Core.Trials()[0].Error; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	d.Report(1, 1, core.Values{"los": 1.0})
	if said := d.Report(1, 2, core.Values{"loss": 1.0}); said != "go 1 1 reports" {
		t.Errorf("a later result without it: %s", said)
	}
}
