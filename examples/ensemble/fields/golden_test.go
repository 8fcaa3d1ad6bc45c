package fields

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"slices"
	"testing"
	"time"
)

// golden is ../testdata/golden.json, computed from the GRIB file by
// ../derive/golden.py, which shares no code and no data file with this package.
type golden struct {
	Points     [][2]int
	Statistics []struct {
		Time                      time.Time
		Level                     int
		Field                     string
		Threshold                 float64
		Mean, Spread, Probability summary
	}
	Steps []struct {
		Level            int
		Field            string
		From, To         time.Time
		MeanChange       float64   `json:"mean_change"`
		MeanChangeRMS    float64   `json:"mean_change_rms"`
		SpreadChange     float64   `json:"spread_change"`
		SpreadChangeRMS  float64   `json:"spread_change_rms"`
		MeanChangePoints []float64 `json:"mean_change_points"`
	}
}

type summary struct {
	AreaMean      float64 `json:"area_mean"`
	Sum, Min, Max float64
	Points        []float64
}

// tolerance is relative to the field's values: both sides compute in float64 but
// in different order, and differ by a few units of the last of 16 digits.
const tolerance = 1e-13

func TestStatisticsMatchGolden(t *testing.T) {
	want, archive := readGolden(t), openArchive(t)
	for _, w := range want.Statistics {
		t.Run(fmt.Sprintf("%s %d %s", w.Time.Format("2006-01-02T15"), w.Level, w.Field), func(t *testing.T) {
			members := loadMembers(t, archive, w.Time, w.Level, w.Field)
			got := make([]float64, archive.Points())
			size := w.Mean.Max
			check := func(what string, err error, want2 summary) {
				t.Helper()
				if err != nil {
					t.Fatal(err)
				}
				compareSummary(t, what, archive.Grid, want.Points, got, want2, size)
			}
			check("mean", MeanInto(got, members), w.Mean)
			check("spread", SpreadInto(got, members), w.Spread)
			size = 1
			check("probability", ProbabilityInto(got, members, w.Threshold), w.Probability)
		})
	}
}

func TestStepsMatchGolden(t *testing.T) {
	want, archive := readGolden(t), openArchive(t)
	for _, w := range want.Steps {
		t.Run(fmt.Sprintf("%s %d %s", w.To.Format("2006-01-02T15"), w.Level, w.Field), func(t *testing.T) {
			var means, spreads [][]float64
			for _, at := range []time.Time{w.From, w.To} {
				members := loadMembers(t, archive, at, w.Level, w.Field)
				mean, spread := make([]float64, archive.Points()), make([]float64, archive.Points())
				if err := MeanInto(mean, members); err != nil {
					t.Fatal(err)
				}
				if err := SpreadInto(spread, members); err != nil {
					t.Fatal(err)
				}
				means, spreads = append(means, mean), append(spreads, spread)
			}
			changes, err := CompareSteps(archive.Grid, means, spreads)
			if err != nil {
				t.Fatal(err)
			}
			size := slices.Max(means[0])
			sameNumber(t, "mean change", changes[0].Mean, w.MeanChange, size)
			sameNumber(t, "mean change rms", changes[0].MeanRMS, w.MeanChangeRMS, size)
			sameNumber(t, "spread change", changes[0].Spread, w.SpreadChange, size)
			sameNumber(t, "spread change rms", changes[0].SpreadRMS, w.SpreadChangeRMS, size)

			diff := make([]float64, archive.Points())
			if err := Difference(diff, means[0], means[1]); err != nil {
				t.Fatal(err)
			}
			for i, p := range want.Points {
				sameNumber(t, fmt.Sprint("mean change at ", p), diff[p[0]*len(archive.Lon)+p[1]], w.MeanChangePoints[i], size)
			}
		})
	}
}

func TestCompareStepsRefuses(t *testing.T) {
	g := Grid{Lat: []float64{0}, Lon: []float64{0, 180}}
	one, short := []float64{1, 2}, []float64{1}
	tests := []struct {
		name           string
		means, spreads [][]float64
		want           string
	}{
		{"one step", [][]float64{one}, [][]float64{one}, "compare steps: 1 steps, need at least 2"},
		{"unequal lists", [][]float64{one, one}, [][]float64{one}, "compare steps: 2 means and 1 spreads"},
		{"short field", [][]float64{one, one}, [][]float64{one, short}, "compare spread of steps 0 and 1: difference: 2 and 1 values for 2 grid points"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if _, err := CompareSteps(g, tt.means, tt.spreads); err == nil || err.Error() != tt.want {
				t.Fatalf("error %v, want %s", err, tt.want)
			}
		})
	}
}

func compareSummary(t *testing.T, what string, g Grid, points [][2]int, got []float64, want summary, size float64) {
	t.Helper()
	mean, err := g.AreaMean(got)
	if err != nil {
		t.Fatal(err)
	}
	sameNumber(t, what+" area mean", mean, want.AreaMean, size)
	var sum float64
	for _, v := range got {
		sum += v
	}
	sameNumber(t, what+" sum", sum, want.Sum, size*float64(len(got)))
	sameNumber(t, what+" min", slices.Min(got), want.Min, size)
	sameNumber(t, what+" max", slices.Max(got), want.Max, size)
	for i, p := range points {
		sameNumber(t, fmt.Sprint(what, " at ", p), got[p[0]*len(g.Lon)+p[1]], want.Points[i], size)
	}
}

func sameNumber(t *testing.T, what string, got, want, size float64) {
	t.Helper()
	if !(math.Abs(got-want) <= tolerance*size) { // also catches NaN
		t.Errorf("%s: got %.17g, want %.17g, differ by %.1e", what, got, want, got-want)
	}
}

func loadMembers(t *testing.T, a *Archive, at time.Time, level int, field string) []float64 {
	t.Helper()
	step := make([]float64, a.StepLen())
	if err := a.Step(step, slices.IndexFunc(a.Times, at.Equal)); err != nil {
		t.Fatal(err)
	}
	members, err := a.Select(step, level, field)
	if err != nil {
		t.Fatal(err)
	}
	return members
}

func readGolden(t *testing.T) golden {
	t.Helper()
	raw, err := os.ReadFile("../testdata/golden.json")
	if err != nil {
		t.Fatal(err)
	}
	var g golden
	if err := json.Unmarshal(raw, &g); err != nil {
		t.Fatal(err)
	}
	if len(g.Statistics) != 16 || len(g.Steps) != 12 {
		t.Fatalf("%d statistics and %d steps, want 16 and 12", len(g.Statistics), len(g.Steps))
	}
	return g
}

func openArchive(t testing.TB) *Archive {
	t.Helper()
	a, err := Open("../data/era5-ensemble.npy")
	if err != nil {
		t.Fatal(err)
	}
	return a
}
