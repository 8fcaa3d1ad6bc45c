package fields

import (
	"math"
	"testing"

	"pgregory.net/rapid"
)

var nan = math.NaN()

func TestStatisticsOfSmallFields(t *testing.T) {
	probabilityAbove := func(threshold float64) func(dst, members []float64) error {
		return func(dst, members []float64) error { return ProbabilityInto(dst, members, threshold) }
	}
	tests := []struct {
		name    string
		f       func(dst, members []float64) error
		members []float64
		want    []float64
		err     string
	}{
		{"mean of two members", MeanInto, []float64{1, 10, 3, 30}, []float64{2, 20}, ""},
		{"mean of one member", MeanInto, []float64{1, 10}, []float64{1, 10}, ""},
		{"mean with a missing value", MeanInto, []float64{1, 10, nan, 30}, []float64{nan, 20}, ""},
		{"spread divides by n-1", SpreadInto, []float64{1, 10, 3, 30}, []float64{math.Sqrt2, 10 * math.Sqrt2}, ""},
		{"spread of equal members", SpreadInto, []float64{0.1, 7, 0.1, 7, 0.1, 7}, []float64{0, 0}, ""},
		{"spread of large values", SpreadInto, []float64{1e15 + 1, 1e15, 1e15 + 3, 1e15 + 2}, []float64{math.Sqrt2, math.Sqrt2}, ""},
		{"probability is strict", probabilityAbove(3), []float64{1, 10, 3, 30}, []float64{0, 1}, ""},
		{"probability counts members", probabilityAbove(2), []float64{1, 10, 3, 0}, []float64{0.5, 0.5}, ""},
		{"probability with a missing value", probabilityAbove(2), []float64{1, 10, nan, 0}, []float64{nan, 0.5}, ""},
		{"no threshold", probabilityAbove(nan), []float64{1, 2}, nil, "probability: the threshold is not a number"},
		{"spread of one member", SpreadInto, []float64{1, 10}, nil, "spread: 1 members, need at least 2"},
		{"no members", MeanInto, nil, nil, "mean: 0 members, need at least 1"},
		{"members cut short", MeanInto, []float64{1, 2, 3}, nil, "mean: 3 values do not divide into members of 2 grid points"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dst := make([]float64, 2)
			err := tt.f(dst, tt.members)
			if tt.err != "" {
				if err == nil || err.Error() != tt.err {
					t.Fatalf("error %v, want %s", err, tt.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			for i := range dst {
				if !near(dst[i], tt.want[i], 1e-15) && !(math.IsNaN(dst[i]) && math.IsNaN(tt.want[i])) {
					t.Fatalf("got %v, want %v", dst, tt.want)
				}
			}
		})
	}
}

// A constant added to all members moves the mean by it and leaves the spread.
func TestShiftedMembers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		members := rapid.SliceOfN(rapid.Float64Range(-100, 100), 2, 20).Draw(t, "members")
		shift := float64(rapid.IntRange(-1e6, 1e6).Draw(t, "shift"))
		shifted := make([]float64, len(members))
		for i, v := range members {
			shifted[i] = v + shift
		}
		var m, ms, s, ss [1]float64
		for _, err := range []error{MeanInto(m[:], members), MeanInto(ms[:], shifted), SpreadInto(s[:], members), SpreadInto(ss[:], shifted)} {
			if err != nil {
				t.Fatal(err)
			}
		}
		if math.Abs(ms[0]-m[0]-shift) > 1e-9 || math.Abs(ss[0]-s[0]) > 1e-9 {
			t.Fatalf("mean %g -> %g, spread %g -> %g after a shift of %g", m[0], ms[0], s[0], ss[0], shift)
		}
	})
}

func TestAreaMean(t *testing.T) {
	g := Grid{Lat: []float64{60, 0, -60}, Lon: []float64{0, 180}}
	tests := []struct {
		name string
		x    []float64
		want float64
	}{
		{"constant", []float64{5, 5, 5, 5, 5, 5}, 5},
		{"rows weigh by cosine", []float64{1, 1, 0, 0, 0, 0}, 0.25},
		{"missing values are left out", []float64{nan, nan, 3, nan, 0, nan}, 2},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got, err := g.AreaMean(tt.x); err != nil || !near(got, tt.want, 1e-14) {
				t.Fatalf("got %g, %v, want %g", got, err, tt.want)
			}
		})
	}
	if _, err := g.AreaMean(make([]float64, 5)); err == nil {
		t.Fatal("no error for a field of another size")
	}
}

func near(got, want, tolerance float64) bool {
	return math.Abs(got-want) <= tolerance*math.Max(1, math.Abs(want))
}
