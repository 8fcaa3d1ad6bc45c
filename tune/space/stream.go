package space

import (
	"math"
	"strconv"
)

// Stream is a sequence of random numbers with a name. It is SplitMix64 whose state begins as the 64-bit FNV-1a hash
// of the name: the seed in decimal digits, then each part with a slash before it.
//
// All that is drawn from it uses additions, multiplications, divisions and square roots of IEEE 754 in a fixed order,
// so that another language draws the same values.
type Stream struct{ state uint64 }

// NewStream returns the stream of a seed and a name.
func NewStream(seed int64, parts ...string) *Stream {
	h := uint64(14695981039346656037)
	add := func(text string) {
		for i := range len(text) {
			h = (h ^ uint64(text[i])) * 1099511628211
		}
	}
	add(strconv.FormatInt(seed, 10))
	for _, p := range parts {
		add("/")
		add(p)
	}
	return &Stream{h}
}

// Uint64 returns the next 64 bits.
func (s *Stream) Uint64() uint64 {
	s.state += 0x9e3779b97f4a7c15
	z := s.state
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// Float returns a number in [0, 1): the upper 53 bits of the next 64.
func (s *Stream) Float() float64 { return float64(s.Uint64()>>11) * 0x1p-53 }

// Below returns a whole number in [0, n), for n of 1 to 2^53.
func (s *Stream) Below(n int64) int64 { return min(int64(math.Floor(s.Float()*float64(n))), n-1) }

// Normal returns a number of the standard normal distribution, by the polar method.
func (s *Stream) Normal() float64 {
	for {
		u := float64(2*s.Float()) - 1
		v := float64(2*s.Float()) - 1
		if q := float64(u*u) + float64(v*v); q > 0 && q < 1 {
			return u * math.Sqrt(float64(-2*ln(q))/q)
		}
	}
}

// The conversions to float64 below look idle: they keep the compiler from joining a product and a sum into one
// rounding, which some processors would do and others not.

const (
	ln2High = 6.93147180369123816490e-01 // its last 32 bits are zero: a small multiple of it is exact
	ln2Low  = 1.90821492927058770002e-10
)

// ln is the natural logarithm of x > 0: of its mantissa m in [0.70, 1.42) by the series of atanh((m-1)/(m+1)).
func ln(x float64) float64 {
	m, e := math.Frexp(x)
	if m < math.Sqrt2/2 {
		m, e = m*2, e-1
	}
	s := (m - 1) / (m + 1)
	q := float64(s * s)
	sum := 0.0
	for k := 25; k >= 1; k -= 2 {
		sum = float64(sum*q) + 1/float64(k)
	}
	return float64(float64(e)*ln2High) + (float64(float64(2*s)*sum) + float64(float64(e)*ln2Low))
}

// exp is the exponential of x: of the rest modulo ln 2 by its series.
func exp(x float64) float64 {
	k := math.Floor(x/math.Ln2 + 0.5)
	r := (x - float64(k*ln2High)) - float64(k*ln2Low)
	sum := 1.0
	for i := 18; i >= 1; i-- {
		sum = float64(float64(sum*r)/float64(i)) + 1
	}
	return math.Ldexp(sum, int(k))
}
