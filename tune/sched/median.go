package sched

import (
	"fmt"
	"math"
	"slices"
	"sort"

	"github.com/cascade-run/cascade/tune/core"
)

// Median ends a trial whose best score is worse than the median of the others' means at the same age.
type Median struct {
	Time       string  `json:"time_attr,omitempty"`            // what age is; the default is core.TimeKey
	Grace      float64 `json:"grace_period,omitempty"`         // younger trials are not judged, and younger results do not count; the default is 60
	MinSamples int     `json:"min_samples_required,omitempty"` // other trials that have the age; the default is 3

	core.Default
	of    map[core.ID]*history
	order []core.ID
}

// history is what a trial has reported, by age.
type history struct {
	ages, sums []float64 // sums of the scores up to that age, from the grace period on
	counts     []int     // and how many
	best       []float64
	results    []int // number of the result in the trial's history
}

func (s *Median) ready() {
	if s.of == nil {
		s.of = map[core.ID]*history{}
		if s.Time == "" {
			s.Time = core.TimeKey
		}
		defaults(&s.Grace, 60)
		if s.MinSamples == 0 {
			s.MinSamples = 3
		}
	}
}

// Reads is what age is; empty: the default, which each result has.
func (s *Median) Reads() []string { return []string{s.Time} }

// Add begins the history of a trial.
func (s *Median) Add(_ *core.Board, t *core.Trial) {
	s.ready()
	if s.of[t.ID] == nil {
		s.order = append(s.order, t.ID)
		s.of[t.ID] = &history{}
	}
}

// Rewind drops what is trained again.
func (s *Median) Rewind(_ *core.Board, t *core.Trial, n int) {
	h := s.of[t.ID]
	k := sort.SearchInts(h.results, n+1)
	h.ages, h.sums, h.counts, h.best, h.results = h.ages[:k], h.sums[:k], h.counts[:k], h.best[:k], h.results[:k]
}

func (h *history) add(age, score, grace float64, result int, best float64) {
	sum, n := 0.0, 0
	if k := len(h.ages); k > 0 {
		sum, n = h.sums[k-1], h.counts[k-1]
	}
	if age >= grace {
		sum, n = sum+score, n+1
	}
	h.ages, h.sums, h.counts, h.best = append(h.ages, age), append(h.sums, sum), append(h.counts, n), append(h.best, best)
	h.results = append(h.results, result)
}

// mean returns the mean of the scores from the grace period to an age that the trial has reached.
func (h *history) mean(age float64) (float64, bool) {
	k := len(h.ages)
	if k == 0 || h.ages[k-1] < age {
		return 0, false
	}
	k = sort.Search(k, func(i int) bool { return h.ages[i] > age })
	if k == 0 || h.counts[k-1] == 0 {
		return 0, false
	}
	m := h.sums[k-1] / float64(h.counts[k-1])
	return m, !math.IsNaN(m)
}

// Result judges the trial.
func (s *Median) Result(b *core.Board, t *core.Trial, r *core.Result) core.Decision {
	age, ok := r.Value(s.Time)
	score, known := b.Metric(r)
	if !ok || !known {
		return core.Decision{}
	}
	h, best := s.of[t.ID], score
	if k := len(h.best); k > 0 && !b.Better(score, h.best[k-1]) {
		best = h.best[k-1]
	}
	h.add(age, score, s.Grace, len(t.Scores), best)
	if age < s.Grace {
		return core.Decision{}
	}
	var means []float64
	for _, id := range s.order {
		if id == t.ID {
			continue
		}
		if m, ok := s.of[id].mean(age); ok {
			means = append(means, m)
		}
	}
	if len(means) < s.MinSamples {
		return core.Decision{}
	}
	slices.Sort(means)
	if m := percentile(means, .5); b.Better(m, best) {
		return core.Decision{Verdict: core.Terminate, Reason: fmt.Sprintf("its best score %g is worse than the median %g of %d others at %s %g", best, m, len(means), s.Time, age)}
	}
	return core.Decision{}
}

// Credit is until the end of the grace period, and then one report.
func (s *Median) Credit(_ *core.Board, t *core.Trial) core.Credit {
	s.ready()
	h := s.of[t.ID]
	if k := len(h.ages); k > 0 && h.ages[k-1] >= s.Grace {
		return core.Credit{Reports: 1}
	}
	return core.Credit{Until: []core.Condition{{Key: s.Time, Value: s.Grace}}}
}
