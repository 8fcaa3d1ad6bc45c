package sched

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/cascade-run/cascade/tune/core"
	"github.com/cascade-run/cascade/tune/space"
)

// PBT is population based training. Every Interval a trial is compared with the others: one of the best saves, and one
// of the worst takes over the checkpoint of a good one, with a changed configuration.
type PBT struct {
	Time      string      `json:"time_attr,omitempty"`             // what age is; the default is core.TimeKey
	Interval  float64     `json:"perturbation_interval,omitempty"` // the default is 60
	BurnIn    float64     `json:"burn_in_period,omitempty"`        // nothing happens before that age
	Quantile  float64     `json:"quantile_fraction,omitempty"`     // share of the worst, and of the best; the default is 0.25, at most 0.5
	Resample  *float64    `json:"resample_probability,omitempty"`  // of a new value rather than a changed one; the default is 0.25
	Factors   [2]float64  `json:"perturbation_factors,omitzero"`   // with which numbers are multiplied; the default is 1.2 and 0.8
	Mutations space.Space `json:"hyperparam_mutations"`            // what may change: domains, by the path in the configuration

	core.Default
	of    map[core.ID]*member
	order []core.ID
}

type member struct {
	score     float64 // at the last comparison; NaN before
	perturbed float64 // age at the last comparison
	trained   float64 // age
	ended     bool
	takeovers int
}

func (s *PBT) ready() {
	if s.of != nil {
		return
	}
	s.of = map[core.ID]*member{}
	if s.Time == "" {
		s.Time = core.TimeKey
	}
	defaults(&s.Interval, 60)
	defaults(&s.Quantile, .25)
	if s.Resample == nil {
		p := .25
		s.Resample = &p
	}
	if s.Factors == ([2]float64{}) {
		s.Factors = [2]float64{1.2, .8}
	}
}

// Check says what is wrong with the rules.
func (s *PBT) Check() error {
	s.ready()
	switch {
	case s.Quantile < 0 || s.Quantile > .5:
		return fmt.Errorf("pbt: the quantile fraction is %g, it has to be between 0 and 0.5", s.Quantile)
	case s.Interval <= 0:
		return fmt.Errorf("pbt: the perturbation interval is %g, it has to be above 0", s.Interval)
	case len(s.Mutations) == 0:
		return fmt.Errorf("pbt: there are no mutations, so that a takeover would change nothing")
	}
	if err := s.Mutations.Misspelt(); err != nil {
		return fmt.Errorf("pbt: a mutation: %w", err)
	}
	for path, x := range s.Mutations {
		if _, ok := x.(space.Domain); !ok {
			return fmt.Errorf("pbt: the mutation %s is %T: use a domain, such as a choice or a range", path, x)
		}
	}
	return s.Mutations.Check()
}

// Parameters are the paths of what it changes.
func (s *PBT) Parameters() []string { return sortedKeys(s.Mutations) }

// Reads is what age is; empty: the default, which each result has.
func (s *PBT) Reads() []string { return []string{s.Time} }

// Add begins a member of the population.
func (s *PBT) Add(_ *core.Board, t *core.Trial) {
	s.ready()
	if s.of[t.ID] == nil {
		s.order = append(s.order, t.ID)
	}
	s.of[t.ID] = &member{score: math.NaN()}
}

// End takes the trial out of the population.
func (s *PBT) End(_ *core.Board, t *core.Trial, _ core.End) { s.of[t.ID].ended = true }

// Rewind sets the ages back: they are those of the checkpoint.
func (s *PBT) Rewind(_ *core.Board, t *core.Trial, _ int) {
	m := s.of[t.ID]
	m.trained = 0
	if t.Last != nil {
		m.trained, _ = t.Last.Value(s.Time)
	}
	m.perturbed = min(m.perturbed, m.trained)
}

// Result compares the trial with the others when its interval is over.
func (s *PBT) Result(b *core.Board, t *core.Trial, r *core.Result) core.Decision {
	m := s.of[t.ID]
	age, ok := r.Value(s.Time)
	score, known := b.Metric(r)
	if !ok || !known {
		return core.Decision{}
	}
	m.trained = age
	if age < s.BurnIn || age-m.perturbed < s.Interval {
		return core.Decision{}
	}
	m.score, m.perturbed = score, age
	lower, upper := s.quantiles(b)
	d := core.Decision{}
	switch {
	case slices.Contains(upper, t.ID):
		d = core.Decision{Save: true, Reason: "it is one of the best"}
	case slices.Contains(lower, t.ID):
		d = s.takeOver(b, t, m, upper)
	}
	if d.Verdict == core.Continue && b.Others() { // it lets others have the slot
		d = core.Decision{Verdict: core.Pause, Reason: "others wait for its slot"}
	}
	return d
}

// quantiles returns the worst and the best trials.
func (s *PBT) quantiles(b *core.Board) (lower, upper []core.ID) {
	var scored []core.ID
	for _, id := range s.order {
		if m := s.of[id]; !m.ended && !math.IsNaN(m.score) {
			scored = append(scored, id)
		}
	}
	slices.SortStableFunc(scored, func(x, y core.ID) int {
		switch {
		case b.Better(s.of[y].score, s.of[x].score):
			return -1
		case b.Better(s.of[x].score, s.of[y].score):
			return 1
		}
		return 0
	})
	n := min(int(math.Ceil(float64(len(scored))*s.Quantile)), len(scored)/2)
	return scored[:n], scored[len(scored)-n:]
}

func (s *PBT) takeOver(b *core.Board, t *core.Trial, m *member, upper []core.ID) core.Decision {
	r := b.StreamOf(t, "pbt", m.takeovers)
	donor := b.Trial(upper[r.Below(int64(len(upper)))])
	if !donor.Saveable() {
		return core.Decision{Reason: fmt.Sprintf("trial %d, which it was to take over, has no checkpoint", donor.ID)}
	}
	m.takeovers++
	m.perturbed, m.trained = s.of[donor.ID].perturbed, s.of[donor.ID].trained
	config, tag := s.explore(b, t, m.takeovers, donor.Config)
	return core.Decision{Verdict: core.Pause, Reason: fmt.Sprintf("it takes over trial %d", donor.ID),
		Clone: &core.Clone{Donor: donor.ID, Config: config, Tag: "@perturbed[" + tag + "]"}}
}

// explore changes a configuration.
func (s *PBT) explore(b *core.Board, t *core.Trial, generation int, donor core.Values) (core.Values, string) {
	config, _ := core.Canonical(map[string]any(donor)) // it is canonical
	changed := core.Values(config.(map[string]any))
	var tags []string
	for _, path := range sortedKeys(s.Mutations) {
		in, key := parent(changed, path)
		if in == nil {
			continue
		}
		r := b.Stream("pbt", strconv.Itoa(int(t.ID)), strconv.Itoa(generation), path)
		in[key] = s.mutate(s.Mutations[path].(space.Domain), in[key], r)
		tags = append(tags, path+"="+core.Text(in[key]))
	}
	return changed, strings.Join(tags, ",")
}

func (s *PBT) mutate(d space.Domain, old any, r *space.Stream) any {
	resample := r.Float() < *s.Resample
	up := r.Float() < .5
	if values, ok := d.(space.Values); ok {
		at := slices.IndexFunc(values, func(x any) bool { y, _ := core.Canonical(x); return y == old })
		switch {
		case resample || at < 0:
			at = int(r.Below(int64(len(values))))
		case up:
			at = min(at+1, len(values)-1)
		default:
			at = max(at-1, 0)
		}
		x, err := core.Canonical(values[at])
		if err != nil {
			return values[at]
		}
		return x
	}
	factor := s.Factors[1]
	if up {
		factor = s.Factors[0]
	}
	var x float64
	whole := false
	switch v := old.(type) {
	case int64:
		x, whole = float64(v), true
	case float64:
		x = v
	default:
		resample = true
	}
	if resample {
		return d.Draw(r)
	}
	x *= factor
	if n, ok := d.(space.Number); ok {
		return n.Clip(x)
	}
	if whole {
		return int64(math.RoundToEven(x))
	}
	return x
}

func sortedKeys(s space.Space) []string {
	keys := make([]string, 0, len(s))
	for k := range s {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// parent returns the map that has the parameter at a path, or nil.
func parent(config core.Values, path string) (map[string]any, string) {
	in, parts := map[string]any(config), strings.Split(path, "/")
	for _, part := range parts[:len(parts)-1] {
		next, ok := in[part].(map[string]any)
		if !ok {
			return nil, ""
		}
		in = next
	}
	if _, ok := in[parts[len(parts)-1]]; !ok {
		return nil, ""
	}
	return in, parts[len(parts)-1]
}

// Choose returns the trial that has trained least, of equal ones the one that has run least often: those that wait take
// turns, also when some only take over others time and again.
func (s *PBT) Choose(b *core.Board) (best *core.Trial, _ bool) {
	for _, t := range b.Trials() {
		if t.Phase != core.Queued && t.Phase != core.Waiting {
			continue
		}
		if best == nil || s.of[t.ID].trained < s.of[best.ID].trained || s.of[t.ID].trained == s.of[best.ID].trained && t.Attempt < best.Attempt {
			best = t
		}
	}
	return best, best != nil
}

// Credit is until the interval is over.
func (s *PBT) Credit(_ *core.Board, t *core.Trial) core.Credit {
	return core.Credit{Until: []core.Condition{{Key: s.Time, Value: max(s.BurnIn, s.of[t.ID].perturbed+s.Interval)}}}
}
