package fields

import (
	"fmt"
	"math"
)

// MeanInto writes the mean over the members of each grid point to dst. members has
// the shape [member][point] with len(dst) points.
//
// It sums differences to the first member: members of geopotential agree in
// their first three or four digits, which would otherwise be lost in the sum.
func MeanInto(dst, members []float64) error {
	n, err := memberCount("mean", dst, members, 1)
	if err != nil {
		return err
	}
	for p, first := range members[:len(dst)] {
		var sum float64
		for m := 1; m < n; m++ {
			sum += members[m*len(dst)+p] - first
		}
		dst[p] = first + sum/float64(n)
	}
	return nil
}

// SpreadInto writes the standard deviation over the members of each grid point to
// dst: the root of the unbiased variance, divisor members-1 (numpy's ddof=1).
// It needs at least two members.
//
// Two passes over differences to the first member, with the correction for the
// rounding of the mean: Chan, Golub and LeVeque, "Algorithms for computing the
// sample variance", The American Statistician 37 (1983), equation 1.7.
func SpreadInto(dst, members []float64) error {
	n, err := memberCount("spread", dst, members, 2)
	if err != nil {
		return err
	}
	for p, first := range members[:len(dst)] {
		var sum float64
		for m := 1; m < n; m++ {
			sum += members[m*len(dst)+p] - first
		}
		mean := sum / float64(n)
		var squares, rest float64
		for m := range n {
			d := members[m*len(dst)+p] - first - mean
			squares += d * d
			rest += d
		}
		dst[p] = math.Sqrt((squares - rest*rest/float64(n)) / float64(n-1))
	}
	return nil
}

// ProbabilityInto writes the share of members that are strictly above the threshold
// to dst, from 0 to 1. The threshold has the unit of the field.
func ProbabilityInto(dst, members []float64, threshold float64) error {
	n, err := memberCount("probability", dst, members, 1)
	if err != nil {
		return err
	}
	if math.IsNaN(threshold) {
		return fmt.Errorf("probability: the threshold is not a number")
	}
	for p := range dst {
		var above int
		var missing bool
		for m := range n {
			v := members[m*len(dst)+p]
			missing = missing || math.IsNaN(v)
			if v > threshold {
				above++
			}
		}
		dst[p] = float64(above) / float64(n)
		if missing {
			dst[p] = math.NaN()
		}
	}
	return nil
}

func memberCount(what string, dst, members []float64, least int) (int, error) {
	if len(dst) == 0 || len(members)%len(dst) != 0 {
		return 0, fmt.Errorf("%s: %d values do not divide into members of %d grid points", what, len(members), len(dst))
	}
	n := len(members) / len(dst)
	if n < least {
		return 0, fmt.Errorf("%s: %d members, need at least %d", what, n, least)
	}
	return n, nil
}
