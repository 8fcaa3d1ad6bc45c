package space

import (
	"fmt"
	"math"
	"slices"
)

// Domain is a set of values with a distribution, of which each trial draws one.
type Domain interface {
	// Draw returns the next value: int64, float64, or what a Choice has.
	Draw(s *Stream) any
	// Check says what is wrong with the bounds.
	Check() error
}

// Number is a Domain of numbers. Low and High are its bounds, both included, and infinite for the normal distribution.
type Number struct {
	Low, High float64
	Log       bool    // the logarithm is distributed evenly
	Q         float64 // values are multiples of Q; 0: all
	Int       bool
	Bell      bool // normal: Low is the mean, High the standard deviation
}

// Uniform draws from [low, high).
func Uniform(low, high float64) Number { return Number{Low: low, High: high} }

// LogUniform draws from [low, high) with an even distribution of the logarithm. low is above 0.
func LogUniform(low, high float64) Number { return Number{Low: low, High: high, Log: true} }

// QUniform draws multiples of q in [low, high]; the bounds are multiples of q. Both ends have half the share of others.
func QUniform(low, high, q float64) Number { return Number{Low: low, High: high, Q: q} }

// QLogUniform is LogUniform, rounded to multiples of q.
func QLogUniform(low, high, q float64) Number { return Number{Low: low, High: high, Q: q, Log: true} }

// RandInt draws a whole number from low to high-1.
func RandInt(low, high int64) Number {
	return Number{Low: float64(low), High: float64(high - 1), Int: true}
}

// LogRandInt draws a whole number from low to high-1 with an even distribution of the logarithm.
func LogRandInt(low, high int64) Number {
	return Number{Low: float64(low), High: float64(high - 1), Int: true, Log: true}
}

// QRandInt draws multiples of q from low to high, each with the same share. With q of 1 high is not drawn.
func QRandInt(low, high, q int64) Number {
	if q == 1 {
		return RandInt(low, high)
	}
	return Number{Low: float64(low), High: float64(high), Int: true, Q: float64(q)}
}

// RandN draws from the normal distribution.
func RandN(mean, deviation float64) Number { return Number{Low: mean, High: deviation, Bell: true} }

// QRandN is RandN, rounded to multiples of q.
func QRandN(mean, deviation, q float64) Number {
	return Number{Low: mean, High: deviation, Q: q, Bell: true}
}

// Check says what is wrong with the bounds.
func (n Number) Check() error {
	switch {
	case math.IsNaN(n.Low) || math.IsNaN(n.High) || math.IsInf(n.Low, 0) || math.IsInf(n.High, 0):
		return fmt.Errorf("the bounds %g and %g are not finite", n.Low, n.High)
	case n.Bell && n.High <= 0:
		return fmt.Errorf("the standard deviation %g is not above 0", n.High)
	case n.Bell:
	case n.Low > n.High || n.Low == n.High && !n.Int:
		return fmt.Errorf("there is no value between %g and %g", n.Low, n.upper())
	case n.Log && n.Low <= 0:
		return fmt.Errorf("the lower bound %g of a logarithmic domain is not above 0", n.Low)
	}
	if n.Q < 0 {
		return fmt.Errorf("the step %g is negative", n.Q)
	}
	if n.Q > 0 && !n.Bell {
		for _, b := range []float64{n.Low, n.High} {
			if k := b / n.Q; math.Abs(k-math.Round(k)) > 1e-9 {
				return fmt.Errorf("the bound %g is not a multiple of the step %g", b, n.Q)
			}
		}
	}
	return nil
}

func (n Number) upper() float64 {
	if n.Int && n.Q == 0 {
		return n.High + 1
	}
	return n.High
}

// Draw returns the next value.
func (n Number) Draw(s *Stream) any {
	x := 0.0
	switch {
	case n.Bell:
		x = n.Low + float64(n.High*s.Normal())
	case n.Int && n.Q > 0 && !n.Log:
		return int64(n.Low) + int64(n.Q)*s.Below(int64((n.High-n.Low)/n.Q)+1)
	case n.Int && !n.Log:
		return int64(n.Low) + s.Below(int64(n.High-n.Low)+1)
	case n.Log:
		low, high := ln(n.Low), ln(n.upper())
		x = exp(low + float64((high-low)*s.Float()))
		if n.Int {
			x = math.Floor(x)
		}
	default:
		x = n.Low + float64((n.High-n.Low)*s.Float())
	}
	if n.Q > 0 {
		x = math.RoundToEven(x/n.Q) * n.Q
	}
	return n.Clip(x)
}

// Clip returns the value of the domain that is next to x: int64 of a domain of whole numbers.
func (n Number) Clip(x float64) any {
	if !n.Bell {
		x = max(n.Low, min(n.High, x))
	}
	if n.Int {
		return int64(math.RoundToEven(x))
	}
	return x
}

// Values is a Domain of values that are equally likely. A value may be a Space, whose domains are then drawn too.
type Values []any

// Choice draws one of values.
func Choice(values ...any) Values { return values }

// Check says that there are no values.
func (v Values) Check() error {
	if len(v) == 0 {
		return fmt.Errorf("a choice of no values")
	}
	return nil
}

// Draw returns one of the values.
func (v Values) Draw(s *Stream) any { return v[s.Below(int64(len(v)))] }

// Grid is not drawn: each of its values is tried with each of the values of other grids.
type Grid []any

// GridSearch tries every value.
func GridSearch(values ...any) Grid { return values }

// From computes a value from others of the same configuration. Its function returns an error of View.At as it is, when a
// parameter that it reads has no value yet.
type From func(View) (any, error)

// Computed is a parameter whose value f computes from others.
func Computed(f func(View) (any, error)) From { return f }

func clone(x any) any {
	switch x := x.(type) {
	case Space:
		return Space(cloneMap(x))
	case map[string]any:
		return Space(cloneMap(x))
	case []any:
		y := slices.Clone(x)
		for i := range y {
			y[i] = clone(y[i])
		}
		return y
	case int:
		return int64(x)
	case float32:
		return float64(x)
	}
	return x
}

func cloneMap(m map[string]any) map[string]any {
	c := make(map[string]any, len(m))
	for k, v := range m {
		c[k] = clone(v)
	}
	return c
}
