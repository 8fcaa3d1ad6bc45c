package fields

import (
	"fmt"
	"math"
)

// Grid is a regular latitude-longitude grid in degrees.
type Grid struct {
	Lat []float64 `json:"lat"` // of the rows, north to south
	Lon []float64 `json:"lon"` // of the columns, eastwards from 0
}

// Points returns the number of grid points.
func (g Grid) Points() int { return len(g.Lat) * len(g.Lon) }

// AreaMean returns the mean of x, one value for each grid point, weighted by the
// cosine of latitude. Missing values are left out; the mean of none is NaN.
func (g Grid) AreaMean(x []float64) (float64, error) {
	if len(x) != g.Points() {
		return 0, fmt.Errorf("area mean: %d values on a grid of %d x %d points", len(x), len(g.Lat), len(g.Lon))
	}
	var sum, weight float64
	for i, lat := range g.Lat {
		// Summing row by row keeps the partial sums small and the rounding error with them.
		var row float64
		var n int
		for _, v := range x[i*len(g.Lon) : (i+1)*len(g.Lon)] {
			if !math.IsNaN(v) {
				row += v
				n++
			}
		}
		w := math.Cos(lat * math.Pi / 180)
		sum += w * row
		weight += w * float64(n)
	}
	return sum / weight, nil
}
