package tune

import (
	"errors"
	"fmt"
	"time"

	"github.com/cascade-run/cascade/tune/core"
	"github.com/cascade-run/cascade/tune/journal"
	"github.com/cascade-run/cascade/tune/rehearsal"
	"github.com/cascade-run/cascade/tune/sched"
	"github.com/cascade-run/cascade/tune/search"
)

// Replay decides once more from the recorded events of an experiment, and returns how many there are. If a decision
// differs from the recorded one the error says which (ErrDiffers).
func Replay(folder string) (events int64, err error) {
	_, _, err = load(folder, func(r *journal.Record, actions []core.Action) error {
		events = r.N
		return differ(r, actions)
	})
	return events, err
}

// Estimate is what a scheduler would have done with recorded results.
type Estimate struct {
	Trials  int           `json:"trials"`
	Results int           `json:"results"` // that would have been trained
	Of      int           `json:"of"`      // that were recorded
	Time    time.Duration `json:"time"`    // with the experiment's slots
	Best    core.ID       `json:"best"`
	Value   float64       `json:"value"`
	Stopped int           `json:"stopped"` // trials that the scheduler would have ended

	Grid *Grid `json:"-"`
}

// recorded is a searcher that suggests what an experiment had.
type recorded struct {
	search.Variants
	trials []Outcome
}

func (r *recorded) Suggest(id core.ID) (core.Values, error) {
	if int(id) >= len(r.trials) {
		return nil, search.ErrFinished
	}
	return r.trials[id].Config, nil
}

// WhatIf runs the recorded results of an experiment under another scheduler, in virtual time. A trial ends where its
// record ends, so that the answer is exact for a scheduler that stops no later than the one of the experiment.
func WhatIf(folder string, s core.Scheduler, slots int) (*Estimate, error) {
	if _, changes := s.(*sched.PBT); changes {
		return nil, errors.New("population based training changes configurations, of which nothing was recorded: try another scheduler")
	}
	g, err := Open(folder)
	if err != nil {
		return nil, err
	}
	if slots <= 0 {
		if slots, err = recordedSlots(folder); err != nil {
			return nil, err
		}
	}
	all := make([][]core.Result, len(g.Trials))
	for i := range all {
		if all[i], err = g.History(core.ID(i)); err != nil {
			return nil, err
		}
	}
	o := g.Options
	o.Samples, o.Budget, o.Every, o.AtEnd = -1, 0, 0, false
	est := &Estimate{Trials: len(g.Trials)}
	for _, h := range all {
		est.Of += len(h)
	}
	stage := &rehearsal.Stage{Core: core.New(o, s), Searcher: &recorded{trials: g.Trials}, CanSave: true, Slots: slots, Model: curves(all)}
	if !stage.Run(1000 + 20*(est.Of+est.Trials)) {
		return nil, fmt.Errorf("the experiment does not end with this scheduler")
	}
	est.Grid = newGrid(folder, stage.Core, o)
	for _, t := range est.Grid.Trials {
		est.Results += t.Results
		if t.End == core.EndScheduler && t.Results < len(all[t.ID]) {
			est.Stopped++
		}
	}
	est.Time = stage.Core.Now()
	best, value, err := est.Grid.Best(Query{})
	if err != nil {
		return nil, err
	}
	est.Best, est.Value = best.ID, value
	return est, nil
}

// curves is the training that repeats recorded results.
func curves(all [][]core.Result) rehearsal.Model {
	return func(id core.ID, _ core.Values, iteration int64, _ int) rehearsal.Step {
		h := all[id]
		if int(iteration) > len(h) {
			return rehearsal.Step{Done: true}
		}
		r, before := h[iteration-1], 0.0
		if iteration > 1 {
			before = h[iteration-2].Time
		}
		return rehearsal.Step{Metrics: r.Metrics, Took: time.Duration(max(0, r.Time-before) * float64(time.Second)), Done: int(iteration) == len(h)}
	}
}

func recordedSlots(folder string) (slots int, err error) {
	err = journal.Read(folder, func(r *journal.Record) error {
		if r.Event.Kind == core.Begun {
			slots = r.Event.Slots
		}
		return nil
	})
	return max(1, slots), err
}
