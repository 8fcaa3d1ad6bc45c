package fields

import (
	"bytes"
	"image/color"
	"image/png"
	"math"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestNiceBounds(t *testing.T) {
	tests := []struct {
		low, high float64
		n         int
		want      []float64
	}{
		{238.9, 305.2, 8, []float64{230, 240, 250, 260, 270, 280, 290, 300, 310}},
		{0, 0.9, 5, []float64{0, 0.2, 0.4, 0.6, 0.8, 1}},
		{-3, 3, 4, []float64{-4, -2, 0, 2, 4}},
		{0, 1, 10, []float64{0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1}},
		{1000, 1000, 4, []float64{999, 999.5, 1000, 1000.5, 1001}},
	}
	for _, tt := range tests {
		got := niceBounds(tt.low, tt.high, tt.n)
		if !slices.EqualFunc(got, tt.want, func(a, b float64) bool { return near(a, b, 1e-12) }) {
			t.Errorf("niceBounds(%g, %g, %d) = %v, want %v", tt.low, tt.high, tt.n, got, tt.want)
		}
	}
}

func TestNiceBoundsEnclose(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		low := rapid.Float64Range(-1e6, 1e6).Draw(t, "low")
		high := low + rapid.Float64Range(1e-3, 1e6).Draw(t, "width")
		n := rapid.IntRange(2, 20).Draw(t, "n")
		b := niceBounds(low, high, n)
		ulp := 1e-12 * math.Max(math.Abs(low), math.Abs(high))
		if b[0] > low+ulp || b[len(b)-1] < high-ulp || len(b) > n+1 || len(b) < 2 || !slices.IsSorted(b) {
			t.Fatalf("bounds %v of [%g, %g] in %d classes", b, low, high, n)
		}
	})
}

// Where the picture's inner area lies; the frame is at its edge.
const mapLeft, mapRight, mapTop, mapBottom = 63, 971, 50, 543

// The north is warm, the south cold, and one quarter of the globe around 90 east
// is missing; each has to be where it belongs in the picture.
func TestDrawMapPlacesValues(t *testing.T) {
	grid := openArchive(t).Grid
	values := make([]float64, grid.Points())
	for r, lat := range grid.Lat {
		for c, lon := range grid.Lon {
			v := lat
			if lon > 45 && lon < 135 {
				v = math.NaN()
			}
			values[r*len(grid.Lon)+c] = v
		}
	}
	given := slices.Clone(values)
	var out, again bytes.Buffer
	m := Map{Title: "latitude", Units: "degrees", Source: "test", Scheme: SchemeMean, Grid: grid, Values: values}
	if err := m.WritePNG(&out); err != nil {
		t.Fatal(err)
	}
	if err := m.WritePNG(&again); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(out.Bytes(), again.Bytes()) {
		t.Error("the same map drawn twice differs")
	}
	if !slices.EqualFunc(values, given, func(a, b float64) bool { return a == b || math.IsNaN(a) && math.IsNaN(b) }) {
		t.Error("drawing changed its input")
	}
	img, err := png.Decode(&out)
	if err != nil {
		t.Fatal(err)
	}
	if b := img.Bounds(); b.Dx() != 1100 || b.Dy() != 600 {
		t.Fatalf("picture of %d x %d, want 1100 x 600", b.Dx(), b.Dy())
	}
	s, err := newScale(SchemeMean, values)
	if err != nil {
		t.Fatal(err)
	}
	colorAt := func(lat, lon float64) color.NRGBA {
		x := mapLeft + (lon+180)/360*(mapRight-mapLeft)
		y := mapTop + (90-lat)/180*(mapBottom-mapTop)
		return color.NRGBAModel.Convert(img.At(int(x), int(y))).(color.NRGBA)
	}
	for _, lat := range []float64{75, 35, -35, -75} { // in the middle of classes of 10 degrees
		for _, lon := range []float64{-165, -75, 15, 165} {
			if got, want := colorAt(lat, lon), s.colors[s.class(lat)]; got != want {
				t.Errorf("at %g, %g: colour %v, want %v", lat, lon, got, want)
			}
		}
	}
	if got, want := colorAt(35, 105), (color.NRGBA{R: 0xb0, G: 0xb0, B: 0xb0, A: 0xff}); got != want {
		t.Errorf("missing values: colour %v, want %v", got, want)
	}
}

func TestDrawMapRefuses(t *testing.T) {
	grid := openArchive(t).Grid
	values := make([]float64, grid.Points())
	missing := slices.Repeat([]float64{math.NaN()}, grid.Points())
	part := Grid{Lat: []float64{50, 40}, Lon: []float64{0, 10}}
	tests := []struct {
		name string
		m    Map
		want string
	}{
		{"short", Map{Grid: grid, Values: values[1:], Scheme: SchemeMean}, "7319 values on a grid of 61 x 120 points"},
		{"part of the globe", Map{Grid: part, Values: values[:4], Scheme: SchemeMean}, "the grid is not global"},
		{"all missing", Map{Grid: grid, Values: missing, Scheme: SchemeMean}, "no finite value to draw"},
		{"no scheme", Map{Grid: grid, Values: values}, "unknown colour scheme 0"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var out bytes.Buffer
			tt.m.Title = "x"
			err := tt.m.WritePNG(&out)
			if err == nil || !strings.Contains(err.Error(), tt.want) || !strings.HasPrefix(err.Error(), `draw map "x": `) {
				t.Fatalf("error %v, want %q", err, tt.want)
			}
			if out.Len() > 0 {
				t.Fatal("something was written all the same")
			}
		})
	}
}

// A field without any variation still has classes and a picture, in each scheme.
func TestDrawConstantField(t *testing.T) {
	grid := openArchive(t).Grid
	for _, s := range []Scheme{SchemeMean, SchemeSpread, SchemeProbability, SchemeChange} {
		if err := (Map{Scheme: s, Grid: grid, Values: make([]float64, grid.Points())}).WritePNG(&bytes.Buffer{}); err != nil {
			t.Errorf("scheme %d: %v", s, err)
		}
	}
}
