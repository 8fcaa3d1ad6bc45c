package search

import (
	"errors"
	"fmt"
	"math"
	"strconv"

	"github.com/cascade-run/cascade/tune/core"
	"github.com/cascade-run/cascade/tune/space"
)

// Searcher suggests configurations. Its methods are called one after another, beside the trials that run: one that
// takes long holds no trial up. The trial of a call is named by its number.
type Searcher interface {
	// Suggest returns the configuration of a new trial, ErrNotNow or ErrFinished. Another error ends the experiment.
	Suggest(trial core.ID) (core.Values, error)
	// Result tells of one result.
	Result(trial core.ID, r *core.Result)
	// Complete tells once that the trial has ended, with its last result, which is nil if there was none.
	Complete(trial core.ID, last *core.Result, how core.End)
}

// Adopter is a Searcher whose suggestions are not the same each time: when an experiment is resumed it is given what it
// suggested, in place of Suggest.
type Adopter interface {
	Adopt(trial core.ID, config core.Values)
}

var (
	// ErrNotNow says that there is no suggestion until a trial reports or ends.
	ErrNotNow = errors.New("no suggestion now")
	// ErrFinished says that there is no further suggestion.
	ErrFinished = errors.New("no further suggestion")
)

// Variants suggests the points of a space's grids, and draws its domains at random.
type Variants struct {
	Space    space.Space
	Seed     int64
	Samples  int              // of each point of the grids; 0: one; -1: without end
	Constant bool             // the points of one sample have the same draws
	Points   []map[string]any // configurations, by path, that come first, in place of samples

	asked  int // suggestions so far
	sample int // the sample of which the points come now
	point  int // the next of its points
}

// Trials returns how many trials there will be; -1: without end.
func (v *Variants) Trials() (int, error) {
	if v.Samples < 0 {
		return -1, nil
	}
	n := 0
	for i := range max(1, v.Samples) {
		s, err := v.at(i)
		if err != nil {
			return 0, err
		}
		if n += s.Points(); i >= len(v.Points) {
			return n + s.Points()*(max(1, v.Samples)-i-1), nil
		}
	}
	return n, nil
}

// at returns the space of a sample, in which the point that takes its place is fixed.
func (v *Variants) at(sample int) (space.Space, error) {
	if sample < len(v.Points) {
		return v.Space.With(v.Points[sample])
	}
	return v.Space, nil
}

// Suggest returns the next point, or sample.
func (v *Variants) Suggest(core.ID) (core.Values, error) {
	if v.Samples >= 0 && v.sample >= max(1, v.Samples) {
		return nil, ErrFinished
	}
	s, err := v.at(v.sample)
	if err != nil {
		return nil, err
	}
	draw := v.asked
	if v.Constant {
		draw = v.sample
	}
	drawn, err := s.Draw(v.Seed, draw, v.point)
	if err != nil {
		return nil, err
	}
	v.asked++
	if v.point++; v.point >= s.Points() {
		v.point, v.sample = 0, v.sample+1
	}
	config, err := core.Canonical(drawn)
	if err != nil {
		return nil, fmt.Errorf("a configuration of the space: %w", err)
	}
	return config.(map[string]any), nil
}

// Result is ignored.
func (*Variants) Result(core.ID, *core.Result) {}

// Complete is ignored.
func (*Variants) Complete(core.ID, *core.Result, core.End) {}

// Limiter has a searcher suggest only while fewer than Max of its trials have not ended.
type Limiter struct {
	Searcher
	Max int

	live map[core.ID]bool
}

// Suggest returns ErrNotNow while there are Max trials.
func (l *Limiter) Suggest(trial core.ID) (core.Values, error) {
	if len(l.live) >= l.Max {
		return nil, ErrNotNow
	}
	config, err := l.Searcher.Suggest(trial)
	if err == nil {
		if l.live == nil {
			l.live = map[core.ID]bool{}
		}
		l.live[trial] = true
	}
	return config, err
}

// Adopt has a trial live again.
func (l *Limiter) Adopt(trial core.ID, config core.Values) {
	if l.live == nil {
		l.live = map[core.ID]bool{}
	}
	l.live[trial] = true
	if a, ok := l.Searcher.(Adopter); ok {
		a.Adopt(trial, config)
	} else {
		_, _ = l.Searcher.Suggest(trial) // which is the same again
	}
}

// Complete makes room for another.
func (l *Limiter) Complete(trial core.ID, last *core.Result, how core.End) {
	delete(l.live, trial)
	l.Searcher.Complete(trial, last, how)
}

// IndexKey is the parameter in which a Repeater numbers the trials of one suggestion.
const IndexKey = "__trial_index__"

// Repeater tries each suggestion of a searcher Times times. The searcher is told of one trial, with the mean of the scores.
type Repeater struct {
	Searcher
	Times  int
	Metric string

	groups map[core.ID]*group // by trial
	open   *group
}

type group struct {
	first  core.ID // under which the searcher knows it
	config core.Values
	given  int
	ended  int
	sum    float64
	scored int
	errors int
}

// Suggest returns a configuration Times times.
func (r *Repeater) Suggest(trial core.ID) (core.Values, error) {
	if r.open == nil {
		config, err := r.Searcher.Suggest(trial)
		if err != nil {
			return nil, err
		}
		r.open = &group{first: trial, config: config}
	}
	if r.groups == nil {
		r.groups = map[core.ID]*group{}
	}
	g := r.open
	r.groups[trial] = g
	config := core.Values{IndexKey: int64(g.given)}
	for k, v := range g.config {
		config[k] = v
	}
	if g.given++; g.given == r.Times {
		r.open = nil
	}
	return config, nil
}

// Result is not passed on: the trials of a group disagree.
func (*Repeater) Result(core.ID, *core.Result) {}

// Complete tells the searcher when the last trial of the group has ended.
func (r *Repeater) Complete(trial core.ID, last *core.Result, how core.End) {
	g := r.groups[trial]
	if g == nil {
		return
	}
	delete(r.groups, trial)
	g.ended++
	if how == core.EndError {
		g.errors++
	}
	if last != nil {
		if x, ok := last.Value(r.Metric); ok && !math.IsNaN(x) {
			g.sum, g.scored = g.sum+x, g.scored+1
		}
	}
	if g.ended < r.Times {
		return
	}
	if g.scored == 0 {
		r.Searcher.Complete(g.first, nil, core.EndError)
		return
	}
	mean := core.Result{Metrics: core.Values{r.Metric: g.sum / float64(g.scored), "trials": int64(r.Times), "errors": int64(g.errors)}}
	if last != nil {
		mean.Iteration, mean.Time = last.Iteration, last.Time
	}
	r.Searcher.Complete(g.first, &mean, core.EndDone)
}

// Answer asks a searcher for n configurations, for the trials from number first, and returns the event.
func Answer(s Searcher, first core.ID, n int) core.Event {
	e := core.Event{Kind: core.Suggested, N: n}
	for i := range n {
		config, err := s.Suggest(first + core.ID(i))
		switch {
		case errors.Is(err, ErrFinished):
			e.Cause = core.CauseFinished
			return e
		case errors.Is(err, ErrNotNow):
			e.Cause = core.CauseNotNow
			return e
		case err != nil:
			e.Error = "trial " + strconv.Itoa(int(first)+i) + ": " + err.Error()
			return e
		}
		e.Configs = append(e.Configs, config)
	}
	return e
}

// Heed tells a searcher of what an action has for it.
func Heed(s Searcher, a *core.Action) {
	switch a.Kind {
	case core.Tell:
		for i := range a.Results {
			s.Result(a.Trial, &a.Results[i])
		}
	case core.Complete:
		if a.N == 0 {
			s.Complete(a.Trial, a.Last, a.End)
		}
	}
}
