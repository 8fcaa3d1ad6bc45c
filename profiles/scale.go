package profiles

import (
	"cmp"
	"math"
	"slices"

	"gonum.org/v1/gonum/stat"
)

// Point is one run of a task that had inputs.
type Point struct{ In, Seconds, Bytes float64 }

// Class is what runs cost whose inputs together had from 4^Log to 4^(Log+1) bytes:
// for tasks that do not grow by a line.
type Class struct {
	Log            int8
	Count          uint64
	Seconds, Bytes float64 // means
}

const (
	maxPoints  = 32   // runs that a line is fitted to: the last
	maxClasses = 16   // the one of fewest runs goes
	leastFit   = 0.8  // R squared from which a line is believed
	fitPoints  = 5    // runs that it needs,
	fitRange   = 1.5  // whose inputs differ by this factor at least
	classRuns  = 3    // from which a class is believed
	pointFades = 0.93 // weight of a run to that after it
)

func classOf(in float64) int8 { return int8(math.Floor(math.Log2(max(in, 1)) / 2)) }

// grow takes in a run that had inputs.
func (p *Profile) grow(s *Sample) {
	if s.In <= 0 {
		return
	}
	if len(p.Points) >= maxPoints {
		p.Points = slices.Delete(p.Points, 0, 1)
	}
	p.Points = append(p.Points, Point{s.In, s.Seconds, s.Bytes})
	log := classOf(s.In)
	i, found := slices.BinarySearchFunc(p.Classes, log, func(c Class, l int8) int { return cmp.Compare(c.Log, l) })
	if !found {
		if len(p.Classes) >= maxClasses {
			least := 0
			for k := range p.Classes {
				if p.Classes[k].Count < p.Classes[least].Count {
					least = k
				}
			}
			p.Classes = slices.Delete(p.Classes, least, least+1)
			i, _ = slices.BinarySearchFunc(p.Classes, log, func(c Class, l int8) int { return cmp.Compare(c.Log, l) })
		}
		p.Classes = slices.Insert(p.Classes, i, Class{Log: log})
	}
	c := &p.Classes[i]
	c.Count++
	w := 1 / float64(min(c.Count, window))
	c.Seconds += w * (s.Seconds - c.Seconds)
	c.Bytes += w * (s.Bytes - c.Bytes)
}

// Fit is a line by which a cost grows with the bytes of the inputs.
type Fit struct {
	At, PerByte float64
	R2          float64 // part of the variance that the line explains; 0: there is no line
}

// Lines returns the lines of duration and output bytes, by weighted least squares
// of the last runs. One that explains too little, or falls, is none.
func (p *Profile) Lines() (seconds, bytes Fit) {
	low, high := math.Inf(1), 0.0
	for i := range p.Points {
		low, high = min(low, p.Points[i].In), max(high, p.Points[i].In)
	}
	if len(p.Points) < fitPoints || high < low*fitRange {
		return Fit{}, Fit{}
	}
	x, weights := make([]float64, len(p.Points)), make([]float64, len(p.Points))
	y, z := make([]float64, len(p.Points)), make([]float64, len(p.Points))
	for i, at := range p.Points {
		x[i], y[i], z[i] = at.In, at.Seconds, at.Bytes
		weights[i] = math.Pow(pointFades, float64(len(p.Points)-1-i))
	}
	line := func(y []float64) Fit {
		if slices.Max(y) == slices.Min(y) {
			return Fit{} // the mean says it all
		}
		a, b := stat.LinearRegression(x, y, weights, false)
		r := stat.RSquared(x, y, weights, a, b)
		if !(r >= leastFit && b >= 0 && b <= maxCost && math.Abs(a) <= maxCost) {
			return Fit{}
		}
		return Fit{a, b, min(r, 1)}
	}
	return line(y), line(z)
}

// Varies tells whether costs may depend on the size of the inputs.
func (p *Profile) Varies() bool { return len(p.Classes) > 1 || len(p.Points) >= fitPoints }

// at replaces the means of a prediction by what is known of runs with about as
// many bytes of inputs: by the line, no further than four times beyond what was
// seen, else by the size class.
func (p *Profile) at(in float64, out *Prediction) {
	if in <= 0 || !p.Varies() {
		return
	}
	if k := slices.IndexFunc(p.Classes, func(c Class) bool { return c.Log == classOf(in) }); k >= 0 && p.Classes[k].Count >= classRuns {
		out.Seconds, out.Bytes, out.Basis = p.Classes[k].Seconds, p.Classes[k].Bytes, BasisSize
	}
	low, high := math.Inf(1), 0.0
	for i := range p.Points {
		low, high = min(low, p.Points[i].In), max(high, p.Points[i].In)
	}
	x := min(max(in, low/4), high*4)
	seconds, bytes := p.Lines()
	if seconds.R2 > 0 {
		out.Seconds, out.Fit, out.Basis = max(seconds.At+seconds.PerByte*x, 0), seconds.R2, BasisSize
	}
	if bytes.R2 > 0 {
		out.Bytes = max(bytes.At+bytes.PerByte*x, 0)
	}
}
