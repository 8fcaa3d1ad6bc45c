package core

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/cascade-run/cascade/internal/near"
)

// Reader is a Scheduler or a Stopper that reads metrics of results besides the experiment's.
type Reader interface {
	// Reads returns their names. An empty one is ignored.
	Reads() []string
}

// wanted is which metrics the rules name that no result has had. A rule whose metric never comes does nothing.
type wanted struct {
	missing []want          // in the order of the rules
	names   map[string]bool // metrics of the first results of trials
	told    bool            // of the first result of the first trial
}

type want struct{ by, key string }

func newWanted(o *Options, s Scheduler) *wanted {
	w := &wanted{names: map[string]bool{}}
	add := func(by string, keys ...string) {
		for _, k := range keys {
			if k != "" && !slices.ContainsFunc(w.missing, func(m want) bool { return m.key == k }) {
				w.missing = append(w.missing, want{by, k})
			}
		}
	}
	if o.Lenient { // else a result without it is an error of its trial
		add("the experiment", o.Metric)
	}
	add("the searcher", o.SearcherMetric)
	for _, c := range o.Stop {
		add("stop", c.Key)
	}
	if r, ok := s.(Reader); ok {
		add("the scheduler", r.Reads()...)
	}
	if r, ok := o.Stopper.(Reader); ok {
		add("the stopper", r.Reads()...)
	}
	add("the rule of checkpoints", o.KeepBy)
	return w
}

// see takes in a result, and returns what to tell about it: once, behind the first of the first trial.
func (w *wanted) see(r *Result, first bool) string {
	if len(w.missing) == 0 {
		return ""
	}
	if first {
		for k := range r.Metrics {
			w.names[k] = true
		}
	}
	w.missing = slices.DeleteFunc(w.missing, func(m want) bool { _, ok := r.Value(m.key); return ok })
	if w.told || !first {
		return ""
	}
	w.told = true
	return strings.Join(w.says(), "; ")
}

// says tells what is missing, when there are results.
func (w *wanted) says() (all []string) {
	if !w.told {
		return nil
	}
	names := slices.Sorted(maps.Keys(w.names))
	for _, m := range w.missing {
		all = append(all, m.says("no result has had as a number", names))
	}
	return all
}

func (m want) says(how string, names []string) string {
	has := strings.Join(names, ", ")
	if has == "" {
		has = "none"
	}
	return fmt.Sprintf("%s names the metric %q, which %s%s; the metrics of first results: %s", m.by, m.key, how, meant(m.key, names), has)
}

// lacking says which metric of a rule the first result of a trial has not.
func (w *wanted) lacking(r *Result) string {
	for _, m := range w.missing {
		if _, ok := r.Value(m.key); !ok {
			return m.says(fmt.Sprintf("result %d has not as a number", r.Iteration), slices.Sorted(maps.Keys(r.Metrics)))
		}
	}
	return ""
}

func meant(name string, known []string) string {
	if meant := near.Name(name, known); meant != "" && meant != name {
		return fmt.Sprintf(" (did you mean %q?)", meant)
	}
	return ""
}

// check says what is wrong with the state, for tests.
func (w *wanted) check() error {
	if len(w.names) > 0 && !w.told {
		return fmt.Errorf("there are first results, and nothing was told of their metrics")
	}
	return nil
}
