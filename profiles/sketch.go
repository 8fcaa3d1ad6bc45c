package profiles

import (
	"cmp"
	"math"
	"slices"
)

// Sketch is a histogram with buckets of equal ratio, from which quantiles are read
// that are off by at most 5 %: DDSketch (Masson, Rim and Lee, DDSketch: a fast and
// fully-mergeable quantile sketch with relative-error guarantees, VLDB 2019). Values
// older than a window fade. It has at most 64 buckets; beyond that the smallest
// are joined, as there. The zero value is empty.
type Sketch struct{ bins []bin }

type bin struct {
	key    int16
	weight float32
}

const (
	ratio    = 1.1
	logRatio = 0.09531017980432493 // its logarithm, which the compiler does not know
	maxBins  = 64
	least    = 1e-9 // what is less counts as this
	lowest   = -217 // its key: ceil(log(least) / log(ratio))
	faded    = 1e-3 // a weight that is dropped
)

// add counts one value, with those before at most n-1 times as heavy as it.
func (s *Sketch) add(x float64, n float64) {
	if s.total() > n-1 {
		fade, kept := float32((n-1)/n), s.bins[:0]
		for _, b := range s.bins {
			if b.weight *= fade; b.weight >= faded {
				kept = append(kept, b)
			}
		}
		s.bins = kept
	}
	key := int16(lowest)
	if x > least {
		key = int16(min(math.Ceil(math.Log(x)/logRatio), math.MaxInt16))
	}
	i, found := slices.BinarySearchFunc(s.bins, key, func(b bin, k int16) int { return cmp.Compare(b.key, k) })
	if !found {
		s.bins = slices.Insert(s.bins, i, bin{key: key})
	}
	s.bins[i].weight++
	if len(s.bins) > maxBins {
		s.bins[1].weight += s.bins[0].weight
		s.bins = slices.Delete(s.bins, 0, 1)
	}
}

func (s *Sketch) total() (t float64) {
	for _, b := range s.bins {
		t += float64(b.weight)
	}
	return t
}

// scale makes all weights together no more than n.
func (s *Sketch) scale(n float64) {
	if t := s.total(); t > n {
		for i := range s.bins {
			s.bins[i].weight *= float32(n / t)
		}
	}
}

func (s *Sketch) clone() Sketch { return Sketch{slices.Clone(s.bins)} }

// Quantile returns what a part q, 0 to 1, of the values does not exceed; 0 of none.
func (s Sketch) Quantile(q float64) float64 {
	rank, sum := q*s.total(), 0.0
	for i, b := range s.bins {
		if sum += float64(b.weight); sum >= rank || i == len(s.bins)-1 {
			if b.key == lowest {
				return 0
			}
			return 2 * math.Pow(ratio, float64(b.key)) / (1 + ratio)
		}
	}
	return 0
}
