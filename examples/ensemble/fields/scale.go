package fields

import (
	"fmt"
	"image/color"
	"math"
	"slices"
	"sort"
)

// Scheme chooses a map's colours and how its classes are placed.
type Scheme uint8

// The schemes of maps.
const (
	SchemeMean        Scheme = iota + 1 // cold to warm over the whole range of values
	SchemeSpread                        // white to dark, from 0; the largest 1 % share a class
	SchemeProbability                   // white to dark, fixed classes from 0 to 1
	SchemeChange                        // blue, white, red; white on both sides of 0; the largest 1 % share a class
)

// scale maps values to classes. Class 0 lies below bounds[0], class i between
// bounds[i-1] and bounds[i], the last above; each has a colour.
type scale struct {
	bounds []float64
	colors []color.NRGBA // len(bounds)+1
}

// newScale places the classes for values; NaN and infinities are ignored.
func newScale(s Scheme, values []float64) (scale, error) {
	finite := slices.DeleteFunc(slices.Clone(values), func(v float64) bool { return math.IsNaN(v) || math.IsInf(v, 0) })
	if len(finite) == 0 {
		return scale{}, fmt.Errorf("no finite value to draw")
	}
	slices.Sort(finite)
	switch s {
	case SchemeMean:
		return withColors(niceBounds(finite[0], finite[len(finite)-1], 18), 0, ramp(0x2c3a8c, 0x3b8bc2, 0x9fd3e6, 0xfdf7c3, 0xf9b04d, 0xdd4b2b, 0x7a0f2b)), nil
	case SchemeSpread:
		return withColors(niceBounds(0, quantile(finite, 0.99), 10), 1, ramp(0xffffff, 0xfbe3a8, 0xf3a25c, 0xd5523f, 0x8f1f5a, 0x3d0f4a)), nil
	case SchemeProbability:
		return withColors([]float64{0.05, 0.2, 0.4, 0.6, 0.8, 0.95}, 0, ramp(0xffffff, 0xbfdceb, 0x5fa3cf, 0x1f5fa6, 0x0b2552)), nil
	case SchemeChange:
		for i, v := range finite {
			finite[i] = math.Abs(v)
		}
		slices.Sort(finite)
		limit := quantile(finite, 0.99)
		bounds := slices.DeleteFunc(niceBounds(-limit, limit, 14), func(b float64) bool { return b == 0 })
		return withColors(bounds, 0, ramp(0x14346e, 0x3f86c0, 0xb5d8ec, 0xffffff, 0xf8c9ae, 0xd65a4a, 0x74122c)), nil
	}
	return scale{}, fmt.Errorf("unknown colour scheme %d", s)
}

// class returns the class of a finite value.
func (s scale) class(v float64) int {
	return sort.Search(len(s.bounds), func(i int) bool { return v < s.bounds[i] })
}

// niceBounds returns ascending multiples of 1, 2, 2.5 or 5 times a power of ten
// that enclose [low, high] with at most n classes between them.
func niceBounds(low, high float64, n int) []float64 {
	if !(high > low) { // a constant field: one class around it
		d := math.Max(math.Abs(low)*1e-3, 1e-6)
		low, high = low-d, low+d
	}
	power := math.Pow(10, math.Floor(math.Log10((high-low)/float64(n))))
	for _, m := range []float64{1, 2, 2.5, 5, 10, 20} {
		step := m * power
		first, last := math.Floor(low/step), math.Ceil(high/step)
		if int(last-first) <= n {
			bounds := make([]float64, 0, n+1)
			for k := first; k <= last; k++ {
				bounds = append(bounds, k*step)
			}
			return bounds
		}
	}
	return []float64{low, high} // not reached: 20*power is above (high-low)/n by a factor of 2 and more
}

func quantile(sorted []float64, q float64) float64 {
	return sorted[int(q*float64(len(sorted)-1))]
}

// ramp returns a function from [0,1] to colours, linear between the given ones (0xRRGGBB).
func ramp(anchors ...uint32) func(float64) color.NRGBA {
	return func(x float64) color.NRGBA {
		x = math.Max(0, math.Min(1, x)) * float64(len(anchors)-1)
		i := min(int(x), len(anchors)-2)
		mix := func(shift uint) uint8 {
			a, b := float64(anchors[i]>>shift&0xff), float64(anchors[i+1]>>shift&0xff)
			return uint8(math.Round(a + (b-a)*(x-float64(i))))
		}
		return color.NRGBA{R: mix(16), G: mix(8), B: mix(0), A: 0xff}
	}
}

// withColors spreads the colours over the classes from number first on.
func withColors(bounds []float64, first int, at func(float64) color.NRGBA) scale {
	s := scale{bounds: bounds, colors: make([]color.NRGBA, len(bounds)+1)}
	for i := range s.colors {
		s.colors[i] = at(float64(i-first) / float64(len(bounds)-first))
	}
	return s
}
