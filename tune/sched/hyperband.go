package sched

import (
	"fmt"
	"math"
	"slices"

	"github.com/cascade-run/cascade/tune/core"
)

// HyperBand divides trials into brackets. The trials of a bracket pause at its milestone until all have reached it; the
// best 1/Factor go on to the next, which is Factor times as far, and the others end.
type HyperBand struct {
	Time   string  `json:"time_attr,omitempty"`        // what age is; the default is core.IterationKey
	MaxT   float64 `json:"max_t,omitempty"`            // the last milestone; the default is 81
	Factor float64 `json:"reduction_factor,omitempty"` // the default is 3

	core.Default
	brackets []*bracket
	of       map[core.ID]*bracket
	next     int // of the band: the exponent of the bracket that is filled next
}

type bracket struct {
	size      int // how many trials it takes
	added     int
	closed    bool // it was halved: no further trial
	milestone float64
	live      []core.ID // that have not ended, in order
	arrived   map[core.ID]float64
}

func (s *HyperBand) ready() {
	if s.of == nil {
		s.of = map[core.ID]*bracket{}
		if s.Time == "" {
			s.Time = core.IterationKey
		}
		defaults(&s.MaxT, 81)
		defaults(&s.Factor, 3)
	}
}

// Check says what is wrong with the rules.
func (s *HyperBand) Check() error {
	s.ready()
	if !(s.Factor > 1) || !(s.MaxT >= 1) {
		return fmt.Errorf("hyperband: the reduction factor is %g and max_t %g, they have to be above 1 and at least 1", s.Factor, s.MaxT)
	}
	return nil
}

// open returns a bracket that takes another trial: the one that is being filled, or the next of the band.
func (s *HyperBand) open() *bracket {
	if n := len(s.brackets); n > 0 {
		if b := s.brackets[n-1]; !b.closed && b.added < b.size {
			return b
		}
	}
	most := math.Round(math.Log(s.MaxT)/math.Log(s.Factor)) + 1
	if float64(s.next) >= most || math.Floor(s.MaxT*math.Pow(s.Factor, -float64(s.next))+1e-9) < 1 {
		s.next = 0
	}
	e := float64(s.next)
	b := &bracket{arrived: map[core.ID]float64{},
		size: int(math.Ceil(most/(e+1)*math.Pow(s.Factor, e) - 1e-9)), milestone: math.Floor(s.MaxT*math.Pow(s.Factor, -e) + 1e-9)}
	s.brackets = append(s.brackets, b)
	s.next++
	return b
}

// Reads is what age is; empty: the default, which each result has.
func (s *HyperBand) Reads() []string { return []string{s.Time} }

// Add puts the trial into a bracket.
func (s *HyperBand) Add(_ *core.Board, t *core.Trial) {
	s.ready()
	b := s.open()
	b.added++
	b.live = append(b.live, t.ID)
	s.of[t.ID] = b
}

// Result pauses a trial that has reached its milestone, until the others have.
func (s *HyperBand) Result(b *core.Board, t *core.Trial, r *core.Result) core.Decision {
	in := s.of[t.ID]
	age, ok := r.Value(s.Time)
	if !ok || age < in.milestone {
		return core.Decision{}
	}
	score, known := b.Metric(r)
	if !known {
		score = math.NaN()
	}
	in.arrived[t.ID] = score
	end, halved := s.process(b, in, t.ID, false)
	switch {
	case halved && end != "":
		return core.Decision{Verdict: core.Terminate, Reason: end}
	case halved:
		return core.Decision{Reason: fmt.Sprintf("it goes on to %g", in.milestone)}
	}
	return core.Decision{Verdict: core.Pause, Reason: fmt.Sprintf("at milestone %g, where %d of %d have arrived", in.milestone, len(in.arrived), len(in.live))}
}

// process halves a bracket if all its trials have arrived. The trial that is being decided about is not stopped: the
// reason why it ends is returned.
func (s *HyperBand) process(b *core.Board, in *bracket, current core.ID, force bool) (end string, halved bool) {
	if len(in.live) == 0 || len(in.arrived) < len(in.live) || !force && !in.closed && in.added < in.size && !b.Closed() {
		return "", false
	}
	in.closed = true
	order := slices.Clone(in.live)
	slices.SortStableFunc(order, func(x, y core.ID) int {
		switch {
		case b.Better(in.arrived[x], in.arrived[y]):
			return -1
		case b.Better(in.arrived[y], in.arrived[x]):
			return 1
		}
		return 0
	})
	keep := int(math.Ceil(float64(len(order)) / s.Factor))
	reason := fmt.Sprintf("at milestone %g it was not in the best %d of %d", in.milestone, keep, len(order))
	if in.milestone >= s.MaxT {
		keep, reason = 0, fmt.Sprintf("it has reached the last milestone, %g", in.milestone)
	}
	in.live = slices.Clone(order[:keep])
	slices.Sort(in.live)
	in.arrived = map[core.ID]float64{}
	in.milestone = min(in.milestone*s.Factor, s.MaxT)
	for i, id := range order {
		switch {
		case i >= keep && id == current:
			end = reason
		case i >= keep:
			b.Stop(b.Trial(id), reason)
		case id != current:
			b.Wake(b.Trial(id))
		}
	}
	return end, true
}

// End takes the trial out of its bracket, which may be what the others waited for.
func (s *HyperBand) End(b *core.Board, t *core.Trial, _ core.End) {
	in := s.of[t.ID]
	at := slices.Index(in.live, t.ID)
	if at < 0 {
		return
	}
	in.live = slices.Delete(in.live, at, at+1)
	delete(in.arrived, t.ID)
	s.process(b, in, -1, false)
}

// Stuck halves brackets that no further trial will fill, and wakes trials whose pause has no reason any more.
func (s *HyperBand) Stuck(b *core.Board) {
	for _, in := range s.brackets {
		if _, halved := s.process(b, in, -1, true); halved {
			continue
		}
		for _, id := range in.live {
			if _, there := in.arrived[id]; !there {
				b.Wake(b.Trial(id))
			}
		}
	}
}

// Credit is until the milestone.
func (s *HyperBand) Credit(_ *core.Board, t *core.Trial) core.Credit {
	return core.Credit{Until: []core.Condition{{Key: s.Time, Value: s.of[t.ID].milestone}}}
}
