package sched

import (
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/cascade-run/cascade/tune/core"
)

// ASHA ends trials early that are worse than most at the same age. At each rung, an age that grows by Factor, a trial
// goes on if its score is in the best 1/Factor of those recorded there so far.
//
// With Promote a trial pauses at its rung instead, and goes on when it is in the best 1/Factor of the rung: no trial
// passes because it came first, and none ends before the experiment does.
type ASHA struct {
	Time     string  `json:"time_attr,omitempty"`        // what age is; the default is core.IterationKey
	MaxT     float64 `json:"max_t,omitempty"`            // trials end at that age; the default is 100
	Grace    float64 `json:"grace_period,omitempty"`     // age of the first rung; the default is 1
	Factor   float64 `json:"reduction_factor,omitempty"` // the default is 4
	Brackets int     `json:"brackets,omitempty"`         // with grace periods that grow by Factor; the default is 1
	Promote  bool    `json:"promote,omitempty"`

	core.Default
	brackets [][]*rung
	of       map[core.ID][]*rung
	reached  map[core.ID]int // number of rungs up to the highest at which a trial is recorded
}

// rung is what is known of one age. Scores have the sign with which more is better.
type rung struct {
	age      float64
	scores   []float64 // sorted, without NaN
	recorded map[core.ID]float64
	promoted map[core.ID]bool
}

func (r *rung) record(id core.ID, score float64) {
	r.recorded[id] = score
	if !math.IsNaN(score) {
		at, _ := slices.BinarySearch(r.scores, score)
		r.scores = slices.Insert(r.scores, at, score)
	}
}

// percentile returns the value at share p of sorted numbers, interpolated between neighbours at (n-1)p.
func percentile(sorted []float64, p float64) float64 {
	at := float64(len(sorted)-1) * p
	low := int(math.Floor(at))
	high := min(low+1, len(sorted)-1)
	if x := sorted[low] + (sorted[high]-sorted[low])*(at-float64(low)); !math.IsNaN(x) {
		return x
	}
	return sorted[low] // between infinities
}

func defaults(x *float64, d float64) {
	if *x == 0 {
		*x = d
	}
}

func (s *ASHA) ready() {
	if s.brackets != nil {
		return
	}
	if s.Time == "" {
		s.Time = core.IterationKey
	}
	defaults(&s.MaxT, 100)
	defaults(&s.Grace, 1)
	defaults(&s.Factor, 4)
	s.of, s.reached = map[core.ID][]*rung{}, map[core.ID]int{}
	for b := range max(1, s.Brackets) {
		var rungs []*rung
		n := int(math.Log(s.MaxT/s.Grace)/math.Log(s.Factor) - float64(b) + 1)
		for k := range max(0, n) {
			rungs = append(rungs, &rung{age: s.Grace * math.Pow(s.Factor, float64(k+b)), recorded: map[core.ID]float64{}, promoted: map[core.ID]bool{}})
		}
		s.brackets = append(s.brackets, rungs)
	}
}

// Check says what is wrong with the rules.
func (s *ASHA) Check() error {
	s.ready()
	switch {
	case !(s.Factor > 1):
		return fmt.Errorf("asha: the reduction factor is %g, it has to be above 1", s.Factor)
	case !(s.Grace > 0) || !(s.MaxT >= s.Grace):
		return fmt.Errorf("asha: the grace period %g is not between 0 and max_t, %g", s.Grace, s.MaxT)
	}
	return nil
}

// Reads is what age is; empty: the default, which each result has.
func (s *ASHA) Reads() []string { return []string{s.Time} }

// Add draws the bracket of the trial: one with more rungs is more likely.
func (s *ASHA) Add(b *core.Board, t *core.Trial) {
	s.ready()
	if _, ok := s.of[t.ID]; ok {
		return
	}
	sum := 0.0
	for _, r := range s.brackets {
		sum += math.Exp(float64(len(r)))
	}
	x := b.Stream("asha", "bracket", strconv.Itoa(int(t.ID))).Float() * sum
	s.of[t.ID] = s.brackets[0]
	for _, r := range s.brackets {
		if x -= math.Exp(float64(len(r))); x < 0 {
			s.of[t.ID] = r
			return
		}
	}
}

func signed(b *core.Board, x float64) float64 {
	if b.Better(0, 1) { // less is better
		return -x
	}
	return x
}

// Result judges the trial at the highest rung of its age, once.
func (s *ASHA) Result(b *core.Board, t *core.Trial, r *core.Result) core.Decision {
	age, ok := r.Value(s.Time)
	score, known := b.Metric(r)
	if !ok || !known {
		return core.Decision{}
	}
	if age >= s.MaxT {
		return core.Decision{Verdict: core.Terminate, Reason: fmt.Sprintf("%s is %g, and max_t %g", s.Time, age, s.MaxT)}
	}
	rungs := s.of[t.ID]
	k := len(rungs) - 1
	for k >= 0 && rungs[k].age > age {
		k--
	}
	if k < 0 || k < s.reached[t.ID] {
		return core.Decision{}
	}
	s.reached[t.ID] = k + 1
	at := rungs[k]
	score = signed(b, score)
	if s.Promote {
		at.record(t.ID, score)
		if s.promotable(at, t.ID) {
			at.promoted[t.ID] = true
			return core.Decision{Reason: fmt.Sprintf("promoted from rung %g", at.age)}
		}
		return core.Decision{Verdict: core.Pause, Reason: fmt.Sprintf("at rung %g, not in the best 1/%g of %d", at.age, s.Factor, len(at.recorded))}
	}
	d := core.Decision{}
	if len(at.scores) > 0 {
		if cutoff := percentile(at.scores, 1-1/s.Factor); !(score >= cutoff) {
			d = core.Decision{Verdict: core.Terminate, Reason: fmt.Sprintf("at rung %g its score %g is worse than the cut-off %g of %d",
				at.age, signed(b, score), signed(b, cutoff), len(at.scores))}
		}
	}
	at.record(t.ID, score)
	return d
}

// promotable tells whether a trial is in the best 1/Factor of its rung and was not promoted from there.
func (s *ASHA) promotable(r *rung, id core.ID) bool {
	n := int(float64(len(r.recorded)) / s.Factor)
	score := r.recorded[id]
	if n == 0 || r.promoted[id] || math.IsNaN(score) {
		return false
	}
	better := len(r.scores) - upper(r.scores, score)
	return better < n && len(r.promoted) < n
}

// upper returns how many of the sorted numbers are at most x.
func upper(sorted []float64, x float64) int {
	n, found := slices.BinarySearch(sorted, x)
	for found && n < len(sorted) && sorted[n] == x {
		n++
	}
	return n
}

// Choose promotes a paused trial of the highest rung that has one, before new trials are started.
func (s *ASHA) Choose(b *core.Board) (*core.Trial, bool) {
	s.ready()
	if !s.Promote {
		return b.Next()
	}
	for _, rungs := range s.brackets {
		for _, r := range slices.Backward(rungs) {
			if t := s.best(b, r); t != nil {
				r.promoted[t.ID] = true
				b.Wake(t)
				return t, true
			}
		}
	}
	return b.Next()
}

// best returns the best promotable trial of a rung that is PAUSED there.
func (s *ASHA) best(b *core.Board, r *rung) (best *core.Trial) {
	if int(float64(len(r.recorded))/s.Factor) <= len(r.promoted) {
		return nil
	}
	for id, score := range r.recorded {
		t := b.Trial(id)
		if t.Phase != core.Waiting || s.of[id][s.reached[id]-1] != r || !s.promotable(r, id) {
			continue
		}
		if best == nil || score > r.recorded[best.ID] || score == r.recorded[best.ID] && id < best.ID {
			best = t
		}
	}
	return best
}

// Stuck ends paused trials: no trial will come that could lift them.
func (s *ASHA) Stuck(b *core.Board) {
	for _, t := range b.Trials() {
		if t.Phase == core.Waiting {
			b.Stop(t, t.Reason)
		}
	}
}

// Credit is until the next rung.
func (s *ASHA) Credit(_ *core.Board, t *core.Trial) core.Credit {
	s.ready()
	next := s.MaxT
	if rungs, k := s.of[t.ID], s.reached[t.ID]; k < len(rungs) {
		next = min(next, rungs[k].age)
	}
	return core.Credit{Until: []core.Condition{{Key: s.Time, Value: next}}}
}
