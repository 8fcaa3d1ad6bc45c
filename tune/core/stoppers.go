package core

import (
	"fmt"
	"math"
	"slices"
)

// TrialPlateau is a Stopper that ends a trial whose metric does not change any more: the standard deviation of its
// last Results values is below Deviation.
type TrialPlateau struct {
	Metric    string
	Deviation float64 // 0: 0.01
	Results   int     // 0: 4
	Grace     int     // results before it begins; 0: 4

	seen   map[ID]int
	recent map[ID][]float64
}

// Stop tells whether the metric of the trial has settled.
func (p *TrialPlateau) Stop(id ID, r *Result) (bool, string) {
	if p.seen == nil {
		p.seen, p.recent = map[ID]int{}, map[ID][]float64{}
		p.Deviation, p.Results, p.Grace = or(p.Deviation, .01), or(p.Results, 4), or(p.Grace, 4)
	}
	p.seen[id]++
	x, ok := r.Value(p.Metric)
	if !ok {
		return false, ""
	}
	last := append(p.recent[id], x)
	last = last[max(0, len(last)-p.Results):]
	p.recent[id] = last
	if p.seen[id] < p.Grace || len(last) < p.Results {
		return false, ""
	}
	d := deviation(last)
	return d < p.Deviation, fmt.Sprintf("its last %d values of %s deviate by %g", p.Results, p.Metric, d)
}

// Reads is the metric.
func (p *TrialPlateau) Reads() []string { return []string{p.Metric} }

// StopAll does not end the experiment.
func (*TrialPlateau) StopAll() (bool, string) { return false, "" }

// ExperimentPlateau is a Stopper that ends the experiment when the best Top values of all its trials are nearly equal,
// and were so for Patience results.
type ExperimentPlateau struct {
	Metric    string
	Max       bool
	Deviation float64 // 0: 0.001
	Top       int     // 0: 10
	Patience  int

	best []float64
	flat int
}

// Stop takes the result in. It ends no trial.
func (p *ExperimentPlateau) Stop(_ ID, r *Result) (bool, string) {
	p.Deviation, p.Top = or(p.Deviation, .001), or(p.Top, 10)
	x, ok := r.Value(p.Metric)
	if !ok || math.IsNaN(x) {
		return false, ""
	}
	if p.Max {
		x = -x
	}
	at, _ := slices.BinarySearch(p.best, x)
	p.best = slices.Insert(p.best, at, x)
	p.best = p.best[:min(len(p.best), p.Top)]
	if len(p.best) == p.Top && deviation(p.best) <= p.Deviation {
		p.flat++
	} else {
		p.flat = 0
	}
	return false, ""
}

// Reads is the metric.
func (p *ExperimentPlateau) Reads() []string { return []string{p.Metric} }

// StopAll tells whether the best values have settled.
func (p *ExperimentPlateau) StopAll() (bool, string) {
	return p.flat > 0 && p.flat >= p.Patience, fmt.Sprintf("the best %d values of %s are nearly equal", p.Top, p.Metric)
}

// Any is a Stopper that stops what one of several stops. Each of them is told of every result.
type Any []Stopper

// Stop asks all.
func (a Any) Stop(id ID, r *Result) (yes bool, why string) {
	for _, s := range a {
		if stop, reason := s.Stop(id, r); stop && !yes {
			yes, why = true, reason
		}
	}
	return yes, why
}

// Reads is what all read.
func (a Any) Reads() (all []string) {
	for _, s := range a {
		if r, ok := s.(Reader); ok {
			all = append(all, r.Reads()...)
		}
	}
	return all
}

// StopAll asks until one says so.
func (a Any) StopAll() (bool, string) {
	for _, s := range a {
		if yes, why := s.StopAll(); yes {
			return true, why
		}
	}
	return false, ""
}

func or[T int | float64](x, d T) T {
	if x == 0 {
		return d
	}
	return x
}

// deviation is the standard deviation of the values as a whole population.
func deviation(x []float64) float64 {
	mean, sum := 0.0, 0.0
	for _, v := range x {
		mean += v / float64(len(x))
	}
	for _, v := range x {
		sum += (v - mean) * (v - mean)
	}
	return math.Sqrt(sum / float64(len(x)))
}
