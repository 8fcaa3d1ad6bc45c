package fields

import (
	"fmt"
	"math"
)

// StepChange says how ensemble mean and spread changed from one step of time to
// the next, in the unit of the field. RMS is over the area.
type StepChange struct {
	Mean      float64 // area mean of the change of the ensemble mean
	MeanRMS   float64
	Spread    float64 // area mean of the change of the spread
	SpreadRMS float64
}

// CompareSteps compares consecutive steps: element i of the result is step i+1
// against step i. means and spreads hold one field on grid g for each step.
func CompareSteps(g Grid, means, spreads [][]float64) ([]StepChange, error) {
	if len(means) != len(spreads) {
		return nil, fmt.Errorf("compare steps: %d means and %d spreads", len(means), len(spreads))
	}
	if len(means) < 2 {
		return nil, fmt.Errorf("compare steps: %d steps, need at least 2", len(means))
	}
	changes := make([]StepChange, len(means)-1)
	scratch := make([]float64, g.Points())
	var err error
	for i := range changes {
		c := &changes[i]
		if c.Mean, c.MeanRMS, err = change(g, scratch, means[i], means[i+1]); err != nil {
			return nil, fmt.Errorf("compare mean of steps %d and %d: %w", i, i+1, err)
		}
		if c.Spread, c.SpreadRMS, err = change(g, scratch, spreads[i], spreads[i+1]); err != nil {
			return nil, fmt.Errorf("compare spread of steps %d and %d: %w", i, i+1, err)
		}
	}
	return changes, nil
}

// Difference writes after - before to dst, point by point.
func Difference(dst, before, after []float64) error {
	if len(before) != len(dst) || len(after) != len(dst) {
		return fmt.Errorf("difference: %d and %d values for %d grid points", len(before), len(after), len(dst))
	}
	for p := range dst {
		dst[p] = after[p] - before[p]
	}
	return nil
}

func change(g Grid, scratch, before, after []float64) (mean, rms float64, err error) {
	if err := Difference(scratch, before, after); err != nil {
		return 0, 0, err
	}
	if mean, err = g.AreaMean(scratch); err != nil {
		return 0, 0, err
	}
	for p, d := range scratch {
		scratch[p] = d * d
	}
	square, err := g.AreaMean(scratch)
	return mean, math.Sqrt(square), err
}
